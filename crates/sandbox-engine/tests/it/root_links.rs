//! Where paths and links lead: the sixteen paths of the escape suite, further roots, and names that
//! look like something else.

use sandbox_core::file::{Change, EntryKind, Existing, Recursion, Stat, StatManyRequest};
use sandbox_core::{Ctx, Error, ErrorKind, MountAccess, SandboxPath, Verb};

use super::file::{Name, SECRET, Tree, refused};

fn planted() -> Tree {
    let tree = Tree::new();
    tree.plant("in", "inside\n");
    tree.plant("d/deep", "deep\n");
    tree.plant_link("rel_in", "in");
    tree.plant_link("via_parent", "../in/in");
    tree.plant_link("abs_in", tree.inside.join("in"));
    tree.plant_link("up_and_down", "d/../in");
    tree.plant_link("rel_out", "../out/secret");
    tree.plant_link("abs_out", tree.outside.join("secret"));
    tree.plant_link("dotdot", "..");
    tree.plant_link("evil", "../out");
    tree.plant_link("up_and_out", "d/../../out/secret");
    tree.plant_link("magic", "/proc/self/root");
    tree.plant_link("descriptor", "/proc/self/fd/0");
    tree.plant_link("loop", "loop");
    tree.plant_link("one", "other");
    tree.plant_link("other", "one");
    tree.plant_link("venv_python", "/usr/bin/env");
    tree
}

#[tokio::test]
async fn links_that_stay_inside_are_followed_however_they_are_spelled() {
    let tree = planted();
    for name in [
        "in",
        "rel_in",
        "via_parent",
        "abs_in",
        "up_and_down",
        "dotdot/in/in",
    ] {
        let read = tree
            .read(name)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read.bytes, "inside\n", "{name}");
    }
    let absolute = tree
        .read(tree.inside.join("in"))
        .await
        .expect("the workspace has a real path");
    assert_eq!(absolute.bytes, "inside\n");
}

/// B083.
#[tokio::test]
async fn links_that_leave_are_refused_by_every_verb_and_named_with_their_text() {
    let tree = planted();
    let before = tree.look_outside();
    let ways = [
        ("rel_out", "../out/secret"),
        ("abs_out", "out/secret"),
        ("evil/secret", "../out"),
        ("dotdot/out/secret", ".."),
        ("up_and_out", "d/../../out/secret"),
        ("magic/etc/hostname", "/proc/self/root"),
        ("venv_python", "/usr/bin/env"),
    ];
    for (name, text) in ways {
        let error = refused(tree.read(name).await, ErrorKind::OutsideRoot);
        assert!(error.to_string().contains(text), "{name}: {error}");
        let renamed = Change::Rename {
            from: "in".path(),
            to: name.path(),
            existing: Existing::Keep,
        };
        let changes = [
            Change::put(name.path(), "changed"),
            Change::edit(name.path(), "outside", "changed"),
            Change::SetMode {
                path: name.path(),
                mode: 0o777,
            },
        ];
        for change in changes {
            refused(tree.change(change).await, ErrorKind::OutsideRoot);
        }
        if name.contains('/') {
            refused(tree.stat(name).await, ErrorKind::OutsideRoot);
            refused(
                tree.remove(name, Recursion::Yes).await,
                ErrorKind::OutsideRoot,
            );
            refused(tree.change(renamed).await, ErrorKind::OutsideRoot);
        }
        refused(
            tree.roots.open_dir(Verb::Exec, &name.path()).map(drop),
            ErrorKind::OutsideRoot,
        );
    }
    assert_eq!(tree.look_outside(), before, "something outside changed");
}

/// B085.
#[tokio::test]
async fn a_path_beside_the_workspace_is_outside_even_if_its_text_begins_alike() {
    let tree = planted();
    let evil = tree.inside.with_file_name("in-evil");
    std::fs::create_dir(&evil).expect("a directory");
    std::fs::write(evil.join("x"), SECRET).expect("a file");
    tree.plant_link("alike", "../in-evil/x");
    for path in [
        evil.join("x"),
        tree.outside.join("secret"),
        "/etc/passwd".into(),
        "/".into(),
    ] {
        refused(tree.read(path).await, ErrorKind::OutsideRoot);
    }
    refused(tree.read("alike").await, ErrorKind::OutsideRoot);
}

#[tokio::test]
async fn links_in_a_circle_end_in_an_error_and_long_chains_do_too() {
    let tree = planted();
    for name in ["loop", "one", "loop/below"] {
        let error = refused(tree.read(name).await, ErrorKind::Io);
        assert!(error.to_string().contains("loop"), "{error}");
    }
    tree.plant("chain0", "end\n");
    for link in 1..=41 {
        tree.plant_link(format!("chain{link}"), format!("chain{}", link - 1));
    }
    assert_eq!(
        tree.read("chain40")
            .await
            .expect("forty links are followed")
            .bytes,
        "end\n"
    );
    refused(tree.read("chain41").await, ErrorKind::Io);
}

