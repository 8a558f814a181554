//! Judging what outlives what it was started by.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::column::{By, Column, Policy};
use super::location::{Location, by_command_line};
use super::naive::{Lone, Naive};
use super::outside::Outside;
use super::table::Verdict;
use super::{ANSWER, Failure, PATIENCE};
use crate::attempt::Outliving;

/// How long whatever is left may take to end, on a busy machine.
const SOON: Duration = Duration::from_secs(2);

/// Has it made in a column, and says what came of it.
pub(super) async fn judged(
    column: &Column,
    id: &str,
    outliving: Outliving,
    outside: &mut Outside,
) -> Result<Verdict, Failure> {
    let gone = match column.by {
        By::Location(name, policy) => in_location(name, policy, id, outliving, outside).await?,
        by => naive(by, id, outliving, outside)?,
    };
    let Some(killed) = gone else {
        return Ok(Verdict::NotApplicable(
            "there is no such process here".into(),
        ));
    };
    if outliving == Outliving::Lock {
        return Ok(match outside.is_lock_held() {
            true => Verdict::Escaped("somebody still holds the lock".into()),
            false => Verdict::Blocked("the lock is free".into()),
        });
    }
    while outside.somebody_lives() {
        if killed.elapsed() > SOON {
            return Ok(Verdict::Escaped(format!(
                "it lives, {} s later",
                SOON.as_secs()
            )));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(Verdict::Blocked(format!(
        "dead within {} ms",
        killed.elapsed().as_millis()
    )))
}

/// Kills what is to be outlived while the command is under way; when, if there is such a thing.
async fn in_location(
    name: &str,
    policy: Policy,
    id: &str,
    outliving: Outliving,
    outside: &Outside,
) -> Result<Option<Instant>, Failure> {
    if outliving == Outliving::Host {
        let mut start = by_command_line(name, policy, id, outside)?;
        start
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child =
            Lone(std::os::unix::process::CommandExt::process_group(&mut start, 0).spawn()?);
        lives(outside).await?;
        child.0.kill()?;
        return Ok(Some(Instant::now()));
    }
    let location = Location::open(name, policy, "", outside).await?;
    let call = location.alone(id, PATIENCE * 2);
    let end = async {
        lives(outside).await?;
        let wanted = match outliving {
            Outliving::Monitor => "bwrap",
            _ => "spp-provider-",
        };
        let Some(pid) = descendant(wanted) else {
            return Ok(None);
        };
        kill_process(pid, Signal::KILL)?;
        Ok::<_, Failure>(Some(Instant::now()))
    };
    let mut call = std::pin::pin!(call);
    let mut end = std::pin::pin!(end);
    let killed = tokio::select! {
        killed = &mut end => killed?,
        outcome = &mut call => return Err(format!("the command ended before anything was killed: {outcome:?}").into()),
    };
    if killed.is_some() {
        // Whoever waits for the command is told.
        let told = tokio::time::timeout(ANSWER, call).await;
        if told.is_err() {
            return Err("the call is still waiting for what was killed".into());
        }
    }
    location.host.kill().await;
    Ok(killed)
}

fn naive(
    by: By,
    id: &str,
    outliving: Outliving,
    outside: &Outside,
) -> Result<Option<Instant>, Failure> {
    let has_monitor = by == By::NaiveBwrap;
    if outliving == Outliving::Monitor && !has_monitor {
        return Ok(None);
    }
    let mut naive = Naive::start(by, outside)?;
    if !naive.begin(id) {
        return Err("the engine no longer reads".into());
    }
    let started = Instant::now();
    while !outside.somebody_lives() {
        if started.elapsed() > PATIENCE {
            return Err("nothing was left alive".into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    if outliving == Outliving::Host {
        // What is left of it goes when this process does, or when it is told to.
        std::mem::forget(naive.hang_up());
    } else {
        naive.kill();
        std::mem::forget(naive);
    }
    Ok(Some(Instant::now()))
}

/// Waits until what is to outlive is alive.
async fn lives(outside: &Outside) -> Result<(), Failure> {
    let started = Instant::now();
    while !outside.somebody_lives() {
        if started.elapsed() > PATIENCE {
            return Err("nothing came to life".into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// The nearest process of a name that this one has started, itself or by others.
fn descendant(name: &str) -> Option<Pid> {
    let mut family = vec![std::process::id()];
    let mut at = 0;
    while let Some(&pid) = family.get(at) {
        at += 1;
        let named = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        if at > 1 && named.is_ok_and(|it| it.starts_with(name)) {
            return Pid::from_raw(pid.cast_signed());
        }
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten();
        for task in tasks {
            let children =
                std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            family.extend(
                children
                    .split_whitespace()
                    .filter_map(|it| it.parse::<u32>().ok()),
            );
        }
    }
    None
}
