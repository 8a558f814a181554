//! The system calls a supervisor needs and that have no safe wrapper elsewhere.
//!
//! Every function here may be called after a fork of a process with threads: it makes one system
//! call, or a few, on memory that is already there, takes no lock and does not allocate.

#![expect(
    unsafe_code,
    reason = "these are the system calls that have no safe wrapper"
)]

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::process::{Pid, Signal};

use super::wire::Usage;

/// What a look at the children said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaped {
    /// This child ended, with this wait status.
    Child(i32, i32, Usage),
    /// There are children, and none has ended.
    Nobody,
    /// There is no child at all.
    Childless,
}

/// Reaps one child that has ended, without waiting for one.
pub(super) fn reap() -> Reaped {
    let mut status = 0;
    // SAFETY: an all-zero `rusage` is a valid one, and `wait4` writes only to the two places given.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live, exclusively borrowed values of the right type.
    let pid = unsafe {
        libc::wait4(
            -1,
            &raw mut status,
            libc::WNOHANG | libc::__WALL,
            &raw mut usage,
        )
    };
    match pid {
        0 => Reaped::Nobody,
        pid if pid > 0 => Reaped::Child(pid, status, usage_of(&usage)),
        // EINTR cannot happen with every signal blocked; anything else means "none of ours".
        _ => Reaped::Childless,
    }
}

fn usage_of(usage: &libc::rusage) -> Usage {
    let micros = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds
            .saturating_mul(1_000_000)
            .saturating_add(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    Usage {
        user_micros: micros(usage.ru_utime),
        system_micros: micros(usage.ru_stime),
        peak_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
    }
}

/// The signals that were blocked, to be put back.
pub(super) struct SignalMask(u64);

/// Blocks every signal for this thread, the C library's own two included.
pub(super) fn block_signals() -> SignalMask {
    SignalMask(set_signal_mask(u64::MAX))
}

/// Puts the mask of this thread back.
pub(super) fn restore_signals(mask: &SignalMask) {
    set_signal_mask(mask.0);
}

/// Unblocks every signal.
pub(super) fn unblock_signals() {
    set_signal_mask(0);
}

/// The kernel's call itself, because the C library keeps two signals out of every mask.
fn set_signal_mask(mask: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: both pointers are to 8 live bytes, which is the size that is named.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            &raw mut before,
            8_usize,
        )
    };
    before
}

/// Gives every signal its default action, so that no program inherits an ignored one. (This process
/// ignores SIGPIPE, as every Rust program does, and a child of it would go on doing so.)
pub(super) fn default_signals() {
    // The kernel's own layout: handler, flags, restorer, mask; all zero is the default action. The
    // C library's call would refuse the two signals it keeps for itself.
    let default = [0_u64; 4];
    for signal in 1..=64 {
        // SAFETY: the pointer is to live bytes, no fewer than the kernel reads on any 64-bit
        // machine; the mask is 8 bytes. KILL and STOP are refused, which does no harm.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                8_usize,
            )
        };
    }
}

/// A descriptor that becomes readable when a child ends. SIGCHLD must be blocked.
pub(super) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is a live value; a non-negative result is a descriptor that nobody else owns.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(OwnedFd::from_raw_fd(fd))
        }
    }
}

/// Closes every descriptor from `first` on.
///
/// # Safety
///
/// Nothing in this process may use or close any of them afterwards. That is so after a fork whose
/// child never returns: the owners of those descriptors are frames and threads that no longer run.
pub(super) unsafe fn close_from(first: RawFd) {
    let first = first.unsigned_abs();
    // SAFETY: the caller vouches for the descriptors; the call touches no memory.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0_u32) };
    if done == 0 {
        return;
    }
    // Kernels before 5.9. The limit may be a million, which costs 50 ms once.
    // SAFETY: as above.
    unsafe {
        let most = libc::sysconf(libc::_SC_OPEN_MAX).clamp(0, 1 << 20);
        for fd in first..u32::try_from(most).unwrap_or(1024) {
            if let Ok(fd) = RawFd::try_from(fd) {
                libc::close(fd);
            }
        }
    }
}

/// Sends a signal to a process, or to a group if the number is negative. Whether it is still there,
/// and whether it is ours to signal, shows when it is waited for.
pub(super) fn kill(pid: i32, signal: i32) {
    // Neither "everybody" nor "our own group" is ever meant.
    let Some(who) = Pid::from_raw(pid.saturating_abs()).filter(|_| !(-1..=1).contains(&pid)) else {
        return;
    };
    // SAFETY: any number is safe here: the kernel refuses what is no signal, and nobody depends on it.
    let signal = unsafe { Signal::from_raw_unchecked(signal) };
    // Not the C library's call, because `errno` may be a leader's.
    let _ = if pid < 0 {
        rustix::process::kill_process_group(who, signal)
    } else {
        rustix::process::kill_process(who, signal)
    };
}

/// Sends a signal to the process that this is a handle of.
pub(super) fn signal_handle(handle: &OwnedFd, signal: i32) {
    // SAFETY: as in `kill`.
    let signal = unsafe { Signal::from_raw_unchecked(signal) };
    let _ = rustix::process::pidfd_send_signal(handle, signal);
}

