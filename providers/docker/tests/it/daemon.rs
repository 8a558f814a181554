//! A daemon of a test's own, which can be stopped, killed and started again without harm to anybody.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::support::{IMAGE, LIMIT, ORDINARY, docker};

/// It, with an image. What it has made is gone when it is dropped.
pub(crate) struct Daemon {
    directory: PathBuf,
    child: Child,
}

impl Daemon {
    /// Starts one.
    pub(crate) fn start(name: &str) -> Self {
        let own = format!("spp-test-daemon-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(own);
        std::fs::create_dir_all(&directory).expect("a directory");
        let child = dockerd(&directory);
        let daemon = Self { directory, child };
        daemon.wait();
        let image = daemon.at("image.tar");
        docker(&["image", "save", "--output", &image, IMAGE]);
        daemon
            .ask(&["load", "--quiet", "--input", &image])
            .expect("it takes the image");
        daemon
    }

    fn at(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    pub(crate) fn address(&self) -> String {
        format!("unix://{}", self.at("socket"))
    }

    /// What it answers; nothing if it refuses.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Option<String> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the daemon is looked at from outside"
        )]
        let mut command = Command::new("docker");
        command
            .arg(format!("--host={}", self.address()))
            .args(arguments)
            .stdin(Stdio::null());
        let output = command.output().expect("docker is installed");
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    }

    fn wait(&self) {
        let began = Instant::now();
        while self
            .ask(&["version", "--format={{.Server.Version}}"])
            .is_none()
        {
            assert!(began.elapsed() < LIMIT, "the daemon does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a number");
        kill_process(Pid::from_raw(pid).expect("a process"), signal).expect("it is ours");
    }

    /// Ends it by a signal, and waits until it has.
    pub(crate) fn end(&mut self, signal: Signal) {
        self.signal(signal);
        self.child.wait().expect("it ends");
    }

    /// Starts it again, with what it had.
    pub(crate) fn again(&mut self) {
        self.child = dockerd(&self.directory);
        self.wait();
    }

    /// The containers that it has, whatever they do.
    pub(crate) fn containers(&self) -> Vec<String> {
        let listed = self.ask(&["ps", "--all", "--quiet", "--no-trunc"]);
        listed
            .expect("it answers")
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// The first process of the one container that it has.
    pub(crate) fn first(&self) -> u32 {
        let [container] = &*self.containers() else {
            panic!("one container")
        };
        let pid = self.ask(&["inspect", "--format={{.State.Pid}}", container]);
        pid.expect("it runs").parse().expect("a number")
    }
}

fn dockerd(directory: &std::path::Path) -> Child {
    let at = |name: &str| directory.join(name).display().to_string();
    let log = File::options()
        .create(true)
        .append(true)
        .open(at("log"))
        .expect("a file");
    #[expect(
        clippy::disallowed_methods,
        reason = "a daemon is no part of a sandbox"
    )]
    let mut command = Command::new("dockerd");
    command
        .args(["--data-root", &at("data"), "--exec-root", &at("run")])
        .args([
            "--pidfile",
            &at("pid"),
            "--host",
            &format!("unix://{}", at("socket")),
        ])
        .args(["--group", &ORDINARY.to_string()])
        .args(["--bridge=none", "--iptables=false", "--ip6tables=false"])
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file"))
        .stderr(log);
    command.spawn().expect("dockerd is installed")
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A test that failed may have left it stopped or dead, and killed it would leave its mounts.
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            self.child = dockerd(&self.directory);
        }
        self.signal(Signal::CONT);
        self.signal(Signal::TERM);
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // It mounts its directory upon itself at each start, and one that was killed has left that.
        while unmounted(&self.at("data")) {}
        let removed = std::fs::remove_dir_all(&self.directory);
        if !std::thread::panicking() {
            removed.expect("nothing of it is left");
        }
    }
}

/// Takes a mount away; whether there was one.
fn unmounted(at: &str) -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "a daemon is no part of a sandbox"
    )]
    let mut command = Command::new("umount");
    command.arg(at).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
