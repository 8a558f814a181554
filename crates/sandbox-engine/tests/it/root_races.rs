//! A name that changes hands while it is used.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags};
use sandbox_core::MountAccess;
use sandbox_core::file::{Change, Recursion};

use super::file::{SECRET, Tree};

const ROUNDS: usize = 4000;

/// Swaps a directory `d` that holds a harmless `secret` with a link to the directory outside, for as
/// long as `work` goes on.
fn while_swapping<T>(tree: &Tree, work: impl FnOnce() -> T) -> T {
    tree.plant("d/secret", "inside\n");
    tree.plant_link("door", "../out");
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (stop, inside) = (Arc::clone(&stop), tree.inside.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let (one, other) = (inside.join("d"), inside.join("door"));
                rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
                    .expect("both are there");
            }
        })
    };
    let result = work();
    stop.store(true, Ordering::Relaxed);
    swapper.join().expect("nothing stops it");
    result
}

/// What programs do that resolve, compare and then open. Its escapes show that the race is on.
fn naive(root: &Path, name: &str) -> Option<Vec<u8>> {
    let path = root.join(name);
    let real = path.canonicalize().ok()?;
    if real.starts_with(root) {
        std::fs::read(path).ok()
    } else {
        None
    }
}

#[test]
fn a_directory_that_is_swapped_for_a_link_never_lets_a_read_out_and_the_race_is_real() {
    let tree = Tree::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut escapes = 0;
    let mut read = 0;
    let control = while_swapping(&tree, || {
        let mut control = 0;
        // The naive way loses about one race in ten; it is tried until it did, which shows that the race is on.
        for round in 0..ROUNDS * 50 {
            if round >= ROUNDS && control > 0 {
                break;
            }
            if round < ROUNDS {
                for name in ["d/secret", "door/secret"] {
                    if let Ok(content) = runtime.block_on(tree.read(name)) {
                        read += 1;
                        escapes += usize::from(content.bytes == SECRET);
                    }
                }
            }
            control += usize::from(
                naive(&tree.inside, "d/secret").is_some_and(|bytes| bytes == SECRET.as_bytes()),
            );
        }
        control
    });
    assert_eq!(escapes, 0, "reads left the workspace");
    assert!(read > 0, "nothing was read at all");
    assert!(
        control > 0,
        "the naive way never lost the race, so that nothing is shown"
    );
}

#[test]
fn the_walk_by_hand_does_not_let_a_read_out_either() {
    // Another root within makes the kernel's own resolution unusable.
    let tree = Tree::with(|roots, base| {
        std::fs::create_dir(base.join("in/nested")).expect("a directory");
        roots
            .add(&base.join("in/nested"), MountAccess::ReadOnly)
            .expect("it is there");
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (escapes, read) = while_swapping(&tree, || {
        let mut counts = (0, 0);
        for _ in 0..ROUNDS {
            if let Ok(content) = runtime.block_on(tree.read("d/secret")) {
                counts.1 += 1;
                counts.0 += usize::from(content.bytes == SECRET);
            }
        }
        counts
    });
    assert_eq!(escapes, 0, "reads left the workspace");
    assert!(read > 0, "nothing was read at all");
}

#[test]
fn a_directory_that_is_swapped_for_a_link_never_lets_a_change_out() {
    let tree = Tree::new();
    let before = tree.look_outside();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    while_swapping(&tree, || {
        for round in 0..ROUNDS / 8 {
            runtime.block_on(async {
                // Whether each is made or refused is the race's business; where it is made is ours.
                let _ = tree.put("d/secret", "changed").await;
                let _ = tree.put(format!("d/new{round}").as_str(), "changed").await;
                let path = sandbox_core::SandboxPath::parse("d/secret").expect("valid");
                let _ = tree
                    .change(Change::SetMode {
                        path: path.clone(),
                        mode: 0o640,
                    })
                    .await;
                let _ = tree.change(Change::edit(path, "changed", "edited")).await;
                let _ = tree
                    .remove(format!("d/new{round}").as_str(), Recursion::Yes)
                    .await;
                let _ = tree.remove("d/secret", Recursion::No).await;
            });
        }
    });
    assert_eq!(tree.look_outside(), before, "something outside changed");
}

#[test]
fn a_tree_that_is_removed_while_its_directories_are_swapped_for_links_takes_nothing_outside() {
    let tree = Tree::new();
    let before = tree.look_outside();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    while_swapping(&tree, || {
        for _ in 0..ROUNDS / 8 {
            for name in ["top/a/secret", "top/b/secret"] {
                tree.plant(name, "inside\n");
            }
            tree.plant_link("top/c", "../../out");
            // Swapped with `d` and `door`, which the other thread swaps with each other.
            let _ = rustix::fs::renameat_with(
                CWD,
                tree.inside.join("top/a"),
                CWD,
                tree.inside.join("door"),
                RenameFlags::EXCHANGE,
            );
            runtime
                .block_on(tree.remove("top", Recursion::Yes))
                .expect("it is all ours");
        }
    });
    assert_eq!(tree.look_outside(), before, "something outside changed");
}

#[cfg(target_os = "linux")]
#[test]
fn the_kernel_and_the_library_agree_on_what_is_inside() {
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;

    let tree = Tree::new();
    for name in ["file", "a/file", "a/b/file"] {
        tree.plant(name, "inside\n");
    }
    let texts = [
        "file",
        "b",
        "a",
        "..",
        ".",
        "../a",
        "../../out",
        "a/b",
        "b/../b/file",
        "../in/a",
        "/etc/passwd",
        "../..",
    ];
    for (number, text) in texts.into_iter().enumerate() {
        tree.plant_link(format!("l{number}"), text);
        tree.plant_link(format!("a/l{number}"), text);
        tree.plant_link(format!("a/b/l{number}"), text);
    }
    let dir = Dir::open_ambient_dir(&tree.inside, ambient_authority()).expect("it is there");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut agreed = 0;
    let names: Vec<String> = (0..texts.len())
        .map(|number| format!("l{number}"))
        .chain(["a".into(), "b".into(), "file".into()])
        .collect();
    for one in &names {
        for two in &names {
            for path in [
                one.clone(),
                format!("{one}/{two}"),
                format!("a/{one}/{two}"),
                format!("a/b/{one}/{two}"),
            ] {
                let ours = runtime
                    .block_on(tree.read(path.as_str()))
                    .map(|content| content.bytes.to_vec());
                let theirs = dir.read(&path);
                match (ours, theirs) {
                    (Ok(ours), Ok(theirs)) => {
                        assert_eq!(ours, theirs, "{path}");
                        agreed += 1;
                    }
                    (Err(_), Err(_)) => {}
                    // The library gives up at every way out; ours follows one that comes back in.
                    (Ok(ours), Err(_)) => assert_eq!(ours, b"inside\n", "{path}"),
                    (Err(ours), Ok(_)) => panic!("{path} is inside and was refused: {ours}"),
                }
            }
        }
    }
    assert!(agreed > 50, "only {agreed} paths led to the file");
}
