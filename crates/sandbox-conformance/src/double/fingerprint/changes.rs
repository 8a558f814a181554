//! Doubles that are wrong about what changed since a base, and about what counts.

use sandbox_core::file::EntryKind;
use sandbox_core::search::{
    Changes, Completeness, FingerprintDepth, FingerprintRequest, Hidden, IgnoreRules,
    IncompleteCause, Uncompared,
};
use sandbox_core::{ErrorKind, SandboxPath};

use super::{forget, has_limit, is_old};
use crate::double::doubles;
use crate::support::path;

doubles! {
    a_new_entry_is_told_as_created: "new entries are not told"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if let Some(changes) = &mut answer.changes {
            // A list that is too long to be told is another double's.
            if changes.created.len() < 100 {
                changes.created.clear();
            }
        }
        Ok(answer)
    }

    a_file_that_became_empty_is_told_as_modified: "a file that is empty now is not told"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if let Some(changes) = &mut answer.changes {
            forget(&honest, &ctx, &mut changes.modified, |stat| {
                stat.kind == EntryKind::File && stat.size == 0
            }).await;
        }
        Ok(answer)
    }

    a_removed_entry_is_told: "removed entries are not told"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if let Some(changes) = &mut answer.changes {
            changes.removed.clear();
        }
        Ok(answer)
    }

    a_rewrite_that_restores_the_time_is_told: "what has its old time was not modified"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if let Some(changes) = &mut answer.changes {
            forget(&honest, &ctx, &mut changes.modified, is_old).await;
        }
        Ok(answer)
    }

    a_link_that_leads_elsewhere_is_told: "links do not change"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if let Some(changes) = &mut answer.changes {
            forget(&honest, &ctx, &mut changes.modified, |stat| {
                stat.kind == EntryKind::Link
            }).await;
        }
        Ok(answer)
    }

    a_mode_that_changed_is_told: "what can be executed was not modified"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if let Some(changes) = &mut answer.changes {
            forget(&honest, &ctx, &mut changes.modified, |stat| {
                stat.kind == EntryKind::File && stat.mode & 0o111 != 0
            }).await;
        }
        Ok(answer)
    }

    a_directory_is_not_modified_by_what_is_in_it: "a directory is modified by a new entry"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if let Some(changes) = &mut answer.changes {
            let mut parents: Vec<SandboxPath> = changes
                .created
                .iter()
                .filter_map(SandboxPath::parent)
                .filter(|parent| !parent.is_root())
                .collect();
            parents.dedup();
            changes.modified.extend(parents);
        }
        Ok(answer)
    }

    a_touch_is_not_told_by_content: "a new time is told as another content"
    fingerprint(honest, ctx, request) {
        let content = request.scope.depth == FingerprintDepth::Content;
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if let Some(changes) = &mut answer.changes {
            let file = path("file");
            let touched = honest.look(&ctx, &file).await.is_some_and(|stat| is_old(&stat));
            if content && touched && changes.modified.is_empty() {
                changes.modified.push(file);
            }
        }
        Ok(answer)
    }

    paths_of_changes_lead_to_them: "paths start at the scope's root"
    fingerprint(honest, ctx, request) {
        let root = request.scope.scope.root.clone();
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if let Some(changes) = answer.changes.as_mut().filter(|_| !root.is_root()) {
            for changed in &mut changes.modified {
                let below = changed.as_bytes().get(root.as_bytes().len() + 1..);
                *changed = path(below.unwrap_or(b"."));
            }
        }
        Ok(answer)
    }

    a_base_that_is_not_known_is_said_to_be_that: "since an unknown base nothing changed"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if answer.uncompared == Some(Uncompared::NotKnown) {
            answer.uncompared = None;
            answer.changes = Some(Changes {
                created: Vec::new(),
                modified: Vec::new(),
                removed: Vec::new(),
                complete: Completeness::Complete,
            });
        }
        Ok(answer)
    }

    a_base_of_another_scope_is_said_to_be_that: "a base of another scope is not known"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if answer.uncompared == Some(Uncompared::OtherScope) {
            answer.uncompared = Some(Uncompared::NotKnown);
        }
        Ok(answer)
    }

    nothing_beyond_a_limit_is_called_new_or_gone: "what is beyond the limit is new"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        let limited = has_limit(&answer.complete);
        if let Some(changes) = answer.changes.as_mut().filter(|_| limited) {
            changes.created.push(path("1"));
        }
        Ok(answer)
    }

    many_changes_are_told_in_part_and_said_to_be: "a part of the changes is said to be all"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if let Some(changes) = &mut answer.changes
            && changes.created.len() > 100
        {
            changes.created.truncate(100);
            changes.complete = Completeness::Complete;
        }
        Ok(answer)
    }

    what_is_ignored_does_not_count: "everything counts, ignored or not"
    fingerprint(honest, ctx, mut request) {
        request.scope.scope.ignore = IgnoreRules::Off;
        honest.fingerprint(&ctx, request).await
    }

    what_is_only_ignored_by_now_is_not_gone: "what is ignored by now is gone"
    fingerprint(honest, ctx, request) {
        let mut answer = honest.fingerprint(&ctx, request).await?;
        if let Some(changes) = &mut answer.changes
            && matches!(
                changes.complete,
                Completeness::Incomplete { cause: IncompleteCause::Changed, .. }
            )
        {
            changes.removed.push(path("log"));
        }
        Ok(answer)
    }

    hidden_names_count_only_when_wanted: "hidden names always count"
    fingerprint(honest, ctx, mut request) {
        request.scope.scope.hidden = Hidden::Include;
        honest.fingerprint(&ctx, request).await
    }

    what_lies_too_deep_does_not_count: "every level counts"
    fingerprint(honest, ctx, mut request) {
        request.scope.scope.max_depth = None;
        honest.fingerprint(&ctx, request).await
    }

    what_is_excluded_does_not_count: "nothing is excluded"
    fingerprint(honest, ctx, mut request) {
        request.scope.scope.exclude.clear();
        honest.fingerprint(&ctx, request).await
    }

    a_fingerprint_of_a_malformed_glob_is_refused: "a glob that is none is not looked at"
    fingerprint(honest, ctx, request) {
        let mut again: FingerprintRequest = request.clone();
        match honest.fingerprint(&ctx, request).await {
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                again.scope.scope.include.clear();
                honest.fingerprint(&ctx, again).await
            }
            answer => answer,
        }
    }
}
