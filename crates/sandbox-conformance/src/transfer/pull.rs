//! Checks of `pull_tree`.

use std::collections::BTreeMap;
use std::io::Read as _;

use sandbox_core::file::EntryKind;
use sandbox_core::search::{IgnoreRules, Scope};
use sandbox_core::transfer::{Compression, FlawCause, Pull, PullReceipt, PullRequest};
use sandbox_core::{Error, ErrorKind};

use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::{digest_of, drain, path, refused};

/// What an archive holds: type, permission bits, text of a link, content.
type Entries = BTreeMap<Vec<u8>, (char, u32, Vec<u8>, Vec<u8>)>;

fn request(roots: &[&str]) -> PullRequest {
    PullRequest {
        scopes: roots.iter().map(|root| Scope::new(path(root))).collect(),
        compression: Compression::None,
        base: None,
    }
}

async fn pull(place: &Place, request: PullRequest) -> Result<(Entries, PullReceipt), Failure> {
    let compression = request.compression;
    let Pull { archive, receipt } = place.sandbox.pull_tree(&place.ctx(), request).await?;
    let (archive, receipt) = futures_util::join!(drain(archive), receipt);
    let (archive, receipt) = (archive?, receipt?);
    let mut bytes = Vec::new();
    match compression {
        Compression::None => bytes = archive.to_vec(),
        Compression::Gzip => {
            flate2::read::MultiGzDecoder::new(&archive[..])
                .read_to_end(&mut bytes)
                .map_err(|error| Failure::new(format_args!("no gzip stream: {error}")))?;
        }
    }
    Ok((
        entries(&bytes).map_err(|error| Failure::new(format_args!("no archive: {error}")))?,
        receipt,
    ))
}

fn entries(archive: &[u8]) -> std::io::Result<Entries> {
    let mut entries = Entries::new();
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        let kind = match entry.header().entry_type() {
            tar::EntryType::Regular => 'f',
            tar::EntryType::Directory => 'd',
            tar::EntryType::Symlink => 'l',
            _ => '?',
        };
        let name = entry.path_bytes().trim_ascii_end().to_vec();
        let name = name.strip_suffix(b"/").map_or(name.clone(), <[u8]>::to_vec);
        let text = entry
            .link_name_bytes()
            .map(|text| text.to_vec())
            .unwrap_or_default();
        let mode = entry.header().mode()? & 0o7777;
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        entries.insert(name, (kind, mode, text, content));
    }
    Ok(entries)
}

/// Names in an archive, for a sentence.
fn names(entries: &Entries) -> Vec<String> {
    let names = entries
        .keys()
        .map(|name| String::from_utf8_lossy(name).into_owned());
    names.collect()
}

/// How a pull that must fail failed, wherever that is said.
async fn failing(place: &Place, root: &str) -> Result<(), Error> {
    let Pull { archive, receipt } = place
        .sandbox
        .pull_tree(&place.ctx(), request(&[root]))
        .await?;
    let (_, receipt) = futures_util::join!(drain(archive), receipt);
    receipt.map(drop)
}

pub(crate) async fn a_pulled_tree_is_all_there(place: &Place) -> Verdict {
    place
        .script("mkdir -p all/d/empty; echo content >all/d/file; printf '' >all/nothing")
        .await?;
    let (entries, receipt) = pull(place, request(&["all"])).await?;
    ensure_eq!(
        names(&entries),
        ["d", "d/empty", "d/file", "nothing"],
        "what was pulled"
    );
    let content = entries.get(&b"d/file"[..]).map(|entry| entry.3.clone());
    ensure_eq!(content, Some(b"content\n".to_vec()), "content of a file");
    ensure_eq!(receipt.entries, 4, "entries that are told");
    Ok(())
}

pub(crate) async fn pulled_permission_bits_arrive(place: &Place) -> Verdict {
    place
        .script(
            "mkdir -p modes/d; for mode in 755 640 444; do echo >modes/$mode; chmod $mode modes/$mode; done; \
             chmod 711 modes/d",
        )
        .await?;
    let (entries, _) = pull(place, request(&["modes"])).await?;
    let modes: Vec<_> = entries.values().map(|entry| entry.1).collect();
    ensure_eq!(
        modes,
        [0o444, 0o640, 0o755, 0o711],
        "modes of 444, 640, 755 and d"
    );
    Ok(())
}

