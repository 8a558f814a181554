//! What a tree looks like and what changed in it, held against what was really done to it.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_core::search::{
    Changes, Completeness, Fingerprint, FingerprintDepth, FingerprintRequest, FingerprintScope,
    IncompleteCause, Scope, Uncompared,
};
use sandbox_core::{Ctx, Digest, Effect, ErrorKind, Result, SandboxPath};
use sandbox_engine::fingerprint::Fingerprints;

use super::file::{Name, Tree, as_ordinary_user, refused};

const DEPTHS: [FingerprintDepth; 2] = [FingerprintDepth::Metadata, FingerprintDepth::Content];

/// A tree whose fingerprints are taken.
pub(crate) struct Looked {
    pub(crate) tree: Tree,
    fingerprints: Fingerprints,
}

impl Looked {
    pub(crate) fn new() -> Self {
        let tree = Tree::new();
        let fingerprints = Fingerprints::new(Arc::clone(&tree.roots));
        Self { tree, fingerprints }
    }

    async fn ask(
        &self,
        ctx: &Ctx,
        scope: FingerprintScope,
        base: Option<Digest>,
    ) -> Result<Fingerprint> {
        let request = FingerprintRequest { scope, base };
        self.fingerprints.fingerprint(ctx, request).await
    }

    async fn whole(&self, depth: FingerprintDepth) -> Fingerprint {
        let answer = self.ask(&Ctx::new(), whole(depth), None).await;
        let fingerprint = answer.expect("it can be looked at");
        assert_eq!(fingerprint.complete, Completeness::Complete);
        fingerprint
    }

    async fn since(&self, base: &Fingerprint, depth: FingerprintDepth) -> Changes {
        let answer = self.ask(&Ctx::new(), whole(depth), Some(base.digest)).await;
        let fingerprint = answer.expect("it can be looked at");
        assert_eq!(fingerprint.uncompared, None);
        fingerprint.changes.expect("the base is known")
    }
}

pub(crate) fn whole(depth: FingerprintDepth) -> FingerprintScope {
    FingerprintScope {
        scope: Scope::new(SandboxPath::root()),
        depth,
        limit: 1_000_000,
    }
}

fn names(paths: &[SandboxPath]) -> Vec<String> {
    paths.iter().map(ToString::to_string).collect()
}

fn told(changes: &Changes) -> [Vec<String>; 3] {
    [&changes.created, &changes.modified, &changes.removed].map(|paths| names(paths))
}

fn lists<const C: usize, const M: usize, const R: usize>(
    created: [&str; C],
    modified: [&str; M],
    removed: [&str; R],
) -> [Vec<String>; 3] {
    [
        created.map(String::from).to_vec(),
        modified.map(String::from).to_vec(),
        removed.map(String::from).to_vec(),
    ]
}

fn cause(complete: &Completeness) -> Option<IncompleteCause> {
    match complete {
        Completeness::Complete => None,
        Completeness::Incomplete { cause, .. } => Some(*cause),
    }
}

fn plant(directory: &Path) {
    std::fs::create_dir_all(directory.join("src/deep")).expect("directories");
    std::fs::write(directory.join("src/main.rs"), "fn main() {}\n").expect("a file");
    std::fs::write(directory.join("src/deep/odd \u{1f980}\n"), "x").expect("a file");
    std::fs::write(directory.join("empty"), "").expect("a file");
    symlink("src/main.rs", directory.join("link")).expect("a link");
    symlink("nowhere", directory.join("dangling")).expect("a link");
    std::fs::create_dir(directory.join("hollow")).expect("a directory");
}

/// Gives back the times that a file had, as an archive or `touch -r` does.
fn restore_time(path: &Path, time: std::time::SystemTime) {
    let file = std::fs::File::options()
        .write(true)
        .open(path)
        .expect("a file");
    file.set_modified(time).expect("it is ours");
}

#[tokio::test]
async fn an_unchanged_tree_has_one_digest_and_no_changes() {
    let looked = Looked::new();
    plant(&looked.tree.inside);
    for depth in DEPTHS {
        let first = looked.whole(depth).await;
        assert_eq!(first.entries, 8);
        assert_eq!(looked.whole(depth).await.digest, first.digest);
        let changes = looked.since(&first, depth).await;
        assert_eq!(told(&changes), lists([], [], []));
        assert_eq!(changes.complete, Completeness::Complete);
    }
}

