//! The life of sandboxes.

use sandbox_core::provider as core;
use sandbox_core::{Descriptor, Generation, Platform, Result, SandboxId, Verb};

use super::policy::{
    decode_env, decode_guarantees, decode_reports, encode_env, encode_guarantees, encode_network,
    encode_reports, network_as_told,
};
use super::value::{absolute, encode_json, encode_path, sandbox_id};
use super::{Invalid, Mirror, Target, Within, each, milliseconds, mirror};
use crate::message::handshake::CapabilityTree;
use crate::message::lifecycle as wire;
use crate::message::policy::Policy;
use crate::message::value::Meta;

/// Largest `data` of a captured state, in bytes.
const MAX_STATE_BYTES: usize = 16 * 1024;

mirror! {
    wire::Disposition = core::Disposition { Keep, Destroy }
}

impl wire::AcquireSpec {
    /// The wire form.
    #[must_use]
    pub fn encode(spec: &core::AcquireSpec) -> Self {
        Self {
            sandbox: spec.id.to_string(),
            labels: spec.labels.clone(),
            root: spec.root.clone(),
            template: spec.template.clone(),
            policy: Policy::encode(&spec.policy),
            lease_ms: spec.lease.map(milliseconds),
            linger_ms: spec.linger.map(milliseconds),
            options: spec.options.as_deref().map(encode_json),
        }
    }

    fn decode(self) -> Result<core::AcquireSpec, Invalid> {
        Ok(core::AcquireSpec {
            id: sandbox_id(&self.sandbox).within("sandbox")?,
            labels: self.labels,
            root: self.root,
            template: self.template,
            policy: self.policy.decode().within("policy")?,
            lease: self.lease_ms.map(std::time::Duration::from_millis),
            linger: self.linger_ms.map(std::time::Duration::from_millis),
            options: self.options.map(|options| options.get().to_owned()),
        })
    }
}

impl wire::ProbeParams {
    /// The wire form.
    #[must_use]
    pub fn encode(spec: &core::AcquireSpec, meta: Option<Meta>) -> Self {
        let spec = wire::AcquireSpec::encode(spec);
        Self { spec, meta }
    }

    /// The spec.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<core::AcquireSpec> {
        let spec = self.spec.decode().within("spec");
        spec.map_err(|invalid| invalid.refuse(Verb::Probe))
    }
}

impl wire::ProbeResult {
    /// The wire form.
    #[must_use]
    pub fn encode(probe: core::Probe) -> Self {
        let verdict = match probe {
            core::Probe::Works { notes } => wire::ProbeVerdict::Works(wire::ProbeWorks { notes }),
            core::Probe::Fails { reason, remedy } => {
                wire::ProbeVerdict::Fails(wire::ProbeFails { reason, remedy })
            }
        };
        Self { verdict }
    }

    /// The verdict. One that is not known is no promise that it would work.
    #[must_use]
    pub fn decode(self) -> core::Probe {
        match self.verdict {
            wire::ProbeVerdict::Works(wire::ProbeWorks { notes }) => core::Probe::Works { notes },
            wire::ProbeVerdict::Fails(wire::ProbeFails { reason, remedy }) => {
                core::Probe::Fails { reason, remedy }
            }
            wire::ProbeVerdict::Unknown(name) => core::Probe::Fails {
                reason: format!("the provider answered `{name}`, which this version does not know"),
                remedy: "update this host, or use an older version of the provider".into(),
            },
        }
    }
}

impl wire::AcquireParams {
    /// The wire form.
    #[must_use]
    pub fn encode(spec: &core::AcquireSpec, meta: Option<Meta>) -> Self {
        let spec = wire::AcquireSpec::encode(spec);
        Self { spec, meta }
    }

    /// The spec.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<core::AcquireSpec> {
        let spec = self.spec.decode().within("spec");
        spec.map_err(|invalid| invalid.refuse(Verb::Acquire))
    }
}

