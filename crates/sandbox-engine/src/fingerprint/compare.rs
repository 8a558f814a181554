//! What is different between two looks at a tree.
//!
//! Both records are read once, side by side. What one of them could not see is neither new nor gone,
//! and what is absent only because rules ignore it by now is not gone either.

use sandbox_core::SandboxPath;
use sandbox_core::file::EntryKind;
use sandbox_core::search::{Changes, Completeness, FingerprintDepth, IncompleteCause};

use super::manifest::{Age, Body, Cursor, Facts, Manifest};

/// Most entries of each list.
pub(super) const MAX_LISTED: usize = 4096;
/// Most bytes of each list as text on a line. All three are less than half of the shortest line that
/// both sides accept by default, 1 MiB, so that they fit beside the output of a run.
const MAX_LIST_BYTES: usize = 128 * 1024;

/// How two records are compared.
pub(super) struct Comparison<'a> {
    pub(super) before: &'a Manifest,
    pub(super) after: &'a Manifest,
    pub(super) depth: FingerprintDepth,
    /// The directory that all paths are relative to.
    pub(super) root: &'a SandboxPath,
}

impl Comparison<'_> {
    /// Compares.
    ///
    /// - `is_there`: whether something is at a path after all, though the second look did not list it
    pub(super) fn changes(&self, mut is_there: impl FnMut(&[u8]) -> bool) -> Changes {
        let mut lists = Lists::default();
        let (mut old, mut new) = (self.before.cursor(), self.after.cursor());
        old.advance();
        new.advance();
        loop {
            match (old.facts(), new.facts()) {
                (None, None) => break,
                (Some(_), None) => self.absent(&mut old, &mut lists, &mut is_there),
                (None, Some(_)) => self.appeared(&mut new, &mut lists),
                (Some(before), Some(after)) => match old.path().cmp(new.path()) {
                    std::cmp::Ordering::Less => self.absent(&mut old, &mut lists, &mut is_there),
                    std::cmp::Ordering::Greater => self.appeared(&mut new, &mut lists),
                    std::cmp::Ordering::Equal => {
                        match verdict(self.depth, &before, &after) {
                            Same::Yes => {}
                            Same::No => lists.modified.add(self.root, new.path()),
                            Same::Unknown => lists.undecided += 1,
                        }
                        old.advance();
                        new.advance();
                    }
                },
            }
        }
        let complete = self.completeness(&lists);
        Changes {
            created: lists.created.paths,
            modified: lists.modified.paths,
            removed: lists.removed.paths,
            complete,
        }
    }

    fn appeared(&self, new: &mut Cursor<'_>, lists: &mut Lists) {
        if self.before.coverage().includes(new.path()) {
            lists.created.add(self.root, new.path());
        }
        new.advance();
    }

    fn absent(
        &self,
        old: &mut Cursor<'_>,
        lists: &mut Lists,
        is_there: &mut impl FnMut(&[u8]) -> bool,
    ) {
        if self.after.coverage().includes(old.path()) {
            if is_there(old.path()) {
                lists.left_scope += 1;
            } else {
                lists.removed.add(self.root, old.path());
            }
        }
        old.advance();
    }

    fn completeness(&self, lists: &Lists) -> Completeness {
        for manifest in [self.before, self.after] {
            let completeness = manifest.coverage().completeness();
            if completeness != Completeness::Complete {
                return completeness;
            }
        }
        let incomplete = |cause, reason| Completeness::Incomplete { reason, cause };
        for (list, what) in [
            (&lists.created, "created"),
            (&lists.modified, "modified"),
            (&lists.removed, "removed"),
        ] {
            let listed = list.paths.len() as u64;
            if listed < list.total {
                return incomplete(
                    IncompleteCause::Limit,
                    format!(
                        "{listed} of {} {what} entries are listed; narrow the scope to see the others",
                        list.total
                    ),
                );
            }
        }
        if lists.undecided > 0 {
            return incomplete(
                IncompleteCause::Limit,
                format!(
                    "{} files were written just before the first look and are too large to tell whether they were again",
                    lists.undecided
                ),
            );
        }
        if lists.left_scope > 0 {
            return incomplete(
                IncompleteCause::Changed,
                format!(
                    "{} entries are there and no longer covered, because ignore rules changed",
                    lists.left_scope
                ),
            );
        }
        Completeness::Complete
    }
}

#[derive(Debug, Default)]
struct Lists {
    created: List,
    modified: List,
    removed: List,
    undecided: u64,
    left_scope: u64,
}

