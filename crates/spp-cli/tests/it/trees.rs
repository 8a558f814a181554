//! `spp push` and `spp pull`.

use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::process::Signal;

use crate::support::{Place, signal};
use crate::terminal::Terminal;

fn mkfifo(path: &std::path::Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a FIFO");
}

/// What takes a line of a terminal away.
const CLEARED: &str = "\r\u{1b}[2K";

#[test]
fn a_directory_is_pushed_without_what_git_ignores_and_pulled_without_what_could_harm() {
    let place = Place::new();
    place.put("from/.gitignore", "target\n");
    place.put("from/target/big", "x");
    place.put("from/run", "#!/bin/sh\n");
    std::fs::set_permissions(place.path("from/run"), PermissionsExt::from_mode(0o751))
        .expect("set");
    symlink("run", place.path("from/link")).expect("made");
    symlink("/etc/hostname", place.path("from/out")).expect("made");
    let ended = place.spp(&["push", "from", "new/there"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mode = |name: &str| {
        let meta = std::fs::metadata(place.path(name)).expect("it is there");
        meta.permissions().mode() & 0o7777
    };
    assert_eq!(mode("new/there/run"), 0o751);
    assert!(!place.path("new/there/target").exists());
    let again = place.spp(&["push", "from", "new/there", "--json"]);
    assert_eq!(again.code, Some(1));
    assert_eq!(
        again.json()["error"]["kind"],
        "not_empty",
        "{}",
        again.stderr
    );

    let ended = place.spp(&["pull", "new/there", "back", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.json()["omitted"][0]["path"], "out");
    assert_eq!(mode("back/run") & 0o700, 0o700);
    assert_eq!(mode("back/run") & 0o022, 0);
    assert!(place.path("back/link").is_symlink());
    assert!(!place.path("back/out").is_symlink());
}

#[test]
fn a_pull_that_fails_leaves_nothing() {
    let place = Place::new();
    let ended = place.spp(&["pull", "no/such", "back"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("not found"), "{}", ended.stderr);
    assert!(!place.path("back").exists());
}

#[test]
fn an_update_sends_what_differs_and_removes_nothing() {
    let place = Place::new();
    place.put("from/changed", "old");
    place.put("from/same", "same");
    let ended = place.spp(&["push", "--update", "from", "there"]);
    assert_eq!(ended.stdout(), "pushed from to there: 2 entries, 7 bytes\n");
    place.put("from/changed", "new");
    place.put("there/theirs", "theirs");
    let ended = place.spp(&["push", "--update", "from", "there"]);
    assert_eq!(
        (ended.code, ended.stdout().as_str()),
        (Some(0), "pushed from to there: 1 entry, 3 bytes\n"),
        "{}",
        ended.stderr
    );
    assert_eq!(place.text("there/changed"), "new");
    assert_eq!(place.text("there/theirs"), "theirs");

    // What is no file there is not replaced by one.
    std::fs::remove_file(place.path("there/same")).expect("removed");
    place.put("there/same/inside", "theirs");
    place.put("from/changed", "newer");
    let ended = place.spp(&["push", "--update", "from", "there", "--json"]);
    let error = &ended.json()["error"];
    assert_eq!(
        (&error["kind"], &error["effect"]),
        (&"conflict".into(), &"none".into())
    );
    assert_eq!(place.text("there/same/inside"), "theirs");
    assert_eq!(place.text("there/changed"), "new");
}

#[test]
fn a_push_onto_something_names_the_flag_that_helps() {
    let place = Place::new();
    place.put("from/file", "");
    place.put("there/theirs", "");
    let ended = place.spp(&["push", "from", "there"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("1 entry is there already") && ended.stderr.contains("--update"),
        "{}",
        ended.stderr
    );
}

#[test]
fn how_far_it_has_come_is_shown_on_a_terminal_and_taken_away_at_the_end() {
    let place = Place::new();
    place.put("from/file", "content");
    for (args, doing, done) in [
        (
            ["push", "from", "there"],
            "pushing ",
            "pushed from to there",
        ),
        (
            ["pull", "there", "back"],
            "pulling ",
            "pulled there to back",
        ),
    ] {
        let mut terminal = Terminal::on(place.command(&args).env("TERM", "xterm"));
        terminal.expect(doing);
        terminal.expect(CLEARED);
        terminal.expect(done);
        assert_eq!(terminal.end().0, Some(0));
    }
    // Not in a pipe, and not beside an object.
    let ended = place.spp(&["push", "from", "pipe"]);
    assert_eq!(ended.stderr, "");
    let json = Terminal::on(
        place
            .command(&["push", "from", "json", "--json"])
            .env("TERM", "xterm"),
    );
    let (code, shown) = json.end_shown();
    assert_eq!(code, Some(0));
    assert!(!shown.contains("pushing"), "{shown:?}");
}

#[test]
fn a_push_that_is_interrupted_leaves_neither_a_line_nor_a_part() {
    let place = Place::new();
    place.put("from/first", "content");
    let long = std::fs::File::create(place.path("from/long")).expect("made");
    long.set_len(4 << 30).expect("a sparse file");
    let mut terminal = Terminal::on(
        place
            .command(&["push", "from", "there"])
            .env("TERM", "xterm"),
    );
    terminal.expect(" MiB");
    signal(&terminal.child, Signal::INT);
    let (code, shown) = terminal.end_shown();
    assert_eq!(code, Some(130));
    assert!(shown.trim_end().ends_with(CLEARED), "{shown:?}");
    let left = std::fs::read_dir(place.path(".")).expect("read");
    let left: Vec<_> = left.map(|entry| entry.expect("read").file_name()).collect();
    assert_eq!(left, ["from"]);
}

#[test]
fn what_is_no_directory_is_named_and_not_waited_for() {
    let place = Place::new();
    place.put("file", "");
    place.put("tree/file", "");
    mkfifo(&place.path("fifo"));
    for name in ["file", "fifo"] {
        for args in [["push", name, "there"], ["pull", "tree", name]] {
            let ended = place.spp(&args);
            assert_eq!(ended.code, Some(1), "{args:?}");
            assert!(
                ended.stderr.contains(&format!("failed to open {name}")),
                "{args:?}: {}",
                ended.stderr
            );
        }
    }
    assert!(!place.path("there").exists());
}
