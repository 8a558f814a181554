//! Judging what uses things up: whether it is bounded, and whether a sandbox beside it stays well.
//!
//! A control is what one writes who thinks of nobody hostile: start it, read what it says, wait for its end.

use std::io::Read as _;
use std::pin::pin;
use std::process::{ChildStdout, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_core::process::Status;

use super::column::{By, Column};
use super::location::{Location, Neighbour};
use super::naive::{Lone, Naive, alone};
use super::outside::Outside;
use super::place::Ended;
use super::table::Verdict;
use super::{ANSWER, Failure};
use crate::attempt::Abuse;
use crate::attempt::abuse::PLANTED;
use crate::report::Told;

/// The most of a stream that anybody should keep.
const KEPT: usize = 4 << 20;
/// How long somebody is given who is to end at once.
const AT_ONCE: Duration = Duration::from_millis(700);
/// How long somebody is given who writes without an end.
const WHILE: Duration = Duration::from_secs(2);

/// Has it made in a column, and says what came of it.
pub(super) async fn judged(
    column: &Column,
    id: &str,
    abuse: Abuse,
    outside: &Outside,
) -> Result<Verdict, Failure> {
    match column.by {
        By::Location(name, policy) => {
            let limits = match abuse {
                Abuse::Limit(limits) => limits,
                _ => "",
            };
            let location = match Location::open(name, policy, limits, outside).await {
                Ok(location) => location,
                Err(refused) => return Ok(Verdict::NotApplicable(refused.to_string())),
            };
            let verdict = in_location(&location, id, abuse, outside).await;
            location.host.kill().await;
            verdict
        }
        by => naive(by, id, abuse, outside),
    }
}

async fn in_location(
    location: &Location,
    id: &str,
    abuse: Abuse,
    outside: &Outside,
) -> Result<Verdict, Failure> {
    let neighbour = location.neighbour(outside).await?;
    let (verdict, well) = beside(&neighbour, strained(location, id, abuse, outside)).await;
    if !well {
        return Ok(Verdict::Escaped(
            "a sandbox beside it no longer answered".into(),
        ));
    }
    if !location.answers().await {
        return Ok(Verdict::Escaped("the engine no longer answers".into()));
    }
    Ok(verdict)
}

/// Does something, and asks a neighbour again and again meanwhile, and once more behind it.
async fn beside<T>(neighbour: &Neighbour, work: impl Future<Output = T>) -> (T, bool) {
    let mut work = pin!(work);
    let mut well = true;
    loop {
        tokio::select! {
            done = &mut work => return (done, well && neighbour.answers().await),
            answered = neighbour.answers() => well &= answered,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn strained(location: &Location, id: &str, abuse: Abuse, outside: &Outside) -> Verdict {
    let started = Instant::now();
    let timeout = match abuse {
        Abuse::Stubborn => AT_ONCE,
        Abuse::EndlessOutput => WHILE,
        _ => super::PATIENCE * 2,
    };
    match abuse {
        Abuse::Limit(_) | Abuse::Zombies => return told(location.attempt(id).await),
        Abuse::Unreadable => return planted(location, id).await,
        _ => {}
    }
    let outcome = match location.alone(id, timeout).await {
        Ok(outcome) => outcome,
        Err(error) => return Verdict::Escaped(error.to_string()),
    };
    let (took, status) = (started.elapsed(), outcome.exit.status);
    let kept = outcome.stdout.head.len() + outcome.stdout.tail.len();
    let how = format!(
        "{status:?} after {} ms, {kept} bytes kept",
        took.as_millis()
    );
    let wanted = match abuse {
        Abuse::Stubborn | Abuse::EndlessOutput => Status::TimedOut,
        _ => Status::Exited(0),
    };
    let alive = abuse == Abuse::Daemon && outside.somebody_lives();
    let slow = abuse != Abuse::Output && took > timeout.min(WHILE) + ANSWER / 2;
    if alive {
        Verdict::Escaped("it lived on when the command was told to have ended".into())
    } else if status != wanted || kept > KEPT || slow {
        Verdict::Escaped(how)
    } else {
        Verdict::Blocked(how)
    }
}

/// What the one who made it told.
fn told(ended: Ended) -> Verdict {
    match ended {
        Ended::Told(Told::Succeeded(had)) => Verdict::Escaped(had),
        Ended::Told(Told::Blocked(how)) => Verdict::Blocked(how),
        Ended::Told(Told::NotApplicable(why)) => Verdict::NotApplicable(why),
        Ended::Broken(how) => Verdict::Escaped(how),
    }
}

/// Reads each thing that was planted.
async fn planted(location: &Location, id: &str) -> Verdict {
    match location.attempt(id).await {
        Ended::Told(Told::Succeeded(_)) => {}
        other => return told(other),
    }
    let mut refused = Vec::new();
    for name in PLANTED {
        let started = Instant::now();
        let read = location.read(name).await;
        if started.elapsed() > ANSWER / 2 {
            return Verdict::Escaped(format!("reading {name} took {:?}", started.elapsed()));
        }
        match read {
            Ok(bytes) if bytes > KEPT => {
                return Verdict::Escaped(format!("{name} gave {bytes} bytes"));
            }
            Ok(bytes) => refused.push(format!("{name}: {bytes} bytes")),
            Err(error) => refused.push(format!("{name}: {:?}", error.kind())),
        }
    }
    Verdict::Blocked(refused.join(", "))
}

fn naive(by: By, id: &str, abuse: Abuse, outside: &Outside) -> Result<Verdict, Failure> {
    match abuse {
        Abuse::Limit(_) | Abuse::Zombies => {
            return Ok(told(Naive::start(by, outside)?.attempt(id)));
        }
        Abuse::Unreadable => {
            if !matches!(
                Naive::start(by, outside)?.attempt(id),
                Ended::Told(Told::Succeeded(_))
            ) {
                return Ok(Verdict::NotApplicable("nothing could be planted".into()));
            }
            return Ok(read_naively(outside));
        }
        _ => {}
    }
    let mut command = alone(by, id, outside)?;
    let reads = !matches!(abuse, Abuse::Stubborn | Abuse::Daemon);
    let output = if reads { Stdio::piped() } else { Stdio::null() };
    let mut child = Lone(command.stdout(output).stderr(Stdio::null()).spawn()?);
    Ok(match abuse {
        Abuse::Stubborn => asked_to_end(&mut child)?,
        Abuse::Daemon => {
            child.0.wait()?;
            match outside.somebody_lives() {
                true => Verdict::Escaped("it lived on when the command had ended".into()),
                false => Verdict::Blocked("it ended with the command".into()),
            }
        }
        _ => {
            let output = child.0.stdout.take().ok_or("it has no output")?;
            read_to_its_end(&mut child, output)?
        }
    })
}

/// Asks it politely, as one does after a while.
fn asked_to_end(child: &mut Lone) -> Result<Verdict, Failure> {
    std::thread::sleep(AT_ONCE);
    let pid = Pid::from_raw(child.0.id().cast_signed()).ok_or("it has no number")?;
    kill_process(pid, Signal::TERM)?;
    std::thread::sleep(WHILE);
    Ok(match child.0.try_wait()? {
        None => Verdict::Escaped("it ran on after it was asked to end".into()),
        Some(status) => Verdict::Blocked(format!("it ended: {status}")),
    })
}

/// Keeps what it says up to the end of its output, or up to what shows enough.
fn read_to_its_end(child: &mut Lone, mut output: ChildStdout) -> Result<Verdict, Failure> {
    let (said, heard) = channel();
    std::thread::spawn(move || {
        let mut piece = vec![0; 1 << 16];
        while let Ok(count) = output.read(&mut piece) {
            if count == 0 || said.send(count).is_err() {
                break;
            }
        }
    });
    let started = Instant::now();
    let mut kept = 0;
    loop {
        match heard.recv_timeout(WHILE) {
            Ok(count) => kept += count,
            Err(RecvTimeoutError::Disconnected) => {
                let how = format!("{kept} bytes in {} ms", started.elapsed().as_millis());
                return Ok(Verdict::Blocked(how));
            }
            Err(RecvTimeoutError::Timeout) => {
                return Ok(match child.0.try_wait()? {
                    Some(_) => {
                        Verdict::Escaped("the output had no end though the command had".into())
                    }
                    None => Verdict::NotApplicable("it says nothing".into()),
                });
            }
        }
        if kept > KEPT {
            return Ok(Verdict::Escaped(format!(
                "{kept} bytes were kept, and more came"
            )));
        }
    }
}

/// Reads the FIFO as one reads a file.
fn read_naively(outside: &Outside) -> Verdict {
    let fifo = outside.directory.join("workspace").join(PLANTED[0]);
    let (done, read) = channel();
    let path = fifo.clone();
    std::thread::spawn(move || done.send(std::fs::read(path).map(drop)));
    let verdict = match read.recv_timeout(WHILE) {
        Ok(_) => Verdict::Blocked("it was read".into()),
        Err(_) => Verdict::Escaped("reading it did not end".into()),
    };
    // Whoever waits for a writer has had one then.
    let _ = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(fifo);
    verdict
}
