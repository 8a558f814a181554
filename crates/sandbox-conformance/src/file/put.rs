//! Checks of `write` that gives files their content, and of its preconditions.

use bytes::Bytes;
use futures_util::future::join_all;
use sandbox_core::file::{Change, Durability, EntryKind, Precondition, WriteRequest};
use sandbox_core::{ErrorKind, SandboxExt};

use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::{digest_of, path, refused, tells_digest};

fn put_if(name: &str, content: &'static str, precondition: Precondition) -> Change {
    Change::Put {
        path: path(name),
        content: content.into(),
        mode: None,
        precondition,
    }
}

fn put_with_mode(name: &str, mode: u32) -> Change {
    Change::Put {
        path: path(name),
        content: "content".into(),
        mode: Some(mode),
        precondition: Precondition::None,
    }
}

/// Bytes without a pattern that a block, a line or a compressor would hide a fault in.
fn noise(length: usize) -> Bytes {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes.into()
}

pub(crate) async fn a_put_makes_missing_parents(place: &Place) -> Verdict {
    place.put("new/deep/file", "content").await?;
    ensure_eq!(place.content("new/deep/file").await?, "content", "content");
    Ok(())
}

pub(crate) async fn a_put_receipt_says_what_was_there_and_what_is(place: &Place) -> Verdict {
    let first = place.put("file", "one\ntwo\nthree\n").await?;
    ensure_eq!(
        (first.existed, first.bytes, first.line_delta, first.replaced),
        (false, 14, 3, 0),
        "existed, bytes, line delta, replaced of a new file"
    );
    tells_digest(place, first.digest, b"one\ntwo\nthree\n")?;
    let second = place.put("file", "a single line of text\n").await?;
    ensure_eq!(
        (second.existed, second.bytes, second.line_delta),
        (true, 22, -2),
        "existed, bytes, line delta of a file that was there"
    );
    Ok(())
}

pub(crate) async fn a_put_replaces_all_of_a_longer_file(place: &Place) -> Verdict {
    place.put("file", "long content\n".repeat(1000)).await?;
    place.put("file", "short").await?;
    ensure_eq!(place.content("file").await?, "short", "content");
    Ok(())
}

pub(crate) async fn an_empty_file_can_be_put(place: &Place) -> Verdict {
    let receipt = place.put("empty", "").await?;
    ensure_eq!(
        (receipt.bytes, receipt.line_delta),
        (0, 0),
        "bytes and lines"
    );
    let stat = place.stat("empty").await?;
    ensure!(
        stat.is_some_and(|stat| stat.kind == EntryKind::File && stat.size == 0),
        "the empty file is not there"
    );
    Ok(())
}

pub(crate) async fn a_large_file_arrives_intact(place: &Place) -> Verdict {
    let content = noise(3_000_001);
    let receipt = place.put("large", content.clone()).await?;
    tells_digest(place, receipt.digest, &content)?;
    let read = place.read("large").await?;
    ensure!(read.bytes == content, "what was read is not what was put");
    Ok(())
}

pub(crate) async fn a_put_keeps_the_mode_of_an_existing_file(place: &Place) -> Verdict {
    place.script("echo old >script; chmod 751 script").await?;
    place.put("script", "new").await?;
    ensure_eq!(place.mode("script").await?, 0o751, "mode after the put");
    Ok(())
}

pub(crate) async fn a_put_sets_the_mode_it_is_given(place: &Place) -> Verdict {
    place.script("echo old >old; chmod 644 old").await?;
    for name in ["new", "old"] {
        place
            .sandbox
            .change(&place.ctx(), put_with_mode(name, 0o710))
            .await?;
        ensure_eq!(place.mode(name).await?, 0o710, "mode of the {name} file");
    }
    Ok(())
}

/// A set-id program in a tree that its host later uses is a way out of every sandbox.
pub(crate) async fn set_id_bits_are_refused(place: &Place) -> Verdict {
    for mode in [0o4755, 0o2755, 0o1777, 0o10_644] {
        refused(
            place
                .sandbox
                .change(&place.ctx(), put_with_mode("program", mode))
                .await,
            ErrorKind::InvalidArgument,
            &format!("a put with mode {mode:o}"),
        )?;
    }
    ensure!(
        !place.exists("program").await?,
        "the refused put left something"
    );
    Ok(())
}

