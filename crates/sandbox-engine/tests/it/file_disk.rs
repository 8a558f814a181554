//! A disk that is full.

use std::path::Path;

use sandbox_core::file::{Change, WriteRequest};
use sandbox_core::{Ctx, Effect, ErrorKind};

use super::file::{Name, block_on, names, refused};

/// Set where a test runs itself again.
const AGAIN: &str = "TEST_RUNS_IN_ITS_OWN_NAMESPACE";

/// Runs a test with a file system of 256 KiB at the directory it is given. The mount belongs to a
/// namespace of the test's own, in which it runs itself again, so that nothing of it can be left.
fn on_a_small_disk(test: &str, body: impl FnOnce(&Path)) {
    if std::env::var_os(AGAIN).is_none() {
        let this = std::env::current_exe().expect("this program has a path");
        #[expect(
            clippy::disallowed_methods,
            reason = "a test that runs itself again, elsewhere"
        )]
        let mut again = std::process::Command::new("unshare");
        again.arg("--mount").env(AGAIN, "1");
        if !rustix::process::geteuid().is_root() {
            again.args(["--user", "--map-root-user"]);
        }
        let status = again
            .arg(this)
            .args(["--exact", test])
            .status()
            .expect("unshare is installed");
        assert!(
            status.success(),
            "{test} failed, or no namespace can be made here"
        );
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount(
        "tmpfs",
        directory.path(),
        "tmpfs",
        flags,
        Some(c"size=256k"),
    )
    .expect("root may");
    body(directory.path());
    rustix::mount::unmount(directory.path(), rustix::mount::UnmountFlags::DETACH)
        .expect("it is mounted");
}

#[test]
fn a_full_disk_is_told_leaves_the_old_content_and_nothing_else() {
    on_a_small_disk(
        "file_disk::a_full_disk_is_told_leaves_the_old_content_and_nothing_else",
        |disk| {
            let roots =
                sandbox_engine::root::Roots::new(disk, sandbox_core::MountAccess::ReadWrite)
                    .expect("there");
            let files = sandbox_engine::file::Files::new(std::sync::Arc::new(roots));
            let disk = disk.to_owned();
            block_on(async move {
                let change = |change| {
                    let files = files.clone();
                    async move {
                        files
                            .write(&Ctx::new(), WriteRequest::new([change]))
                            .await
                            .expect("answered")
                            .remove(0)
                    }
                };
                change(Change::put("file".path(), "old"))
                    .await
                    .expect("there is room");
                refused(
                    change(Change::put("file".path(), vec![b'x'; 1 << 20])).await,
                    ErrorKind::NoSpace,
                );
                let beneath = change(Change::put("new/file".path(), vec![b'x'; 1 << 20]))
                    .await
                    .expect_err("there is no room");
                // The directory stays, so it is not true that nothing happened.
                assert_eq!(
                    (beneath.kind(), beneath.effect()),
                    (ErrorKind::NoSpace, Effect::Unknown)
                );
                let grow = Change::edit("file".path(), "old", vec![b'x'; 1 << 20]);
                refused(change(grow).await, ErrorKind::NoSpace);
                assert_eq!(std::fs::read(disk.join("file")).expect("there"), b"old");
                assert_eq!(names(&disk), ["file", "new"]);
                assert_eq!(names(&disk.join("new")), [""; 0]);
                change(Change::put("file".path(), "new"))
                    .await
                    .expect("there is room for this");
            });
        },
    );
}
