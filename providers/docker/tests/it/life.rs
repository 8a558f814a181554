//! How a sandbox ends: nothing of it is left, whoever ended it, and it is told at once.

use std::time::{Duration, Instant};

use sandbox_core::process::ProcessSpec;
use sandbox_core::{Ctx, Disposition, ErrorKind, SandboxExt as _, SandboxId};
use sandbox_host::{Host, OpenRequest};

use super::support::{IMAGE, Scratch, client, containers, docker, end, is_root, sh, until};

fn id(name: &str) -> SandboxId {
    SandboxId::new(format!("{name}-{}", std::process::id())).expect("valid")
}

fn named(scratch: &Scratch, id: &SandboxId) -> OpenRequest {
    OpenRequest {
        id: Some(id.clone()),
        ..scratch.request()
    }
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is there");
}

#[tokio::test]
async fn a_release_is_not_answered_before_the_container_is_gone() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let id = id("released");
    let opened = host
        .open(&Ctx::new(), None, named(&scratch, &id))
        .await
        .expect("it opens");
    assert_eq!(containers(&id).len(), 1);
    sh(&*opened.sandbox, "(setsid sleep 1000 &)").await;
    let receipt = opened
        .release(&Ctx::new(), Disposition::Destroy)
        .await
        .expect("it ends");
    assert!(receipt.existed);
    assert!(containers(&id).is_empty());
    host.shutdown().await;
}

#[tokio::test]
async fn a_provider_that_is_killed_leaves_no_container() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let id = id("orphan");
    let opened = host
        .open(&Ctx::new(), None, named(&scratch, &id))
        .await
        .expect("it opens");
    sh(&*opened.sandbox, "(setsid sleep 1000 &)").await;
    host.kill().await;
    until("the end of the container", || containers(&id).is_empty()).await;
}

/// Ends a sandbox that runs something in some way, and sees to it that this is told at once, that nothing of it is left, and
/// that its id can be had again.
async fn lost(host: &Host, scratch: &Scratch, way: &str, end: impl AsyncFnOnce(&str), says: &str) {
    let id = id(way);
    let opened = host
        .open(&Ctx::new(), None, named(scratch, &id))
        .await
        .expect("it opens");
    let first = opened.sandbox.descriptor().generation;
    let [container] = &*containers(&id) else {
        panic!("one container")
    };
    let ctx = Ctx::new();
    let sleeping = opened
        .sandbox
        .run(&ctx, ProcessSpec::new(["sleep", "1000"]));
    let end = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        end(container).await;
        Instant::now()
    };
    let (outcome, ended) = tokio::join!(sleeping, end);
    let error = outcome.expect_err("nobody is left to answer");
    assert_eq!(error.kind(), ErrorKind::Lost, "{way}: {error}");
    assert!(error.to_string().contains(says), "{way}: {error}");
    assert!(
        ended.elapsed() < Duration::from_secs(10),
        "{way}: {:?}",
        ended.elapsed()
    );
    let again = host
        .open(&Ctx::new(), None, named(scratch, &id))
        .await
        .expect("it opens");
    assert_ne!(
        again.sandbox.descriptor().generation,
        first,
        "{way}: another life"
    );
    assert_eq!(sh(&*again.sandbox, "echo up").await, "up\n");
    assert_eq!(containers(&id).len(), 1, "{way}: the first is gone");
    again
        .release(&Ctx::new(), Disposition::Destroy)
        .await
        .expect("it ends");
    assert!(containers(&id).is_empty(), "{way}");
}

#[tokio::test]
async fn whatever_ends_a_container_it_is_lost_at_once_with_the_cause_and_its_id_can_be_had_again() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let ways: [(&str, &[&str], &str); 3] = [
        ("killed", &["kill"], "from outside (signal 9)"),
        ("stopped", &["stop", "--time=1"], "from outside (signal 9)"),
        ("removed", &["rm", "--force"], "from outside (signal 9)"),
    ];
    for (way, asked, says) in ways {
        let end = async |container: &str| drop(docker(&[asked, &[container]].concat()));
        lost(&host, &scratch, way, end, says).await;
    }
    // Something else than the daemon has killed its first process.
    let end = async |container: &str| {
        let pid = docker(&["inspect", "--format={{.State.Pid}}", container]);
        kill(pid.parse().expect("a number"));
    };
    if is_root() {
        lost(&host, &scratch, "engine", end, "(exit status 137)").await;
    }
    host.shutdown().await;
}

