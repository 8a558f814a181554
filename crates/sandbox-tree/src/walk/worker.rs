//! The threads of a walk: listing directories, deciding about names, visiting what is left.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Scope;

use rustix::io::Errno;
use sandbox_core::Ctx;
use sandbox_core::file::EntryKind;
use sandbox_core::search::{Hidden, IgnoreRules};

use super::directory::{Budget, DIRECTORY, Directory, Opener};
use super::listing::{Buffer, Names, Part, list};
use super::pattern::Patterns;
use super::queue::{Queue, Task, Waiting};
use super::rules::{self, Chain};
use super::{End, Entry, Place, Summary, Trouble, Visitor, Walk, repository};

/// Visits between two looks at whether anybody still waits for the answer.
const LOOK: usize = 64;

/// What the threads of a walk share.
struct Shared<'a, V, F> {
    walk: &'a Walk,
    ctx: &'a Ctx,
    visitor: F,
    queue: Queue,
    budget: Arc<Budget>,
    root: Arc<Directory>,
    /// Where the scope's root lies, with a slash at its end; before every path that rules are asked about.
    below: Vec<u8>,
    global: Option<Arc<Patterns>>,
    device: u64,
    threads: AtomicUsize,
    end: OnceLock<End>,
    done: Mutex<Done<V>>,
}

struct Done<V> {
    visitors: Vec<V>,
    unreadable: Trouble,
    changed: Trouble,
}

pub(super) fn run<V: Visitor, F: Fn() -> V + Sync>(
    walk: &Walk,
    ctx: &Ctx,
    place: &Place<'_>,
    visitor: F,
) -> Result<(Vec<V>, Summary), Errno> {
    let mut below = place.below.to_vec();
    if !below.is_empty() {
        below.push(b'/');
    }
    let mut unreadable = Trouble::default();
    let global = match walk.ignore {
        IgnoreRules::GitAndGlobal => repository::global().unwrap_or_else(|errno| {
            unreadable.add(b"the user's global excludes", errno);
            None
        }),
        IgnoreRules::Off | IgnoreRules::Git => None,
    };
    let (root, chain) = start(walk, place, global.as_ref(), &mut unreadable)?;
    let device = rustix::fs::fstat(&root)?.st_dev;
    let root = Directory::root(root);
    let shared = Shared {
        walk,
        ctx,
        visitor,
        queue: Queue::new(Waiting::One(Arc::clone(&root), chain)),
        root,
        budget: Budget::new(descriptors()),
        below,
        global,
        device,
        threads: AtomicUsize::new(1),
        end: OnceLock::new(),
        done: Mutex::new(Done {
            visitors: Vec::new(),
            unreadable,
            changed: Trouble::default(),
        }),
    };
    std::thread::scope(|scope| work(&shared, scope));
    let done = shared
        .done
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let summary = Summary {
        end: shared.end.get().copied().unwrap_or(End::Complete),
        unreadable: done.unreadable,
        changed: done.changed,
    };
    Ok((done.visitors, summary))
}

/// Opens the scope's root and reads the rules on the way to it.
fn start(
    walk: &Walk,
    place: &Place<'_>,
    global: Option<&Arc<Patterns>>,
    unreadable: &mut Trouble,
) -> Result<(OwnedFd, Chain), Errno> {
    let mut chain = global.and_then(|global| rules::add(None, Arc::clone(global), 0));
    let mut at = super::reopen(place.base)?;
    let mut base = 0;
    for name in place.below.split(|&byte| byte == b'/') {
        if name.is_empty() {
            continue;
        }
        if walk.ignore != IgnoreRules::Off {
            let found = Found {
                top: repository::is_top(at.as_fd()),
                gitignore: true,
            };
            chain = extend(chain, at.as_fd(), base, found, global, |errno| {
                unreadable.add(&place.below[..base], errno);
            });
        }
        at = rustix::fs::openat(
            &at,
            OsStr::from_bytes(name),
            DIRECTORY,
            rustix::fs::Mode::empty(),
        )?;
        base += name.len() + 1;
    }
    Ok((at, chain))
}

/// What a directory holds that changes the rules in it.
#[derive(Clone, Copy)]
struct Found {
    /// It has a `.git`.
    top: bool,
    /// It has, or may have, a `.gitignore`.
    gitignore: bool,
}

/// The rules in a directory, from those of the one it lies in.
fn extend(
    outer: Chain,
    directory: BorrowedFd<'_>,
    base: usize,
    found: Found,
    global: Option<&Arc<Patterns>>,
    mut unreadable: impl FnMut(Errno),
) -> Chain {
    let mut chain = outer;
    let mut read = |patterns: Result<Option<Arc<Patterns>>, Errno>| {
        patterns.unwrap_or_else(|errno| {
            unreadable(errno);
            None
        })
    };
    if found.top {
        chain = global.and_then(|global| rules::add(None, Arc::clone(global), base));
        if let Some(patterns) = read(repository::exclude(directory)) {
            chain = rules::add(chain, patterns, base);
        }
    }
    if found.gitignore
        && let Some(patterns) = read(repository::gitignore(directory))
    {
        chain = rules::add(chain, patterns, base);
    }
    chain
}

