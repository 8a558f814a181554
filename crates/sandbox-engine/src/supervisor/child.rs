//! The supervisor's own loop: keep a leader ready, take notice of its run, reap, keep time.
//!
//! It waits for three things: a request, a child that ended, a moment in time. That a run has begun is
//! none of them: the leader takes it by itself, leaves a note (`slip`), and sets a timer for the first
//! moment at which the supervisor has to know. So a command that is over before that wakes the
//! supervisor once, when it ends.
//!
//! Timeouts and grace are kept here and not by the engine, so that a command ends in time although the
//! engine is stopped or busy. The end of the socket means that nobody is left to answer to: everything
//! is killed, and the supervisor leaves.
//!
//! **Invariant:** when there is neither `leader` nor `run`, the kernel has said that there is no child.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendFlags};
use rustix::process::Signal;
use sandbox_guard::Guard;

use super::confinement::ENTRANCES;
use super::end::Awaited;
use super::leader::{Desk, Failure, Given};
use super::reap::{Announced, Run};
use super::slip::SLIP;
use super::sys;
use super::tree::Table;
use super::wire::{REQUEST_BYTES, RUN_DESCRIPTORS, Reply, Request, Stage};

/// How often it is looked whether a run has begun that something was asked about, in milliseconds.
const EARLY_PAUSE_MS: u64 = 1;
/// How long it is waited at once for a leader to execute, and how often it is looked again.
const EXECUTE_WAIT: Duration = Duration::from_millis(20);
const EXECUTE_PAUSE_MS: u64 = 5;
/// How long a run has been over when the next leader is made. The engine has its answer to give, and
/// the new process would want the processor that this takes. A run that comes sooner waits for its
/// leader to be made, which is what every run would do without leaders that wait.
const REST: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 60_000,
};
/// Leaders that may die in a row before one of them gets its run.
const MOST_DEATHS: u32 = 8;

pub(super) struct Supervisor {
    control: OwnedFd,
    /// Where leaders wait for their run.
    pub(super) queue: OwnedFd,
    pub(super) children: OwnedFd,
    timer: OwnedFd,
    pub(super) table: Table,
    desk: Desk,
    /// What leaders are guarded by, besides the filters that this process is under itself.
    domain: Option<OwnedFd>,
    /// Where leaders enter the group that they are limited by.
    entrances: [Option<OwnedFd>; ENTRANCES],
    /// Why nothing can be started: the filters could not be installed.
    unguarded: Option<i32>,
    pub(super) own: i32,
    /// One that waits for a run, or has taken it since we looked.
    pub(super) leader: Option<i32>,
    /// The next one is to be made, as soon as nobody minds.
    owes_leader: bool,
    /// Leaders that died waiting since one took a run.
    pub(super) deaths: u32,
    /// The number of the last run that has begun.
    pub(super) begun: u64,
    pub(super) run: Option<Run>,
    /// What was asked about a run that has not begun. Nothing else is read until it has.
    early: Option<(u64, Request)>,
}

/// What a wait ended with.
#[derive(Clone, Copy, Default)]
struct Woken {
    /// The time has come to make a leader.
    rested: bool,
    request: bool,
    child: bool,
    timer: bool,
    /// A run is there, and no leader to take it.
    queue: bool,
}

/// What a supervisor has of the engine.
pub(super) struct Kept<'a> {
    pub(super) control: OwnedFd,
    pub(super) queue: OwnedFd,
    /// What everything that is started is under, and a descriptor of its domain.
    pub(super) guard: Option<&'a Guard>,
    pub(super) domain: Option<OwnedFd>,
    pub(super) entrances: [Option<OwnedFd>; ENTRANCES],
    /// Whether it and what it starts are to be ended before the engine where memory is used up.
    pub(super) expendable: bool,
}

/// Is this process from now on. Called right after the fork, with every signal blocked.
pub(super) fn supervise(kept: Kept<'_>) -> ! {
    let ended = set_up(kept).map(|mut supervisor| supervisor.serve());
    sys::exit(i32::from(ended.is_none()))
}

/// Keeps nothing of the engine but the sockets. `None` if the kernel refuses something needed.
fn set_up(kept: Kept<'_>) -> Option<Supervisor> {
    sys::default_signals();
    quiet_streams()?;
    if kept.expendable {
        volunteer();
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).ok()?;
    // One that a command has stopped would not see the end of its socket, and stay for ever. To one that runs this
    // signal means nothing, so it does not matter which thread of the engine's ended.
    rustix::process::set_parent_process_death_signal(Some(Signal::CONT)).ok()?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).ok()?;
    rustix::process::setsid().ok()?;
    Some(Supervisor {
        // Here, because what is forked from here inherits them for nothing.
        unguarded: kept.guard.and_then(|guard| guard.install_filters().err()),
        domain: kept.domain,
        entrances: kept.entrances,
        control: kept.control,
        queue: kept.queue,
        children: sys::child_signals().ok()?,
        timer: sys::timer().ok()?,
        table: Table::open(),
        desk: Desk::new()?,
        own: rustix::process::getpid().as_raw_nonzero().get(),
        leader: None,
        owes_leader: true,
        deaths: 0,
        begun: 0,
        run: None,
        early: None,
    })
}