/// Two places compare what they hold: nothing of one copy alone may be in the digest.
#[tokio::test]
async fn two_copies_have_one_digest_by_content_and_two_by_metadata() {
    let (one, other) = (Looked::new(), Looked::new());
    plant(&one.tree.inside);
    plant(&other.tree.inside);
    restore_time(
        &other.tree.inside.join("src/main.rs"),
        std::time::SystemTime::UNIX_EPOCH,
    );
    let [metadata, content] = DEPTHS;
    assert_eq!(
        one.whole(content).await.digest,
        other.whole(content).await.digest
    );
    assert_ne!(
        one.whole(metadata).await.digest,
        other.whole(metadata).await.digest
    );
    std::fs::set_permissions(
        other.tree.inside.join("empty"),
        Permissions::from_mode(0o755),
    )
    .expect("ours");
    assert_ne!(
        one.whole(content).await.digest,
        other.whole(content).await.digest,
        "a mode is part of what a tree holds"
    );
}

#[tokio::test]
async fn each_kind_of_change_is_told_as_what_it_is() {
    for depth in DEPTHS {
        let looked = Looked::new();
        let at = |name: &str| looked.tree.inside.join(name);
        plant(&looked.tree.inside);
        std::fs::create_dir(at("becomes")).expect("a directory");
        let base = looked.whole(depth).await;
        std::fs::write(at("src/new"), "x").expect("a file");
        std::fs::create_dir(at("src/made")).expect("a directory");
        std::fs::write(at("src/main.rs"), "fn main() { }\n").expect("a file");
        std::fs::set_permissions(at("empty"), Permissions::from_mode(0o600)).expect("ours");
        std::fs::remove_file(at("link")).expect("a link");
        symlink("empty", at("link")).expect("a link");
        std::fs::remove_dir(at("hollow")).expect("a directory");
        std::fs::remove_dir(at("becomes")).expect("a directory");
        std::fs::write(at("becomes"), "a file").expect("a file");
        let changes = looked.since(&base, depth).await;
        assert_eq!(
            told(&changes),
            lists(
                ["src/made", "src/new"],
                ["becomes", "empty", "link", "src/main.rs"],
                ["hollow"]
            ),
            "{depth:?}"
        );
        assert_eq!(changes.complete, Completeness::Complete);
    }
}

#[tokio::test]
async fn a_touched_file_changed_by_metadata_and_not_by_content() {
    let looked = Looked::new();
    looked.tree.plant("file", "same");
    for (depth, modified) in DEPTHS.into_iter().zip([vec!["file"], vec![]]) {
        let base = looked.whole(depth).await;
        let path = looked.tree.inside.join("file");
        restore_time(&path, std::time::SystemTime::UNIX_EPOCH);
        restore_time(&path, std::time::SystemTime::now());
        let changes = looked.since(&base, depth).await;
        assert_eq!(names(&changes.modified), modified, "{depth:?}");
    }
}

/// Size and time as they were, in the same tick of the clock: the rewrite that is easiest to miss. A
/// hundred of them, so that some fall into one tick whatever the machine does.
#[tokio::test]
async fn a_rewrite_of_the_same_size_in_the_same_moment_is_never_missed() {
    for depth in DEPTHS {
        let looked = Looked::new();
        let path = looked.tree.inside.join("file");
        for round in 0..100_u8 {
            std::fs::write(&path, [round, 0]).expect("a file");
            let time = path.metadata().and_then(|facts| facts.modified());
            let base = looked.whole(depth).await;
            let mut file = std::fs::File::options()
                .write(true)
                .open(&path)
                .expect("a file");
            file.write_all(&[round, 1]).expect("written");
            file.set_modified(time.expect("a time")).expect("ours");
            let changes = looked.since(&base, depth).await;
            assert_eq!(names(&changes.modified), ["file"], "{depth:?}, {round}");
            assert_eq!(changes.complete, Completeness::Complete);
        }
    }
}

