//! Checks of `glob`.

use sandbox_core::file::EntryKind;
use sandbox_core::search::{
    Completeness, GlobRequest, GlobResult, Hidden, IgnoreRules, IncompleteCause, Scope, Sort,
    WithStat,
};
use sandbox_core::{Error, ErrorKind, SandboxPath};

use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::{path, refused};

async fn ask(place: &Place, change: impl FnOnce(&mut GlobRequest)) -> Result<GlobResult, Error> {
    let mut request = GlobRequest {
        scope: Scope::new(SandboxPath::root()),
        sort: Sort::None,
        limit: 10_000,
        stat: WithStat::No,
    };
    change(&mut request);
    place.sandbox.glob(&place.ctx(), request).await
}

/// The paths that match a glob, as they come.
async fn found(
    place: &Place,
    glob: &str,
    change: impl FnOnce(&mut GlobRequest),
) -> Result<Vec<String>, Failure> {
    let result = ask(place, |request| {
        request.scope.include = vec![glob.to_owned()];
        change(request);
    })
    .await?;
    let names = result.entries.iter().map(|entry| entry.path.to_string());
    Ok(names.collect())
}

async fn sorted(
    place: &Place,
    glob: &str,
    change: impl FnOnce(&mut GlobRequest),
) -> Result<Vec<String>, Failure> {
    let mut names = found(place, glob, change).await?;
    names.sort();
    Ok(names)
}

pub(crate) async fn entries_are_found_by_name_at_any_level(place: &Place) -> Verdict {
    place
        .script("mkdir -p a/b/c; touch x.rs a/b/c/x.rs a/b/c/x.md")
        .await?;
    let names = sorted(place, "**/*.rs", |_| {}).await?;
    ensure_eq!(names, ["a/b/c/x.rs", "x.rs"], "what `**/*.rs` finds");
    Ok(())
}

pub(crate) async fn a_star_does_not_match_a_slash(place: &Place) -> Verdict {
    place.script("mkdir a; touch x.rs a/x.rs").await?;
    let names = sorted(place, "*.rs", |_| {}).await?;
    ensure_eq!(names, ["x.rs"], "what `*.rs` finds");
    Ok(())
}

pub(crate) async fn directories_are_found_too(place: &Place) -> Verdict {
    place.script("mkdir -p x-directory").await?;
    let names = sorted(place, "x-*", |_| {}).await?;
    ensure_eq!(names, ["x-directory"], "what is found");
    Ok(())
}

pub(crate) async fn a_link_is_found_and_not_followed(place: &Place) -> Verdict {
    place.script("mkdir -p y; touch y/z; ln -s y link").await?;
    let names = sorted(place, "link{,/**}", |_| {}).await?;
    ensure_eq!(names, ["link"], "what is found at a link to a directory");
    Ok(())
}

pub(crate) async fn ignored_names_are_left_out_outside_of_a_repository(place: &Place) -> Verdict {
    place
        .script("echo '*.log' >.gitignore; touch a.log a.txt")
        .await?;
    let names = sorted(place, "a.*", |_| {}).await?;
    ensure_eq!(names, ["a.txt"], "what is not ignored");
    Ok(())
}

pub(crate) async fn a_nearer_ignore_file_overrides_one_further_out(place: &Place) -> Verdict {
    place
        .script(
            "mkdir .git sub; echo '*.log' >.gitignore; echo '!keep.log' >sub/.gitignore
             touch keep.log sub/keep.log sub/x.log",
        )
        .await?;
    let names = sorted(place, "{*,sub/*}.log", |_| {}).await?;
    ensure_eq!(names, ["sub/keep.log"], "what is not ignored");
    Ok(())
}

pub(crate) async fn a_broad_glob_does_not_bring_back_what_is_ignored(place: &Place) -> Verdict {
    place
        .script("mkdir .git; echo '*.log' >.gitignore; touch a.log a.txt")
        .await?;
    let names = sorted(place, "**", |_| {}).await?;
    ensure_eq!(names, [".gitignore", "a.txt"], "what `**` finds");
    Ok(())
}

pub(crate) async fn excludes_of_the_repository_hold(place: &Place) -> Verdict {
    place
        .script("mkdir -p .git/info; echo noise >.git/info/exclude; touch noise nice")
        .await?;
    let names = sorted(place, "n*", |_| {}).await?;
    ensure_eq!(names, ["nice"], "what is not excluded");
    Ok(())
}

pub(crate) async fn without_rules_everything_is_found(place: &Place) -> Verdict {
    place
        .script("mkdir .git; touch .git/HEAD; echo '*.log' >.gitignore; touch a.log")
        .await?;
    let names = sorted(place, "{.git/HEAD,a.log}", |request| {
        request.scope.ignore = IgnoreRules::Off;
    })
    .await?;
    ensure_eq!(names, [".git/HEAD", "a.log"], "what is there");
    Ok(())
}

pub(crate) async fn hidden_names_are_left_out_when_asked(place: &Place) -> Verdict {
    place.script("touch .hidden seen").await?;
    let names = sorted(place, "*", |request| {
        request.scope.hidden = Hidden::Exclude;
    })
    .await?;
    ensure_eq!(names, ["seen"], "what is not hidden");
    Ok(())
}