#[derive(Debug, Default)]
struct List {
    paths: Vec<SandboxPath>,
    bytes: usize,
    total: u64,
}

impl List {
    fn add(&mut self, root: &SandboxPath, path: &[u8]) {
        self.total += 1;
        if self.paths.len() == MAX_LISTED {
            return;
        }
        // A path that is too long to be named in a request is counted and not listed.
        let Ok(path) = root.join(path) else { return };
        let bytes = self.bytes + path.quoted_bytes();
        if bytes <= MAX_LIST_BYTES {
            self.bytes = bytes;
            self.paths.push(path);
        }
    }
}

enum Same {
    Yes,
    No,
    Unknown,
}

fn verdict(depth: FingerprintDepth, before: &Facts<'_>, after: &Facts<'_>) -> Same {
    let same = |same| if same { Same::Yes } else { Same::No };
    if (before.kind, before.mode) != (after.kind, after.mode) {
        return Same::No;
    }
    let identical = before.identity == after.identity;
    match (before.kind, depth) {
        (EntryKind::Directory, _) => Same::Yes,
        (EntryKind::Link, FingerprintDepth::Content) => same(before.body == after.body),
        (EntryKind::Special, FingerprintDepth::Content) => Same::Yes,
        (EntryKind::Link, FingerprintDepth::Metadata) => {
            same(identical && before.body == after.body)
        }
        (EntryKind::Special, FingerprintDepth::Metadata) => same(identical),
        (EntryKind::File, FingerprintDepth::Content) => match (before.body, after.body) {
            (Body::Content(before), Body::Content(after)) => same(before == after),
            _ => same(identical),
        },
        (EntryKind::File, FingerprintDepth::Metadata) if !identical => Same::No,
        (EntryKind::File, FingerprintDepth::Metadata) => {
            match (before.age, before.body, after.body) {
                (Age::Settled, _, _) => Same::Yes,
                (Age::Fresh, Body::Content(before), Body::Content(after)) => same(before == after),
                (Age::Fresh, _, _) => Same::Unknown,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sandbox_core::Digest;

    use super::super::coverage::{Coverage, Cut};
    use super::super::manifest::tests::{file, manifest};
    use super::super::manifest::{Builder, Identity};
    use super::super::moment::Moment;
    use super::*;

    const METADATA: FingerprintDepth = FingerprintDepth::Metadata;
    const CONTENT: FingerprintDepth = FingerprintDepth::Content;

    fn compare(before: &Manifest, after: &Manifest, depth: FingerprintDepth) -> Changes {
        let comparison = Comparison {
            before,
            after,
            depth,
            root: &SandboxPath::root(),
        };
        comparison.changes(|_| false)
    }

    fn names(paths: &[SandboxPath]) -> Vec<String> {
        paths.iter().map(ToString::to_string).collect()
    }

    fn with_content(facts: Facts<'static>, byte: u8) -> Facts<'static> {
        Facts {
            body: Body::Content(Digest::from_bytes([byte; 32])),
            ..facts
        }
    }

    fn moved(mut facts: Facts<'static>) -> Facts<'static> {
        facts.identity = Identity {
            changed: Moment {
                seconds: 1_800_000_000,
                nanos: 5,
            },
            ..facts.identity
        };
        facts
    }

    fn partly(entries: &[(&str, Facts<'_>)], coverage: Coverage) -> Manifest {
        let mut builder = Builder::default();
        for (path, facts) in entries {
            builder.push(path.as_bytes(), facts);
        }
        builder.finish(coverage)
    }

    #[test]
    fn what_is_new_gone_and_different_is_told_apart() {
        let before = manifest(&[("a", file(1)), ("b", file(1)), ("d", file(1))]);
        let after = manifest(&[("b", file(2)), ("c", file(1)), ("d", file(1))]);
        let changes = compare(&before, &after, METADATA);
        assert_eq!(names(&changes.created), ["c"]);
        assert_eq!(names(&changes.modified), ["b"]);
        assert_eq!(names(&changes.removed), ["a"]);
        assert_eq!(changes.complete, Completeness::Complete);
    }

    #[test]
    fn what_a_look_did_not_see_is_neither_new_nor_gone() {
        let mut hole = Coverage::default();
        hole.hole(b"closed");
        let before = manifest(&[("closed/a", file(1)), ("open/a", file(1))]);
        let after = partly(&[("open/b", file(1))], hole.clone());
        let changes = compare(&before, &after, METADATA);
        assert_eq!(names(&changes.removed), ["open/a"]);
        assert!(matches!(
            changes.complete,
            Completeness::Incomplete {
                cause: IncompleteCause::Permission,
                ..
            }
        ));
        let back = compare(&after, &before, METADATA);
        assert_eq!(names(&back.created), ["open/a"]);
        assert_eq!(names(&back.removed), ["open/b"]);

        let mut cut = Coverage::default();
        cut.cut(Cut::Limit(1));
        let saturated = partly(&[("open/a", file(2))], cut);
        let changes = compare(&saturated, &before, METADATA);
        assert_eq!(names(&changes.modified), ["open/a"]);
        assert_eq!(names(&changes.created), [""; 0]);
    }

    #[test]
    fn what_is_only_ignored_by_now_is_not_gone() {
        let before = manifest(&[("ignored", file(1)), ("removed", file(1))]);
        let after = manifest(&[]);
        let comparison = Comparison {
            before: &before,
            after: &after,
            depth: METADATA,
            root: &SandboxPath::root(),
        };
        let changes = comparison.changes(|path| path == b"ignored");
        assert_eq!(names(&changes.removed), ["removed"]);
        assert!(matches!(
            changes.complete,
            Completeness::Incomplete {
                cause: IncompleteCause::Changed,
                ..
            }
        ));
    }

    #[test]
    fn a_touched_file_is_modified_by_metadata_and_not_by_content() {
        let before = manifest(&[("a", with_content(file(1), 1))]);
        let after = manifest(&[("a", with_content(moved(file(1)), 1))]);
        assert_eq!(names(&compare(&before, &after, METADATA).modified), ["a"]);
        assert_eq!(names(&compare(&before, &after, CONTENT).modified), [""; 0]);
    }

    #[test]
    fn a_rewrite_in_the_moment_of_the_first_look_is_seen_by_its_content() {
        let fresh = |byte| Facts {
            age: Age::Fresh,
            ..with_content(file(1), byte)
        };
        let before = manifest(&[("a", fresh(1)), ("b", fresh(1))]);
        let after = manifest(&[("a", fresh(2)), ("b", fresh(1))]);
        let changes = compare(&before, &after, METADATA);
        assert_eq!(names(&changes.modified), ["a"]);
        assert_eq!(changes.complete, Completeness::Complete);
    }

    #[test]
    fn what_cannot_be_decided_is_not_called_the_same() {
        let fresh = Facts {
            age: Age::Fresh,
            ..file(1)
        };
        let before = manifest(&[("a", fresh)]);
        let changes = compare(&before, &before, METADATA);
        assert_ne!(changes.complete, Completeness::Complete);
    }

    #[test]
    fn directories_count_by_name_and_mode_only() {
        let directory = |mode| Facts {
            kind: EntryKind::Directory,
            mode,
            ..file(0)
        };
        let before = manifest(&[("a", directory(0o755)), ("b", directory(0o755))]);
        let after = manifest(&[("a", directory(0o755)), ("b", directory(0o700))]);
        for depth in [METADATA, CONTENT] {
            assert_eq!(names(&compare(&before, &after, depth).modified), ["b"]);
        }
    }

    #[test]
    fn a_long_list_is_cut_and_says_how_long_it_is() {
        let names: Vec<_> = (0..MAX_LISTED + 10)
            .map(|number| format!("{number:08}"))
            .collect();
        let entries: Vec<_> = names.iter().map(|name| (name.as_str(), file(1))).collect();
        let changes = compare(&manifest(&[]), &manifest(&entries), METADATA);
        assert_eq!(changes.created.len(), MAX_LISTED);
        let Completeness::Incomplete { reason, cause } = changes.complete else {
            panic!("it was cut");
        };
        assert_eq!(cause, IncompleteCause::Limit);
        assert_eq!(
            reason,
            "4096 of 4106 created entries are listed; narrow the scope to see the others"
        );
    }

    #[test]
    fn long_and_odd_names_are_bounded_in_bytes_as_they_travel() {
        let names: Vec<_> = (0..1000)
            .map(|number| format!("{number:04}{}", "\u{1}".repeat(200)))
            .collect();
        let entries: Vec<_> = names.iter().map(|name| (name.as_str(), file(1))).collect();
        let changes = compare(&manifest(&[]), &manifest(&entries), METADATA);
        assert!(changes.created.len() < 120, "{}", changes.created.len());
        assert_ne!(changes.complete, Completeness::Complete);
    }
}
