//! What has to be there before a column is started, and may need root: directories of its user, copies of the
//! executables, a program with a set-user-id bit.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::column::{Column, Role, Starter};
use super::daemon::{ADDRESS_VARIABLE, Daemon, IMAGE_VARIABLE, Imported};
use super::handed::Handed;
use super::{Failure, is_root, user_of};
use crate::ground::SECRET;

/// A user that no system gives a name to.
pub(super) const ORDINARY: u32 = 42_430;
/// Another one, whose rights the helper gives away.
const HELPER: u32 = 42_431;

/// The variable by which a column's process knows the secret; what it starts must not.
pub(super) const SECRET_VARIABLE: &str = "SPP_ESCAPE_TOKEN";
/// The variable that tells it where its directory is.
pub(super) const DIRECTORY_VARIABLE: &str = "SPP_ESCAPE_DIRECTORY";

/// The hostile program.
const HOSTILE: &str = "spp-escape";
/// What a column runs beside it.
const EXECUTABLES: [&str; 6] = [
    "spp",
    "spp-engine",
    "spp-escape-suite",
    "spp-provider-bubblewrap",
    "spp-provider-docker",
    "spp-provider-local",
];

/// What all columns have in common.
pub(super) struct Prepared {
    scratch: TempDir,
    /// Where the executables were built.
    built: PathBuf,
    /// What some columns need, or why it is not there.
    daemon: Result<Imported, String>,
}

impl Prepared {
    /// Finds the executables, and makes a directory that everybody can enter.
    pub(super) fn new() -> Result<Self, Failure> {
        let own = std::env::current_exe()?;
        let built = own
            .parent()
            .ok_or("this program is in no directory")?
            .to_owned();
        for name in EXECUTABLES.into_iter().chain([HOSTILE]) {
            if !built.join(name).is_file() {
                let text =
                    format!("{name} is not beside this program; `cargo xtask escape` builds it");
                return Err(text.into());
            }
        }
        let scratch = tempfile::Builder::new().prefix("spp-escape-").tempdir()?;
        set_mode(scratch.path(), 0o755)?;
        let helper = is_root().then_some(HELPER);
        let daemon = Imported::new(&built.join(HOSTILE), helper, scratch.path());
        Ok(Self {
            scratch,
            built,
            daemon: daemon.map_err(|failure| failure.to_string()),
        })
    }

    /// The process of a column, as its user and in a directory of its own.
    ///
    /// The groups that it is in, if it has any, go with the second value.
    pub(super) fn column(&self, column: &Column) -> Result<(Command, Option<Handed>), Failure> {
        if column.starter == Starter::Root && !is_root() {
            return Err("only root can start it; run the suite as root to have it".into());
        }
        let daemon = match (&self.daemon, column.needs_daemon()) {
            (_, false) => None,
            (Ok(imported), true) => Some(&imported.0),
            (Err(reason), true) => return Err(reason.clone().into()),
        };
        let user = user_of(column.starter);
        let directory = self.scratch.path().canonicalize()?.join(column.name);
        for name in ["", "workspace", "neighbour", "readonly", "hostile", "bin"] {
            let path = directory.join(name);
            std::fs::create_dir(&path)?;
            own(&path, user)?;
        }
        set_mode(&directory, 0o700)?;
        if daemon.is_some() && column.role == Role::Guarded {
            // What is in a container is theirs.
            for name in ["workspace", "neighbour"] {
                own(&directory.join(name), is_root().then_some(ORDINARY))?;
            }
        }
        std::fs::write(directory.join("readonly/file"), "not to be changed\n")?;
        own(&directory.join("readonly/file"), user)?;
        for name in EXECUTABLES {
            self.show(name, &directory.join("bin"))?;
        }
        self.copy(&directory.join("hostile/spp-escape"), user, 0o755)?;
        if is_root() {
            self.copy(&directory.join("readonly/helper"), Some(HELPER), 0o4755)?;
        }
        let suite = directory.join("bin/spp-escape-suite");
        let (mut command, handed) = match user {
            None => (crate::hostile::command(suite), None),
            Some(user) => {
                let mut command = crate::hostile::command("setpriv");
                command
                    .args([format!("--reuid={user}"), format!("--regid={user}")])
                    .arg(match daemon.and_then(Daemon::group) {
                        Some(group) => format!("--groups={group}"),
                        None => "--clear-groups".to_owned(),
                    })
                    .arg(suite);
                let handed = Handed::over_to(user, column.name);
                (handed.start(&command), Some(handed))
            }
        };
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", &directory)
            .env(SECRET_VARIABLE, format!("{SECRET}{}", random()?))
            .env(DIRECTORY_VARIABLE, &directory)
            .current_dir(&directory);
        if let Some(daemon) = daemon {
            command
                .env(ADDRESS_VARIABLE, &daemon.address)
                .env(IMAGE_VARIABLE, &daemon.image);
        }
        Ok((command, handed))
    }

    /// Puts an executable where a column's user finds it. It stays whose it is.
    fn show(&self, name: &str, to: &Path) -> std::io::Result<()> {
        let (from, to) = (self.built.join(name), to.join(name));
        std::fs::hard_link(&from, &to).or_else(|_| std::fs::copy(&from, &to).map(drop))
    }

    /// Copies the hostile program, for a user.
    fn copy(&self, to: &Path, user: Option<u32>, mode: u32) -> std::io::Result<()> {
        std::fs::copy(self.built.join(HOSTILE), to)?;
        own(to, user)?;
        // Behind the change of owner, which takes set-id bits away.
        set_mode(to, mode)
    }
}

fn own(path: &Path, user: Option<u32>) -> std::io::Result<()> {
    match user {
        Some(user) => std::os::unix::fs::chown(path, Some(user), Some(user)),
        None => Ok(()),
    }
}

fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Something that nobody guesses, as hexadecimal digits.
fn random() -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random bytes: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
