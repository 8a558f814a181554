//! Doubles that are wrong about trees that come and go.
//!
//! Each lies about one directory, that of its check. Most do as they are told and then something more, or
//! something less before.

use sandbox_core::process::ProcessSpec;
use sandbox_core::search::IgnoreRules;
use sandbox_core::transfer::{
    Compression, Manifest, Pull, PullReceipt, PullRequest, PushReceipt, PushRequest,
};
use sandbox_core::{Ctx, Error, ErrorKind, Result, SandboxExt, SandboxPath};

use super::doubles;
use super::wrapped::Honest;

/// Runs a command line in the workspace, whatever comes of it.
async fn shell(honest: &Honest, line: &str) {
    let descriptor = honest.descriptor();
    if let Some(shell) = &descriptor.shell {
        let process = ProcessSpec::new([shell.as_bytes(), b"-c", line.as_bytes()]);
        let _ = honest.run(&Ctx::new(), process).await;
    }
}

fn is(path: &SandboxPath, name: &str) -> bool {
    path.as_bytes() == name.as_bytes()
}

/// Pushes, and if the tree went to `at`, runs `line` afterwards.
async fn then(
    honest: &Honest,
    ctx: &Ctx,
    request: PushRequest,
    at: &str,
    line: &str,
) -> Result<PushReceipt> {
    let here = is(&request.destination, at);
    let receipt = honest.push_tree(ctx, request).await?;
    if here {
        shell(honest, line).await;
    }
    Ok(receipt)
}

/// Pushes, and says that a refusal with these words was none.
async fn forgiving(
    honest: &Honest,
    ctx: &Ctx,
    request: PushRequest,
    words: &str,
) -> Result<PushReceipt> {
    match honest.push_tree(ctx, request).await {
        Err(error) if error.detail_text().contains(words) => Ok(nothing()),
        result => result,
    }
}

fn nothing() -> PushReceipt {
    PushReceipt {
        applied: 0,
        removed: 0,
        bytes: 0,
        manifest: Manifest::default(),
    }
}

/// Pulls, and if the tree is at `at`, runs `line` before.
async fn first(
    honest: &Honest,
    ctx: &Ctx,
    request: PullRequest,
    at: &str,
    line: &str,
) -> Result<Pull> {
    if concerns(&request, at) {
        shell(honest, line).await;
    }
    honest.pull_tree(ctx, request).await
}

fn concerns(request: &PullRequest, at: &str) -> bool {
    request
        .scopes
        .first()
        .is_some_and(|scope| is(&scope.root, at))
}

/// Pulls, and if the tree is at `at`, says something else about it.
async fn retold(
    honest: &Honest,
    ctx: &Ctx,
    request: PullRequest,
    at: &str,
    tell: fn(&mut PullReceipt),
) -> Result<Pull> {
    let here = concerns(&request, at);
    let mut pull = honest.pull_tree(ctx, request).await?;
    let receipt = pull.receipt;
    pull.receipt = Box::pin(async move {
        let mut receipt = receipt.await?;
        if here {
            tell(&mut receipt);
        }
        Ok(receipt)
    });
    Ok(pull)
}

/// Pulls, and says that a failure of this kind was none.
async fn excused(
    honest: &Honest,
    ctx: &Ctx,
    request: PullRequest,
    kind: ErrorKind,
) -> Result<Pull> {
    let mut pull = honest.pull_tree(ctx, request).await?;
    let receipt = pull.receipt;
    pull.receipt = Box::pin(async move {
        match receipt.await {
            Err(error) if error.kind() == kind => Ok(PullReceipt {
                entries: 0,
                removed: Vec::new(),
                flaws: Vec::new(),
                manifest: Manifest::default(),
            }),
            result => result,
        }
    });
    Ok(pull)
}

/// Replaces a conflict about `subject` by writing over it.
async fn overwriting(
    honest: &Honest,
    ctx: &Ctx,
    request: PushRequest,
    subject: &str,
) -> Result<PushReceipt> {
    match honest.push_tree(ctx, request).await {
        Err(error) if error.kind() == ErrorKind::Conflict && error.subject() == subject => {
            Ok(nothing())
        }
        result => result,
    }
}

