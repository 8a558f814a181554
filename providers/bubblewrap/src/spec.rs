//! What a spec asks for, as what a place of ours shows and what its engine is asked.
//!
//! Only what concerns this machine is decided here: which directories are shown and where, and the network. The rest
//! of the policy is the engine's to grant or to refuse, once for all locations.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sandbox_core::{AcquireSpec, Error, ErrorKind, Network, Result, SandboxPath, Verb};
use serde::Deserialize;
use spp_client::place::workspace;

use crate::environment;
use crate::launch::{Access, Kind};
use crate::shown::Table;
use crate::view::{NetworkView, Shown, WORKSPACE};

/// The schema of the options.
pub(crate) const OPTIONS: &str = r#"{"type":"object","additionalProperties":false,"properties":{"workspace":{
    "enum":["bound","copy"],"default":"bound",
    "description":"Whether the sandbox works in the workspace itself, or in a private copy that is gone with it"}}}"#;

/// What the options of this provider say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    workspace: Workspace,
}

/// How a workspace is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Workspace {
    /// As it is.
    #[default]
    Bound,
    /// As a copy that nobody else sees.
    Copy,
}

/// A spec that can be tried.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How the workspace is shown.
    pub(crate) workspace: Workspace,
    pub(crate) network: NetworkView,
    /// The workspace first, then the mounts, what lies within another after it.
    pub(crate) shown: Vec<Shown>,
    /// What is not to be seen of that.
    pub(crate) hidden: Vec<(PathBuf, Kind)>,
    /// What the engine is asked.
    pub(crate) inside: AcquireSpec,
}

impl Plan {
    /// Decides what a spec asks for. Looks at every path that it names.
    ///
    /// - `own`: the variables of this process
    ///
    /// # Errors
    ///
    /// For the root `NotFound`, `NotADirectory`, `PermissionDenied`, `InvalidArgument`; `PolicyUnmet` with
    /// what cannot be had.
    pub(crate) fn of(
        spec: &AcquireSpec,
        own: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self> {
        let options = options(spec)?;
        let root = workspace(spec.root.as_deref().unwrap_or("."))?;
        let mut unmet = Vec::new();
        let network = match &spec.policy.network {
            None | Some(Network::None) => NetworkView::None,
            Some(Network::Open) => NetworkView::Machine,
            Some(Network::Allow(_)) => {
                unmet.push(
                    "single origins cannot be allowed; ask for no network or for an open one"
                        .to_owned(),
                );
                NetworkView::None
            }
        };
        let mut table = Table::new(Shown {
            source: root,
            at: WORKSPACE.into(),
            access: Access::ReadWrite,
        });
        unmet.extend(table.add(&spec.policy));
        if !unmet.is_empty() {
            return Err(Error::refused(Verb::Acquire, ErrorKind::PolicyUnmet)
                .on(&spec.id)
                .detail(few(&unmet)));
        }
        let mut inside = spec.clone();
        inside.root = Some(WORKSPACE.to_owned());
        inside.options = None;
        inside.policy.mounts = table.roots();
        // What hides them is a matter of mounts, and nothing that an engine could add to.
        inside.policy.hidden.clear();
        inside.policy.env = environment::policy(&spec.policy.env, own, table.shown());
        let (shown, hidden) = table.into_parts();
        Ok(Self {
            workspace: options.workspace,
            network,
            shown,
            hidden,
            inside,
        })
    }
}

/// The first of many reasons: who wrote a long list wants to know what is wrong with it, and not all of it.
fn few(reasons: &[String]) -> String {
    const FEW: usize = 8;
    let told = reasons.get(..FEW.min(reasons.len())).unwrap_or_default();
    let told = told.join("; ");
    match reasons.len().saturating_sub(FEW) {
        0 => told,
        more => format!("{told}; and {more} more"),
    }
}

fn options(spec: &AcquireSpec) -> Result<Options> {
    let Some(text) = spec.options.as_deref().filter(|text| text.trim() != "null") else {
        return Ok(Options::default());
    };
    serde_json::from_str(text).map_err(|error| {
        Error::refused(Verb::Acquire, ErrorKind::UnsupportedSpec)
            .on(&spec.id)
            .detail(format_args!(
                "the options are none of this provider's: {error}; there is `workspace`, which is \"bound\" or \"copy\""
            ))
    })
}

pub(crate) fn path_of(path: &SandboxPath) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()))
}

#[cfg(test)]
mod tests {
    use sandbox_core::{Effect, Mount, MountAccess, SandboxId};

    use super::*;

    struct Scratch(tempfile::TempDir);

    impl Scratch {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a scratch directory"))
        }

        fn spec(&self) -> AcquireSpec {
            let mut spec = AcquireSpec::new(SandboxId::new("test").expect("valid"));
            spec.root = Some(self.0.path().to_str().expect("UTF-8").to_owned());
            spec
        }

