//! The private directory: held while it is worked on, gone afterwards.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use sandbox_core::{Error, ErrorKind, Verb};
use sandbox_tree::unpack::place;
use sandbox_tree::unpack::{Receiver, Staging, is_staging};

use crate::archive::{Archive, directory, file};
use crate::support::{Ground, LIMITS, listing, names, open, reader};

#[test]
fn one_that_is_held_stays_and_one_that_nobody_holds_goes() {
    let ground = Ground::new();
    let left = ground.work().join(".spp-tree-00000000000000aa");
    let deep = left.join("a/".repeat(300));
    fs::create_dir_all(&deep).expect("made");
    fs::write(deep.join("f"), "x").expect("written");
    fs::create_dir(left.join("locked")).expect("made");
    fs::write(left.join("locked/f"), "x").expect("written");
    fs::set_permissions(left.join("locked"), PermissionsExt::from_mode(0o500)).expect("set");
    std::os::unix::fs::symlink(ground.out(), left.join("door")).expect("made");
    let named_alike = [
        ".spp-tree-",
        ".spp-tree-00000000000000a",
        ".spp-tree-00000000000000ax",
    ];
    for name in named_alike {
        assert!(!is_staging(name.as_bytes()));
        fs::create_dir(ground.work().join(name)).expect("made");
    }
    let held = Staging::create(open(&ground.work())).expect("made");
    let held_name = names(&ground.work())
        .into_iter()
        .find(|name| is_staging(name.as_bytes()))
        .expect("it is there");
    assert!(!left.exists(), "{:?}", listing(&left));
    let other = Staging::create(open(&ground.work())).expect("made");
    let there: Vec<_> = names(&ground.work());
    assert!(there.contains(&held_name), "the second removed the first");
    assert_eq!(there.len(), named_alike.len() + 2);
    drop((held, other));
    assert_eq!(names(&ground.work()), named_alike);
    assert!(ground.outside_is_untouched());
}

#[test]
fn it_is_private_for_as_long_as_it_is_worked_on() {
    let ground = Ground::new();
    let archive = Archive::of([directory(".").mode(0o755), directory("d"), file("d/f", "x")]).end();
    let work = ground.work();
    let mut modes = Vec::new();
    place::create(
        Verb::PushTree,
        open(&work),
        &["dst".as_ref()],
        Receiver::Sandbox,
        &mut reader(&archive, sandbox_core::transfer::Compression::None),
        &mut || {
            for name in names(&work) {
                let meta = fs::metadata(work.join(name)).expect("there");
                modes.push(meta.permissions().mode() & 0o7777);
            }
            Ok(())
        },
    )
    .expect("taken");
    assert_eq!(
        modes, [0o700; 4],
        "an entry each, and once before it is published"
    );
}

#[test]
fn a_cancel_at_any_entry_leaves_nothing() {
    let archive = Archive::of([
        directory("d").mode(0o500),
        file("d/f", "x"),
        file("e/f/g", "x"),
    ])
    .end();
    for stop in 0..4 {
        for there in [false, true] {
            let ground = Ground::new();
            if there {
                fs::create_dir(ground.dst()).expect("made");
            }
            let before = listing(&ground.work());
            let mut asked = 0;
            let mut go_on = || {
                asked += 1;
                if asked > stop {
                    return Err(Error::new(Verb::PushTree, ErrorKind::Cancelled));
                }
                Ok(())
            };
            let mut reader = reader(&archive, sandbox_core::transfer::Compression::None);
            let result = if there {
                let dir = open(&ground.dst());
                place::merge(
                    Verb::PushTree,
                    dir.as_fd(),
                    None,
                    Receiver::Sandbox,
                    &mut reader,
                    &mut go_on,
                )
            } else {
                let dir = open(&ground.work());
                let name = ["dst".as_ref()];
                place::create(
                    Verb::PushTree,
                    dir,
                    &name,
                    Receiver::Sandbox,
                    &mut reader,
                    &mut go_on,
                )
            };
            let error = result.expect_err("it went on");
            assert_eq!(error.kind(), ErrorKind::Cancelled);
            assert_eq!(error.effect(), sandbox_core::Effect::None);
            assert_eq!(listing(&ground.work()), before, "after {stop} entries");
        }
    }
}

/// A guest with the same rights swaps directories of the tree under way for links that lead out, as fast as
/// it can. Whatever becomes of the tree, nothing is made outside.
#[test]
fn directories_swapped_for_links_meanwhile_lead_nowhere() {
    let ground = Ground::new();
    let archive = Archive::of((0..40).flat_map(|number| {
        let name = format!("d{}", number % 4);
        [
            file(format!("{name}/f{number}"), "x"),
            file(format!("{name}/s/g{number}"), "x"),
        ]
    }))
    .end();
    let done = AtomicBool::new(false);
    let operations = 20_000 / 80;
    let swaps = std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let mut swaps = 0_u64;
            while !done.load(Ordering::Relaxed) {
                for staging in names(&ground.work())
                    .into_iter()
                    .filter(|name| is_staging(name.as_bytes()))
                {
                    for number in 0..4 {
                        let dir = ground.work().join(&staging).join(format!("d{number}"));
                        let aside = dir.with_extension("aside");
                        if fs::rename(&dir, &aside).is_ok() {
                            let _ = std::os::unix::fs::symlink(ground.out(), &dir);
                            swaps += 1;
                        }
                    }
                }
            }
            swaps
        });
        for number in 0..operations {
            let mut reader = sandbox_tree::reader::Reader::new(
                &archive[..],
                sandbox_tree::reader::Limits {
                    entries: 10_000,
                    ..LIMITS
                },
            );
            let name = format!("dst{number}");
            let _ = place::create(
                Verb::PushTree,
                open(&ground.work()),
                &[name.as_ref()],
                Receiver::Sandbox,
                &mut reader,
                &mut || Ok(()),
            );
        }
        done.store(true, Ordering::Relaxed);
        swapper.join().expect("it ended")
    });
    assert!(ground.outside_is_untouched(), "something was made outside");
    assert!(swaps > 0, "nothing was swapped, so nothing was shown");
}
