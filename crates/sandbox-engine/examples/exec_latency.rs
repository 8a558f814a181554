//! How much a supervised `exec` of `/bin/true` costs over spawning and waiting for it, and how much more one
//! under a guard costs.
//!
//! They are done in turn, so that a busy machine slows all. Run it with `--release`; given a number, only
//! that one of the three is done, for whoever counts its system calls.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_core::Ctx;
use sandbox_core::process::{ExecRequest, ProcessSpec};
use sandbox_engine::process::environment::Environment;
use sandbox_engine::process::{Processes, Settings};
use sandbox_engine::supervisor::{Confinement, Pool, PoolOptions};
use sandbox_guard::{Guard, GuardSpec, Neighbours, NetworkUse, Writes};

const ROUNDS: usize = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec = GuardSpec {
        writes: Writes::Contained,
        network: NetworkUse::Denied,
        neighbours: Neighbours::Shared,
    };
    let guard = Guard::prepare(spec, &[File::open("/tmp")?.as_fd()])?;
    let settings = || Settings::new(Environment::default());
    let plain = Processes::new(Pool::new(PoolOptions::default())?, settings());
    let confinement = Confinement {
        guard: Some(Arc::new(guard)),
        ..Confinement::default()
    };
    let pool = Pool::confined(PoolOptions::default(), confinement)?;
    let guarded = Processes::new(pool, settings());
    let only = std::env::args().nth(1);
    let wanted = |number: &str| only.as_deref().is_none_or(|only| only == number);
    let mut times = [const { Vec::new() }; 3];
    let [of_plain, of_guarded, of_bare] = &mut times;
    for _ in 0..ROUNDS {
        if wanted("0") {
            of_plain.push(supervised(&plain).await?);
        }
        if wanted("1") {
            of_guarded.push(supervised(&guarded).await?);
        }
        if wanted("2") {
            let begun = Instant::now();
            bare().await?;
            of_bare.push(begun.elapsed());
        }
    }
    let mut out = std::io::stdout().lock();
    for (name, times) in ["supervised", "guarded", "tokio"].iter().zip(&mut times) {
        times.sort_unstable();
        let at = |hundredth: usize| {
            times
                .get(times.len() * hundredth / 100)
                .copied()
                .unwrap_or_default()
        };
        writeln!(out, "{name}: p50 {:?}, p95 {:?}", at(50), at(95))?;
    }
    Ok(())
}

async fn supervised(processes: &Processes) -> Result<Duration, Box<dyn std::error::Error>> {
    let begun = Instant::now();
    let spec = ProcessSpec::new(["/bin/true"]).timeout(Duration::from_secs(60));
    let execution = processes.exec(
        &Ctx::new(),
        ExecRequest::new(spec),
        OwnedFd::from(File::open("/")?),
    )?;
    execution.outcome.await?;
    Ok(begun.elapsed())
}

/// Spawns and waits, as a program without a sandbox would.
async fn bare() -> std::io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is what the sandbox is compared with"
    )]
    let mut command = tokio::process::Command::new("/bin/true");
    command
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .map(drop)
}
