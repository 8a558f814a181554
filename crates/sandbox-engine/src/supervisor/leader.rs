//! From a process that waits to the running program.
//!
//! A leader is made before there is anything to execute. It shares its supervisor's memory until it
//! executes (`CLONE_VM`, as `posix_spawn` does), on a stack of its own, so that nothing is copied for
//! it and nothing torn down when it leaves; but it has descriptors of its own, and runs beside its
//! supervisor. It does what can be done ahead, waits for an image and three streams, and becomes the
//! program.
//!
//! The order of the steps is the order of their needs: the session before the terminal, descriptors
//! before limits (a limit of 0 open files must not stop us), the signal mask last, because a signal
//! that arrives after it ends the process.
//!
//! **Invariant:** while there is a leader, the C library's `errno`, which both would write to, is the
//! leader's: the supervisor neither reads it nor makes a call that sets it.
//!
//! Not here: what the supervisor makes of it (`child`).

#![expect(unsafe_code, reason = "clone and execve are what this module is for")]

use std::ffi::{c_char, c_int, c_void};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::Signal;
use sandbox_guard::Domain;

use super::confinement::ENTRANCES;
use super::image::{FLAG_NO_NEW_PRIVILEGES, FLAG_TERMINAL, View};
use super::slip::{SLIP, Terms};
use super::sys::{self, Mapping};
use super::wire::{INLINE_BYTES, REQUEST_BYTES, RUN_DESCRIPTORS, Request, Stage};

/// Bytes of the stack on which a process runs until it executes.
const STACK_BYTES: usize = 64 << 10;

/// Where leaders run until they execute: one after the other.
pub(super) struct Desk {
    stack: Mapping,
    /// Where an image that travels in its packet is received, and stays until it is executed.
    inline: Mapping,
}

/// What a leader works with. It lies on the top of its own stack.
struct Work {
    /// Where its run comes from.
    socket: RawFd,
    /// Wakes the supervisor at the first moment that it has to know of.
    timer: RawFd,
    /// What it is guarded by, as a descriptor; negative if by nothing.
    domain: RawFd,
    /// Where it enters the group that limits it, negative where there is none.
    entrances: [RawFd; ENTRANCES],
    /// What is the supervisor's alone.
    unneeded: [RawFd; 2],
    supervisor: i32,
    inline: *mut u64,
}

