//! Which records of a sandbox's trees are kept, and for how long.
//!
//! A caller names an earlier record by its digest, so each that was answered is kept until newer ones
//! need its place. One more is kept for its digests of content alone: what has not changed since is
//! not read again.
//!
//! **Invariant:** bases stay within [`MAX_BASES`] and [`MAX_BYTES`], the one more within as many bytes
//! again, and what runs hold meanwhile within [`MAX_HELD_BYTES`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandbox_core::Digest;
use sandbox_core::search::{FingerprintDepth, Scope, Uncompared};

use super::manifest::Manifest;

/// Most records that a caller can name.
pub(super) const MAX_BASES: usize = 16;
/// Most bytes of all records together: two of a million entries with content each, or all sixteen
/// of a hundred thousand.
pub(super) const MAX_BYTES: usize = 256 << 20;
/// Most bytes of records that runs hold which have not ended yet.
pub(super) const MAX_HELD_BYTES: usize = 256 << 20;

/// What makes two records comparable: they are about the same entries, and know as much of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) scope: Scope,
    pub(super) depth: FingerprintDepth,
}

/// The records. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Newest last.
    bases: VecDeque<Base>,
    recent: Option<(Key, Arc<Manifest>)>,
}

#[derive(Debug)]
struct Base {
    digest: Digest,
    key: Key,
    manifest: Arc<Manifest>,
}

impl Kept {
    /// Keeps a record that is answered under this digest.
    pub(super) fn keep(&mut self, digest: Digest, key: Key, manifest: Arc<Manifest>) {
        self.remember(key.clone(), Arc::clone(&manifest));
        self.bases
            .retain(|base| (base.digest, &base.key) != (digest, &key));
        self.bases.push_back(Base {
            digest,
            key,
            manifest,
        });
        while self.bases.len() > MAX_BASES || self.bytes() > MAX_BYTES {
            self.bases.pop_front();
        }
    }

    /// Keeps a record for its digests of content.
    pub(super) fn remember(&mut self, key: Key, manifest: Arc<Manifest>) {
        if key.depth == FingerprintDepth::Content && manifest.bytes() <= MAX_BYTES {
            self.recent = Some((key, manifest));
        }
    }

    /// The record that was answered under this digest, or why there is none to compare with.
    pub(super) fn base(&self, digest: Digest, key: &Key) -> Result<Arc<Manifest>, Uncompared> {
        let mut named = self.bases.iter().filter(|base| base.digest == digest);
        match named.clone().find(|base| base.key == *key) {
            Some(base) => Ok(Arc::clone(&base.manifest)),
            None if named.next().is_some() => Err(Uncompared::OtherScope),
            None => Err(Uncompared::NotKnown),
        }
    }

    /// The newest record that knows contents of the same entries.
    pub(super) fn contents(&self, key: &Key) -> Option<Arc<Manifest>> {
        if key.depth != FingerprintDepth::Content {
            return None;
        }
        let recent = self.recent.iter().map(|(key, manifest)| (key, manifest));
        let bases = self.bases.iter().rev();
        recent
            .chain(bases.map(|base| (&base.key, &base.manifest)))
            .find(|(known, _)| *known == key)
            .map(|(_, manifest)| Arc::clone(manifest))
    }

    fn bytes(&self) -> usize {
        self.bases.iter().map(|base| base.manifest.bytes()).sum()
    }
}

/// A part of [`MAX_HELD_BYTES`], given back when it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    bytes: usize,
    sum: Arc<AtomicUsize>,
}

impl Held {
    /// Takes so many bytes; `None` if others hold too much.
    pub(super) fn take(sum: &Arc<AtomicUsize>, bytes: usize) -> Option<Self> {
        let taken = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            held.checked_add(bytes)
                .filter(|held| *held <= MAX_HELD_BYTES)
        });
        taken.ok().map(|_| Self {
            bytes,
            sum: Arc::clone(sum),
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use sandbox_core::SandboxPath;

    use super::super::coverage::Coverage;
    use super::super::manifest::Builder;
    use super::super::manifest::tests::{file, manifest};
    use super::*;

    fn key(depth: FingerprintDepth) -> Key {
        Key {
            scope: Scope::new(SandboxPath::root()),
            depth,
        }
    }

    fn digest(byte: u8) -> Digest {
        Digest::from_bytes([byte; 32])
    }

    fn small() -> Arc<Manifest> {
        Arc::new(manifest(&[("a", file(1))]))
    }

    /// Some ten bytes an entry.
    fn large(bytes: usize) -> Arc<Manifest> {
        let mut builder = Builder::default();
        let name = vec![b'x'; 1 << 20];
        for number in 0..bytes >> 20 {
            let mut path = number.to_be_bytes().to_vec();
            path.extend_from_slice(&name);
            builder.push(&path, &file(1));
        }
        Arc::new(builder.finish(Coverage::default()))
    }

    #[test]
    fn a_base_is_found_by_digest_and_scope_and_it_is_said_why_not() {
        let (metadata, content) = (
            key(FingerprintDepth::Metadata),
            key(FingerprintDepth::Content),
        );
        let mut kept = Kept::default();
        kept.keep(digest(1), metadata.clone(), small());
        assert!(kept.base(digest(1), &metadata).is_ok());
        assert_eq!(
            kept.base(digest(1), &content).err(),
            Some(Uncompared::OtherScope)
        );
        assert_eq!(
            kept.base(digest(2), &metadata).err(),
            Some(Uncompared::NotKnown)
        );
    }

    #[test]
    fn the_oldest_base_goes_first() {
        let key = key(FingerprintDepth::Metadata);
        let mut kept = Kept::default();
        for byte in 0..=u8::try_from(MAX_BASES).expect("few") {
            kept.keep(digest(byte), key.clone(), small());
        }
        assert!(kept.base(digest(0), &key).is_err());
        assert!(kept.base(digest(1), &key).is_ok());
        assert_eq!(kept.bases.len(), MAX_BASES);
    }

    #[test]
    fn one_that_is_asked_again_counts_once() {
        let key = key(FingerprintDepth::Metadata);
        let mut kept = Kept::default();
        for _ in 0..2 * MAX_BASES {
            kept.keep(digest(1), key.clone(), small());
        }
        assert_eq!(kept.bases.len(), 1);
    }

    #[test]
    fn large_records_push_each_other_out() {
        let key = key(FingerprintDepth::Metadata);
        let mut kept = Kept::default();
        for byte in 0..4 {
            kept.keep(digest(byte), key.clone(), large(100 << 20));
        }
        assert_eq!(kept.bases.len(), 2);
        kept.keep(digest(9), key.clone(), large(MAX_BYTES + (2 << 20)));
        assert_eq!(
            kept.base(digest(9), &key).err(),
            Some(Uncompared::NotKnown),
            "what is too large is not kept"
        );
    }

    #[test]
    fn what_runs_hold_is_bounded_and_comes_back() {
        let sum = Arc::default();
        let first = Held::take(&sum, MAX_HELD_BYTES).expect("all of it is there");
        assert!(Held::take(&sum, 1).is_none());
        drop(first);
        assert!(Held::take(&sum, 1).is_some());
    }
}
