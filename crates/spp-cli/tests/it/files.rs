//! `spp read` and `spp write`.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Place, check, finish, start};

#[test]
fn what_is_written_is_read_to_the_byte() {
    let place = Place::new();
    let content: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let ended = place.spp_with(&["write", "new/deep/file"], &content);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended
            .stdout()
            .starts_with("created new/deep/file: 300000 bytes"),
        "{}",
        ended.stdout()
    );
    let on_disk = std::fs::read(place.path("new/deep/file")).expect("it was written");
    assert!(on_disk == content);
    let ended = place.spp(&["read", "new/deep/file"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout == content);
}

#[test]
fn parts_are_read_by_lines_and_by_bytes() {
    let place = Place::new();
    place.put("file", "one\ntwo\nthree\nfour");
    for (args, expected) in [
        (["--lines", "2:3"], "two\nthree\n"),
        (["--lines", "3:"], "three\nfour"),
        (["--lines", ":1"], "one\n"),
        (["--lines", "9:"], ""),
        (["--bytes", "4:3"], "two"),
        (["--bytes", "14:"], "four"),
    ] {
        let ended = place.spp(&["read", "file", args[0], args[1]]);
        check(&ended, 0, expected);
    }
}

#[test]
fn a_failed_read_prints_nothing_and_says_why() {
    let place = Place::new();
    place.put("directory/file", "");
    for (path, word) in [("absent", "not found"), ("directory", "not a regular file")] {
        let ended = place.spp(&["read", path]);
        check(&ended, 1, "");
        assert!(
            ended.stderr.starts_with("spp: failed to read") && ended.stderr.contains(word),
            "{}",
            ended.stderr
        );
    }
    let ended = place.spp(&["read", "../elsewhere"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("`..`"), "{}", ended.stderr);
}

#[test]
fn odd_names_are_data_to_every_command() {
    // Report B052.
    let place = Place::new();
    let long = [b'n'; 255];
    let names: [&[u8]; 20] = [
        b"a'b",
        b"a\"b",
        b"$(touch x)",
        b"`x`",
        b"a;b",
        b"a\nb",
        b"a\tb",
        b"a\\b",
        b"-rf",
        b"--help",
        b"--json",
        b"~",
        b"*",
        b" lead",
        b"trail ",
        b"caf\xe9",
        "\u{1f600}".as_bytes(),
        "caf\u{e9}".as_bytes(),
        "cafe\u{301}".as_bytes(),
        &long,
    ];
    for name in names {
        let os = std::ffi::OsStr::from_bytes(name);
        std::fs::write(place.path("input"), name).expect("a scratch file");
        let input = std::fs::File::open(place.path("input")).expect("it was just written");
        let mut write = place.command(&["write", "--"]);
        let written = finish(start(write.arg(os).stdin(input)));
        assert_eq!(written.code, Some(0), "{os:?}: {}", written.stderr);
        assert_eq!(
            std::fs::read(place.path("").join(os)).ok().as_deref(),
            Some(name)
        );
        let read = finish(start(place.command(&["read", "--"]).arg(os)));
        assert_eq!(read.stdout, name, "{os:?}: {}", read.stderr);
        let told = finish(start(place.command(&["read", "--json", "--"]).arg(os))).json();
        match std::str::from_utf8(name) {
            Ok(text) => assert_eq!(told["path"], text),
            Err(_) => assert_eq!(told["path"]["base64"], "Y2Fm6Q=="),
        }
        let ran = finish(start(place.command(&["run", "--", "cat", "--"]).arg(os)));
        assert_eq!(ran.stdout, name, "{os:?}: {}", ran.stderr);
    }
    // One more is what the input came from.
    let entries = std::fs::read_dir(place.path(""))
        .expect("a directory")
        .count();
    assert_eq!(entries, names.len() + 1);
}

#[test]
fn what_is_no_regular_file_is_refused_at_once_and_named() {
    let place = Place::new();
    std::fs::create_dir(place.path("directory")).expect("a directory");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .expect("a FIFO");
    let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).expect("a socket");
    for (name, kind) in [
        ("directory", "it is a directory"),
        ("fifo", "it is a FIFO"),
        ("socket", "it is a socket"),
    ] {
        for ended in [
            place.spp(&["read", name]),
            place.spp_with(&["write", name], b"x"),
        ] {
            check(&ended, 1, "");
            assert!(ended.stderr.contains(kind), "{}", ended.stderr);
        }
    }
}

#[test]
fn json_tells_what_was_read_and_what_was_written() {
    let place = Place::new();
    let ended = place.spp_with(&["write", "--json", "file"], b"one\r\ntwo\r\n");
    let written = ended.json();
    assert_eq!(
        (
            &written["existed"],
            &written["bytes"],
            &written["line_delta"]
        ),
        (&false.into(), &10.into(), &2.into())
    );
    let read = place.spp(&["read", "--json", "file"]).json();
    assert_eq!(read["content"]["text"], "one\r\ntwo\r\n");
    assert_eq!(read["newline"], "crlf");
    assert_eq!(read["digest"], written["digest"]);
    let digest = read["digest"].as_str().expect("a digest");

    let stale = "0".repeat(64);
    let ended = place.spp_with(&["write", "--json", "--if-digest", &stale, "file"], b"x");
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.json()["error"]["kind"], "conflict");
    assert_eq!(ended.json()["error"]["expected"], digest);
    assert_eq!(place.text("file"), "one\r\ntwo\r\n");
    let ended = place.spp_with(&["write", "--if-digest", digest, "file"], b"x");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(place.text("file"), "x");
}

#[test]
fn a_new_file_has_the_mode_it_was_given_and_is_not_made_twice() {
    let place = Place::new();
    let args = ["write", "--create-new", "--mode", "755", "run.sh"];
    assert_eq!(place.spp_with(&args, b"#!/bin/sh\n").code, Some(0));
    let mode = std::fs::metadata(place.path("run.sh"))
        .expect("it was written")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
    let ended = place.spp_with(&args, b"other");
    check(&ended, 1, "");
    assert!(ended.stderr.contains("already exists"), "{}", ended.stderr);
    assert_eq!(place.text("run.sh"), "#!/bin/sh\n");
}
