//! The connection is cut at every point of every verb, and nobody is told a lie about it.
//!
//! Each verb is done once while its messages are noted. Then it is done again for every point of
//! them: before, inside and after each message in each direction; and at each point both
//! directions end, or the one that the message went, or the provider is killed. Whatever is cut, the
//! call ends soon, with its answer if that came whole and with a failure of the way otherwise; what it
//! says of its effect is true; nothing was done twice or by half; and when the provider is gone so
//! is everything that it started.

use futures_util::StreamExt;
use sandbox_conformance::relay::{Cut, How, Point, Seen, Way};
use sandbox_core::{Effect, Error, ErrorKind, Verb};

use crate::acts::{Act, act, happened, is_of_the_way, left_wrong, prepare};
use crate::wired::{SOON, Wired};

/// Cuts at once.
const AT_ONCE: usize = 4;

/// The messages of a verb, and how it ends when nothing is cut.
async fn whole(doing: Act) -> (Vec<Seen>, Option<ErrorKind>) {
    let verb = doing.verb();
    let wired = Wired::start().await;
    prepare(verb, &wired).await;
    wired.arm(None);
    let done = act(doing, &wired).await;
    let seen = wired.tap.seen();
    let left = wired.end().await.unwrap_or_else(|left| panic!("{left}"));
    if done.is_ok() {
        assert_ne!(happened(verb, &left.workspace()), Some(false), "{verb}");
    }
    (seen, done.err().map(|error| error.kind()))
}

/// Every point of these messages.
fn cuts(seen: &[Seen]) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for way in [Way::ToProvider, Way::ToHost] {
        let messages = seen.iter().filter(|seen| seen.way == way).count();
        for message in 0..messages {
            for point in Point::ALL {
                let cut = |how| Cut {
                    way,
                    message,
                    point,
                    how,
                };
                cuts.extend(How::ALL.map(cut));
            }
        }
    }
    cuts
}

/// Does the verb with a cut, and says what is wrong with what came of it.
async fn wrong(doing: Act, cut: Cut, uncut: Option<ErrorKind>) -> Option<String> {
    let verb = doing.verb();
    let wired = Wired::start().await;
    prepare(verb, &wired).await;
    wired.arm(Some(cut));
    let done = match tokio::time::timeout(SOON, act(doing, &wired)).await {
        Ok(done) => done,
        Err(_) => return Some("the call hangs".into()),
    };
    let left = match wired.end().await {
        Ok(left) => left,
        Err(left) => return Some(left),
    };
    let workspace = left.workspace();
    let seen = happened(verb, &workspace);
    judge(verb, &done, seen, uncut).or_else(|| left_wrong(verb, &workspace).map(str::to_owned))
}

fn judge(
    verb: Verb,
    done: &Result<(), Error>,
    seen: Option<bool>,
    uncut: Option<ErrorKind>,
) -> Option<String> {
    let error = match done {
        Ok(()) => return (seen == Some(false)).then(|| "it was done, and nothing is there".into()),
        Err(error) => error,
    };
    if error.verb() != verb {
        return Some(format!("the failure is of another verb: {error}"));
    }
    if !is_of_the_way(error, uncut) {
        return Some(format!("a cut is told as a verdict: {error}"));
    }
    if error.effect() == Effect::None && seen == Some(true) {
        return Some(format!(
            "nothing was done, it said, and something was: {error}"
        ));
    }
    if error.effect() == Effect::Unknown && changes_nothing(verb) {
        return Some(format!(
            "it changes nothing, and said that it may have: {error}"
        ));
    }
    None
}

fn changes_nothing(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::Probe
            | Verb::List
            | Verb::CaptureState
            | Verb::Read
            | Verb::ReadMany
            | Verb::StatMany
            | Verb::Glob
            | Verb::Grep
            | Verb::Fingerprint
            | Verb::ProcRead
            | Verb::PullTree
    )
}

async fn cut_everywhere(doing: Act) {
    let (seen, uncut) = whole(doing).await;
    assert!(seen.len() >= 2, "{doing:?} was not asked: {seen:?}");
    let wrong: Vec<String> = futures_util::stream::iter(cuts(&seen))
        .map(|cut| async move {
            let wrong = wrong(doing, cut, uncut).await;
            wrong.map(|wrong| format!("{doing:?}, {cut}: {wrong}"))
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A test for each verb; the match makes a new one fail to compile until it has one.
macro_rules! cut {
    ($($test:ident = $verb:ident),+ $(,)?; not: $($other:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $test() {
                cut_everywhere(Act::Of(Verb::$verb)).await;
            }
        )+

        #[test]
        fn every_verb_is_cut() {
            fn is_cut(verb: Verb) -> bool {
                match verb {
                    $(Verb::$verb => true,)+
                    $(Verb::$other => false,)+
                }
            }
            let cut = Verb::ALL.into_iter().filter(|&verb| is_cut(verb)).count();
            assert_eq!(cut, [$(Verb::$verb),+].len());
        }
    };
}

cut! {
    an_acquire_that_is_cut = Acquire,
    a_release_that_is_cut = Release,
    a_list_that_is_cut = List,
    a_captured_state_that_is_cut = CaptureState,
    a_read_that_is_cut = Read,
    many_reads_that_are_cut = ReadMany,
    a_write_that_is_cut = Write,
    a_removal_that_is_cut = Remove,
    a_look_that_is_cut = StatMany,
    a_glob_that_is_cut = Glob,
    a_grep_that_is_cut = Grep,
    a_fingerprint_that_is_cut = Fingerprint,
    a_run_that_is_cut = Exec,
    a_start_that_is_cut = Spawn,
    a_log_that_is_cut = ProcRead,
    an_input_that_is_cut = ProcStdin,
    a_stop_that_is_cut = ProcStop,
    a_pushed_tree_that_is_cut = PushTree,
    a_pulled_tree_that_is_cut = PullTree;
    // Either end the connection themselves, or are one message each way like `list`.
    not: Initialize, Shutdown, Probe, Attach, Prepare, Update
}

#[tokio::test]
async fn a_run_that_tells_what_it_changed_and_is_cut() {
    cut_everywhere(Act::TrackedRun).await;
}

#[test]
fn a_lie_about_a_cut_is_noticed() {
    let failed = |verb, kind, effect| Err(Error::new(verb, kind).with_effect(effect));
    let cut = |verb, effect| failed(verb, ErrorKind::Disconnected, effect);
    let judged = |done: Result<(), Error>, verb, seen| judge(verb, &done, seen, None).is_some();
    let (write, read) = (Verb::Write, Verb::Read);
    // The truth.
    assert!(!judged(Ok(()), write, Some(true)));
    assert!(!judged(cut(write, Effect::None), write, Some(false)));
    assert!(!judged(cut(write, Effect::Unknown), write, Some(true)));
    assert!(!judged(cut(write, Effect::Unknown), write, Some(false)));
    assert!(!judged(cut(read, Effect::None), read, None));
    // Lies.
    assert!(judged(Ok(()), write, Some(false)));
    assert!(judged(cut(write, Effect::None), write, Some(true)));
    assert!(judged(cut(read, Effect::Unknown), read, None));
    assert!(judged(cut(write, Effect::Unknown), read, None));
    let verdict = failed(write, ErrorKind::NotFound, Effect::None);
    assert!(judged(verdict, write, Some(false)));
}
