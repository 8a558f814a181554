//! What cannot be had is refused, with the reason and what to do.

use sandbox_core::{
    Ctx, Limit, LimitKind, Mount, MountAccess, Network, Policy, SandboxPath, Strength,
};

use super::support::{IMAGE, Scratch, is_root};

async fn refusal(options: &str) -> String {
    let scratch = Scratch::new();
    let host = scratch.host(options);
    let text = scratch.refused(&host, Policy::default()).await;
    host.shutdown().await;
    text
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

#[tokio::test]
async fn an_image_that_is_not_there_is_named_with_what_to_do() {
    let options = Scratch::options("spp-test-missing") + "pull = 'never'\n";
    has(
        &refusal(&options).await,
        &["spp-test-missing", "build or pull it"],
    );
    has(
        &refusal("").await,
        &["there is no `image`", "image = \"debian:12\""],
    );
    has(
        &refusal(&Scratch::options("Not A Name")).await,
        &["correct the image's name"],
    );
}

#[tokio::test]
async fn a_program_or_a_daemon_that_is_not_there_is_named_with_what_to_do() {
    let nowhere = "image = 'x'\nhost = 'unix:///nothing/is/here'\n";
    has(&refusal(nowhere).await, &["daemon", "start the daemon"]);
    let no_program = "image = 'x'\nprogram = 'no-such-docker'\n";
    has(
        &refusal(no_program).await,
        &["no program `no-such-docker`", "install docker or podman"],
    );
    let no_context = "image = 'x'\ncontext = 'no-such-context'\n";
    has(
        &refusal(no_context).await,
        &["no-such-context", "docker context ls"],
    );
}

#[tokio::test]
async fn who_may_not_ask_the_daemon_is_told_how_one_may() {
    let scratch = Scratch::new();
    if !is_root() {
        // Whoever runs the tests may ask it.
        return;
    }
    let closed = scratch.workspace().join("closed");
    let socket = std::os::unix::net::UnixListener::bind(&closed).expect("a socket");
    std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("ours");
    let options = format!("image = '{IMAGE}'\nhost = 'unix://{}'\n", closed.display());
    let host = scratch.ordinary_host(&options);
    let text = scratch.refused(&host, Policy::default()).await;
    has(&text, &["permission denied", "usermod -aG docker"]);
    host.shutdown().await;
    drop(socket);
}

#[tokio::test]
async fn what_the_daemon_does_not_know_is_passed_on_with_what_to_do() {
    let options = Scratch::options(IMAGE);
    has(
        &refusal(&format!("{options}runtime = 'no-such'\n")).await,
        &["no-such", "docker info"],
    );
    has(
        &refusal(&format!("{options}args = ['--no-such-flag']\n")).await,
        &["no-such-flag", "allowed are"],
    );
    has(
        &refusal(&format!("{options}args = ['--privileged']\n")).await,
        &["--privileged", "policy"],
    );
}

#[tokio::test]
async fn a_policy_that_nobody_can_keep_is_refused() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let origins = Policy {
        network: Some(Network::Allow(vec!["https://example.org:443".into()])),
        ..Policy::default()
    };
    has(&scratch.refused(&host, origins).await, &["single origins"]);
    let mounts = Policy {
        mounts: vec![Mount {
            host: "/usr".into(),
            sandbox: SandboxPath::parse("/mnt").expect("valid"),
            access: MountAccess::ReadOnly,
        }],
        ..Policy::default()
    };
    has(
        &scratch.refused(&host, mounts).await,
        &["only the workspace"],
    );
    let limits = Policy {
        limits: [(
            LimitKind::Disk,
            Limit {
                value: 1 << 30,
                strength: Strength::Required,
            },
        )]
        .into(),
        ..Policy::default()
    };
    has(&scratch.refused(&host, limits).await, &["disk"]);
    host.shutdown().await;
}

#[tokio::test]
async fn a_workspace_of_roots_is_opened_to_nobody_else_by_an_ordinary_user() {
    if !is_root() {
        // Only root can make one.
        return;
    }
    let scratch = Scratch::new();
    let host = scratch.ordinary_host(&Scratch::options(IMAGE));
    std::os::unix::fs::chown(scratch.workspace(), Some(0), Some(0)).expect("root may");
    let text = scratch.refused(&host, Policy::default()).await;
    has(&text, &["the workspace is root's", "UID:GID"]);
    host.shutdown().await;
}

#[tokio::test]
async fn a_workspace_of_somebody_else_does_not_make_one_them() {
    let scratch = Scratch::new();
    if !is_root() {
        // Only root can make one.
        return;
    }
    let host = scratch.ordinary_host(&Scratch::options(IMAGE));
    let theirs = scratch.workspace();
    std::os::unix::fs::chown(&theirs, Some(42_423), Some(42_423)).expect("root may");
    let text = scratch.refused(&host, Policy::default()).await;
    has(&text, &["somebody else's", "UID:GID"]);
    host.shutdown().await;
}

/// What is said of an image whose fetching goes like this, and what was told meanwhile.
async fn pulled(script: &str) -> (String, Vec<String>) {
    let scratch = Scratch::new();
    // There is no registry: a program that says of one image what the real one does of any.
    let program = scratch.program(&format!(r#"case " $* " in *" pull "*) {script} ;; esac"#));
    let options =
        Scratch::options("spp-test-far-away") + &format!("program = '{}'\n", program.display());
    let host = scratch.host(&options);
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = std::sync::Arc::clone(&told);
    let ctx = Ctx::new().with_progress(move |progress| {
        if progress.phase == "pull" {
            heard
                .lock()
                .expect("nobody panics")
                .push(progress.message.clone());
        }
    });
    let error = host.open(&ctx, None, scratch.request()).await.err();
    let error = super::support::told(&error.expect("there is no such image"));
    host.shutdown().await;
    let told = told.lock().expect("nobody panics").clone();
    (error, told)
}

#[tokio::test]
async fn an_image_that_comes_is_told_layer_by_layer_and_one_that_does_not_says_why() {
    let (error, told) = pulled(
        "echo 'aa: Pulling fs layer'; echo 'aa: Pull complete'; echo 'no space left on device' >&2; exit 1",
    )
    .await;
    has(&error, &["no space left on device", "docker system prune"]);
    let name = "pulling the image spp-test-far-away";
    let layers = ["", ": 0 of 1 layers are here", ": 1 of 1 layers are here"];
    assert_eq!(told, layers.map(|layers| format!("{name}{layers}")));
    for (says, remedy) in [
        (
            "Error response from daemon: pull access denied for x",
            "docker login",
        ),
        (
            "Error response from daemon: manifest for x:y not found: manifest unknown",
            "name or tag",
        ),
        (
            "Error response from daemon: Get https://x/v2/: dial tcp: lookup x: no such host",
            "reaches the registry",
        ),
        (
            "Error response from daemon: toomanyrequests: You have reached your pull rate limit",
            "wait",
        ),
    ] {
        let (error, _) = pulled(&format!("echo '{says}' >&2; exit 1")).await;
        has(&error, &[remedy]);
    }
}
