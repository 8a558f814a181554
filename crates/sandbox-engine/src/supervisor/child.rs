//! The supervisor's own loop: start, reap, signal, sweep.
//!
//! It waits for three things: a request, a child that ended, a moment in time. Timeouts and grace
//! are kept here and not by the engine, so that a command ends in time although the engine is
//! stopped or busy. The end of the socket means that nobody is left to answer to: everything is
//! killed, and the supervisor leaves.
//!
//! **Invariant:** `run` is `None` only when the kernel has said that there is no child.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};

use super::start::{self, Given};
use super::sys::{self, Mapping, Reaped};
use super::tree::{Pids, Table};
use super::wire::{
    INLINE_BYTES, REQUEST_BYTES, RUN_DESCRIPTORS, Reply, Request, Scope, Stage, Survivors, Usage,
};

/// How long a sweep goes on before it reports survivors, in milliseconds. What outlives SIGKILL
/// that long is stuck in the kernel, or is not ours to kill.
const SWEEP_LIMIT_MS: u64 = 5000;
/// How long a sweep waits for the killed to end before it looks at the process table again.
const SWEEP_PAUSE_MS: u64 = 5;

/// A run that has children left.
struct Run {
    /// The leader, until it has been reaped.
    leader: Option<i32>,
    /// When the leader's time is over.
    deadline: Option<u64>,
    /// When politeness ends.
    kill_at: Option<u64>,
    /// When the engine is told that the leader runs, if it still does.
    announce_at: Option<u64>,
    grace_ms: u64,
    timed_out: bool,
    /// Time used by processes that ended as our children, the leader apart.
    adopted: Usage,
    /// How many ended by our SIGKILL.
    killed: u32,
    sweeping: bool,
}

struct Supervisor {
    control: OwnedFd,
    children: OwnedFd,
    table: Table,
    stack: Mapping,
    /// Where an image that travels in its packet is received, and stays until it is executed.
    inline: Mapping,
    own: i32,
    run: Option<Run>,
}

/// Is this process from now on. Called right after the fork, with every signal blocked.
pub(super) fn supervise(control: OwnedFd) -> ! {
    let ended = set_up(control).map(|mut supervisor| supervisor.serve());
    sys::exit(i32::from(ended.is_none()))
}