/// The digest of what did not change is known; that of what did is not. Held by a file that cannot be
/// read any more, by anybody: a FIFO took its place and the identity is another.
#[tokio::test]
async fn contents_that_did_not_change_are_the_same_as_if_all_were_read() {
    let looked = Looked::new();
    let content = FingerprintDepth::Content;
    for number in 0..300 {
        looked
            .tree
            .plant(format!("{}/{number}", number % 9), format!("{number}"));
    }
    // Old enough to be relied on.
    tokio::time::sleep(Duration::from_millis(60)).await;
    let first = looked.whole(content).await;
    looked.tree.plant("3/3", "another");
    let incremental = looked.whole(content).await;
    assert_ne!(first.digest, incremental.digest);
    let anew = Fingerprints::new(Arc::clone(&looked.tree.roots));
    let request = FingerprintRequest {
        scope: whole(content),
        base: None,
    };
    let anew = anew.fingerprint(&Ctx::new(), request).await;
    assert_eq!(anew.expect("looked").digest, incremental.digest);
}

#[tokio::test]
async fn paths_of_changes_are_those_that_other_verbs_take() {
    let looked = Looked::new();
    looked.tree.plant("a/b/file", "x");
    let mut scope = whole(FingerprintDepth::Metadata);
    scope.scope.root = "a/b".path();
    let base = looked
        .ask(&Ctx::new(), scope.clone(), None)
        .await
        .expect("looked");
    looked.tree.plant("a/b/new", "x");
    looked.tree.plant("a/beside", "x");
    let now = looked
        .ask(&Ctx::new(), scope, Some(base.digest))
        .await
        .expect("looked");
    let created = now.changes.expect("known").created;
    assert_eq!(names(&created), ["a/b/new"]);
    let read = looked.tree.read(created[0].as_bytes()).await;
    assert_eq!(read.expect("the path leads there").bytes, "x");
}

#[tokio::test]
async fn what_git_ignores_does_not_count_unless_asked() {
    let looked = Looked::new();
    looked.tree.plant(".gitignore", "target\n");
    looked.tree.plant("target/out", "x");
    looked.tree.plant("kept", "x");
    let git = looked.whole(FingerprintDepth::Content).await;
    assert_eq!(git.entries, 2);
    looked.tree.plant("target/out", "y");
    let changes = looked.since(&git, FingerprintDepth::Content).await;
    assert_eq!(told(&changes), lists([], [], []));
    let mut off = whole(FingerprintDepth::Content);
    off.scope.ignore = sandbox_core::search::IgnoreRules::Off;
    let off = looked.ask(&Ctx::new(), off, None).await.expect("looked");
    assert_eq!(off.entries, 4);
}

/// An ignore rule that appears takes entries out of sight. They are not gone.
#[tokio::test]
async fn what_is_newly_ignored_is_not_called_removed() {
    let looked = Looked::new();
    looked.tree.plant("log", "x");
    looked.tree.plant("gone", "x");
    let base = looked.whole(FingerprintDepth::Metadata).await;
    looked.tree.plant(".gitignore", "log\n");
    std::fs::remove_file(looked.tree.inside.join("gone")).expect("a file");
    let changes = looked.since(&base, FingerprintDepth::Metadata).await;
    assert_eq!(told(&changes), lists([".gitignore"], [], ["gone"]));
    assert_eq!(cause(&changes.complete), Some(IncompleteCause::Changed));
}

#[tokio::test]
async fn a_base_that_is_not_known_or_of_another_scope_is_said_to_be_that() {
    let looked = Looked::new();
    plant(&looked.tree.inside);
    let base = looked.whole(FingerprintDepth::Metadata).await;
    let mut other = whole(FingerprintDepth::Metadata);
    other.scope.root = "src".path();
    for (scope, digest, why) in [
        (
            whole(FingerprintDepth::Metadata),
            Digest::from_bytes([1; 32]),
            Uncompared::NotKnown,
        ),
        (other, base.digest, Uncompared::OtherScope),
        (
            whole(FingerprintDepth::Content),
            base.digest,
            Uncompared::OtherScope,
        ),
    ] {
        let answer = looked.ask(&Ctx::new(), scope, Some(digest)).await;
        let fingerprint = answer.expect("looked");
        assert_eq!(fingerprint.changes, None);
        assert_eq!(fingerprint.uncompared, Some(why));
    }
}

