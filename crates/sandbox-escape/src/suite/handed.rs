//! A control group that is handed over to the user of a column, so that limits of whole sandboxes can be had there.
//!
//! Root gives one to a user as a machine's service manager does: a directory in each hierarchy that is the user's,
//! and in it the one that the column's process is put into before it is that user's. In version 2 the outer one hands controllers
//! on, and has no processes.

use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox_cgroup::{Controller, Hierarchies, Hierarchy, Version};

use crate::hostile::command;

/// How their names begin. What follows is the number of who made them.
const PREFIX: &str = "spp-escape-";
/// What of a directory in a hierarchy belongs to whoever it is handed over to, as far as its version has it.
const FILES: [&str; 4] = [
    "cgroup.procs",
    "tasks",
    "cgroup.threads",
    "cgroup.subtree_control",
];
/// Becomes the command behind `--`, in the groups before it.
const ENTER: &str = "while [ \"$1\" != -- ]; do echo $$ >\"$1/cgroup.procs\" || exit 70; shift; done; shift; exec \"$@\"";

/// Groups of one user, as far as they could be made. They are removed with this.
pub(super) struct Handed(Vec<PathBuf>);

impl Handed {
    /// Makes them, beneath those of this process.
    ///
    /// - `column`: what they are for
    pub(super) fn over_to(user: u32, column: &str) -> Self {
        let name = format!("{PREFIX}{}-{column}", std::process::id());
        let mut handed = Self(Vec::new());
        let Ok(hierarchies) = Hierarchies::of_this_process() else {
            return handed;
        };
        for controller in Controller::ALL {
            let Some(hierarchy) = hierarchies.of(controller) else {
                continue;
            };
            let Some(base) = hierarchy.base.as_deref() else {
                continue;
            };
            remove_stale(base);
            let directory = base.join(&name);
            let _ = hand_on(base, hierarchy, controller);
            if !handed.0.contains(&directory) && std::fs::create_dir(&directory).is_ok() {
                handed.0.push(directory.clone());
                let _ = give(&directory, user)
                    .and_then(|()| std::fs::create_dir(inner(&directory)))
                    .and_then(|()| give(&inner(&directory), user));
            }
            let _ = hand_on(&directory, hierarchy, controller);
        }
        handed
    }

    /// The same command, started in the groups.
    pub(super) fn start(&self, of: &Command) -> Command {
        let mut start = command("sh");
        start.args(["-c", ENTER, "sh"]);
        let entered = self.0.iter().map(|directory| inner(directory));
        start.args(entered.filter(|it| it.is_dir())).arg("--");
        start.arg(of.get_program()).args(of.get_args());
        start
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        for directory in &self.0 {
            remove(directory);
        }
    }
}

/// The group that the processes are in.
fn inner(directory: &Path) -> PathBuf {
    directory.join("column")
}

fn give(directory: &Path, user: u32) -> std::io::Result<()> {
    let own = |path: &Path| std::os::unix::fs::chown(path, Some(user), Some(user));
    own(directory)?;
    let there = FILES.iter().map(|name| directory.join(name));
    there
        .filter(|file| file.exists())
        .try_for_each(|file| own(&file))
}

/// In version 2 a group has the controllers that the one above hands on.
fn hand_on(directory: &Path, hierarchy: &Hierarchy, controller: Controller) -> std::io::Result<()> {
    match hierarchy.version {
        Version::One => Ok(()),
        Version::Two => {
            let file = directory.join("cgroup.subtree_control");
            std::fs::write(file, format!("+{}", controller.name()))
        }
    }
}

/// Removes what was left by a suite that is no more.
fn remove_stale(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|it| it.strip_prefix(PREFIX)?.split('-').next());
        if number.is_some_and(|number| !Path::new("/proc").join(number).exists()) {
            remove(&entry.path());
        }
    }
}

/// Removes a group and those beneath it, which have nobody in them any more.
fn remove(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|it| it.is_dir()) {
            remove(&entry.path());
        }
    }
    // What ends this moment is gone the next.
    for _ in 0..100 {
        match std::fs::remove_dir(directory) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            _ => break,
        }
    }
}