/// Is the first to be ended where the memory of a group is used up, with everything that is started from here: the engine, which
/// is in the same group, is to tell of it. Where that cannot be had the kernel chooses who holds the most.
fn volunteer() {
    // The file is root's while this process is out of reach of others of its user. What this engine has started so far is
    // kept away from it by its domain.
    let dumpable = rustix::process::DumpableBehavior::Dumpable;
    if rustix::process::set_dumpable_behavior(dumpable).is_err() {
        return;
    }
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(c"/proc/self/oom_score_adj", flags, Mode::empty()) {
        let _ = rustix::io::write(&file, b"1000");
    }
}

/// Gives up the engine's standard streams, so that whoever reads those sees them end with it.
fn quiet_streams() -> Option<()> {
    let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .or_else(|_| rustix::fs::memfd_create(c"null", MemfdFlags::CLOEXEC))
        .ok()?;
    rustix::stdio::dup2_stdin(&null).ok()?;
    rustix::stdio::dup2_stdout(&null).ok()?;
    rustix::stdio::dup2_stderr(&null).ok()
}

impl Supervisor {
    /// Serves until the socket ends.
    fn serve(&mut self) {
        loop {
            let woken = self.wait();
            if woken.rested && self.is_idle() {
                self.owes_leader = false;
                // That none can be made is said once somebody wants it.
                let _ = self.make_leader();
            }
            self.note_start();
            if woken.timer {
                let mut count = [0; 8];
                let _ = rustix::io::read(&self.timer, &mut count);
            }
            if woken.child {
                self.reap();
            }
            if woken.request && !self.take_request() {
                break;
            }
            self.do_early();
            self.keep_time();
            if woken.queue {
                self.serve_queue();
            }
        }
        self.note_start();
        if let Some(leader) = self.leader.take() {
            // It has nothing to wait for any more, or takes what was sent just before the end.
            self.run = Some(Run::new(leader));
        }
        self.sweep(Awaited::ByNobody);
    }

    /// Waits until there is a request, an ended child, or something to do by the clock.
    fn wait(&self) -> Woken {
        let early = self
            .early
            .map(|_| sys::now().saturating_add(EARLY_PAUSE_MS));
        let next = self
            .run
            .as_ref()
            .and_then(|run| earlier(run.announce_at, earlier(run.deadline, run.kill_at)));
        let resting = self.is_idle() && self.owes_leader;
        let pause = if resting {
            Some(REST)
        } else {
            earlier(early, next).map(|at| timespec(at.saturating_sub(sys::now())))
        };
        // The end of a socket wakes in any case.
        let only = |wanted: bool| {
            if wanted {
                PollFlags::IN
            } else {
                PollFlags::empty()
            }
        };
        let mut watched = [
            PollFd::new(&self.control, only(self.early.is_none())),
            PollFd::new(&self.children, PollFlags::IN),
            PollFd::new(&self.timer, PollFlags::IN),
            PollFd::new(&self.queue, PollFlags::IN),
        ];
        let watched_for = if self.is_idle() { 4 } else { 3 };
        let watching = watched.get_mut(..watched_for).unwrap_or_default();
        let Ok(count) = rustix::event::poll(watching, pause.as_ref()) else {
            return Woken::default();
        };
        let [control, children, timer, queue] = watched.map(|one| !one.revents().is_empty());
        Woken {
            rested: resting && count == 0,
            request: control,
            child: children,
            timer,
            queue,
        }
    }

    /// Makes a leader, where there is no child.
    fn make_leader(&mut self) -> Result<(), Failure> {
        if let Some(errno) = self.unguarded {
            return Err((Stage::Guard, errno));
        }
        let given = Given {
            queue: self.queue.as_fd(),
            timer: self.timer.as_fd(),
            domain: self.domain.as_ref().map(AsFd::as_fd),
            entrances: self
                .entrances
                .each_ref()
                .map(|entrance| entrance.as_ref().map(AsFd::as_fd)),
            unneeded: [self.control.as_fd(), self.children.as_fd()],
            supervisor: self.own,
        };
        let leader = self
            .desk
            .leader(&given)
            .map_err(|errno| (Stage::Fork, errno))?;
        self.leader = Some(leader);
        Ok(())
    }

