//! Mounts whose owner is another user than on the disk.
//!
//! A mapping belongs to a user namespace, so one is made for each owner, by a process that lives just long enough to
//! have it. Only one user and one group are mapped: what anybody else owns there belongs to nobody in the sandbox,
//! and what the sandbox makes belongs to the workspace's owner on the disk.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

/// Who owns something on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// Mappings to one user, made as they are needed.
#[derive(Debug)]
pub struct Maps {
    user: u32,
    made: Vec<(Owner, OwnedFd)>,
}

impl Maps {
    /// None yet, to this user and the group of the same number.
    #[must_use]
    pub fn new(user: u32) -> Self {
        Self {
            user,
            made: Vec::new(),
        }
    }

    /// Lets what `owner` has in a tree of mounts, which nothing else sees yet, be the user's.
    ///
    /// This process must have one thread: it forks.
    ///
    /// # Errors
    ///
    /// What the kernel says. `INVAL` is said by a file system that cannot do it.
    pub fn apply(&mut self, tree: BorrowedFd<'_>, owner: Owner) -> rustix::io::Result<()> {
        let index = match self.made.iter().position(|(known, _)| *known == owner) {
            Some(index) => index,
            None => {
                self.made.push((owner, namespace(owner, self.user)?));
                self.made.len() - 1
            }
        };
        match self.made.get(index) {
            Some((_, namespace)) => set(tree, libc::MOUNT_ATTR_IDMAP, Some(namespace.as_fd())),
            None => Err(Errno::INVAL),
        }
    }
}

/// What holds of a tree of mounts. Set-user-id bits and devices mean nothing in any.
#[derive(Clone, Copy, Debug)]
pub struct Attributes(u64);

impl Attributes {
    /// It can be written.
    pub const WRITABLE: Self = Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV);
    /// It cannot.
    pub const READ_ONLY: Self = Self(Self::WRITABLE.0 | libc::MOUNT_ATTR_RDONLY);

    /// Lets it hold of a tree.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn set(self, tree: BorrowedFd<'_>) -> rustix::io::Result<()> {
        set(tree, self.0, None)
    }
}

#[expect(unsafe_code, reason = "rustix has no mount_setattr")]
fn set(
    tree: BorrowedFd<'_>,
    attributes: u64,
    namespace: Option<BorrowedFd<'_>>,
) -> rustix::io::Result<()> {
    let namespace = namespace.map_or(0, |namespace| namespace.as_raw_fd());
    let attributes = libc::mount_attr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd: u64::try_from(namespace).map_err(|_| Errno::BADF)?,
    };
    // SAFETY: the path is a constant, and the size is that of the structure, which outlives the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// A user namespace in which `owner` is `user`.
fn namespace(owner: Owner, user: u32) -> rustix::io::Result<OwnedFd> {
    let (ready, told) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (end, wanted) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    #[expect(
        unsafe_code,
        reason = "a process that has a namespace and nothing else"
    )]
    // SAFETY: this process has one thread, so the child may do anything; what it does is two system calls.
    let child = unsafe { libc::fork() };
    match child {
        ..0 => return Err(last_error()),
        0 => hold_namespace(&told, &end, wanted),
        _ => {}
    }
    drop(told);
    let child = Pid::from_raw(child).ok_or(Errno::SRCH)?;
    let made = mapped(child, &ready, owner, user);
    // Waiting for what was killed is all that can be done with it.
    let _ = rustix::process::kill_process(child, Signal::KILL);
    let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
    made
}

fn mapped(child: Pid, ready: &OwnedFd, owner: Owner, user: u32) -> rustix::io::Result<OwnedFd> {
    let mut said = [0; 1];
    if rustix::io::read(ready, &mut said)? == 0 {
        // It ended without a namespace.
        return Err(Errno::NOSPC);
    }
    let path = |name: &str| format!("/proc/{}/{name}", child.as_raw_pid());
    for (name, of) in [("uid_map", owner.uid), ("gid_map", owner.gid)] {
        let file = rustix::fs::open(path(name), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(&file, format!("{of} {user} 1\n").as_bytes())?;
    }
    rustix::fs::open(
        path("ns/user"),
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// What the child does: has a namespace, says so, and ends when nobody wants it any more.
///
/// - `end`: what comes to its end with the last holder of `wanted`, who is the launcher, however that ends
fn hold_namespace(told: &OwnedFd, end: &OwnedFd, wanted: OwnedFd) -> ! {
    drop(wanted);
    #[expect(
        unsafe_code,
        reason = "unsharing descriptors would be unsound; a user namespace is not"
    )]
    // SAFETY: the flags do not have the one that makes descriptors of another thread disappear.
    let made = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER) };
    // Once more, for a launcher that ends while another process happens to have its end of the pipe. After the
    // namespace, because becoming another user takes the wish back.
    let asked = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if made.is_ok() && asked.is_ok() && rustix::io::write(told, b"x").is_ok() {
        while rustix::io::read(end, &mut [0; 1]) == Err(Errno::INTR) {}
    }
    #[expect(unsafe_code, reason = "ending without what the parent would clean up")]
    // SAFETY: nothing runs after it.
    unsafe {
        libc::_exit(1)
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    #[test]
    fn what_holds_a_namespace_ends_when_the_launcher_is_gone_without_a_word() {
        let (ready, told) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let (end, wanted) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        #[expect(
            unsafe_code,
            reason = "a process that has a namespace and nothing else"
        )]
        // SAFETY: the child makes system calls and nothing else.
        let child = unsafe { libc::fork() };
        if child == 0 {
            hold_namespace(&told, &end, wanted);
        }
        drop(told);
        // Nothing, where no namespace can be had: then it has ended already.
        let held = rustix::io::read(&ready, &mut [0; 1]).expect("it can be read");
        let child = Pid::from_raw(child).expect("a process");
        if held == 1 {
            let still = rustix::process::waitpid(Some(child), WaitOptions::NOHANG);
            assert!(still.expect("a child").is_none(), "it did not wait");
        }
        // All that is left of a launcher that was killed.
        drop(wanted);
        let ended = rustix::process::waitpid(Some(child), WaitOptions::empty());
        assert!(ended.expect("a child").is_some());
    }
}
