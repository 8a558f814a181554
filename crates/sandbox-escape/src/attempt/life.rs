//! Processes that are to outlive what they were started by.
//!
//! One that lives holds a lock on a file of the workspace, which is seen from outside of every namespace. It
//! ends by itself: when a file says so, or after a while.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Outliving, Tried, attempts};
use crate::call::{copy, wait};
use crate::ground::Ground;

/// The file in the workspace that is locked by what lives.
pub const ALIVE: &str = "alive";
/// The file in the workspace that ends it.
pub const STOP: &str = "stop";
/// How long it lives at most.
const LIFE: Duration = Duration::from_secs(40);

attempts! {
    "L01" Outliving(Outliving::Provider) "outlive the provider, which is killed" "daemons" stay;
    "L02" Outliving(Outliving::Host) "outlive the host, which is killed" "daemons" stay;
    "L03" Outliving(Outliving::Monitor) "outlive what made the namespaces, which is killed" "bubblewrap without --die-with-parent" stay;
    "L05" Outliving(Outliving::Lock) "hold a lock of the outside after its holder was killed" "inherited descriptors" stay;
}

/// Leaves a process that nothing here is the parent of, and in no session of ours.
pub(super) fn leave_daemon() -> std::io::Result<()> {
    let file = File::options().write(true).open(ALIVE)?;
    let between = copy(|| {
        let _ = rustix::process::setsid();
        let _ = copy(|| {
            if file.lock().is_ok() {
                live();
            }
        });
    })?;
    wait(between);
    // Until the other one has the lock, which is the file's as it opened it.
    let started = Instant::now();
    let asked = File::options().write(true).open(ALIVE)?;
    while asked.try_lock().is_ok() && started.elapsed() < Duration::from_secs(5) {
        asked.unlock()?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Lives until it is told to end.
pub(super) fn live() {
    let started = Instant::now();
    while started.elapsed() < LIFE && !Path::new(STOP).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The command is under way when what runs it is killed.
fn stay(_: &Ground) -> Tried {
    leave_daemon()?;
    live();
    Ok("it lived".into())
}
