//! Other processes, and the proof that is made by trying.

use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal};
use sandbox_guard::{Guard, GuardError, Landlock, MOST_RULES, Proof};

use crate::support::{ALL, Ground, LEAST, become_ordinary, guarded, held};

/// A process that runs until it is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "a process that nobody here watches over"
        )]
        let child = std::process::Command::new("sleep")
            .arg("1000")
            .stdin(Stdio::null())
            .spawn()
            .expect("there is a sleep");
        Sleeper(child)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn processes_outside_can_be_signalled_without_a_guard_and_not_with_one() {
    let outside = guarded(None, Sleeper::new);
    let ground = Ground::new();
    let guard = ground.guard(LEAST);
    let signal = || rustix::process::test_kill_process(outside.pid());
    assert_eq!(guarded(None, signal), Ok(()));
    if !Landlock::of_kernel().scopes_signals() {
        assert_eq!(guarded(Some(&guard), signal), Ok(()));
        return;
    }
    assert_eq!(guarded(Some(&guard), signal), Err(rustix::io::Errno::PERM));
    let killed = guarded(Some(&guard), || {
        rustix::process::kill_process(outside.pid(), Signal::KILL)
    });
    assert_eq!(killed, Err(rustix::io::Errno::PERM));
    let by_handle = || {
        let handle = rustix::process::pidfd_open(outside.pid(), PidfdFlags::empty())?;
        rustix::process::pidfd_send_signal(handle, Signal::CONT)
    };
    assert_eq!(guarded(None, by_handle), Ok(()));
    assert_eq!(
        guarded(Some(&guard), by_handle),
        Err(rustix::io::Errno::PERM)
    );
    guarded(None, signal).expect("it still runs");
}

#[test]
fn a_guarded_process_signals_what_it_started() {
    let ground = Ground::new();
    let guard = ground.guard(ALL);
    guarded(Some(&guard), || {
        let child = Sleeper::new();
        rustix::process::kill_process(child.pid(), Signal::TERM).expect("it is its own");
    });
}

#[test]
fn the_proof_says_what_was_kept_away_and_what_was_not() {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            become_ordinary();
            let ground = Ground::new();
            let everything = Proof {
                calls: true,
                network: true,
                writes: true,
                signals: Landlock::of_kernel().scopes_signals(),
                tracing: true,
            };
            assert_eq!(ground.guard(ALL).prove().expect("tried"), everything);
            let least = Proof {
                network: false,
                writes: false,
                ..everything
            };
            assert_eq!(ground.guard(LEAST).prove().expect("tried"), least);
        });
    });
}

#[test]
fn a_trial_leaves_no_process_and_changes_nothing_here() {
    let ground = Ground::new();
    let before = children();
    ground.guard(ALL).prove().expect("tried");
    assert_eq!(children(), before);
    std::fs::write(ground.outside.join("file"), "still writable").expect("nothing is kept from us");
}

/// Each would have copies of what the others wait for, and all would wait for ever.
#[test]
fn trials_at_once_all_end_and_leave_no_process() {
    const AT_ONCE: usize = 8;
    let (tell, told) = std::sync::mpsc::channel();
    for _ in 0..AT_ONCE {
        let tell = tell.clone();
        std::thread::spawn(move || {
            become_ordinary();
            let guard = Ground::new().guard(ALL);
            let proofs: Vec<_> = (0..4).map(|_| guard.prove().expect("tried")).collect();
            tell.send((proofs, children())).expect("it is awaited");
        });
    }
    for _ in 0..AT_ONCE {
        let limit = std::time::Duration::from_secs(60);
        let (proofs, left) = told.recv_timeout(limit).expect("it does not hang");
        assert!(proofs.iter().all(|proof| proof.tracing), "{proofs:?}");
        assert_eq!(left, b"", "no child is left");
    }
}

fn children() -> Vec<u8> {
    let of_thread = "/proc/thread-self/children";
    std::fs::read(of_thread).unwrap_or_default()
}

#[test]
fn too_many_directories_are_refused() {
    let ground = Ground::new();
    let directory = held(&ground.inside);
    let most: Vec<BorrowedFd<'_>> = vec![directory.as_fd(); MOST_RULES];
    Guard::prepare(ALL, &most).expect("as many as there may be");
    let more: Vec<BorrowedFd<'_>> = vec![directory.as_fd(); MOST_RULES + 1];
    let error = Guard::prepare(ALL, &more).expect_err("one too many");
    assert!(matches!(error, GuardError::TooManyRules(257)), "{error}");
}
