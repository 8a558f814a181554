//! `glob` and `grep` on real trees.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sandbox_core::file::EntryKind;
use sandbox_core::search::{
    Case, Completeness, FileMatches, GlobRequest, GlobResult, GrepRequest, GrepResult,
    IncompleteCause, Lines, Pattern, PatternSyntax, Scope, Sort, WithStat,
};
use sandbox_core::{
    AcquireSpec, Ctx, Effect, Error, ErrorKind, Provider, Sandbox, SandboxId, SandboxPath,
};
use sandbox_engine::{EngineProvider, ProviderOptions};

struct Place {
    sandbox: Arc<dyn Sandbox>,
    directory: tempfile::TempDir,
}

impl Place {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let provider = EngineProvider::new(ProviderOptions {
            name: "here".into(),
            version: "1".into(),
            place: sandbox_engine::Place::open("here"),
        });
        let spec = AcquireSpec {
            root: Some(directory.path().to_str().expect("UTF-8").into()),
            ..AcquireSpec::new(SandboxId::new("one").expect("valid"))
        };
        let sandbox = provider
            .acquire(&Ctx::new(), &spec)
            .await
            .expect("acquired");
        Self { sandbox, directory }
    }

    fn plant(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, content).expect("a file");
    }

    async fn glob(&self, change: impl FnOnce(&mut GlobRequest)) -> GlobResult {
        self.try_glob(change).await.expect("found")
    }

    async fn try_glob(&self, change: impl FnOnce(&mut GlobRequest)) -> Result<GlobResult, Error> {
        let mut request = GlobRequest {
            scope: Scope::new(SandboxPath::root()),
            sort: Sort::Path,
            limit: 1_000_000,
            stat: WithStat::No,
        };
        change(&mut request);
        self.sandbox.glob(&Ctx::new(), request).await
    }

    async fn grep(&self, text: &str, change: impl FnOnce(&mut GrepRequest)) -> GrepResult {
        self.try_grep(text, change).await.expect("searched")
    }

    async fn try_grep(
        &self,
        text: &str,
        change: impl FnOnce(&mut GrepRequest),
    ) -> Result<GrepResult, Error> {
        let mut request = grep_request(text);
        change(&mut request);
        self.sandbox.grep(&Ctx::new(), request).await
    }
}

fn grep_request(text: &str) -> GrepRequest {
    GrepRequest {
        scope: Scope::new(SandboxPath::root()),
        pattern: Pattern {
            text: text.to_owned(),
            syntax: PatternSyntax::Regex,
            case: Case::Sensitive,
            lines: Lines::Single,
        },
        before: 0,
        after: 0,
        max_per_file: None,
        limit: 1_000_000,
        max_line_bytes: 4096,
    }
}

fn names(result: &GlobResult) -> Vec<String> {
    result
        .entries
        .iter()
        .map(|entry| entry.path.to_string())
        .collect()
}

/// `path:number:text`, with a dash for lines of context, as people know it.
fn shown(result: &GrepResult) -> Vec<String> {
    let line = |file: &FileMatches| {
        let path = file.path.to_string();
        file.lines
            .iter()
            .map(|line| {
                let mark = if line.matches.is_empty() { '-' } else { ':' };
                format!(
                    "{path}{mark}{}{mark}{}",
                    line.number,
                    String::from_utf8_lossy(&line.text)
                )
            })
            .collect::<Vec<_>>()
    };
    result.files.iter().flat_map(line).collect()
}

#[track_caller]
fn check_incomplete(complete: &Completeness, cause: IncompleteCause, word: &str) {
    match complete {
        Completeness::Incomplete { cause: own, reason } => {
            assert_eq!(*own, cause, "{reason}");
            assert!(reason.contains(word), "{reason}");
        }
        Completeness::Complete => panic!("it was said to be complete"),
    }
}

#[tokio::test]
async fn the_first_so_many_in_order_are_found_and_not_any_so_many() {
    let place = Place::new().await;
    for index in 0..5000 {
        place.plant(&format!("d{}/f{index:04}", index % 50), "");
    }
    let all = names(&place.glob(|_| {}).await);
    assert_eq!(all.len(), 5050);
    assert!(all.is_sorted());
    let some = place.glob(|request| request.limit = 7).await;
    assert_eq!(names(&some), all[..7]);
    check_incomplete(&some.complete, IncompleteCause::Limit, "more than the 7");
    let any = place
        .glob(|request| (request.limit, request.sort) = (7, Sort::None))
        .await;
    assert_eq!(any.entries.len(), 7);
    check_incomplete(&any.complete, IncompleteCause::Limit, "more than the 7");
    let exactly = place.glob(|request| request.limit = 5050).await;
    assert_eq!(exactly.complete, Completeness::Complete);
}

