//! Doubles that are wrong about what a tree looks like, and about what changed in it.

mod changes;
mod digest;
mod track;

pub(super) use changes::DOUBLES as CHANGES;
pub(super) use digest::DOUBLES as DIGEST;
pub(super) use track::DOUBLES as TRACK;

use std::time::{Duration, SystemTime};

use sandbox_core::file::Stat;
use sandbox_core::search::{Completeness, Fingerprint, IncompleteCause};
use sandbox_core::{Ctx, Digest, SandboxPath};

use super::wrapped::Honest;

/// Another digest, which depends on `salt` too.
fn salted(digest: Digest, salt: &[u8]) -> Digest {
    let mut bytes = digest.as_bytes().to_vec();
    bytes.extend_from_slice(salt);
    Digest::from_bytes(*blake3::hash(&bytes).as_bytes())
}

/// Replaces the digest by the first one that was ever answered, if `stale` says so of the number of
/// entries then and now.
fn freeze(honest: &Honest, answer: &mut Fingerprint, stale: impl Fn(u64, u64) -> bool) {
    let mut words = answer
        .digest
        .as_bytes()
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    let keys = ["frozen 0", "frozen 1", "frozen 2", "frozen 3"];
    let entries = honest.noted("frozen entries");
    if entries == 0 {
        honest.note("frozen entries", answer.entries);
        for (key, word) in keys.iter().zip(&mut words) {
            honest.note(key, word);
        }
    } else if stale(entries, answer.entries) {
        let mut bytes = [0; 32];
        for (key, part) in keys.iter().zip(bytes.chunks_exact_mut(8)) {
            part.copy_from_slice(&honest.noted(key).to_le_bytes());
        }
        answer.digest = Digest::from_bytes(bytes);
    }
}

/// Drops the paths whose entries are so.
async fn forget(
    honest: &Honest,
    ctx: &Ctx,
    paths: &mut Vec<SandboxPath>,
    so: impl Fn(&Stat) -> bool,
) {
    for path in std::mem::take(paths) {
        if !honest.look(ctx, &path).await.is_some_and(|stat| so(&stat)) {
            paths.push(path);
        }
    }
}

/// Whether its time was set to long ago.
fn is_old(stat: &Stat) -> bool {
    let day = Duration::from_secs(24 * 3600);
    stat.modified
        .is_some_and(|modified| modified + day < SystemTime::now())
}

fn has_limit(complete: &Completeness) -> bool {
    matches!(
        complete,
        Completeness::Incomplete {
            cause: IncompleteCause::Limit,
            ..
        }
    )
}
