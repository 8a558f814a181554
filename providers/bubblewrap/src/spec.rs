//! What a spec asks for, as what a place of ours shows and what its engine is asked.
//!
//! Only what concerns this machine is decided here: which directories are shown and where, and the network. The rest
//! of the policy is the engine's to grant or to refuse, once for all locations.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use sandbox_core::{
    AcquireSpec, Error, ErrorKind, Mount, MountAccess, Network, Result, SandboxPath, Verb,
};

use crate::environment;
use crate::launch::Access;
use crate::view::{HOME, NetworkView, Shown, TMP, WORKSPACE};

/// Where nothing of this machine can be shown: the kernel's own files, and the engine's.
const TAKEN: [&str; 4] = ["/proc", "/sys", "/dev", "/run/spp"];

/// A spec that can be tried.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) network: NetworkView,
    /// The workspace first, then the mounts.
    pub(crate) shown: Vec<Shown>,
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
    /// For the root `NotFound`, `NotADirectory`, `PermissionDenied`, `InvalidArgument`; `PolicyUnmet` with
    /// everything that cannot be had.
    pub(crate) fn of(
        spec: &AcquireSpec,
        own: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self> {
        let root = root(spec.root.as_deref().unwrap_or("."))?;
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
        let mut shown = vec![Shown {
            source: root,
            at: WORKSPACE.into(),
            access: Access::ReadWrite,
        }];
        for mount in &spec.policy.mounts {
            match show(mount, &shown) {
                Ok(mount) => shown.push(mount),
                Err(reason) => unmet.push(reason),
            }
        }
        if !unmet.is_empty() {
            return Err(Error::refused(Verb::Acquire, ErrorKind::PolicyUnmet)
                .on(&spec.id)
                .detail(unmet.join("; ")));
        }
        let mut inside = spec.clone();
        inside.root = Some(WORKSPACE.to_owned());
        inside.policy.env = environment::policy(&spec.policy.env, own, &shown);
        // What is shown is there under its own name, as far as the engine can see.
        for mount in &mut inside.policy.mounts {
            mount.host = path_of(&mount.sandbox).to_owned();
        }
        Ok(Self {
            network,
            shown,
            inside,
        })
    }
}

/// The workspace's real path, whatever it was named by: who names it stands in it.
fn root(named: &str) -> Result<PathBuf> {
    let refused = |kind| Error::refused(Verb::Acquire, kind).on(named);
    let of_errno = |errno| match errno {
        Errno::NOENT => refused(ErrorKind::NotFound),
        Errno::NOTDIR => refused(ErrorKind::NotADirectory),
        Errno::ACCESS | Errno::PERM => refused(ErrorKind::PermissionDenied),
        errno => refused(ErrorKind::Io).caused_by(std::io::Error::from(errno)),
    };
    let real = std::fs::canonicalize(named)
        .map_err(|error| of_errno(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(&real, flags, Mode::empty()).map_err(of_errno)?;
    if is_taken(&real) {
        return Err(refused(ErrorKind::InvalidArgument).detail(
            "it holds what a sandbox must not have; name the directory that is to be worked on",
        ));
    }
    Ok(real)
}

/// Whether a real path of this machine is one that no sandbox is shown.
fn is_taken(real: &Path) -> bool {
    real == Path::new("/") || TAKEN.iter().any(|taken| real.starts_with(taken))
}

/// Something that the policy shows.
///
/// - `before`: what is shown so far, the workspace first
fn show(mount: &Mount, before: &[Shown]) -> Result<Shown, String> {
    let at = path_of(&mount.sandbox);
    let refused = |why: &str| {
        Err(format!(
            "{} cannot be shown as {}: {why}",
            mount.host.display(),
            mount.sandbox
        ))
    };
    if !mount.host.is_absolute() || !at.is_absolute() {
        return refused("both have to be absolute");
    }
    if at == Path::new("/") || TAKEN.iter().any(|taken| at.starts_with(taken)) {
        return refused("the place has something of its own there");
    }
    if [TMP, HOME, WORKSPACE]
        .iter()
        .any(|own| Path::new(own).starts_with(at))
    {
        return refused("it would cover what every sandbox has; name a directory beneath it");
    }
    if before.iter().any(|shown| shown.at == at) {
        return refused("something else is to be shown there too");
    }
    let real = match std::fs::canonicalize(&mount.host) {
        Ok(real) => real,
        Err(error) => return refused(&error.to_string()),
    };
    if is_taken(&real) {
        return refused("the root of a machine and what its kernel has are never shown");
    }
    if std::fs::symlink_metadata(&real).is_ok_and(|found| found.file_type().is_socket()) {
        return refused("it is a socket, and whoever listens on it could be asked for anything");
    }
    // Whoever reads the policy is to see what is shown, and a link may be another one tomorrow.
    if real != mount.host {
        return refused(&format!(
            "it is really {}; name that if it is meant",
            real.display()
        ));
    }
    let beneath = before.first().and_then(|workspace| {
        let rest = at.strip_prefix(WORKSPACE).ok()?;
        Some((workspace, rest))
    });
    if let Some((workspace, rest)) = beneath
        && !is_there(&workspace.source, rest)
    {
        return refused(
            "there is nothing of that name in the workspace, or a link is on the way, and nothing is made there",
        );
    }
    Ok(Shown {
        source: real,
        at: at.to_owned(),
        access: match mount.access {
            MountAccess::ReadOnly => Access::ReadOnly,
            MountAccess::ReadWrite => Access::ReadWrite,
        },
    })
}

/// Whether something has a name in a directory, with no link on the way.
fn is_there(directory: &Path, rest: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::open(directory, flags | OFlags::DIRECTORY, Mode::empty())
    else {
        return false;
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(&directory, rest, flags, Mode::empty(), resolve).is_ok()
}

fn path_of(path: &SandboxPath) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()))
}

#[cfg(test)]
mod tests {
    use sandbox_core::{Effect, SandboxId};

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
