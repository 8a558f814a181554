//! Whose files are whose, where root starts the provider on a tree of its own.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use sandbox_core::Ctx;
use sandbox_host::OpenRequest;

use super::support::{IMAGE, Scratch, containers, end, is_root, sh, told};

/// What is mounted of trees, as the machine sees it.
fn mounts() -> usize {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("procfs is there");
    let own = format!(".{}.", std::process::id());
    let is_tree = |line: &&str| line.contains("/spp-tree-") && !line.contains(&own);
    mounts.lines().filter(is_tree).count()
}

/// A tree of root's with a file in it.
fn tree_of_roots(beneath: &Path, name: &str) -> OpenRequest {
    let tree = beneath.join(name);
    std::fs::create_dir(&tree).expect("a directory");
    std::fs::write(tree.join("file"), "before\n").expect("a file");
    OpenRequest {
        root: Some(tree.to_str().expect("UTF-8").to_owned()),
        ..OpenRequest::default()
    }
}

#[tokio::test]
async fn a_tree_of_roots_is_worked_on_by_somebody_else_and_stays_roots() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let beneath = scratch.workspace();
    let before = mounts();
    let host = scratch.host(&Scratch::options(IMAGE));
    let open = async |name| {
        let request = tree_of_roots(&beneath, name);
        let opened = host.open(&Ctx::new(), None, request).await;
        opened.unwrap_or_else(|error| panic!("{}", told(&error)))
    };
    let (one, other) = (open("one").await, open("other").await);
    assert_eq!(mounts(), before, "a mount stays while the sandbox is there");

    let user = sh(&*one.sandbox, "id -u").await;
    assert_ne!(user, "0\n");
    assert_ne!(
        user,
        sh(&*other.sandbox, "id -u").await,
        "they are the same"
    );
    let script = "cat file && echo more >> file && echo new > made && stat -c %u file made";
    assert_eq!(
        sh(&*one.sandbox, script).await,
        format!("before\n{user}{user}")
    );
    let set_id = sh(&*one.sandbox, "chmod 4755 file; stat -c %a file").await;
    assert!(
        set_id.contains("644") && set_id.contains("not permitted"),
        "{set_id}"
    );
    for name in ["file", "made"] {
        let found = std::fs::metadata(beneath.join("one").join(name)).expect("it is here");
        assert_eq!((found.uid(), found.gid()), (0, 0), "{name}");
    }
    let text = std::fs::read_to_string(beneath.join("one/file")).expect("it is here");
    assert_eq!(text, "before\nmore\n");

    let id = other.sandbox.descriptor().id.clone();
    let released = other
        .release(&Ctx::new(), sandbox_core::Disposition::Destroy)
        .await;
    released.expect("it ends");
    assert_eq!(containers(&id), Vec::<String>::new());
    end(one, &host).await;
    assert_eq!(mounts(), before);
    assert!(beneath.join("one/file").exists() && beneath.join("other/file").exists());
}
