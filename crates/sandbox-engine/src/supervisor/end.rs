//! How a supervisor ends a tree, or names what it leaves of it.
//!
//! Whoever kills looks again until the kernel says that no child is left: a picture of the process
//! table is old as soon as it is taken. As long as there is somebody new at each look, nobody is reaped
//! and no pause is made. What was killed then still counts, so that a tree which may only have so many
//! processes comes to rest.
//!
//! A sweep that is asked for is answered in time, even if something is left. One that nobody waits for
//! goes on, because nobody else would: at worst this process stays beside what cannot be killed.
//!
//! Not here: when a tree is to end (`child`), and who belongs to it (`hunt`).

use rustix::event::{PollFd, PollFlags};

use super::child::{Supervisor, timespec};
use super::hunt::Hunt;
use super::sys;
use super::wire::{Reply, Scope, Survivors};

/// How long a sweep goes on before it reports survivors, in milliseconds. What outlives SIGKILL
/// that long is stuck in the kernel, or is not ours to kill.
const SWEEP_LIMIT_MS: u64 = 5000;
/// How long a sweep waits for the killed to end before it looks at the process table again.
const SWEEP_PAUSE_MS: u64 = 5;
/// The same for one that nobody waits for and that has not come to an end by then.
const LONG_PAUSE_MS: u64 = 1000;

/// Who waits for a sweep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// The engine, until it is told what is left.
    ByEngine,
    /// Nobody.
    ByNobody,
}

impl Supervisor {
    pub(super) fn signal(&mut self, signal: i32, scope: Scope) {
        let Some(run) = &self.run else { return };
        let leader = run.leader;
        match scope {
            // A leader that was reaped has no number any more that would be surely its own.
            Scope::Leader => {
                if let Some(leader) = leader {
                    sys::kill(leader, signal);
                }
            }
            Scope::Group => {
                if let Some(leader) = leader {
                    sys::kill(-leader, signal);
                }
            }
            Scope::Tree => self.signal_tree(signal),
        }
    }

    /// Signals everything below us, the leader's group first, because that needs no table.
    fn signal_tree(&self, signal: i32) {
        let leader = self.run.as_ref().and_then(|run| run.leader);
        if !self.table.is_readable() {
            if let Some(leader) = leader {
                sys::kill(-leader, signal);
            }
            return;
        }
        Hunt::below(self.own).look(&self.table, |stat| {
            self.table.signal(stat, self.own, signal);
            true
        });
    }

    /// Asks the tree to end, and sets the moment at which it is killed. Without a grace nothing is asked: that takes time,
    /// in which what was asked goes on.
    pub(super) fn stop(&mut self, grace_ms: u64) {
        if self.run.is_none() {
            return;
        }
        if grace_ms > 0 {
            self.signal_tree(libc::SIGTERM);
            // A stopped process would sleep through the grace with its signal pending.
            self.signal_tree(libc::SIGCONT);
        }
        if let Some(run) = &mut self.run {
            run.deadline = None;
            let at = sys::now().saturating_add(grace_ms);
            run.kill_at = Some(run.kill_at.map_or(at, |before| before.min(at)));
        }
    }

    /// Kills until nothing is left, or until it is clear that something cannot be killed.
    pub(super) fn sweep(&mut self, awaited: Awaited) {
        let limit = sys::now().saturating_add(SWEEP_LIMIT_MS);
        let mut pause = SWEEP_PAUSE_MS;
        if let Some(run) = &mut self.run {
            run.sweeping = true;
            run.kill_at = None;
            run.deadline = None;
            // The leader is not reaped yet, so its group's number is surely its own.
            if let Some(leader) = run.leader {
                sys::kill(-leader, libc::SIGKILL);
                // It may not have made its group yet.
                sys::kill(leader, libc::SIGKILL);
                self.settle(pause);
            }
        }
        while self.run.is_some() {
            let late = sys::now() >= limit;
            if late && awaited == Awaited::ByEngine {
                return self.report_left();
            }
            let at_rest = self.kill_tree();
            pause = match late && at_rest {
                true => LONG_PAUSE_MS.min(pause * 2),
                false => SWEEP_PAUSE_MS,
            };
            self.settle(pause);
        }
    }

    /// Kills everything below us that there is, and what is made meanwhile. Whether there is something to
    /// wait for.
    fn kill_tree(&self) -> bool {
        if !self.table.is_readable() {
            self.signal_tree(libc::SIGKILL);
            return true;
        }
        Hunt::below(self.own).chase(&self.table, |stat| {
            self.table.signal(stat, self.own, libc::SIGKILL);
            true
        })
    }

    /// Reaps while children keep ending, until none did for `pause_ms`, or none is left.
    fn settle(&mut self, pause_ms: u64) {
        // Bounded, so that a tree which makes new processes faster than old ones end is looked at
        // again.
        let limit = sys::now().saturating_add(pause_ms * 4);
        while self.run.is_some() && sys::now() < limit {
            let mut watched = [PollFd::new(&self.children, PollFlags::IN)];
            match rustix::event::poll(&mut watched, Some(&timespec(pause_ms))) {
                Ok(0) => return,
                _ => self.reap(),
            }
        }
    }

    /// Names what is there now.
    pub(super) fn report_left(&mut self) {
        let mut survivors = Survivors::default();
        // What is just ending is waited for a moment, so that it is not named as running.
        for _ in 0..10 {
            self.reap();
            if self.run.is_none() {
                return;
            }
            Hunt::below(self.own).look(&self.table, |stat| {
                // What had ended meanwhile is not named either.
                if !stat.zombie && !self.table.is_zombie(stat.pid) {
                    survivors.add(stat.pid);
                }
                true
            });
            if survivors.count > 0 {
                break;
            }
            self.settle(SWEEP_PAUSE_MS);
        }
        let Some(run) = &mut self.run else { return };
        run.sweeping = false;
        // Without a table nothing can be named, but the kernel says that there is a child.
        survivors.count = survivors.count.max(1);
        let usage = std::mem::take(&mut run.adopted);
        let killed = std::mem::take(&mut run.killed);
        self.send(Reply::Swept {
            killed,
            usage,
            survivors,
        });
    }
}
