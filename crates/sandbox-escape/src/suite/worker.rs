//! One column from its beginning to its end, in a process of its own and as its user.

use std::io::Write as _;
use std::path::PathBuf;

use super::Failure;
use super::column::{Column, Role};
use super::outside::Outside;
use super::place::{Ended, Place};
use super::prepare::{DIRECTORY_VARIABLE, SECRET_VARIABLE};
use super::table::{Heard, Verdict};
use super::{life, strain};
use crate::attempt::{Attempt, Judge};
use crate::report::Told;

/// Makes the attempts, and prints what is to be heard of each.
///
/// # Errors
///
/// What kept the outside from being prepared. A place that cannot be had is told and is none.
pub(super) fn run(column: &Column, attempts: &[&Attempt]) -> Result<(), Failure> {
    let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let directory = PathBuf::from(variable(DIRECTORY_VARIABLE)?);
    let mut outside = Outside::new(&directory, &variable(SECRET_VARIABLE)?)?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(all(column, attempts, &mut outside))
}

async fn all(column: &Column, attempts: &[&Attempt], outside: &mut Outside) -> Result<(), Failure> {
    let mut open = None;
    for attempt in attempts {
        outside.restore()?;
        if let Some(verdict) = apart(column, attempt, outside).await {
            // It found its workspace changed.
            if let Some(place) = open.take() {
                Place::close(place).await;
            }
            tell(&Heard::Verdict {
                id: attempt.id.to_owned(),
                verdict,
            });
            continue;
        }
        let mut place = match open.take() {
            Some(place) => place,
            None => match Place::open(column.by, outside).await {
                Ok(place) => place,
                Err(reason) => {
                    let reason = reason.to_string();
                    tell(&match column.role {
                        Role::Control => Heard::LeftOut(reason),
                        // A location that cannot be had holds nothing.
                        Role::Guarded => Heard::Failed(reason),
                    });
                    return Ok(());
                }
            },
        };
        let ended = place.attempt(attempt.id).await;
        let broken = match &ended {
            Ended::Broken(how) => Some(how.clone()),
            Ended::Told(_) if !place.answers().await => Some("the engine no longer answers".into()),
            Ended::Told(_) => None,
        };
        let verdict = judged(attempt, &ended, broken.as_deref(), outside);
        // Whoever was killed outside has another number now.
        let renew = broken.is_some() || outside.is_bystander_gone();
        if renew {
            place.close().await;
        } else {
            open = Some(place);
        }
        tell(&Heard::Verdict {
            id: attempt.id.to_owned(),
            verdict,
        });
    }
    if let Some(place) = open {
        place.close().await;
    }
    Ok(())
}

/// What came of an attempt that is made in places of its own, or nothing if it is none of these.
async fn apart(column: &Column, attempt: &Attempt, outside: &mut Outside) -> Option<Verdict> {
    let judged = match attempt.judge {
        Judge::Abuse(abuse) => strain::judged(column, attempt.id, abuse, outside).await,
        Judge::Outliving(outliving) => life::judged(column, attempt.id, outliving, outside).await,
        _ => return None,
    };
    Some(judged.unwrap_or_else(|failure| match column.role {
        // What could not be tried shows nothing, and what could not be judged was not held.
        Role::Control => Verdict::NotApplicable(failure.to_string()),
        Role::Guarded => Verdict::Escaped(format!("it could not be judged: {failure}")),
    }))
}

fn judged(
    attempt: &Attempt,
    ended: &Ended,
    broken: Option<&str>,
    outside: &mut Outside,
) -> Verdict {
    if let Some(how) = broken {
        return Verdict::Escaped(how.to_owned());
    }
    let told = match ended {
        Ended::Told(told) => told,
        Ended::Broken(how) => return Verdict::Escaped(how.clone()),
    };
    let had = match told {
        Told::Succeeded(had) => Some(had.as_str()),
        _ => None,
    };
    let seen = match attempt.judge {
        Judge::Answer => had.map(str::to_owned),
        Judge::Secret => had
            .filter(|had| outside.is_in(had))
            .map(|_| "the secret was read".to_owned()),
        Judge::Arrival => outside
            .arrived(attempt.id, had.is_some())
            .then(|| "it arrived outside".to_owned()),
        Judge::Residue => outside.changed(),
        Judge::SetId => outside.set_id(),
        Judge::Bystander => outside.is_bystander_gone().then(|| "it is gone".to_owned()),
        Judge::Engine | Judge::Abuse(_) | Judge::Outliving(_) => None,
    };
    match (seen, told) {
        (Some(seen), _) => Verdict::Escaped(seen),
        (None, Told::NotApplicable(reason)) => Verdict::NotApplicable(reason.clone()),
        (None, Told::Blocked(reason)) => Verdict::Blocked(reason.clone()),
        (None, Told::Succeeded(had)) => Verdict::Blocked(format!(
            "told as done ({had}), and nothing was seen of it outside"
        )),
    }
}

#[expect(clippy::print_stdout, reason = "what started this reads it there")]
fn tell(heard: &Heard) {
    println!("{}", serde_json::to_string(heard).unwrap_or_default());
    let _ = std::io::stdout().flush();
}