pub(crate) async fn a_link_is_pulled_as_a_link(place: &Place) -> Verdict {
    place
        .script("mkdir -p links/real; echo x >links/real/f; ln -s real links/door; ln -s /etc/hostname links/out")
        .await?;
    let (entries, _) = pull(place, request(&["links"])).await?;
    ensure_eq!(
        names(&entries),
        ["door", "out", "real", "real/f"],
        "what was pulled"
    );
    for (name, text) in [("door", "real"), ("out", "/etc/hostname")] {
        let entry = entries
            .get(name.as_bytes())
            .map(|entry| (entry.0, entry.2.clone()));
        ensure_eq!(entry, Some(('l', text.into())), "the link {name}");
    }
    Ok(())
}

pub(crate) async fn odd_names_are_pulled(place: &Place) -> Verdict {
    let long = format!("{}/{}", "d".repeat(90), "f".repeat(90));
    let expected: [&[u8]; 4] = [b"-x", b"a\nb", long.as_bytes(), b"latin\xe9"];
    for name in expected {
        place
            .put([b"names/".as_slice(), name].concat(), name.to_vec())
            .await?;
    }
    let (entries, _) = pull(place, request(&["names"])).await?;
    for name in expected {
        let content = entries.get(name).map(|entry| entry.3.as_slice());
        ensure_eq!(content, Some(name), "content of a file with an odd name");
    }
    Ok(())
}

pub(crate) async fn what_is_ignored_is_not_pulled(place: &Place) -> Verdict {
    place
        .script("mkdir -p ignoring/target; cd ignoring; echo target >.gitignore; echo x >target/f; echo x >f")
        .await?;
    let (entries, _) = pull(place, request(&["ignoring"])).await?;
    ensure_eq!(names(&entries), [".gitignore", "f"], "what was pulled");
    Ok(())
}

pub(crate) async fn without_rules_everything_is_pulled(place: &Place) -> Verdict {
    place
        .script("mkdir -p ruleless; cd ruleless; echo secret >.gitignore; echo x >secret")
        .await?;
    let mut request = request(&["ruleless"]);
    for scope in &mut request.scopes {
        scope.ignore = IgnoreRules::Off;
    }
    let (entries, _) = pull(place, request).await?;
    ensure_eq!(names(&entries), [".gitignore", "secret"], "what was pulled");
    Ok(())
}

pub(crate) async fn globs_choose_what_is_pulled(place: &Place) -> Verdict {
    place
        .script("mkdir -p chosen; cd chosen; echo x >a.rs; echo x >b.rs; echo x >c.txt")
        .await?;
    let mut request = request(&["chosen"]);
    for scope in &mut request.scopes {
        scope.include = vec!["*.rs".to_owned()];
        scope.exclude = vec!["b*".to_owned()];
    }
    let (entries, _) = pull(place, request).await?;
    ensure_eq!(names(&entries), ["a.rs"], "what was pulled");
    Ok(())
}

pub(crate) async fn several_scopes_are_one_archive(place: &Place) -> Verdict {
    place
        .script(
            "mkdir -p both/one both/two both/no; for d in one two no; do echo $d >both/$d/f; done",
        )
        .await?;
    let (entries, _) = pull(place, request(&["both/one", "both/two"])).await?;
    ensure_eq!(names(&entries), ["one/f", "two/f"], "what was pulled");
    Ok(())
}

pub(crate) async fn what_no_archive_holds_is_left_out_and_said(place: &Place) -> Verdict {
    place
        .script("mkdir -p special; mkfifo special/queue; echo x >special/file")
        .await?;
    let (entries, receipt) = pull(place, request(&["special"])).await?;
    ensure_eq!(names(&entries), ["file"], "what was pulled");
    let flaws: Vec<_> = receipt
        .flaws
        .iter()
        .map(|flaw| (flaw.path.to_string(), flaw.cause))
        .collect();
    ensure_eq!(
        flaws,
        [("queue".to_owned(), FlawCause::Special)],
        "what is said"
    );
    Ok(())
}

pub(crate) async fn a_pull_is_compressed_when_asked(place: &Place) -> Verdict {
    place.put("squeezed/file", "x".repeat(100_000)).await?;
    let request = PullRequest {
        compression: Compression::Gzip,
        ..request(&["squeezed"])
    };
    let (entries, _) = pull(place, request).await?;
    let size = entries.get(&b"file"[..]).map(|entry| entry.3.len());
    ensure_eq!(size, Some(100_000), "bytes that were pulled");
    Ok(())
}

