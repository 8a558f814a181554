//! Names of the host and names in a place, and what leads from the one to the other.
//!
//! A [`Mounts`] is the table of what is shown where: the workspace first, then the mounts of a policy. Of several that hold a path the
//! deepest decides, as it does in the place itself. It compares names and looks at nothing: a name that is mapped need not
//! exist, and what a link does to it is the engine's to see (`sandbox_engine::root`). So it is for what is *said* to people and
//! programs, such as the place's name of a file that a host's tool reports, and never for what may be opened.
//!
//! **Invariants.**
//! - Both directions agree: a path of the host is mapped to one that leads back to it. One that is covered by a deeper mount
//!   everywhere has no name in the place.
//! - Names are compared by component. Nothing that is not spelled in full, such as a path with `..`, is mapped.
//!
//! Not here: the policy itself ([`policy`](crate::policy)).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::{Mount, MountAccess, Policy, SandboxPath};

/// What is shown where. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounts {
    workspace: SandboxPath,
    by_place: BTreeMap<SandboxPath, Mount>,
    hidden: BTreeSet<SandboxPath>,
}

/// Why there is no such table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountsError {
    /// A path is not spelled in full: it is relative, or has `..` or `.` in it.
    #[error("{0} is not a whole path; write it from `/` on, without `.` and `..`")]
    NotWhole(String),
    /// Two mounts have one place.
    #[error("two mounts are to be seen as {0}; leave one of them out")]
    Twice(SandboxPath),
}

/// A path with both its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<'a> {
    /// Its name on the host.
    pub host: PathBuf,
    /// Its name in the place; absolute.
    pub sandbox: SandboxPath,
    /// The mount that shows it.
    pub mount: &'a Mount,
}

impl Mounts {
    /// The table for a workspace under a policy.
    ///
    /// - `workspace`: its directory on the host, where it is seen, and what may be done with it
    ///
    /// # Errors
    ///
    /// See [`MountsError`]. A mount at the workspace's own place has to be of the workspace, and says what may be done
    /// with it.
    pub fn new(workspace: Mount, policy: &Policy) -> Result<Self, MountsError> {
        let mut mounts = Self {
            workspace: workspace.sandbox.clone(),
            by_place: BTreeMap::new(),
            hidden: policy.hidden.clone(),
        };
        let own = workspace.host.clone();
        mounts.add(workspace)?;
        for mount in &policy.mounts {
            if mount.sandbox == mounts.workspace && mount.host == own {
                mounts.by_place.insert(mount.sandbox.clone(), mount.clone());
                continue;
            }
            mounts.add(mount.clone())?;
        }
        Ok(mounts)
    }

    fn add(&mut self, mount: Mount) -> Result<(), MountsError> {
        if !is_whole(&mount.host) {
            let host = mount.host.display().to_string();
            return Err(MountsError::NotWhole(host));
        }
        if !mount.sandbox.is_absolute() {
            return Err(MountsError::NotWhole(mount.sandbox.to_string()));
        }
        match self.by_place.insert(mount.sandbox.clone(), mount) {
            None => Ok(()),
            Some(before) => Err(MountsError::Twice(before.sandbox)),
        }
    }

    /// What is shown, in the order of where.
    pub fn iter(&self) -> impl Iterator<Item = &Mount> {
        self.by_place.values()
    }

    /// What a name in the place means on the host. One that is relative is one in the workspace.
    ///
    /// `None` if nothing of the host is shown there, or if it is hidden.
    #[must_use]
    pub fn to_host(&self, path: &SandboxPath) -> Option<Located<'_>> {
        let path = match path.is_absolute() {
            true => path.clone(),
            false => join(&self.workspace, path.as_bytes())?,
        };
        if ancestors(&path).any(|above| self.hidden.contains(&above)) {
            return None;
        }
        let mount = ancestors(&path).find_map(|above| self.by_place.get(&above))?;
        let rest = below(path.as_bytes(), mount.sandbox.as_bytes())?;
        let host = match rest {
            b"" => mount.host.clone(),
            rest => mount.host.join(of_bytes(rest)?),
        };
        Some(Located {
            host,
            sandbox: path,
            mount,
        })
    }

    /// What a name of the host is in the place. Of several it is the one by the deepest directory of the host, and of
    /// those the first in the order of where they are seen.
    ///
    /// `None` if it is not shown, is covered there by something else, or is hidden.
    #[must_use]
    pub fn to_sandbox(&self, host: &Path) -> Option<Located<'_>> {
        if !is_whole(host) {
            return None;
        }
        let mut holding: Vec<_> = self
            .by_place
            .values()
            .filter_map(|mount| Some((mount, host.strip_prefix(&mount.host).ok()?)))
            .collect();
        holding.sort_by_key(|(_, rest)| rest.components().count());
        holding.into_iter().find_map(|(mount, rest)| {
            let path = join(&mount.sandbox, rest.as_os_str().as_encoded_bytes())?;
            // What lies deeper may cover it.
            self.to_host(&path).filter(|found| found.host == host)
        })
    }

    /// Whether what has this name in the place may be written there, as far as mounts go; `None` as with
    /// [`to_host`](Self::to_host).
    #[must_use]
    pub fn access(&self, path: &SandboxPath) -> Option<MountAccess> {
        self.to_host(path).map(|found| found.mount.access)
    }
}

