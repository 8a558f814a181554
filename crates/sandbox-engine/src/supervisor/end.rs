//! How a supervisor ends a tree, or names what it leaves of it.
//!
//! Whoever kills looks again until the kernel says that no child is left: a picture of the process
//! table is old as soon as it is taken.
//!
//! Not here: when a tree is to end (`child`).

use rustix::event::{PollFd, PollFlags};

use super::child::{Supervisor, timespec};
use super::sys;
use super::tree::Pids;
use super::wire::{Reply, Scope, Survivors};

/// How long a sweep goes on before it reports survivors, in milliseconds. What outlives SIGKILL
/// that long is stuck in the kernel, or is not ours to kill.
const SWEEP_LIMIT_MS: u64 = 5000;
/// How long a sweep waits for the killed to end before it looks at the process table again.
const SWEEP_PAUSE_MS: u64 = 5;

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
        let mut pids = Pids::new();
        self.table.descendants(self.own, &mut pids);
        for pid in pids.as_slice() {
            sys::kill(*pid, signal);
        }
    }

    /// Asks the tree to end, and sets the moment at which it is killed.
    pub(super) fn stop(&mut self, grace_ms: u64) {
        if self.run.is_none() {
            return;
        }
        self.signal_tree(libc::SIGTERM);
        // A stopped process would sleep through the grace with its signal pending.
        self.signal_tree(libc::SIGCONT);
        if let Some(run) = &mut self.run {
            run.deadline = None;
            let at = sys::now().saturating_add(grace_ms);
            run.kill_at = Some(run.kill_at.map_or(at, |before| before.min(at)));
        }
    }

    /// Kills until nothing is left, or until it is clear that something cannot be killed.
    pub(super) fn sweep(&mut self) {
        let limit = sys::now().saturating_add(SWEEP_LIMIT_MS);
        if let Some(run) = &mut self.run {
            run.sweeping = true;
            run.kill_at = None;
            run.deadline = None;
            // The leader is not reaped yet, so its group's number is surely its own.
            if let Some(leader) = run.leader {
                sys::kill(-leader, libc::SIGKILL);
                // It may not have made its group yet.
                sys::kill(leader, libc::SIGKILL);
                self.settle(SWEEP_PAUSE_MS);
            }
        }
        while self.run.is_some() {
            if sys::now() >= limit {
                return self.report_left();
            }
            self.signal_tree(libc::SIGKILL);
            self.settle(SWEEP_PAUSE_MS);
        }
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
            let mut pids = Pids::new();
            self.table.descendants(self.own, &mut pids);
            for pid in pids
                .as_slice()
                .iter()
                .filter(|pid| !self.table.is_zombie(**pid))
            {
                survivors.add(*pid);
            }
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
