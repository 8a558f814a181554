//! Changing files: what a receipt says, what is kept, and that nothing is lost or left.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use bytes::Bytes;
use sandbox_core::file::{
    Change, Durability, Existing, Occurrences, Precondition, Replacement, WriteRequest,
};
use sandbox_core::{Ctx, Digest, Effect, ErrorKind};

use super::file::{Name, Tree, names, refused};

fn put_if(name: &str, content: &str, precondition: Precondition) -> Change {
    Change::Put {
        path: name.path(),
        content: content.as_bytes().to_vec().into(),
        mode: None,
        precondition,
    }
}

fn digest(content: &[u8]) -> Digest {
    Digest::from_bytes(*blake3::hash(content).as_bytes())
}

#[tokio::test]
async fn a_receipt_tells_what_was_before_and_what_is_after() {
    let tree = Tree::new();
    let first = tree
        .put("new/deep/file", "a\nb\n")
        .await
        .expect("made with its parents");
    assert_eq!(
        (first.existed, first.bytes, first.line_delta, first.digest),
        (false, 4, 2, Some(digest(b"a\nb\n")))
    );
    let second = tree.put("new/deep/file", "x").await.expect("replaced");
    assert_eq!(
        (
            second.existed,
            second.bytes,
            second.line_delta,
            second.digest
        ),
        (true, 1, -1, Some(digest(b"x")))
    );
    assert_eq!(names(&tree.inside.join("new/deep")), ["file"]);
}

#[tokio::test]
async fn a_put_keeps_mode_and_owner_and_breaks_hard_links() {
    let tree = Tree::new();
    tree.plant("file", "old");
    std::fs::set_permissions(tree.inside.join("file"), PermissionsExt::from_mode(0o4751))
        .expect("a mode");
    std::fs::hard_link(tree.inside.join("file"), tree.inside.join("same")).expect("a hard link");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(tree.inside.join("file"), Some(1234), Some(1235))
            .expect("root may");
        std::fs::set_permissions(tree.inside.join("file"), PermissionsExt::from_mode(0o4751))
            .expect("a mode");
    }
    let before = std::fs::metadata(tree.inside.join("file")).expect("it is there");
    tree.put("file", "new").await.expect("replaced");
    let after = std::fs::metadata(tree.inside.join("file")).expect("it is there");
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    assert_eq!(
        after.mode() & 0o7777,
        0o751,
        "the mode is kept, the set-id bit is not"
    );
    assert_eq!(
        tree.bytes("same"),
        b"old",
        "the other name keeps the old content"
    );
}

#[tokio::test]
async fn a_put_through_a_link_replaces_what_it_leads_to_and_makes_it_if_it_is_missing() {
    let tree = Tree::new();
    tree.plant("d/real", "old");
    tree.plant_link("link", "d/real");
    tree.plant_link("dangling", "d/missing");
    tree.put("link", "new").await.expect("followed");
    tree.put("dangling", "made").await.expect("followed");
    assert_eq!(
        (tree.bytes("d/real"), tree.bytes("d/missing")),
        (b"new".to_vec(), b"made".to_vec())
    );
    assert!(tree.inside.join("link").is_symlink() && tree.inside.join("dangling").is_symlink());
}

