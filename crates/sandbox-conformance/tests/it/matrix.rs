//! The suite shown to be able to fail: every check on every sandbox that is wrong on purpose.
//!
//! Two things are held. Each check catches the double that was made for it; that is quick, and always
//! run. And no other check catches that double, so that none of them is there in vain; that takes all
//! checks on all doubles, and is run with everything.
//!
//! A check that calls none of the verbs that a double replaces sees an honest sandbox. It is not run
//! on that double again.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use sandbox_conformance::double::{Calls, Double, counted};
use sandbox_conformance::{CHECKS, Check, Failure, OnThisMachine};
use sandbox_core::Provider;

use crate::engine;

/// What does not end by then hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Runs at once; most of them wait most of the time.
const AT_ONCE: usize = 8;
/// Where to write the matrix, if it is wanted.
const FILE: &str = "SPP_CONFORMANCE_MATRIX";

async fn run(check: &Check, provider: Arc<dyn Provider>) -> Result<(), Failure> {
    let harness = OnThisMachine::new(provider);
    check.run(&harness, PATIENCE).await.map(drop)
}

/// Hands out one engine for all runs, since what a double breaks is its own sandbox.
fn with_engine<T>(task: impl AsyncFnOnce(Arc<dyn Provider>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime for the test");
    let result = runtime.block_on(task(engine::provider()));
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

fn check(double: &Double) -> &'static Check {
    Check::by_name(double.check).expect("every double names a check")
}

#[test]
fn each_check_catches_its_double() {
    let missed: Vec<_> = with_engine(async |engine| {
        futures_util::stream::iter(Double::all())
            .map(move |double| {
                let provider = double.wrap(Arc::clone(&engine));
                async move {
                    let verdict = run(check(double), provider).await;
                    verdict.is_ok().then_some((double.check, double.lie))
                }
            })
            .buffer_unordered(AT_ONCE)
            .filter_map(std::future::ready)
            .collect()
            .await
    });
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}

#[test]
#[ignore = "some minutes: every check on every double"]
fn each_double_is_caught_by_its_check_alone() {
    let caught = with_engine(async |engine| {
        let honest: BTreeMap<&str, Calls> = futures_util::stream::iter(CHECKS)
            .map(|check| {
                let calls = Calls::default();
                let provider = counted(Arc::clone(&engine), calls.clone());
                async move {
                    let verdict = run(check, provider).await;
                    assert_eq!(verdict, Ok(()), "an honest sandbox fails {}", check.name);
                    (check.name, calls)
                }
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let pairs = Double::all().flat_map(|double| {
            let seen = CHECKS
                .iter()
                .filter(|check| double.touches(&honest[check.name]));
            seen.map(move |check| (double, check)).collect::<Vec<_>>()
        });
        futures_util::stream::iter(pairs)
            .map(|(double, check)| {
                let provider = double.wrap(Arc::clone(&engine));
                async move {
                    let failure = run(check, provider).await.err()?;
                    Some((double.lie, check.name, failure))
                }
            })
            .buffer_unordered(AT_ONCE)
            .filter_map(std::future::ready)
            .collect::<Vec<_>>()
            .await
    });
    let mut matrix = String::new();
    let mut wrong = Vec::new();
    for double in Double::all() {
        let by: Vec<_> = caught
            .iter()
            .filter(|(lie, _, _)| *lie == double.lie)
            .collect();
        let _ = writeln!(matrix, "{}", double.lie);
        for (_, name, failure) in &by {
            let _ = writeln!(matrix, "    {name}: {failure}");
        }
        if !matches!(by[..], [(_, name, _)] if *name == double.check) {
            wrong.push((double.lie, double.check, by));
        }
    }
    if let Some(file) = std::env::var_os(FILE) {
        std::fs::write(file, &matrix).expect("the file for the matrix can be written");
    }
    #[expect(
        clippy::print_stdout,
        reason = "the matrix is what this test is read for"
    )]
    {
        println!("{matrix}");
    }
    assert!(
        wrong.is_empty(),
        "not caught by exactly the check that is meant to: {wrong:#?}"
    );
}