pub(crate) async fn what_is_excluded_is_not_entered(place: &Place) -> Verdict {
    place.script("mkdir a b; touch a/x b/x").await?;
    let names = sorted(place, "*/x", |request| {
        request.scope.exclude = vec!["b".to_owned()];
    })
    .await?;
    ensure_eq!(names, ["a/x"], "what is not excluded");
    Ok(())
}

pub(crate) async fn a_depth_counts_from_the_root_of_the_scope(place: &Place) -> Verdict {
    place.script("mkdir -p a/a/a; touch a/f a/a/f").await?;
    let names = sorted(place, "**/f", |request| request.scope.max_depth = Some(2)).await?;
    ensure_eq!(names, ["a/f"], "what lies on two levels");
    Ok(())
}

pub(crate) async fn paths_are_sorted_by_their_bytes_when_asked(place: &Place) -> Verdict {
    place.script("touch c B a é").await?;
    let names = found(place, "*", |request| request.sort = Sort::Path).await?;
    ensure_eq!(names, ["B", "a", "c", "é"], "order of paths");
    Ok(())
}

pub(crate) async fn the_newest_come_first_when_asked(place: &Place) -> Verdict {
    place
        .script("touch -d @1000 a; touch -d @3000 b; touch -d @2000 c")
        .await?;
    let names = found(place, "*", |request| request.sort = Sort::Modified).await?;
    ensure_eq!(names, ["b", "c", "a"], "order by time");
    Ok(())
}

pub(crate) async fn a_sorted_answer_that_is_cut_is_the_first_in_order(place: &Place) -> Verdict {
    place
        .script("for n in $(seq 100 199); do : >f$n; done")
        .await?;
    let names = sorted(place, "f*", |request| {
        (request.sort, request.limit) = (Sort::Path, 3);
    })
    .await?;
    ensure_eq!(names, ["f100", "f101", "f102"], "the first three");
    Ok(())
}

pub(crate) async fn an_answer_that_is_cut_says_so(place: &Place) -> Verdict {
    place.script("touch a b c").await?;
    let cut = ask(place, |request| request.limit = 2).await?;
    ensure_eq!(cut.entries.len(), 2, "entries");
    ensure!(
        matches!(
            cut.complete,
            Completeness::Incomplete {
                cause: IncompleteCause::Limit,
                ..
            }
        ),
        "an answer that was cut looks complete"
    );
    let all = ask(place, |request| request.limit = 3).await?;
    ensure_eq!(all.complete, Completeness::Complete, "an answer with all");
    Ok(())
}

pub(crate) async fn entries_are_described_when_asked(place: &Place) -> Verdict {
    place.script("printf abc >f").await?;
    let result = ask(place, |request| request.stat = WithStat::Yes).await?;
    let stat = result.entries.first().and_then(|entry| entry.stat.as_ref());
    let facts = stat.map(|stat| (stat.kind, stat.size));
    ensure_eq!(facts, Some((EntryKind::File, 3)), "kind and size");
    Ok(())
}

pub(crate) async fn paths_are_those_of_the_sandbox_wherever_it_began(place: &Place) -> Verdict {
    place.script("mkdir -p s/t; touch s/t/f").await?;
    let names = sorted(place, "t/f", |request| request.scope.root = path("s")).await?;
    ensure_eq!(names, ["s/t/f"], "a path below another root");
    Ok(())
}

pub(crate) async fn odd_names_are_found_as_they_are(place: &Place) -> Verdict {
    let odd = b"odd\n'\"\\$(x) caf\xe9";
    place.put(odd, "x").await?;
    let result = ask(place, |request| request.scope.include = vec!["odd*".into()]).await?;
    let names: Vec<_> = result
        .entries
        .iter()
        .map(|entry| entry.path.as_bytes())
        .collect();
    ensure_eq!(names, [&odd[..]], "an odd name");
    Ok(())
}

pub(crate) async fn a_glob_that_cannot_be_read_is_refused(place: &Place) -> Verdict {
    for glob in ["a[", "{a", "../x", "/etc/*"] {
        let result = ask(place, |request| request.scope.include = vec![glob.into()]).await;
        refused(
            result,
            ErrorKind::InvalidArgument,
            &format!("the glob {glob}"),
        )?;
    }
    Ok(())
}

pub(crate) async fn a_search_of_a_missing_directory_is_not_found(place: &Place) -> Verdict {
    let result = ask(place, |request| request.scope.root = path("absent")).await;
    refused(result, ErrorKind::NotFound, "a search where nothing is")?;
    Ok(())
}

pub(crate) async fn a_file_is_no_directory_to_list(place: &Place) -> Verdict {
    place.script("touch file").await?;
    let result = ask(place, |request| request.scope.root = path("file")).await;
    refused(result, ErrorKind::NotADirectory, "listing a file")?;
    Ok(())
}

pub(crate) async fn a_listing_never_leaves_the_roots(place: &Place) -> Verdict {
    place.outside()?.link_to_outside("door", None)?;
    let result = ask(place, |request| request.scope.root = path("door")).await;
    refused(
        result,
        ErrorKind::OutsideRoot,
        "a listing of what lies outside",
    )?;
    Ok(())
}
