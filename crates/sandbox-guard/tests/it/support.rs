//! A thread that is an ordinary user under a guard, and a directory that it may write to.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sandbox_guard::{Guard, GuardSpec, Neighbours, NetworkUse, Writes};

/// The user that owns nothing.
const NOBODY: u32 = 65534;

/// Everything that can be kept away.
pub(crate) const ALL: GuardSpec = GuardSpec {
    writes: Writes::Contained,
    network: NetworkUse::Denied,
    neighbours: Neighbours::Shared,
};

/// What is always kept away, and nothing else.
pub(crate) const LEAST: GuardSpec = GuardSpec {
    writes: Writes::Unguarded,
    network: NetworkUse::Open,
    neighbours: Neighbours::Own,
};

/// Two directories of the ordinary user: one that a guard lets it write to, and one that it does not.
pub(crate) struct Ground {
    _directory: tempfile::TempDir,
    pub(crate) inside: PathBuf,
    pub(crate) outside: PathBuf,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let own = |name: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).expect("a directory");
            std::fs::write(path.join("file"), "before").expect("a file");
            if rustix::process::geteuid().is_root() {
                for path in [&path, &path.join("file")] {
                    std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
                }
            }
            path
        };
        let (inside, outside) = (own("inside"), own("outside"));
        std::fs::set_permissions(
            directory.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .expect("it is ours");
        Ground {
            _directory: directory,
            inside,
            outside,
        }
    }

    pub(crate) fn guard(&self, spec: GuardSpec) -> Guard {
        Guard::prepare(spec, &[held(&self.inside).as_fd()]).expect("this kernel has it")
    }
}

pub(crate) fn held(path: &Path) -> OwnedFd {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).expect("it is there")
}

/// Does something on a thread that is an ordinary user, and under a guard if there is one. Identity, filters
/// and domain are a thread's own; nothing else in the process changes.
pub(crate) fn guarded<T: Send>(guard: Option<&Guard>, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            become_ordinary();
            if let Some(guard) = guard {
                guard.put_on().expect("this kernel has it");
            }
            work()
        });
        thread.join().expect("it does not panic")
    })
}

pub(crate) fn become_ordinary() {
    if rustix::process::geteuid().is_root() {
        let uid = rustix::process::Uid::from_raw(NOBODY);
        let gid = rustix::process::Gid::from_raw(NOBODY);
        rustix::thread::set_thread_groups(&[]).expect("root may");
        rustix::thread::set_thread_res_gid(gid, gid, gid).expect("root may");
        rustix::thread::set_thread_res_uid(uid, uid, uid).expect("root may");
    }
}