    /// Whether nothing runs, and nobody waits for something to run.
    fn is_idle(&self) -> bool {
        self.run.is_none() && self.leader.is_none()
    }

    /// Sees to a run that nobody is there to take.
    fn serve_queue(&mut self) {
        if !self.is_idle() {
            return;
        }
        let made = if self.deaths < MOST_DEATHS {
            self.make_leader()
        } else {
            Err((Stage::Fork, libc::EAGAIN))
        };
        let Err((stage, errno)) = made else { return };
        let mut bytes = [0; REQUEST_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RUN_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [std::io::IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        // Its descriptors are closed with the buffer.
        let received = rustix::net::recvmsg(&self.queue, &mut slices, &mut ancillary, flags);
        if received.is_ok()
            && let Some((run, Request::Run { .. })) = Request::decode(&bytes)
        {
            self.begun = run;
            self.deaths = 0;
            self.send(Reply::Failed { stage, errno });
        }
    }

    /// Takes notice of a run that the leader has taken.
    pub(super) fn note_start(&mut self) {
        let (Some(leader), Some(terms)) = (self.leader, SLIP.taken()) else {
            return;
        };
        self.leader = None;
        self.deaths = 0;
        self.begun = terms.run;
        self.owes_leader = true;
        self.run = Some(Run {
            deadline: (terms.timeout_ms > 0).then(|| terms.begun.saturating_add(terms.timeout_ms)),
            announce_at: Some(terms.begun.saturating_add(terms.announce_ms)),
            announce: if terms.announce_ms == 0 {
                Announced::Always
            } else {
                Announced::IfItLasts
            },
            grace_ms: terms.grace_ms,
            ..Run::new(leader)
        });
    }

    /// Reads one request and does it. `false` when there will be no more.
    fn take_request(&mut self) -> bool {
        if self.early.is_some() {
            // Nothing was watched for but the end.
            return false;
        }
        let mut bytes = [0; REQUEST_BYTES];
        match rustix::net::recv(&self.control, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok(_) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return true,
            Err(_) => return false,
        }
        self.early = Request::decode(&bytes);
        true
    }

    /// Does what was asked, once the run that it is about has begun.
    fn do_early(&mut self) {
        let Some((run, request)) = self.early else {
            return;
        };
        if run > self.begun {
            self.note_start();
        }
        if run > self.begun {
            return;
        }
        self.early = None;
        if run < self.begun || self.run.is_none() {
            // It is over already.
            return;
        }
        match request {
            Request::Signal { signal, scope } => self.signal(signal, scope),
            Request::Stop { grace_ms } => self.stop(grace_ms),
            Request::Sweep => self.sweep(Awaited::ByEngine),
            Request::Leave => self.report_left(),
            Request::Run { .. } => {}
        }
    }

    /// Does what the clock asks for.
    fn keep_time(&mut self) {
        let now = sys::now();
        let Some(run) = &mut self.run else { return };
        if run.announce_at.is_some_and(|at| at <= now) {
            // Whether it runs is known once it has left our memory. If it only ended, that is next.
            let patience = match run.announce {
                Announced::Always => EXECUTE_WAIT,
                Announced::IfItLasts => Duration::ZERO,
            };
            if !SLIP.has_left(patience) {
                run.announce_at = Some(now.saturating_add(EXECUTE_PAUSE_MS));
            } else if SLIP.failure().is_none() {
                run.announce_at = None;
                if let Some(pid) = run.leader {
                    self.send(Reply::Started { pid });
                }
            }
        }
        let Some(run) = &mut self.run else { return };
        if run.kill_at.is_some_and(|at| at <= now) {
            return self.sweep(Awaited::ByEngine);
        }
        if run.deadline.is_some_and(|at| at <= now) {
            run.timed_out = true;
            let grace_ms = run.grace_ms;
            self.stop(grace_ms);
        }
    }

    /// Reports. If the engine is gone, the next look at the socket says so.
    pub(super) fn send(&self, reply: Reply) {
        let _ = rustix::net::send(&self.control, &reply.encode(), SendFlags::NOSIGNAL);
    }
}

fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Milliseconds as the kernel wants them; what is too long for it is a day.
pub(super) fn timespec(millis: u64) -> Timespec {
    let millis = millis.min(86_400_000);
    Timespec {
        tv_sec: i64::try_from(millis / 1000).unwrap_or(0),
        tv_nsec: i64::try_from(millis % 1000 * 1_000_000).unwrap_or(0),
    }
}