/// Whether a path of the host is spelled in full.
fn is_whole(path: &Path) -> bool {
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    path.is_absolute()
        && path.components().all(plain)
        // `.` components vanish from the iterator, so that the text is looked at as well.
        && !path.as_os_str().as_encoded_bytes().split(|byte| *byte == b'/').any(|part| part == b".")
        && !path.as_os_str().as_encoded_bytes().contains(&0)
}

/// A path and everything above it, from the inside out.
fn ancestors(path: &SandboxPath) -> impl Iterator<Item = SandboxPath> {
    std::iter::successors(Some(path.clone()), SandboxPath::parent)
}

fn join(above: &SandboxPath, rest: &[u8]) -> Option<SandboxPath> {
    match rest {
        b"" => Some(above.clone()),
        rest => above.join(rest).ok(),
    }
}

/// What is left of a path below another one that holds it.
fn below<'a>(path: &'a [u8], above: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(above)?;
    match rest.first() {
        Some(b'/') => rest.get(1..),
        None => Some(rest),
        // `/` is the one that ends in a slash of its own.
        Some(_) => (above == b"/").then_some(rest),
    }
}

#[cfg(unix)]
#[expect(
    clippy::unnecessary_wraps,
    reason = "elsewhere not every name can be one of the host"
)]
fn of_bytes(bytes: &[u8]) -> Option<&Path> {
    use std::os::unix::ffi::OsStrExt;
    Some(Path::new(std::ffi::OsStr::from_bytes(bytes)))
}

