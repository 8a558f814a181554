//! What a spec asks for, as what a container of ours is started with and what its engine is asked.
//!
//! Only what concerns the container is decided here. The rest of the policy is the engine's to grant or to refuse,
//! once for all locations.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use sandbox_core::{
    AcquireSpec, EnvChange, EnvInherit, EnvPolicy, Error, ErrorKind, Network, Result, Verb,
};
use spp_client::place::workspace;

use crate::limits::Kept;
use crate::marked;
use crate::options::{Options, User};

/// Where the workspace is seen.
pub(crate) const WORKSPACE: &str = "/workspace";
/// The home of what runs: its own, and gone with the sandbox.
pub(crate) const HOME: &str = "/home/sandbox";
/// Where temporary files go: its own, and gone with the sandbox.
pub(crate) const TMP: &str = "/tmp";

/// What is inherited of this process where the policy does not say: what concerns the terminal.
const INHERITED: [&str; 2] = ["COLORTERM", "TERM"];
/// Variables that concern the provider's own start.
const OWN: [&str; 2] = ["SPP_HOST", "SPP_HOST_PID"];

/// Without a sign of life for this long either side of an engine takes the other for gone, where nothing shorter is asked for:
/// what the host may be silent for is no reason to wait longer for an engine.
const LEASE: Duration = Duration::from_secs(20);

/// Whether there is a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkView {
    /// A loopback of its own.
    None,
    /// The daemon's usual one.
    Daemons,
}

/// A spec that can be tried.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) options: Options,
    pub(crate) root: Root,
    /// Who runs there; nobody yet if the workspace is root's, who may not.
    pub(crate) user: Option<User>,
    pub(crate) network: NetworkView,
    /// What the daemon is asked to keep of the limits.
    pub(crate) limits: Kept,
    /// What the engine is asked.
    pub(crate) inside: AcquireSpec,
}

impl Plan {
    /// Decides what a spec asks for.
    ///
    /// - `own`: the variables of this process
    ///
    /// # Errors
    ///
    /// `UnsupportedSpec` for the options; for the root `NotFound`, `NotADirectory`, `PermissionDenied`,
    /// `InvalidArgument`; `PolicyUnmet` with everything that cannot be had.
    pub(crate) fn of(
        spec: &AcquireSpec,
        own: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self> {
        let options = Options::read(spec.options.as_deref())?;
        let root = Root::open(spec.root.as_deref().unwrap_or("."))?;
        let mut unmet: Vec<String> = Vec::new();
        let network = match &spec.policy.network {
            None | Some(Network::None) => NetworkView::None,
            Some(Network::Open) => NetworkView::Daemons,
            Some(Network::Allow(_)) => {
                unmet.push(
                    "single origins cannot be allowed; ask for no network or for an open one"
                        .into(),
                );
                NetworkView::None
            }
        };
        if !spec.policy.mounts.is_empty() {
            unmet.push(
                "only the workspace can be shown in a container; put what is needed there, or into the image".into(),
            );
        }
        if !spec.policy.hidden.is_empty() {
            unmet.push("nothing of the workspace can be hidden in a container; leave it outside of the workspace".into());
        }
        let limits = Kept::of(&spec.policy.limits, &mut unmet);
        if !unmet.is_empty() {
            return Err(Error::refused(Verb::Acquire, ErrorKind::PolicyUnmet)
                .on(&spec.id)
                .detail(unmet.join("; ")));
        }
        let user = match options.user {
            Some(user) => Some(user),
            None => root.user()?,
        };
        let mut inside = spec.clone();
        inside.root = Some(WORKSPACE.to_owned());
        inside.options = None;
        // A daemon that was stopped or killed, and a container that was paused, leave the pipes as they are.
        inside.lease = Some(spec.lease.map_or(LEASE, |asked| asked.min(LEASE)));
        inside.policy.env = environment(&spec.policy.env, own);
        Ok(Self {
            options,
            root,
            user,
            network,
            limits,
            inside,
        })
    }
}

/// The workspace.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    /// Its real path.
    pub(crate) path: PathBuf,
    /// Which directory that was: the daemon follows the path once more, and not as who asks.
    pub(crate) identity: (u64, u64),
    owner: (u32, u32),
}