#[tokio::test]
async fn the_newest_come_first_and_entries_are_described_when_asked() {
    let place = Place::new().await;
    for (index, name) in ["old", "middle", "new"].iter().enumerate() {
        place.plant(name, "abc");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + index as u64);
        let file = fs::File::options()
            .write(true)
            .open(place.directory.path().join(name))
            .expect("there");
        file.set_modified(time).expect("own file");
    }
    symlink("old", place.directory.path().join("a-link")).expect("a link");
    let found = place
        .glob(|request| {
            (request.sort, request.stat) = (Sort::Modified, WithStat::Yes);
            request.scope.exclude = vec!["a-link".into()];
        })
        .await;
    assert_eq!(names(&found), ["new", "middle", "old"]);
    assert_eq!(found.entries[0].stat.as_ref().expect("asked for").size, 3);
    let found = place
        .glob(|request| {
            request.stat = WithStat::Yes;
            request.scope.include = vec!["a-link".into()];
        })
        .await;
    let stat = found.entries[0].stat.as_ref().expect("asked for");
    assert_eq!(stat.kind, EntryKind::Link);
    assert_eq!(stat.target.as_deref(), Some(&b"old"[..]));
}

#[tokio::test]
async fn more_than_fits_one_answer_is_cut_and_said() {
    let place = Place::new().await;
    let long = "x".repeat(200);
    for index in 0..6000 {
        place.plant(&format!("{long}{index:05}"), "needle\n");
    }
    let found = place.glob(|_| {}).await;
    check_incomplete(&found.complete, IncompleteCause::Limit, "fit one answer");
    assert!(found.entries.len() > 1000, "{}", found.entries.len());
    assert_eq!(names(&found)[0], format!("{long}00000"));
    let found = place.grep("needle", |_| {}).await;
    check_incomplete(&found.complete, IncompleteCause::Limit, "fit one answer");
    assert!(found.files.len() > 1000, "{}", found.files.len());
}