impl wire::SandboxResult {
    /// The wire form.
    #[must_use]
    pub fn encode(descriptor: Descriptor) -> Self {
        let Descriptor {
            location,
            provider,
            id,
            generation,
            platform: Platform { os, arch },
            root,
            home,
            shell,
            network,
            guarantees,
            limits,
            capabilities,
            notes,
        } = descriptor;
        Self {
            descriptor: wire::Descriptor {
                sandbox: id.to_string(),
                generation: generation.0,
                location,
                provider,
                platform: wire::Platform { os, arch },
                root: encode_path(&root),
                home: home.as_ref().map(encode_path),
                shell: shell.as_ref().map(encode_path),
                network: encode_network(&network),
                guarantees: encode_guarantees(guarantees),
                limits: encode_reports(limits),
                capabilities: CapabilityTree::encode(&capabilities),
                notes,
            },
        }
    }

    /// The descriptor; `verb` is what was asked for.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self, verb: Verb) -> Result<Descriptor> {
        let descriptor = self.descriptor.decode().within("descriptor");
        descriptor.map_err(|invalid| invalid.broken(verb))
    }
}

impl wire::Descriptor {
    fn decode(self) -> Result<Descriptor, Invalid> {
        Ok(Descriptor {
            location: self.location,
            provider: self.provider,
            id: sandbox_id(&self.sandbox).within("sandbox")?,
            generation: Generation(self.generation),
            platform: Platform {
                os: self.platform.os,
                arch: self.platform.arch,
            },
            root: absolute(self.root).within("root")?,
            home: self.home.map(absolute).transpose().within("home")?,
            shell: self.shell.map(absolute).transpose().within("shell")?,
            network: network_as_told(self.network),
            guarantees: decode_guarantees(self.guarantees),
            limits: decode_reports(self.limits),
            capabilities: self.capabilities.decode(),
            notes: self.notes,
        })
    }
}

impl wire::SandboxState {
    fn encode(state: &core::SandboxState) -> Self {
        Self {
            provider: state.provider.clone(),
            sandbox: state.id.to_string(),
            generation: state.generation.0,
            data: encode_json(&state.data),
        }
    }

    fn decode(self) -> Result<core::SandboxState, Invalid> {
        let data = self.data.get();
        if data.len() > MAX_STATE_BYTES {
            return Err(Invalid::new(format_args!(
                "the state has {} bytes, more than {MAX_STATE_BYTES}",
                data.len()
            )))
            .within("data");
        }
        Ok(core::SandboxState {
            provider: self.provider,
            id: sandbox_id(&self.sandbox).within("sandbox")?,
            generation: Generation(self.generation),
            data: data.to_owned(),
        })
    }
}

impl wire::AttachParams {
    /// The wire form.
    #[must_use]
    pub fn encode(state: &core::SandboxState, meta: Option<Meta>) -> Self {
        let state = wire::SandboxState::encode(state);
        Self { state, meta }
    }

    /// The state.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<core::SandboxState> {
        let state = self.state.decode().within("state");
        state.map_err(|invalid| invalid.refuse(Verb::Attach))
    }
}

impl wire::CaptureStateParams {
    /// The wire form.
    #[must_use]
    pub fn encode(target: &Target) -> Self {
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            meta: target.meta.clone(),
        }
    }
}

impl wire::CaptureStateResult {
    /// The wire form.
    #[must_use]
    pub fn encode(state: &core::SandboxState) -> Self {
        let state = wire::SandboxState::encode(state);
        Self { state }
    }

    /// The state.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self) -> Result<core::SandboxState> {
        let state = self.state.decode().within("state");
        state.map_err(|invalid| invalid.broken(Verb::CaptureState))
    }
}

impl wire::ReleaseParams {
    /// The wire form.
    #[must_use]
    pub fn encode(id: &SandboxId, disposition: core::Disposition, meta: Option<Meta>) -> Self {
        Self {
            sandbox: id.to_string(),
            disposition: disposition.into(),
            meta,
        }
    }

    /// The sandbox, and what is asked to become of its files.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<(SandboxId, core::Disposition)> {
        let decode = || {
            let id = sandbox_id(&self.sandbox).within("sandbox")?;
            Ok((id, self.disposition.decode().within("disposition")?))
        };
        decode().map_err(|invalid: Invalid| invalid.refuse(Verb::Release))
    }
}

impl From<core::ReleaseReceipt> for wire::ReleaseResult {
    fn from(receipt: core::ReleaseReceipt) -> Self {
        Self {
            existed: receipt.existed,
            disposition: receipt.disposition.into(),
        }
    }
}

