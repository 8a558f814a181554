//! Forty-five hostile archives, and what becomes of each: with a usual unpacker, for comparison, and
//! with ours.
//!
//! The first column is the `tar` crate, in a scratch directory. It shows that a row means something:
//! rows where it comes to no harm either are listed apart, and prove only that we are not worse.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path};

use sandbox_core::transfer::Compression;
use sandbox_core::{Effect, ErrorKind};
use sandbox_tree::reader::{ArchiveError, Limits, Reader, Refusal, check};
use sandbox_tree::unpack::{Omission, Receiver};

use crate::archive::{Archive, Item, directory, file, item, link};
use crate::support::{Ground, LIMITS, listing, names, told};

/// What becomes of an archive with us.
enum Ours {
    /// It is refused, with these words.
    Refused(&'static str),
    /// It is taken, and a host then has exactly this.
    Taken(&'static [&'static str]),
}
use Ours::{Refused, Taken};

struct Case {
    name: &'static str,
    archive: Vec<u8>,
    ours: Ours,
}

fn case(name: &'static str, archive: Archive, ours: Ours) -> Case {
    Case {
        name,
        archive: archive.end(),
        ours,
    }
}

fn binary(seconds: i64) -> [u8; 12] {
    let mut field = [if seconds < 0 { 0xff } else { 0 }; 12];
    field[4..].copy_from_slice(&seconds.to_be_bytes());
    field[0] = if seconds < 0 { 0xff } else { 0x80 };
    field
}

fn of<const N: usize>(items: [Item; N]) -> Archive {
    Archive::of(items)
}

