//! Trees put into a directory that is there: what a base promises, and what a conflict leaves.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use sandbox_core::transfer::Manifest;
use sandbox_core::{Effect, ErrorKind, Result};
use sandbox_tree::unpack::Receiver;
use sandbox_tree::unpack::place::{Delta, Placed};

use crate::archive::{Archive, Item, directory, file, link};
use crate::support::{Ground, listing, names, path, told};

/// A tree that was pushed, and its manifest.
fn pushed() -> (Ground, Manifest) {
    let ground = Ground::new();
    let archive = Archive::of([
        directory("src"),
        file("src/a", "old a"),
        file("src/b", "old b"),
        directory("gone"),
        file("gone/f", "old"),
        link("link", "src"),
    ])
    .end();
    let placed = ground.create(&archive, Receiver::Sandbox).expect("taken");
    (ground, placed.manifest)
}

fn delta<const I: usize>(
    ground: &Ground,
    base: &Manifest,
    removed: &[&str],
    items: [Item; I],
) -> Result<Placed> {
    let removed: Vec<_> = removed.iter().map(|text| path(text)).collect();
    let delta = Delta {
        base,
        removed: &removed,
    };
    ground.merge(&Archive::of(items).end(), Some(delta), Receiver::Sandbox)
}

/// A delta that must be refused, and the tree as it was.
fn refused<const I: usize>(
    ground: &Ground,
    base: &Manifest,
    removed: &[&str],
    items: [Item; I],
    kind: ErrorKind,
    subject: &str,
) {
    let before = listing(&ground.work());
    let error = delta(ground, base, removed, items).expect_err("it was taken");
    assert_eq!(
        (error.kind(), error.effect(), error.subject()),
        (kind, Effect::None, subject),
        "{}",
        told(&error)
    );
    assert_eq!(listing(&ground.work()), before, "something changed");
}

#[test]
fn a_delta_changes_adds_and_removes_and_leaves_the_rest() {
    let (ground, base) = pushed();
    fs::write(ground.dst().join("mine"), "kept").expect("written");
    let inode = |name: &str| {
        fs::symlink_metadata(ground.dst().join(name))
            .expect("there")
            .ino()
    };
    let untouched = inode("src/b");
    let placed = delta(
        &ground,
        &base,
        &["gone", "gone/f"],
        [
            file("src/a", "new a"),
            file("new/deep/f", "new"),
            link("link", "new"),
        ],
    )
    .expect("taken");
    let now = [
        "link -> new",
        "mine 644 \"kept\"",
        "new/ 755",
        "new/deep/ 755",
        "new/deep/f 644 \"new\"",
        "src/ 755",
        "src/a 644 \"new a\"",
        "src/b 644 \"old b\"",
    ];
    assert_eq!(listing(&ground.dst()), now);
    assert_eq!(inode("src/b"), untouched);
    assert_eq!(placed.removed, 2);
    let listed: Vec<_> = placed
        .manifest
        .entries
        .iter()
        .map(|entry| entry.path.to_string())
        .collect();
    assert_eq!(
        listed,
        [
            "link",
            "new",
            "new/deep",
            "new/deep/f",
            "src",
            "src/a",
            "src/b"
        ]
    );
    // The manifest is a base for the next one.
    delta(
        &ground,
        &placed.manifest,
        &["src/b"],
        [file("src/a", "newer")],
    )
    .expect("taken");
}

#[test]
fn what_changes_its_kind_is_replaced_whole() {
    let (ground, base) = pushed();
    let placed = delta(
        &ground,
        &base,
        &["gone/f"],
        [
            file("gone", "a file now"),
            file("src/a/f", "a directory now"),
            directory("link"),
        ],
    )
    .expect("taken");
    assert_eq!(
        listing(&ground.dst()),
        [
            "gone 644 \"a file now\"",
            "link/ 755",
            "src/ 755",
            "src/a/ 755",
            "src/a/f 644 \"a directory now\"",
            "src/b 644 \"old b\"",
        ]
    );
    assert_eq!(placed.removed, 1);
    assert_eq!(names(&ground.work()), ["dst"]);
}

