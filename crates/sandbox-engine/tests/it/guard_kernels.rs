//! What becomes of policies where the kernel has less to guard with: here, one without Landlock.

#![expect(
    unsafe_code,
    reason = "a filter that hides a system call is a system call"
)]

use sandbox_core::{
    Ctx, ErrorKind, Grade, Mount, MountAccess, Network, Policy, Provider, Restriction, Sandbox,
};
use sandbox_engine::{GuardUse, Place};
use sandbox_guard::Landlock;

use super::file::{as_ordinary_user, refused};
use super::guard::{path, provider, spec};

/// Takes Landlock from this thread and all it starts, as a kernel without it would be.
fn without_landlock() {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let create = u32::try_from(libc::SYS_landlock_create_ruleset).expect("a number");
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, create),
        step(RETURN, 0, 0, 0x0005_0000 | libc::ENOSYS.unsigned_abs()),
        step(RETURN, 0, 0, 0x7fff_0000),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: steps.as_mut_ptr(),
    };
    rustix::thread::set_no_new_privs(true).expect("everybody may");
    // SAFETY: the pointer is to a live value that names four live steps; the kernel only reads.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0_u32,
            &raw const program,
        )
    };
    assert_eq!(done, 0, "a filter may be had");
    assert!(!Landlock::of_kernel().is_there());
}

async fn acquired(
    place: Place,
    policy: Policy,
) -> sandbox_core::Result<std::sync::Arc<dyn Sandbox>> {
    let directory = tempfile::tempdir().expect("a directory");
    provider(place)
        .acquire(&Ctx::new(), &spec(directory.path(), policy))
        .await
}

#[test]
fn without_landlock_no_mount_is_called_read_only() {
    as_ordinary_user(|| async {
        without_landlock();
        let shown = tempfile::tempdir().expect("a directory");
        let policy = Policy {
            mounts: vec![Mount {
                host: shown.path().into(),
                sandbox: path(shown.path()),
                access: MountAccess::ReadOnly,
            }],
            ..Policy::default()
        };
        let tried = acquired(Place::open("here"), policy.clone()).await;
        let error = refused(tried.map(drop), ErrorKind::PolicyUnmet);
        assert!(error.to_string().contains("read-only"), "{error}");

        // Whoever made the place may have mounted it so.
        let mut place = Place::open("box");
        place
            .kept_away
            .insert(Restriction::WriteContained, Grade::Full);
        acquired(place, policy).await.expect("the place keeps it");
    });
}

#[test]
fn without_landlock_no_engine_is_put_inside_its_place() {
    as_ordinary_user(|| async {
        without_landlock();
        let mut place = Place::open("box");
        place.guard = GuardUse::Always;
        let tried = acquired(place, Policy::default()).await;
        let error = refused(tried.map(drop), ErrorKind::PolicyUnmet);
        assert!(error.to_string().contains("Landlock"), "{error}");
    });
}

#[test]
fn without_landlock_nothing_is_claimed_that_it_would_give() {
    as_ordinary_user(|| async {
        without_landlock();
        let no_network = Policy {
            network: Some(Network::None),
            ..Policy::default()
        };
        let tried = acquired(Place::open("here"), no_network).await;
        refused(tried.map(drop), ErrorKind::PolicyUnmet);

        let preferred = Policy {
            prefer: Restriction::ALL.into(),
            ..Policy::default()
        };
        let sandbox = acquired(Place::open("here"), preferred).await;
        let descriptor = sandbox.expect("as far as it goes").descriptor().clone();
        for restriction in [Restriction::WriteContained, Restriction::ProcessContained] {
            assert_eq!(descriptor.guarantees[&restriction], Grade::Unavailable);
        }
        let notes = descriptor.notes.join("; ");
        assert!(notes.contains("can trace"), "{notes}");
        assert!(notes.contains("can write outside"), "{notes}");
    });
}
