//! Killing a process at one exact moment, for tests: between two of its system calls.

#![expect(unsafe_code, reason = "ptrace has no safe wrapper")]

use std::ptr;
use std::sync::mpsc::Sender;

use super::sys;

/// What the kernel tells of a system call that begins or ends (`linux/ptrace.h`): the first byte says which, and the
/// fourth word is the number of the call, or its result.
const GET_SYSCALL_INFO: libc::c_uint = 0x420e;
const BEGINS: u64 = 1;
const ENDS: u64 = 2;
const INFO_WORDS: usize = 11;

/// Waits until a process has received something, and kills it before it does anything more. All in one thread, which
/// the kernel takes for the tracer.
///
/// - `ready`: is told once the process is watched, and dropped if it cannot be
pub(super) fn kill_behind_receiving(pid: i32, ready: &Sender<()>) {
    if ask(
        libc::PTRACE_SEIZE,
        pid,
        0,
        libc::PTRACE_O_TRACESYSGOOD as usize,
    ) < 0
    {
        return;
    }
    assert!(
        ask(libc::PTRACE_INTERRUPT, pid, 0, 0) >= 0,
        "it can be stopped"
    );
    let mut is_receiving = false;
    let mut told = false;
    loop {
        stopped(pid);
        let mut info = [0_u64; INFO_WORDS];
        let bytes = size_of_val(&info);
        if ask(GET_SYSCALL_INFO, pid, bytes, info.as_mut_ptr() as usize) > 0 {
            match info[0] & 0xff {
                BEGINS => is_receiving = i64::try_from(info[3]) == Ok(libc::SYS_recvmsg),
                ENDS if is_receiving => break,
                _ => {}
            }
        }
        assert!(ask(libc::PTRACE_SYSCALL, pid, 0, 0) >= 0, "it goes on");
        if !std::mem::replace(&mut told, true) {
            ready.send(()).expect("the test waits");
        }
    }
    sys::kill(pid, libc::SIGKILL);
    stopped(pid);
}

fn ask(request: libc::c_uint, pid: i32, at: usize, data: usize) -> libc::c_long {
    // SAFETY: what is asked for writes to `data` at most, which then is a live buffer of `at` bytes.
    unsafe { libc::ptrace(request, pid, at, data) }
}

/// Waits until it stops or ends.
fn stopped(pid: i32) {
    // SAFETY: a status is not asked for.
    let waited = unsafe { libc::waitpid(pid, ptr::null_mut(), libc::__WALL) };
    assert_eq!(waited, pid, "it is traced");
}
