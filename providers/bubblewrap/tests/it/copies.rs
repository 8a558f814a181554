//! A sandbox that works in a private copy of its workspace, and what becomes of that.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::support::{Scratch, Served, Who, each, is_root, until};

/// A provider whose copies are in a directory of this test.
struct Ground {
    scratch: Scratch,
    caches: PathBuf,
}

impl Ground {
    fn new(who: Who) -> Self {
        let scratch = Scratch::new(who);
        let caches = scratch.beside("caches");
        Self { scratch, caches }
    }

    fn start(&self) -> Served {
        Served::start(self.scratch.command().env("XDG_CACHE_HOME", &self.caches))
    }

    fn spec(&self) -> Value {
        let mut spec = self.scratch.spec(&json!({}));
        spec["options"] = json!({"workspace": "copy"});
        spec
    }

    fn serve(&self) -> Served {
        let mut served = self.start();
        served.acquire(&self.spec());
        served
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.scratch.workspace().join(path);
        let above = path.parent().expect("it has one");
        if !above.is_dir() {
            std::fs::create_dir(above).expect("a directory");
            self.scratch.own(above);
        }
        std::fs::write(&path, text).expect("a file");
        self.scratch.own(&path);
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.scratch.workspace().join(path)).expect("it is there")
    }

    /// How many copies there are.
    fn copies(&self) -> usize {
        copies(&self.caches)
    }
}

fn copies(caches: &Path) -> usize {
    std::fs::read_dir(caches.join("spp/bubblewrap")).map_or(0, Iterator::count)
}

fn release(served: &mut Served, disposition: &str) -> Value {
    served.call(
        "release",
        &json!({"sandbox": "s", "disposition": disposition}),
    )
}

#[test]
fn what_is_changed_in_a_copy_is_not_changed_in_the_workspace_and_gone_with_the_sandbox() {
    each(|who| {
        let ground = Ground::new(who);
        ground.file("file", "old\n");
        ground.file(".gitignore", "ignored\n");
        ground.file("ignored/file", "needed\n");
        let mut served = ground.serve();
        let note = served.descriptor["notes"].to_string();
        assert!(
            note.contains("private copy of") && note.contains("entries"),
            "{note}"
        );
        assert_eq!(
            served.sh("cat file ignored/file; echo new >file; rm .gitignore; touch made; stat -c %u . file"),
            "old\nneeded\n1000\n1000\n"
        );
        served.verb(
            "write",
            json!({"changes": [{"put": {"path": "by-verb", "content": {"text": "x"}}}]}),
        );
        // Whoever cleans up has to get through what a command closed, too.
        assert_eq!(
            served
                .sh("mkdir -p closed/inner && touch closed/inner/x && chmod 0 closed/inner closed"),
            ""
        );
        assert_eq!(ground.copies(), 1);
        assert_eq!(ground.text("file"), "old\n");
        for path in ["made", "by-verb", "closed"] {
            assert!(!ground.scratch.workspace().join(path).exists(), "{path}");
        }
        assert!(ground.scratch.workspace().join(".gitignore").exists());
        let receipt = release(&mut served, "destroy");
        assert_eq!(
            (&receipt["existed"], &receipt["disposition"]),
            (&json!(true), &json!("destroy"))
        );
        assert_eq!(ground.copies(), 0);
        assert_eq!(served.hang_up(), Some(0));
    });
}

#[test]
fn git_works_in_a_copy() {
    each(|who| {
        let ground = Ground::new(who);
        // What a repository needs, made by the sandbox in the workspace itself.
        let named = "-c user.name=a -c user.email=a@example.org";
        let mut bound = ground.scratch.serve();
        let made = bound.sh(&format!(
            "git init -q && echo x >file && git add file && git {named} commit -q -m first && git log --format=%s"
        ));
        assert_eq!(made, "first\n");
        assert_eq!(bound.hang_up(), Some(0));
        let mut served = ground.serve();
        let said = served.sh(&format!(
            "git status --porcelain; echo y >>file; git {named} commit -qam second && git log --format=%s"
        ));
        assert_eq!(said, "second\nfirst\n");
        assert_eq!(served.hang_up(), Some(0));
        let mut bound = ground.scratch.serve();
        assert_eq!(
            bound.sh("git log --format=%s; git status --porcelain"),
            "first\n"
        );
    });
}

