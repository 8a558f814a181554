//! Checks of `push_tree` with archives that are to be taken.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use sandbox_core::ErrorKind;
use sandbox_core::file::EntryKind;
use sandbox_core::transfer::{Compression, PushRequest};

use super::archive::{Archive, MODIFIED};
use super::pieces;
use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::{digest_of, path, refused};

pub(crate) async fn a_pushed_tree_is_all_there(place: &Place) -> Verdict {
    let archive = Archive::default()
        .directory("d")
        .file("d/file", "content")
        .file("made/for/it", "deep")
        .end();
    place.push("whole", &archive, None, &[]).await?;
    ensure_eq!(place.content("whole/d/file").await?, "content", "a file");
    ensure_eq!(
        place.content("whole/made/for/it").await?,
        "deep",
        "a file of unnamed parents"
    );
    Ok(())
}

pub(crate) async fn pushed_permission_bits_arrive(place: &Place) -> Verdict {
    let modes = [
        ("run", 0o755),
        ("group", 0o640),
        ("fixed", 0o444),
        ("own", 0o600),
    ];
    let mut archive = Archive::default().entry(b'5', "d", 0o711, "", "");
    for (name, mode) in modes {
        archive = archive.entry(b'0', name, mode, "", "x");
    }
    place.push("bits", &archive.end(), None, &[]).await?;
    for (name, mode) in modes {
        ensure_eq!(
            place.mode(&format!("bits/{name}")).await?,
            mode,
            "mode of {name}"
        );
    }
    ensure_eq!(place.mode("bits/d").await?, 0o711, "mode of a directory");
    Ok(())
}

pub(crate) async fn set_id_bits_are_not_pushed(place: &Place) -> Verdict {
    let archive = Archive::default()
        .entry(b'0', "tool", 0o6755, "", "x")
        .entry(b'5', "d", 0o3777, "", "")
        .end();
    place.push("setid", &archive, None, &[]).await?;
    ensure_eq!(place.mode("setid/tool").await?, 0o755, "mode of a file");
    ensure_eq!(place.mode("setid/d").await?, 0o777, "mode of a directory");
    Ok(())
}

pub(crate) async fn pushed_times_arrive(place: &Place) -> Verdict {
    let archive = Archive::default().directory("d").file("d/file", "x").end();
    place.push("times", &archive, None, &[]).await?;
    for name in ["times/d/file", "times/d"] {
        let stat = place.stat(name).await?;
        ensure_eq!(
            stat.and_then(|stat| stat.modified),
            Some(SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED)),
            "time of {name}"
        );
    }
    Ok(())
}

pub(crate) async fn pushed_links_keep_their_texts(place: &Place) -> Verdict {
    let texts = ["../outside", "/absolute/place", "no/such/thing", "link"];
    let mut archive = Archive::default();
    for (number, text) in texts.iter().enumerate() {
        archive = archive.link(format!("l{number}"), text);
    }
    place.push("texts", &archive.end(), None, &[]).await?;
    for (number, text) in texts.iter().enumerate() {
        let stat = place.stat(format!("texts/l{number}")).await?;
        let target = stat.and_then(|stat| stat.target);
        ensure_eq!(target, Some((*text).into()), "text of a link");
    }
    Ok(())
}

pub(crate) async fn an_empty_directory_is_pushed(place: &Place) -> Verdict {
    let archive = Archive::default().directory("d/empty").end();
    place.push("hollow", &archive, None, &[]).await?;
    let kind = place.stat("hollow/d/empty").await?.map(|stat| stat.kind);
    ensure_eq!(
        kind,
        Some(EntryKind::Directory),
        "kind of an empty directory"
    );
    Ok(())
}

pub(crate) async fn odd_names_are_pushed(place: &Place) -> Verdict {
    let names: [&[u8]; 5] = [b"-rf", b"a\nb", b"latin\xe9", b"$(x) *", b"..\\x"];
    let archive = names
        .iter()
        .fold(Archive::default(), |archive, name| archive.file(name, name));
    place.push("odd", &archive.end(), None, &[]).await?;
    for name in names {
        let name = [b"odd/".as_slice(), name].concat();
        let content = place.content(&name).await?;
        ensure_eq!(
            &content[..],
            &name[4..],
            "content of a file with an odd name"
        );
    }
    Ok(())
}

