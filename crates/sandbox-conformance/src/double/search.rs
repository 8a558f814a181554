//! Doubles that are wrong about finding entries by name.

use sandbox_core::file::EntryKind;
use sandbox_core::search::{
    Completeness, GlobRequest, GlobResult, Hidden, IgnoreRules, IncompleteCause, Sort, WithStat,
};
use sandbox_core::{Ctx, ErrorKind, Result, SandboxExt, SandboxPath};

use super::doubles;
use super::wrapped::Honest;

const NOTHING: GlobResult = GlobResult {
    entries: Vec::new(),
    complete: Completeness::Complete,
};

fn path(text: &str) -> SandboxPath {
    SandboxPath::parse(text).expect("doubles spell their paths well")
}

/// Whether something of this name lies in the workspace.
async fn has(honest: &Honest, ctx: &Ctx, name: &str) -> bool {
    honest.look(ctx, &path(name)).await.is_some()
}

/// The answer without the entries of one kind.
async fn without(
    honest: &Honest,
    ctx: &Ctx,
    mut request: GlobRequest,
    kind: EntryKind,
) -> Result<GlobResult> {
    let stat = request.stat;
    request.stat = WithStat::Yes;
    let mut result = honest.glob(ctx, request).await?;
    result
        .entries
        .retain(|entry| entry.stat.as_ref().is_none_or(|stat| stat.kind != kind));
    if stat == WithStat::No {
        result
            .entries
            .iter_mut()
            .for_each(|entry| entry.stat = None);
    }
    Ok(result)
}

/// What a refusal of this kind becomes: nothing found.
fn hushed(result: Result<GlobResult>, kind: ErrorKind) -> Result<GlobResult> {
    match result {
        Err(error) if error.kind() == kind => Ok(NOTHING),
        result => result,
    }
}