#[test]
fn a_copy_that_is_kept_is_there_when_its_sandbox_is_acquired_again_until_it_is_destroyed() {
    each(|who| {
        let ground = Ground::new(who);
        ground.file("file", "old\n");
        let mut served = ground.serve();
        served.sh("echo new >file");
        assert_eq!(release(&mut served, "keep")["disposition"], "keep");
        assert_eq!(served.hang_up(), Some(0));
        assert_eq!(ground.copies(), 1);
        ground.file("file", "changed meanwhile\n");

        let mut served = ground.start();
        let listed = served.call("list", &json!({}));
        assert_eq!(listed["sandboxes"][0]["sandbox"], "s", "{listed}");
        assert_eq!(listed["sandboxes"][0]["running"], false, "{listed}");
        served.acquire(&ground.spec());
        assert_eq!(served.sh("cat file"), "new\n");
        let note = served.descriptor["notes"].to_string();
        assert!(note.contains("kept under this id"), "{note}");
        // Another process may not have it now.
        let mut other = ground.start();
        let busy = other.ask("acquire", &json!({"spec": ground.spec()}));
        assert_eq!(busy["error"]["data"]["kind"], "busy", "{busy}");
        assert_eq!(other.hang_up(), Some(0));
        // What was kept once stays until that is asked otherwise.
        served.child.kill().expect("it runs");
        drop(served);

        let mut served = ground.start();
        let mut spec = ground.spec();
        spec["root"] = json!(ground.scratch.beside("elsewhere"));
        let refused = served.ask("acquire", &json!({ "spec": spec }));
        assert_eq!(refused["error"]["data"]["kind"], "conflict", "{refused}");
        let receipt = release(&mut served, "destroy");
        assert_eq!(
            (&receipt["existed"], &receipt["disposition"]),
            (&json!(true), &json!("destroy"))
        );
        assert_eq!(ground.copies(), 0);
        assert_eq!(release(&mut served, "destroy")["existed"], false);
        assert_eq!(ground.text("file"), "changed meanwhile\n");
    });
}

#[test]
fn nothing_is_left_of_a_copy_when_the_host_goes_or_after_its_provider_was_killed() {
    each(|who| {
        let ground = Ground::new(who);
        ground.file("file", "old\n");
        let served = ground.serve();
        assert_eq!(ground.copies(), 1);
        assert_eq!(served.hang_up(), Some(0));
        assert_eq!(ground.copies(), 0);

        let mut served = ground.serve();
        served.spawn("echo up; sleep 1000");
        served.child.kill().expect("it runs");
        drop(served);
        assert_eq!(ground.copies(), 1);
        let next = ground.start();
        until("the end of what was left", || ground.copies() == 0);
        assert_eq!(next.hang_up(), Some(0));
    });
}

#[test]
fn a_copy_that_cannot_be_had_is_refused_and_nothing_is_left_of_it() {
    each(|who| {
        let ground = Ground::new(who);
        ground.file("file", "");
        let mut served = ground.start();
        let mut check = |spec: Value, kind: &str, says: &str| {
            let answer = served.ask("acquire", &json!({ "spec": spec }));
            let data = &answer["error"]["data"];
            assert_eq!(
                (&data["kind"], &data["effect"]),
                (&json!(kind), &json!("none")),
                "{answer}"
            );
            assert!(answer.to_string().contains(says), "{says}: {answer}");
            assert_eq!(ground.copies(), 0);
        };
        let mut unknown = ground.spec();
        unknown["options"] = json!({"workspace": "copied"});
        check(unknown, "unsupported_spec", "copied");
        let mut unknown = ground.spec();
        unknown["options"] = json!({"work": "copy"});
        check(unknown, "unsupported_spec", "work");
        // A directory that holds the copies would be copied into itself.
        let mut outer = ground.spec();
        outer["root"] = json!(ground.caches.parent().expect("it has one"));
        check(outer, "invalid_params", "in itself");
        if who == Who::Ordinary && is_root() {
            std::fs::write(ground.scratch.workspace().join("roots"), "").expect("a file");
            let closed = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(ground.scratch.workspace().join("roots"), closed)
                .expect("ours");
            check(ground.spec(), "permission_denied", "roots cannot be copied");
        }
    });
}

#[test]
fn a_directory_for_copies_that_others_may_enter_is_refused_and_left_as_it_is() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    each(|who| {
        let ground = Ground::new(who);
        let (spp, real) = (ground.caches.join("spp"), ground.scratch.beside("real"));
        std::fs::create_dir(&spp).expect("a directory");
        ground.scratch.own(&spp);
        let base = spp.join("bubblewrap");
        let refused = |says: &str| {
            let mut served = ground.start();
            let answer = served.ask("acquire", &json!({"spec": ground.spec()}));
            assert_eq!(
                answer["error"]["data"]["kind"], "provider_unavailable",
                "{answer}"
            );
            assert!(answer.to_string().contains(says), "{answer}");
        };
        std::os::unix::fs::symlink(&real, &base).expect("a link");
        refused("yours alone");
        std::fs::remove_file(&base).expect("it is a link");
        std::fs::create_dir(&base).expect("a directory");
        ground.scratch.own(&base);
        std::fs::set_permissions(&base, PermissionsExt::from_mode(0o750)).expect("ours");
        refused("yours alone");
        let mode = std::fs::metadata(&base).expect("it is there").mode();
        assert_eq!(mode & 0o7777, 0o750);
        for directory in [&base, &real] {
            assert_eq!(
                std::fs::read_dir(directory).expect("it is there").count(),
                0
            );
        }
    });
}
