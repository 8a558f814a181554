//! `spp doctor`: for every location, whether it works, and if not, the one thing to do.
//!
//! Nothing is guessed: the provider is started, a sandbox is acquired in an empty directory, and a
//! command is run there, exactly as `spp run` would.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sandbox_core::process::ProcessSpec;
use sandbox_core::{Cancel, Ctx, Disposition, Error, ErrorKind, SandboxExt as _};
use sandbox_host::config::Config;
use sandbox_host::error::visible;
use sandbox_host::{Host, OpenError, OpenRequest, SearchPath};
use serde_json::{Value, json};

use crate::args::Global;
use crate::failure::{Failure, Result, continued, shown};
use crate::session::{Done, config, directory, interruptible, shut_down};
use crate::signals::Signals;
use crate::{output, report};

/// Longest that all locations together may take; they are looked at side by side.
const LIMIT: Duration = Duration::from_secs(120);

/// Looks at every location, and returns 1 if the one in use does not work.
pub(crate) async fn doctor(global: &Global) -> Result<u8> {
    let config = config(global, directory()?)?;
    let search = SearchPath::of_process();
    let mut names = config.locations();
    names.extend(search.providers());
    names.push(config.location().name.clone());
    names.sort();
    names.dedup();
    let mut signals = Signals::listen()?;
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_timeout(LIMIT).with_cancel(cancel.clone());
    let host = Host::new(config.clone(), search);
    let checks = join_all(names.iter().map(|name| check(&host, &ctx, name)));
    let checks = interruptible(checks, &cancel, &mut signals).await;
    shut_down(&host, &mut signals).await;
    let checks = match checks {
        Done::Whole(checks) => checks,
        Done::Interrupted(arrived, _) => return Ok(arrived.code()),
    };
    let works = checks
        .iter()
        .any(|check| check.name == config.location().name && check.problem.is_none());
    let said = if global.json {
        report::line(&describe(&config, &checks))
    } else {
        shown(&text(&config, &checks))
    };
    output::print(said, &mut signals, u8::from(!works)).await
}

/// What was found out about a location.
struct Check {
    name: String,
    /// Name and version of its provider, once that answered.
    provider: Option<(String, String)>,
    took: Duration,
    notes: Vec<String>,
    problem: Option<Failure>,
}

async fn check(host: &Host, ctx: &Ctx, name: &str) -> Check {
    let start = Instant::now();
    let mut check = Check {
        name: name.to_owned(),
        provider: None,
        took: Duration::ZERO,
        notes: Vec::new(),
        problem: None,
    };
    check.problem = try_out(host, ctx, &mut check).await.err();
    check.took = start.elapsed();
    check
}

async fn try_out(host: &Host, ctx: &Ctx, check: &mut Check) -> Result<()> {
    let empty = tempfile::Builder::new()
        .prefix("spp-doctor-")
        .tempdir()
        .map_err(|error| {
            Failure::io(
                "make an empty directory to try in; set TMPDIR to a directory that you may write to",
                error,
            )
        })?;
    let info = host.provider(ctx, &check.name).await?.info();
    check.provider = Some((info.name.clone(), info.version.clone()));
    let request = OpenRequest {
        root: empty.path().to_str().map(str::to_owned),
        ..OpenRequest::default()
    };
    let opened = host.open(ctx, Some(&check.name), request).await?;
    check.notes.clone_from(&opened.sandbox.descriptor().notes);
    let ran = opened.sandbox.run(ctx, ProcessSpec::new(["true"])).await;
    let released = opened.release(ctx, Disposition::Destroy).await;
    match ran {
        Ok(outcome) if outcome.exit.status.is_success() => {}
        Ok(outcome) => {
            return Err(Failure::new(format_args!(
                "a command that does nothing {} there; its output: {}{}",
                outcome.exit.status,
                outcome.stdout.to_text(),
                outcome.stderr.to_text()
            )));
        }
        // An image may hold nothing at all. That the program was looked for shows enough.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            check
                .notes
                .push("there is no program `true` in this place".into());
        }
        Err(error) => return Err(error.into()),
    }
    released.map_err(|error: Error| OpenError::from(error))?;
    Ok(())
}

fn text(config: &Config, checks: &[Check]) -> String {
    let mut text = format!("spp {}\n", env!("CARGO_PKG_VERSION"));
    let files: Vec<_> = config
        .files()
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let files = if files.is_empty() {
        "none".to_owned()
    } else {
        files.join(", ")
    };
    let selected = config.location();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "configuration files: {files}");
    let _ = writeln!(
        text,
        "location in use: {} (from {})\n",
        selected.name, selected.place
    );
    for check in checks {
        let verdict = match &check.problem {
            None => format!("works ({} ms)", check.took.as_millis()),
            Some(problem) => format!("does not work: {}", continued(&problem.sentence())),
        };
        let provider = match &check.provider {
            Some((name, version)) => {
                format!(", provider {} {}", visible(name), visible(version))
            }
            None => String::new(),
        };
        let _ = writeln!(text, "{}{provider}: {verdict}", check.name);
        for note in &check.notes {
            // On its own line, whatever is in it.
            let _ = writeln!(text, "    {}", visible(note));
        }
    }
    text
}

fn describe(config: &Config, checks: &[Check]) -> Value {
    let files: Vec<_> = config
        .files()
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let selected = config.location();
    let locations: Vec<Value> = checks
        .iter()
        .map(|check| {
            let mut object = json!({
                "name": check.name,
                "selected": check.name == selected.name,
                "works": check.problem.is_none(),
                "took_ms": u64::try_from(check.took.as_millis()).unwrap_or(u64::MAX),
                "notes": check.notes,
            });
            if let Some((name, version)) = &check.provider {
                object["provider"] = json!({ "name": name, "version": version });
            }
            if let Some(problem) = &check.problem {
                object["problem"] = problem.sentence().into();
            }
            object
        })
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "files": files,
        "location": { "name": selected.name, "from": selected.place.to_string() },
        "locations": locations,
    })
}
