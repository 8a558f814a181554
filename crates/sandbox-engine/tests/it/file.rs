//! What the tests of files share: a tree with something outside of it, and verbs in one line.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox_core::file::{
    Change, FileContent, Range, ReadRequest, Recursion, RemoveReceipt, RemoveRequest, Stat,
    StatManyRequest, WriteReceipt, WriteRequest,
};
use sandbox_core::{Ctx, Error, ErrorKind, MountAccess, SandboxPath};
use sandbox_engine::file::Files;
use sandbox_engine::root::Roots;

/// What nobody may read or change from inside.
pub(crate) const SECRET: &str = "outside: nobody reads or changes this\n";

/// A workspace `in` with a directory `out` beside it.
pub(crate) struct Tree {
    pub(crate) files: Files,
    pub(crate) roots: Arc<Roots>,
    pub(crate) inside: PathBuf,
    pub(crate) outside: PathBuf,
    _base: tempfile::TempDir,
}

impl Tree {
    pub(crate) fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// A tree whose table of roots gets more; `base` is the directory around both.
    pub(crate) fn with(more: impl FnOnce(&mut Roots, &Path)) -> Self {
        let base = tempfile::tempdir().expect("a temporary directory");
        let real = base.path().canonicalize().expect("it is there");
        let (inside, outside) = (real.join("in"), real.join("out"));
        for directory in [&inside, &outside] {
            std::fs::create_dir(directory).expect("a fresh directory");
        }
        std::fs::write(outside.join("secret"), SECRET).expect("a fresh file");
        let mut roots =
            Roots::new(&inside, MountAccess::ReadWrite).expect("the workspace is there");
        more(&mut roots, &real);
        let roots = Arc::new(roots);
        Self {
            files: Files::new(Arc::clone(&roots)),
            roots,
            inside,
            outside,
            _base: base,
        }
    }

    pub(crate) fn plant(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.inside.join(name);
        std::fs::create_dir_all(path.parent().expect("it lies in the workspace"))
            .expect("a directory");
        std::fs::write(path, content).expect("a file");
    }

    pub(crate) fn plant_link(&self, name: impl AsRef<Path>, text: impl AsRef<Path>) {
        std::os::unix::fs::symlink(text, self.inside.join(name)).expect("a link");
    }

    pub(crate) fn bytes(&self, name: impl AsRef<Path>) -> Vec<u8> {
        std::fs::read(self.inside.join(name)).expect("a file")
    }

    /// Everything outside, with its content.
    pub(crate) fn look_outside(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut entries: Vec<_> = std::fs::read_dir(&self.outside)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| (path.clone(), std::fs::read(path).unwrap_or_default()))
            .collect();
        entries.sort();
        entries
    }

    pub(crate) async fn read(&self, name: impl Name) -> Result<FileContent, Error> {
        self.files
            .read(&Ctx::new(), ReadRequest::new(name.path()))
            .await
    }

    pub(crate) async fn part(&self, name: impl Name, range: Range) -> Result<FileContent, Error> {
        let request = ReadRequest {
            range,
            ..ReadRequest::new(name.path())
        };
        self.files.read(&Ctx::new(), request).await
    }

    pub(crate) async fn change(&self, change: Change) -> Result<WriteReceipt, Error> {
        let mut receipts = self
            .files
            .write(&Ctx::new(), WriteRequest::new([change]))
            .await?;
        assert_eq!(receipts.len(), 1, "one change, one answer");
        receipts.remove(0)
    }

    pub(crate) async fn put(
        &self,
        name: impl Name,
        content: impl AsRef<[u8]>,
    ) -> Result<WriteReceipt, Error> {
        self.change(Change::put(name.path(), content.as_ref().to_vec()))
            .await
    }

    pub(crate) async fn remove(
        &self,
        name: impl Name,
        recursion: Recursion,
    ) -> Result<RemoveReceipt, Error> {
        self.files
            .remove(
                &Ctx::new(),
                RemoveRequest {
                    path: name.path(),
                    recursion,
                },
            )
            .await
    }

    pub(crate) async fn stat(&self, name: impl Name) -> Result<Option<Stat>, Error> {
        let request = StatManyRequest {
            paths: vec![name.path()],
        };
        self.files.stat_many(&Ctx::new(), request).await?.remove(0)
    }
}

/// Anything that spells a path.
pub(crate) trait Name {
    fn path(&self) -> SandboxPath;
}

impl Name for &str {
    fn path(&self) -> SandboxPath {
        SandboxPath::parse(self).expect("a valid path")
    }
}

impl Name for &[u8] {
    fn path(&self) -> SandboxPath {
        SandboxPath::parse(self).expect("a valid path")
    }
}

impl Name for PathBuf {
    fn path(&self) -> SandboxPath {
        SandboxPath::parse(self.as_os_str().as_bytes()).expect("a valid path")
    }
}

impl Name for SandboxPath {
    fn path(&self) -> SandboxPath {
        self.clone()
    }
}

/// The names in a directory, in order.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// Asserts that a verb was refused in this way, certainly without effect.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind) -> Error {
    let error = result.expect_err("it must be refused");
    assert_eq!(
        (error.kind(), error.effect()),
        (kind, sandbox_core::Effect::None),
        "{error}"
    );
    error
}

/// Runs a test on a thread that is an ordinary user, as is every thread it starts.
///
/// The identity of a thread is its own; nothing else in the process changes.
pub(crate) fn as_ordinary_user<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let on_own_thread = std::thread::spawn(move || {
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = (
                rustix::process::Uid::from_raw(NOBODY),
                rustix::process::Gid::from_raw(NOBODY),
            );
            rustix::thread::set_thread_groups(&[]).expect("root may");
            rustix::thread::set_thread_res_gid(gid, gid, gid).expect("root may");
            rustix::thread::set_thread_res_uid(uid, uid, uid).expect("root may");
        }
        block_on(test());
    });
    on_own_thread.join().expect("the test holds");
}

/// Gives the thread's tests a runtime whose every thread is like this one.
pub(crate) fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future);
}

/// The user that owns nothing.
const NOBODY: u32 = 65534;