impl From<wire::ReleaseResult> for core::ReleaseReceipt {
    /// What became of the files, if it is not known, is that they are kept: so nobody counts on their removal.
    fn from(result: wire::ReleaseResult) -> Self {
        Self {
            existed: result.existed,
            disposition: result.disposition.decode_or(core::Disposition::Keep),
        }
    }
}

impl wire::ListParams {
    /// The wire form.
    #[must_use]
    pub fn encode(options: Option<&str>, meta: Option<Meta>) -> Self {
        Self {
            options: options.map(encode_json),
            meta,
        }
    }

    /// The options.
    #[must_use]
    pub fn decode(self) -> Option<String> {
        self.options.map(|options| options.get().to_owned())
    }
}

impl wire::ListResult {
    /// The wire form.
    #[must_use]
    pub fn encode(entries: Vec<core::SandboxEntry>) -> Self {
        let encode = |entry: core::SandboxEntry| wire::SandboxEntry {
            sandbox: entry.id.to_string(),
            labels: entry.labels,
            running: entry.running,
            claim: entry.claim.into(),
            detail: entry.detail,
        };
        Self {
            sandboxes: entries.into_iter().map(encode).collect(),
        }
    }

    /// The sandboxes.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self) -> Result<Vec<core::SandboxEntry>> {
        each(self.sandboxes, "sandboxes", |entry| {
            Ok(core::SandboxEntry {
                id: sandbox_id(&entry.sandbox).within("sandbox")?,
                labels: entry.labels,
                running: entry.running,
                claim: entry.claim.into(),
                detail: entry.detail,
            })
        })
        .map_err(|invalid| invalid.broken(Verb::List))
    }
}

impl From<core::Claim> for wire::Claim {
    fn from(claim: core::Claim) -> Self {
        match claim {
            core::Claim::Held => Self::Held,
            core::Claim::Used => Self::Used,
            core::Claim::Kept => Self::Kept,
            core::Claim::Abandoned => Self::Abandoned,
            core::Claim::Unclear => Self::Unclear,
        }
    }
}

impl From<wire::Claim> for core::Claim {
    /// One that is not known is nothing to act on.
    fn from(claim: wire::Claim) -> Self {
        match claim {
            wire::Claim::Held => Self::Held,
            wire::Claim::Used => Self::Used,
            wire::Claim::Kept => Self::Kept,
            wire::Claim::Abandoned => Self::Abandoned,
            wire::Claim::Unclear | wire::Claim::Unknown(_) => Self::Unclear,
        }
    }
}

impl wire::PrepareParams {
    /// The wire form.
    #[must_use]
    pub fn encode(template: &core::TemplateSpec, meta: Option<Meta>) -> Self {
        Self {
            template: wire::TemplateSpec {
                name: template.name.clone(),
                options: template.options.as_deref().map(encode_json),
            },
            meta,
        }
    }

    /// The recipe.
    #[must_use]
    pub fn decode(self) -> core::TemplateSpec {
        core::TemplateSpec {
            name: self.template.name,
            options: self
                .template
                .options
                .map(|options| options.get().to_owned()),
        }
    }
}

impl From<core::TemplateReceipt> for wire::PrepareResult {
    fn from(receipt: core::TemplateReceipt) -> Self {
        Self {
            key: receipt.key,
            reused: receipt.reused,
        }
    }
}

impl From<wire::PrepareResult> for core::TemplateReceipt {
    fn from(result: wire::PrepareResult) -> Self {
        Self {
            key: result.key,
            reused: result.reused,
        }
    }
}

impl wire::UpdateParams {
    /// The wire form.
    #[must_use]
    pub fn encode(id: &SandboxId, update: &core::Update, meta: Option<Meta>) -> Self {
        Self {
            sandbox: id.to_string(),
            env: encode_env(&update.env),
            policy: update.policy.as_ref().map(Policy::encode),
            meta,
        }
    }

    /// The sandbox, and the changes.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<(SandboxId, core::Update)> {
        let decode = || {
            let update = core::Update {
                env: each(self.env, "env", decode_env)?,
                policy: self
                    .policy
                    .map(Policy::decode)
                    .transpose()
                    .within("policy")?,
            };
            Ok((sandbox_id(&self.sandbox).within("sandbox")?, update))
        };
        decode().map_err(|invalid: Invalid| invalid.refuse(Verb::Update))
    }
}