/// Takes away every signal that waits to be delivered to this process. Every signal must be blocked.
pub(super) fn discard_signals() {
    let mut pending = 0_u64;
    // SAFETY: the pointer is to 8 live bytes, which is the size that is named.
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut pending, 8_usize) };
    // Mostly there is none. As many as may be queued are few; this is only not to go on for ever.
    for _ in 0..=u16::MAX {
        if pending == 0 {
            return;
        }
        let all = u64::MAX;
        let at_once = [0_u64; 2];
        // SAFETY: the pointers are to live values of the sizes that the kernel reads; it may leave out
        // what it would say of the signal.
        let taken = unsafe {
            libc::syscall(
                libc::SYS_rt_sigtimedwait,
                &raw const all,
                ptr::null_mut::<c_void>(),
                at_once.as_ptr(),
                8_usize,
            )
        };
        if taken <= 0 {
            return;
        }
    }
}

/// A timer that is not set. It becomes readable when its time has come.
pub(super) fn timer() -> io::Result<OwnedFd> {
    let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
    // SAFETY: a non-negative result is a descriptor that nobody else owns.
    unsafe {
        let fd = libc::timerfd_create(libc::CLOCK_MONOTONIC, flags);
        if fd < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(OwnedFd::from_raw_fd(fd))
        }
    }
}

/// Sets a timer once, to this many milliseconds from now.
pub(super) fn set_timer(timer: RawFd, after_ms: u64) -> Result<(), i32> {
    // What is too long for the kernel is a day; none at all would not set it.
    let after_ms = after_ms.min(86_400_000);
    let none = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let value = libc::timespec {
        tv_sec: i64::try_from(after_ms / 1000).unwrap_or(0),
        tv_nsec: i64::try_from(after_ms % 1000 * 1_000_000)
            .unwrap_or(0)
            .max(1),
    };
    let setting = libc::itimerspec {
        it_interval: none,
        it_value: value,
    };
    // SAFETY: the pointer is to a live value of the right type; the old setting is not asked for.
    let done = unsafe { libc::timerfd_settime(timer, 0, &raw const setting, ptr::null_mut()) };
    if done == 0 { Ok(()) } else { Err(errno()) }
}

/// Gives up a mapping.
///
/// # Safety
///
/// It must be a mapping of this process that nobody uses any more.
pub(super) unsafe fn unmap(start: usize, bytes: usize) {
    // SAFETY: the caller vouches for it.
    unsafe { libc::munmap(start as *mut c_void, bytes) };
}

/// The same memory in bytes.
pub(super) fn bytes_of(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: as many bytes as the words have, with no stricter alignment, borrowed exclusively.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// Sets a resource limit of this process, by the kernel's number of the resource.
pub(super) fn limit(resource: u64, soft: u64, hard: u64) -> Result<(), i32> {
    let Ok(resource) = u32::try_from(resource) else {
        return Err(libc::EINVAL);
    };
    let value = libc::rlimit64 {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: the pointer is to a live value of the kernel's layout; 0 is this process.
    let done = unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            resource,
            &raw const value,
            ptr::null_mut::<libc::rlimit64>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(errno()) }
}

/// The error of the last call of the C library.
pub(super) fn errno() -> i32 {
    // SAFETY: the C library keeps this place for the life of the thread.
    unsafe { *libc::__errno_location() }
}

/// Ends this process at once: no destructors, no hooks, no flushing of what belongs to others.
pub(super) fn exit(status: i32) -> ! {
    // SAFETY: ends the process without running anything of it.
    unsafe { libc::_exit(status) }
}

/// Memory of our own: a private copy of a file, or empty.
pub(super) struct Mapping {
    start: *mut c_void,
    bytes: usize,
}

impl Mapping {
    /// Maps the first `bytes` of a file, for reading and for writing that the file never sees.
    ///
    /// The file must not shrink while it is mapped: the engine writes an image once.
    pub(super) fn of(file: BorrowedFd<'_>, bytes: usize) -> Result<Self, i32> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh private mapping at a place the kernel chooses; nothing else refers to it.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            Err(errno())
        } else {
            Ok(Mapping { start, bytes })
        }
    }

    /// A block of zeros that nothing else uses.
    pub(super) fn anonymous(bytes: usize) -> Result<Self, i32> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: as in `of`.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            Err(errno())
        } else {
            Ok(Mapping { start, bytes })
        }
    }

    /// All of it in whole words.
    pub(super) fn words(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is page aligned, `bytes` long, readable and writable, and borrowed
        // exclusively through `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.bytes / 8) }
    }

    /// Its address and its bytes, for whoever gives it up in our place.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.start as usize, self.bytes)
    }

    /// Where it ends, aligned for a stack.
    pub(super) fn top(&self) -> *mut c_void {
        self.start.wrapping_byte_add(self.bytes & !15)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody can hold a reference into it any more.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

/// Milliseconds on a clock that only goes forward.
pub(super) fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live value of the right type.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let millis = u64::try_from(time.tv_nsec / 1_000_000).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(millis)
}