#[cfg(not(unix))]
fn of_bytes(bytes: &[u8]) -> Option<&Path> {
    std::str::from_utf8(bytes).ok().map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(host: &str, sandbox: &str, access: MountAccess) -> Mount {
        Mount {
            host: host.into(),
            sandbox: path(sandbox),
            access,
        }
    }

    fn path(text: impl AsRef<[u8]>) -> SandboxPath {
        SandboxPath::parse(text).expect("valid")
    }

    fn table(mounts: &[(&str, &str)], hidden: &[&str]) -> Result<Mounts, MountsError> {
        let policy = Policy {
            mounts: mounts
                .iter()
                .map(|(host, at)| mount(host, at, MountAccess::ReadOnly))
                .collect(),
            hidden: hidden.iter().map(path).collect(),
            ..Policy::default()
        };
        let workspace = mount("/home/me/tree", "/workspace", MountAccess::ReadWrite);
        Mounts::new(workspace, &policy)
    }

    /// What was found, for both directions.
    fn host(mounts: &Mounts, at: &str) -> Option<String> {
        let found = mounts.to_host(&path(at))?;
        Some(found.host.to_str().expect("UTF-8").to_owned())
    }

    fn place(mounts: &Mounts, host: &str) -> Option<String> {
        let found = mounts.to_sandbox(Path::new(host))?;
        Some(found.sandbox.to_string())
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn the_deepest_mount_decides_whatever_the_order_they_are_named_in() {
        let deep = ("/srv/cache", "/workspace/target/cache");
        let mounts = [("/srv/target", "/workspace/target"), deep];
        for mounts in [mounts, [mounts[1], mounts[0]]] {
            let mounts = table(&mounts, &[]).expect("a table");
            for (at, expected) in [
                ("/workspace", "/home/me/tree"),
                ("/workspace/src/a", "/home/me/tree/src/a"),
                ("src/a", "/home/me/tree/src/a"),
                (".", "/home/me/tree"),
                ("/workspace/target", "/srv/target"),
                ("target/x", "/srv/target/x"),
                ("/workspace/target/cache/x", "/srv/cache/x"),
                ("/workspace/target/cached", "/srv/target/cached"),
            ] {
                assert_eq!(host(&mounts, at), some(expected), "{at}");
                let back = place(&mounts, expected).expect("it is shown");
                assert_eq!(host(&mounts, &back), some(expected), "{at}");
            }
            assert_eq!(mounts.access(&path("src")), Some(MountAccess::ReadWrite));
            assert_eq!(
                mounts.access(&path("target/x")),
                Some(MountAccess::ReadOnly)
            );
        }
    }

    #[test]
    fn what_is_covered_has_no_name_unless_it_is_shown_elsewhere() {
        let covering = ("/srv/target", "/workspace/target");
        let mounts = table(&[covering], &[]).expect("a table");
        assert_eq!(place(&mounts, "/home/me/tree/target/x"), None);
        assert_eq!(
            place(&mounts, "/home/me/tree/targets"),
            some("/workspace/targets")
        );
        let again = ("/home/me", "/mnt/me");
        let mounts = table(&[covering, again], &[]).expect("a table");
        assert_eq!(
            place(&mounts, "/home/me/tree/target/x"),
            some("/mnt/me/tree/target/x")
        );
        // Of two names the one by the deeper directory.
        assert_eq!(place(&mounts, "/home/me/tree/src"), some("/workspace/src"));
    }

    #[test]
    fn names_that_begin_alike_are_not_beneath_each_other() {
        let mounts = table(&[("/srv/data", "/data")], &[]).expect("a table");
        for at in ["/workspaces/x", "/work", "/database", "/", "/datas"] {
            assert_eq!(host(&mounts, at), None, "{at}");
        }
        for name in [
            "/home/me/tree-evil/x",
            "/home/me/tre",
            "/home/me",
            "/srv/database",
            "/",
        ] {
            assert_eq!(place(&mounts, name), None, "{name}");
        }
    }

    #[test]
    fn what_is_not_spelled_in_full_is_not_mapped() {
        let mounts = table(&[], &[]).expect("a table");
        for name in [
            "",
            ".",
            "src",
            "../home/me/tree",
            "/home/me/tree/../tree/x",
            "/home/me/tree/./x",
            "/home/me/tree/..",
            "/home/me/tree/x\0y",
        ] {
            assert_eq!(place(&mounts, name), None, "{name:?}");
        }
        let spelled = place(&mounts, "/home//me/tree/x/");
        assert_eq!(spelled, some("/workspace/x"), "slashes are only slashes");
        for (host, at) in [
            ("srv", "/srv"),
            ("/srv/../etc", "/srv"),
            ("/srv/./x", "/srv"),
            ("/srv", "srv"),
        ] {
            let error = table(&[(host, at)], &[]).expect_err(host);
            assert!(matches!(error, MountsError::NotWhole(_)), "{error}");
        }
        for text in ["../x", "/workspace/../etc", "a\0b", ""] {
            assert!(
                SandboxPath::parse(text).is_err(),
                "{text:?} cannot even be asked for"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_not_text_are_mapped_as_they_are() {
        use std::os::unix::ffi::OsStrExt;
        let mounts = table(&[], &[]).expect("a table");
        let name = b"/workspace/\xff\n-x".as_slice();
        let found = mounts.to_host(&path(name)).expect("it is shown");
        assert_eq!(found.host.as_os_str().as_bytes(), b"/home/me/tree/\xff\n-x");
        let back = mounts.to_sandbox(&found.host).expect("it is shown");
        assert_eq!(back.sandbox.as_bytes(), name);
    }

    #[test]
    fn what_is_hidden_has_neither_name() {
        let mounts = table(&[], &["/workspace/keys"]).expect("a table");
        for at in ["keys", "keys/one", "/workspace/keys"] {
            assert_eq!(host(&mounts, at), None, "{at}");
        }
        assert_eq!(place(&mounts, "/home/me/tree/keys/one"), None);
        assert_eq!(
            place(&mounts, "/home/me/tree/keyring"),
            some("/workspace/keyring")
        );
    }

    #[test]
    fn one_place_shows_one_thing_and_the_workspace_may_be_named_once_more() {
        let twice = table(&[("/srv", "/mnt"), ("/opt", "/mnt/")], &[]);
        assert_eq!(twice, Err(MountsError::Twice(path("/mnt"))));
        let other = table(&[("/srv", "/workspace")], &[]);
        assert_eq!(other, Err(MountsError::Twice(path("/workspace"))));
        let read_only = table(&[("/home/me/tree", "/workspace")], &[]).expect("the same");
        assert_eq!(read_only.access(&path("x")), Some(MountAccess::ReadOnly));
        assert_eq!(read_only.iter().count(), 1);
    }

    #[test]
    fn a_root_that_is_mounted_as_itself_maps_everything_to_itself() {
        let everything = Mounts::new(mount("/", "/", MountAccess::ReadWrite), &Policy::default());
        let mounts = everything.expect("a table");
        for name in ["/", "/etc/passwd"] {
            assert_eq!(host(&mounts, name), some(name));
            assert_eq!(place(&mounts, name), some(name));
        }
        assert_eq!(host(&mounts, "x"), some("/x"));
    }
}
