//! Columns without anything of ours: an engine that protects itself from nothing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use rustix::process::{Pid, Signal};

use super::Failure;
use super::column::By;
use super::daemon::{self, Daemon};
use super::outside::Outside;
use super::place::Ended;
use super::{ANSWER, PATIENCE};
use crate::hostile::{ENDED, NAIVE_ENGINE, command};
use crate::report::{Report, Told};

/// An engine that protects itself from nothing.
pub(super) struct Naive {
    child: Lone,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Naive {
    pub(super) fn start(by: By, outside: &Outside) -> Result<Self, Failure> {
        let mut ground = outside.ground.clone();
        // In a process namespace of its own there is nobody else.
        ground.everybody = by != By::Nothing;
        if by == By::NaiveDocker {
            ground.readonly = daemon::READONLY.into();
            ground.engine = daemon::HOSTILE.into();
        }
        let told = outside.directory.join("workspace/ground.json");
        ground.write(&told)?;
        let mut start = hostile(by, outside)?;
        start.arg(&told).arg(NAIVE_ENGINE);
        let mut child = start
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = pipes else {
            return Err("it has no pipes".into());
        };
        let (told, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if told.send(line).is_err() {
                    break;
                }
            }
        });
        let mut naive = Self {
            child: Lone(child),
            input,
            lines,
        };
        // One that changes nothing, to see whether the place can be had.
        match naive.attempt("K15") {
            Ended::Told(_) => Ok(naive),
            Ended::Broken(how) => {
                let words = naive.words();
                Err(format!("it cannot be had here: {how}; {words}").into())
            }
        }
    }

    pub(super) fn attempt(&mut self, id: &str) -> Ended {
        if !self.begin(id) {
            return Ended::Broken("the engine no longer reads".into());
        }
        let mut said = None;
        loop {
            // One that has been told of ends at once, unless it is what stopped the engine.
            let patience = if said.is_some() { ANSWER } else { PATIENCE };
            match self.lines.recv_timeout(patience) {
                Ok(line) if line == ENDED => {
                    let nothing = || Told::Blocked("it said nothing".into());
                    return Ended::Told(said.unwrap_or_else(nothing));
                }
                Ok(line) => said = serde_json::from_str(&line).ok().map(|it: Report| it.told),
                Err(RecvTimeoutError::Timeout) => {
                    return Ended::Broken("the engine no longer answers".into());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Ended::Broken("the engine is gone".into());
                }
            }
        }
    }

    /// Has it begin an attempt; whether it reads.
    pub(super) fn begin(&mut self, id: &str) -> bool {
        writeln!(self.input, "{id}").is_ok()
    }

    /// Ends its input, as the end of whoever started it does; what is left of it.
    pub(super) fn hang_up(self) -> Lone {
        self.child
    }

    /// Kills the process that was started, and none else.
    pub(super) fn kill(&mut self) {
        let _ = self.child.0.kill();
        let _ = self.child.0.wait();
    }

    /// What it said last on standard error, once it has ended.
    fn words(&mut self) -> String {
        let _ = self.child.0.kill();
        let mut words = String::new();
        if let Some(mut errors) = self.child.0.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut errors, &mut words);
        }
        words.trim().to_owned()
    }
}

/// A process with a group of its own, all of which ends with this.
pub(super) struct Lone(pub(super) Child);

impl Drop for Lone {
    fn drop(&mut self) {
        kill_group(&mut self.0);
    }
}

/// The hostile program, without its arguments, as it is started in such a column.
fn hostile(by: By, outside: &Outside) -> Result<Command, Failure> {
    let workspace = outside.directory.join("workspace");
    let program = outside.directory.join("hostile/spp-escape");
    let mut start = match by {
        By::NaiveBwrap => {
            let mut start = in_bwrap(&workspace);
            start.arg(program);
            start
        }
        By::NaiveDocker => Daemon::told()?.careless(&workspace),
        _ => command(program),
    };
    start.current_dir(workspace);
    Ok(start)
}

/// One attempt without an engine, as a program would run it that thinks of nobody hostile.
pub(super) fn alone(by: By, id: &str, outside: &Outside) -> Result<Command, Failure> {
    let told = outside.directory.join("workspace/ground.json");
    outside.ground.write(&told)?;
    let mut start = hostile(by, outside)?;
    start
        .arg(told)
        .args(["--one", id])
        .process_group(0)
        .stdin(Stdio::null());
    Ok(start)
}

/// Kills a process that was started in a group of its own, and all of the group.
pub(super) fn kill_group(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// bwrap as root of namespaces that go with it, with what one writes first: everything shown read-only, devices,
/// processes, and the workspace.
fn in_bwrap(workspace: &Path) -> Command {
    let mut start = command("unshare");
    start.args(["--user", "--map-root-user", "--mount", "--net", "--uts"]);
    start.args([
        "bwrap",
        "--unshare-pid",
        "--ro-bind",
        "/",
        "/",
        "--dev-bind",
        "/dev",
        "/dev",
        "--proc",
        "/proc",
        "--bind",
    ]);
    start
        .arg(workspace)
        .arg(workspace)
        .arg("--chdir")
        .arg(workspace);
    start
}