#[test]
fn what_is_not_as_the_base_says_is_a_conflict_and_nothing_changes() {
    let (ground, base) = pushed();
    let dst = ground.dst();
    // Touched: content of the same length.
    fs::write(dst.join("src/a"), "OLD A").expect("written");
    refused(
        &ground,
        &base,
        &[],
        [file("src/a", "x")],
        ErrorKind::Conflict,
        "src/a",
    );
    refused(&ground, &base, &["src/a"], [], ErrorKind::Conflict, "src/a");
    // Not touched, and another length.
    fs::write(dst.join("src/a"), "old a").expect("written");
    fs::write(dst.join("src/b"), "longer than before").expect("written");
    refused(
        &ground,
        &base,
        &[],
        [file("src/a", "x")],
        ErrorKind::Conflict,
        "src/b",
    );
    fs::write(dst.join("src/b"), "old b").expect("written");
    // Permission bits, a link in place of a directory, gone.
    fs::set_permissions(dst.join("src/b"), PermissionsExt::from_mode(0o600)).expect("set");
    refused(
        &ground,
        &base,
        &[],
        [file("n", "x")],
        ErrorKind::Conflict,
        "src/b",
    );
    fs::set_permissions(dst.join("src/b"), PermissionsExt::from_mode(0o644)).expect("set");
    fs::rename(dst.join("gone"), dst.join("elsewhere")).expect("moved");
    std::os::unix::fs::symlink(ground.out(), dst.join("gone")).expect("made");
    refused(
        &ground,
        &base,
        &[],
        [file("gone/victim", "x")],
        ErrorKind::Conflict,
        "gone",
    );
    fs::remove_file(dst.join("gone")).expect("removed");
    refused(&ground, &base, &["gone/f"], [], ErrorKind::Conflict, "gone");
    assert!(ground.outside_is_untouched());
}

#[test]
fn what_the_base_does_not_know_is_never_replaced_or_lost() {
    let (ground, base) = pushed();
    let dst = ground.dst();
    fs::write(dst.join("mine"), "kept").expect("written");
    refused(
        &ground,
        &base,
        &[],
        [file("mine", "x")],
        ErrorKind::Conflict,
        "mine",
    );
    refused(
        &ground,
        &base,
        &[],
        [file("mine/f", "x")],
        ErrorKind::Conflict,
        "mine",
    );
    // A directory goes only if everything in it was named.
    fs::write(dst.join("gone/unknown"), "kept").expect("written");
    refused(
        &ground,
        &base,
        &["gone", "gone/f"],
        [],
        ErrorKind::Conflict,
        "gone/unknown",
    );
    refused(
        &ground,
        &base,
        &["gone/f"],
        [file("gone", "x")],
        ErrorKind::Conflict,
        "gone/unknown",
    );
    refused(
        &ground,
        &base,
        &["mine"],
        [],
        ErrorKind::InvalidArgument,
        "mine",
    );
    refused(
        &ground,
        &Manifest::default(),
        &[],
        [file("src/a", "x")],
        ErrorKind::Conflict,
        "src/a",
    );
    // An empty base adds.
    let placed = delta(&ground, &Manifest::default(), &[], [file("src/new", "x")]).expect("taken");
    assert_eq!(placed.removed, 0);
}