/// What a supervisor gives its leader.
pub(super) struct Given<'a> {
    /// Where its run comes from.
    pub(super) queue: BorrowedFd<'a>,
    /// What it sets for its supervisor.
    pub(super) timer: BorrowedFd<'a>,
    /// What it is guarded by.
    pub(super) domain: Option<BorrowedFd<'a>>,
    /// Where it enters the group that limits it.
    pub(super) entrances: [Option<BorrowedFd<'a>>; ENTRANCES],
    /// What it shall not hold open.
    pub(super) unneeded: [BorrowedFd<'a>; 2],
    /// The supervisor's own number.
    pub(super) supervisor: i32,
}

/// The step that failed, and the kernel's reason.
pub(super) type Failure = (Stage, i32);

impl Desk {
    /// Takes the memory for it.
    pub(super) fn new() -> Option<Self> {
        Some(Desk {
            stack: Mapping::anonymous(STACK_BYTES).ok()?,
            inline: Mapping::anonymous(INLINE_BYTES).ok()?,
        })
    }

    /// Makes a leader, and returns its number. There must be no other, and no child at all.
    ///
    /// # Errors
    ///
    /// The kernel's reason.
    pub(super) fn leader(&mut self, given: &Given<'_>) -> Result<i32, i32> {
        if let Some((start, bytes)) = SLIP.clear() {
            // SAFETY: a leader mapped it for itself, and has left this memory.
            unsafe { sys::unmap(start, bytes) };
        }
        let number = |given: Option<BorrowedFd<'_>>| given.map_or(-1, |given| given.as_raw_fd());
        let work = Work {
            socket: given.queue.as_raw_fd(),
            timer: given.timer.as_raw_fd(),
            domain: number(given.domain),
            entrances: given.entrances.map(number),
            unneeded: given.unneeded.map(|fd| fd.as_raw_fd()),
            supervisor: given.supervisor,
            inline: self.inline.words().as_mut_ptr(),
        };
        let top = self.stack.top().cast::<Work>().wrapping_sub(1);
        let flags = libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD;
        // SAFETY: both mappings are used by one leader at a time and by nobody else; `top` is inside
        // the one, aligned, and the stack begins below it. `lead` neither recurses nor allocates, and
        // stays far from the stack's end. The slip is a static.
        let pid = unsafe {
            top.write(work);
            libc::clone(
                lead,
                top.cast(),
                flags,
                top.cast(),
                std::ptr::null_mut::<libc::pid_t>(),
                std::ptr::null_mut::<c_void>(),
                SLIP.shared.as_ptr(),
            )
        };
        if pid < 0 { Err(sys::errno()) } else { Ok(pid) }
    }
}

/// Where a leader begins. It never returns.
extern "C" fn lead(work: *mut c_void) -> c_int {
    // SAFETY: `Desk::leader` put it there for this process alone, and leaves it there.
    let work = unsafe { &*work.cast::<Work>() };
    for unneeded in work.unneeded {
        // SAFETY: the descriptor table is a copy, and nothing in this process uses this one.
        unsafe { libc::close(unneeded) };
    }
    let alone = set_apart(work);
    // SAFETY: the mapping has this many bytes, and is this process's until it executes.
    let inline = unsafe { std::slice::from_raw_parts_mut(work.inline, INLINE_BYTES / 8) };
    let failure = match receive(work, inline) {
        Some(received) => alone
            .and(received)
            .and_then(|received| become_program(&received, inline)),
        // Nobody will ask any more.
        None => sys::exit(0),
    };
    if let Err(failure) = failure {
        SLIP.fail(failure);
    }
    sys::exit(127)
}

/// What can be done before it is known what to execute.
fn set_apart(work: &Work) -> Result<(), Failure> {
    let at = |error: rustix::io::Errno| (Stage::Accept, error.raw_os_error());
    // Should the supervisor be killed, the kernel ends at least the leader at once.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(at)?;
    if rustix::process::getppid().map(rustix::process::Pid::as_raw_pid) != Some(work.supervisor) {
        // It was killed before that was said.
        sys::exit(0);
    }
    rustix::process::setsid().map_err(at)?;
    for entrance in work.entrances.iter().filter(|entrance| **entrance >= 0) {
        // Ahead of the run too: it takes the kernel milliseconds.
        // SAFETY: as below.
        let entrance = unsafe { BorrowedFd::borrow_raw(*entrance) };
        sandbox_cgroup::enter(entrance).map_err(|errno| (Stage::Limit, errno))?;
    }
    if work.domain >= 0 {
        // Ahead of the run, for which it then costs nothing. What follows needs no file of ours, and signals
        // nobody; and a descriptor that was opened outside stays what it is.
        // SAFETY: the supervisor has it open, and so has this copy of its table until we execute.
        let domain = unsafe { BorrowedFd::borrow_raw(work.domain) };
        Domain::enter(domain).map_err(|errno| (Stage::Guard, errno))?;
    }
    Ok(())
}

/// What came: directory, streams, and perhaps the image.
struct Received {
    descriptors: [Option<OwnedFd>; RUN_DESCRIPTORS],
    /// Bytes of the image that came along.
    inline: usize,
}

/// Waits for a run, and says that it was taken. Nothing if there will be none.
fn receive(work: &Work, inline: &mut [u64]) -> Option<Result<Received, Failure>> {
    // SAFETY: it stays open until this process executes or ends.
    let socket = unsafe { BorrowedFd::borrow_raw(work.socket) };
    let mut bytes = [0; REQUEST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RUN_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let length = loop {
        // Not in the call that receives: who is killed there may have taken the packet along.
        let mut watched = [PollFd::new(&socket, PollFlags::IN)];
        let _ = rustix::event::poll(&mut watched, None);
        // One that is killed behind it has.
        SLIP.begin_receiving();
        let mut slices = [
            IoSliceMut::new(&mut bytes),
            IoSliceMut::new(sys::bytes_of(inline)),
        ];
        match rustix::net::recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => break message.bytes,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    };
    if length == 0 {
        return None;
    }
    // What was sent to us while we waited was not meant for what we become.
    sys::discard_signals();
    let mut descriptors = [const { None }; RUN_DESCRIPTORS];
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(given) = message {
            for (slot, descriptor) in descriptors.iter_mut().zip(given) {
                *slot = Some(descriptor);
            }
        }
    }
    let Some((
        run,
        Request::Run {
            timeout_ms,
            grace_ms,
            announce_ms,
        },
    )) = Request::decode(&bytes)
    else {
        return None;
    };
    let begun = sys::now();
    SLIP.take(Terms {
        run,
        begun,
        timeout_ms,
        grace_ms,
        announce_ms,
    });
    let first = match timeout_ms {
        0 => announce_ms,
        timeout_ms => announce_ms.min(timeout_ms),
    };
    let received = Received {
        descriptors,
        inline: length.saturating_sub(REQUEST_BYTES),
    };
    Some(
        sys::set_timer(work.timer, first)
            .map(|()| received)
            .map_err(|errno| (Stage::Accept, errno)),
    )
}

/// Executes what was received. Comes back only with a failure.
fn become_program(received: &Received, inline: &mut [u64]) -> Result<(), Failure> {
    let refused = |errno| (Stage::Accept, errno);
    let [
        Some(directory),
        Some(input),
        Some(output),
        Some(errors),
        image,
    ] = &received.descriptors
    else {
        return Err(refused(libc::EBADF));
    };
    let streams = [input, output, errors];
    let Some(image) = image else {
        let words = inline.get_mut(..received.inline / 8).unwrap_or_default();
        return Plan::new(words)?.carry_out(directory, streams);
    };
    let stat = rustix::fs::fstat(image).map_err(|error| refused(error.raw_os_error()))?;
    let bytes = usize::try_from(stat.st_size).map_err(|_| refused(libc::EINVAL))?;
    let mut mapped = Mapping::of(image.as_fd(), bytes).map_err(refused)?;
    SLIP.note_mapped(mapped.place());
    let done = Plan::new(mapped.words())?.carry_out(directory, streams);
    // It is the supervisor that gives it up, in either case.
    std::mem::forget(mapped);
    done
}

/// An image whose tables hold addresses.
struct Plan<'a> {
    view: View,
    words: &'a [u64],
}

