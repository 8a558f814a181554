//! The container daemon of the columns at `docker`, and the image that their containers are of.
//!
//! The image holds a shell and what one calls from it, the hostile program, and what is to be read-only. It and every
//! container of a careless column are removed when the suite ends.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Failure;
use crate::hostile::command;

/// The variable that says where a daemon is, to the suite and to the processes of its columns.
pub(super) const ADDRESS_VARIABLE: &str = "SPP_TEST_DOCKER";
/// The variable that tells a column's process of the image.
pub(super) const IMAGE_VARIABLE: &str = "SPP_ESCAPE_IMAGE";
/// Where the image has the hostile program.
pub(super) const HOSTILE: &str = "/hostile/spp-escape";
/// Where it has what is to be read-only.
pub(super) const READONLY: &str = "/readonly";
/// What the containers of a careless column are labelled with; its value is the image.
const LABEL: &str = "spp-escape";

/// A daemon with an image.
#[derive(Clone, Debug)]
pub(super) struct Daemon {
    pub(super) address: String,
    pub(super) image: String,
}

/// The image as long as the suite needs it.
pub(super) struct Imported(pub(super) Daemon);

impl Daemon {
    /// What the suite has told this process of a column.
    pub(super) fn told() -> Result<Self, Failure> {
        let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
        Ok(Self {
            address: variable(ADDRESS_VARIABLE)?,
            image: variable(IMAGE_VARIABLE)?,
        })
    }

    /// The group that may ask it.
    pub(super) fn group(&self) -> Option<u32> {
        let socket = self.address.strip_prefix("unix://")?;
        Some(std::fs::metadata(socket).ok()?.gid())
    }

    /// Its command line.
    fn ask(&self) -> Command {
        let mut ask = command("docker");
        ask.arg(format!("--host={}", self.address))
            .stdin(Stdio::null());
        ask
    }

    /// The hostile program in a container as one starts it who thinks of nobody hostile, without its arguments.
    pub(super) fn careless(&self, workspace: &Path) -> Command {
        let mut start = self.ask();
        let at = workspace.display();
        start
            .args(["run", "--rm", "--interactive"])
            .arg(format!("--label={LABEL}={}", self.image))
            .arg(format!("--volume={at}:{at}"))
            .arg(format!("--workdir={at}"))
            .args([&self.image, HOSTILE]);
        start
    }
}

impl Imported {
    /// Makes the image.
    ///
    /// - `hostile`: the hostile program
    /// - `helper`: whose rights its copy with a set-user-id bit gives away
    /// - `scratch`: a directory that is there for a while
    pub(super) fn new(
        hostile: &Path,
        helper: Option<u32>,
        scratch: &Path,
    ) -> Result<Self, Failure> {
        let address = std::env::var(ADDRESS_VARIABLE).map_err(|_| {
            format!("{ADDRESS_VARIABLE} names no container daemon; `cargo xtask escape` run by root brings one up")
        })?;
        let tree = scratch.join("image");
        lay_out(&tree, hostile, helper)?;
        let archive = scratch.join("image.tar");
        succeed(
            command("tar")
                .arg("-C")
                .arg(&tree)
                .arg("-cf")
                .arg(&archive)
                .arg("."),
        )?;
        let daemon = Daemon {
            address,
            image: format!("spp-escape-{}", std::process::id()),
        };
        succeed(daemon.ask().arg("import").arg(&archive).arg(&daemon.image))?;
        Ok(Self(daemon))
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        let mut list = self.0.ask();
        list.args(["ps", "--all", "--quiet"]);
        list.arg(format!("--filter=label={LABEL}={}", self.0.image));
        let left = list.output().map(|it| it.stdout).unwrap_or_default();
        let left = String::from_utf8_lossy(&left).into_owned();
        if !left.trim().is_empty() {
            let _ = succeed(
                self.0
                    .ask()
                    .args(["rm", "--force"])
                    .args(left.split_whitespace()),
            );
        }
        let _ = succeed(self.0.ask().args(["rmi", "--force", &self.0.image]));
    }
}

/// The tree of the image. Whoever runs in a container of it owns nothing there.
fn lay_out(tree: &Path, hostile: &Path, helper: Option<u32>) -> Result<(), Failure> {
    let at = |path: &str| tree.join(path.trim_start_matches('/'));
    for directory in ["/bin", "/etc", "/tmp", "/hostile", READONLY] {
        std::fs::create_dir_all(at(directory))?;
    }
    let busybox = at("/bin/busybox");
    std::fs::copy(found("busybox")?, &busybox)?;
    let names = command(&busybox).arg("--list").output()?.stdout;
    for name in String::from_utf8_lossy(&names).lines() {
        // Its own name is there.
        let _ = symlink("busybox", at("/bin").join(name));
    }
    std::fs::copy(hostile, at(HOSTILE))?;
    std::fs::write(at(READONLY).join("file"), "not to be changed\n")?;
    if let Some(user) = helper {
        let helper = at(READONLY).join("helper");
        std::fs::copy(hostile, &helper)?;
        std::os::unix::fs::chown(&helper, Some(user), Some(user))?;
        // Behind the change of owner, which takes set-id bits away.
        std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o4755))?;
    }
    Ok(())
}

fn found(program: &str) -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
        .ok_or_else(|| format!("there is no {program}; install it (`busybox-static`)").into())
}

fn succeed(start: &mut Command) -> Result<(), Failure> {
    let output = start.output()?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let program = start.get_program().to_string_lossy().into_owned();
    Err(format!("{program}: {}", words.trim()).into())
}
