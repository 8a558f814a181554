//! One digest for a tree, as `docs/protocol.md` defines it.
//!
//! It covers entries in the order of their paths' bytes, so neither the order of the walk nor the
//! number of its threads shows. With content it covers nothing that belongs to one copy of a tree
//! alone: two copies have equal digests. With metadata it covers times and inodes, and says only
//! whether this tree is as it was.

use blake3::Hasher;
use sandbox_core::Digest;
use sandbox_core::file::EntryKind;
use sandbox_core::search::FingerprintDepth;

use super::manifest::{Body, Facts, Manifest};
use super::moment::Moment;

/// The hash function likes long pieces better than many short ones.
const BATCH: usize = 64 * 1024;

/// The digest of a tree.
pub(super) fn digest(manifest: &Manifest, depth: FingerprintDepth) -> Digest {
    let mut hasher = Hasher::new();
    let mut batch = Vec::with_capacity(BATCH + 8192);
    batch.extend_from_slice(match depth {
        FingerprintDepth::Metadata => b"spp fingerprint 1 metadata\n",
        FingerprintDepth::Content => b"spp fingerprint 1 content\n",
    });
    let mut cursor = manifest.cursor();
    while let Some(facts) = cursor.advance() {
        put(&mut batch, cursor.path(), &facts, depth);
        if batch.len() >= BATCH {
            hasher.update(&batch);
            batch.clear();
        }
    }
    hasher.update(&batch);
    Digest::from_bytes(*hasher.finalize().as_bytes())
}

fn put(batch: &mut Vec<u8>, path: &[u8], facts: &Facts<'_>, depth: FingerprintDepth) {
    put_bytes(batch, path);
    batch.push(match facts.kind {
        EntryKind::File => b'f',
        EntryKind::Directory => b'd',
        EntryKind::Link => b'l',
        EntryKind::Special => b's',
    });
    batch.extend_from_slice(&facts.mode.to_le_bytes());
    if let Body::Text(text) = facts.body {
        put_bytes(batch, text);
    }
    match depth {
        FingerprintDepth::Metadata if facts.kind != EntryKind::Directory => {
            let identity = facts.identity;
            batch.extend_from_slice(&identity.size.to_le_bytes());
            put_moment(batch, identity.modified);
            put_moment(batch, identity.changed);
            batch.extend_from_slice(&identity.inode.to_le_bytes());
        }
        FingerprintDepth::Content if facts.kind == EntryKind::File => match facts.body {
            Body::Content(digest) => batch.extend_from_slice(digest.as_bytes()),
            // Could not be read; the answer says that it is incomplete.
            Body::Unknown | Body::Text(_) => batch.extend_from_slice(&[0; 32]),
        },
        FingerprintDepth::Metadata | FingerprintDepth::Content => {}
    }
}

fn put_bytes(batch: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    batch.extend_from_slice(&length.to_le_bytes());
    batch.extend_from_slice(bytes);
}

fn put_moment(batch: &mut Vec<u8>, moment: Moment) {
    batch.extend_from_slice(&moment.seconds.to_le_bytes());
    batch.extend_from_slice(&moment.nanos.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::manifest::tests::{file, manifest};
    use super::super::manifest::{Age, Identity};
    use super::*;

    const DEPTHS: [FingerprintDepth; 2] = [FingerprintDepth::Metadata, FingerprintDepth::Content];

    fn both(entries: &[(&str, Facts<'_>)]) -> [Digest; 2] {
        let manifest = manifest(entries);
        DEPTHS.map(|depth| digest(&manifest, depth))
    }

    fn content(byte: u8) -> Facts<'static> {
        Facts {
            body: Body::Content(Digest::from_bytes([byte; 32])),
            ..file(1)
        }
    }

    #[test]
    fn each_fact_that_is_covered_changes_the_digest_and_no_other_does() {
        let [metadata, with_content] = both(&[("a", content(1))]);
        assert_ne!(metadata, with_content);
        let elsewhere = Facts {
            identity: Identity {
                inode: 1,
                ..file(1).identity
            },
            ..content(1)
        };
        let written = Facts {
            age: Age::Fresh,
            ..content(2)
        };
        let mode = Facts {
            mode: 0o755,
            ..content(1)
        };
        for (changed, [metadata_differs, content_differs]) in [
            (elsewhere, [true, false]),
            (written, [false, true]),
            (mode, [true, true]),
        ] {
            let [other, other_content] = both(&[("a", changed)]);
            assert_eq!(other != metadata, metadata_differs, "{changed:?}");
            assert_eq!(
                other_content != with_content,
                content_differs,
                "{changed:?}"
            );
        }
    }

    #[test]
    fn a_path_and_a_text_cannot_be_taken_for_one_another() {
        let link = |text| Facts {
            kind: EntryKind::Link,
            body: Body::Text(text),
            ..file(2)
        };
        assert_ne!(both(&[("ab", link(b"c"))]), both(&[("a", link(b"bc"))]));
    }

    /// The wire document defines it for others to compute; here it is computed by hand.
    #[test]
    fn the_digest_with_content_is_the_one_of_the_protocol() {
        let directory = Facts {
            kind: EntryKind::Directory,
            mode: 0o755,
            ..file(0)
        };
        let hello = Facts {
            body: Body::Content(Digest::from_bytes(*blake3::hash(b"hello\n").as_bytes())),
            ..file(6)
        };
        let link = Facts {
            kind: EntryKind::Link,
            mode: 0o777,
            body: Body::Text(b"d/f"),
            ..file(3)
        };
        let [_, computed] = both(&[("d", directory), ("d/f", hello), ("l", link)]);
        let mut text = b"spp fingerprint 1 content\n".to_vec();
        text.extend_from_slice(b"\x01\0\0\0dd\xed\x01\0\0");
        text.extend_from_slice(b"\x03\0\0\0d/ff\xa4\x01\0\0");
        text.extend_from_slice(blake3::hash(b"hello\n").as_bytes());
        text.extend_from_slice(b"\x01\0\0\0ll\xff\x01\0\0\x03\0\0\0d/f");
        assert_eq!(
            computed,
            Digest::from_bytes(*blake3::hash(&text).as_bytes())
        );
    }
}
