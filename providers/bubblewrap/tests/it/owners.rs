//! Whose files are whose, inside and outside.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::support::{Scratch, command, each, is_root};

fn owner(path: &Path) -> (u32, u32) {
    let metadata = std::fs::symlink_metadata(path).expect("it is there");
    (metadata.uid(), metadata.gid())
}

#[test]
fn what_is_made_and_changed_inside_belongs_to_the_workspaces_owner_outside() {
    each(|who| {
        let scratch = Scratch::new(who);
        let workspace = scratch.workspace();
        let mine = owner(&workspace);
        for name in ["old", "edited"] {
            std::fs::write(workspace.join(name), "old\n").expect("a file");
            scratch.own(&workspace.join(name));
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(workspace.join(name), private).expect("ours");
        }
        let mut served = scratch.serve();
        assert_eq!(served.sh("id -u; stat -c %u . old"), "1000\n1000\n1000\n");
        assert_eq!(served.sh("echo new >>old; mkdir d; echo x >d/made; ln -s made d/link; mv d/made d/moved; chmod 700 d/moved"), "");
        let edit = json!({"edit": {"path": "edited", "replacements": [{"find": {"text": "old"}, "replace": {"text": "new"}}]}});
        served.verb("write", json!({"changes": [edit]}));
        for name in ["old", "edited", "d", "d/moved", "d/link"] {
            assert_eq!(owner(&workspace.join(name)), mine, "{name}");
        }
        assert_eq!(
            std::fs::read_to_string(workspace.join("old")).expect("it is there"),
            "old\nnew\n"
        );
    });
}

#[test]
fn git_works_on_both_sides_of_one_tree_without_being_told_that_it_is_safe() {
    each(|who| {
        let scratch = Scratch::new(who);
        let git = {
            let user = scratch.user();
            let workspace = scratch.workspace();
            move |arguments: &[&str]| {
                let mut git: Command = match user {
                    None => command("git"),
                    Some(user) => {
                        let mut start = command("setpriv");
                        start.args([&format!("--reuid={user}"), &format!("--regid={user}")]);
                        start.args(["--clear-groups", "git"]);
                        start
                    }
                };
                let output = git
                    .args(arguments)
                    .current_dir(&workspace)
                    .env("HOME", "/nonexistent")
                    .output();
                let output = output.expect("it starts");
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(
                    output.status.success(),
                    "{arguments:?}: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                text
            }
        };
        const NAMED: [&str; 4] = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        git(&["init", "-q"]);
        git(&[
            &NAMED[..],
            &["commit", "-q", "--allow-empty", "-m", "outside"],
        ]
        .concat());
        let mut served = scratch.serve();
        let said = served.sh(&format!(
            "echo x >file && git add file && git {} commit -q -m inside && git log --format=%s",
            NAMED.join(" ")
        ));
        assert_eq!(said, "inside\noutside\n");
        assert_eq!(git(&["log", "--format=%s"]), "inside\noutside\n");
        assert_eq!(git(&["status", "--porcelain"]), "");
        git(&[
            &NAMED[..],
            &["commit", "-q", "--allow-empty", "-m", "again"],
        ]
        .concat());
        assert_eq!(
            served.sh("git log --format=%s | head -1; git status --porcelain"),
            "again\n"
        );
    });
}

#[test]
fn root_gives_each_sandbox_a_user_of_its_own_and_a_number_is_free_again_after_it() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new(super::support::Who::Me);
    let uid = |served: &super::support::Served| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", served.named("engine")))
            .expect("it runs");
        let line = status
            .lines()
            .find(|line| line.starts_with("Uid:"))
            .expect("each has one")
            .to_owned();
        let uids: Vec<u32> = line
            .split_whitespace()
            .skip(1)
            .map(|it| it.parse().expect("a number"))
            .collect();
        assert!(uids.iter().all(|uid| *uid == uids[0]), "{line}");
        uids[0]
    };
    let (first, second) = (scratch.serve(), scratch.serve());
    let (one, two) = (uid(&first), uid(&second));
    assert_ne!(one, two);
    for uid in [one, two] {
        assert!(uid > 2_000_200_000 && uid < 2_147_352_576, "{uid}");
    }
    let bwrap =
        std::fs::read_to_string(format!("/proc/{}/status", first.named("bwrap"))).expect("it runs");
    assert!(
        bwrap.contains(&format!("Uid:\t{one}\t{one}\t{one}\t{one}")),
        "bwrap itself is not root: {bwrap}"
    );
    let lock = std::fs::File::open(format!("/run/spp-users/{one}")).expect("it is held by a lock");
    assert!(lock.try_lock().is_err(), "the number is held");
    assert_eq!(first.hang_up(), Some(0));
    super::support::until("the end of the lock", || lock.try_lock().is_ok());
}