#[test]
fn a_directory_that_is_there_keeps_its_bits_unless_an_entry_names_it() {
    let (ground, base) = pushed();
    let dst = ground.dst();
    fs::create_dir(dst.join("own")).expect("made");
    fs::set_permissions(dst.join("own"), PermissionsExt::from_mode(0o700)).expect("set");
    fs::set_permissions(&dst, PermissionsExt::from_mode(0o1777)).expect("set");
    let items = [
        directory(".").mode(0o700),
        file("own/f", "x"),
        directory("src").mode(0o711),
    ];
    let placed = delta(&ground, &base, &[], items).expect("taken");
    let mode = |name: &str| {
        fs::metadata(dst.join(name))
            .expect("there")
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!(
        (mode("."), mode("own"), mode("src")),
        (0o1777, 0o700, 0o711)
    );
    let said = |name: &str| {
        let found = placed
            .manifest
            .entries
            .iter()
            .find(|entry| entry.path == path(name));
        found.map(|entry| entry.mode)
    };
    assert_eq!((said("own"), said("src")), (Some(0o700), Some(0o711)));
}

#[test]
fn an_empty_directory_is_filled_and_stays_the_same_directory() {
    let ground = Ground::new();
    fs::create_dir(ground.dst()).expect("made");
    // What a killed process left there does not count.
    fs::create_dir(ground.dst().join(".spp-tree-00000000000000aa")).expect("made");
    let inode = fs::metadata(ground.dst()).expect("there").ino();
    let archive = Archive::of([directory("d").mode(0o500), file("d/f", "x")]).end();
    ground
        .merge(&archive, None, Receiver::Sandbox)
        .expect("taken");
    assert_eq!(listing(&ground.dst()), ["d/ 500", "d/f 644 \"x\""]);
    assert_eq!(fs::metadata(ground.dst()).expect("there").ino(), inode);
}

#[test]
fn what_fails_midway_is_undone_and_said() {
    let (ground, base) = pushed();
    let before = listing(&ground.work());
    // A mount cannot be replaced by a rename; a file system that is full or another user's directory fails
    // alike. Here the entry that is in the way comes between the comparison and the renames.
    let archive = Archive::of([file("a-first", "x"), file("src/a", "new"), file("zz", "x")]).end();
    let dst = ground.dst();
    let removed = [path("gone/f"), path("gone")];
    let delta = Delta {
        base: &base,
        removed: &removed,
    };
    let mut reader = crate::support::reader(&archive, sandbox_core::transfer::Compression::None);
    let mut asked = 0;
    let error = sandbox_tree::unpack::place::merge(
        sandbox_core::Verb::PushTree,
        crate::support::open(&dst).as_fd(),
        Some(delta),
        Receiver::Sandbox,
        &mut reader,
        &mut || {
            asked += 1;
            // The last question before the first rename.
            if asked == 4 {
                fs::write(dst.join("zz"), "somebody's").expect("written");
            }
            Ok(())
        },
    )
    .expect_err("it was taken");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Conflict, Effect::Unknown)
    );
    assert!(
        error
            .to_string()
            .contains("4 changes were made before and all of them undone"),
        "{error}"
    );
    fs::remove_file(dst.join("zz")).expect("it stayed");
    assert_eq!(listing(&ground.work()), before);
}

#[test]
fn a_change_between_look_and_rename_is_put_back() {
    let (ground, base) = pushed();
    let archive = Archive::of([file("src/a", "new"), file("src/b", "new")]).end();
    let dst = ground.dst();
    let delta = Delta {
        base: &base,
        removed: &[],
    };
    let mut reader = crate::support::reader(&archive, sandbox_core::transfer::Compression::None);
    let mut asked = 0;
    let error = sandbox_tree::unpack::place::merge(
        sandbox_core::Verb::PushTree,
        crate::support::open(&dst).as_fd(),
        Some(delta),
        Receiver::Sandbox,
        &mut reader,
        &mut || {
            asked += 1;
            if asked == 3 {
                fs::write(dst.join("src/b"), "theirs").expect("written");
            }
            Ok(())
        },
    )
    .expect_err("it was taken");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(
        fs::read_to_string(dst.join("src/b")).expect("there"),
        "theirs"
    );
    assert_eq!(
        fs::read_to_string(dst.join("src/a")).expect("there"),
        "old a"
    );
}
