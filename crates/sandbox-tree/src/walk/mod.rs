//! A parallel walk beneath a directory handle, under ignore rules.
//!
//! [`Walk::run`] gives every entry of a [`Scope`] to a [`Visitor`], one visitor per thread, in no order.
//! What makes the entries of an answer appear in order is the consumer's: sort by [`Entry::path`], as
//! bytes.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use sandbox_core::{Ctx, SandboxPath, search::Scope};
//! use sandbox_tree::walk::{Entry, Place, Visitor, Walk};
//!
//! struct Sizes(u64);
//!
//! impl Visitor for Sizes {
//!     fn visit(&mut self, entry: &Entry<'_>) -> ControlFlow<()> {
//!         if let Ok(stat) = entry.stat() {
//!             self.0 += stat.st_size as u64;
//!         }
//!         ControlFlow::Continue(())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = std::fs::File::open("tree")?;
//! let walk = Walk::new(&Scope::new(SandboxPath::root()))?;
//! let (visitors, summary) = walk.run(&Ctx::new(), &Place::new(&directory), || Sizes(0))?;
//! let total: u64 = visitors.iter().map(|sizes| sizes.0).sum();
//! # let _ = (total, summary.completeness());
//! # Ok(())
//! # }
//! ```
//!
//! **What is an entry.** Everything that has a name in the tree: files, directories, links, FIFOs and the
//! rest. The scope's root itself is none. A link is an entry and never followed, wherever it leads. A
//! directory that is ignored, excluded or hidden is neither visited nor entered; one that merely matches no
//! `include` is entered where something in it could match. procfs and sysfs are not entered.
//!
//! **What is ignored.** What git would ignore, were it not in its index: `.gitignore` in every directory
//! from the handle downwards (so also between it and the scope's root), `.git/info/exclude`, also of a
//! linked worktree, and the user's global excludes if asked for. The scope's root itself was asked for and is
//! looked into even where it is ignored. A repository within another has only its own rules. Rules hold
//! outside of repositories as well.
//!
//! **Invariants.**
//! - Directories are opened beneath the handle, one name at a time or by the kernel's own resolution, and never
//!   through a link. The exceptions, files of patterns that git keeps elsewhere, are at `repository`.
//! - Memory and descriptors are bounded by what lies on the way down, not by the size of the tree: a depth of
//!   ten thousand and a million names in one directory are walked with few of either.
//! - What could not be read, or went away meanwhile, is counted in the [`Summary`]: a walk that saw less than
//!   there is says so.
//!
//! Not here: which directory may be walked (`sandbox_engine::root`), what is done with the entries.

mod directory;
mod filter;
mod listing;
mod pattern;
mod queue;
mod repository;
mod rules;
mod summary;
mod worker;

use std::ffi::CStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use sandbox_core::Ctx;
use sandbox_core::file::EntryKind;
use sandbox_core::search::{Hidden, IgnoreRules, Scope};

pub use filter::ScopeError;
pub use summary::{End, Summary, Trouble};

use filter::Filter;

/// Most threads that a walk uses unless told otherwise: more of them wait for each other.
const MAX_THREADS: usize = 8;

/// A walk over the entries of a scope; see the [module](self). Can be run any number of times.
#[derive(Debug)]
pub struct Walk {
    filter: Filter,
    ignore: IgnoreRules,
    hidden: Hidden,
    max_depth: u32,
    threads: usize,
}

/// Where a walk starts.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The directory that nothing outside of is looked at. Ignore rules are read from here on.
    base: BorrowedFd<'a>,
    /// Where the scope's root lies beneath it, without links; empty if that is it.
    below: &'a [u8],
}

impl<'a> Place<'a> {
    /// The scope's root is the directory itself. It may have been opened as a place only (`O_PATH`).
    pub fn new(base: &'a impl AsFd) -> Self {
        Self {
            base: base.as_fd(),
            below: b"",
        }
    }

    /// The scope's root lies beneath the directory, at `below` (`a/b`), none of which is a link.
    #[must_use]
    pub fn below(self, below: &'a [u8]) -> Self {
        Self { below, ..self }
    }
}

/// Is given the entries that one thread finds.
pub trait Visitor: Send {
    /// How many entries are worth handing to another thread that has nothing to do: 1 where a visit
    /// reads a file, many where it only notes a name.
    const GRAIN: usize = 64;

    /// An entry. `Break` stops the whole walk: other threads end their visit and begin no other.
    fn visit(&mut self, entry: &Entry<'_>) -> ControlFlow<()>;
}

/// An entry of the tree, for as long as it is visited.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    path: &'a [u8],
    name: &'a CStr,
    kind: EntryKind,
    directory: BorrowedFd<'a>,
}

impl<'a> Entry<'a> {
    /// The path from the scope's root, `a/b`: bytes, of any length.
    #[must_use]
    pub fn path(&self) -> &'a [u8] {
        self.path
    }

    /// The last component, as system calls take it.
    #[must_use]
    pub fn name(&self) -> &'a CStr {
        self.name
    }

    /// What it was when the directory was read. It may have become something else: what is opened has
    /// to be looked at again.
    #[must_use]
    pub fn kind(&self) -> EntryKind {
        self.kind
    }

    /// The directory it is in, for calls relative to it with [`name`](Self::name).
    #[must_use]
    pub fn directory(&self) -> BorrowedFd<'a> {
        self.directory
    }

    /// What it is now; a link is looked at itself.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is gone, and what else the system says.
    pub fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW)
    }
}

impl Walk {
    /// A walk over `scope`, whose `root` is where the [`Place`] of each run is.
    ///
    /// # Errors
    ///
    /// A glob that cannot be read, could match nothing, or is too large.
    pub fn new(scope: &Scope) -> Result<Self, ScopeError> {
        Ok(Self {
            filter: Filter::new(scope)?,
            ignore: scope.ignore,
            hidden: scope.hidden,
            max_depth: scope.max_depth.unwrap_or(u32::MAX),
            threads: std::thread::available_parallelism()
                .map_or(1, usize::from)
                .min(MAX_THREADS),
        })
    }

    /// Uses at most so many threads, the calling one included, which is one at least.
    #[must_use]
    pub fn threads(mut self, most: usize) -> Self {
        self.threads = most.max(1);
        self
    }

    /// Walks on this thread and, once there is enough to do, on others; returns when all are done. Blocks.
    ///
    /// `visitor` makes the visitor of a thread; all of them are returned. A cancel or the deadline of `ctx`
    /// ends the walk between two entries.
    ///
    /// # Errors
    ///
    /// What the system says where the scope's root cannot be opened as a directory, or is no longer one;
    /// nothing was visited then.
    pub fn run<V: Visitor>(
        &self,
        ctx: &Ctx,
        place: &Place<'_>,
        visitor: impl Fn() -> V + Sync,
    ) -> Result<(Vec<V>, Summary), Errno> {
        worker::run(self, ctx, place, visitor)
    }
}

/// Opens a directory for reading that is there already as a place.
fn reopen(directory: BorrowedFd<'_>) -> Result<rustix::fd::OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, c".", flags, Mode::empty())
}