#[tokio::test]
async fn a_search_outside_or_of_nothing_is_refused_without_effect() {
    let place = Place::new().await;
    place.plant("file", "x");
    symlink("/etc", place.directory.path().join("door")).expect("a link");
    for (root, kind) in [
        ("door", ErrorKind::OutsideRoot),
        ("absent", ErrorKind::NotFound),
        ("/etc", ErrorKind::OutsideRoot),
        ("file", ErrorKind::NotADirectory),
    ] {
        let root = SandboxPath::parse(root).expect("valid");
        let error = place
            .try_glob(|request| request.scope.root = root.clone())
            .await
            .expect_err("refused");
        assert_eq!(
            (error.kind(), error.effect()),
            (kind, Effect::None),
            "{error}"
        );
        if kind != ErrorKind::NotADirectory {
            let error = place
                .try_grep("root", |request| request.scope.root = root)
                .await
                .expect_err("refused");
            assert_eq!(
                (error.kind(), error.effect()),
                (kind, Effect::None),
                "{error}"
            );
        }
    }
    let error = place
        .try_glob(|request| request.scope.include = vec!["a[".into()])
        .await
        .expect_err("no glob");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_link_to_outside_is_listed_and_its_file_is_not_searched() {
    let place = Place::new().await;
    symlink("/etc/passwd", place.directory.path().join("leak")).expect("a link");
    assert_eq!(names(&place.glob(|_| {}).await), ["leak"]);
    assert!(place.grep("root", |_| {}).await.files.is_empty());
}

#[tokio::test]
async fn a_scope_within_is_answered_in_paths_of_the_sandbox_under_the_rules_around_it() {
    let place = Place::new().await;
    place.plant(".gitignore", "*.log\n");
    place.plant("a/b/x.log", "needle");
    place.plant("a/b/x.rs", "needle");
    symlink("a/b", place.directory.path().join("short")).expect("a link");
    for root in ["a/b", "short"] {
        let root = SandboxPath::parse(root).expect("valid");
        let found = place
            .glob(|request| request.scope.root = root.clone())
            .await;
        assert_eq!(names(&found), [format!("{root}/x.rs")]);
        let found = place
            .grep("needle", |request| request.scope.root = root.clone())
            .await;
        assert_eq!(shown(&found), [format!("{root}/x.rs:1:needle")]);
    }
    let found = place
        .grep("needle", |request| {
            request.scope.root = SandboxPath::parse("a/b/x.log").expect("valid");
        })
        .await;
    assert_eq!(
        shown(&found),
        ["a/b/x.log:1:needle"],
        "a file was named itself"
    );
}

#[tokio::test]
async fn matches_carry_line_offset_and_where_they_are() {
    let place = Place::new().await;
    place.plant("f", "one\ntwo two\r\n\u{e9}two\n");
    let found = place.grep("two", |_| {}).await;
    assert_eq!(shown(&found), ["f:2:two two", "f:3:\u{e9}two"]);
    let lines = &found.files[0].lines;
    assert_eq!(
        (lines[0].offset, &*lines[0].matches),
        (4, &[(0, 3), (4, 7)][..])
    );
    assert_eq!((lines[1].offset, &*lines[1].matches), (13, &[(2, 5)][..]));
    assert_eq!(
        (found.searched, found.complete),
        (1, Completeness::Complete)
    );
    // The end of a line is before what ends it, whichever that is.
    assert_eq!(shown(&place.grep("two$", |_| {}).await).len(), 2);
}

#[tokio::test]
async fn context_case_literals_and_lines_are_as_asked() {
    let place = Place::new().await;
    place.plant("f", "a\nb\nNEEDLE.x\nc\nd\ne\nneedle!x\n");
    let found = place
        .grep("needle.", |request| {
            (request.before, request.after) = (1, 1);
            request.pattern.case = Case::Insensitive;
        })
        .await;
    assert_eq!(
        shown(&found),
        ["f-2-b", "f:3:NEEDLE.x", "f-4-c", "f-6-e", "f:7:needle!x"]
    );
    let found = place
        .grep("NEEDLE.", |request| {
            request.pattern.syntax = PatternSyntax::Literal;
        })
        .await;
    assert_eq!(shown(&found), ["f:3:NEEDLE.x"]);
    let found = place
        .grep(r"c\nd\ne", |request| request.pattern.lines = Lines::Multi)
        .await;
    assert_eq!(shown(&found), ["f:4:c", "f:5:d", "f:6:e"]);
    assert_eq!(found.files[0].lines[2].matches, [(0, 1)]);
}

#[tokio::test]
async fn limits_count_and_a_long_line_is_cut_between_characters() {
    let place = Place::new().await;
    place.plant("a", "x\n".repeat(10));
    place.plant("b", "x\n".repeat(10));
    let found = place
        .grep("x", |request| request.max_per_file = Some(3))
        .await;
    assert_eq!(shown(&found).len(), 6);
    assert_eq!(found.complete, Completeness::Complete);
    let found = place.grep("x", |request| request.limit = 5).await;
    assert_eq!(shown(&found).len(), 5);
    check_incomplete(&found.complete, IncompleteCause::Limit, "more than the 5");
    let found = place.grep("x", |request| request.limit = 20).await;
    assert_eq!(
        (shown(&found).len(), found.complete),
        (20, Completeness::Complete)
    );

    place.plant("long", format!("n\u{e9}edle {}", "y".repeat(100_000)));
    let found = place
        .grep("n.edle y+", |request| request.max_line_bytes = 2)
        .await;
    let line = &found.files[0].lines[0];
    assert_eq!(
        (&*line.text, line.cut, &*line.matches),
        (&b"n"[..], true, &[(0, 1)][..])
    );
}

#[tokio::test]
async fn what_looks_binary_is_said_to_match_and_not_shown() {
    let place = Place::new().await;
    place.plant("small", b"needle\n\0");
    place.plant(
        "late",
        [&b"needle\n"[..], &b"x\n".repeat(200_000), b"\0needle"].concat(),
    );
    place.plant("none", b"\0\0");
    let found = place.grep("needle", |_| {}).await;
    assert_eq!(found.files.len(), 2);
    assert!(
        found
            .files
            .iter()
            .all(|file| file.binary && file.lines.is_empty())
    );
    assert_eq!(found.searched, 3);
}

#[tokio::test]
async fn utf_16_is_known_by_its_mark_and_the_mark_of_utf_8_is_no_part_of_a_line() {
    let place = Place::new().await;
    let little: Vec<u8> = "\u{feff}a\nneedle\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let big: Vec<u8> = "\u{feff}a\nneedle\n"
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    place.plant("little", little);
    place.plant("big", big);
    place.plant("utf8", "\u{feff}needle\n");
    place.plant(
        "utf8-large",
        format!("\u{feff}needle\n{}", "x\n".repeat(300_000)),
    );
    let found = place.grep("^needle$", |_| {}).await;
    assert_eq!(
        shown(&found),
        [
            "big:2:needle",
            "little:2:needle",
            "utf8:1:needle",
            "utf8-large:1:needle"
        ]
    );
    let offsets: Vec<_> = found
        .files
        .iter()
        .map(|file| file.lines[0].offset)
        .collect();
    assert_eq!(offsets, [2, 2, 3, 3]);
}

#[tokio::test]
async fn small_files_and_large_ones_are_searched_alike() {
    let place = Place::new().await;
    let mut large = String::new();
    for index in 0..200_000 {
        large.push_str(&format!("line {index}\n"));
    }
    place.plant("large", &large);
    let found = place
        .grep("^line 199999$", |request| request.before = 1)
        .await;
    assert_eq!(
        shown(&found),
        ["large-199999-line 199998", "large:200000:line 199999"]
    );
    let offset = large.find("line 199999\n").expect("there") as u64;
    assert_eq!(found.files[0].lines[1].offset, offset);
}

#[tokio::test]
async fn a_line_longer_than_memory_is_named_and_not_passed_over() {
    let place = Place::new().await;
    let file = fs::File::create(place.directory.path().join("endless")).expect("a file");
    drop(file);
    // Without a newline and without a zero, of which a sparse file would be made.
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..40 {
        use std::io::Write as _;
        fs::File::options()
            .append(true)
            .open(place.directory.path().join("endless"))
            .and_then(|mut file| file.write_all(&chunk))
            .expect("written");
    }
    place.plant("other", "needle\n");
    let found = place.grep("needle", |_| {}).await;
    assert_eq!(shown(&found), ["other:1:needle"]);
    check_incomplete(&found.complete, IncompleteCause::Limit, "endless");
}

#[tokio::test]
async fn a_fifo_neither_blocks_a_search_nor_is_searched() {
    let place = Place::new().await;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.directory.path().join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .expect("a FIFO");
    place.plant("f", "needle");
    let found = place.grep("needle", |_| {}).await;
    assert_eq!(
        (shown(&found), found.searched),
        (vec!["f:1:needle".to_owned()], 1)
    );
    let error = place
        .try_grep("x", |request| {
            request.scope.root = SandboxPath::parse("fifo").expect("valid");
        })
        .await
        .expect_err("no file");
    assert_eq!(error.kind(), ErrorKind::NotAFile);
}

#[tokio::test]
async fn a_bad_pattern_is_refused_at_its_place_without_effect() {
    let place = Place::new().await;
    for text in ["a(b", "[", "(?=x)", "(?:a{1000}){1000}", "a\nb"] {
        let error = place.try_grep(text, |_| {}).await.expect_err(text);
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::InvalidArgument, Effect::None),
            "{error}"
        );
    }
    for text in ["-e", "--", "$x", "(", "a\\b"] {
        place.plant("f", text);
        let found = place
            .grep(text, |request| {
                request.pattern.syntax = PatternSyntax::Literal;
            })
            .await;
        assert_eq!(found.files.len(), 1, "{text}");
    }
}

#[tokio::test]
async fn a_cancelled_search_ends_and_a_late_one_answers_with_what_it_found() {
    let place = Place::new().await;
    for index in 0..2000 {
        place.plant(&format!("d{}/f{index}", index % 20), "needle\n".repeat(50));
    }
    let ctx = Ctx::new();
    ctx.cancel().cancel();
    let error = place
        .sandbox
        .grep(&ctx, grep_request("needle"))
        .await
        .expect_err("cancelled");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Cancelled, Effect::None)
    );
    let slow = grep_request("(?i)([a-z]+ *)+q");
    let ctx = Ctx::new().with_timeout(Duration::from_millis(1));
    match place.sandbox.grep(&ctx, slow).await {
        Ok(found) => check_incomplete(&found.complete, IncompleteCause::Deadline, "deadline"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::DeadlineExceeded),
    }
}
