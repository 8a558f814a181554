//! A process that is there to be looked into, signalled and written to by one that tries to.
//!
//! It is a copy of this process that whoever has this user's rights may look into, which this process itself
//! perhaps must not be. So it has given up every descriptor before it can be, but for the two pipes by which it
//! is held. What it still has is a copy of this process's memory, for the milliseconds of a trial and for
//! processes of this user that are under no guard: that much those could have had from this user's files
//! and programs too, and a process under a guard can never look into it, unless the trial shows that it can.
//!
//! **Invariants.**
//! - It ends with its handle, by a signal, whoever else has copies of the pipes.
//! - It ends with this process, by the end of a pipe.
//!
//! Not here: what is tried on it (`proof`).

#![expect(
    unsafe_code,
    reason = "what runs after the fork is vouched for where it is forked"
)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::pipe::PipeFlags;
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};

use crate::sys;

/// A process that waits until this is dropped.
pub(crate) struct Neighbour {
    pid: Pid,
    /// It waits for the end of this. Nothing else is done with it.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "it is held until it is dropped")
    )]
    hold: OwnedFd,
}

impl Neighbour {
    /// Makes one, and waits until it can be looked into.
    ///
    /// # Errors
    ///
    /// What the kernel says when there are too many processes or descriptors, or that it ended early.
    pub(crate) fn new() -> io::Result<Self> {
        let (ready, tell) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (end, hold) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // SAFETY: it makes system calls on memory that is there.
        let pid = unsafe {
            sys::fork(|| {
                // Without its own copy of `hold`, too, which would keep it waiting for ever.
                if sys::close_all_but([tell.as_raw_fd(), end.as_raw_fd()]).is_err() {
                    return 1;
                }
                // Only now: whoever may look into it may have each of its descriptors.
                if rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).is_err() {
                    return 1;
                }
                let _ = rustix::io::write(&tell, &[1]);
                let _ = rustix::io::read(&end, &mut [0]);
                0
            })
        }?;
        drop(tell);
        let neighbour = Neighbour { pid, hold };
        match rustix::io::retry_on_intr(|| rustix::io::read(&ready, &mut [0]))? {
            0 => Err(io::Error::other("a child of the trial ended early")),
            _ => Ok(neighbour),
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It is our child and not waited for yet, so that its number is nobody else's.
        let _ = rustix::process::kill_process(self.pid, Signal::KILL);
        let wait = || rustix::process::waitpid(Some(self.pid), WaitOptions::empty());
        let _ = rustix::io::retry_on_intr(wait);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::process::test_kill_process;

    use super::*;

    fn descriptors(neighbour: &Neighbour) -> Vec<String> {
        let directory = format!("/proc/{}/fd", neighbour.pid().as_raw_pid());
        std::fs::read_dir(directory)
            .expect("it may be looked into")
            .map(|entry| std::fs::read_link(entry.expect("an entry").path()))
            .map(|target| target.expect("it is open").display().to_string())
            .collect()
    }

    #[test]
    fn whoever_looks_into_it_finds_no_descriptor_of_ours() {
        let ours = rustix::fs::memfd_create(c"ours", rustix::fs::MemfdFlags::empty());
        let _ours = ours.expect("a file");
        let found = descriptors(&Neighbour::new().expect("made"));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found.iter().all(|name| name.starts_with("pipe:")),
            "{found:?}"
        );
    }

    #[test]
    fn it_ends_with_its_handle_while_others_hold_its_pipes() {
        let neighbour = Neighbour::new().expect("made");
        let pid = neighbour.pid();
        // As a process that was forked meanwhile would.
        let _held = rustix::io::dup(neighbour.hold.as_fd()).expect("a descriptor");
        drop(neighbour);
        assert_eq!(test_kill_process(pid), Err(rustix::io::Errno::SRCH));
    }

    #[test]
    fn it_ends_with_this_process() {
        let mut neighbour = Neighbour::new().expect("made");
        let pid = neighbour.pid();
        // Closes our end, which is all that the end of this process would do.
        let other = rustix::fs::memfd_create(c"other", rustix::fs::MemfdFlags::CLOEXEC);
        neighbour.hold = other.expect("a file");
        // It is waited for here.
        std::mem::forget(neighbour);
        let ended = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        let (_, status) = ended.expect("it is ours").expect("it ended");
        assert_eq!(status.exit_status(), Some(0));
    }
}
