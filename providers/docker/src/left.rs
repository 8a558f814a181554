//! The containers of a daemon that providers like this one have made, and what of them nobody has any more.
//!
//! **Invariant:** only what was made by a process of this machine, since it was started, that is known to be gone, is
//! ever removed. Everything else is somebody's, or cannot be told.

use sandbox_core::{Claim, Error, ErrorKind, Result, SandboxEntry, SandboxId, Verb};
use spp_client::place::{Refusal, Spawner};

use crate::cli::{ASK, Cli};
use crate::container::SANDBOX;
use crate::owner::{self, Owner};
use crate::{refusal, store};

/// One that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: String,
    name: String,
    sandbox: String,
    owner: String,
    running: bool,
}

impl Found {
    pub(crate) fn is_abandoned(&self) -> bool {
        owner::is_gone(&self.owner)
    }

    fn is_of(&self, id: &SandboxId) -> bool {
        self.sandbox == id.as_str()
    }

    /// As an entry of `list`, unless this process holds it, and lists it by itself.
    fn entry(&self) -> Option<SandboxEntry> {
        if owner::own().as_ref() == Some(&self.owner) {
            return None;
        }
        let (claim, why) = match owner::judge(&self.owner) {
            Owner::Gone => (Claim::Abandoned, "whoever made it is gone"),
            Owner::There => (Claim::Used, "a provider that is there has it"),
            Owner::Elsewhere => (
                Claim::Unclear,
                "another machine made it, or another start or namespace of this one",
            ),
        };
        Some(SandboxEntry {
            id: SandboxId::new(&self.sandbox).ok()?,
            labels: Default::default(),
            running: self.running,
            claim,
            detail: format!("container {}: {why}", self.name),
        })
    }
}

/// Looks for them.
///
/// # Errors
///
/// The daemon cannot be asked.
pub(crate) async fn find(cli: &Cli, spawner: &Spawner) -> std::result::Result<Vec<Found>, Refusal> {
    let filter = format!("--filter=label={}", owner::LABEL);
    let label = |name: &str| format!("{{{{json (.Label \"{name}\")}}}}");
    let format = format!(
        "--format=[{{{{json .ID}}}},{{{{json .Names}}}},{},{},{},{{{{json .State}}}}]",
        label(owner::NAME_LABEL),
        label(SANDBOX),
        label(owner::LABEL),
    );
    let list = ["ps", "--all", "--no-trunc", &filter, &format];
    let listed = cli.ask(spawner, &list, ASK).await;
    let listed = listed.map_err(|error| refusal::of_asking(cli, &error))?;
    if !listed.status.success() {
        return Err(refusal::of_words(&listed.status.to_string(), &listed.words));
    }
    Ok(listed.output.lines().filter_map(read).collect())
}

fn read(line: &str) -> Option<Found> {
    let [id, name, called, sandbox, owner, state] =
        serde_json::from_str::<[String; 6]>(line).ok()?;
    // Labels are passed on by images, and names are not.
    (name == called).then_some(Found {
        id,
        name,
        sandbox,
        owner,
        running: state == "running" || state == "paused",
    })
}

/// Removes what nobody has any more; whether that was done.
pub(crate) async fn remove(cli: &Cli, spawner: &Spawner, found: &Found) -> Result<()> {
    let left =
        |why: &str| {
            let (program, id) = (cli.name(), &found.id);
            Err(Error::new(Verb::Release, ErrorKind::ProviderUnavailable).detail(format_args!(
            "the container {} may be left: {why}; remove it with `{program} rm --force {id}`",
            found.name
        )))
        };
    match cli
        .ask(spawner, &["rm", "--force", "--volumes", &found.id], ASK)
        .await
    {
        Ok(removed) if removed.status.success() || removed.says_missing() => Ok(()),
        // By another call, or by the daemon itself.
        Ok(removed) if removed.words.contains("already in progress") => Ok(()),
        Ok(removed) => left(removed.words.trim()),
        Err(error) => left(&refusal::of_asking(cli, &error).reason),
    }
}

/// What `list` has to say of them.
pub(crate) fn entries(found: &[Found]) -> Vec<SandboxEntry> {
    // One sandbox is one entry, whatever else holds something of it.
    let is_doubled = |one: &Found| {
        let is_other = |other: &Found| other.sandbox == one.sandbox && other.name != one.name;
        one.name.ends_with(store::SUFFIX) && found.iter().any(is_other)
    };
    let single = found.iter().filter(|one| !is_doubled(one));
    single.filter_map(Found::entry).collect()
}

/// Those of a sandbox that nobody has any more.
pub(crate) fn abandoned<'a>(
    found: &'a [Found],
    id: &'a SandboxId,
) -> impl Iterator<Item = &'a Found> {
    let of_id = found.iter().filter(move |found| found.is_of(id));
    of_id.filter(|found| found.is_abandoned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, called: &str, owner: &str) -> String {
        serde_json::json!(["1", name, called, "build-1", owner, "running"]).to_string()
    }

    #[test]
    fn only_what_was_made_here_by_the_dead_is_abandoned() {
        let own = owner::own().expect("there is a process table");
        let (rest, began) = own.rsplit_once('/').expect("three parts");
        let dead = format!("{rest}/{}", began.parse::<u64>().expect("a number") + 1);
        let claim = |owner: &str| {
            let found = read(&line("spp-a", "spp-a", owner)).expect("it is ours");
            found.entry().map(|entry| entry.claim)
        };
        assert_eq!(claim(&dead), Some(Claim::Abandoned));
        assert_eq!(claim("elsewhere/1/1/1/1"), Some(Claim::Unclear));
        assert_eq!(claim(""), Some(Claim::Unclear));
        assert_eq!(claim(&own), None, "it is listed by whoever holds it");
        assert_eq!(
            read(&line("other", "spp-a", &dead)),
            None,
            "an image's label"
        );
        assert_eq!(read("no JSON"), None);
    }

    #[test]
    fn a_store_is_no_entry_beside_its_container_and_one_without() {
        let found = |names: &[&str]| -> Vec<_> {
            let lines = names.iter().map(|name| line(name, name, "x/1/1/1/1"));
            lines.filter_map(|line| read(&line)).collect()
        };
        assert_eq!(entries(&found(&["spp-a", "spp-a-store"])).len(), 1);
        assert_eq!(entries(&found(&["spp-a-store"])).len(), 1);
    }
}