#[tokio::test]
async fn a_precondition_that_does_not_hold_changes_nothing_and_names_what_is_there() {
    let tree = Tree::new();
    tree.plant("file", "now");
    refused(
        tree.change(put_if("file", "x", Precondition::Absent)).await,
        ErrorKind::AlreadyExists,
    );
    let error = refused(
        tree.change(put_if("file", "x", Precondition::Digest(digest(b"then"))))
            .await,
        ErrorKind::Conflict,
    );
    assert_eq!(
        error.expected_value(),
        Some(digest(b"now").to_string().as_str())
    );
    refused(
        tree.change(put_if(
            "gone/file",
            "x",
            Precondition::Digest(digest(b"then")),
        ))
        .await,
        ErrorKind::Conflict,
    );
    assert_eq!(tree.bytes("file"), b"now");
    assert_eq!(
        names(&tree.inside),
        ["file"],
        "no parent is made for a put that cannot be"
    );
    tree.change(put_if("file", "next", Precondition::Digest(digest(b"now"))))
        .await
        .expect("it holds");
    tree.change(put_if("other", "first", Precondition::Absent))
        .await
        .expect("it holds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_changes_made_at_once_none_is_lost() {
    let tree = std::sync::Arc::new(Tree::new());
    tree.plant("d/list", "start\n");
    tree.plant_link("way", "d");
    let mut edits = Vec::new();
    for number in 0..40 {
        let tree = std::sync::Arc::clone(&tree);
        edits.push(tokio::spawn(async move {
            // Two paths to one file.
            let name = if number % 2 == 0 {
                "d/list"
            } else {
                "way/list"
            };
            tree.change(Change::edit(
                name.path(),
                "start\n",
                format!("start\nline {number}\n"),
            ))
            .await
        }));
    }
    for edit in edits {
        edit.await.expect("no panic").expect("each is made");
    }
    assert_eq!(
        String::from_utf8_lossy(&tree.bytes("d/list"))
            .lines()
            .count(),
        41
    );
}

#[tokio::test]
async fn an_edit_begins_again_if_somebody_outside_changed_the_file_meanwhile() {
    let tree = Tree::new();
    tree.plant("file", "0 end\n");
    let path = tree.inside.join("file");
    let outside = std::thread::spawn(move || {
        for round in 1..=300 {
            std::fs::write(path.with_extension("new"), format!("{round} end\n")).expect("a file");
            std::fs::rename(path.with_extension("new"), &path).expect("renamed");
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
    });
    let mut made = 0;
    while !outside.is_finished() {
        match tree.change(Change::edit("file".path(), "end", "end")).await {
            Ok(edited) => made += edited.replaced,
            // Who never pauses may win; then nothing was done, and that is what is said.
            Err(error) => assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Conflict, Effect::None),
                "{error}"
            ),
        }
    }
    outside.join().expect("it ends");
    assert!(made > 0);
}

#[tokio::test]
async fn only_the_bytes_that_are_meant_change() {
    // Reports B094, B095 and B097.
    let tree = Tree::new();
    let lines: Vec<String> = (1..=100)
        .map(|number| format!("line {number}\r\n"))
        .collect();
    tree.plant("crlf", format!("\u{feff}{}", lines.concat()));
    let receipt = tree
        .change(Change::edit(
            "crlf".path(),
            "line 50\nline 51",
            "line fifty\nline 50.5\nline 51",
        ))
        .await
        .expect("found");
    assert_eq!((receipt.line_delta, receipt.replaced), (1, 1));
    let mut expected = lines.clone();
    expected[49] = "line fifty\r\nline 50.5\r\n".into();
    assert_eq!(
        tree.bytes("crlf"),
        format!("\u{feff}{}", expected.concat()).into_bytes()
    );

    tree.plant("log", b"10%\r20%\r\xff\xfe\0 done\nnext\n");
    tree.change(Change::edit("log".path(), "next", "last"))
        .await
        .expect("found");
    assert_eq!(tree.bytes("log"), b"10%\r20%\r\xff\xfe\0 done\nlast\n");
}

#[tokio::test]
async fn an_edit_that_cannot_be_made_says_why_and_changes_nothing() {
    let tree = Tree::new();
    tree.plant("file", "fn a() {\n\tone();\n}\nx x\n");
    let error = refused(
        tree.change(Change::edit("file".path(), "    one();", "two();"))
            .await,
        ErrorKind::NotFound,
    );
    assert!(
        error
            .to_string()
            .contains("line 2 differs only in white space"),
        "{error}"
    );
    let error = refused(
        tree.change(Change::edit("file".path(), "x", "y")).await,
        ErrorKind::Conflict,
    );
    assert!(error.to_string().contains("2 times"), "{error}");
    let replacement = |find: &'static str| Replacement {
        find: Bytes::from_static(find.as_bytes()),
        replace: Bytes::from_static(b"z"),
        occurrences: Occurrences::All,
    };
    let second = Change::Edit {
        path: "file".path(),
        replacements: vec![replacement("x"), replacement("missing")],
        precondition: Precondition::None,
    };
    let error = refused(tree.change(second).await, ErrorKind::NotFound);
    assert!(error.to_string().contains("replacement 2 of 2"), "{error}");
    refused(
        tree.change(Change::edit("nothing".path(), "a", "b")).await,
        ErrorKind::NotFound,
    );
    assert_eq!(tree.bytes("file"), b"fn a() {\n\tone();\n}\nx x\n");
}

