//! Where `spp` looks for a location, and what it says when that is wrong.

use crate::support::{Place, check, finish, start};

#[test]
fn a_slip_in_a_project_file_is_told_with_its_place() {
    let place = Place::new();
    place.put(".spp.toml", "[sandbox]\nlocation = \"locl\"\n");
    let ended = place.spp(&["run", "--", "true"]);
    check(&ended, 125, "");
    assert!(
        ended
            .stderr
            .contains(".spp.toml:2:12: unknown location `locl`; did you mean `local`?"),
        "{}",
        ended.stderr
    );
    // What the caller names goes before.
    check(
        &place.spp(&["-l", "local", "run", "--", "echo", "hi"]),
        0,
        "hi\n",
    );
    let ended = finish(start(
        place
            .command(&["run", "--", "echo", "hi"])
            .env("SPP_LOCATION", "local"),
    ));
    check(&ended, 0, "hi\n");
}

#[test]
fn a_project_file_cannot_name_a_program() {
    let place = Place::new();
    place.put(
        ".spp.toml",
        "[sandbox]\nlocation = 'local'\n[sandbox.providers.local]\ncommand = './evil'\n",
    );
    place.put("evil", "#!/bin/sh\ntouch ran\n");
    let ended = place.spp(&["run", "--", "true"]);
    check(&ended, 125, "");
    assert!(
        ended.stderr.contains("may only name a location"),
        "{}",
        ended.stderr
    );
    assert!(!place.path("ran").exists());
}

#[test]
fn a_home_that_is_empty_or_absent_is_no_trouble() {
    let place = Place::new();
    let mut command = place.command(&["run", "--", "echo", "hi"]);
    check(&finish(start(command.env("HOME", ""))), 0, "hi\n");
    let mut command = place.command(&["run", "--", "echo", "hi"]);
    check(&finish(start(command.env_remove("HOME"))), 0, "hi\n");
}

#[test]
fn a_policy_that_cannot_be_held_refuses_the_run() {
    let place = Place::new();
    place.configure("[sandbox.policy]\nrequire = ['process-contained']\n");
    let ended = place.spp(&["run", "--", "touch", "ran"]);
    check(&ended, 125, "");
    assert!(
        ended.stderr.contains("process-contained"),
        "{}",
        ended.stderr
    );
    assert!(!place.path("ran").exists());
}

#[test]
fn a_home_that_is_closed_to_the_caller_is_told_with_what_to_do() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    place.configure("");
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
    };
    mode(&place.path(""), 0o755);
    let home = place.home();
    mode(&home, 0o000);
    let spp = place.command(&["run", "--", "true"]);
    let ended = if rustix::process::geteuid().is_root() {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test starts the program as its users do"
        )]
        let mut other = std::process::Command::new("setpriv");
        other
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(spp.get_program())
            .args(spp.get_args())
            .current_dir(place.path(""))
            .env("HOME", &home)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        finish(start(&mut other))
    } else {
        let mut spp = spp;
        finish(start(&mut spp))
    };
    mode(&home, 0o700);
    check(&ended, 125, "");
    assert!(ended.stderr.contains("set HOME"), "{}", ended.stderr);
}

#[test]
fn a_project_file_that_is_a_fifo_hangs_nobody() {
    let place = Place::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path(".spp.toml"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .expect("a FIFO");
    let ended = place.spp(&["run", "--", "true"]);
    check(&ended, 125, "");
    assert!(
        ended.stderr.contains("not a regular file"),
        "{}",
        ended.stderr
    );
}
