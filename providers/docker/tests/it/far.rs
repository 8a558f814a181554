//! A daemon that does not see this machine's files: one of these tests' own, in a namespace of mounts where they are not.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use sandbox_core::file::ReadRequest;
use sandbox_core::{Ctx, Disposition, Policy, SandboxId, SandboxPath};
use sandbox_host::OpenRequest;
use sandbox_host::tree::{self, Onto, Tally};

use super::support::{EMPTY, IMAGE, LIMIT, Scratch, daemon, is_root, sh, until};

/// Hides what the arguments name, and becomes a daemon at the port `$0`. All that it has is in memory, and gone with it.
const DAEMON: &str = r#"
    for hidden in "$@"; do mount -t tmpfs tmpfs "$hidden" || exit 1; done
    mount -t tmpfs tmpfs /mnt && cd /mnt &&
    exec dockerd --data-root /mnt/data --exec-root /mnt/run --pidfile /mnt/pid --host "tcp://127.0.0.1:$0" --tls=false \
        --bridge=none --iptables=false --ip6tables=false
"#;

/// A daemon, ended when this is dropped.
struct Far {
    process: Child,
    address: String,
}

impl Far {
    /// Starts one with the images of the tests.
    fn start(scratch: &Scratch, hidden: &[&Path]) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("it has one").port();
        drop(free);
        let log = scratch.workspace().with_file_name("far.log");
        let log = std::fs::File::create(log).expect("a file");
        #[expect(clippy::disallowed_methods, reason = "a daemon is no place")]
        let mut unshare = Command::new("unshare");
        unshare
            .args([
                "--mount",
                "--pid",
                "--fork",
                "--mount-proc",
                "--kill-child",
                "sh",
                "-c",
                DAEMON,
            ])
            .arg(port.to_string())
            .args(hidden)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log);
        let mut far = Self {
            process: unshare.spawn().expect("it is installed"),
            address: format!("tcp://127.0.0.1:{port}"),
        };
        let started = Instant::now();
        while !far.asked(&["version"]).0 {
            let ended = far.process.try_wait().expect("it is ours");
            assert_eq!(ended, None, "it does not start");
            assert!(started.elapsed() < LIMIT, "it does not answer");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let given = format!(
            "docker --host={} save {IMAGE} {EMPTY} | docker --host={} load",
            daemon(),
            far.address
        );
        #[expect(
            clippy::disallowed_methods,
            reason = "the daemon is given images from outside"
        )]
        let given = Command::new("sh")
            .args(["-c", &given])
            .output()
            .expect("a shell");
        assert!(given.status.success(), "{given:?}");
        far
    }

    /// Whether it did what it was asked, and what it answered.
    fn asked(&self, arguments: &[&str]) -> (bool, String) {
        #[expect(
            clippy::disallowed_methods,
            reason = "the daemon is looked at from outside"
        )]
        let mut docker = Command::new("docker");
        docker
            .arg(format!("--host={}", self.address))
            .args(arguments);
        let output = docker
            .stdin(Stdio::null())
            .output()
            .expect("it is installed");
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (output.status.success(), text)
    }

    /// What it has besides images.
    fn has(&self) -> String {
        let (all, volumes) = (["ps", "--all", "--quiet"], ["volume", "ls", "--quiet"]);
        self.asked(&all).1 + &self.asked(&volumes).1
    }

    fn options(&self, image: &str, more: &str) -> String {
        format!("image = '{image}'\nhost = '{}'\n{more}\n", self.address)
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // With the first process of its namespace everything else of it is gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn a_daemon_elsewhere_has_the_workspace_as_a_volume_and_nothing_is_left_of_it() {
    if !is_root() {
        // Only root can start a daemon.
        return;
    }
    let scratch = Scratch::new();
    let executables = scratch.executables();
    let far = Far::start(&scratch, &[&executables, "/tmp".as_ref()]);

    // Where the files are not seen, what to do is said.
    let host = scratch.host(&far.options(IMAGE, ""));
    let text = scratch.refused(&host, Policy::default()).await;
    assert!(text.contains("workspace = \"volume\""), "{text}");
    host.shutdown().await;
    assert_eq!(far.has(), "");

    std::fs::create_dir(scratch.workspace().join("sub")).expect("a directory");
    std::fs::write(scratch.workspace().join("sub/file"), "from here").expect("a file");
    for image in [IMAGE, EMPTY] {
        let host = scratch.host(&far.options(image, "workspace = 'volume'"));
        let opened = scratch.open(&host).await;
        let sandbox = &*opened.sandbox;
        let notes = sandbox.descriptor().notes.join("\n");
        for part in ["empty at first", "attached client", "another machine"] {
            assert!(notes.contains(part), "{notes}");
        }
        // Nothing is there until it is put there.
        let file = SandboxPath::parse("sub/file").expect("valid");
        let read = sandbox
            .read(&Ctx::new(), ReadRequest::new(file.clone()))
            .await;
        assert_eq!(
            read.expect_err("it is empty").kind(),
            sandbox_core::ErrorKind::NotFound
        );
        let directory = std::fs::File::open(scratch.workspace()).expect("it is there");
        let (ctx, tally) = (Ctx::new(), Tally::new());
        let to = SandboxPath::parse(".").expect("valid");
        tree::push(&ctx, sandbox, directory, to, Onto::Nothing, &tally)
            .await
            .expect("it is pushed");
        let read = sandbox.read(&Ctx::new(), ReadRequest::new(file)).await;
        assert_eq!(&*read.expect("it is there").bytes, b"from here");
        if image == IMAGE {
            let said = sh(
                sandbox,
                "id -u; cat sub/file; touch new /run/spp/x 2>&1 | grep -c denied",
            )
            .await;
            assert_eq!(said, format!("{}\nfrom here1\n", scratch.owner()));
        }
        assert!(!scratch.workspace().join("new").exists());
        let receipt = opened.release(&Ctx::new(), Disposition::Keep).await;
        let receipt = receipt.expect("it ends");
        assert_eq!(
            receipt.disposition,
            Disposition::Destroy,
            "a volume cannot be kept"
        );
        assert_eq!(far.has(), "");
        host.shutdown().await;
    }
    let images = far
        .asked(&["image", "ls", "--quiet", "--filter=label=spp.engine"])
        .1;
    assert_eq!(
        images.lines().count(),
        1,
        "the engine was sent once: {images}"
    );

    // What a provider leaves that is killed is removed by the next, and so are engines of other builds.
    let old = "spp-engine:00000000000000000000000000000000-1-1";
    let import = r#"tar -cf - -T /dev/null | docker --host="$0" import --change='LABEL spp.engine=0' - "$1""#;
    #[expect(
        clippy::disallowed_methods,
        reason = "the daemon is given images from outside"
    )]
    let made = Command::new("sh")
        .args(["-c", import, &far.address, old])
        .output()
        .expect("a shell");
    let has_old = || far.asked(&["image", "inspect", old]).0;
    assert!(has_old(), "{made:?}");
    let host = scratch.host(&far.options(IMAGE, "workspace = 'volume'"));
    let opened = scratch.open(&host).await;
    host.kill().await;
    drop(opened);
    until("the end of the container", || {
        far.asked(&["ps", "--quiet"]).1.is_empty()
    })
    .await;
    assert!(!has_old());
    let host = scratch.host(&far.options(IMAGE, "workspace = 'volume'"));
    let request = OpenRequest {
        id: Some(SandboxId::new("after").expect("valid")),
        ..scratch.request()
    };
    let opened = host
        .open(&Ctx::new(), None, request)
        .await
        .expect("it opens");
    opened
        .release(&Ctx::new(), Disposition::Destroy)
        .await
        .expect("it ends");
    host.shutdown().await;
    assert_eq!(far.has(), "");
}
