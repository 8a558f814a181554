//! From the supervisor to the running program.
//!
//! The new process shares the supervisor's memory until it executes (`CLONE_VM | CLONE_VFORK`, as
//! `posix_spawn` does), on a stack of its own. So nothing is copied, and what went wrong is left in
//! a place that the supervisor reads when it goes on. The order of the steps is the order of their
//! needs: the session before the terminal, descriptors before limits (a limit of 0 open files must
//! not stop us), the signal mask last, because a signal that arrives after it ends the process.

#![expect(unsafe_code, reason = "clone and execve are what this module is for")]

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::process::Signal;

use super::image::{FLAG_NO_NEW_PRIVILEGES, FLAG_TERMINAL, View};
use super::sys::{self, Mapping};
use super::wire::Stage;

/// Bytes of the stack on which a process runs until it executes.
pub(super) const STACK_BYTES: usize = 64 << 10;

/// What a new process is given.
pub(super) struct Given<'a> {
    pub(super) directory: BorrowedFd<'a>,
    pub(super) streams: [BorrowedFd<'a>; 3],
}

/// All that the new process looks at. It lives on the supervisor's stack, which stands still.
struct Plan<'a> {
    given: &'a Given<'a>,
    view: View,
    words: &'a [u64],
    base: *const u64,
    failure: Option<(Stage, i32)>,
}

/// Starts a program, and returns when it runs or has failed to.
///
/// - `image`: what is to be executed, where it stays until then; its tables are relocated in place
///
/// The error is the step that failed and the kernel's reason; nothing of it is left running then.
pub(super) fn start(
    given: &Given<'_>,
    image: &mut [u64],
    stack: &Mapping,
) -> Result<i32, (Stage, i32)> {
    let view = View::parse(image).ok_or((Stage::Accept, libc::EINVAL))?;
    let base = image.as_ptr() as u64;
    view.relocate(image, base);
    let words = &*image;

    let mut plan = Plan {
        given,
        view,
        words,
        base: words.as_ptr(),
        failure: None,
    };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: `stack` is memory that nobody else uses, big enough for `become_program`, which
    // neither recurses nor allocates. With CLONE_VFORK this process stands still until the new one
    // has executed or ended, so `plan` and what it borrows outlive every use of them there.
    let pid = unsafe { libc::clone(become_program, stack.top(), flags, (&raw mut plan).cast()) };
    if pid < 0 {
        return Err((Stage::Fork, sys::errno()));
    }
    match plan.failure {
        None => Ok(pid),
        Some(failure) => {
            let mut status = 0;
            // SAFETY: the pointer is to a live value. The process has ended, so this does not wait.
            unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
            Err(failure)
        }
    }
}

/// Where the new process begins. It comes back only if it has failed.
extern "C" fn become_program(plan: *mut c_void) -> c_int {
    // SAFETY: `start` passed the address of a live `Plan`, and stands still while this runs.
    let plan = unsafe { &mut *plan.cast::<Plan<'_>>() };
    let failure = prepare(plan).err().unwrap_or_else(|| execute(plan));
    plan.failure = Some(failure);
    sys::exit(127)
}

/// Everything before the program.
fn prepare(plan: &Plan<'_>) -> Result<(), (Stage, i32)> {
    let at = |stage: Stage| move |error: rustix::io::Errno| (stage, error.raw_os_error());
    let given = plan.given;
    // Should the supervisor be killed, the kernel ends at least the leader at once.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(at(Stage::Accept))?;
    rustix::process::setsid().map_err(at(Stage::Accept))?;
    rustix::process::fchdir(given.directory).map_err(at(Stage::Directory))?;
    let [input, output, errors] = given.streams;
    rustix::stdio::dup2_stdin(input).map_err(at(Stage::Stdio))?;
    rustix::stdio::dup2_stdout(output).map_err(at(Stage::Stdio))?;
    rustix::stdio::dup2_stderr(errors).map_err(at(Stage::Stdio))?;
    if plan.view.flags & FLAG_TERMINAL != 0 {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin().as_fd())
            .map_err(at(Stage::Terminal))?;
    }
    for (resource, soft, hard) in plan.view.limits(plan.words) {
        sys::limit(resource, soft, hard).map_err(|errno| (Stage::Limit, errno))?;
    }
    if plan.view.flags & FLAG_NO_NEW_PRIVILEGES != 0 {
        rustix::thread::set_no_new_privs(true).map_err(at(Stage::Privileges))?;
    }
    Ok(())
}

/// Tries each candidate, as `execvp` does, and says why none could be executed.
fn execute(plan: &Plan<'_>) -> (Stage, i32) {
    sys::unblock_signals();
    let table = |at: usize| plan.base.wrapping_add(at).cast::<*const c_char>();
    let mut refused = libc::ENOENT;
    for candidate in plan
        .words
        .get(plan.view.candidates..plan.view.argv)
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
                table(plan.view.argv),
                table(plan.view.env),
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
