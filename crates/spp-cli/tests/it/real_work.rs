//! Real work: a published crate, built and tested through `spp` and through the verbs.
//!
//! The sources are those of a dependency of this workspace that has no dependencies of its own, so
//! that they are on every machine that built it. Ignored by default, because a compiler takes its
//! time; `cargo xtask test --all` runs it. How long the same takes is a row of the bench.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use sandbox_core::file::{Change, Recursion, RemoveRequest, StatManyRequest, WriteRequest};
use sandbox_core::process::{ProcessSpec, Status};
use sandbox_core::{Ctx, Sandbox, SandboxExt, SandboxPath};
use sandbox_host::config::{Config, Sources, UserFile};
use sandbox_host::{Host, OpenRequest, SearchPath};

use crate::support::{Ended, Place, executable, finish, start};

const CRATE: &str = "strsim";

/// Where cargo keeps the sources of [`CRATE`].
fn sources() -> PathBuf {
    let output = cargo()
        .args(["metadata", "--format-version=1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo's metadata is JSON");
    metadata["packages"]
        .as_array()
        .expect("a list of packages")
        .iter()
        .find(|package| package["name"] == CRATE)
        .and_then(|package| Path::new(package["manifest_path"].as_str()?).parent())
        .expect("the crate is a dependency of this workspace")
        .to_owned()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a new directory");
    for entry in std::fs::read_dir(from).expect("a directory that can be listed") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("a file that can be copied");
        }
    }
}

fn cargo() -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "the same command without spp is what is compared with"
    )]
    Command::new("cargo")
}

