//! Checks of `stat_many`, and of `write` that sets modes and makes links.

use std::time::{Duration, SystemTime};

use sandbox_core::file::{Change, EntryKind, StatManyRequest};
use sandbox_core::{ErrorKind, SandboxExt};

use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::{path, refused};

fn link(name: &str, target: &'static [u8]) -> Change {
    Change::Link {
        path: path(name),
        target: target.into(),
    }
}

pub(crate) async fn absence_is_a_value(place: &Place) -> Verdict {
    place.put("file", "content").await?;
    let request = StatManyRequest {
        paths: ["missing", "missing/below", "file/below", "file"]
            .map(path)
            .into(),
    };
    let answers = place.sandbox.stat_many(&place.ctx(), request).await?;
    let mut there = Vec::new();
    for answer in answers {
        there.push(answer?.is_some());
    }
    ensure_eq!(
        there,
        [false, false, false, true],
        "which of four entries are there"
    );
    Ok(())
}

pub(crate) async fn many_entries_are_described_in_the_order_asked(place: &Place) -> Verdict {
    for size in [1, 2, 3] {
        place.put(format!("{size}"), "x".repeat(size)).await?;
    }
    let request = StatManyRequest {
        paths: ["3", "1", "2", "3"].map(path).into(),
    };
    let answers = place.sandbox.stat_many(&place.ctx(), request).await?;
    let mut sizes = Vec::new();
    for answer in answers {
        sizes.push(answer?.map(|stat| stat.size));
    }
    ensure_eq!(
        sizes,
        [Some(3), Some(1), Some(2), Some(3)],
        "sizes of four entries"
    );
    Ok(())
}

pub(crate) async fn an_entry_is_described_with_kind_size_and_mode(place: &Place) -> Verdict {
    place
        .script(
            "printf 12345 >file; chmod 640 file; ln file hard; \
             mkdir directory; chmod 711 directory; mkfifo fifo; chmod 600 fifo",
        )
        .await?;
    for (name, kind, mode) in [
        ("file", EntryKind::File, 0o640),
        ("directory", EntryKind::Directory, 0o711),
        ("fifo", EntryKind::Special, 0o600),
    ] {
        let stat = place
            .stat(name)
            .await?
            .ok_or_else(|| Failure::new(format_args!("{name} is not there")))?;
        ensure_eq!(
            (stat.kind, stat.mode),
            (kind, mode),
            "kind and mode of {name}"
        );
    }
    let (file, hard) = (place.stat("file").await?, place.stat("hard").await?);
    let facts = [file, hard].map(|stat| stat.map(|stat| (stat.size, stat.links, stat.inode)));
    ensure!(
        facts[0].is_some_and(|(size, links, inode)| size == 5 && links == 2 && inode != 0)
            && facts[0] == facts[1],
        "size, links and inode of two names of one file are {facts:?}"
    );
    Ok(())
}

pub(crate) async fn an_entry_is_described_with_its_times(place: &Place) -> Verdict {
    place
        .script("echo old >old; TZ=UTC touch -t 200102030405.06 old")
        .await?;
    let stat = place
        .stat("old")
        .await?
        .ok_or_else(|| Failure::new("the file is not there"))?;
    ensure_eq!(
        stat.modified,
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(981_173_106)),
        "time of the last change of the content"
    );
    ensure!(
        stat.changed > stat.modified,
        "the time was set after, and the last change of metadata is {:?}",
        stat.changed
    );
    Ok(())
}

pub(crate) async fn a_link_is_described_itself(place: &Place) -> Verdict {
    place
        .script("echo content >file; ln -s ./file link; ln -s gone dangling")
        .await?;
    for (name, text) in [("link", "./file"), ("dangling", "gone")] {
        let stat = place
            .stat(name)
            .await?
            .ok_or_else(|| Failure::new(format_args!("{name} is not there")))?;
        ensure_eq!(
            (stat.kind, stat.target, stat.size),
            (EntryKind::Link, Some(text.into()), text.len() as u64),
            "kind, text and size of {name}"
        );
    }
    Ok(())
}

pub(crate) async fn an_entry_is_found_through_a_link_to_its_directory(place: &Place) -> Verdict {
    place
        .script("mkdir real; printf 12345 >real/file; ln -s real door")
        .await?;
    let stat = place.stat("door/file").await?;
    ensure_eq!(
        stat.map(|stat| (stat.kind, stat.size)),
        Some((EntryKind::File, 5)),
        "kind and size of what is behind the link"
    );
    Ok(())
}

pub(crate) async fn a_mode_is_set(place: &Place) -> Verdict {
    place
        .script("echo script >file; chmod 644 file; ln -s file link")
        .await?;
    for (name, mode) in [("file", 0o755), ("link", 0o600)] {
        let change = Change::SetMode {
            path: path(name),
            mode,
        };
        place.sandbox.change(&place.ctx(), change).await?;
        ensure_eq!(
            place.mode("file").await?,
            mode,
            "mode of the file, set at {name}"
        );
    }
    Ok(())
}

pub(crate) async fn a_set_id_mode_is_refused(place: &Place) -> Verdict {
    place.script("echo script >file; chmod 644 file").await?;
    for mode in [0o4755, 0o2755, 0o1755] {
        let change = Change::SetMode {
            path: path("file"),
            mode,
        };
        refused(
            place.sandbox.change(&place.ctx(), change).await,
            ErrorKind::InvalidArgument,
            &format!("mode {mode:o}"),
        )?;
    }
    ensure_eq!(place.mode("file").await?, 0o644, "mode after the refusals");
    Ok(())
}

pub(crate) async fn a_link_has_the_text_it_was_given(place: &Place) -> Verdict {
    for (name, target) in [
        ("plain", &b"file"[..]),
        ("dots", b"./a//../b/"),
        ("nowhere", b"no/such/place"),
        ("odd", b"latin\xe9 $(x)\n"),
    ] {
        place
            .sandbox
            .change(&place.ctx(), link(name, target))
            .await?;
        let stat = place.stat(name).await?;
        ensure_eq!(
            stat.and_then(|stat| stat.target),
            Some(target.into()),
            "text of the link {name}"
        );
    }
    Ok(())
}

pub(crate) async fn a_link_onto_an_entry_is_refused(place: &Place) -> Verdict {
    place.put("file", "kept").await?;
    refused(
        place
            .sandbox
            .change(&place.ctx(), link("file", b"elsewhere"))
            .await,
        ErrorKind::AlreadyExists,
        "a link where there is a file",
    )?;
    ensure_eq!(place.content("file").await?, "kept", "content of the file");
    Ok(())
}
