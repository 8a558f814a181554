//! `spp gc`: what was left behind by whoever is gone is removed, and everything else is listed with the reason why not.
//!
//! Whose something is, is the provider's to know, and it is asked for it twice: what it lists as abandoned it is asked to
//! release, and it looks once more before it does.
//!
//! **Invariant:** nothing is released that was not listed as abandoned.

use std::fmt::Write as _;
use std::time::Duration;

use futures_util::future::join_all;
use sandbox_core::{Cancel, Capability, Claim, Ctx, Disposition, SandboxEntry};
use sandbox_host::error::visible;
use sandbox_host::{Host, SearchPath};
use serde_json::{Value, json};

use crate::args::{Gc, Global};
use crate::failure::{Failure, Result, continued, shown};
use crate::session::{Done, config, directory, interruptible, shut_down};
use crate::signals::Signals;
use crate::{output, report};

/// Longest that all locations together may take; they are looked at side by side.
const LIMIT: Duration = Duration::from_secs(120);

/// Looks, removes, and returns 1 if something could not be removed, or the location that was named not be asked.
pub(crate) async fn gc(global: &Global, gc: &Gc) -> Result<u8> {
    let config = config(global, directory()?)?;
    let search = SearchPath::of_process();
    let names = match &global.location {
        Some(name) => vec![name.clone()],
        None => {
            let mut names = config.locations();
            names.extend(search.providers());
            names.push(config.location().name.clone());
            names.sort();
            names.dedup();
            names
        }
    };
    let mut signals = Signals::listen()?;
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_timeout(LIMIT).with_cancel(cancel.clone());
    let host = Host::new(config, search);
    let places = join_all(names.iter().map(|name| look(&host, &ctx, name, gc.dry_run)));
    let places = interruptible(places, &cancel, &mut signals).await;
    shut_down(&host, &mut signals).await;
    let places = match places {
        Done::Whole(places) => places,
        Done::Interrupted(arrived, _) => return Ok(arrived.code()),
    };
    let is_named = global.location.is_some();
    let failed = places.iter().any(|place| place.failed(is_named));
    let said = if global.json {
        report::line(&describe(&places, gc.dry_run))
    } else {
        shown(&text(&places, gc.dry_run))
    };
    output::print(said, &mut signals, u8::from(failed)).await
}

/// What there is in a location.
struct Place {
    name: String,
    /// Everything that its provider knows of, or why it could not be asked. `None` if it keeps nothing that could be listed.
    found: Option<Result<Vec<Item>>>,
}

struct Item {
    entry: SandboxEntry,
    /// What became of it, if it was to be removed.
    removed: Option<Result<()>>,
}

impl Place {
    fn failed(&self, is_named: bool) -> bool {
        match &self.found {
            None => false,
            Some(Err(_)) => is_named,
            Some(Ok(items)) => items
                .iter()
                .any(|item| matches!(item.removed, Some(Err(_)))),
        }
    }
}

async fn look(host: &Host, ctx: &Ctx, name: &str, dry_run: bool) -> Place {
    Place {
        name: name.to_owned(),
        found: clean(host, ctx, name, dry_run).await.transpose(),
    }
}

async fn clean(host: &Host, ctx: &Ctx, name: &str, dry_run: bool) -> Result<Option<Vec<Item>>> {
    let provider = host.provider(ctx, name).await?;
    if !provider.info().capabilities.has(Capability::List) {
        return Ok(None);
    }
    let options = host.config().provider(name).options.clone();
    let entries = provider.list(ctx, options.as_deref()).await?;
    let mut items = Vec::new();
    let mut released = Vec::new();
    for entry in entries {
        let is_due = entry.claim == Claim::Abandoned && !dry_run;
        // All of an id go together.
        let removed = if is_due && !released.contains(&entry.id) {
            released.push(entry.id.clone());
            let receipt = provider.release(ctx, &entry.id, Disposition::Destroy).await;
            Some(match receipt {
                Ok(_) => Ok(()),
                Err(error) => Err(Failure::from(error)),
            })
        } else {
            is_due.then_some(Ok(()))
        };
        items.push(Item { entry, removed });
    }
    Ok(Some(items))
}

fn what_of(item: &Item) -> String {
    match (&item.removed, item.entry.claim) {
        (Some(Ok(())), _) => "removed".to_owned(),
        (Some(Err(failure)), _) => format!("not removed: {}", continued(&failure.sentence())),
        (None, Claim::Abandoned) => "would be removed".to_owned(),
        (None, Claim::Held | Claim::Used) => "in use".to_owned(),
        (None, Claim::Kept) => "kept, as it was asked to be".to_owned(),
        (None, Claim::Unclear) => "left alone: whose it is cannot be told here".to_owned(),
    }
}

fn text(places: &[Place], dry_run: bool) -> String {
    let mut text = String::new();
    let mut count = 0;
    let mut is_whole = true;
    for place in places {
        let items = match &place.found {
            None => continue,
            Some(Err(failure)) => {
                // Writing to a string cannot fail.
                let why = continued(&failure.sentence());
                let _ = writeln!(text, "{}: could not be looked at: {why}", place.name);
                is_whole = false;
                continue;
            }
            Some(Ok(items)) => items,
        };
        for item in items {
            let SandboxEntry { id, detail, .. } = &item.entry;
            count += usize::from(item.entry.claim == Claim::Abandoned);
            let detail = match detail.as_str() {
                "" => String::new(),
                detail => format!(" ({})", visible(detail)),
            };
            let _ = writeln!(text, "{}: {id} {}{detail}", place.name, what_of(item));
        }
    }
    let is_any = places
        .iter()
        .any(|place| matches!(place.found, Some(Ok(_))));
    if count == 0 && is_any {
        let elsewhere = if is_whole { "" } else { " elsewhere" };
        let _ = writeln!(text, "nothing was left behind{elsewhere}");
    } else if count > 0 && dry_run {
        let _ = writeln!(text, "`spp gc` without `--dry-run` removes it");
    }
    text
}

fn describe(places: &[Place], dry_run: bool) -> Value {
    let item = |item: &Item| {
        let claim = match item.entry.claim {
            Claim::Held => "held",
            Claim::Used => "used",
            Claim::Kept => "kept",
            Claim::Abandoned => "abandoned",
            Claim::Unclear => "unclear",
        };
        let mut object = json!({
            "sandbox": item.entry.id.as_str(),
            "claim": claim,
            "running": item.entry.running,
            "detail": item.entry.detail,
            "removed": matches!(item.removed, Some(Ok(()))),
        });
        if let Some(Err(failure)) = &item.removed {
            object["problem"] = failure.sentence().into();
        }
        object
    };
    let place = |place: &Place| match place.found.as_ref()? {
        Ok(items) => Some(json!({
            "location": place.name,
            "sandboxes": items.iter().map(item).collect::<Vec<_>>(),
        })),
        Err(failure) => Some(json!({
            "location": place.name,
            "sandboxes": [],
            "problem": failure.sentence(),
        })),
    };
    json!({
        "dry_run": dry_run,
        "locations": places.iter().filter_map(place).collect::<Vec<_>>(),
    })
}
