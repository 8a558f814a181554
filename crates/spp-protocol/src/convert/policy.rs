//! Policy, environment, restrictions, limits.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use sandbox_core::SandboxPath;
use sandbox_core::policy as core;

use super::value::{absolute, encode_path};
use super::{Invalid, Mirror, Within, each, integer, mirror};
use crate::message::policy as wire;
use crate::message::value::Octets;

mirror! {
    wire::Restriction = core::Restriction { NetworkDenied, WriteContained, ProcessContained, SecretsHidden }
    wire::LimitKind = core::LimitKind { Memory, Processes, Cpu, OpenFiles, FileSize, Disk, WallTime, Concurrency }
    wire::Strength = core::Strength { Required, BestEffort }
    wire::EnforcedBy = core::EnforcedBy { Cgroup1, Cgroup2, Container, Rlimit, Poll, Engine, None }
}

impl wire::Policy {
    pub(crate) fn encode(policy: &core::Policy) -> Self {
        Self {
            network: policy.network.as_ref().map(encode_network),
            mounts: policy
                .mounts
                .iter()
                .map(|mount| wire::Mount {
                    host: Some(Octets::new(mount.host.as_os_str().as_bytes())),
                    sandbox: encode_path(&mount.sandbox),
                    access: match mount.access {
                        core::MountAccess::ReadOnly => wire::MountAccess::ReadOnly,
                        core::MountAccess::ReadWrite => wire::MountAccess::ReadWrite,
                    },
                })
                .chain(policy.hidden.iter().map(|hidden| wire::Mount {
                    host: None,
                    sandbox: encode_path(hidden),
                    access: wire::MountAccess::Hidden,
                }))
                .collect(),
            env: wire::EnvPolicy {
                inherit: policy.env.inherit.as_ref().map(|inherit| match inherit {
                    core::EnvInherit::All => wire::EnvInherit::All,
                    core::EnvInherit::Nothing => wire::EnvInherit::Nothing,
                    core::EnvInherit::Names(names) => wire::EnvInherit::Names(names.clone()),
                }),
                changes: encode_env(&policy.env.changes),
            },
            require: policy.require.iter().copied().map(Into::into).collect(),
            prefer: policy.prefer.iter().copied().map(Into::into).collect(),
            limits: policy
                .limits
                .iter()
                .map(|(kind, limit)| {
                    let limit = wire::Limit {
                        value: integer(limit.value),
                        strength: limit.strength.into(),
                    };
                    (limit_name(*kind), limit)
                })
                .collect(),
        }
    }

    pub(crate) fn decode(self) -> Result<core::Policy, Invalid> {
        let inherit = self.env.inherit.map(decode_inherit).transpose();
        let limits = self.limits.into_iter().map(|(name, limit)| {
            let decode = || {
                let kind = kind_of_limit(&name)
                    .ok_or_else(|| Invalid::new("this kind of limit is not known here"))?;
                let strength = limit.strength.decode().within("strength")?;
                let value = limit.value;
                Ok((kind, core::Limit { value, strength }))
            };
            decode().within(&name)
        });
        let (mut mounts, mut hidden) = (Vec::new(), BTreeSet::new());
        for shown in each(self.mounts, "mounts", decode_mount)? {
            match shown {
                Shown::Mount(mount) => mounts.push(mount),
                Shown::Not(path) => drop(hidden.insert(path)),
            }
        }
        Ok(core::Policy {
            network: self
                .network
                .map(decode_network)
                .transpose()
                .within("network")?,
            mounts,
            hidden,
            env: core::EnvPolicy {
                inherit: inherit.within("inherit").within("env")?,
                changes: each(self.env.changes, "changes", decode_env).within("env")?,
            },
            require: each(self.require, "require", |restriction| restriction.decode())?
                .into_iter()
                .collect::<BTreeSet<_>>(),
            prefer: each(self.prefer, "prefer", |restriction| restriction.decode())?
                .into_iter()
                .collect::<BTreeSet<_>>(),
            limits: limits
                .collect::<Result<BTreeMap<_, _>, _>>()
                .within("limits")?,
        })
    }
}

pub(crate) fn encode_network(network: &core::Network) -> wire::Network {
    match network {
        core::Network::None => wire::Network::None,
        core::Network::Allow(origins) => wire::Network::Allow(origins.clone()),
        core::Network::Open => wire::Network::Open,
    }
}

fn decode_network(network: wire::Network) -> Result<core::Network, Invalid> {
    match network {
        wire::Network::Unknown(name) => {
            Err(Invalid::new(format_args!("`{name}` is not known here")))
        }
        known => Ok(network_as_told(known)),
    }
}

/// For a descriptor: a network that is not known may reach anything.
pub(crate) fn network_as_told(network: wire::Network) -> core::Network {
    match network {
        wire::Network::None => core::Network::None,
        wire::Network::Allow(origins) => core::Network::Allow(origins),
        wire::Network::Open | wire::Network::Unknown(_) => core::Network::Open,
    }
}

/// What one entry of the mounts means.
enum Shown {
    Mount(core::Mount),
    Not(SandboxPath),
}

