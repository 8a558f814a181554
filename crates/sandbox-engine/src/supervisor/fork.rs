//! How a supervisor comes to be, and which processes of ours are supervisors.
//!
//! A supervisor is forked from a process with threads, and never executes anything: after the fork
//! only `child` runs, which makes system calls on memory it has. The fork happens
//! with every signal blocked, so that no handler of the engine ever runs in the copy.
//!
//! The register below belongs to the process, not to a pool, because what it answers does: which of
//! *this process's* children are supervisors, and which are orphans that came back because a
//! supervisor was killed. An orphan is a child that is not registered and not in our session: the
//! first process of each run makes a session of its own, and no process can join another's.
//!
//! **Invariant:** children are waited for by number only. A child that is not ours to know, started
//! by whatever else lives in this process, keeps its status for whoever started it.

#![expect(unsafe_code, reason = "fork, and giving up every descriptor after it")]

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, WaitOptions};
use sandbox_guard::Guard;

use super::child::Kept;
use super::confinement::{Confinement, ENTRANCES};
use super::hunt::Hunt;
use super::tree::Table;
use super::{child, sys};

/// Where a supervisor keeps its socket. What else it keeps is beyond.
const CONTROL: RawFd = 3;
/// How long orphans of a lost supervisor are killed before they are given up.
const ORPHAN_LIMIT: Duration = Duration::from_secs(5);

static REGISTER: Mutex<Register> = Mutex::new(Register {
    living: BTreeSet::new(),
    leaving: Vec::new(),
});

struct Register {
    living: BTreeSet<i32>,
    /// Told to go, and not yet waited for.
    leaving: Vec<i32>,
}

fn register() -> MutexGuard<'static, Register> {
    // Nothing under the lock can panic half-way, so a poisoned register is a good one.
    REGISTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A supervisor that was made: our ends of its two sockets, and its number. Neither blocks.
pub(super) struct Forked {
    pub(super) control: OwnedFd,
    /// Leads to whichever leader waits.
    pub(super) leader: OwnedFd,
    pub(super) pid: i32,
}

/// Makes a supervisor.
///
/// - `confinement`: what everything that it starts is under
///
/// # Errors
///
/// What the kernel says when there are too many processes, descriptors, or too little memory.
pub(super) fn supervisor(confinement: &Confinement) -> io::Result<Forked> {
    let pair = || {
        rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
    };
    let (control, their_control) = pair()?;
    let (leader, their_leader) = pair()?;
    rustix::io::ioctl_fionbio(&control, true)?;
    // Held over the fork, so that nobody takes the new child for an orphan before it is noted. The
    // child never touches it.
    let mut register = register();
    collect(&mut register);
    let mask = sys::block_signals();
    let Confinement { guard, group } = confinement;
    let guard = guard.as_deref();
    let domain = guard.and_then(Guard::domain).map(AsFd::as_fd);
    let mut entrances = [None; ENTRANCES];
    let all = group.iter().flat_map(|group| group.entrances());
    for (slot, entrance) in entrances.iter_mut().zip(all) {
        *slot = Some(entrance);
    }
    let [one, two, three] = entrances;
    // The engine is in the same group, and has to outlive what uses up its memory.
    let expendable = group.as_ref().is_some_and(|group| group.surrounds());
    // SAFETY: the child calls only `keep_only` and `supervise`, which make system calls on memory
    // they have, take no lock, do not unwind, and never return here.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let (control, leader) = (their_control.as_fd(), their_leader.as_fd());
        let kept = keep_only([Some(control), Some(leader), domain, one, two, three]);
        let [Some(control), Some(queue), domain, entrances @ ..] = kept else {
            sys::exit(1);
        };
        child::supervise(Kept {
            control,
            queue,
            guard,
            domain,
            entrances,
            expendable,
        });
    }
    let failed = io::Error::last_os_error();
    sys::restore_signals(&mask);
    if pid < 0 {
        return Err(failed);
    }
    register.living.insert(pid);
    Ok(Forked {
        control,
        leader,
        pid,
    })
}

/// What a supervisor keeps, each at a place of its own from [`CONTROL`] on.
const KEPT: usize = 3 + ENTRANCES;

