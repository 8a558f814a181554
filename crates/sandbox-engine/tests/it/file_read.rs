//! Reading: ranges, limits, what is no file, and files that change meanwhile.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox_core::file::{Encoding, MAX_FILE_BYTES, Newline, Range, ReadManyRequest, ReadRequest};
use sandbox_core::{Cancel, Ctx, Effect, ErrorKind};

use super::file::{Name, Tree, refused};

fn make_fifo(path: &Path) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .expect("a FIFO");
}

#[tokio::test]
async fn what_is_no_regular_file_is_refused_at_once_and_named() {
    let tree = Tree::with(|roots, _| {
        roots
            .add("/dev".as_ref(), sandbox_core::MountAccess::ReadWrite)
            .expect("it is there");
    });
    make_fifo(&tree.inside.join("fifo"));
    std::fs::create_dir(tree.inside.join("directory")).expect("a directory");
    let _socket = UnixListener::bind(tree.inside.join("socket")).expect("a socket");
    tree.plant_link("to_fifo", "fifo");
    let started = Instant::now();
    for (name, what) in [
        ("fifo", "a FIFO"),
        ("to_fifo", "a FIFO"),
        ("directory", "a directory"),
        (".", "a directory"),
        ("socket", "a socket"),
        ("/dev/zero", "a character device"),
        ("/dev/tty", "a character device"),
    ] {
        let error = refused(tree.read(name).await, ErrorKind::NotAFile);
        assert!(error.to_string().contains(what), "{error}");
        refused(tree.put(name, "x").await, ErrorKind::NotAFile);
    }
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "something waited for a writer"
    );
}

#[tokio::test]
async fn a_fifo_does_not_notice_that_somebody_wanted_to_read_it() {
    let tree = Tree::new();
    make_fifo(&tree.inside.join("fifo"));
    let writer = {
        let path = tree.inside.join("fifo");
        std::thread::spawn(move || std::fs::write(path, "for somebody else"))
    };
    for _ in 0..200 {
        refused(tree.read("fifo").await, ErrorKind::NotAFile);
    }
    assert!(
        !writer.is_finished(),
        "the writer was let go by a read that was refused"
    );
    assert_eq!(
        std::fs::read_to_string(tree.inside.join("fifo")).expect("it comes"),
        "for somebody else"
    );
    writer
        .join()
        .expect("it does not panic")
        .expect("it writes");
}

#[tokio::test]
async fn small_files_and_large_ones_are_read_alike() {
    let tree = Tree::new();
    for size in [1_usize, 4096, 65_536, 65_537, 3_000_000] {
        let content: Vec<u8> = (0..size)
            .map(|at| {
                if at % 80 == 79 {
                    b'\n'
                } else {
                    b"abcdefg"[at % 7]
                }
            })
            .collect();
        tree.plant("file", &content);
        let read = tree.read("file").await.expect("readable");
        assert!(read.bytes == content, "{size} bytes differ");
        assert_eq!(read.total_bytes, size as u64);
        assert_eq!(
            read.total_lines,
            Some(content.split_inclusive(|&byte| byte == b'\n').count() as u64)
        );
        assert_eq!(
            read.digest.map(|digest| digest.to_string()),
            Some(blake3::hash(&content).to_hex().to_string())
        );
    }
}

#[tokio::test]
async fn lines_deep_in_a_large_file_are_found_and_nothing_else_is_carried() {
    let tree = Tree::new();
    let content: String = (1..=400_000)
        .map(|number| format!("line {number}\n"))
        .collect();
    tree.plant("log", &content);
    let part = tree
        .part(
            "log",
            Range::Lines {
                first: 399_999,
                count: 5,
            },
        )
        .await
        .expect("readable");
    assert_eq!(part.bytes, "line 399999\nline 400000\n");
    assert_eq!(part.offset, (content.len() - part.bytes.len()) as u64);
    assert_eq!(
        (part.total_bytes, part.total_lines, part.digest),
        (content.len() as u64, None, None)
    );
    let all = tree
        .part(
            "log",
            Range::Lines {
                first: 1,
                count: u64::MAX,
            },
        )
        .await
        .expect("readable");
    assert_eq!(all.total_lines, Some(400_000));
    let past = tree
        .part(
            "log",
            Range::Lines {
                first: 500_000,
                count: 1,
            },
        )
        .await
        .expect("nothing is there");
    assert_eq!((past.bytes.len(), past.offset), (0, content.len() as u64));
    refused(
        tree.part("log", Range::Lines { first: 0, count: 1 }).await,
        ErrorKind::InvalidArgument,
    );
}

