//! The system calls that have no safe wrapper elsewhere. All but [`fork`] may be made after a fork of a
//! process with threads: they take no lock and allocate nothing.

#![expect(
    unsafe_code,
    reason = "these are the system calls that have no safe wrapper"
)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::process::Pid;
use seccompiler::sock_filter;

/// What the kernel offers of Landlock, as a version; 0 where it has none.
pub(crate) fn landlock_version() -> u32 {
    const VERSION: u32 = 1;
    // SAFETY: with this flag nothing is read or written.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// Puts this thread, and all it starts, under a program.
pub(crate) fn install(program: &[sock_filter]) -> Result<(), i32> {
    let Ok(len) = u16::try_from(program.len()) else {
        return Err(libc::EINVAL);
    };
    let program = libc::sock_fprog {
        len,
        // The two types are the kernel's, both laid out as in C; it only reads.
        filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    // SAFETY: the pointer is to a live value that names `len` live steps.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0_u32,
            &raw const program,
        )
    };
    answer(done)
}

/// Puts this thread, and all it starts, into a Landlock domain.
pub(crate) fn restrict(ruleset: BorrowedFd<'_>) -> Result<(), i32> {
    // SAFETY: no memory is passed.
    let done =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0_u32) };
    answer(done)
}

/// Whether a byte of another process's memory can be read, at an address that this process has too.
pub(crate) fn can_read_memory(pid: Pid) -> bool {
    static BYTE: u8 = 7;
    let mut byte = 0_u8;
    let here = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let there = libc::iovec {
        iov_base: (&raw const BYTE).cast_mut().cast(),
        iov_len: 1,
    };
    // SAFETY: one byte is written, to a live place; the other address is the other process's.
    let read = unsafe {
        libc::process_vm_readv(pid.as_raw_pid(), &raw const here, 1, &raw const there, 1, 0)
    };
    read == 1
}

/// Makes a socket, and closes it again. Whether that could be done.
pub(crate) fn can_make_socket(family: i32) -> bool {
    // SAFETY: a non-negative result is a descriptor that nobody else owns.
    unsafe {
        let socket = libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket >= 0 {
            drop(OwnedFd::from_raw_fd(socket));
        }
        socket >= 0
    }
}

/// Opens something, and closes it again; what the kernel says if it cannot be opened.
pub(crate) fn try_to_open(path: &CStr, access: Access) -> Result<(), i32> {
    let access = match access {
        Access::Reading => libc::O_RDONLY,
        Access::Writing => libc::O_WRONLY,
    };
    // SAFETY: the path ends in 0; a non-negative result is a descriptor that nobody else owns.
    unsafe {
        let file = libc::open(path.as_ptr(), access | libc::O_CLOEXEC);
        if file < 0 {
            return Err(*libc::__errno_location());
        }
        drop(OwnedFd::from_raw_fd(file));
    }
    Ok(())
}

/// What something is opened for.
#[derive(Clone, Copy)]
pub(crate) enum Access {
    Reading,
    Writing,
}

/// Closes every descriptor of this process but these: only for one that was forked, and whose memory names
/// no other one that is still used. Negative numbers are none.
///
/// # Errors
///
/// The kernel's reason. Some may be closed.
pub(crate) fn close_all_but<const N: usize>(mut kept: [RawFd; N]) -> Result<(), i32> {
    kept.sort_unstable();
    let close = |first: u32, last: u32| {
        if first > last {
            return Ok(());
        }
        // SAFETY: no memory is passed; nobody uses what is closed, as the caller says.
        answer(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0_u32) })
    };
    let mut first = 0_u32;
    for number in kept.into_iter().flat_map(u32::try_from) {
        if number > 0 {
            close(first, number.saturating_sub(1))?;
        }
        first = number.saturating_add(1);
    }
    close(first, u32::MAX)
}

/// Makes a process that is a copy of this one, with every signal blocked so that no handler of the
/// original ever runs in it. It does `work`, and ends with what that returns.
///
/// # Safety
///
/// `work` makes system calls on memory that is there: it does not allocate, take a lock, or panic.
pub(crate) unsafe fn fork(work: impl FnOnce() -> u8) -> io::Result<Pid> {
    let all = u64::MAX;
    let mut before = 0_u64;
    let mask = |set: *const u64, old: *mut u64| {
        // SAFETY: both are null or point to 8 live bytes, which is the size that is named.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                libc::SIG_SETMASK,
                set,
                old,
                8_usize,
            )
        }
    };
    mask(&raw const all, &raw mut before);
    // SAFETY: the child only does `work`, for which the caller vouches, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let status = work();
        // SAFETY: ends the copy without running anything of the original's.
        unsafe { libc::_exit(i32::from(status)) };
    }
    let failed = io::Error::last_os_error();
    mask(&raw const before, std::ptr::null_mut());
    Pid::from_raw(pid).filter(|_| pid > 0).ok_or(failed)
}

fn answer(done: libc::c_long) -> Result<(), i32> {
    if done == 0 {
        return Ok(());
    }
    // SAFETY: the C library keeps this place for the life of the thread.
    Err(unsafe { *libc::__errno_location() })
}