fn cases() -> Vec<Case> {
    let leaving = "../../out";
    vec![
        case("T01 ../x", of([file("../x", "x")]), Refused("`..`")),
        case(
            "T02 absolute",
            of([file("/tmp/spp-absolute/x", "x")]),
            Refused("absolute"),
        ),
        case(
            "T03 link to a directory, then a file through it",
            of([link("l", leaving), file("l/pwned", "x")]),
            Refused("what it lies in came before"),
        ),
        case(
            "T04 link to a file, then a file of its name",
            of([link("l", "../../out/victim"), file("l", "x")]),
            Refused("an entry of this name came before"),
        ),
        case(
            "T05 hard link to .., then a write",
            of([
                Item {
                    link: b"../../out/victim".to_vec(),
                    ..item(b'1', "h")
                },
                file("h", "x"),
            ]),
            Refused("a hard link"),
        ),
        case(
            "T06 hard link, absolute",
            of([Item {
                link: b"/etc/hostname".to_vec(),
                ..item(b'1', "h")
            }]),
            Refused("a hard link"),
        ),
        case(
            "T07 hard link to a link that leaves",
            of([
                link("s", "../../out/victim"),
                Item {
                    link: b"s".to_vec(),
                    ..item(b'1', "h")
                },
            ]),
            Refused("a hard link"),
        ),
        case(
            "T08 link that leaves",
            of([link("secret", "../../out/victim"), file("a", "x")]),
            Taken(&["a 644 \"x\""]),
        ),
        case(
            "T09 character device",
            of([item(b'3', "dev")]),
            Refused("a character device"),
        ),
        case(
            "T10 block device",
            of([item(b'4', "dev")]),
            Refused("a block device"),
        ),
        case("T11 FIFO", of([item(b'6', "pipe")]), Refused("a FIFO")),
        case(
            "T12 set-id bits",
            of([file("s", "x").mode(0o6755), directory("t").mode(0o3777)]),
            Taken(&["s 755 \"x\"", "t/ 755"]),
        ),
        case(
            "T13 writable by everybody",
            of([directory("w").mode(0o777), file("w/f", "x").mode(0o666)]),
            Taken(&["w/ 755", "w/f 644 \"x\""]),
        ),
        case(
            "T14 directory without bits, then a file in it",
            of([directory("d").mode(0), file("d/f", "x").mode(0)]),
            Taken(&["d/ 755", "d/f 644 \"x\""]),
        ),
        case(
            "T15 attributes by extension",
            Archive::default()
                .extended(b'x', [("SCHILY.xattr.user.a", &b"x"[..])])
                .with(file("a", "x")),
            Refused("SCHILY.xattr.user.a"),
        ),
        case(
            "T16 sparse, 8 TiB in one block",
            sparse(),
            Refused("a sparse file"),
        ),
        Case {
            name: "T17 8 GiB declared, a block there",
            archive: Archive::of([Item {
                size: Some(8 << 30),
                ..file("big", "x")
            }])
            .0,
            ours: Refused("more than"),
        },
        case(
            "T18 too many entries",
            Archive::of((0..2000).map(|number| file(format!("f{number}"), ""))),
            Refused("more than 1000 entries"),
        ),
        case(
            "T19 too deep",
            Archive::default()
                .long(b'L', "d/".repeat(100) + "f")
                .with(file("x", "")),
            Refused("deeper than 64 levels"),
        ),
        case(
            "T20 a file twice",
            of([file("a", "1"), file("a", "2")]),
            Refused("came before"),
        ),
        case(
            "T21 directory, then a file of its name",
            of([directory("a"), file("a", "x")]),
            Refused("came before"),
        ),
        case(
            "T22 link, then a directory of its name",
            of([link("d", leaving), directory("d").mode(0o700)]),
            Refused("came before"),
        ),
        case(
            "T23 names that differ in case",
            of([file("a", "1"), file("A", "2")]),
            Taken(&["A 644 \"2\"", "a 644 \"1\""]),
        ),
        case(
            "T24 extended path with ..",
            Archive::default()
                .extended(b'x', [("path", &b"../x"[..])])
                .with(file("a", "x")),
            Refused("`..`"),
        ),
        case(
            "T25 two extended paths",
            Archive::default()
                .extended(b'x', [("path", &b"one"[..]), ("path", b"two")])
                .with(file("a", "x")),
            Refused("two extension records"),
        ),
        case(
            "T26 extended text of a hard link",
            Archive::default()
                .extended(b'x', [("linkpath", &b"../../out/victim"[..])])
                .with(item(b'1', "h")),
            Refused("a hard link"),
        ),
        case(
            "T27 extended size that hides an entry",
            Archive::default()
                .extended(b'x', [("size", &b"1024"[..])])
                .with(file("a", ""))
                .with(file("hidden", "")),
            Refused("\"size\""),
        ),
        case(
            "T28 path for all entries",
            Archive::default()
                .extended(b'g', [("path", &b"x"[..])])
                .with(file("a", "x")),
            Refused("holds for all entries"),
        ),
        case(
            "T29 names with control bytes and without UTF-8",
            of([
                file("a\nb", "1"),
                file("c\x1b[31m", "2"),
                file(b"\xff", "3"),
            ]),
            Taken(&[
                "a\nb 644 \"1\"",
                "c\x1b[31m 644 \"2\"",
                "\u{fffd} 644 \"3\"",
            ]),
        ),
        case(
            "T30 names with a backslash and a drive",
            of([file("..\\x", "1"), file("C:x", "2")]),
            Taken(&["..\\x 644 \"1\"", "C:x 644 \"2\""]),
        ),
        case(
            "T31 component of 300 bytes",
            Archive::default()
                .long(b'L', "n".repeat(300))
                .with(file("x", "")),
            Refused("longer than 255 bytes"),
        ),
        case(
            "T32 times at the ends of the world",
            of([
                Item {
                    mtime: Some(binary(1 << 62)),
                    ..file("late", "x")
                },
                Item {
                    mtime: Some(binary(-5)),
                    ..file("early", "x")
                },
            ]),
            Taken(&["early 644 \"x\"", "late 644 \"x\""]),
        ),
        case(
            "T33 unknown type",
            of([item(b'Z', "z")]),
            Refused("of the type 'Z'"),
        ),
        case(
            "T34 long name with a NUL in it",
            Archive::default()
                .long(b'L', "a\0../b")
                .with(file("x", "x")),
            Refused("malformed"),
        ),
        case(
            "T35 chain of links upwards",
            of([link("b", leaving), link("a", "b"), file("a/x", "x")]),
            Refused("what it lies in came before"),
        ),
        case(
            "T36 link through a directory upwards",
            of([
                directory("s"),
                directory("s/sub"),
                link("s/l", "sub/../../../out"),
            ]),
            Taken(&["s/ 755", "s/sub/ 755"]),
        ),
        case(
            "T37 the root itself, writable by everybody",
            of([directory(".").mode(0o777)]),
            Taken(&[]),
        ),
        case(
            "T38 hard link to an earlier file",
            of([
                file("a", "x"),
                Item {
                    link: b"a".to_vec(),
                    ..item(b'1', "b")
                },
            ]),
            Refused("--hard-dereference"),
        ),
        Case {
            name: "T39 wrong checksum",
            archive: {
                let mut archive = Archive::of([file("a", "x")]).end();
                archive[0] = b'b';
                archive
            },
            ours: Refused("checksum"),
        },
        Case {
            name: "T40 something after the end",
            archive: [Archive::of([file("a", "x")]).end(), b"garbage".to_vec()].concat(),
            ours: Refused("something follows the end"),
        },
        case(
            "T41 link to a directory that was there before",
            of([file("pre/x", "x")]),
            Refused("there already"),
        ),
        case(
            "T42 link to a file that was there before",
            of([file("prefile", "x")]),
            Refused("there already"),
        ),
        case("T43 no name", of([file("", "x")]), Refused("no name")),
        case(
            "T44 file, then something in it",
            of([file("a", "x"), file("a/b", "x")]),
            Refused("what it lies in came before"),
        ),
        case(
            "T45 link hidden behind a link to .",
            of([
                directory("x"),
                directory("x/y"),
                link("x/k", "."),
                link("x/y/l", "../k/../../../out/victim"),
            ]),
            Taken(&["x/ 755", "x/k -> .", "x/y/ 755"]),
        ),
    ]
}