pub(crate) async fn a_pull_lists_the_tree_with_digests(place: &Place) -> Verdict {
    place
        .script(
            "mkdir -p listed/d; printf 12345 >listed/d/f; chmod 640 listed/d/f; ln -s d listed/l",
        )
        .await?;
    let (_, receipt) = pull(place, request(&["listed"])).await?;
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
                "d/f".to_owned(),
                EntryKind::File,
                5,
                Some(digest_of(b"12345"))
            ),
            ("l".to_owned(), EntryKind::Link, 1, Some(digest_of(b"d"))),
        ],
        "the manifest"
    );
    Ok(())
}

pub(crate) async fn with_a_base_only_what_differs_is_pulled(place: &Place) -> Verdict {
    place
        .script("mkdir -p since; cd since; echo 1 >content; echo 1 >same; echo 1 >bits; chmod 644 bits; mkdir d")
        .await?;
    let (_, first) = pull(place, request(&["since"])).await?;
    place
        .script("cd since; echo 2 >content; chmod 755 bits; echo 1 >new")
        .await?;
    let request = PullRequest {
        base: Some(first.manifest),
        ..request(&["since"])
    };
    let (entries, receipt) = pull(place, request).await?;
    ensure_eq!(
        names(&entries),
        ["bits", "content", "new"],
        "what was pulled"
    );
    ensure_eq!(
        receipt.manifest.entries.len(),
        5,
        "entries of the whole tree"
    );
    Ok(())
}

pub(crate) async fn a_pull_says_what_is_gone_since_its_base(place: &Place) -> Verdict {
    place
        .script("mkdir -p before/d; cd before; echo 1 >d/f; echo 1 >stays")
        .await?;
    let (_, first) = pull(place, request(&["before"])).await?;
    place.script("rm -r before/d").await?;
    let request = PullRequest {
        base: Some(first.manifest),
        ..request(&["before"])
    };
    let (_, receipt) = pull(place, request).await?;
    let gone: Vec<_> = receipt.removed.iter().map(ToString::to_string).collect();
    ensure_eq!(gone, ["d", "d/f"], "what is gone");
    Ok(())
}

pub(crate) async fn a_pull_of_nothing_is_not_found(place: &Place) -> Verdict {
    refused(
        failing(place, "no/such/place").await,
        ErrorKind::NotFound,
        "a pull of nothing",
    )?;
    Ok(())
}

pub(crate) async fn a_pull_of_a_file_is_refused(place: &Place) -> Verdict {
    place.put("single", "x").await?;
    refused(
        failing(place, "single").await,
        ErrorKind::NotADirectory,
        "a pull of a file",
    )?;
    Ok(())
}

pub(crate) async fn a_tree_outside_the_roots_is_never_pulled(place: &Place) -> Verdict {
    place.outside()?.link_to_outside("door", None)?;
    refused(
        failing(place, "door").await,
        ErrorKind::OutsideRoot,
        "a pull through a link out",
    )?;
    Ok(())
}

pub(crate) async fn a_large_file_is_pulled_intact(place: &Place) -> Verdict {
    let content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    place.put("large/file", content.clone()).await?;
    let (entries, _) = pull(place, request(&["large"])).await?;
    let pulled = entries.get(&b"file"[..]).map(|entry| digest_of(&entry.3));
    ensure_eq!(pulled, Some(digest_of(&content)), "digest of 12 MB");
    Ok(())
}

pub(crate) async fn what_is_pulled_can_be_pushed(place: &Place) -> Verdict {
    place
        .script(
            "mkdir -p there/d; cd there; echo x >d/f; chmod 750 d/f; ln -s d/f l; mkdir -m 711 e",
        )
        .await?;
    let Pull { archive, receipt } = place
        .sandbox
        .pull_tree(&place.ctx(), request(&["there"]))
        .await?;
    let (archive, receipt) = futures_util::join!(drain(archive), receipt);
    let pushed = place.push("back", &archive?, None, &[]).await?;
    ensure_eq!(
        pushed.manifest,
        receipt?.manifest,
        "the manifest of what was pushed"
    );
    Ok(())
}
