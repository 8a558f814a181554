//! A directory to be unpacked in, and a canary beside it that must not change.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sandbox_core::transfer::Compression;
use sandbox_core::{Error, Result, SandboxPath, Verb};
use sandbox_tree::reader::{Limits, Reader};
use sandbox_tree::unpack::Receiver;
use sandbox_tree::unpack::place::{self, Delta, Placed};

/// `dst` in `work` is where archives go, `out` beside `work` is what must not be touched.
pub(crate) struct Ground {
    base: tempfile::TempDir,
    canary: Vec<String>,
}

pub(crate) const LIMITS: Limits = Limits {
    entries: 1000,
    depth: 64,
    bytes: 64 << 20,
};

impl Ground {
    pub(crate) fn new() -> Self {
        let base = tempfile::tempdir().expect("a scratch directory");
        fs::create_dir(base.path().join("work")).expect("made");
        fs::create_dir(base.path().join("out")).expect("made");
        fs::write(base.path().join("out/victim"), "untouched").expect("written");
        let canary = listing(&base.path().join("out"));
        Self { base, canary }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.base.path().join("work")
    }

    pub(crate) fn dst(&self) -> PathBuf {
        self.work().join("dst")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.base.path().join("out")
    }

    /// What is outside is what it was.
    pub(crate) fn outside_is_untouched(&self) -> bool {
        let beside: Vec<_> = names(self.base.path());
        listing(&self.out()) == self.canary && beside == ["out", "work"]
    }

    /// Unpacks into `dst`, which is not there.
    pub(crate) fn create(&self, archive: &[u8], receiver: Receiver) -> Result<Placed> {
        let mut reader = reader(archive, Compression::None);
        place::create(
            Verb::PushTree,
            open(&self.work()),
            &[OsStr::new("dst")],
            receiver,
            &mut reader,
            &mut || Ok(()),
        )
    }

    /// Unpacks into `dst`, which is there.
    pub(crate) fn merge(
        &self,
        archive: &[u8],
        delta: Option<Delta<'_>>,
        receiver: Receiver,
    ) -> Result<Placed> {
        let mut reader = reader(archive, Compression::None);
        place::merge(
            Verb::PushTree,
            open(&self.dst()).as_fd(),
            delta,
            receiver,
            &mut reader,
            &mut || Ok(()),
        )
    }
}

pub(crate) fn reader(
    archive: &[u8],
    compression: Compression,
) -> Reader<Box<dyn std::io::Read + Send>> {
    Reader::open(std::io::Cursor::new(archive.to_vec()), compression, LIMITS)
}

pub(crate) fn open(directory: &Path) -> OwnedFd {
    fs::File::open(directory).expect("it is there").into()
}

pub(crate) fn path(text: &str) -> SandboxPath {
    SandboxPath::parse(text).expect("valid")
}

/// Names in a directory, in order.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .expect("it can be listed")
        .map(|entry| {
            let name = entry.expect("listed").file_name();
            String::from_utf8_lossy(name.as_bytes()).into_owned()
        })
        .collect();
    names.sort();
    names
}

/// Everything in a tree, one line an entry: path, kind and bits, and content or text.
pub(crate) fn listing(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("it can be listed") {
            let path = entry.expect("listed").path();
            let meta = fs::symlink_metadata(&path).expect("it is there");
            let name = path.strip_prefix(root).expect("beneath");
            let name = String::from_utf8_lossy(name.as_os_str().as_bytes()).into_owned();
            let mode = meta.permissions().mode() & 0o7777;
            lines.push(if meta.is_symlink() {
                let text = fs::read_link(&path).expect("a link");
                format!("{name} -> {}", text.display())
            } else if meta.is_dir() {
                open.push(path.clone());
                format!("{name}/ {mode:o}")
            } else if meta.is_file() && meta.size() < 1 << 20 {
                let content = fs::read(&path).expect("readable");
                format!("{name} {mode:o} {:?}", String::from_utf8_lossy(&content))
            } else {
                format!("{name} {mode:o} size {}", meta.size())
            });
        }
    }
    lines.sort();
    lines
}

pub(crate) fn told(error: &Error) -> String {
    format!("{error} ({:?})", error.effect())
}