impl Root {
    fn open(named: &str) -> Result<Self> {
        let path = workspace(named)?;
        let refused = |kind| Error::refused(Verb::Acquire, kind).on(named);
        if !marked::is_plain(&path) {
            return Err(refused(ErrorKind::InvalidArgument).detail(
                "a path that is not UTF-8, or has a comma, a quotation mark or a line break in it, cannot be shown in a container; \
                 rename the directory",
            ));
        }
        let found = std::fs::symlink_metadata(&path);
        let found = found.map_err(|error| refused(ErrorKind::Io).caused_by(error))?;
        Ok(Self {
            path,
            identity: (found.dev(), found.ino()),
            owner: (found.uid(), found.gid()),
        })
    }

    /// Who runs there unless somebody is named: its owner, if that is who asks, or if root asks. Where root asks for a
    /// tree of root's, somebody has to be found.
    fn user(&self) -> Result<Option<User>> {
        let (user, group) = self.owner;
        let refused = |why: &str| {
            Err(Error::refused(Verb::Acquire, ErrorKind::InvalidArgument)
                .on(self.path.display())
                .detail(format_args!(
                    "{why}: use a workspace of your own, or name who runs there as `user = \"UID:GID\"` in the options of \
                     `docker`"
                )))
        };
        let own = rustix::process::geteuid();
        if own.is_root() && (user == 0 || group == 0) {
            return Ok(None);
        }
        if user == 0 {
            return refused(
                "the workspace is root's, and nothing in a container may be root outside",
            );
        }
        if group == 0 {
            return refused(
                "the workspace is of root's group, and nothing in a container may be that outside",
            );
        }
        if !own.is_root() && own.as_raw() != user {
            return refused("the workspace is somebody else's, and a command there would be them");
        }
        Ok(Some(User { user, group }))
    }
}

