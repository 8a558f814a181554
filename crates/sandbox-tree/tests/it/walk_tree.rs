//! A tree to walk, and what a walk of it found, in order.

use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sandbox_core::search::Scope;
use sandbox_core::{Ctx, SandboxPath};
use sandbox_tree::walk::{Entry, Place, Summary, Visitor, Walk};

pub(crate) struct Tree(pub(crate) tempfile::TempDir);

impl Tree {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a scratch directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, path: impl AsRef<[u8]>, content: &str) -> &Self {
        let path = self.path().join(OsStr::from_bytes(path.as_ref()));
        fs::create_dir_all(path.parent().expect("beneath the root")).expect("a directory");
        fs::write(path, content).expect("a file");
        self
    }

    pub(crate) fn files(&self, paths: &[&str]) -> &Self {
        for path in paths {
            self.file(path, "");
        }
        self
    }

    /// What is found, sorted, and how the walk ended.
    pub(crate) fn walk(&self, change: impl FnOnce(&mut Scope)) -> (Vec<String>, Summary) {
        self.walk_below("", 2, change)
    }

    pub(crate) fn found(&self, change: impl FnOnce(&mut Scope)) -> Vec<String> {
        self.walk(change).0
    }

    pub(crate) fn walk_below(
        &self,
        below: &str,
        threads: usize,
        change: impl FnOnce(&mut Scope),
    ) -> (Vec<String>, Summary) {
        let mut scope = Scope::new(SandboxPath::root());
        change(&mut scope);
        let walk = Walk::new(&scope).expect("valid globs").threads(threads);
        let base = fs::File::open(self.path()).expect("a directory");
        let place = Place::new(&base).below(below.as_bytes());
        let (visitors, summary) = walk
            .run(&Ctx::new(), &place, || Collect(Vec::new()))
            .expect("the root can be opened");
        let mut found: Vec<_> = visitors
            .into_iter()
            .flat_map(|visitor| visitor.0)
            .map(|path| String::from_utf8_lossy(&path).into_owned())
            .collect();
        found.sort();
        (found, summary)
    }
}

pub(crate) struct Collect(pub(crate) Vec<Vec<u8>>);

impl Visitor for Collect {
    fn visit(&mut self, entry: &Entry<'_>) -> ControlFlow<()> {
        self.0.push(entry.path().to_vec());
        ControlFlow::Continue(())
    }
}