/// Keeps nothing of the engine but the socket. `None` if the kernel refuses something needed.
fn set_up(control: OwnedFd) -> Option<Supervisor> {
    sys::default_signals();
    quiet_streams()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).ok()?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).ok()?;
    rustix::process::setsid().ok()?;
    Some(Supervisor {
        control,
        children: sys::child_signals().ok()?,
        table: Table::open(),
        stack: Mapping::anonymous(start::STACK_BYTES).ok()?,
        inline: Mapping::anonymous(INLINE_BYTES).ok()?,
        own: rustix::process::getpid().as_raw_nonzero().get(),
        run: None,
    })
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
            let (request, child) = self.wait();
            if child {
                self.reap();
            }
            if request && !self.take_request() {
                break;
            }
            self.keep_time();
        }
        if self.run.is_some() {
            self.sweep();
        }
    }

    /// Waits until there is a request, an ended child, or something to do by the clock.
    fn wait(&self) -> (bool, bool) {
        let next = self
            .run
            .as_ref()
            .and_then(|run| earlier(run.announce_at, earlier(run.deadline, run.kill_at)));
        let pause = next.map(|at| timespec(at.saturating_sub(sys::now())));
        let mut watched = [
            PollFd::new(&self.control, PollFlags::IN),
            PollFd::new(&self.children, PollFlags::IN),
        ];
        if rustix::event::poll(&mut watched, pause.as_ref()).is_err() {
            return (false, false);
        }
        let [control, children] = watched;
        (
            !control.revents().is_empty(),
            !children.revents().is_empty(),
        )
    }

    /// Reads one request and does it. `false` when there will be no more.
    fn take_request(&mut self) -> bool {
        let mut bytes = [0; REQUEST_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RUN_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [
            IoSliceMut::new(&mut bytes),
            IoSliceMut::new(self.inline.bytes()),
        ];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let length = match rustix::net::recvmsg(&self.control, &mut slices, &mut ancillary, flags) {
            Ok(message) => message.bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return true,
            Err(_) => return false,
        };
        if length == 0 {
            return false;
        }
        let mut given: [Option<OwnedFd>; RUN_DESCRIPTORS] = [const { None }; RUN_DESCRIPTORS];
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                for (slot, descriptor) in given.iter_mut().zip(descriptors) {
                    *slot = Some(descriptor);
                }
            }
        }
        let inline = length.checked_sub(REQUEST_BYTES);
        match inline.and_then(|_| Request::decode(&bytes)) {
            Some(Request::Run {
                timeout_ms,
                grace_ms,
                announce_ms,
            }) => match self.start(&given, inline.unwrap_or(0)) {
                Ok(pid) => self.begin(pid, timeout_ms, grace_ms, announce_ms),
                Err((stage, errno)) => self.send(Reply::Failed { stage, errno }),
            },
            Some(Request::Signal { signal, scope }) => self.signal(signal, scope),
            Some(Request::Stop { grace_ms }) => self.stop(grace_ms),
            Some(Request::Sweep) if self.run.is_some() => self.sweep(),
            Some(Request::Leave) if self.run.is_some() => self.report_left(),
            Some(Request::Sweep | Request::Leave) | None => {}
        }
        true
    }

    fn start(
        &mut self,
        given: &[Option<OwnedFd>; RUN_DESCRIPTORS],
        inline: usize,
    ) -> Result<i32, (Stage, i32)> {
        match given {
            _ if self.run.is_some() => Err((Stage::Accept, libc::EBUSY)),
            [
                Some(directory),
                Some(input),
                Some(output),
                Some(errors),
                image,
            ] => {
                let given = Given {
                    directory: directory.as_fd(),
                    streams: [input.as_fd(), output.as_fd(), errors.as_fd()],
                };
                self.execute(&given, image.as_ref(), inline)
            }
            _ => Err((Stage::Accept, libc::EBADF)),
        }
    }

    /// Takes care of a leader that was started.
    fn begin(&mut self, pid: i32, timeout_ms: u64, grace_ms: u64, announce_ms: u64) {
        let now = sys::now();
        self.run = Some(Run {
            leader: Some(pid),
            deadline: (timeout_ms > 0).then(|| now.saturating_add(timeout_ms)),
            kill_at: None,
            announce_at: Some(now.saturating_add(announce_ms)),
            grace_ms,
            timed_out: false,
            adopted: Usage::default(),
            killed: 0,
            sweeping: false,
        });
    }

    /// Starts what the image says: the one passed as a descriptor, or the one received with the
    /// request.
    fn execute(
        &mut self,
        given: &Given<'_>,
        image: Option<&OwnedFd>,
        inline: usize,
    ) -> Result<i32, (Stage, i32)> {
        let refused = |errno| (Stage::Accept, errno);
        let Some(image) = image else {
            let words = self.inline.words();
            let words = words.get_mut(..inline / 8).unwrap_or_default();
            return start::start(given, words, &self.stack);
        };
        let stat = rustix::fs::fstat(image).map_err(|error| refused(error.raw_os_error()))?;
        let bytes = usize::try_from(stat.st_size).map_err(|_| refused(libc::EINVAL))?;
        let mut mapped = Mapping::of(image.as_fd(), bytes).map_err(refused)?;
        start::start(given, mapped.words(), &self.stack)
    }

    /// Takes note of every child that has ended, and tells the engine what follows from it.
    fn reap(&mut self) {
        let mut buffer = [0; 128];
        // Read before looking, so that a child that ends in between is signalled again. One read is
        // enough: a signal that is pending already is not queued twice.
        let _ = rustix::io::read(&self.children, &mut buffer);
        let Some(mut run) = self.run.take() else {
            while let Reaped::Child(..) = sys::reap() {}
            return;
        };
        let mut ended = None;
        let alone = loop {
            match sys::reap() {
                Reaped::Child(pid, status, usage) if run.leader == Some(pid) => {
                    ended = Some((status, usage));
                    run.leader = None;
                    run.deadline = None;
                    run.announce_at = None;
                }
                Reaped::Child(_, status, usage) => {
                    run.adopted.add(usage);
                    if run.sweeping
                        && libc::WIFSIGNALED(status)
                        && libc::WTERMSIG(status) == libc::SIGKILL
                    {
                        run.killed = run.killed.saturating_add(1);
                    }
                }
                Reaped::Nobody => break false,
                Reaped::Childless => break true,
            }
        };
        let timed_out = run.timed_out;
        let swept = Reply::Swept {
            killed: run.killed,
            usage: run.adopted,
            survivors: Survivors::default(),
        };
        if let Some((status, mut usage)) = ended {
            // What was adopted and ended before the leader is the leader's in any answer; counted
            // here, it must not be counted again.
            usage.add(std::mem::take(&mut run.adopted));
            // After a stop or a kill, `Swept` says how many it took.
            let last_word = alone && run.kill_at.is_none() && !run.sweeping;
            self.send(Reply::Exited {
                status,
                usage,
                timed_out,
                alone: last_word,
            });
            if alone && !last_word {
                self.send(Reply::Swept {
                    killed: run.killed,
                    usage: Usage::default(),
                    survivors: Survivors::default(),
                });
            }
        } else if alone {
            self.send(swept);
        }
        if !alone {
            self.run = Some(run);
        }
    }

    fn signal(&mut self, signal: i32, scope: Scope) {
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
    fn stop(&mut self, grace_ms: u64) {
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

    /// Does what the clock asks for.
    fn keep_time(&mut self) {
        let now = sys::now();
        let Some(run) = &mut self.run else { return };
        if run.announce_at.is_some_and(|at| at <= now) {
            run.announce_at = None;
            if let Some(pid) = run.leader {
                self.send(Reply::Started { pid });
            }
        }
        let Some(run) = &mut self.run else { return };
        if run.kill_at.is_some_and(|at| at <= now) {
            return self.sweep();
        }
        if run.deadline.is_some_and(|at| at <= now) {
            run.timed_out = true;
            let grace_ms = run.grace_ms;
            self.stop(grace_ms);
        }
    }

    /// Kills until nothing is left, or until it is clear that something cannot be killed.
    fn sweep(&mut self) {
        let limit = sys::now().saturating_add(SWEEP_LIMIT_MS);
        if let Some(run) = &mut self.run {
            run.sweeping = true;
            run.kill_at = None;
            run.deadline = None;
            // The leader is not reaped yet, so its group's number is surely its own.
            if let Some(leader) = run.leader {
                sys::kill(-leader, libc::SIGKILL);
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
    fn report_left(&mut self) {
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

    /// Reports. If the engine is gone, the next look at the socket says so.
    fn send(&self, reply: Reply) {
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
fn timespec(millis: u64) -> Timespec {
    let millis = millis.min(86_400_000);
    Timespec {
        tv_sec: i64::try_from(millis / 1000).unwrap_or(0),
        tv_nsec: i64::try_from(millis % 1000 * 1_000_000).unwrap_or(0),
    }
}