/// `command` in the crate's tree, told to print the same in every run.
fn in_tree(command: &mut Command, tree: &Path) -> Ended {
    command
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", tree.join("target"))
        .env("CARGO_TERM_COLOR", "never")
        .env("RUST_TEST_THREADS", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut ended = finish(start(command));
    ended.stdout = without_times(&ended.stdout()).into_bytes();
    ended.stderr = without_times(&ended.stderr);
    // The next run builds from nothing too.
    if let Ok(()) = std::fs::rename(tree.join("target"), tree.join("target-of-the-run-before")) {
        std::fs::remove_dir_all(tree.join("target-of-the-run-before")).expect("a tree of files");
    }
    ended
}

/// Every duration such as `0.74s` as `-s`: the only part of the output that differs between runs.
fn without_times(text: &str) -> String {
    let is_time = |word: &str| {
        word.trim_end_matches([';', ','])
            .strip_suffix('s')
            .is_some_and(|number| number.contains('.') && number.parse::<f64>().is_ok())
    };
    text.split(' ')
        .map(|word| {
            let (word, rest) = word.split_at(word.find('\n').unwrap_or(word.len()));
            if is_time(word) {
                format!("-s{rest}")
            } else {
                format!("{word}{rest}")
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
#[ignore = "builds a crate four times"]
fn a_crates_tests_print_and_end_the_same_by_spp_as_directly() {
    let place = Place::new();
    let tree = place.path(CRATE);
    copy(&sources(), &tree);
    let argv = ["cargo", "test", "--offline"];
    let by_spp = |tree: &Path| {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test starts the program as its users do"
        )]
        let mut command = Command::new(executable());
        in_tree(command.args(["run", "--"]).args(argv), tree)
    };
    let directly = |tree: &Path| in_tree(cargo().args(&argv[1..]), tree);

    let good = by_spp(&tree);
    assert_eq!(good.code, Some(0), "{good:?}");
    assert!(good.stdout().contains("test result: ok"), "{good:?}");
    assert_eq!(good, directly(&tree));

    std::fs::write(
        tree.join("tests/broken.rs"),
        "#[test]\nfn broken() {\n    assert_eq!(strsim::hamming(\"a\", \"b\"), Ok(2));\n}\n",
    )
    .expect("a scratch file");
    let bad = by_spp(&tree);
    assert_eq!(bad.code, Some(101), "{bad:?}");
    assert_eq!(
        without_thread_numbers(&bad),
        without_thread_numbers(&directly(&tree))
    );
}

/// A panic names its thread by a number of the operating system, in brackets.
fn without_thread_numbers(ended: &Ended) -> (Option<i32>, String, String) {
    let strip = |text: &str| {
        text.lines()
            .map(|line| match line.split_once("' (") {
                Some((name, rest)) if line.starts_with("thread '") => {
                    let rest = rest.split_once(')').map_or(rest, |(_, rest)| rest);
                    format!("{name}'{rest}\n")
                }
                _ => format!("{line}\n"),
            })
            .collect()
    };
    (ended.code, strip(&ended.stdout()), strip(&ended.stderr))
}

fn path(text: &str) -> SandboxPath {
    SandboxPath::parse(text).expect("a path")
}

/// The new test alone. No time limit: the runner has one.
async fn added_test(sandbox: &dyn Sandbox) -> sandbox_core::process::Outcome {
    let argv = ["cargo", "test", "--offline", "--test", "added"];
    let process = ProcessSpec::new(argv).timeout(Duration::from_secs(300));
    sandbox.run(&Ctx::new(), process).await.expect("cargo runs")
}

#[tokio::test]
#[ignore = "builds a crate twice"]
async fn a_crate_is_read_edited_built_and_tested_through_the_verbs() {
    let place = Place::new();
    let tree = place.path(CRATE);
    copy(&sources(), &tree);
    let ctx = Ctx::new();
    let host = host(&tree);
    let request = OpenRequest {
        root: Some(tree.to_str().expect("a UTF-8 path").to_owned()),
        ..OpenRequest::default()
    };
    let opened = host.open(&ctx, None, request).await.expect("local opens");
    let sandbox = &*opened.sandbox;

    let before = sandbox
        .read_file(&ctx, path("src/lib.rs"))
        .await
        .expect("the source is read");
    assert_eq!(
        before.bytes,
        std::fs::read(tree.join("src/lib.rs")).expect("the same from outside")
    );
    let changes = [
        Change::edit(
            path("src/lib.rs"),
            "use std::char;\n",
            "use std::char;\n\n/// Added.\npub fn added() -> u32 {\n    7\n}\n",
        ),
        Change::put(
            path("tests/added.rs"),
            "#[test]\nfn added() {\n    assert_eq!(strsim::added(), 7);\n}\n",
        ),
    ];
    let receipts = sandbox
        .write(&ctx, WriteRequest::new(changes))
        .await
        .expect("both are tried");
    let receipts: Vec<_> = receipts
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("both are written");
    assert_eq!(
        receipts
            .iter()
            .map(|receipt| receipt.existed)
            .collect::<Vec<_>>(),
        [true, false]
    );
    assert_eq!(
        receipts
            .iter()
            .map(|receipt| receipt.line_delta)
            .collect::<Vec<_>>(),
        [5, 4]
    );

    let passed = added_test(sandbox).await;
    assert_eq!(
        passed.exit.status,
        Status::Exited(0),
        "{}",
        passed.stderr.to_text()
    );
    assert!(
        passed.stdout.to_text().contains("1 passed"),
        "{}",
        passed.stdout.to_text()
    );

    sandbox
        .edit(
            &ctx,
            path("src/lib.rs"),
            Bytes::from("    7\n"),
            Bytes::from("    8\n"),
        )
        .await
        .expect("the text is there once");
    let failed = added_test(sandbox).await;
    assert_eq!(failed.exit.status, Status::Exited(101));
    assert!(
        failed.stdout.to_text().contains("1 failed"),
        "{}",
        failed.stdout.to_text()
    );

    let removal = RemoveRequest {
        path: path("target"),
        recursion: Recursion::Yes,
    };
    assert!(
        sandbox
            .remove(&ctx, removal)
            .await
            .expect("the build is removed")
            .entries
            > 1
    );
    let gone = sandbox
        .stat_many(
            &ctx,
            StatManyRequest {
                paths: vec![path("target")],
            },
        )
        .await
        .expect("one path is looked at");
    assert!(matches!(gone.as_slice(), [Ok(None)]), "{gone:?}");
    host.shutdown().await;
}

fn host(directory: &Path) -> Host {
    let sources = Sources {
        location: Some("local".into()),
        location_variable: None,
        directory: directory.to_owned(),
        user_file: UserFile::None,
        search: SearchPath {
            beside: executable().parent().map(Path::to_owned),
            path: Vec::new(),
        },
    };
    Host::new(
        Config::load(&sources).expect("a configuration"),
        sources.search,
    )
}