doubles! {
    entries_are_found_by_name_at_any_level: "what lies deep is not found"
    glob(honest, ctx, request) {
        let mut result = honest.glob(&ctx, request).await?;
        result.entries.retain(|entry| entry.path.components().count() < 4);
        Ok(result)
    }

    a_star_does_not_match_a_slash: "a star matches a slash"
    glob(honest, ctx, mut request) {
        if request.scope.include == ["*.rs"] {
            request.scope.include = vec!["**/*.rs".to_owned()];
        }
        honest.glob(&ctx, request).await
    }

    directories_are_found_too: "directories are not found"
    glob(honest, ctx, request) {
        without(&honest, &ctx, request, EntryKind::Directory).await
    }

    a_link_is_found_and_not_followed: "links are not found"
    glob(honest, ctx, request) {
        without(&honest, &ctx, request, EntryKind::Link).await
    }

    ignored_names_are_left_out_outside_of_a_repository: "ignore rules need a repository"
    glob(honest, ctx, mut request) {
        if !has(&honest, &ctx, ".git").await {
            request.scope.ignore = IgnoreRules::Off;
        }
        honest.glob(&ctx, request).await
    }

    a_nearer_ignore_file_overrides_one_further_out: "what is negated further in stays ignored"
    glob(honest, ctx, request) {
        let mut result = honest.glob(&ctx, request).await?;
        let mut kept = Vec::new();
        for entry in result.entries {
            let rules = entry.path.parent().and_then(|parent| parent.join(".gitignore").ok());
            let negated = match rules {
                Some(rules) => honest.read_file(&ctx, rules).await.is_ok_and(|rules| {
                    rules.bytes.starts_with(b"!")
                }),
                None => false,
            };
            if !negated {
                kept.push(entry);
            }
        }
        result.entries = kept;
        Ok(result)
    }

    a_broad_glob_does_not_bring_back_what_is_ignored: "a glob for everything finds everything"
    glob(honest, ctx, mut request) {
        if request.scope.include == ["**"] {
            request.scope.ignore = IgnoreRules::Off;
        }
        honest.glob(&ctx, request).await
    }

    excludes_of_the_repository_hold: "excludes of the repository are not read"
    glob(honest, ctx, mut request) {
        if has(&honest, &ctx, ".git/info/exclude").await {
            request.scope.ignore = IgnoreRules::Off;
        }
        honest.glob(&ctx, request).await
    }

    without_rules_everything_is_found: "ignore rules cannot be switched off"
    glob(honest, ctx, mut request) {
        request.scope.ignore = IgnoreRules::Git;
        honest.glob(&ctx, request).await
    }

    hidden_names_are_left_out_when_asked: "hidden names are always found"
    glob(honest, ctx, mut request) {
        request.scope.hidden = Hidden::Include;
        honest.glob(&ctx, request).await
    }

    what_is_excluded_is_not_entered: "an excluded directory is entered"
    glob(honest, ctx, mut request) {
        request.scope.exclude.retain(|glob| glob.contains('*'));
        honest.glob(&ctx, request).await
    }

    a_depth_counts_from_the_root_of_the_scope: "a depth counts from below the root"
    glob(honest, ctx, mut request) {
        request.scope.max_depth = request.scope.max_depth.map(|depth| depth + 1);
        honest.glob(&ctx, request).await
    }

    paths_are_sorted_by_their_bytes_when_asked: "paths are sorted without regard to case"
    glob(honest, ctx, request) {
        let by_path = request.sort == Sort::Path;
        let mut result = honest.glob(&ctx, request).await?;
        if by_path {
            result.entries.sort_by_key(|entry| entry.path.to_string().to_lowercase());
        }
        Ok(result)
    }

    the_newest_come_first_when_asked: "the oldest come first"
    glob(honest, ctx, request) {
        let by_time = request.sort == Sort::Modified;
        let mut result = honest.glob(&ctx, request).await?;
        if by_time {
            result.entries.reverse();
        }
        Ok(result)
    }

    a_sorted_answer_that_is_cut_is_the_first_in_order: "a sorted answer is cut anywhere"
    glob(honest, ctx, mut request) {
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        if request.sort != Sort::Path {
            return honest.glob(&ctx, request).await;
        }
        request.limit = u64::from(u32::MAX);
        let mut result = honest.glob(&ctx, request).await?;
        let more = result.entries.len().saturating_sub(limit);
        if more > 0 {
            result.entries.drain(..more);
            result.complete = Completeness::Incomplete {
                reason: "a limit".into(),
                cause: IncompleteCause::Limit,
            };
        }
        Ok(result)
    }

    an_answer_that_is_cut_says_so: "an answer that is cut looks complete"
    glob(honest, ctx, request) {
        let mut result = honest.glob(&ctx, request).await?;
        result.complete = Completeness::Complete;
        Ok(result)
    }

    entries_are_described_when_asked: "entries are never described"
    glob(honest, ctx, request) {
        let mut result = honest.glob(&ctx, request).await?;
        result.entries.iter_mut().for_each(|entry| entry.stat = None);
        Ok(result)
    }

    paths_are_those_of_the_sandbox_wherever_it_began: "paths are relative to the scope's root"
    glob(honest, ctx, request) {
        let root = request.scope.root.to_string() + "/";
        let mut result = honest.glob(&ctx, request).await?;
        for entry in &mut result.entries {
            if let Some(rest) = entry.path.to_string().strip_prefix(&root) {
                entry.path = path(rest);
            }
        }
        Ok(result)
    }

    odd_names_are_found_as_they_are: "a name that is not UTF-8 is not found"
    glob(honest, ctx, request) {
        let mut result = honest.glob(&ctx, request).await?;
        result.entries.retain(|entry| entry.path.as_str().is_some());
        Ok(result)
    }

    a_glob_that_cannot_be_read_is_refused: "a glob that cannot be read finds nothing"
    glob(honest, ctx, request) {
        hushed(honest.glob(&ctx, request).await, ErrorKind::InvalidArgument)
    }

    a_search_of_a_missing_directory_is_not_found: "in a missing directory nothing is found"
    glob(honest, ctx, request) {
        hushed(honest.glob(&ctx, request).await, ErrorKind::NotFound)
    }

    a_file_is_no_directory_to_list: "in a file nothing is found"
    glob(honest, ctx, request) {
        hushed(honest.glob(&ctx, request).await, ErrorKind::NotADirectory)
    }

    a_listing_never_leaves_the_roots: "what lies outside is listed"
    glob(honest, ctx, request) {
        hushed(honest.glob(&ctx, request).await, ErrorKind::OutsideRoot)
    }
}