/// The old GNU form: where the data lies, and how long the file is.
fn sparse() -> Archive {
    let mut block = [0_u8; 512];
    block[..5].copy_from_slice(b"holes");
    block[100..108].copy_from_slice(b"0000644\0");
    block[108..124].copy_from_slice(b"0000000\x000000000\0");
    block[124..136].copy_from_slice(b"00000001000\0");
    block[136..148].copy_from_slice(b"14000000000\0");
    block[156] = b'S';
    block[257..265].copy_from_slice(b"ustar  \0");
    let size = (8_u64 << 40).to_be_bytes();
    block[386] = 0x80;
    block[390..398].copy_from_slice(&((8_u64 << 40) - 512).to_be_bytes());
    block[398..410].copy_from_slice(b"00000001000\0");
    block[483] = 0x80;
    block[487..495].copy_from_slice(&size);
    let mut archive = Archive::default().header(block);
    archive.0.extend_from_slice(&[b'x'; 512]);
    archive
}

/// What an unpacker did that it should not have.
fn findings(ground: &Ground, failed: bool) -> Vec<String> {
    let mut found = Vec::new();
    if !ground.outside_is_untouched() {
        found.push("OUTSIDE".to_owned());
    }
    let dst = ground.dst();
    let mut open = vec![dst.clone()];
    let mut entries = 0;
    while let Some(directory) = open.pop() {
        let Ok(list) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in list.flatten() {
            let path = entry.path();
            let Ok(meta) = fs::symlink_metadata(&path) else {
                continue;
            };
            let name = path
                .strip_prefix(&dst)
                .expect("beneath")
                .display()
                .to_string();
            entries += 1;
            if meta.is_symlink() {
                // One that was put there beforehand is no work of the unpacker.
                if leaves(&dst, &path) && !name.starts_with("pre") {
                    found.push(format!("link out {name}"));
                }
                continue;
            }
            let mode = meta.permissions().mode();
            if mode & 0o6000 != 0 {
                found.push(format!("set-id {name}"));
            }
            if mode & 0o002 != 0 {
                found.push(format!("writable by all {name}"));
            }
            if meta.size() > 1 << 30 {
                found.push(format!("{} GiB {name}", meta.size() >> 30));
            }
            let kind = meta.file_type();
            if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device()
            {
                found.push(format!("special {name}"));
            }
            if meta.is_dir() {
                open.push(path);
            }
        }
    }
    if failed && entries > 0 && !dst.join("pre").exists() {
        found.push(format!("{entries} left of a tree that failed"));
    }
    found
}

/// Whether a link leads out of the tree, as the kernel would see it.
fn leaves(root: &Path, link: &Path) -> bool {
    let text = fs::read_link(link).expect("a link");
    let mut place = link.parent().expect("it lies somewhere").to_owned();
    for component in text.components() {
        match component {
            Component::RootDir => return true,
            Component::ParentDir => {
                place = fs::canonicalize(&place).unwrap_or(place);
                place.pop();
            }
            Component::Normal(name) => place.push(name),
            _ => {}
        }
        let real = fs::canonicalize(&place).unwrap_or_else(|_| place.clone());
        if !real.starts_with(fs::canonicalize(root).expect("it is there")) {
            return true;
        }
    }
    false
}

/// T41 and T42 find links that were there before.
fn prepare(ground: &Ground, case: &Case) -> bool {
    let prepared = case.name.starts_with("T41") || case.name.starts_with("T42");
    if prepared {
        fs::create_dir(ground.dst()).expect("made");
        std::os::unix::fs::symlink("../../out", ground.dst().join("pre")).expect("made");
        std::os::unix::fs::symlink("../../out/victim", ground.dst().join("prefile")).expect("made");
    }
    prepared
}