#[tokio::test]
async fn a_tree_beyond_the_limit_is_said_to_be_and_nothing_is_concluded_from_absence() {
    let looked = Looked::new();
    for number in 0..100 {
        looked.tree.plant(format!("{number:03}"), "x");
    }
    let mut scope = whole(FingerprintDepth::Metadata);
    scope.limit = 10;
    let base = looked.ask(&Ctx::new(), scope.clone(), None).await;
    let base = base.expect("looked");
    assert_eq!(base.entries, 10);
    let Completeness::Incomplete { cause, reason } = &base.complete else {
        panic!("it is not complete");
    };
    assert_eq!(*cause, IncompleteCause::Limit);
    assert!(reason.contains("10 entries"), "{reason}");
    let again = looked.ask(&Ctx::new(), scope, Some(base.digest)).await;
    let changes = again.expect("looked").changes.expect("known");
    assert_eq!(told(&changes), lists([], [], []));
    assert_ne!(changes.complete, Completeness::Complete);
}

#[tokio::test]
async fn links_are_their_text_and_lead_nowhere() {
    let looked = Looked::new();
    looked.tree.plant_link("out", &looked.tree.outside);
    looked
        .tree
        .plant_link("secret", looked.tree.outside.join("secret"));
    let base = looked.whole(FingerprintDepth::Content).await;
    assert_eq!(base.entries, 2);
    std::fs::write(looked.tree.outside.join("secret"), "changed").expect("a file");
    let same = looked.whole(FingerprintDepth::Content).await;
    assert_eq!(same.digest, base.digest, "what lies outside was read");
}

#[tokio::test]
async fn a_fifo_and_a_socket_neither_block_nor_hide_the_rest() {
    let looked = Looked::new();
    looked.tree.plant("file", "x");
    let at = |name: &str| looked.tree.inside.join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), rustix::fs::Mode::RWXU).expect("a FIFO");
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
    for depth in DEPTHS {
        assert_eq!(looked.whole(depth).await.entries, 3);
    }
}

#[tokio::test]
async fn a_root_that_is_not_there_or_no_directory_or_outside_is_refused_without_effect() {
    let looked = Looked::new();
    looked.tree.plant("file", "x");
    looked.tree.plant_link("door", &looked.tree.outside);
    for (root, kind) in [
        ("missing", ErrorKind::NotFound),
        ("file", ErrorKind::NotADirectory),
        ("door", ErrorKind::OutsideRoot),
        ("/etc", ErrorKind::OutsideRoot),
    ] {
        let mut scope = whole(FingerprintDepth::Content);
        scope.scope.root = root.path();
        refused(looked.ask(&Ctx::new(), scope, None).await, kind);
    }
    let mut scope = whole(FingerprintDepth::Content);
    scope.scope.include = vec!["a[".into()];
    let error = refused(
        looked.ask(&Ctx::new(), scope, None).await,
        ErrorKind::InvalidArgument,
    );
    assert!(error.detail_text().contains("a["), "{error}");
}

#[tokio::test]
async fn a_tree_is_reached_through_a_link_to_its_directory() {
    let looked = Looked::new();
    looked.tree.plant("real/tree/file", "x");
    looked.tree.plant_link("way", "real");
    let mut scope = whole(FingerprintDepth::Content);
    scope.scope.root = "way/tree".path();
    let fingerprint = looked.ask(&Ctx::new(), scope, None).await.expect("looked");
    assert_eq!(fingerprint.entries, 1);
}

/// As large as a disk allows and without holding anything: to read it takes far longer than anybody
/// waits here.
fn plant_enormous(tree: &Tree) {
    let file = std::fs::File::create(tree.inside.join("enormous")).expect("a file");
    file.set_len(1 << 42).expect("holes are free");
}

#[tokio::test]
async fn a_cancel_ends_it_in_the_middle_of_a_file() {
    let looked = Looked::new();
    plant_enormous(&looked.tree);
    let ctx = Ctx::new();
    let cancel = ctx.cancel().clone();
    let begun = Instant::now();
    let asked = looked.ask(&ctx, whole(FingerprintDepth::Content), None);
    let (answer, ()) = tokio::join!(asked, async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancel.cancel();
    });
    refused(answer, ErrorKind::Cancelled);
    assert!(begun.elapsed() < Duration::from_secs(10));
    // The threads are free for the next: the work ended and not only the wait for it.
    std::fs::remove_file(looked.tree.inside.join("enormous")).expect("a file");
    for _ in 0..4 {
        looked.whole(FingerprintDepth::Content).await;
    }
}