pub(crate) async fn long_names_and_texts_are_pushed(place: &Place) -> Verdict {
    let name = format!("{}/{}", "d".repeat(90), "f".repeat(90));
    let record = format!("path={name}\n");
    let archive = Archive::default()
        .entry(b'L', "././@LongLink", 0, "", format!("gnu/{name}\0"))
        .file("gnu", "gnu")
        .entry(b'K', "././@LongLink", 0, "", format!("{name}\0"))
        .link("text", "text")
        .entry(
            b'x',
            "posix",
            0,
            "",
            format!("{} {record}", record.len() + 4),
        )
        .file("posix", "posix")
        .end();
    place.push("long", &archive, None, &[]).await?;
    ensure_eq!(
        place.content(format!("long/gnu/{name}")).await?,
        "gnu",
        "a GNU name"
    );
    ensure_eq!(
        place.content(format!("long/{name}")).await?,
        "posix",
        "a POSIX name"
    );
    let target = place.stat("long/text").await?.and_then(|stat| stat.target);
    ensure_eq!(target, Some(name.into()), "a long text");
    Ok(())
}

pub(crate) async fn a_compressed_tree_is_pushed(place: &Place) -> Verdict {
    let archive = Archive::default().file("file", "x".repeat(100_000)).end();
    let compressed = gzip(&archive).map_err(Failure::new)?;
    let request = PushRequest {
        destination: path("packed"),
        archive: pieces(&compressed),
        compression: Compression::Gzip,
        base: None,
        removed: Vec::new(),
    };
    place.sandbox.push_tree(&place.ctx(), request).await?;
    ensure_eq!(
        place.content("packed/file").await?,
        "x".repeat(100_000),
        "content"
    );
    Ok(())
}

/// Two members after one another, which are one stream.
fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let (one, other) = bytes.split_at(bytes.len() / 2);
    for part in [one, other] {
        let mut encoder = flate2::write::GzEncoder::new(all, flate2::Compression::fast());
        encoder.write_all(part)?;
        all = encoder.finish()?;
    }
    Ok(all)
}

pub(crate) async fn a_push_makes_missing_parents(place: &Place) -> Verdict {
    let archive = Archive::default().file("file", "x").end();
    place.push("parents/of/it", &archive, None, &[]).await?;
    ensure_eq!(place.content("parents/of/it/file").await?, "x", "content");
    Ok(())
}

pub(crate) async fn a_push_into_an_empty_directory_keeps_its_bits(place: &Place) -> Verdict {
    place.script("mkdir empty; chmod 1777 empty").await?;
    let archive = Archive::default()
        .entry(b'5', ".", 0o700, "", "")
        .file("file", "x")
        .end();
    place.push("empty", &archive, None, &[]).await?;
    ensure_eq!(place.content("empty/file").await?, "x", "content");
    ensure_eq!(
        place.mode("empty").await?,
        0o1777,
        "mode of the directory that was there"
    );
    Ok(())
}

pub(crate) async fn a_push_onto_entries_is_refused(place: &Place) -> Verdict {
    place.put("occupied/mine", "kept").await?;
    let archive = Archive::default().file("file", "x").end();
    let pushed = place.push("occupied", &archive, None, &[]).await;
    refused(
        pushed,
        ErrorKind::NotEmpty,
        "a tree onto entries, without a base",
    )?;
    ensure!(
        !place.exists("occupied/file").await?,
        "a refused push left a file"
    );
    Ok(())
}

pub(crate) async fn a_push_onto_a_file_is_refused(place: &Place) -> Verdict {
    place.put("flat", "kept").await?;
    let archive = Archive::default().file("file", "x").end();
    let pushed = place.push("flat", &archive, None, &[]).await;
    refused(pushed, ErrorKind::NotADirectory, "a tree onto a file")?;
    ensure_eq!(place.content("flat").await?, "kept", "content of the file");
    Ok(())
}

pub(crate) async fn a_push_says_what_it_did(place: &Place) -> Verdict {
    let archive = Archive::default()
        .directory("d")
        .file("d/file", "12345")
        .link("link", "d")
        .end();
    let receipt = place.push("said", &archive, None, &[]).await?;
    ensure_eq!(
        (receipt.applied, receipt.removed, receipt.bytes),
        (3, 0, 5),
        "entries, removals and bytes"
    );
    let listed: Vec<_> = receipt
        .manifest
        .entries
        .iter()
        .map(|entry| (entry.path.to_string(), entry.kind, entry.size, entry.digest))
        .collect();
    ensure_eq!(
        listed,
        [
            ("d".to_owned(), EntryKind::Directory, 0, None),
            (
                "d/file".to_owned(),
                EntryKind::File,
                5,
                Some(digest_of(b"12345"))
            ),
            ("link".to_owned(), EntryKind::Link, 1, Some(digest_of(b"d"))),
        ],
        "the manifest"
    );
    Ok(())
}

pub(crate) async fn nothing_is_left_beside_a_pushed_tree(place: &Place) -> Verdict {
    let archive = Archive::default().file("file", "x").end();
    place.push("alone/tree", &archive, None, &[]).await?;
    let names = place.script("ls -A alone alone/tree").await?;
    ensure_eq!(
        names,
        "alone:\ntree\n\nalone/tree:\nfile\n",
        "what is there"
    );
    Ok(())
}