fn naive(case: &Case) -> Vec<String> {
    let ground = Ground::new();
    if !prepare(&ground, case) {
        fs::create_dir(ground.dst()).expect("made");
    }
    // An absolute name loses its slash there, so that nothing real is in reach.
    let result = tar::Archive::new(&case.archive[..]).unpack(ground.dst());
    findings(&ground, result.is_err())
}

/// What happens with us, at a host and in a sandbox; the words of the refusal, if it was one.
fn ours(case: &Case, receiver: Receiver) -> Option<String> {
    let ground = Ground::new();
    let prepared = prepare(&ground, case);
    let before = listing(&ground.work());
    let result = if prepared {
        ground.merge(&case.archive, None, receiver)
    } else {
        ground.create(&case.archive, receiver)
    };
    assert!(
        ground.outside_is_untouched(),
        "{}: something outside changed",
        case.name
    );
    match result {
        Ok(_) => {
            assert_eq!(names(&ground.work()), ["dst"], "{}: residue", case.name);
            if receiver == Receiver::Host {
                assert_eq!(findings(&ground, false), [""; 0], "{}", case.name);
                if let Taken(expected) = &case.ours {
                    assert_eq!(listing(&ground.dst()), *expected, "{}", case.name);
                }
            }
            None
        }
        Err(error) => {
            assert_eq!(error.effect(), Effect::None, "{}: {error}", case.name);
            assert_eq!(listing(&ground.work()), before, "{}: residue", case.name);
            Some(error.to_string())
        }
    }
}

#[test]
fn hostile_archives_are_refused_whole_or_come_to_nothing() {
    let (mut harmful, mut apart) = (String::new(), String::new());
    let cases = cases();
    assert_eq!(cases.len(), 45);
    for case in &cases {
        let naive = naive(case);
        for receiver in [Receiver::Host, Receiver::Sandbox] {
            let refusal = ours(case, receiver);
            match (&case.ours, &refusal) {
                (Taken(_), None) => {}
                (Refused(words), Some(text)) if text.contains(words) => {}
                (_, other) => panic!("{} at a {receiver:?}: {other:?}", case.name),
            }
        }
        let table = if naive.is_empty() {
            &mut apart
        } else {
            &mut harmful
        };
        let ours = match case.ours {
            Refused(words) => format!("refused: {words}"),
            Taken(_) => "taken, harmless".to_owned(),
        };
        table.push_str(&format!(
            "{:48} {:40} {ours}\n",
            case.name,
            naive.join(", ")
        ));
    }
    let text = format!("HARMFUL ELSEWHERE\n{harmful}\nHARMLESS ELSEWHERE TOO\n{apart}");
    // The control column must show something, or the rows prove nothing.
    for row in ["T03", "T07", "T08", "T13", "T22", "T35", "T36", "T45"] {
        assert!(harmful.contains(row), "{row} harms nobody\n{text}");
    }
    #[expect(
        clippy::print_stdout,
        reason = "the table is what this test is read for"
    )]
    {
        println!("{text}");
    }
}

#[test]
fn a_host_is_told_what_it_did_not_get() {
    let ground = Ground::new();
    let archive = Archive::of([
        link("out", "/etc/passwd"),
        file(".git/config", "[core]\nfsmonitor = evil\n"),
        file("sub/.GIT/hooks/post-checkout", "evil").mode(0o755),
        link("git", "sub/.git"),
        file("run", "x").mode(0o711),
    ])
    .end();
    let placed = ground.create(&archive, Receiver::Host).expect("taken");
    assert_eq!(listing(&ground.dst()), ["run 755 \"x\""]);
    let omitted: Vec<_> = placed
        .unpacked
        .omitted
        .iter()
        .map(|omitted| (omitted.path.to_string(), omitted.reason == Omission::Git))
        .collect();
    assert_eq!(
        omitted,
        [
            ("out".to_owned(), false),
            (".git/config".to_owned(), true),
            ("sub/.GIT/hooks/post-checkout".to_owned(), true),
            ("git".to_owned(), false),
        ]
    );
}

#[test]
fn a_sandbox_gets_bits_times_links_and_empty_directories_as_they_were_sent() {
    let ground = Ground::new();
    let archive = Archive::of([
        directory("locked").mode(0o500),
        file("locked/f", "x").mode(0o440),
        directory("empty").mode(0o711),
        link("out", "/etc/passwd"),
        file(b"caf\xe9", "x").mode(0o4755),
        Item {
            mtime: Some(binary(-5)),
            ..file("old", "x")
        },
    ])
    .end();
    ground.create(&archive, Receiver::Sandbox).expect("taken");
    assert_eq!(
        listing(&ground.dst()),
        [
            "caf\u{fffd} 755 \"x\"",
            "empty/ 711",
            "locked/ 500",
            "locked/f 440 \"x\"",
            "old 644 \"x\"",
            "out -> /etc/passwd",
        ]
    );
    let time = |name: &str| {
        fs::symlink_metadata(ground.dst().join(name))
            .expect("there")
            .mtime()
    };
    assert_eq!(
        (time("old"), time("locked"), time("out")),
        (-5, 0o14000000000, 0o14000000000)
    );
}