#[tokio::test]
async fn a_deadline_ends_it_with_what_is_known_and_says_so() {
    let looked = Looked::new();
    looked.tree.plant("small", "x");
    plant_enormous(&looked.tree);
    let ctx = Ctx::new().with_timeout(Duration::from_secs(1));
    let answer = looked.ask(&ctx, whole(FingerprintDepth::Content), None);
    let fingerprint = answer.await.expect("there was time for an answer");
    assert_eq!(
        cause(&fingerprint.complete),
        Some(IncompleteCause::Deadline)
    );
    assert_eq!(fingerprint.entries, 2);
}

#[tokio::test]
async fn a_call_that_is_cancelled_or_late_already_does_nothing() {
    let looked = Looked::new();
    let cancelled = Ctx::new();
    cancelled.cancel().cancel();
    let late = Ctx::new().with_timeout(Duration::ZERO);
    for (ctx, kind) in [
        (cancelled, ErrorKind::Cancelled),
        (late, ErrorKind::DeadlineExceeded),
    ] {
        let answer = looked.ask(&ctx, whole(FingerprintDepth::Metadata), None);
        let error = refused(answer.await, kind);
        assert_eq!(error.effect(), Effect::None);
    }
}

/// Somebody writes, truncates and renames all the time. The answer may be incomplete; it must come, and
/// must not be wrong about what holds still.
#[tokio::test]
async fn a_tree_that_never_holds_still_is_looked_at_all_the_same() {
    let looked = Looked::new();
    looked.tree.plant("still", "x");
    let content = FingerprintDepth::Content;
    let base = looked.ask(&Ctx::new(), whole(content), None).await;
    let base = base.expect("looked");
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = {
        let (stop, inside) = (Arc::clone(&stop), looked.tree.inside.clone());
        std::thread::spawn(move || {
            let (moving, other) = (inside.join("moving"), inside.join("other"));
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::fs::write(&moving, vec![1; 1 << 20]).expect("a file");
                std::fs::write(&moving, "").expect("a file");
                std::fs::rename(&moving, &other).expect("a file");
                let _ = std::fs::remove_file(&moving);
                symlink("still", &moving).expect("a link");
                std::fs::remove_file(&moving).expect("a link");
            }
        })
    };
    for _ in 0..50 {
        let ctx = Ctx::new();
        let answer = looked.ask(&ctx, whole(content), Some(base.digest)).await;
        let changes = answer.expect("looked").changes.expect("known");
        assert!(!names(&changes.modified).contains(&"still".to_owned()));
        assert_eq!(names(&changes.removed), [""; 0]);
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().expect("the writer ended");
}

#[test]
fn what_may_not_be_read_is_said_and_is_neither_new_nor_gone() {
    as_ordinary_user(|| async {
        let looked = Looked::new();
        looked.tree.plant("closed/file", "x");
        looked.tree.plant("open/file", "x");
        looked.tree.plant("unreadable", "x");
        let set_mode = |name: &str, mode| {
            let path = looked.tree.inside.join(name);
            std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
        };
        let base = looked.whole(FingerprintDepth::Metadata).await;
        set_mode("closed", 0o000);
        std::fs::remove_file(looked.tree.inside.join("open/file")).expect("a file");
        let changes = looked.since(&base, FingerprintDepth::Metadata).await;
        assert_eq!(told(&changes), lists([], ["closed"], ["open/file"]));
        assert_eq!(cause(&changes.complete), Some(IncompleteCause::Permission));
        let Completeness::Incomplete { reason, .. } = &changes.complete else {
            panic!("it is not complete");
        };
        assert!(reason.contains("closed"), "{reason}");
        set_mode("closed", 0o755);
        set_mode("unreadable", 0o000);
        let ctx = Ctx::new();
        let content = looked
            .ask(&ctx, whole(FingerprintDepth::Content), None)
            .await;
        let complete = content.expect("looked").complete;
        assert_eq!(cause(&complete), Some(IncompleteCause::Permission));
        set_mode("closed", 0o000);
        let mut scope = whole(FingerprintDepth::Metadata);
        scope.scope.root = "closed".path();
        refused(
            looked.ask(&Ctx::new(), scope, None).await,
            ErrorKind::PermissionDenied,
        );
        set_mode("closed", 0o755);
    });
}
