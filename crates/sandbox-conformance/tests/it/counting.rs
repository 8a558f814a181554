//! Round trips are counted: a verb is one, and a helper is one verb.
//!
//! What is counted are the requests that really leave the host. No verb may be a loop over others, on
//! neither side; one that the provider does not have is refused within the same number.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::StreamExt;
use sandbox_core::file::Change;
use sandbox_core::process::ProcessSpec;
use sandbox_core::{Ctx, Result, SandboxExt, Verb};

use crate::acts::{Act, act, large, path, prepare};
use crate::wired::Wired;

/// Most round trips of a verb. It is exhaustive, so that a new verb has to have its own.
fn ceiling(verb: Verb) -> usize {
    match verb {
        // Done before anything can be called.
        Verb::Initialize => 0,
        Verb::Shutdown
        | Verb::Probe
        | Verb::Acquire
        | Verb::Attach
        | Verb::Release
        | Verb::List
        | Verb::Prepare
        | Verb::Update
        | Verb::CaptureState
        | Verb::Read
        | Verb::ReadMany
        | Verb::Write
        | Verb::Remove
        | Verb::StatMany
        | Verb::Glob
        | Verb::Grep
        | Verb::Fingerprint
        | Verb::Exec
        | Verb::Spawn
        | Verb::ProcRead
        | Verb::ProcStdin
        | Verb::ProcStop
        | Verb::PushTree
        | Verb::PullTree => 1,
    }
}

/// The helpers of [`SandboxExt`], with their verb and most round trips.
const HELPERS: [(&str, Verb, usize); 6] = [
    ("run", Verb::Exec, 1),
    ("shell", Verb::Exec, 1),
    ("read_file", Verb::Read, 1),
    ("put", Verb::Write, 1),
    ("edit", Verb::Write, 1),
    ("change", Verb::Write, 1),
];

async fn help(name: &str, wired: &Wired) -> Result<()> {
    let (sandbox, ctx) = (&wired.sandbox, &Ctx::new());
    match name {
        "run" => drop(sandbox.run(ctx, ProcessSpec::new(["cat", "large"])).await?),
        "shell" => drop(sandbox.shell(ctx, "cat large").await?),
        "read_file" => drop(sandbox.read_file(ctx, path("large")).await?),
        "put" => {
            sandbox.put(ctx, path("new"), large()).await?;
        }
        "edit" => {
            let (find, replace) = (Bytes::from("needle"), Bytes::from("pin"));
            sandbox.edit(ctx, path("small"), find, replace).await?;
        }
        "change" => {
            let change = Change::put(path("new"), large());
            sandbox.change(ctx, change).await?;
        }
        other => panic!("call the helper `{other}` here"),
    }
    Ok(())
}

/// What is wrong with the requests that left the host.
fn beyond(name: &str, verb: Verb, most: usize, requests: &[String]) -> Option<String> {
    let only = requests.iter().all(|request| request == verb.name());
    (!only || requests.len() > most)
        .then(|| format!("{name} may take {most} round trips, and took {requests:?}"))
}

#[tokio::test]
async fn no_verb_takes_more_than_one_round_trip() {
    let wrong: Vec<String> = futures_util::stream::iter(Verb::ALL)
        .map(|verb| async move {
            let wired = Wired::start().await;
            prepare(verb, &wired).await;
            wired.arm(None);
            // That it is refused makes no difference.
            let done = act(Act::Of(verb), &wired).await;
            let requests = wired.tap.requests();
            let wrong = beyond(verb.name(), verb, ceiling(verb), &requests);
            // Nor may one be answered here that was never asked.
            let unasked = done.is_ok() && requests.len() < ceiling(verb);
            wrong.or_else(|| unasked.then(|| format!("{verb} was not asked")))
        })
        .buffer_unordered(4)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn what_a_run_changed_is_told_in_its_one_round_trip() {
    let wired = Wired::start().await;
    prepare(Verb::Exec, &wired).await;
    wired.arm(None);
    act(Act::TrackedRun, &wired).await.expect("it runs");
    let requests = wired.tap.requests();
    assert_eq!(requests, [Verb::Exec.name()]);
}

#[tokio::test]
async fn no_helper_takes_more_round_trips_than_it_says() {
    let mut wrong = Vec::new();
    for (name, verb, most) in HELPERS {
        let wired = Wired::start().await;
        prepare(verb, &wired).await;
        wired.arm(None);
        help(name, &wired)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let requests = wired.tap.requests();
        assert!(!requests.is_empty(), "{name} asked nothing");
        wrong.extend(beyond(name, verb, most, &requests));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The names of the functions of a trait, from its text.
fn functions(source: &str, of: &str) -> Vec<String> {
    let body = source.split(of).nth(1).expect("the trait is there");
    let body = body.split("\n}\n").next().unwrap_or_default();
    body.split("async fn ")
        .skip(1)
        .filter_map(|rest| rest.split(['(', '<']).next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_function_of_the_port_is_counted() {
    let ext = include_str!("../../../sandbox-core/src/ext.rs");
    let mut helpers = functions(ext, "pub trait SandboxExt: Sandbox {");
    helpers.sort();
    let mut counted: Vec<&str> = HELPERS.iter().map(|(name, ..)| *name).collect();
    counted.sort_unstable();
    assert_eq!(helpers, counted, "a helper has no ceiling here");

    let verbs: BTreeMap<&str, Verb> = Verb::ALL.map(|verb| (verb.name(), verb)).into();
    let sandbox = include_str!("../../../sandbox-core/src/sandbox.rs");
    let provider = include_str!("../../../sandbox-core/src/provider.rs");
    let functions = [
        functions(sandbox, "pub trait Sandbox: Send + Sync {"),
        functions(provider, "pub trait Provider: Send + Sync {"),
    ]
    .concat();
    assert!(functions.len() > 20, "{functions:?}");
    for function in functions {
        // It asks nothing: it waits.
        let waits = function == "closed";
        assert!(
            waits || verbs.contains_key(&*function),
            "{function} is no verb, so its round trips are not counted"
        );
    }
}

#[test]
fn a_verb_that_asks_twice_or_asks_another_is_noticed() {
    let asked = |requests: &[&str]| {
        let requests: Vec<String> = requests.iter().map(|&request| request.into()).collect();
        beyond("read", Verb::Read, ceiling(Verb::Read), &requests)
    };
    assert_eq!(asked(&["read"]), None);
    assert!(asked(&["read", "read"]).is_some());
    assert!(asked(&["stat_many"]).is_some());
}