/// Moves these to their places and closes every other descriptor from there on. In the child only.
fn keep_only(given: [Option<BorrowedFd<'_>>; KEPT]) -> [Option<OwnedFd>; KEPT] {
    let mut beyond = CONTROL;
    for _ in given {
        beyond += 1;
    }
    // Out of the way first: one may be where the other belongs.
    let high = given.map(|given| {
        given.map(
            |given| match rustix::io::fcntl_dupfd_cloexec(given, beyond) {
                Ok(high) => high.into_raw_fd(),
                Err(_) => sys::exit(1),
            },
        )
    });
    let mut at = CONTROL;
    let kept = high.map(|high| {
        let kept = match high {
            Some(high) => Some(place(high, at)),
            None => {
                // SAFETY: as in `place`: whoever owned what may be here does not exist in this process.
                unsafe { libc::close(at) };
                None
            }
        };
        at += 1;
        kept
    });
    // SAFETY: as in `place`, for every descriptor beyond those.
    unsafe { sys::close_from(beyond) };
    kept
}

/// Moves a descriptor to its place. In the child only.
fn place(descriptor: RawFd, place: RawFd) -> OwnedFd {
    // SAFETY: this is a fork whose frames never return, so whoever owned the descriptor at this place in
    // the engine does not exist here. It is open after `dup3` and has no other owner.
    unsafe {
        if libc::dup3(descriptor, place, libc::O_CLOEXEC) < 0 {
            sys::exit(1);
        }
        OwnedFd::from_raw_fd(place)
    }
}

/// Notes that a supervisor was told to go, by closing its sockets.
pub(super) fn retire(pid: i32) {
    let mut register = register();
    if register.living.remove(&pid) {
        register.leaving.push(pid);
    }
    collect(&mut register);
}

/// Kills a supervisor that does not answer, or makes sure of one that is gone. Its children come
/// back to us.
pub(super) fn kill(pid: i32) {
    let register = register();
    // Not waited for yet, so the number is surely still its own.
    if register.living.contains(&pid) {
        sys::kill(pid, libc::SIGKILL);
    }
}

/// Wakes a supervisor that somebody stopped.
pub(super) fn wake(pid: i32) {
    let register = register();
    if register.living.contains(&pid) {
        sys::kill(pid, libc::SIGCONT);
    }
}

/// Whether a supervisor that was killed is gone; it is forgotten then.
pub(super) fn is_gone(pid: i32) -> bool {
    let mut register = register();
    let gone = ended(pid);
    if gone {
        register.living.remove(&pid);
    }
    gone
}

/// Waits for those that were told to go and went.
fn collect(register: &mut Register) {
    register.leaving.retain(|pid| !ended(*pid));
}

fn ended(pid: i32) -> bool {
    match Pid::from_raw(pid).map(|pid| rustix::process::waitpid(Some(pid), WaitOptions::NOHANG)) {
        Some(Ok(None)) => false,
        Some(Ok(Some(_)) | Err(_)) | None => true,
    }
}

/// Kills the orphans of supervisors that are gone, and all that descends from them, until none comes back
/// any more.
///
/// Returns how many were killed and the numbers of those that could not be.
pub(super) async fn sweep_orphans() -> (u32, Vec<i32>) {
    let table = Table::open();
    let limit = Instant::now() + ORPHAN_LIMIT;
    let mut killed = 0_u32;
    loop {
        let orphans = kill_orphans(&table);
        for pid in orphans.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let reaped = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
            killed = killed.saturating_add(u32::from(matches!(reaped, Ok(Some(_)))));
        }
        if orphans.is_empty() || Instant::now() >= limit {
            return (killed, orphans);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Kills what runs left behind, and returns those that are children of ours. None is reaped before all
/// were seen, so that each number is still its own.
fn kill_orphans(table: &Table) -> Vec<i32> {
    let register = register();
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let session = table.session(own);
    let known = |pid: &i32| register.living.contains(pid) || register.leaving.contains(pid);
    let mut orphans = BTreeSet::new();
    Hunt::below(own).chase(table, |stat| {
        if stat.parent == own {
            if Some(stat.session) == session || known(&stat.pid) {
                return false;
            }
            orphans.insert(stat.pid);
        }
        table.signal(stat, own, libc::SIGKILL);
        true
    });
    orphans.into_iter().collect()
}