#[test]
fn an_archive_that_is_cut_anywhere_leaves_nothing() {
    let archive = Archive::of([directory("d"), file("d/f", "x".repeat(600)), link("l", "d")]).end();
    for end in (0..archive.len()).step_by(64) {
        let ground = Ground::new();
        let error = ground
            .create(&archive[..end], Receiver::Sandbox)
            .expect_err("half an archive was taken");
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::InvalidArgument, Effect::None),
            "{}",
            told(&error)
        );
        assert_eq!(names(&ground.work()), [""; 0], "cut at {end}");
    }
}

/// Blocks of zeros without end, counted.
struct Endless {
    head: io::Cursor<Vec<u8>>,
    taken: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.head.read(buffer)? {
            0 => {
                buffer.fill(0);
                buffer.len()
            }
            read => read,
        };
        self.taken
            .fetch_add(read as u64, std::sync::atomic::Ordering::Relaxed);
        Ok(read)
    }
}

#[test]
fn a_record_of_600_mebibytes_is_refused_before_it_is_read() {
    for kind in [b'L', b'K', b'x'] {
        let head = Archive::of([Item {
            size: Some(600 << 20),
            ..item(kind, "bomb")
        }])
        .0;
        let taken = std::sync::Arc::default();
        let source = Endless {
            head: io::Cursor::new(head),
            taken: std::sync::Arc::clone(&taken),
        };
        let error = check(source, Compression::None, Limits::default()).expect_err("taken");
        assert!(
            matches!(
                error,
                ArchiveError::Refused {
                    refusal: Refusal::RecordTooLong(_),
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(taken.load(std::sync::atomic::Ordering::Relaxed), 512);
    }
}

#[test]
fn what_gzip_swells_to_is_bounded_and_several_members_are_one_archive() {
    use std::io::Write as _;
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("compressed");
        encoder.finish().expect("compressed")
    };
    let small = Archive::of([file("a", "x")]);
    let whole = small.clone().end();
    let members = [gzip(&whole[..700]), gzip(&whole[700..])].concat();
    let read = |bytes: &[u8]| check(io::Cursor::new(bytes.to_vec()), Compression::Gzip, LIMITS);
    assert_eq!(read(&members).expect("two members"), 1);
    assert!(matches!(
        read(&members[..members.len() - 4]),
        Err(ArchiveError::Source(_))
    ));
    assert!(
        read(&[&members[..], b"garbage"].concat()).is_err(),
        "garbage after the members"
    );
    // The content itself, and zeros after the end: neither may go on for ever.
    let mut bomb = small.with(file("b", vec![0; 65 << 20])).end();
    assert!(gzip(&bomb).len() < 1 << 20);
    let too_many = |bytes: &[u8]| {
        matches!(
            read(&gzip(bytes)),
            Err(ArchiveError::Refused {
                refusal: Refusal::TooManyBytes(_),
                ..
            })
        )
    };
    assert!(too_many(&bomb));
    bomb = whole;
    bomb.resize(65 << 20, 0);
    assert!(too_many(&bomb));
}

#[test]
fn what_the_tar_crate_and_the_long_forms_write_is_read() {
    let name = "deep/".repeat(40) + "file";
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(3);
    header.set_mode(0o640);
    header.set_mtime(7);
    builder
        .append_data(&mut header, &name, &b"abc"[..])
        .expect("appended");
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    header.set_mode(0o777);
    builder
        .append_link(&mut header, "link", "x".repeat(99))
        .expect("appended");
    let archive = builder.into_inner().expect("finished");
    let mut reader = Reader::new(&archive[..], LIMITS);
    let entry = reader.next_entry().expect("read").expect("an entry");
    assert_eq!(entry.path.as_str(), Some(name.as_str()));
    assert_eq!((entry.mode, entry.modified), (0o640, (7, 0)));
    let entry = reader.next_entry().expect("read").expect("an entry");
    assert!(matches!(entry.kind, sandbox_tree::reader::Kind::Link { text } if text.len() == 99));
    assert!(reader.next_entry().expect("read").is_none());
}