/// How many descriptors a walk keeps: few of those that the process may have.
fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    (limit / 16).clamp(4, 256)
}

fn work<'scope, V: Visitor, F: Fn() -> V + Sync>(
    shared: &'scope Shared<'scope, V, F>,
    scope: &'scope Scope<'scope, '_>,
) {
    let mut worker = Worker {
        shared,
        visitor: (shared.visitor)(),
        path: shared.below.clone(),
        at: Arc::clone(&shared.root),
        found: Names::default(),
        children: Names::default(),
        seen: 0,
        unreadable: Trouble::default(),
        changed: Trouble::default(),
    };
    let mut opener = Opener::new(Arc::clone(&shared.budget));
    let mut buffer = Buffer::new();
    let mut names = Names::default();
    let more = || {
        let threads = &shared.threads;
        let most = shared.walk.threads;
        let one_more = |now: usize| (now < most).then_some(now + 1);
        let order = Ordering::Relaxed;
        if threads.load(order) < most && threads.fetch_update(order, order, one_more).is_ok() {
            // Without it the others do the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || work(shared, scope));
        }
    };
    while let Some((task, _busy)) = shared.queue.take() {
        let (Task::List(directory, _) | Task::Visit(directory, _)) = &task;
        if let Some(end) = late(shared.ctx) {
            let _ = worker.end(end);
            break;
        }
        directory.path(&worker.at, &mut worker.path, shared.below.len());
        worker.at = Arc::clone(directory);
        let fd = match opener.open(directory) {
            Ok(fd) => fd,
            Err(errno) => {
                worker.trouble(errno);
                continue;
            }
        };
        let done = match &task {
            Task::List(directory, rules) => {
                worker.list(directory, rules, fd, &mut buffer, &mut names, &more)
            }
            Task::Visit(directory, names) => worker.visit(directory, fd, names, &more),
        };
        if done.is_break() {
            break;
        }
    }
    let mut done = shared.done.lock().unwrap_or_else(PoisonError::into_inner);
    done.visitors.push(worker.visitor);
    done.unreadable.merge(worker.unreadable);
    done.changed.merge(worker.changed);
}

fn late(ctx: &Ctx) -> Option<End> {
    if ctx.cancel().is_cancelled() {
        return Some(End::Cancelled);
    }
    ctx.remaining()
        .is_some_and(|left| left.is_zero())
        .then_some(End::Late)
}

/// One thread.
struct Worker<'a, V, F> {
    shared: &'a Shared<'a, V, F>,
    visitor: V,
    /// `below` and the directory that is worked on.
    path: Vec<u8>,
    at: Arc<Directory>,
    found: Names,
    children: Names,
    /// Entries found so far: whether another thread is worth it.
    seen: usize,
    unreadable: Trouble,
    changed: Trouble,
}