impl<'a> Plan<'a> {
    fn new(words: &'a mut [u64]) -> Result<Self, Failure> {
        let view = View::parse(words).ok_or((Stage::Accept, libc::EINVAL))?;
        let base = words.as_ptr() as u64;
        view.relocate(words, base);
        Ok(Plan { view, words })
    }

    fn carry_out(&self, directory: &OwnedFd, streams: [&OwnedFd; 3]) -> Result<(), Failure> {
        self.prepare(directory, streams)?;
        Err(self.execute())
    }

    /// Everything before the program.
    fn prepare(&self, directory: &OwnedFd, streams: [&OwnedFd; 3]) -> Result<(), Failure> {
        let at = |stage: Stage| move |error: rustix::io::Errno| (stage, error.raw_os_error());
        rustix::process::fchdir(directory).map_err(at(Stage::Directory))?;
        let [input, output, errors] = streams;
        rustix::stdio::dup2_stdin(input).map_err(at(Stage::Stdio))?;
        rustix::stdio::dup2_stdout(output).map_err(at(Stage::Stdio))?;
        rustix::stdio::dup2_stderr(errors).map_err(at(Stage::Stdio))?;
        if self.view.flags & FLAG_TERMINAL != 0 {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin().as_fd())
                .map_err(at(Stage::Terminal))?;
        }
        for (resource, soft, hard) in self.view.limits(self.words) {
            sys::limit(resource, soft, hard).map_err(|errno| (Stage::Limit, errno))?;
        }
        if self.view.flags & FLAG_NO_NEW_PRIVILEGES != 0 {
            rustix::thread::set_no_new_privs(true).map_err(at(Stage::Privileges))?;
        }
        Ok(())
    }

    /// Tries each candidate, as `execvp` does, and says why none could be executed.
    fn execute(&self) -> Failure {
        sys::unblock_signals();
        let table = |at: usize| {
            let base = self.words.as_ptr();
            base.wrapping_add(at).cast::<*const c_char>()
        };
        let mut refused = libc::ENOENT;
        for candidate in self
            .words
            .get(self.view.candidates..self.view.argv)
            .unwrap_or_default()
        {
            if *candidate == 0 {
                break;
            }
            // SAFETY: `View::parse` found the three tables inside the image, each ended by 0 and
            // holding offsets of strings that end inside it; `relocate` made addresses of them.
            unsafe {
                libc::execve(
                    *candidate as *const c_char,
                    table(self.view.argv),
                    table(self.view.env),
                );
            }
            match sys::errno() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => refused = libc::EACCES,
                other => return (Stage::Exec, other),
            }
        }
        (Stage::Exec, refused)
    }
}
