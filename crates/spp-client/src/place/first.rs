//! The first process of a place that is a namespace of processes: with its end everything in the place has ended.
//!
//! What was started may be a process outside of the place, which holds it and is gone a moment before what it held. The
//! kernel lets the first process of a namespace end only when nothing else is left in it, so that is what is waited
//! for, by a handle that stays with one process.
//!
//! Where there is no such process, or it cannot be seen (a `/proc` that hides processes), nothing is waited for.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// How long it may take to end once what held it is gone. It takes milliseconds.
pub(super) const END: Duration = Duration::from_secs(2);

/// How often it is looked whether it has.
const PAUSE: Duration = Duration::from_millis(1);

/// A handle of the process.
#[derive(Debug)]
pub(super) struct First(OwnedFd);

impl First {
    /// Looks for it among the children of a process.
    pub(super) fn beneath(started: Option<u32>) -> Option<Self> {
        let started = started?;
        children(started).into_iter().find_map(|pid| {
            if !is_first(pid, started) {
                return None;
            }
            let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
            let handle = pidfd_open(number, PidfdFlags::empty()).ok()?;
            // Whoever had the number before it was opened has it still.
            is_first(pid, started).then_some(Self(handle))
        })
    }

    /// The process of this number, if it is the first of a namespace of its own.
    ///
    /// # Errors
    ///
    /// It cannot be seen.
    pub(super) fn of(pid: u32) -> io::Result<Option<Self>> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or(io::ErrorKind::InvalidInput)?;
        let handle = pidfd_open(number, PidfdFlags::empty())?;
        // Whatever had the number before, what is read is about what has it now, and that is held.
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        Ok(leads(&status).then_some(Self(handle)))
    }

    /// Whether it has not ended.
    pub(super) fn is_there(&self) -> bool {
        !self.has_ended()
    }

    fn has_ended(&self) -> bool {
        let mut watched = [PollFd::new(&self.0, PollFlags::IN)];
        let now = Timespec::default();
        rustix::event::poll(&mut watched, Some(&now)).is_ok_and(|count| count > 0)
    }

    /// Waits until it has ended, however long it lives.
    pub(super) async fn wait(&self) -> io::Result<()> {
        #[expect(
            unsafe_code,
            reason = "the runtime has no safe way to wait for a borrowed handle"
        )]
        // SAFETY: the borrowed handle is open, and the same, as long as it is borrowed here.
        let handle =
            unsafe { AsyncFd::register_with_interest(self.0.as_fd(), Interest::READABLE) }?;
        let _ended = handle.readable().await?;
        Ok(())
    }

    /// Waits until it has ended; whether it did.
    pub(super) async fn ended(&self) -> bool {
        let limit = Instant::now() + END;
        loop {
            if self.has_ended() {
                return true;
            }
            if Instant::now() >= limit {
                return false;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The children of a process that has one thread.
fn children(parent: u32) -> Vec<u32> {
    let numbers = |text: String| {
        let numbers = text.split_whitespace();
        numbers.filter_map(|number| number.parse().ok()).collect()
    };
    match std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")) {
        Ok(text) => numbers(text),
        // Kernels are built without that file.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
            let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            pids.filter(|pid| is_child(*pid, parent)).collect()
        }
        Err(_) => Vec::new(),
    }
}

/// Whether a process is a child of that one.
fn is_child(pid: u32, parent: u32) -> bool {
    is_child_by(&status(pid), parent)
}

/// Whether it is, and the first of a namespace of its own.
fn is_first(pid: u32, parent: u32) -> bool {
    let status = status(pid);
    is_child_by(&status, parent) && leads(&status)
}

/// Whether a process is the first of a namespace of its own.
fn leads(status: &str) -> bool {
    // Its number in each namespace, from that of `/proc` to its own.
    let numbers = field(status, "NSpid:").unwrap_or_default();
    numbers.split_whitespace().skip(1).last() == Some("1")
}

fn status(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

fn is_child_by(status: &str, parent: u32) -> bool {
    field(status, "PPid:").and_then(|value| value.trim().parse().ok()) == Some(parent)
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_process_of_a_namespace_beneath_the_given_one_is_it() {
        let first = "PPid:\t40\nNSpid:\t41\t1\n";
        assert!(is_child_by(first, 40) && !is_child_by(first, 4));
        assert_eq!(field(first, "NSpid:"), Some("\t41\t1"));
        // This one is there, is nobody's first, and is a child of its parent.
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        assert!(is_child(own, parent) && !is_first(own, parent));
        assert!(First::beneath(None).is_none());
        assert!(leads(first) && !leads("NSpid:\t1\n") && !leads(""));
        assert!(First::of(own).expect("it is seen").is_none());
        First::of(0).expect_err("nobody has that number");
    }
}