impl<V: Visitor, F: Fn() -> V + Sync> Worker<'_, V, F> {
    fn list(
        &mut self,
        directory: &Arc<Directory>,
        outer: &Chain,
        fd: BorrowedFd<'_>,
        buffer: &mut Buffer,
        names: &mut Names,
        more: &impl Fn(),
    ) -> ControlFlow<()> {
        match self.is_kernel_files(directory, fd) {
            Ok(false) => {}
            Ok(true) => return ControlFlow::Continue(()),
            Err(errno) => {
                self.trouble(errno);
                return ControlFlow::Continue(());
            }
        }
        let mut chain: Option<Chain> = None;
        let mut flow = ControlFlow::Continue(());
        let listed = list(fd, buffer, names, |names, part| {
            let chain = chain.get_or_insert_with(|| self.rules(outer, fd, names, part));
            self.sort(directory, names, chain);
            if self.children.len() > 0 {
                let children = std::mem::take(&mut self.children);
                let children = Waiting::Children(Arc::clone(directory), children, chain.clone());
                self.shared.queue.push(children);
                if self.seen >= V::GRAIN {
                    more();
                }
            }
            let found = std::mem::take(&mut self.found);
            flow = self.visit(directory, fd, &found, more);
            self.found = found;
            flow.is_continue()
        });
        if let Err(errno) = listed {
            self.trouble(errno);
        }
        flow
    }

    /// The rules in a directory of which the first part was read.
    fn rules(&mut self, outer: &Chain, fd: BorrowedFd<'_>, names: &Names, part: Part) -> Chain {
        let shared = self.shared;
        if shared.walk.ignore == IgnoreRules::Off {
            return None;
        }
        let mut found = Found {
            top: false,
            gitignore: part == Part::More,
        };
        for (name, _) in names.iter() {
            found.top |= name == c".git";
            found.gitignore |= name == c".gitignore";
        }
        found.top |= part == Part::More && repository::is_top(fd);
        let (base, unreadable) = (self.path.len(), &mut self.unreadable);
        let path = &self.path[shared.below.len()..];
        extend(
            outer.clone(),
            fd,
            base,
            found,
            shared.global.as_ref(),
            |errno| {
                unreadable.add(&[path, b".gitignore"].concat(), errno);
            },
        )
    }

    /// Which names are visited and which are entered.
    fn sort(&mut self, directory: &Directory, names: &Names, chain: &Chain) {
        let walk = self.shared.walk;
        let (skip, length) = (self.shared.below.len(), self.path.len());
        let level = directory.depth.saturating_add(1);
        self.found.clear();
        if level > walk.max_depth {
            return;
        }
        self.seen += names.len();
        for (name, kind) in names.iter() {
            let bytes = name.to_bytes();
            if walk.ignore != IgnoreRules::Off && bytes == b".git"
                || walk.hidden == Hidden::Exclude && bytes.first() == Some(&b'.')
            {
                continue;
            }
            self.path.truncate(length);
            self.path.extend_from_slice(bytes);
            let path = &self.path[skip..];
            let included = walk.filter.includes(path);
            let entered = kind == EntryKind::Directory
                && level < walk.max_depth
                && walk.filter.may_hold(path, level);
            if !included && !entered
                || rules::ignores(chain, &self.path, kind == EntryKind::Directory)
                || walk.filter.excludes(path)
            {
                continue;
            }
            if included {
                self.found.push(name, kind);
            }
            if entered {
                self.children.push(name, kind);
            }
        }
        self.path.truncate(length);
    }

    fn visit(
        &mut self,
        directory: &Arc<Directory>,
        fd: BorrowedFd<'_>,
        names: &Names,
        more: &impl Fn(),
    ) -> ControlFlow<()> {
        let shared = self.shared;
        let (skip, length) = (shared.below.len(), self.path.len());
        let mut end = names.len();
        for (at, (name, kind)) in names.iter().enumerate() {
            if at >= end {
                break;
            }
            if at % LOOK == LOOK - 1
                && let Some(end) = late(shared.ctx)
            {
                return self.end(end);
            }
            if shared.end.get().is_some() {
                return ControlFlow::Break(());
            }
            if end - at > V::GRAIN {
                if shared.queue.idle() > 0 {
                    let half = at + (end - at).div_ceil(2);
                    let rest = Waiting::Entries(Arc::clone(directory), names.part(half, end));
                    shared.queue.push(rest);
                    end = half;
                } else {
                    more();
                }
            }
            self.path.truncate(length);
            self.path.extend_from_slice(name.to_bytes());
            let entry = Entry {
                path: &self.path[skip..],
                name,
                kind,
                directory: fd,
            };
            if self.visitor.visit(&entry).is_break() {
                return self.end(End::Stopped);
            }
        }
        self.path.truncate(length);
        ControlFlow::Continue(())
    }

    fn end(&self, end: End) -> ControlFlow<()> {
        let _ = self.shared.end.set(end);
        self.shared.queue.stop();
        ControlFlow::Break(())
    }

    /// Counts the directory that is worked on.
    fn trouble(&mut self, errno: Errno) {
        let path = &self.path[self.shared.below.len()..];
        let path = path.strip_suffix(b"/").unwrap_or(path);
        match errno {
            // A link where a directory was is refused as either of the two, by the kernel's choice.
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => self.changed.add(path, errno),
            errno => self.unreadable.add(path, errno),
        }
    }

    fn is_kernel_files(&self, directory: &Directory, fd: BorrowedFd<'_>) -> Result<bool, Errno> {
        match directory.device() {
            Some(device) if device != self.shared.device => kernel_files(fd),
            _ => Ok(false),
        }
    }
}

/// Whether a directory lies on procfs or sysfs, whose files are the process itself or never end.
#[cfg(target_os = "linux")]
fn kernel_files(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    /// `SYSFS_MAGIC` of `linux/magic.h`.
    const SYSFS_MAGIC: u32 = 0x6265_6572;
    let kind = rustix::fs::fstatfs(fd)?.f_type;
    Ok(kind == rustix::fs::PROC_SUPER_MAGIC
        || u32::try_from(kind).is_ok_and(|kind| kind == SYSFS_MAGIC))
}

/// There are none elsewhere.
#[cfg(not(target_os = "linux"))]
fn kernel_files(_fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(false)
}