#[tokio::test]
async fn a_file_that_is_beyond_what_an_edit_takes_is_refused_with_its_size() {
    let tree = Tree::new();
    let size = sandbox_core::file::MAX_FILE_BYTES + 1;
    std::fs::File::create(tree.inside.join("huge"))
        .expect("a file")
        .set_len(size)
        .expect("a hole");
    let error = refused(
        tree.change(Change::edit("huge".path(), "a", "b")).await,
        ErrorKind::TooLarge,
    );
    assert!(error.to_string().contains(&size.to_string()), "{error}");
}

#[tokio::test]
async fn durable_changes_are_made_like_others() {
    let tree = Tree::new();
    let changes = [
        Change::put("deep/er/file".path(), "x"),
        Change::put("deep/er/file".path(), "y"),
        Change::MakeDirectory {
            path: "made/too".path(),
            mode: Some(0o700),
        },
        Change::Link {
            path: "link".path(),
            target: "deep".into(),
        },
        Change::Rename {
            from: "deep/er/file".path(),
            to: "made/file".path(),
            existing: Existing::Keep,
        },
        Change::SetMode {
            path: "made/file".path(),
            mode: 0o640,
        },
    ];
    let request = WriteRequest {
        durability: Durability::Durable,
        ..WriteRequest::new(changes)
    };
    for receipt in tree
        .files
        .write(&Ctx::new(), request)
        .await
        .expect("answered")
    {
        receipt.expect("made");
    }
    assert_eq!(tree.bytes("made/file"), b"y");
    assert_eq!(
        std::fs::metadata(tree.inside.join("made/too"))
            .expect("there")
            .mode()
            & 0o777,
        0o700
    );
}

#[tokio::test]
async fn names_are_changed_as_they_are_asked_to_be_and_refused_with_the_reason() {
    let tree = Tree::new();
    tree.plant("a/file", "x");
    tree.plant("b/full", "x");
    tree.plant_link("dangling", "nowhere");
    let rename = |from: &str, to: &str, existing| Change::Rename {
        from: from.path(),
        to: to.path(),
        existing,
    };
    refused(
        tree.change(rename("a", "a/within", Existing::Keep)).await,
        ErrorKind::InvalidArgument,
    );
    refused(
        tree.change(rename("a", "a/within", Existing::Replace))
            .await,
        ErrorKind::InvalidArgument,
    );
    refused(
        tree.change(rename("a", "b", Existing::Replace)).await,
        ErrorKind::NotEmpty,
    );
    refused(
        tree.change(rename("a", "b", Existing::Keep)).await,
        ErrorKind::AlreadyExists,
    );
    refused(
        tree.change(rename("a/file", "b", Existing::Replace)).await,
        ErrorKind::NotAFile,
    );
    refused(
        tree.change(rename("a", "b/full", Existing::Replace)).await,
        ErrorKind::NotADirectory,
    );
    refused(
        tree.change(rename("a", "dangling", Existing::Keep)).await,
        ErrorKind::AlreadyExists,
    );
    refused(
        tree.change(rename(".", "c", Existing::Keep)).await,
        ErrorKind::InvalidArgument,
    );
    let error = refused(
        tree.change(rename("a", "no/where", Existing::Keep)).await,
        ErrorKind::NotFound,
    );
    assert!(error.to_string().contains("no/where"), "{error}");

    let directory = |path: &str| Change::MakeDirectory {
        path: path.path(),
        mode: None,
    };
    refused(
        tree.change(directory("a/file")).await,
        ErrorKind::NotADirectory,
    );
    refused(
        tree.change(directory("a/file/below")).await,
        ErrorKind::NotADirectory,
    );
    assert!(tree.change(directory("a")).await.expect("no error").existed);
    assert!(tree.change(directory(".")).await.expect("no error").existed);
    refused(tree.put("a", "x").await, ErrorKind::NotAFile);
    refused(
        tree.put("a/file/below", "x").await,
        ErrorKind::NotADirectory,
    );
    let long = Change::Link {
        path: "l".path(),
        target: vec![b'x'; 5000].into(),
    };
    refused(tree.change(long).await, ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn the_shared_bits_of_a_directory_survive_a_change_of_its_mode() {
    let tree = Tree::new();
    std::fs::create_dir(tree.inside.join("shared")).expect("a directory");
    std::fs::set_permissions(
        tree.inside.join("shared"),
        PermissionsExt::from_mode(0o3777),
    )
    .expect("a mode");
    tree.change(Change::SetMode {
        path: "shared".path(),
        mode: 0o750,
    })
    .await
    .expect("made");
    let mode = std::fs::metadata(tree.inside.join("shared"))
        .expect("there")
        .mode()
        & 0o7777;
    assert_eq!(mode, 0o3750);
}
