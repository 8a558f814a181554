//! Copies of whole trees, and their removal.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use sandbox_tree::clear::clear;
use sandbox_tree::copy::{Copied, CopyFault, copy};

/// A directory to copy from, and one to copy to.
struct Two(tempfile::TempDir);

impl Two {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["from", "to"] {
            std::fs::create_dir(directory.path().join(name)).expect("a directory");
        }
        Self(directory)
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join(path)
    }

    fn file(&self, path: &str, content: &[u8]) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("directories");
        std::fs::write(path, content).expect("a file");
    }

    fn copy(&self) -> Result<Copied, CopyFault> {
        self.copy_while(|_| true)
    }

    fn copy_while(&self, go_on: impl FnMut(&Copied) -> bool) -> Result<Copied, CopyFault> {
        let open = |name: &str| File::open(self.path(name)).expect("it is there");
        copy(&open("from"), &open("to"), go_on)
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
}

#[test]
fn a_copy_is_like_its_original_and_another_tree() {
    let two = Two::new();
    two.file("from/.gitignore", b"ignored\n");
    two.file("from/ignored/a", b"a");
    two.file("from/sub/large", &vec![7; 3 << 20]);
    two.file("from/sub/script", b"#!/bin/sh\n");
    symlink("../nowhere", two.path("from/sub/link")).expect("a link");
    symlink("/etc", two.path("from/out")).expect("a link");
    std::fs::hard_link(two.path("from/ignored/a"), two.path("from/b")).expect("a link");
    let set = |path: &str, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(two.path(path), mode).expect("it is ours");
    };
    set("from/sub/script", 0o4751);
    set("from/ignored", 0o1770);
    let old = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234_567_890_123);
    for path in ["from/sub/script", "from/sub"] {
        let file = File::open(two.path(path)).expect("it is there");
        file.set_modified(old).expect("it is ours");
    }
    let copied = two.copy().expect("it can be read");
    assert_eq!((copied.entries, copied.left_out), (9, 0));
    assert_eq!(copied.bytes, 8 + 1 + (3 << 20) + 10);
    for path in [".gitignore", "ignored/a", "sub/large", "sub/script", "b"] {
        let read = |side: &str| std::fs::read(two.path(&format!("{side}/{path}"))).expect("a file");
        assert!(read("from") == read("to"), "{path}");
    }
    let link = |path: &str| std::fs::read_link(two.path(path)).expect("a link");
    assert_eq!(link("to/sub/link"), Path::new("../nowhere"));
    assert_eq!(link("to/out"), Path::new("/etc"));
    let inode = |path: &str| std::fs::metadata(two.path(path)).expect("a file").ino();
    assert_eq!(inode("to/b"), inode("to/ignored/a"));
    assert_ne!(inode("to/b"), inode("from/b"));
    assert_eq!(mode(&two.path("to/sub/script")), 0o751, "no set-id bit");
    assert_eq!(mode(&two.path("to/ignored")), 0o1770);
    for path in ["to/sub/script", "to/sub"] {
        let found = std::fs::metadata(two.path(path)).expect("it is there");
        assert_eq!(found.modified().expect("a time"), old, "{path}");
    }
    let mut copy = File::options()
        .append(true)
        .open(two.path("to/b"))
        .expect("ours");
    copy.write_all(b"changed").expect("it can be written");
    assert_eq!(std::fs::read(two.path("from/b")).expect("a file"), b"a");
}

#[test]
fn pipes_are_made_again_and_not_opened_and_sockets_are_counted() {
    let two = Two::new();
    let pipe = two.path("from/pipe");
    let made = std::os::unix::net::UnixListener::bind(two.path("from/socket"));
    made.expect("a socket");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o620),
        0,
    )
    .expect("a pipe");
    std::fs::set_permissions(&pipe, std::fs::Permissions::from_mode(0o620)).expect("ours");
    let copied = two.copy().expect("nothing waits");
    assert_eq!((copied.entries, copied.left_out), (1, 1));
    let found = std::fs::symlink_metadata(two.path("to/pipe")).expect("it is there");
    assert!(found.file_type().is_fifo() && found.mode() & 0o7777 == 0o620);
}

#[test]
fn a_copy_that_is_not_wanted_any_more_stops() {
    let two = Two::new();
    for number in 0..20 {
        two.file(&format!("from/{number}"), b"x");
    }
    let stopped = two.copy_while(|copied| copied.entries < 5);
    assert!(matches!(stopped, Err(CopyFault::Stopped)), "{stopped:?}");
    let made = std::fs::read_dir(two.path("to"))
        .expect("a directory")
        .count();
    assert_eq!(made, 5);
}

#[test]
fn a_name_that_is_taken_and_directories_without_end_fail_by_name() {
    let two = Two::new();
    two.file("from/sub/file", b"new");
    two.file("to/sub/file", b"old");
    let error = two.copy().expect_err("something is there");
    let CopyFault::Os { path, errno } = &error else {
        panic!("{error}");
    };
    assert_eq!((path.as_slice(), *errno), (&b"sub"[..], Errno::EXIST));

    let two = Two::new();
    deep(&two.path("from"), 300);
    let error = two.copy().expect_err("it is deep");
    assert!(matches!(error, CopyFault::TooDeep), "{error}");
}

/// Directories within each other, made without a path that grows.
fn deep(top: &Path, depth: usize) {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let mut at = rustix::fs::open(top, flags, rustix::fs::Mode::empty()).expect("it is there");
    for _ in 0..depth {
        rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::RWXU).expect("a directory");
        at = rustix::fs::openat(&at, "d", flags, rustix::fs::Mode::empty()).expect("it is there");
    }
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    rustix::fs::openat(&at, "f", flags, rustix::fs::Mode::RUSR).expect("a file");
}

#[test]
fn a_tree_is_removed_however_deep_it_is_and_whatever_its_owner_may_not() {
    let two = Two::new();
    deep(&two.path("from"), 4_000);
    two.file("from/closed/inner/file", b"x");
    two.file("from/closed/file", b"x");
    symlink(two.path("to"), two.path("from/link")).expect("a link");
    two.file("to/kept", b"x");
    for path in ["from/closed/inner", "from/closed"] {
        let closed = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(two.path(path), closed).expect("ours");
    }
    let above = File::open(two.0.path()).expect("it is there");
    clear(&above, "from").expect("it is removed");
    assert!(!two.path("from").exists());
    assert!(two.path("to/kept").exists(), "a link was followed");
    clear(&above, "from").expect("nothing is there");
    clear(&above, "to/kept").expect("a file");
    assert!(!two.path("to/kept").exists());
}
