//! How much a supervised `exec` of `/bin/true` costs over spawning and waiting for it.
//!
//! Both are done in turn, so that a busy machine slows both. Run it with `--release`.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use sandbox_core::Ctx;
use sandbox_core::process::{ExecRequest, ProcessSpec};
use sandbox_engine::process::environment::Environment;
use sandbox_engine::process::{Processes, Settings};
use sandbox_engine::supervisor::{Pool, PoolOptions};

const ROUNDS: usize = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(PoolOptions::default())?;
    let processes = Processes::new(pool, Settings::new(Environment::default()));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let spec = ProcessSpec::new(["/bin/true"]).timeout(Duration::from_secs(60));
        let execution = processes.exec(
            &Ctx::new(),
            ExecRequest::new(spec),
            OwnedFd::from(File::open("/")?),
        )?;
        execution.outcome.await?;
        ours.push(begun.elapsed());

        let begun = Instant::now();
        bare().await?;
        theirs.push(begun.elapsed());
    }
    let mut out = std::io::stdout().lock();
    for (name, times) in [("supervised", &mut ours), ("tokio", &mut theirs)] {
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