#[tokio::test]
async fn an_attached_client_that_is_killed_is_the_end_of_its_sandbox() {
    let scratch = Scratch::new();
    let host = scratch.host(&(Scratch::options(IMAGE) + "channel = 'attached'\n"));
    let end = async |container: &str| kill(client(container).expect("a client"));
    lost(&host, &scratch, "client", end, "the place ended").await;
    host.shutdown().await;
}

#[tokio::test]
async fn an_acquire_that_is_given_up_leaves_no_container() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    // The provider is there, so that what is given up is the making of the container.
    let provider = host
        .provider(&Ctx::new(), "docker")
        .await
        .expect("it starts");
    for pause in [0, 20, 60, 120, 240] {
        let id = id(&format!("given-up-{pause}"));
        let mut spec = scratch.spec(id.as_str());
        spec.options = host.config().provider("docker").options.clone();
        let ctx = Ctx::new().with_timeout(Duration::from_millis(pause));
        if provider.acquire(&ctx, &spec).await.is_ok() {
            provider
                .release(&Ctx::new(), &id, Disposition::Destroy)
                .await
                .expect("it ends");
        }
        until("the end of the container", || containers(&id).is_empty()).await;
    }
    host.shutdown().await;
}

/// A container that says it was made by this owner, under this name, and has that one.
fn abandoned(owner: &str, said: &str, name: &str) -> String {
    let labels = [
        format!("--label=spp.owner={owner}"),
        format!("--label=spp.name={said}"),
    ];
    let name = format!("--name={name}");
    docker(&[
        "create",
        "--network=none",
        &labels[0],
        &labels[1],
        &name,
        IMAGE,
        "sleep",
        "1000",
    ])
}

/// This start of the machine, and the namespaces of process numbers and of times.
fn here() -> (String, String, String) {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("the kernel's");
    let namespace = |name: &str| -> String {
        let link = std::fs::read_link(format!("/proc/self/ns/{name}")).expect("the kernel's");
        link.to_string_lossy()
            .chars()
            .filter(char::is_ascii_digit)
            .collect()
    };
    (boot.trim().to_owned(), namespace("pid"), namespace("time"))
}

/// Who is named by a label, and is gone: no process has this number.
pub(crate) fn owner_of_the_dead() -> String {
    let (boot, numbers, times) = here();
    format!("{boot}/{numbers}/{times}/4194305/1")
}

#[tokio::test]
async fn what_the_dead_have_left_is_removed_and_nothing_else() {
    let (boot, numbers, times) = here();
    let dead = owner_of_the_dead();
    let name = |what: &str| format!("spp-test-{what}-{}", std::process::id());
    let left = abandoned(&dead, &name("left"), &name("left"));
    let others = [
        (
            "machine",
            "00000000-0000-0000-0000-000000000000/1/1/4194305/1".to_owned(),
        ),
        ("numbers", format!("{boot}/1/{times}/4194305/1")),
        ("times", format!("{boot}/{numbers}/1/4194305/1")),
        ("nonsense", "nonsense".to_owned()),
        ("lines", format!("x\n{dead}")),
    ];
    let mut kept: Vec<_> = others
        .iter()
        .map(|(what, owner)| abandoned(owner, &name(what), &name(what)))
        .collect();
    // Made of an image that was made of a sandbox, which passes labels on.
    kept.push(abandoned(&dead, &name("left"), &name("inherited")));
    kept.push(docker(&[
        "create",
        "--network=none",
        IMAGE,
        "sleep",
        "1000",
    ]));
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let opened = scratch.open(&host).await;
    let all = docker(&["ps", "--all", "--quiet", "--no-trunc"]);
    assert!(!all.contains(&left), "it was left");
    for container in &kept {
        assert!(all.contains(container), "somebody else's was removed");
        docker(&["rm", "--force", container]);
    }
    end(opened, &host).await;
}
