//! System calls that a guarded process may not make, each made really, and by an unguarded one first: an
//! attempt that fails anyway shows nothing.

#![expect(
    unsafe_code,
    reason = "an attempt is a system call as a hostile program makes it"
)]

use sandbox_guard::GuardSpec;

use crate::calls::{ATTEMPTS, Attempt, FAMILIES, call};
use crate::support::{ALL, Ground, LEAST, guarded};

fn check(attempt: &Attempt, spec: GuardSpec) {
    let name = attempt.name;
    let ground = Ground::new();
    let done = guarded(None, || (attempt.make)(&ground));
    assert!(done.is_ok(), "{name} fails without a guard too: {done:?}");

    let ground = Ground::new();
    let guard = ground.guard(spec);
    let tried = guarded(Some(&guard), || (attempt.make)(&ground));
    assert_eq!(tried, Err(attempt.refusal), "{name}");
    let kept = std::fs::read(ground.outside.join("file")).expect("it is there");
    assert_eq!(kept, b"before", "{name}");
    let names = std::fs::read_dir(&ground.outside).expect("it is there");
    assert_eq!(names.count(), 1, "{name} left something outside");
}

#[test]
fn what_is_kept_away_can_be_done_without_a_guard_and_not_with_one() {
    for attempt in ATTEMPTS {
        check(attempt, ALL);
    }
}

#[test]
fn what_every_guard_keeps_away_needs_no_asking() {
    let always = ATTEMPTS.iter().filter(|attempt| attempt.always);
    for attempt in always.chain(FAMILIES) {
        check(attempt, LEAST);
    }
}

#[test]
fn what_is_not_asked_for_is_left_open() {
    for attempt in ATTEMPTS.iter().filter(|attempt| !attempt.always) {
        let ground = Ground::new();
        let guard = ground.guard(LEAST);
        let tried = guarded(Some(&guard), || (attempt.make)(&ground));
        assert!(tried.is_ok(), "{}: {tried:?}", attempt.name);
    }
}

/// Those that an ordinary user could not make anyway, or that some machines forbid to all: nothing is
/// shown by a control.
#[test]
fn what_only_some_could_do_is_refused_to_all() {
    let ground = Ground::new();
    let guard = ground.guard(LEAST);
    guarded(Some(&guard), || {
        let none = std::ptr::null::<u8>();
        let user = i64::from(libc::CLONE_NEWUSER);
        for (name, tried) in [
            ("unshare", call!(libc::SYS_unshare, user)),
            ("unshare of time", call!(libc::SYS_unshare, 0x80)),
            (
                "clone",
                call!(libc::SYS_clone, user | i64::from(libc::SIGCHLD), 0, 0, 0, 0),
            ),
            ("setns", call!(libc::SYS_setns, -1, 0)),
            ("mount", call!(libc::SYS_mount, none, none, none, 0, none)),
            ("open_tree", call!(libc::SYS_open_tree, -1, none, 1)),
            (
                "move_mount",
                call!(libc::SYS_move_mount, -1, none, -1, none, 0),
            ),
            ("mount_setattr", call!(442, -1, none, 0, none, 0)),
            ("open_tree_attr", call!(467, -1, none, 0, none, 0)),
            ("chroot", call!(libc::SYS_chroot, none)),
            ("bpf", call!(libc::SYS_bpf, 0, none, 0)),
            ("perf", call!(libc::SYS_perf_event_open, none, 0, 0, 0, 0)),
            ("userfaultfd", call!(libc::SYS_userfaultfd, 0)),
            (
                "files by number",
                call!(libc::SYS_open_by_handle_at, -1, none, 0),
            ),
            ("modules", call!(libc::SYS_finit_module, -1, none, 0)),
            ("kexec", call!(libc::SYS_kexec_load, 0, 0, none, 0)),
            ("the kernel's log", call!(libc::SYS_syslog, 3, none, 0)),
            (
                "memory of others",
                call!(libc::SYS_process_vm_writev, -1, none, 0, none, 0, 0),
            ),
        ] {
            assert_eq!(tried, Err(libc::EPERM), "{name}");
        }
    });
}

#[cfg(target_arch = "x86_64")]
#[test]
fn no_call_is_made_by_its_third_number() {
    let ground = Ground::new();
    let guard = ground.guard(LEAST);
    guarded(Some(&guard), || {
        for number in [libc::SYS_unshare, libc::SYS_getpid, libc::SYS_mount] {
            let tried = call!(
                number | 0x4000_0000,
                i64::from(libc::CLONE_NEWUSER),
                0,
                0,
                0,
                0
            );
            assert_eq!(tried, Err(libc::ENOSYS), "{number}");
        }
    });
}

#[test]
fn what_tools_need_stays() {
    let ground = Ground::new();
    let guard = ground.guard(ALL);
    guarded(Some(&guard), || {
        let file = ground.inside.join("file");
        std::fs::write(&file, "after").expect("it may be written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&file, mode).expect("it may be executable");
        std::fs::create_dir_all(ground.inside.join("a/b")).expect("directories may be made");
        std::fs::rename(&file, ground.inside.join("a/b/file")).expect("it may be moved");
        std::fs::hard_link(ground.inside.join("a/b/file"), &file).expect("it may be linked");
        std::fs::read(ground.outside.join("file")).expect("it may be read");
        std::fs::write("/dev/null", "x").expect("it may be written");
        std::fs::read("/proc/self/status").expect("it may be read");
        let mut pair = [0_i32; 2];
        let made = call!(
            libc::SYS_socketpair,
            libc::AF_UNIX,
            libc::SOCK_STREAM,
            0,
            pair.as_mut_ptr()
        );
        assert_eq!(made, Ok(0), "a pair of sockets");
        let sent = call!(
            libc::SYS_sendto,
            pair[0],
            c"x".as_ptr(),
            1,
            0,
            std::ptr::null::<u8>(),
            0
        );
        assert_eq!(sent, Ok(1), "a message to its other end");
        for descriptor in pair {
            let _ = call!(libc::SYS_close, descriptor);
        }
        let own = call!(
            libc::SYS_prlimit64,
            0,
            libc::RLIMIT_NOFILE,
            std::ptr::null::<u8>(),
            std::ptr::null::<u8>()
        );
        assert_eq!(own, Ok(0), "its own limits");
        assert_eq!(
            call!(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, 19),
            Ok(0),
            "its own priority"
        );
        assert_eq!(call!(libc::SYS_unshare, 0), Ok(0), "no new namespace");
    });
}