#[tokio::test]
async fn the_kernels_own_files_are_refused_even_in_a_root() {
    let tree = Tree::with(|roots, _| {
        roots
            .add("/".as_ref(), MountAccess::ReadOnly)
            .expect("the root of the machine is there");
    });
    tree.plant_link("status", "/proc/self/status");
    tree.plant_link("environment", "/proc/self/environ");
    tree.plant_link("descriptor", "/proc/self/fd/1");
    for name in [
        "status",
        "environment",
        "/proc/self/environ",
        "/proc/1/environ",
        "/sys/kernel/uevent_seqnum",
    ] {
        refused(tree.read(name).await, ErrorKind::OutsideRoot);
    }
    refused(
        tree.stat("/proc/self/environ").await,
        ErrorKind::OutsideRoot,
    );
    refused(
        tree.roots
            .open_dir(Verb::Exec, &"/proc/self".path())
            .map(drop),
        ErrorKind::OutsideRoot,
    );
    tree.read("/etc/passwd")
        .await
        .expect("the root of the machine may be read");
    let error = tree
        .read("descriptor")
        .await
        .expect_err("it leads to our own output");
    assert!(
        matches!(
            error.kind(),
            ErrorKind::OutsideRoot | ErrorKind::NotFound | ErrorKind::NotAFile
        ),
        "{error}"
    );
    let error = Tree::new()
        .roots
        .open_dir(Verb::Exec, &"/".path())
        .expect_err("not a root here");
    assert_eq!(error.kind(), ErrorKind::OutsideRoot);
}

#[tokio::test]
async fn the_kernels_own_files_cannot_be_a_root() {
    let tree = tempfile::tempdir().expect("a directory");
    let mut roots =
        sandbox_engine::root::Roots::new(tree.path(), MountAccess::ReadWrite).expect("there");
    for directory in ["/proc", "/proc/self/fd", "/sys"] {
        refused(
            roots.add(directory.as_ref(), MountAccess::ReadOnly),
            ErrorKind::InvalidArgument,
        );
    }
}

