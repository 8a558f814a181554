//! Podman in place of docker: the same command line, and no daemon behind it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::support::{IMAGE, Scratch, docker, end, is_root, sh};

/// Podman with images and containers of its own, beside those of this machine.
struct Podman {
    directory: tempfile::TempDir,
}

impl Podman {
    fn new() -> Self {
        let podman = Self {
            directory: tempfile::tempdir().expect("a directory"),
        };
        let at = |name: &str| podman.at(name).display().to_string();
        let storage = format!(
            "[storage]\ndriver = \"vfs\"\nrunroot = \"{}\"\ngraphroot = \"{}\"\n",
            at("run"),
            at("graph")
        );
        std::fs::write(at("storage.conf"), storage).expect("a file");
        // What it takes for its usual choices a machine without systemd need not have.
        let engine = "[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n";
        std::fs::write(at("containers.conf"), engine).expect("a file");
        let archive = at("image.tar");
        docker(&["save", &format!("--output={archive}"), IMAGE]);
        podman.ask(&["load", "--quiet", "--input", &archive]);
        podman
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What tells it where everything is.
    fn variables(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("CONTAINERS_STORAGE_CONF", self.at("storage.conf")),
            ("CONTAINERS_CONF", self.at("containers.conf")),
            ("XDG_RUNTIME_DIR", self.at("")),
        ]
    }

    fn ask(&self, arguments: &[&str]) -> String {
        #[expect(
            clippy::disallowed_methods,
            reason = "what is left is looked at from outside"
        )]
        let mut command = Command::new("podman");
        command
            .args(arguments)
            .envs(self.variables())
            .stdin(Stdio::null());
        let output = command.output().expect("podman is installed");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        // It may have mounted something there.
        self.ask(&["system", "reset", "--force"]);
    }
}

/// Options that let it start at all where even root may not raise what a process may open.
fn options() -> String {
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = limits.maximum.unwrap_or(1024).min(20_000);
    format!(
        "program = 'podman'\nimage = '{IMAGE}'\nargs = ['--ulimit=nofile={most}:{most}', '--ulimit=nproc=4096:4096']\n"
    )
}

#[tokio::test]
async fn a_sandbox_is_had_of_podman_and_nothing_of_it_stays() {
    // Without root it needs ranges of users of its own, which a machine may not give.
    if !is_root() {
        return;
    }
    let podman = Podman::new();
    for channel in ["socket", "attached"] {
        let scratch = Scratch::new();
        let variables = podman.variables();
        let variables: Vec<(&str, &Path)> = variables
            .iter()
            .map(|(name, path)| (*name, path.as_path()))
            .collect();
        let options = format!("{}channel = '{channel}'\n", options());
        let host = scratch.host_with(&variables, &options);
        let opened = scratch.open(&host).await;
        let sandbox = &*opened.sandbox;
        let owner = scratch.owner();
        assert_eq!(sh(sandbox, "id -u").await, format!("{owner}\n"));
        let script = "echo there > made && echo x > /tmp/x && echo x > ~/x && cat made";
        assert_eq!(sh(sandbox, script).await, "there\n");
        assert_eq!(sh(sandbox, "ls /sys/class/net").await, "lo\n");
        let made = std::fs::metadata(scratch.workspace().join("made")).expect("it is here");
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), owner);
        assert_eq!(podman.ask(&["ps", "--all", "--quiet"]).lines().count(), 1);
        end(opened, &host).await;
        assert_eq!(podman.ask(&["ps", "--all", "--quiet"]), "", "{channel}");
    }
}
