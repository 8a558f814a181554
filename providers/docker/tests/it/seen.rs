//! What is there inside, and what of it is left outside.

use std::os::unix::fs::MetadataExt as _;

use sandbox_core::file::ReadRequest;
use sandbox_core::process::{ProcessSpec, Status};
use sandbox_core::{Ctx, ErrorKind, Grade, Restriction, SandboxExt as _, SandboxPath};

use super::support::{EMPTY, IMAGE, Scratch, containers, docker, end, sh};

#[tokio::test]
async fn a_command_runs_as_the_owner_of_the_workspace_and_leaves_files_that_are_theirs() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let opened = scratch.open(&host).await;
    let sandbox = &*opened.sandbox;
    let owner = scratch.owner().to_string();
    assert_eq!(
        sh(sandbox, "id -u; pwd; echo $HOME").await,
        format!("{owner}\n/workspace\n/home/sandbox\n")
    );
    sh(sandbox, "echo hello > file && mkdir d && touch d/x").await;
    for name in ["file", "d", "d/x"] {
        let found = scratch
            .workspace()
            .join(name)
            .metadata()
            .expect("it is there");
        assert_eq!(found.uid(), scratch.owner(), "{name}");
    }
    // The other way round, too.
    std::fs::write(scratch.workspace().join("given"), "from outside").expect("a file");
    assert_eq!(sh(sandbox, "cat given").await, "from outside");
    end(opened, &host).await;
    assert!(
        scratch.workspace().join("file").is_file(),
        "the workspace is the caller's"
    );
}

#[tokio::test]
async fn places_to_write_are_the_sandboxs_own_and_the_rest_is_the_images() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let opened = scratch.open(&host).await;
    let sandbox = &*opened.sandbox;
    let script = "for d in /tmp /home/sandbox /dev/shm; do touch $d/x && echo $d; done; touch /etc/x /bin/x 2>/dev/null || echo no";
    assert_eq!(
        sh(sandbox, script).await,
        "/tmp\n/home/sandbox\n/dev/shm\nno\n"
    );
    // What a program may execute there, it may.
    assert_eq!(
        sh(sandbox, "cp /bin/busybox /tmp/echo && /tmp/echo it runs").await,
        "it runs\n"
    );
    assert_eq!(
        sh(
            sandbox,
            "ls -A /run/spp; touch /run/spp/engine 2>&1 | grep -c ."
        )
        .await,
        "channel\nengine\n1\n"
    );
    end(opened, &host).await;
}

#[tokio::test]
async fn nothing_of_the_machine_is_there_unasked() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let opened = scratch.open(&host).await;
    let sandbox = &*opened.sandbox;
    assert_eq!(sh(sandbox, "ls /sys/class/net").await, "lo\n");
    assert_eq!(
        sh(
            sandbox,
            "grep -E '^(CapEff|CapBnd)' /proc/self/status | sort -u -k2 | wc -l"
        )
        .await,
        "1\n"
    );
    assert_eq!(
        sh(sandbox, "grep CapEff /proc/self/status")
            .await
            .split_whitespace()
            .last(),
        Some("0000000000000000")
    );
    assert_eq!(
        sh(sandbox, "grep NoNewPrivs /proc/self/status").await,
        "NoNewPrivs:\t1\n"
    );
    assert_eq!(
        sh(sandbox, "env | grep -cE '^(SPP_|DOCKER_|CARGO)'").await,
        "0\n"
    );
    // The engine, the shell and what it calls.
    assert_eq!(
        sh(sandbox, "ls -d /proc/[0-9]* | wc -l")
            .await
            .trim()
            .parse::<u32>()
            .map(|all| all < 10),
        Ok(true)
    );
    let guarantees = &sandbox.descriptor().guarantees;
    for restriction in [
        Restriction::NetworkDenied,
        Restriction::ProcessContained,
        Restriction::SecretsHidden,
    ] {
        assert_eq!(
            guarantees.get(&restriction),
            Some(&Grade::Full),
            "{restriction:?}"
        );
    }
    end(opened, &host).await;
}

#[tokio::test]
async fn an_image_that_holds_nothing_is_a_place_for_files_and_for_what_one_brings() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(EMPTY));
    let opened = scratch.open(&host).await;
    let sandbox = &*opened.sandbox;
    std::fs::write(scratch.workspace().join("file"), "hello").expect("a file");
    let path = SandboxPath::parse("file").expect("valid");
    let read = sandbox
        .read(&Ctx::new(), ReadRequest::new(path))
        .await
        .expect("it is there");
    assert_eq!(&read.bytes[..], b"hello");
    let ctx = Ctx::new();
    let run = |program: &str| sandbox.run(&ctx, ProcessSpec::new([program, "one", "two"]));
    let missing = run("sh").await.expect_err("there is no shell");
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    // A static executable of one's own needs nothing of an image.
    let own = scratch.workspace().join("echo");
    std::fs::copy("/bin/busybox", &own).expect("busybox is installed");
    let outcome = run("/workspace/echo").await.expect("it runs");
    assert_eq!(outcome.exit.status, Status::Exited(0));
    assert_eq!(&outcome.stdout.head[..], b"one two\n");
    end(opened, &host).await;
}

#[tokio::test]
async fn an_ordinary_user_who_may_ask_the_daemon_gets_the_same() {
    let scratch = Scratch::new();
    let host = scratch.ordinary_host(&Scratch::options(IMAGE));
    let opened = scratch.open(&host).await;
    let sandbox = &*opened.sandbox;
    assert_eq!(
        sh(sandbox, "id -u; echo x > made").await,
        format!("{}\n", scratch.owner())
    );
    let made = scratch
        .workspace()
        .join("made")
        .metadata()
        .expect("it is there");
    assert_eq!(made.uid(), scratch.owner());
    end(opened, &host).await;
}

#[tokio::test]
async fn nothing_runs_beside_the_engine_that_is_not_under_its_guard() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let opened = scratch.open(&host).await;
    let [container] = &*containers(&opened.sandbox.descriptor().id) else {
        panic!("one container")
    };
    let check = docker(&[
        "inspect",
        "--format={{json .Config.Healthcheck}} {{.HostConfig.Init}}",
        container,
    ]);
    assert_eq!(check, r#"{"Test":["NONE"]} false"#);
    assert_eq!(sh(&*opened.sandbox, "cat /proc/1/comm").await, "engine\n");
    end(opened, &host).await;
}

#[tokio::test]
async fn a_password_in_the_programs_own_configuration_stays_there() {
    let scratch = Scratch::new();
    let directory = scratch.workspace().with_file_name("docker");
    std::fs::create_dir(&directory).expect("a directory");
    let proxy = "http://user:SECRET@proxy.example:1";
    let text = format!(
        r#"{{"proxies": {{"default": {{"httpProxy": "{proxy}", "httpsProxy": "{proxy}", "ftpProxy": "{proxy}",
            "noProxy": "{proxy}", "allProxy": "{proxy}"}}}}}}"#
    );
    std::fs::write(directory.join("config.json"), text).expect("a file");
    let host = scratch.host_with(&[("DOCKER_CONFIG", &directory)], &Scratch::options(IMAGE));
    let opened = scratch.open(&host).await;
    assert_eq!(
        sh(&*opened.sandbox, "env | grep -i -e proxy -e SECRET | wc -l").await,
        "0\n"
    );
    let [container] = &*containers(&opened.sandbox.descriptor().id) else {
        panic!("one container")
    };
    assert!(!docker(&["inspect", container]).contains("SECRET"));
    end(opened, &host).await;
}