pub(crate) async fn a_put_follows_a_link_inside_the_workspace(place: &Place) -> Verdict {
    place
        .script("mkdir real; echo old >real/file; ln -s real/file link")
        .await?;
    place.put("link", "new").await?;
    ensure_eq!(
        place.content("real/file").await?,
        "new",
        "content of the target"
    );
    ensure!(
        place
            .stat("link")
            .await?
            .is_some_and(|stat| stat.kind == EntryKind::Link),
        "the link is no longer a link"
    );
    Ok(())
}

pub(crate) async fn a_put_onto_a_directory_is_refused(place: &Place) -> Verdict {
    place
        .script("mkdir directory; echo kept >directory/file")
        .await?;
    refused(
        place
            .sandbox
            .change(&place.ctx(), Change::put(path("directory"), "content"))
            .await,
        ErrorKind::NotAFile,
        "a put onto a directory",
    )?;
    ensure_eq!(
        place.content("directory/file").await?,
        "kept\n",
        "what is in it"
    );
    Ok(())
}

pub(crate) async fn readers_see_the_old_content_or_the_new(place: &Place) -> Verdict {
    let contents = [
        Bytes::from(vec![b'a'; 50_000]),
        Bytes::from(vec![b'b'; 60_000]),
    ];
    place.put("file", contents[0].clone()).await?;
    let writer = async {
        for round in 0..10 {
            place.put("file", contents[(round + 1) % 2].clone()).await?;
        }
        Ok::<_, Failure>(())
    };
    let reader = async {
        loop {
            let bytes = place.content("file").await?;
            ensure!(
                contents.contains(&bytes),
                "a reader saw {} bytes that nobody put",
                bytes.len()
            );
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        written = writer => written,
        seen = reader => seen,
    }
}

pub(crate) async fn a_change_that_fails_stops_no_later_one(place: &Place) -> Verdict {
    place.script("mkdir directory").await?;
    let changes = ["first", "directory", "last"].map(|name| Change::put(path(name), "content"));
    let answers = place
        .sandbox
        .write(&place.ctx(), WriteRequest::new(changes))
        .await?;
    let succeeded: Vec<_> = answers.iter().map(Result::is_ok).collect();
    ensure_eq!(
        succeeded,
        [true, false, true],
        "which of three changes succeeded"
    );
    ensure_eq!(
        place.content("last").await?,
        "content",
        "content after the failed change"
    );
    Ok(())
}

pub(crate) async fn changes_are_made_in_order(place: &Place) -> Verdict {
    let changes = ["one", "two", "three"].map(|content| Change::put(path("file"), content));
    let answers = place
        .sandbox
        .write(&place.ctx(), WriteRequest::new(changes))
        .await?;
    let mut existed = Vec::new();
    for answer in answers {
        existed.push(answer?.existed);
    }
    ensure_eq!(
        existed,
        [false, true, true],
        "whether the file was there before each"
    );
    ensure_eq!(
        place.content("file").await?,
        "three",
        "content after the last change"
    );
    Ok(())
}

/// Report B052: a quote in a name ran code. A name is data in every verb, whatever is in it.
pub(crate) async fn odd_names_are_only_names(place: &Place) -> Verdict {
    let long = "x".repeat(255);
    let names: [&[u8]; 18] = [
        b"a'b",
        b"a\"b",
        b"$(touch pwned)",
        b"`touch pwned`",
        b"a;touch pwned",
        b"a\nb",
        b"a\tb",
        b"a\\b",
        b"-rf",
        b"--help",
        b"~",
        b"*",
        b" both ",
        long.as_bytes(),
        b"latin\xe9",
        "\u{1f980}".as_bytes(),
        "\u{e9}".as_bytes(),
        "e\u{301}".as_bytes(),
    ];
    for name in names {
        place.put(name, name.to_vec()).await?;
    }
    // Read back only now: two names that became one would have overwritten each other.
    for name in names {
        let shown = String::from_utf8_lossy(name);
        ensure_eq!(place.content(name).await?, name, "content of {shown:?}");
        let stat = place.stat(name).await?;
        ensure!(stat.is_some(), "{shown:?} is not there");
    }
    ensure!(!place.exists("pwned").await?, "a name was run as code");
    Ok(())
}

pub(crate) async fn of_many_puts_that_must_be_first_one_succeeds(place: &Place) -> Verdict {
    let puts = (0..8).map(|_| async {
        place
            .sandbox
            .change(&place.ctx(), put_if("lock", "mine", Precondition::Absent))
            .await
    });
    let mut winners = 0;
    for result in join_all(puts).await {
        match result {
            Ok(receipt) => {
                ensure!(!receipt.existed, "a put that was first found something");
                winners += 1;
            }
            lost => {
                refused(lost, ErrorKind::AlreadyExists, "a put that was not first")?;
            }
        }
    }
    ensure_eq!(winners, 1, "puts that were first");
    Ok(())
}

pub(crate) async fn a_put_that_must_be_first_finds_every_kind_of_entry(place: &Place) -> Verdict {
    place
        .script("echo old >file; mkdir directory; ln -s nowhere dangling; mkfifo fifo")
        .await?;
    for name in ["file", "directory", "dangling", "fifo"] {
        refused(
            place
                .sandbox
                .change(&place.ctx(), put_if(name, "new", Precondition::Absent))
                .await,
            ErrorKind::AlreadyExists,
            &format!("a put that must be first, where there is a {name}"),
        )?;
    }
    ensure!(
        !place.exists("nowhere").await?,
        "the link to nothing was followed"
    );
    ensure_eq!(place.content("file").await?, "old\n", "content of the file");
    Ok(())
}

pub(crate) async fn a_put_for_another_digest_is_a_conflict_that_names_it(place: &Place) -> Verdict {
    place.put("file", "content now").await?;
    let believed = Precondition::Digest(digest_of(b"content before"));
    let error = refused(
        place
            .sandbox
            .change(&place.ctx(), put_if("file", "new", believed))
            .await,
        ErrorKind::Conflict,
        "a put for another digest",
    )?;
    ensure_eq!(
        error.expected_value(),
        Some(digest_of(b"content now").to_string().as_str()),
        "the digest that the conflict names"
    );
    ensure_eq!(place.content("file").await?, "content now", "content");
    Ok(())
}

pub(crate) async fn a_put_for_the_right_digest_replaces(place: &Place) -> Verdict {
    let before = place.put("file", "before").await?;
    let digest = before
        .digest
        .ok_or_else(|| Failure::new("the receipt has no digest"))?;
    let receipt = place
        .sandbox
        .change(
            &place.ctx(),
            put_if("file", "after", Precondition::Digest(digest)),
        )
        .await?;
    ensure!(
        receipt.existed,
        "the receipt does not know what was replaced"
    );
    ensure_eq!(place.content("file").await?, "after", "content");
    Ok(())
}

pub(crate) async fn of_many_puts_for_one_digest_one_succeeds(place: &Place) -> Verdict {
    place.put("file", "before").await?;
    let digest = Precondition::Digest(digest_of(b"before"));
    let puts = ["one", "two", "three", "four"].map(|content| async move {
        place
            .sandbox
            .change(&place.ctx(), put_if("file", content, digest))
            .await
            .map(|_| content)
    });
    let mut winners = Vec::new();
    for result in join_all(puts).await {
        match result {
            Ok(content) => winners.push(content),
            lost => {
                refused(lost, ErrorKind::Conflict, "a put that came too late")?;
            }
        }
    }
    ensure_eq!(winners.len(), 1, "puts that succeeded");
    ensure_eq!(place.content("file").await?, winners[0], "content");
    Ok(())
}

pub(crate) async fn a_durable_put_is_a_put(place: &Place) -> Verdict {
    let request = WriteRequest {
        changes: vec![Change::put(path("new/file"), "on the disk")],
        durability: Durability::Durable,
    };
    for answer in place.sandbox.write(&place.ctx(), request).await? {
        answer?;
    }
    ensure_eq!(place.content("new/file").await?, "on the disk", "content");
    Ok(())
}

/// Files that verbs make on their way must not be seen, in builds and in diffs, after it.
pub(crate) async fn nothing_is_left_beside_what_was_put(place: &Place) -> Verdict {
    place
        .script("mkdir directory; mkdir tree; echo old >tree/old")
        .await?;
    place.put("tree/new", "content").await?;
    place.put("tree/old", "content").await?;
    let refused_put = Change::put(path("directory"), "content");
    let answer = place.sandbox.change(&place.ctx(), refused_put).await;
    ensure!(answer.is_err(), "a put onto a directory was accepted");
    let found = place.script("ls -A; ls -A tree directory").await?;
    ensure_eq!(
        found,
        "directory\ntree\ndirectory:\n\ntree:\nnew\nold\n",
        "what there is after three puts"
    );
    Ok(())
}

/// A build must see a change of a file by its time, even right after the one before.
pub(crate) async fn a_put_changes_the_time_of_a_file(place: &Place) -> Verdict {
    place
        .script("echo old >file; touch -t 200001010000 file")
        .await?;
    let before = place.read("file").await?.modified;
    place.put("file", "new\n").await?;
    let after = place.read("file").await?.modified;
    ensure!(after > before, "the time went from {before:?} to {after:?}");
    Ok(())
}
