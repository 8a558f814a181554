//! Integration tests of groups: on the kernel where this user may make some, and that there are none where
//! it may not.

use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};

use sandbox_cgroup::{Controller, Group, Hierarchies, Wanted, sweep};

const MIB: u64 = 1 << 20;

fn hierarchies() -> Hierarchies {
    Hierarchies::of_this_process().expect("procfs is there")
}

/// Whether this user may make groups for a controller.
fn may(controller: Controller) -> bool {
    let wanted = Wanted {
        memory: Some(64 * MIB),
        processes: Some(100),
        cpu: Some(500),
    };
    let group = Group::new(&hierarchies(), wanted);
    let found = group.enforced().any(|(found, _)| found == controller);
    if !found {
        let name = format!("{controller:?}");
        std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("no groups for {name} here\n").as_bytes(),
        )
        .expect("said");
    }
    found
}

/// Starts a script in a group.
fn start(group: &Group, script: &str) -> Child {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    let entrances: Vec<_> = group
        .entrances()
        .map(|entrance| entrance.as_raw_fd())
        .collect();
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing here watches over what is limited but the kernel"
    )]
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", script])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    #[expect(unsafe_code, reason = "a process enters between fork and execution")]
    // SAFETY: what is done makes one system call for each descriptor, which stay open meanwhile.
    unsafe {
        command.pre_exec(move || {
            for entrance in &entrances {
                let entrance = std::os::fd::BorrowedFd::borrow_raw(*entrance);
                sandbox_cgroup::enter(entrance).map_err(std::io::Error::from_raw_os_error)?;
            }
            Ok(())
        });
    }
    command.spawn().expect("it starts")
}

fn run(group: &Group, script: &str) -> ExitStatus {
    start(group, script).wait().expect("it ends")
}

#[test]
fn processes_beyond_the_limit_are_not_made_and_it_is_told() {
    if !may(Controller::Processes) {
        return;
    }
    let wanted = Wanted {
        processes: Some(4),
        ..Wanted::default()
    };
    let group = Group::new(&hierarchies(), wanted);
    assert!(run(&group, "sleep 0 & wait").success());
    assert_eq!(group.fired().processes, 0);
    let many = "for i in 1 2 3 4 5 6 7 8; do sleep 5 & done; kill $(jobs -p)";
    assert!(!run(&group, many).success());
    assert!(group.fired().processes > 0);
}

#[test]
fn memory_beyond_the_limit_ends_who_uses_it_and_it_is_told() {
    use std::os::unix::process::ExitStatusExt;
    if !may(Controller::Memory) {
        return;
    }
    let wanted = Wanted {
        memory: Some(32 * MIB),
        ..Wanted::default()
    };
    let group = Group::new(&hierarchies(), wanted);
    assert!(run(&group, "true").success());
    assert_eq!(group.fired().memory, 0);
    let status = run(&group, "exec dd if=/dev/zero of=/dev/null bs=256M count=1");
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
    assert!(group.fired().memory > 0);
}

#[test]
fn a_group_is_gone_when_it_is_removed_and_its_neighbours_stay() {
    if !may(Controller::Processes) {
        return;
    }
    let wanted = Wanted {
        processes: Some(50),
        ..Wanted::default()
    };
    let before = groups();
    let (one, other) = (
        Group::new(&hierarchies(), wanted),
        Group::new(&hierarchies(), wanted),
    );
    assert!(groups().len() >= before.len() + 2);
    let mut child = start(&one, "exec sleep 1000");
    child.kill().expect("it is ours");
    // It is removed although the process has hardly left it.
    child.wait().expect("it ends");
    one.remove().expect("nothing is in it");
    sweep(&hierarchies());
    assert!(run(&other, "true").success(), "a living group was swept");
    other.remove().expect("nothing is in it");
    let own = format!("-{}-", std::process::id());
    let groups = groups();
    let left = groups
        .iter()
        .find(|path| path.to_string_lossy().contains(&own));
    assert_eq!(left, None);
}

#[test]
fn what_a_killed_process_left_is_swept() {
    if !may(Controller::Processes) {
        return;
    }
    let hierarchies = hierarchies();
    let found = hierarchies.of(Controller::Processes).expect("it may");
    let base = found.base.as_deref().expect("it may");
    let namespace = std::fs::read_link("/proc/self/ns/pid").expect("procfs is there");
    let digits = |character: &char| character.is_ascii_digit();
    let namespace: String = namespace.to_string_lossy().chars().filter(digits).collect();
    let left = base.join(format!("spp-{namespace}-4194305-1-{}", std::process::id()));
    std::fs::create_dir(&left).expect("a group");
    sweep(&hierarchies);
    assert!(!left.exists());
}

/// Groups of this project beneath our own.
fn groups() -> Vec<PathBuf> {
    let hierarchies = hierarchies();
    let found = hierarchies.of(Controller::Processes).expect("it may");
    let base = found.base.as_deref().expect("it may");
    std::fs::read_dir(base)
        .expect("it is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("spp-"))
        })
        .collect()
}
