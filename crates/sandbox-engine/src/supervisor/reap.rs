//! A run, and what becomes of it when its processes end.
//!
//! Not here: what is done by the clock or on request (`child`), and how a tree is ended (`end`).

use rustix::net::RecvFlags;

use super::child::Supervisor;
use super::slip::SLIP;
use super::sys::{self, Reaped};
use super::wire::{REQUEST_BYTES, Reply, Stage, Survivors, Usage};

/// A run that has children left.
pub(super) struct Run {
    /// The leader, until it has been reaped.
    pub(super) leader: Option<i32>,
    /// When the leader's time is over.
    pub(super) deadline: Option<u64>,
    /// When politeness ends.
    pub(super) kill_at: Option<u64>,
    /// When the engine is told that the leader runs, if it still does.
    pub(super) announce_at: Option<u64>,
    pub(super) announce: Announced,
    pub(super) grace_ms: u64,
    pub(super) timed_out: bool,
    /// Time used by processes that ended as our children, the leader apart.
    pub(super) adopted: Usage,
    /// How many ended by our SIGKILL.
    pub(super) killed: u32,
    pub(super) sweeping: bool,
}

/// Whether the engine has to be told that a program runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Announced {
    /// Whatever becomes of it: it waits for that.
    Always,
    /// If it still runs.
    IfItLasts,
}

impl Run {
    /// One of this leader, with nothing to keep.
    pub(super) fn new(leader: i32) -> Self {
        Run {
            leader: Some(leader),
            deadline: None,
            kill_at: None,
            announce_at: None,
            announce: Announced::IfItLasts,
            grace_ms: 0,
            timed_out: false,
            adopted: Usage::default(),
            killed: 0,
            sweeping: false,
        }
    }

    /// Counts a process that ended as our child.
    fn adopt(&mut self, status: i32, usage: Usage) {
        self.adopted.add(usage);
        let by_kill = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
        if self.sweeping && by_kill {
            self.killed = self.killed.saturating_add(1);
        }
    }
}

impl Supervisor {
    /// Takes note of every child that has ended, and tells the engine what follows from it.
    pub(super) fn reap(&mut self) {
        let mut buffer = [0; 128];
        // Read before looking, so that a child that ends in between is signalled again. One read is
        // enough: a signal that is pending already is not queued twice.
        let _ = rustix::io::read(&self.children, &mut buffer);
        let (mut ended, mut took_along) = (None, false);
        let alone = loop {
            match sys::reap() {
                Reaped::Child(pid, status, usage) => {
                    // It may have taken a run since we looked.
                    self.note_start();
                    if self.leader == Some(pid) {
                        self.leader = None;
                        // Another is made when it is wanted: whatever killed this one may go on.
                        self.deaths += 1;
                        took_along = SLIP.was_receiving() && !self.is_run_waiting();
                    }
                    let Some(run) = &mut self.run else { continue };
                    if run.leader == Some(pid) {
                        ended = Some((pid, status, usage));
                        run.leader = None;
                        run.deadline = None;
                    } else {
                        run.adopt(status, usage);
                    }
                }
                Reaped::Nobody => break false,
                Reaped::Childless => break true,
            }
        };
        if took_along {
            // It received a run and was killed before it could say so, and so before it executed anything.
            self.begun += 1;
            self.send(Reply::Failed {
                stage: Stage::Accept,
                errno: libc::EINTR,
            });
        }
        if let Some(leader) = self.leader {
            // Somebody may have stopped it. While it waits, nobody means that.
            sys::kill(leader, libc::SIGCONT);
        }
        let Some(mut run) = self.run.take() else {
            return;
        };
        match ended {
            Some((leader, status, usage)) => {
                let announce_at = run.announce_at.take();
                if let Some((stage, errno)) = SLIP.failure() {
                    return self.send(Reply::Failed { stage, errno });
                }
                if announce_at.is_some() && run.announce == Announced::Always {
                    self.send(Reply::Started { pid: leader });
                }
                self.report_end(&mut run, status, usage, alone);
            }
            None if alone => self.send(Reply::Swept {
                killed: run.killed,
                usage: run.adopted,
                survivors: Survivors::default(),
            }),
            None => {}
        }
        if !alone {
            self.run = Some(run);
        }
    }

    /// Tells that the leader ended. `alone`: nothing else is left of its run.
    fn report_end(&self, run: &mut Run, status: i32, mut usage: Usage, alone: bool) {
        // What was adopted and ended before the leader is the leader's in any answer; counted here,
        // it must not be counted again.
        usage.add(std::mem::take(&mut run.adopted));
        // After a stop or a kill, `Swept` says how many it took.
        let last_word = alone && run.kill_at.is_none() && !run.sweeping;
        self.send(Reply::Exited {
            status,
            usage,
            timed_out: run.timed_out,
            alone: last_word,
        });
        if alone && !last_word {
            self.send(Reply::Swept {
                killed: run.killed,
                usage: Usage::default(),
                survivors: Survivors::default(),
            });
        }
    }

    /// Whether a run lies ready that nobody has received. There is one at most.
    fn is_run_waiting(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        rustix::net::recv(&self.queue, &mut [0; REQUEST_BYTES], flags)
            .is_ok_and(|(bytes, _)| bytes > 0)
    }
}