        fn mounted(&self, host: &str, at: &str) -> Result<Plan> {
            let mut spec = self.spec();
            spec.policy.mounts.push(mount(host, at));
            Plan::of(&spec, [])
        }
    }

    fn mount(host: &str, at: &str) -> Mount {
        Mount {
            host: host.into(),
            sandbox: SandboxPath::parse(at).expect("valid"),
            access: MountAccess::ReadOnly,
        }
    }

    #[test]
    fn the_root_has_to_be_a_directory_and_not_the_machines() {
        let scratch = Scratch::new();
        let check = |root: &str, kind| {
            let mut spec = scratch.spec();
            spec.root = Some(root.to_owned());
            let error = Plan::of(&spec, []).expect_err(root);
            assert_eq!(
                (error.kind(), error.effect()),
                (kind, Effect::None),
                "{error}"
            );
        };
        check("/nothing/is/here", ErrorKind::NotFound);
        check("/etc/passwd", ErrorKind::NotADirectory);
        check("/", ErrorKind::InvalidArgument);
        check("/proc/self", ErrorKind::InvalidArgument);
    }

    #[test]
    fn a_mount_covers_nothing_that_the_place_needs_and_nothing_else_that_is_shown() {
        let scratch = Scratch::new();
        for at in [
            "/",
            "/proc",
            "/dev/shm",
            "/run/spp/x",
            "/workspace",
            "/home",
            "/tmp",
        ] {
            let error = scratch.mounted("/srv", at).expect_err(at);
            assert_eq!(error.kind(), ErrorKind::PolicyUnmet, "{error}");
            assert!(error.to_string().contains(at), "{error}");
        }
        assert!(scratch.mounted("/", "/mnt/all").is_err());
        let mut spec = scratch.spec();
        spec.policy.mounts = vec![mount("/srv", "/mnt/a"), mount("/opt", "/mnt/a")];
        assert!(
            Plan::of(&spec, []).is_err(),
            "two things cannot be in one place"
        );
        let plan = scratch.mounted("/srv", "/mnt/a").expect("nothing is there");
        assert_eq!(plan.shown[1].at, Path::new("/mnt/a"));
        assert_eq!(plan.inside.policy.mounts[0].host, Path::new("/mnt/a"));
    }

    #[test]
    fn a_mount_is_named_by_its_real_path_and_is_not_the_machine_by_any_name() {
        let scratch = Scratch::new();
        let real = scratch.0.path().canonicalize().expect("it is there");
        let link = |target: &str, name| {
            let link = real.join(name);
            std::os::unix::fs::symlink(target, &link).expect("a link");
            link.to_str().expect("UTF-8").to_owned()
        };
        let (machine, programs) = (link("/", "machine"), link("/usr", "programs"));
        for (host, says) in [
            ("/usr/..", "never shown"),
            ("//", "never shown"),
            (&machine, "never shown"),
            ("/proc", "never shown"),
            ("/usr/../sys/kernel", "never shown"),
            (&programs, "it is really /usr;"),
            ("/opt/../usr", "it is really /usr;"),
            ("/nothing/is/here", "No such file"),
        ] {
            let error = scratch.mounted(host, "/mnt/a").expect_err(host);
            let expected = (ErrorKind::PolicyUnmet, Effect::None);
            assert_eq!((error.kind(), error.effect()), expected, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn nothing_is_made_in_the_workspace_to_mount_on_and_no_link_in_it_is_followed() {
        let scratch = Scratch::new();
        let inside = |name| scratch.0.path().join(name);
        std::fs::create_dir(inside("directory")).expect("a directory");
        std::os::unix::fs::symlink("/etc", inside("link")).expect("a link");
        scratch
            .mounted("/srv", "/workspace/directory")
            .expect("it is there");
        for at in [
            "/workspace/missing",
            "/workspace/link",
            "/workspace/link/ssl",
        ] {
            let error = scratch.mounted("/srv", at).expect_err(at);
            assert_eq!(error.kind(), ErrorKind::PolicyUnmet, "{error}");
        }
        assert!(!inside("missing").exists());
    }

    #[test]
    fn there_is_no_network_unless_it_is_asked_for() {
        let scratch = Scratch::new();
        let network = |asked| {
            let mut spec = scratch.spec();
            spec.policy.network = asked;
            Plan::of(&spec, []).map(|plan| plan.network)
        };
        assert_eq!(network(None).expect("the default"), NetworkView::None);
        assert_eq!(
            network(Some(Network::None)).expect("none"),
            NetworkView::None
        );
        assert_eq!(
            network(Some(Network::Open)).expect("open"),
            NetworkView::Machine
        );
        let error = network(Some(Network::Allow(Vec::new()))).expect_err("there is no gateway");
        assert_eq!(error.kind(), ErrorKind::PolicyUnmet);
    }
}