fn decode_mount(mount: wire::Mount) -> Result<Shown, Invalid> {
    let sandbox = absolute(mount.sandbox).within("sandbox")?;
    let access = match (mount.access, &mount.host) {
        (wire::MountAccess::ReadOnly, _) => core::MountAccess::ReadOnly,
        (wire::MountAccess::ReadWrite, _) => core::MountAccess::ReadWrite,
        (wire::MountAccess::Hidden, None) => return Ok(Shown::Not(sandbox)),
        (wire::MountAccess::Hidden, Some(_)) => {
            return Err(Invalid::new("what is hidden is nothing of the host")).within("host");
        }
        (wire::MountAccess::Unknown(name), _) => {
            return Err(Invalid::new(format_args!("`{name}` is not known here"))).within("access");
        }
    };
    let Some(host) = mount.host else {
        return Err(Invalid::new("is missing")).within("host");
    };
    let host = PathBuf::from(OsString::from_vec(host.0));
    if !host.is_absolute() || host.as_os_str().as_bytes().contains(&0) {
        return Err(Invalid::new(
            "the path is not absolute, or contains a NUL byte",
        ))
        .within("host");
    }
    Ok(Shown::Mount(core::Mount {
        host,
        sandbox,
        access,
    }))
}

fn decode_inherit(inherit: wire::EnvInherit) -> Result<core::EnvInherit, Invalid> {
    Ok(match inherit {
        wire::EnvInherit::All => core::EnvInherit::All,
        wire::EnvInherit::Nothing => core::EnvInherit::Nothing,
        wire::EnvInherit::Names(names) => core::EnvInherit::Names(names),
        wire::EnvInherit::Unknown(name) => {
            return Err(Invalid::new(format_args!("`{name}` is not known here")));
        }
    })
}

pub(crate) fn encode_env(changes: &[core::EnvChange]) -> Vec<wire::EnvChange> {
    changes
        .iter()
        .map(|change| wire::EnvChange {
            name: Octets::new(&change.name),
            value: change.value.as_ref().map(Octets::new),
        })
        .collect()
}

pub(crate) fn decode_env(change: wire::EnvChange) -> Result<core::EnvChange, Invalid> {
    let change = core::EnvChange {
        name: change.name.0,
        value: change.value.map(|value| value.0),
    };
    if change.is_valid() {
        Ok(change)
    } else {
        Err(Invalid::new(
            "a variable has a name without `=` and NUL, and a value without NUL",
        ))
    }
}

pub(crate) fn encode_guarantees(
    guarantees: BTreeMap<core::Restriction, core::Grade>,
) -> BTreeMap<String, wire::Grade> {
    let encode = |(restriction, grade)| {
        let grade = match grade {
            core::Grade::Full => wire::Grade::Full,
            core::Grade::Partial { gaps } => wire::Grade::Partial(wire::Gaps { gaps }),
            core::Grade::Unavailable => wire::Grade::Unavailable,
        };
        (name(&wire::Restriction::from(restriction)), grade)
    };
    guarantees.into_iter().map(encode).collect()
}

/// What is not known guarantees nothing.
pub(crate) fn decode_guarantees(
    guarantees: BTreeMap<String, wire::Grade>,
) -> BTreeMap<core::Restriction, core::Grade> {
    let decode = |(text, grade): (String, wire::Grade)| {
        let restriction = core::Restriction::ALL
            .into_iter()
            .find(|restriction| name(&wire::Restriction::from(*restriction)) == text)?;
        let grade = match grade {
            wire::Grade::Full => core::Grade::Full,
            wire::Grade::Partial(wire::Gaps { gaps }) => core::Grade::Partial { gaps },
            wire::Grade::Unavailable | wire::Grade::Unknown(_) => core::Grade::Unavailable,
        };
        Some((restriction, grade))
    };
    guarantees.into_iter().filter_map(decode).collect()
}

pub(crate) fn encode_reports(
    reports: BTreeMap<core::LimitKind, core::LimitReport>,
) -> BTreeMap<String, wire::LimitReport> {
    let encode = |(kind, report): (_, core::LimitReport)| {
        let report = wire::LimitReport {
            value: integer(report.value),
            enforced_by: report.enforced_by.into(),
        };
        (limit_name(kind), report)
    };
    reports.into_iter().map(encode).collect()
}

/// What is not known enforces nothing.
pub(crate) fn decode_reports(
    reports: BTreeMap<String, wire::LimitReport>,
) -> BTreeMap<core::LimitKind, core::LimitReport> {
    let decode = |(name, report): (String, wire::LimitReport)| {
        let report_of = core::LimitReport {
            value: report.value,
            enforced_by: report.enforced_by.decode_or(core::EnforcedBy::None),
        };
        Some((kind_of_limit(&name)?, report_of))
    };
    reports.into_iter().filter_map(decode).collect()
}

fn limit_name(kind: core::LimitKind) -> String {
    name(&wire::LimitKind::from(kind))
}

fn kind_of_limit(name: &str) -> Option<core::LimitKind> {
    core::LimitKind::ALL
        .into_iter()
        .find(|kind| limit_name(*kind) == name)
}

/// The wire name of a choice without payload, as a key of an object.
fn name(choice: &impl serde::Serialize) -> String {
    match serde_json::to_value(choice) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("a choice without payload is a string: {other:?}"),
    }
}