#[tokio::test]
async fn a_link_leads_into_another_root_and_takes_its_access() {
    let tree = Tree::with(|roots, base| {
        for (name, access) in [
            ("store", MountAccess::ReadOnly),
            ("cache", MountAccess::ReadWrite),
        ] {
            std::fs::create_dir(base.join(name)).expect("a directory");
            std::fs::write(base.join(name).join("file"), name).expect("a file");
            roots.add(&base.join(name), access).expect("it is there");
        }
    });
    let base = tree.inside.with_file_name("");
    tree.plant_link("absolute", base.join("store/file"));
    tree.plant_link("relative", "../store/file");
    tree.plant_link("directory", "../cache");
    for (name, content) in [
        ("absolute", "store"),
        ("relative", "store"),
        ("directory/file", "cache"),
    ] {
        assert_eq!(
            tree.read(name).await.expect("it is in a root").bytes,
            content,
            "{name}"
        );
    }
    assert_eq!(
        tree.read(base.join("store/file"))
            .await
            .expect("a root")
            .bytes,
        "store"
    );

    tree.put("directory/new", "x")
        .await
        .expect("this root may be changed");
    assert_eq!(
        std::fs::read(base.join("cache/new")).expect("it is there"),
        b"x"
    );
    for change in [
        Change::put("absolute".path(), "x"),
        Change::put(base.join("store/new/deep").path(), "x"),
        Change::edit("relative".path(), "store", "x"),
        Change::SetMode {
            path: "absolute".path(),
            mode: 0o777,
        },
        Change::MakeDirectory {
            path: base.join("store/new").path(),
            mode: None,
        },
        Change::Link {
            path: base.join("store/new").path(),
            target: "x".into(),
        },
    ] {
        refused(tree.change(change).await, ErrorKind::ReadOnly);
    }
    refused(
        tree.remove(base.join("store/file"), Recursion::No).await,
        ErrorKind::ReadOnly,
    );
    assert_eq!(
        std::fs::read(base.join("store/file")).expect("it is there"),
        b"store"
    );

    let across = Change::Rename {
        from: "directory/new".path(),
        to: "new".path(),
        existing: Existing::Keep,
    };
    refused(tree.change(across).await, ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_root_within_a_root_keeps_its_own_access_whichever_way_it_is_reached() {
    let tree = Tree::with(|roots, base| {
        std::fs::create_dir_all(base.join("in/vendor/deep")).expect("a directory");
        std::fs::write(base.join("in/vendor/deep/file"), "vendor").expect("a file");
        roots
            .add(&base.join("in/vendor"), MountAccess::ReadOnly)
            .expect("it is there");
    });
    tree.plant_link("way", "vendor/deep");
    tree.plant_link("vendor/back", "../own");
    for path in [
        "vendor/deep/file".path(),
        "way/file".path(),
        tree.inside.join("way/file").path(),
    ] {
        assert_eq!(
            tree.read(path.clone()).await.expect("readable").bytes,
            "vendor"
        );
        refused(tree.put(path, "x").await, ErrorKind::ReadOnly);
    }
    tree.put("vendor/back", "own")
        .await
        .expect("a link back leads into the workspace");
    assert_eq!(tree.bytes("own"), b"own");
    refused(
        tree.remove("vendor", Recursion::Yes).await,
        ErrorKind::InvalidArgument,
    );
    assert!(tree.inside.join("vendor/deep/file").exists());
}

#[tokio::test]
async fn a_root_is_known_by_the_path_it_was_given_too() {
    let base = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(base.path().join("real")).expect("a directory");
    std::fs::write(base.path().join("real/file"), "x").expect("a file");
    std::os::unix::fs::symlink("real", base.path().join("alias")).expect("a link");
    let alias = base.path().join("alias");
    let roots = sandbox_engine::root::Roots::new(&alias, MountAccess::ReadWrite).expect("there");
    let files = sandbox_engine::file::Files::new(std::sync::Arc::new(roots));
    let path = SandboxPath::parse(alias.join("file").to_str().expect("UTF-8")).expect("valid");
    let read = files
        .read(
            &sandbox_core::Ctx::new(),
            sandbox_core::file::ReadRequest::new(path),
        )
        .await;
    assert_eq!(read.expect("it is the workspace").bytes, "x");
}

/// B122.
#[tokio::test]
async fn a_working_directory_is_there_is_a_directory_and_is_inside() {
    let tree = planted();
    tree.roots
        .open_dir(Verb::Exec, &SandboxPath::root())
        .expect("the workspace");
    tree.roots
        .open_dir(Verb::Exec, &"d".path())
        .expect("a directory");
    tree.roots
        .open_dir(Verb::Exec, &tree.inside.join("d").path())
        .expect("by its real path");
    let check = |name: &str, kind| {
        let error = refused(
            tree.roots.open_dir(Verb::Exec, &name.path()).map(drop),
            kind,
        );
        assert_eq!(error.verb(), Verb::Exec);
        assert!(error.to_string().contains(name), "{error}");
    };
    check("missing", ErrorKind::NotFound);
    check("in", ErrorKind::NotADirectory);
    check("in/below", ErrorKind::NotADirectory);
    check("evil", ErrorKind::OutsideRoot);
    check("/etc", ErrorKind::OutsideRoot);
}

/// Of many paths most are looked for in a directory that is kept open, and one by itself is not.
#[tokio::test]
async fn many_paths_are_each_answered_as_they_are_alone() {
    let tree = Tree::new();
    let mut names = Vec::new();
    for number in 0..100 {
        let name = format!("d{number}/file");
        tree.plant(&name, name.as_bytes());
        names.push(name);
    }
    tree.plant_link("within", "d1");
    tree.plant_link("out", &tree.outside);
    tree.plant_link("dangling", "nowhere");
    tree.plant_link("d2/up", "../d3/file");
    tree.plant_link("d2/out", tree.outside.join("secret"));
    let odd = [
        ".",
        "d1",
        "within",
        "within/file",
        "within/missing",
        "out",
        "out/secret",
        "dangling",
        "dangling/x",
        "d2/up",
        "d2/up/x",
        "d2/out",
        "d2/file/x",
        "d1/missing",
        "missing/x",
    ];
    // Twice, with all the others in between.
    names.splice(50..50, odd.map(String::from));
    names.extend(odd.map(String::from));
    let request = StatManyRequest {
        paths: names.iter().map(|name| name.as_str().path()).collect(),
    };
    let together = tree
        .files
        .stat_many(&Ctx::new(), request)
        .await
        .expect("an answer");
    assert_eq!(together.len(), names.len());
    for (name, found) in names.iter().zip(together) {
        let alone = tree.stat(name.as_str()).await;
        // A link itself, wherever it leads; and what a link leads to on the way, as the system sees it.
        if let Ok(Some(stat)) = &found {
            let seen = tree
                .inside
                .join(name)
                .symlink_metadata()
                .expect("it is there");
            assert_eq!(stat.kind == EntryKind::Link, seen.is_symlink(), "{name}");
            assert_eq!(
                stat.inode,
                std::os::unix::fs::MetadataExt::ino(&seen),
                "{name}"
            );
        }
        let told = |stat: Result<Option<Stat>, Error>| stat.map_err(|error| error.to_string());
        assert_eq!(told(found), told(alone), "{name}");
    }
    refused(tree.stat("out/secret").await, ErrorKind::OutsideRoot);
}