doubles! {
    a_pushed_tree_is_all_there: "a file of a pushed tree is missing"
    push_tree(honest, ctx, request) { then(&honest, &ctx, request, "whole", "rm whole/d/file").await }

    pushed_permission_bits_arrive: "pushed bits are those that are usual"
    push_tree(honest, ctx, request) { then(&honest, &ctx, request, "bits", "chmod 644 bits/run").await }

    set_id_bits_are_not_pushed: "set-id bits are pushed"
    push_tree(honest, ctx, request) { then(&honest, &ctx, request, "setid", "chmod 6755 setid/tool").await }

    pushed_times_arrive: "a pushed file is as old as its push"
    push_tree(honest, ctx, request) { then(&honest, &ctx, request, "times", "touch times/d/file").await }

    pushed_links_keep_their_texts: "a pushed link that leaves is made to stay"
    push_tree(honest, ctx, request) {
        then(&honest, &ctx, request, "texts", "rm texts/l1; ln -s absolute/place texts/l1").await
    }

    an_empty_directory_is_pushed: "empty directories are not pushed"
    push_tree(honest, ctx, request) { then(&honest, &ctx, request, "hollow", "rmdir hollow/d/empty").await }

    odd_names_are_pushed: "names that begin with a dash are not pushed"
    push_tree(honest, ctx, request) { then(&honest, &ctx, request, "odd", "rm -- odd/-rf").await }

    long_names_and_texts_are_pushed: "a long text is cut"
    push_tree(honest, ctx, request) {
        then(&honest, &ctx, request, "long", "rm long/text; ln -s ddd long/text").await
    }

    a_compressed_tree_is_pushed: "what is compressed is not understood"
    push_tree(honest, ctx, mut request) {
        if request.compression == Compression::Gzip {
            request.compression = Compression::None;
        }
        honest.push_tree(&ctx, request).await
    }

    a_push_makes_missing_parents: "parents must be there for a push"
    push_tree(honest, ctx, request) {
        if let Some(parent) = request.destination.parent()
            && is(&parent, "parents/of")
        {
            return Err(Error::refused(sandbox_core::Verb::PushTree, ErrorKind::NotFound));
        }
        honest.push_tree(&ctx, request).await
    }

    a_push_into_an_empty_directory_keeps_its_bits: "a push sets the bits of a directory that was there"
    push_tree(honest, ctx, request) { then(&honest, &ctx, request, "empty", "chmod 700 empty").await }

    a_push_onto_entries_is_refused: "a push onto entries is none"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "there already").await }

    a_push_onto_a_file_is_refused: "a push onto a file is none"
    push_tree(honest, ctx, request) {
        match honest.push_tree(&ctx, request).await {
            Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(nothing()),
            result => result,
        }
    }

    a_push_says_what_it_did: "a push counts a byte too many"
    push_tree(honest, ctx, request) {
        let here = is(&request.destination, "said");
        let mut receipt = honest.push_tree(&ctx, request).await?;
        receipt.bytes += u64::from(here);
        Ok(receipt)
    }

    nothing_is_left_beside_a_pushed_tree: "a push leaves something beside its tree"
    push_tree(honest, ctx, request) {
        then(&honest, &ctx, request, "alone/tree", "mkdir alone/.spp-tree-0123456789abcdef").await
    }

    a_name_that_leaves_the_tree_is_refused: "a name with `..` is taken"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "`..`").await }

    an_absolute_name_is_refused: "an absolute name is taken"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "is absolute").await }

    an_entry_beneath_a_link_is_refused: "an entry beneath a link is taken"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "what it lies in came before").await }

    a_second_entry_of_a_name_is_refused: "the last entry of a name counts"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "of this name came before").await }

    a_hard_link_is_refused: "hard links are left out in silence"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "a hard link").await }

    a_device_or_a_fifo_is_refused: "FIFOs are left out in silence"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "it is a FIFO").await }

    an_unknown_type_is_refused: "types that are not known are left out in silence"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "of the type 'Z'").await }

    an_extension_that_changes_a_size_is_refused: "an extension may change a size"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "sets \"size\"").await }

    a_record_for_all_entries_is_refused: "a record for all entries is passed over"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "holds for all entries").await }

    a_cut_archive_is_refused: "an archive may lack its end"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "before its end mark").await }

    a_damaged_header_is_refused: "a checksum is not looked at"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "checksum").await }

    what_follows_the_end_is_refused: "what follows the end is passed over"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "follows the end").await }

    a_tree_is_never_pushed_outside_the_roots: "a tree that would leave is dropped in silence"
    push_tree(honest, ctx, request) {
        match honest.push_tree(&ctx, request).await {
            Err(error) if error.kind() == ErrorKind::OutsideRoot => Ok(nothing()),
            result => result,
        }
    }

    a_delta_changes_what_it_has_and_nothing_else: "a delta takes away what it does not have"
    push_tree(honest, ctx, request) {
        let delta = request.base.is_some();
        let line = if delta { "rm some/b" } else { ":" };
        then(&honest, &ctx, request, "some", line).await
    }

    a_delta_removes_what_it_is_told: "removals are counted and not done"
    push_tree(honest, ctx, mut request) {
        let told = request.removed.len() as u64;
        if is(&request.destination, "less") {
            request.removed.clear();
        }
        let mut receipt = honest.push_tree(&ctx, request).await?;
        receipt.removed = told;
        Ok(receipt)
    }

    the_manifest_of_a_delta_is_the_next_base: "the manifest of a delta has what went"
    push_tree(honest, ctx, request) {
        let base = request.base.clone().filter(|_| is(&request.destination, "next"));
        let mut receipt = honest.push_tree(&ctx, request).await?;
        if let Some(base) = base {
            receipt.manifest = base;
        }
        Ok(receipt)
    }

    a_base_that_is_not_there_is_a_conflict: "a conflict over content is none"
    push_tree(honest, ctx, request) {
        if is(&request.destination, "stale") {
            return overwriting(&honest, &ctx, request, "a").await;
        }
        honest.push_tree(&ctx, request).await
    }

    what_the_base_does_not_have_is_not_replaced: "what the base does not have is passed over"
    push_tree(honest, ctx, request) { overwriting(&honest, &ctx, request, "mine").await }

    a_directory_goes_only_with_all_that_is_in_it: "a directory goes with whatever is in it"
    push_tree(honest, ctx, request) { overwriting(&honest, &ctx, request, "d/mine").await }

    a_removal_that_the_base_does_not_have_is_refused: "a removal of what nobody knew is none"
    push_tree(honest, ctx, request) { forgiving(&honest, &ctx, request, "is not in the base").await }

    a_pulled_tree_is_all_there: "an empty directory is not pulled"
    pull_tree(honest, ctx, request) { first(&honest, &ctx, request, "all", "rmdir all/d/empty").await }

    pulled_permission_bits_arrive: "pulled bits are those that are usual"
    pull_tree(honest, ctx, request) { first(&honest, &ctx, request, "modes", "chmod 644 modes/755").await }

    a_link_is_pulled_as_a_link: "a link is pulled as what it leads to"
    pull_tree(honest, ctx, request) {
        first(&honest, &ctx, request, "links", "rm links/door; cp -r links/real links/door").await
    }

    odd_names_are_pulled: "names that begin with a dash are not pulled"
    pull_tree(honest, ctx, request) { first(&honest, &ctx, request, "names", "rm -- names/-x").await }

    what_is_ignored_is_not_pulled: "what is ignored is pulled"
    pull_tree(honest, ctx, mut request) {
        if concerns(&request, "ignoring") {
            for scope in &mut request.scopes {
                scope.ignore = IgnoreRules::Off;
            }
        }
        honest.pull_tree(&ctx, request).await
    }

    without_rules_everything_is_pulled: "there are always rules"
    pull_tree(honest, ctx, mut request) {
        for scope in &mut request.scopes {
            scope.ignore = IgnoreRules::Git;
        }
        honest.pull_tree(&ctx, request).await
    }

    globs_choose_what_is_pulled: "what is excluded is pulled"
    pull_tree(honest, ctx, mut request) {
        for scope in &mut request.scopes {
            scope.exclude.clear();
        }
        honest.pull_tree(&ctx, request).await
    }

    several_scopes_are_one_archive: "only the last scope is pulled"
    pull_tree(honest, ctx, mut request) {
        if request.scopes.len() > 1 {
            request.scopes.remove(0);
        }
        honest.pull_tree(&ctx, request).await
    }

    what_no_archive_holds_is_left_out_and_said: "what is left out is not said"
    pull_tree(honest, ctx, request) {
        retold(&honest, &ctx, request, "special", |receipt| receipt.flaws.clear()).await
    }

    a_pull_is_compressed_when_asked: "nothing is ever compressed"
    pull_tree(honest, ctx, mut request) {
        request.compression = Compression::None;
        honest.pull_tree(&ctx, request).await
    }

    a_pull_lists_the_tree_with_digests: "a pull lists no digests"
    pull_tree(honest, ctx, request) {
        retold(&honest, &ctx, request, "listed", |receipt| {
            for entry in &mut receipt.manifest.entries {
                entry.digest = None;
            }
        }).await
    }

    with_a_base_only_what_differs_is_pulled: "everything is pulled, whatever the base"
    pull_tree(honest, ctx, mut request) {
        if concerns(&request, "since") {
            request.base = None;
        }
        honest.pull_tree(&ctx, request).await
    }

    a_pull_says_what_is_gone_since_its_base: "what is gone is not said"
    pull_tree(honest, ctx, request) {
        retold(&honest, &ctx, request, "before", |receipt| receipt.removed.clear()).await
    }

    a_pull_of_nothing_is_not_found: "a pull of nothing is an empty tree"
    pull_tree(honest, ctx, request) { excused(&honest, &ctx, request, ErrorKind::NotFound).await }

    a_pull_of_a_file_is_refused: "a pull of a file is an empty tree"
    pull_tree(honest, ctx, request) { excused(&honest, &ctx, request, ErrorKind::NotADirectory).await }

    a_tree_outside_the_roots_is_never_pulled: "a pull from outside is an empty tree"
    pull_tree(honest, ctx, request) { excused(&honest, &ctx, request, ErrorKind::OutsideRoot).await }

    a_large_file_is_pulled_intact: "the middle of a large file is something else"
    pull_tree(honest, ctx, request) {
        let line = "printf x | dd of=large/file bs=1 seek=6000000 conv=notrunc";
        first(&honest, &ctx, request, "large", line).await
    }

    what_is_pulled_can_be_pushed: "the bits that a pull lists are not those it sends"
    pull_tree(honest, ctx, request) {
        retold(&honest, &ctx, request, "there", |receipt| {
            for entry in &mut receipt.manifest.entries {
                entry.mode = 0o600;
            }
        }).await
    }
}