#[tokio::test]
async fn a_file_beyond_every_limit_is_read_by_range_and_refused_whole_with_its_size() {
    let tree = Tree::new();
    let file = std::fs::File::create(tree.inside.join("huge")).expect("a file");
    let size = MAX_FILE_BYTES * 64;
    file.set_len(size).expect("a hole");
    let error = refused(tree.read("huge").await, ErrorKind::TooLarge);
    assert!(error.to_string().contains(&size.to_string()), "{error}");
    let part = tree
        .part(
            "huge",
            Range::Bytes {
                offset: size - 3,
                length: 10,
            },
        )
        .await
        .expect("a range");
    assert_eq!(
        (part.bytes.as_ref(), part.total_bytes),
        (&[0_u8, 0, 0][..], size)
    );
    let error = refused(
        tree.part(
            "huge",
            Range::Bytes {
                offset: 0,
                length: size,
            },
        )
        .await,
        ErrorKind::TooLarge,
    );
    assert!(error.to_string().contains(&size.to_string()), "{error}");
    refused(
        tree.part("huge", Range::Lines { first: 1, count: 1 }).await,
        ErrorKind::TooLarge,
    );
}

#[tokio::test]
async fn a_part_is_described_by_its_own_bytes_and_the_files_mark() {
    let tree = Tree::new();
    tree.plant("text", "\u{feff}€ one\r\ntwo\n");
    let part = tree
        .part(
            "text",
            Range::Bytes {
                offset: 4,
                length: 9,
            },
        )
        .await
        .expect("readable");
    assert_eq!(
        (part.text.encoding, part.text.bom, part.text.newline),
        (Encoding::Utf8, true, Newline::CrLf)
    );
}

#[tokio::test]
async fn many_files_are_answered_in_order_each_for_itself_within_one_total() {
    let tree = Tree::new();
    tree.plant("a", "12345");
    tree.plant("b", "123456");
    tree.plant("c", "1234");
    let paths = ["a", "missing", "b", "c"].map(|name| name.path()).to_vec();
    let items = tree
        .files
        .read_many(
            &Ctx::new(),
            ReadManyRequest {
                paths,
                total_max: 10,
            },
        )
        .await
        .expect("answered");
    let kinds: Vec<_> = items
        .iter()
        .map(|item| {
            item.as_ref()
                .map(|content| content.bytes.len())
                .map_err(sandbox_core::Error::kind)
        })
        .collect();
    assert_eq!(
        kinds,
        [
            Ok(5),
            Err(ErrorKind::NotFound),
            Err(ErrorKind::TooLarge),
            Ok(4)
        ]
    );
}

#[tokio::test]
async fn a_file_that_grows_and_shrinks_meanwhile_gives_what_was_there() {
    let tree = Tree::new();
    tree.plant("moving", vec![b'x'; 1 << 20]);
    let path = tree.inside.join("moving");
    let changer = std::thread::spawn(move || {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(path)
            .expect("a file");
        for round in 0..400 {
            file.set_len(if round % 2 == 0 { 100 } else { 1 << 20 })
                .expect("a length");
        }
    });
    while !changer.is_finished() {
        let read = tree.read("moving").await.expect("readable");
        assert_eq!(read.bytes.len() as u64, read.total_bytes);
        assert!(read.total_bytes <= 1 << 20);
        let part = tree
            .part(
                "moving",
                Range::Bytes {
                    offset: 50,
                    length: 1 << 19,
                },
            )
            .await
            .expect("readable");
        assert!(part.bytes.len() <= 1 << 19);
    }
    changer.join().expect("it ends");
}

