//! How the engine is reached: by nobody else, and in another way where there can be no socket.

use std::os::unix::net::UnixStream;
use std::path::Path;

use sandbox_core::{Policy, Sandbox};

use super::support::{EMPTY, IMAGE, Scratch, client, containers, docker, end, is_root, sh};

/// What the descriptor says of the channel.
fn channel(sandbox: &dyn Sandbox) -> String {
    let notes = &sandbox.descriptor().notes;
    let mut notes = notes
        .iter()
        .filter(|note| note.contains("the engine is reached"));
    let (Some(note), None) = (notes.next(), notes.next()) else {
        panic!("one channel");
    };
    note.clone()
}

/// The directories of doors that are open for a provider that was started by these tests.
fn doors(beneath: &Path) -> usize {
    let entries = std::fs::read_dir(beneath).expect("a directory").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("spp-door-")).count()
}

#[tokio::test]
async fn no_client_stays_and_the_socket_is_closed_to_everybody_else() {
    for (image, is_ordinary) in [(IMAGE, false), (EMPTY, false), (IMAGE, true)] {
        let scratch = Scratch::new();
        let temporary = scratch
            .workspace()
            .parent()
            .expect("it has one")
            .join("tmp");
        std::fs::create_dir(&temporary).expect("a directory");
        scratch.own(&temporary);
        let host = match is_ordinary {
            true => scratch.ordinary_host_with(&[("TMPDIR", &temporary)], &Scratch::options(image)),
            false => scratch.host_with(&[("TMPDIR", &temporary)], &Scratch::options(image)),
        };
        let opened = scratch.open(&host).await;
        let sandbox = &*opened.sandbox;
        assert!(
            channel(sandbox).contains("a socket of its own"),
            "{}",
            channel(sandbox)
        );
        let [container] = &*containers(&sandbox.descriptor().id) else {
            panic!("one container")
        };
        assert_eq!(client(container), None, "a process stays for it");
        assert_eq!(doors(&temporary), 0, "the socket lies there still");
        if image == IMAGE {
            assert_eq!(sh(sandbox, "env | grep -c SPP_").await, "0\n");
            let environment = sh(sandbox, "cat /proc/1/environ").await;
            assert!(environment.contains("denied"), "{environment}");
        }
        if is_root() {
            // It is seen inside, and nobody listens.
            let pid = docker(&["inspect", "--format={{.State.Pid}}", container]);
            let inside = format!("/proc/{pid}/root/run/spp/channel");
            let refused = UnixStream::connect(&inside).expect_err("it was closed");
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        }
        // The secret is in no argument, inside or outside.
        let arguments = docker(&[
            "inspect",
            "--format={{json .Args}}{{json .Path}}",
            container,
        ]);
        let told = docker(&["inspect", "--format={{json .Config.Env}}", container]);
        let secret = told
            .split('"')
            .find_map(|it| it.strip_prefix("SPP_CHANNEL="));
        let secret = secret.expect("whoever may ask the daemon sees it");
        assert!(
            secret.len() == 64 && !arguments.contains(secret),
            "{arguments}"
        );
        end(opened, &host).await;
    }
}

#[tokio::test]
async fn where_there_can_be_no_socket_an_attached_client_takes_over_and_that_is_told() {
    let scratch = Scratch::new();
    // As where a container may not connect to what is bound into it: there is nothing.
    let program = scratch.program(
        r#"for it in "$@"; do shift; case "$it" in *target=/run/spp/channel*) ;; *) set -- "$@" "$it" ;; esac; done"#,
    );
    let options = format!(
        "{}program = '{}'\n",
        Scratch::options(IMAGE),
        program.display()
    );
    let host = scratch.host(&options);
    for _ in 0..2 {
        let opened = scratch.open(&host).await;
        let told = channel(&*opened.sandbox);
        assert!(
            told.contains("attached")
                && told.contains("/run/spp/channel cannot be reached: No such file"),
            "{told}"
        );
        assert_eq!(sh(&*opened.sandbox, "echo up").await, "up\n");
        let id = opened.sandbox.descriptor().id.clone();
        assert_eq!(
            containers(&id).len(),
            1,
            "the one that was tried first is gone"
        );
        opened
            .release(
                &sandbox_core::Ctx::new(),
                sandbox_core::Disposition::Destroy,
            )
            .await
            .expect("it ends");
    }
    host.shutdown().await;
    let host = scratch.host(&(options + "channel = 'socket'\n"));
    let text = scratch.refused(&host, Policy::default()).await;
    assert!(text.contains("channel = \"auto\""), "{text}");
    host.shutdown().await;
}

#[tokio::test]
async fn a_daemon_that_does_not_see_where_sockets_are_made_is_reached_by_a_client() {
    let scratch = Scratch::new();
    let nowhere = Path::new("/nothing/is/here");
    let host = scratch.host_with(&[("TMPDIR", nowhere)], &Scratch::options(IMAGE));
    let opened = scratch.open(&host).await;
    let told = channel(&*opened.sandbox);
    assert!(told.contains("/nothing/is/here"), "{told}");
    end(opened, &host).await;
}
