//! What is still to be done, shared by the threads of a walk.
//!
//! Last in, first out: the walk goes deep before it goes wide, so that little is waiting at a time.
//!
//! **Invariant:** a thread that took something says when it is done with it, even by panicking, so that
//! the others do not wait for ever.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::directory::Directory;
use super::listing::Names;
use super::rules::Chain;

/// Something to be done.
#[derive(Debug)]
pub(super) enum Task {
    /// A directory is to be listed, under the rules of the one it lies in.
    List(Arc<Directory>, Chain),
    /// Entries of a directory are to be visited.
    Visit(Arc<Directory>, Names),
}

/// Something waiting.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A directory by itself.
    One(Arc<Directory>, Chain),
    /// Directories of one directory.
    Children(Arc<Directory>, Names, Chain),
    /// Entries of one directory.
    Entries(Arc<Directory>, Names),
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    idle: AtomicUsize,
}

#[derive(Debug)]
struct State {
    waiting: Vec<Waiting>,
    busy: usize,
    stopped: bool,
}

/// What a thread holds while it works on what it took.
#[derive(Debug)]
pub(super) struct Busy<'a>(&'a Queue);

impl Queue {
    pub(super) fn new(first: Waiting) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: vec![first],
                busy: 0,
                stopped: false,
            }),
            changed: Condvar::new(),
            idle: AtomicUsize::new(0),
        }
    }

    pub(super) fn push(&self, waiting: Waiting) {
        self.lock().waiting.push(waiting);
        if self.idle() > 0 {
            self.changed.notify_one();
        }
    }

    /// Threads that have nothing to do.
    pub(super) fn idle(&self) -> usize {
        self.idle.load(Ordering::Relaxed)
    }

    /// The next thing to be done; waits while another thread may still add some. `None` at the end.
    pub(super) fn take(&self) -> Option<(Task, Busy<'_>)> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(task) = state.next() {
                state.busy += 1;
                if !state.waiting.is_empty() && self.idle() > 0 {
                    self.changed.notify_one();
                }
                return Some((task, Busy(self)));
            }
            if state.busy == 0 {
                self.changed.notify_all();
                return None;
            }
            self.idle.fetch_add(1, Ordering::Relaxed);
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            self.idle.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Nothing more is to be done.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What runs under the lock leaves a good state wherever it ends.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self) -> Option<Task> {
        loop {
            match self.waiting.pop()? {
                Waiting::One(directory, rules) => return Some(Task::List(directory, rules)),
                Waiting::Entries(directory, names) => return Some(Task::Visit(directory, names)),
                Waiting::Children(parent, mut names, rules) => {
                    let Some(name) = names.pop() else { continue };
                    let child = Directory::child(&parent, name);
                    if names.len() > 0 {
                        let rest = Waiting::Children(parent, names, rules.clone());
                        self.waiting.push(rest);
                    }
                    return Some(Task::List(child, rules));
                }
            }
        }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.busy -= 1;
        if std::thread::panicking() {
            state.stopped = true;
        }
        if state.stopped || (state.busy == 0 && state.waiting.is_empty()) {
            self.0.changed.notify_all();
        }
    }
}
