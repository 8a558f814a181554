//! The program itself, which makes the same container do the same things.

use std::path::Path;
use std::process::Stdio;

use super::IMAGE;
use super::{Place, Result};
use crate::harness::time;
use crate::tree::command;

/// The program that makes the same container do things.
pub(super) struct Peer {
    daemon: String,
    container: String,
}

impl Peer {
    /// - `place`: whose container it is, the only one of this process
    pub(super) async fn of(daemon: String, place: &Place) -> Result<Self> {
        let id = &place.sandbox.descriptor().id;
        let filter = format!("--filter=label=spp.sandbox={id}");
        let mut list = docker(&daemon);
        list.args(["ps", "--quiet", &filter]).stdout(Stdio::piped());
        let listed = list.output().await?;
        let container = String::from_utf8(listed.stdout)?.trim().to_owned();
        if container.is_empty() {
            return Err("the container was not found".into());
        }
        Ok(Self { daemon, container })
    }

    pub(super) async fn exec(&self, argv: &[&str]) -> Result<std::time::Duration> {
        self.timed(&[&["exec", &self.container], argv].concat())
            .await
    }

    pub(super) async fn run(&self) -> Result<std::time::Duration> {
        self.timed(&["run", "--rm", "--network=none", IMAGE, "/bin/true"])
            .await
    }

    /// Runs a shell script on this machine, with `$0` the container and `$1`, ... these. `dx` in it is `docker exec -i`.
    pub(super) async fn piped(
        &self,
        script: &str,
        arguments: &[&Path],
    ) -> Result<std::time::Duration> {
        let mut shell = command("sh");
        let exec = format!(
            r#"dx() {{ docker --host="{}" exec -i "$@"; }}; {script}"#,
            self.daemon
        );
        shell
            .args(["-c", &exec, &self.container])
            .args(arguments)
            .stdin(Stdio::null());
        let (taken, status) = time(async { shell.status().await }).await;
        if !status?.success() {
            return Err(format!("{script} failed").into());
        }
        Ok(taken)
    }

    async fn timed(&self, arguments: &[&str]) -> Result<std::time::Duration> {
        let mut run = docker(&self.daemon);
        run.args(arguments);
        let (taken, output) = time(async { run.output().await }).await;
        if !output?.status.success() {
            return Err(format!("docker {arguments:?} failed").into());
        }
        Ok(taken)
    }
}

fn docker(daemon: &str) -> tokio::process::Command {
    let mut docker = command("docker");
    docker
        .arg(format!("--host={daemon}"))
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    docker
}