#[tokio::test]
async fn a_call_that_was_cancelled_or_is_late_is_answered_so_and_does_nothing() {
    let tree = Tree::new();
    tree.plant("file", "x");
    let cancel = Cancel::new();
    cancel.cancel();
    let cancelled = Ctx::new().with_cancel(cancel);
    let late = Ctx::new().with_timeout(Duration::ZERO);
    for (ctx, kind) in [
        (cancelled, ErrorKind::Cancelled),
        (late, ErrorKind::DeadlineExceeded),
    ] {
        refused(
            tree.files.read(&ctx, ReadRequest::new("file".path())).await,
            kind,
        );
        let change = sandbox_core::file::Change::put("file".path(), "y");
        refused(
            tree.files
                .write(&ctx, sandbox_core::file::WriteRequest::new([change]))
                .await,
            kind,
        );
        let remove = sandbox_core::file::RemoveRequest {
            path: "file".path(),
            recursion: sandbox_core::file::Recursion::Yes,
        };
        refused(tree.files.remove(&ctx, remove).await, kind);
    }
    assert_eq!(tree.bytes("file"), b"x");
}

#[tokio::test]
async fn a_change_given_up_while_it_goes_through_the_old_content_changes_nothing() {
    let tree = Tree::new();
    tree.plant("endless", "");
    let file = std::fs::File::options()
        .write(true)
        .open(tree.inside.join("endless"))
        .expect("it is there");
    // Of holes alone, and hours long to go through.
    file.set_len(1 << 42).expect("room for holes");
    let ctx = Ctx::new().with_timeout(Duration::from_millis(200));
    let change = sandbox_core::file::Change::put("endless".path(), "y");
    let mut answers = tree
        .files
        .write(&ctx, sandbox_core::file::WriteRequest::new([change]))
        .await
        .expect("an answer for each change");
    let error = answers.pop().expect("one").expect_err("it was given up");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::DeadlineExceeded, Effect::None)
    );
    assert_eq!(file.metadata().expect("it is there").len(), 1 << 42);
}

/// The names of reports B052 and B059, and spellings of one name that no file system may merge (B058).
pub(crate) const ODD_NAMES: [&[u8]; 24] = [
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
    b"~",
    b"*",
    b" leading",
    b"trailing ",
    b"...",
    b"caf\xe9",
    b"\xff\xfe",
    "\u{1f600}".as_bytes(),
    "caf\u{e9}".as_bytes(),
    "cafe\u{301}".as_bytes(),
    b"%s%n",
    b"C:",
    b"nul",
    b"\x01\x7f",
];

#[tokio::test]
async fn odd_names_are_data_to_every_verb() {
    use sandbox_core::file::{Change, Existing, Recursion};
    let tree = Tree::new();
    let longest = vec![b'n'; 255];
    for name in ODD_NAMES.into_iter().chain([longest.as_slice()]) {
        tree.put(name, name).await.expect("put");
    }
    let there = std::fs::read_dir(&tree.inside)
        .expect("a directory")
        .count();
    assert_eq!(
        there,
        ODD_NAMES.len() + 1,
        "two names were taken for one, or one did something"
    );
    for name in ODD_NAMES.into_iter().chain([longest.as_slice()]) {
        assert_eq!(tree.read(name).await.expect("read").bytes, name);
        let text = format!("e{}", name.len());
        tree.change(Change::edit(name.path(), name.to_vec(), text.clone()))
            .await
            .expect("edit");
        tree.change(Change::SetMode {
            path: name.path(),
            mode: 0o600,
        })
        .await
        .expect("mode");
        let stat = tree.stat(name).await.expect("stat").expect("it is there");
        assert_eq!((stat.size, stat.mode), (text.len() as u64, 0o600));
        let (directory, within) = ("d".path(), "d".path().join(name).expect("valid"));
        tree.change(Change::MakeDirectory {
            path: directory,
            mode: None,
        })
        .await
        .expect("directory");
        let rename = Change::Rename {
            from: name.path(),
            to: within.clone(),
            existing: Existing::Keep,
        };
        tree.change(rename).await.expect("rename");
        tree.change(Change::Link {
            path: name.path(),
            target: within.as_bytes().to_vec().into(),
        })
        .await
        .expect("link");
        assert_eq!(tree.read(name).await.expect("through the link").bytes, text);
        assert_eq!(
            tree.remove("d", Recursion::Yes)
                .await
                .expect("removed")
                .entries,
            2
        );
        assert!(
            tree.remove(name, Recursion::No)
                .await
                .expect("removed")
                .existed
        );
        assert_eq!(tree.stat(name).await.expect("stat"), None);
    }
    assert_eq!(
        std::fs::read_dir(&tree.inside)
            .expect("a directory")
            .count(),
        0
    );
}