/// The variables of what runs: the image's, what this place needs, of this process's what is named, and last the
/// policy's changes.
fn environment(
    asked: &EnvPolicy,
    own: impl IntoIterator<Item = (OsString, OsString)>,
) -> EnvPolicy {
    let is_wanted = |name: &OsStr| match &asked.inherit {
        None => INHERITED.iter().any(|known| name == *known),
        Some(EnvInherit::All) => true,
        Some(EnvInherit::Nothing) => false,
        Some(EnvInherit::Names(names)) => names.iter().any(|known| name == known.as_str()),
    };
    let needed = [
        ("HOME", HOME),
        ("TMPDIR", TMP),
        ("USER", "sandbox"),
        ("LOGNAME", "sandbox"),
    ];
    let is_needed = |name: &OsStr| name == "PATH" || needed.iter().any(|(known, _)| name == *known);
    let named = matches!(&asked.inherit, Some(EnvInherit::Names(_)));
    let inherited = own
        .into_iter()
        .filter(|(name, _)| !OWN.iter().any(|known| name == known))
        .filter(|(name, _)| is_wanted(name) && (named || !is_needed(name)))
        .map(|(name, value)| EnvChange::set(name.as_bytes(), value.as_bytes()));
    let changes = needed
        .iter()
        .map(|(name, value)| EnvChange::set(name, value))
        .chain(inherited)
        .chain(asked.changes.iter().cloned());
    EnvPolicy {
        // Of the engine's own variables, which are the image's.
        inherit: Some(EnvInherit::All),
        changes: changes.collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sandbox_core::{Effect, Mount, MountAccess, SandboxId, SandboxPath};

    use super::*;

    fn spec(root: &str) -> AcquireSpec {
        let mut spec = AcquireSpec::new(SandboxId::new("test").expect("valid"));
        spec.root = Some(root.to_owned());
        spec.options = Some(r#"{"image": "x", "user": "1000:1000"}"#.to_owned());
        spec
    }

    fn refused(spec: &AcquireSpec) -> Error {
        let error = Plan::of(spec, []).expect_err("it cannot be had");
        assert_eq!(error.effect(), Effect::None, "{error}");
        error
    }

    #[test]
    fn a_workspace_whose_name_would_be_read_as_something_else_is_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let odd = scratch.path().join("a,readonly=false");
        std::fs::create_dir(&odd).expect("a directory");
        let error = refused(&spec(odd.to_str().expect("UTF-8")));
        assert!(error.to_string().contains("rename"), "{error}");
    }

    #[test]
    fn an_engine_is_never_waited_for_longer_than_its_own_lease() {
        let mut asked = spec("/usr");
        for (lease, inside) in [(None, 20), (Some(3), 3), (Some(3600), 20)] {
            asked.lease = lease.map(Duration::from_secs);
            let plan = Plan::of(&asked, []).expect("it can be had");
            assert_eq!(plan.inside.lease, Some(Duration::from_secs(inside)));
        }
    }

    #[test]
    fn a_workspace_of_roots_needs_somebody_else_to_run() {
        let mut asked = spec("/usr");
        let plan = Plan::of(&asked, []).expect("somebody is named");
        assert!(plan.user.is_some());
        asked.options = Some(r#"{"image": "x"}"#.to_owned());
        if rustix::process::geteuid().is_root() {
            let plan = Plan::of(&asked, []).expect("somebody is found for it");
            assert_eq!(plan.user, None);
            return;
        }
        let error = refused(&asked);
        assert!(error.to_string().contains("user = \"UID:GID\""), "{error}");
    }

    #[test]
    fn what_cannot_be_had_is_refused_all_at_once() {
        let mut asked = spec("/usr");
        asked.policy.network = Some(Network::Allow(Vec::new()));
        asked.policy.mounts.push(Mount {
            host: "/srv".into(),
            sandbox: SandboxPath::parse("/srv").expect("valid"),
            access: MountAccess::ReadOnly,
        });
        let error = refused(&asked);
        assert_eq!(error.kind(), ErrorKind::PolicyUnmet);
        assert!(error.to_string().contains("origins"), "{error}");
        assert!(error.to_string().contains("image"), "{error}");
    }

    #[test]
    fn nothing_of_this_machines_variables_is_inherited_unasked_but_the_terminal() {
        let own = [
            ("TOKEN", "secret"),
            ("HOME", "/root"),
            ("PATH", "/x"),
            ("TERM", "tmux"),
        ];
        let variables = |inherit| -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
            let asked = EnvPolicy {
                inherit,
                changes: vec![EnvChange::set("LAST", "1")],
            };
            let own = own.iter().map(|(name, value)| (name.into(), value.into()));
            let policy = environment(&asked, own);
            let changes = policy.changes.into_iter();
            changes.map(|change| (change.name, change.value)).collect()
        };
        let text = |value: &str| Some(value.as_bytes().to_vec());
        let unasked = variables(None);
        assert!(!unasked.contains_key(&b"TOKEN"[..]));
        assert_eq!(unasked[&b"TERM"[..]], text("tmux"));
        assert_eq!(unasked[&b"HOME"[..]], text(HOME));
        assert_eq!(unasked[&b"LAST"[..]], text("1"));
        assert!(
            !unasked.contains_key(&b"PATH"[..]),
            "the image knows where its programs are"
        );
        let all = variables(Some(EnvInherit::All));
        assert_eq!(
            (&all[&b"TOKEN"[..]], &all[&b"HOME"[..]]),
            (&text("secret"), &text(HOME))
        );
        let named = variables(Some(EnvInherit::Names(vec!["HOME".into()])));
        assert_eq!(named[&b"HOME"[..]], text("/root"));
        assert!(!named.contains_key(&b"TOKEN"[..]));
    }
}
