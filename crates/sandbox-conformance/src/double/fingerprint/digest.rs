//! Doubles that are wrong about digests, and about which trees have one.

use std::time::Duration;

use sandbox_core::search::{Completeness, Fingerprint, FingerprintDepth, IncompleteCause};
use sandbox_core::{Digest, ErrorKind};

use super::{freeze, has_limit, is_old, salted};
use crate::double::doubles;
use crate::support::path;

doubles! {
    an_unchanged_tree_has_one_fingerprint: "each digest of metadata is another one"
    fingerprint(honest, ctx, request) {
        let metadata = request.scope.depth == FingerprintDepth::Metadata;
        let asked = request.base.is_some();
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if metadata && !asked {
            let number = honest.add("metadata", 1);
            // The first is the true one: it may be a base.
            if number > 1 {
                answer.digest = salted(answer.digest, &number.to_le_bytes());
            }
        }
        Ok(answer)
    }

    a_changed_file_is_another_tree: "the digest by content is one of names"
    fingerprint(honest, ctx, request) {
        let content = request.scope.depth == FingerprintDepth::Content;
        let asked = request.base.is_some();
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if content && !asked {
            freeze(&honest, &mut answer, |before, now| before == now);
        }
        Ok(answer)
    }

    a_new_entry_is_another_tree: "the digest by content is one of files"
    fingerprint(honest, ctx, request) {
        let content = request.scope.depth == FingerprintDepth::Content;
        let asked = request.base.is_some();
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if content && !asked {
            freeze(&honest, &mut answer, |before, now| before != now);
        }
        Ok(answer)
    }

    two_copies_have_one_content_fingerprint: "the digest knows where the tree is"
    fingerprint(honest, ctx, request) {
        let root = request.scope.scope.root.clone();
        let asked = request.base.is_some();
        let mut answer = honest.fingerprint(&ctx, request).await?;
        // What is one component deep is never a base in the suite.
        if !asked && !root.is_root() && root.components().count() == 1 {
            answer.digest = salted(answer.digest, root.as_bytes());
        }
        Ok(answer)
    }

    a_touch_is_no_change_of_content: "the digest by content covers old times"
    fingerprint(honest, ctx, request) {
        let content = request.scope.depth == FingerprintDepth::Content;
        let mut answer = honest.fingerprint(&ctx, request).await?;
        let file = honest.look(&ctx, &path("file")).await;
        if content && file.is_some_and(|stat| is_old(&stat)) {
            answer.digest = salted(answer.digest, b"old");
        }
        Ok(answer)
    }

    entries_are_counted: "the root counts as an entry"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        answer.entries += 1;
        Ok(answer)
    }

    a_link_out_is_only_its_text: "what a link leads to is read"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        let door = path("door");
        if honest.link(&ctx, &door).await.is_some()
            && let Ok(content) = std::fs::read(honest.host(&door))
        {
            answer.digest = salted(answer.digest, &content);
        }
        Ok(answer)
    }

    a_fifo_blocks_no_fingerprint: "a FIFO is waited for"
    fingerprint(honest, ctx, request) {
        if honest.look(&ctx, &path("fifo")).await.is_some() {
            tokio::time::sleep(Duration::from_secs(6)).await;
        }
        honest.fingerprint(&ctx, request).await
    }

    a_tree_beyond_its_limit_is_incomplete: "what was seen up to the limit is said to be all"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if has_limit(&answer.complete) {
            answer.complete = Completeness::Complete;
        }
        Ok(answer)
    }

    a_fingerprint_of_nothing_is_not_found: "what is not there is an empty tree"
    fingerprint(honest, ctx, request) {
        match honest.fingerprint(&ctx, request).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Fingerprint {
                digest: Digest::from_bytes([0; 32]),
                entries: 0,
                complete: Completeness::Complete,
                changes: None,
                uncompared: None,
            }),
            answer => answer,
        }
    }

    a_fingerprint_never_leaves_the_roots: "what lies outside is only incomplete"
    fingerprint(honest, ctx, request) {
        match honest.fingerprint(&ctx, request).await {
            Err(error) if error.kind() == ErrorKind::OutsideRoot => Ok(Fingerprint {
                digest: Digest::from_bytes([0; 32]),
                entries: 0,
                complete: Completeness::Incomplete {
                    reason: "it lies outside".to_owned(),
                    cause: IncompleteCause::Permission,
                },
                changes: None,
                uncompared: None,
            }),
            answer => answer,
        }
    }
}
