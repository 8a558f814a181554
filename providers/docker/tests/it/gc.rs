//! `spp gc` at a daemon: what the dead have left is removed, and nothing of anybody else.

use std::process::{Command, Stdio};

use sandbox_core::{Ctx, Disposition};
use serde_json::Value;

use super::daemon::Daemon;
use super::life::owner_of_the_dead;
use super::support::{IMAGE, Scratch, is_root, sh};

/// What `spp gc` says of a daemon, and its status.
fn gc(scratch: &Scratch, arguments: &[&str]) -> (Value, Option<i32>) {
    let spp = scratch.provider().with_file_name("spp");
    assert!(
        spp.is_file(),
        "{} is missing: `cargo build --bins`",
        spp.display()
    );
    #[expect(
        clippy::disallowed_methods,
        reason = "a test starts the program as its users do"
    )]
    let mut command = Command::new(spp);
    command
        .arg("--config")
        .arg(scratch.config())
        .args(["--location", "docker", "--json", "gc"])
        .args(arguments)
        .stdin(Stdio::null());
    let output = command.output().expect("it starts");
    let said = serde_json::from_slice(&output.stdout);
    let said = said.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (said, output.status.code())
}

/// Makes a container that says whose it is.
fn container(daemon: &Daemon, name: &str, sandbox: &str, owner: &str) {
    let made = daemon.ask(&[
        "create",
        "--network=none",
        &format!("--name={name}"),
        &format!("--label=spp.name={name}"),
        &format!("--label=spp.sandbox={sandbox}"),
        &format!("--label=spp.owner={owner}"),
        IMAGE,
        "sleep",
        "1000",
    ]);
    made.expect("it is made");
}

#[tokio::test]
async fn what_nobody_has_any_more_is_removed_and_everything_else_is_told() {
    if !is_root() {
        // Nobody else may start a daemon, and at the one that all tests have every provider tidies up.
        return;
    }
    let scratch = Scratch::new();
    let daemon = Daemon::start("gc");
    let host = scratch.host(&format!(
        "image = '{IMAGE}'\nhost = '{}'\n",
        daemon.address()
    ));
    let opened = scratch.open(&host).await;
    let id = opened.sandbox.descriptor().id.to_string();
    let dead = owner_of_the_dead();
    container(&daemon, "left", "left-1", &dead);
    // Of the same id as one that lives, which stays.
    container(&daemon, "same", &id, &dead);
    container(&daemon, "other", "other-1", "another/1/1/1/1");
    daemon
        .ask(&["create", "--network=none", "--name=stranger", IMAGE, "true"])
        .expect("it is made");

    let claims = |said: &Value| -> Vec<(String, String, bool)> {
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        let found = said["locations"][0]["sandboxes"]
            .as_array()
            .expect("a list");
        let mut claims: Vec<_> = found
            .iter()
            .map(|one| {
                (
                    text(&one["sandbox"]),
                    text(&one["claim"]),
                    one["removed"] == true,
                )
            })
            .collect();
        claims.sort();
        claims
    };
    let expected = |removed: bool| {
        let mut all = vec![
            (id.clone(), "abandoned".to_owned(), removed),
            (id.clone(), "used".to_owned(), false),
            ("left-1".to_owned(), "abandoned".to_owned(), removed),
            ("other-1".to_owned(), "unclear".to_owned(), false),
        ];
        all.sort();
        all
    };
    let (said, status) = gc(&scratch, &["--dry-run"]);
    assert_eq!(
        (claims(&said), status),
        (expected(false), Some(0)),
        "{said}"
    );
    assert_eq!(daemon.containers().len(), 5, "nothing was done");
    let (said, status) = gc(&scratch, &[]);
    assert_eq!((claims(&said), status), (expected(true), Some(0)), "{said}");
    assert_eq!(sh(&*opened.sandbox, "echo up").await, "up\n");
    let left = daemon
        .ask(&["ps", "--all", "--format={{.Names}}"])
        .expect("it answers");
    assert_eq!(left.lines().count(), 3, "{left}");
    for name in ["other", "stranger"] {
        assert!(left.lines().any(|line| line == name), "{left}");
    }
    let (said, _) = gc(&scratch, &[]);
    assert_eq!(claims(&said).len(), 2, "{said}");
    opened
        .release(&Ctx::new(), Disposition::Destroy)
        .await
        .expect("it ends");
    host.shutdown().await;
    drop(daemon);
    // Who named it is told that it cannot be asked.
    let (said, status) = gc(&scratch, &[]);
    let problem = said["locations"][0]["problem"]
        .as_str()
        .expect("a sentence");
    assert!(problem.contains("start the daemon"), "{problem}");
    assert_eq!(status, Some(1));
}
