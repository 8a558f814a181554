//! A provider as a process of its own, on real pipes.

use std::os::fd::{AsFd, BorrowedFd};
use std::process::Stdio;

use sandbox_core::{AcquireSpec, Ctx, Provider, SandboxExt, SandboxId, process::ProcessSpec};
use spp_client::{ConnectOptions, Connection};
use spp_server::{ServeOptions, serve, stdio};
use tokio::io::AsyncReadExt;

use crate::host::soon;
use crate::memory::Memory;

const CHILD: &str = "SPP_SERVER_TEST_CHILD";

/// Not a test by itself: the provider process of the test below, which starts it.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (ended, flushed) = runtime.block_on(async {
        let (reader, writer, flushed) = stdio().expect("the pipes").into_parts();
        // A stray print, such as a library makes: it must not reach the host.
        print_directly(b"stray print\n");
        // So does whatever a provider starts; it names what it inherited on the way.
        #[expect(
            clippy::disallowed_methods,
            reason = "a child like any of a provider's"
        )]
        let status = std::process::Command::new("sh")
            .args([
                "-c",
                "for each in /proc/$$/fd/*; do echo \"inherited $(readlink $each)\"; done",
            ])
            .status();
        assert!(status.expect("sh starts").success());
        let ended = serve(Memory::whole(), reader, writer, ServeOptions::default()).await;
        (ended, flushed)
    });
    flushed.wait();
    std::process::exit(i32::from(ended.is_err()));
}

/// Past the test harness, which captures what a test prints.
fn print_directly(bytes: &[u8]) {
    rustix::io::write(rustix::stdio::stdout(), bytes).expect("standard output is open");
}

// B187: neither the provider's own prints nor its children's reach the connection.
#[tokio::test]
async fn what_a_provider_prints_goes_to_its_log_and_it_ends_with_its_input() {
    let program = std::env::current_exe().expect("this program");
    #[expect(
        clippy::disallowed_methods,
        reason = "the test starts itself as a provider; there is no host here"
    )]
    let mut child = tokio::process::Command::new(program)
        .args(["--exact", "pipes::child", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("this program starts");
    let input = child.stdin.take().expect("piped");
    let output = child.stdout.take().expect("piped");
    let mut errors = child.stderr.take().expect("piped");
    let name = |pipe: BorrowedFd<'_>| {
        let inode = rustix::fs::fstat(pipe).expect("it is open").st_ino;
        format!("pipe:[{inode}]")
    };
    let protocol = [name(input.as_fd()), name(output.as_fd())];
    let connection = Connection::open(output, input, ConnectOptions::default()).await;
    let connection = connection.expect("the handshake succeeds");
    // The test harness prints a line or two before the provider takes the pipe.
    let before = connection.stats().bad_lines;
    let spec = AcquireSpec::new(SandboxId::new("s").expect("a valid id"));
    let sandbox = connection.acquire(&Ctx::new(), &spec).await.expect("room");
    let outcome = sandbox
        .run(&Ctx::new(), ProcessSpec::new(["echo", "hi"]))
        .await;
    assert_eq!(&outcome.expect("it ran").stdout.head[..], b"hi\n");
    assert_eq!(connection.stats().bad_lines, before);
    drop((sandbox, connection));

    let status = soon(child.wait()).await.expect("it can be waited for");
    assert!(status.success(), "{status}");
    let mut log = String::new();
    errors.read_to_string(&mut log).await.expect("readable");
    assert!(log.contains("stray print"), "{log}");
    let inherited: Vec<_> = log
        .lines()
        .filter_map(|line| line.strip_prefix("inherited "))
        .collect();
    assert!(inherited.contains(&"/dev/null"), "{inherited:?}");
    for pipe in &protocol {
        assert!(!inherited.contains(&&**pipe), "{pipe} of {inherited:?}");
    }
}
