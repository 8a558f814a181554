//! Mounts of the policy: directories and single files, in one another, hidden ones, and very many.

use std::path::Path;

use serde_json::{Value, json};

use super::support::{Scratch, Served, Who, each};

/// More than bwrap is told of one by one.
const MANY: usize = 100;

fn file(scratch: &Scratch, path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file");
    scratch.own(path);
}

fn directory(scratch: &Scratch, path: &Path) {
    std::fs::create_dir_all(path).expect("a directory");
    scratch.own(path);
}

fn mount(host: &Path, at: &str, access: &str) -> Value {
    json!({"host": host.to_str().expect("UTF-8"), "sandbox": at, "access": access})
}

fn hidden(at: &str) -> Value {
    json!({"sandbox": at, "access": "hidden"})
}

/// Tries something as everybody, and with so much beside it that it is arranged before bwrap sees it.
fn each_way(check: impl Fn(&Scratch, &dyn Fn(Vec<Value>) -> Served)) {
    each(|who| {
        for beside in [0, MANY] {
            let scratch = Scratch::new(who);
            let crowd = scratch.workspace().join("crowd");
            directory(&scratch, &crowd);
            for number in 0..beside {
                file(&scratch, &crowd.join(number.to_string()), "");
            }
            let serve = |mut mounts: Vec<Value>| {
                let names = (0..beside).map(|it| format!("/workspace/crowd/{it}"));
                mounts.extend(names.map(|it| hidden(&it)));
                scratch.serve_with(&json!({ "mounts": mounts }))
            };
            check(&scratch, &serve);
        }
    });
}

/// The kind of error that a verb answers with.
fn kind(served: &mut Served, method: &str, params: Value) -> String {
    let params = served.of_sandbox(params);
    let answer = served.ask(method, &params);
    answer["error"]["data"]["kind"]
        .as_str()
        .unwrap_or_else(|| panic!("{method} went well: {answer}"))
        .to_owned()
}

fn put(path: &str, text: &str) -> Value {
    json!({"changes": [{"put": {"path": path, "content": {"text": text}}}]})
}

/// The kind of error of the one change that was asked for.
fn put_kind(served: &mut Served, path: &str) -> String {
    let answer = served.verb("write", put(path, "changed"));
    answer["items"][0]["error"]["data"]["kind"]
        .as_str()
        .unwrap_or_else(|| panic!("{path} was written: {answer}"))
        .to_owned()
}

#[test]
fn what_can_only_be_read_lies_in_what_can_be_written_and_the_other_way_round() {
    each_way(|scratch, serve| {
        let (fixed, data) = (scratch.beside("fixed"), scratch.beside("data"));
        for path in [
            fixed.clone(),
            scratch.workspace().join("fixed"),
            data.join("cache"),
        ] {
            directory(scratch, &path);
        }
        for path in [
            fixed.join("file"),
            data.join("file"),
            data.join("cache/file"),
        ] {
            file(scratch, &path, "old\n");
        }
        // The inner one is named first: what counts is where it lies.
        let mut served = serve(vec![
            mount(&data.join("cache"), "/mnt/data/cache", "read_write"),
            mount(&data, "/mnt/data", "read_only"),
            mount(&fixed, "/workspace/fixed", "read_only"),
        ]);
        let said = served.sh("cat fixed/file /mnt/data/file /mnt/data/cache/file; \
             for it in fixed /mnt/data; do echo x 2>/dev/null >>$it/file || echo kept; \
             mv $it $it.moved 2>/dev/null || echo stays; done; \
             echo new >/mnt/data/cache/file && touch made && echo written");
        assert_eq!(
            said, "old\nold\nold\nkept\nstays\nkept\nstays\nwritten\n",
            "{:?}",
            served.descriptor
        );
        for path in ["fixed/file", "fixed/new", "/mnt/data/file"] {
            assert_eq!(put_kind(&mut served, path), "read_only", "{path}");
        }
        served.verb("write", put("/mnt/data/cache/file", "by a verb"));
        let text = |path: &Path| std::fs::read_to_string(path).expect("it is there");
        assert_eq!(text(&data.join("cache/file")), "by a verb");
        assert_eq!(text(&data.join("file")), "old\n");
        assert_eq!(text(&fixed.join("file")), "old\n");
    });
}

#[test]
fn what_lies_beside_a_mount_is_not_shown_by_any_name() {
    each_way(|scratch, serve| {
        let install = scratch.beside("install");
        for name in ["bin", "users"] {
            directory(scratch, &install.join(name));
            file(
                scratch,
                &install.join(name).join("file"),
                &format!("{name}\n"),
            );
        }
        std::os::unix::fs::symlink("../users", install.join("bin/link")).expect("a link");
        let mut served = serve(vec![mount(
            &install.join("bin"),
            "/opt/install/bin",
            "read_only",
        )]);
        assert_eq!(
            served.sh("cat /opt/install/bin/file; ls /opt/install"),
            "bin\nbin\n"
        );
        let host = install.join("users/file");
        for path in [
            "/opt/install/users/file",
            "/opt/install/bin/link/file",
            host.to_str().expect("UTF-8"),
        ] {
            let said = served.sh(&format!("cat {path}"));
            assert!(said.contains("No such file"), "{path}: {said}");
            let kind = kind(&mut served, "read", json!({"path": path}));
            assert!(
                ["outside_root", "not_found"].contains(&kind.as_str()),
                "{path}: {kind}"
            );
        }
    });
}

#[test]
fn a_workspace_that_is_only_read_has_a_directory_that_is_written() {
    each_way(|scratch, serve| {
        let workspace = scratch.workspace();
        let (out, inner) = (scratch.beside("out"), workspace.join("target"));
        directory(scratch, &inner);
        file(scratch, &workspace.join("file"), "old\n");
        let mut served = serve(vec![
            mount(&workspace, "/workspace", "read_only"),
            mount(&out, "/workspace/target", "read_write"),
        ]);
        assert_eq!(
            served.sh("touch new 2>/dev/null || echo kept; echo x >target/made && cat file"),
            "kept\nold\n"
        );
        assert_eq!(put_kind(&mut served, "file"), "read_only");
        served.verb("write", put("target/by-verb", "x"));
        assert!(out.join("made").is_file() && out.join("by-verb").is_file());
        assert!(!workspace.join("new").exists());
    });
}

#[test]
fn a_single_file_is_mounted_beside_the_workspace_and_in_it() {
    each_way(|scratch, serve| {
        let (host, workspace) = (scratch.beside("host"), scratch.workspace());
        for name in ["read", "written", "inner", "inner-written"] {
            file(scratch, &host.join(name), &format!("{name}\n"));
        }
        for name in ["inner", "inner-written"] {
            file(scratch, &workspace.join(name), "covered\n");
        }
        let mut served = serve(vec![
            mount(&host.join("read"), "/mnt/one/read", "read_only"),
            mount(&host.join("written"), "/mnt/two/written", "read_write"),
            mount(&host.join("inner"), "/workspace/inner", "read_only"),
            mount(
                &host.join("inner-written"),
                "/workspace/inner-written",
                "read_write",
            ),
        ]);
        let all = [
            "/mnt/one/read",
            "/mnt/two/written",
            "inner",
            "inner-written",
        ];
        assert_eq!(
            served.sh(&format!("cat {}", all.join(" "))),
            "read\nwritten\ninner\ninner-written\n"
        );
        for path in all {
            let read = served.verb("read", json!({"path": path}));
            let name = Path::new(path).file_name().expect("it has one");
            assert_eq!(
                read["content"]["text"],
                format!("{}\n", name.to_str().expect("UTF-8"))
            );
        }
        assert_eq!(
            served.sh(
                "for it in /mnt/one/read inner; do echo x 2>/dev/null >$it || echo kept; done; \
                 for it in /mnt/two/written inner-written; do echo by a command >$it && echo written; done; \
                 ls /mnt/one /mnt/two"
            ),
            "kept\nkept\nwritten\nwritten\n/mnt/one:\nread\n\n/mnt/two:\nwritten\n"
        );
        let text = |path: &Path| std::fs::read_to_string(path).expect("it is there");
        for name in ["written", "inner-written"] {
            assert_eq!(text(&host.join(name)), "by a command\n");
        }
        assert_eq!(text(&workspace.join("inner-written")), "covered\n");
        for path in ["/mnt/one/read", "inner"] {
            assert_eq!(put_kind(&mut served, path), "read_only", "{path}");
        }
        for (path, name) in [
            ("/mnt/two/written", "written"),
            ("inner-written", "inner-written"),
        ] {
            let answer = served.verb("write", put(path, "by a verb\n"));
            assert!(answer["items"][0]["ok"].is_object(), "{path}: {answer}");
            assert_eq!(text(&host.join(name)), "by a verb\n");
        }
        for path in ["inner", "inner-written"] {
            let kind = kind(&mut served, "remove", json!({"path": path}));
            assert_eq!(kind, "io", "{path}");
        }
    });
}

#[test]
fn what_is_hidden_can_neither_be_read_nor_written_nor_moved_away_and_stays_as_it_is() {
    each_way(|scratch, serve| {
        let (workspace, host) = (scratch.workspace(), scratch.beside("host"));
        for path in [workspace.join("keys"), host.join("deep")] {
            directory(scratch, &path);
        }
        let secrets = [
            workspace.join(".env"),
            workspace.join("keys/one"),
            host.join("deep/token"),
        ];
        for path in &secrets {
            file(scratch, path, "secret\n");
        }
        file(scratch, &host.join("deep/known"), "known\n");
        let mut served = serve(vec![
            mount(&host, "/mnt/host", "read_only"),
            hidden("/workspace/.env"),
            hidden("/workspace/keys"),
            hidden("/workspace/keys/one"),
            hidden("/mnt/host/deep/token"),
        ]);
        let said = served.sh(
            "cat .env keys/one /mnt/host/deep/token; ls keys; echo x >.env; echo x >keys/new; chmod 700 keys .env; \
             mv keys elsewhere; rm -rf keys .env; ln .env again; cat again; cp -r keys copy; cat copy/one",
        );
        assert!(!said.contains("secret"), "{said}");
        assert_eq!(
            served.sh("cat /mnt/host/deep/known; ls -d keys"),
            "known\nkeys\n"
        );
        for path in [".env", "keys/one", "/mnt/host/deep/token"] {
            let kind = kind(&mut served, "read", json!({"path": path}));
            assert!(
                ["permission_denied", "not_found"].contains(&kind.as_str()),
                "{path}: {kind}"
            );
        }
        let found = served.verb(
            "grep",
            json!({"pattern": {"text": "secret", "syntax": "literal"}, "scope": {"ignore": "off", "hidden": "include"}, "limit": 10, "max_line_bytes": 100}),
        );
        assert!(!found.to_string().contains("secret\\n"), "{found}");
        for path in &secrets {
            assert_eq!(
                std::fs::read_to_string(path).expect("it is there"),
                "secret\n"
            );
        }
    });
}

#[test]
fn what_cannot_be_mounted_or_hidden_is_refused_with_the_reason() {
    each(|who| {
        let scratch = Scratch::new(who);
        let (workspace, host) = (scratch.workspace(), scratch.beside("host"));
        file(&scratch, &workspace.join("file"), "");
        directory(&scratch, &workspace.join("keys/public"));
        directory(&scratch, &host.join("deep"));
        std::os::unix::fs::symlink("/etc/passwd", workspace.join("link")).expect("a link");
        let mut served = Served::start(&mut scratch.command());
        let mut check = |mounts: Value, says: &str| {
            let spec = scratch.spec(&json!({ "mounts": mounts }));
            let answer = served.ask("acquire", &json!({ "spec": spec }));
            let data = &answer["error"]["data"];
            assert_eq!(data["kind"], "policy_unmet", "{answer}");
            assert_eq!(data["effect"], "none", "{answer}");
            assert!(answer.to_string().contains(says), "{says}: {answer}");
        };
        check(
            json!([hidden("/workspace/missing")]),
            "nothing of that name",
        );
        check(json!([hidden("/workspace/link")]), "it is a link");
        check(json!([hidden("/workspace/link/x")]), "it is a link");
        check(json!([hidden("/workspace")]), "leave one of them out");
        check(json!([hidden("/usr/bin")]), "nothing to hide");
        check(
            json!([
                hidden("/workspace/keys"),
                mount(&host, "/workspace/keys/public", "read_only")
            ]),
            "hide what lies beside it",
        );
        check(
            json!([mount(&host, "/workspace/file", "read_only")]),
            "in place of a directory",
        );
        check(
            json!([mount(
                &workspace.join("file"),
                "/workspace/keys",
                "read_only"
            )]),
            "in place of a directory",
        );
        check(
            json!([mount(&workspace.join("file"), "/file", "read_only")]),
            "needs a directory",
        );
        check(
            json!([
                mount(&host, "/mnt/host", "read_write"),
                mount(&workspace, "/mnt/host/missing", "read_write")
            ]),
            "nothing of that name in /mnt/host",
        );
        let apart = (0..300).map(|it| mount(&host, &format!("/mnt/{it}"), "read_only"));
        check(apart.collect(), "300 mounts");
        assert!(!host.join("missing").exists());
        assert_eq!(served.family().len(), 1, "something was left");
    });
}

#[test]
fn a_policy_names_twenty_thousand_paths() {
    each(|who| {
        const PATHS: usize = 20_000;
        let scratch = Scratch::new(who);
        let data = scratch.workspace().join("data");
        directory(&scratch, &data);
        let shared = scratch.beside("shared");
        file(&scratch, &shared.join("file"), "shown\n");
        let mut mounts = Vec::with_capacity(PATHS);
        for number in 0..PATHS {
            // Files of few directories, each third of them shown as another one.
            let below = data.join((number % 100).to_string());
            if number < 100 {
                directory(&scratch, &below);
            }
            file(&scratch, &below.join(number.to_string()), "secret\n");
            let at = format!("/workspace/data/{}/{number}", number % 100);
            mounts.push(match number % 3 {
                0 => mount(&shared.join("file"), &at, "read_only"),
                _ => hidden(&at),
            });
        }
        let mut served = scratch.serve_with(&json!({ "mounts": mounts }));
        assert_eq!(
            served.sh("cat data/*/* 2>/dev/null | sort | uniq -c | tr -s ' '; grep -c /data/ /proc/self/mountinfo"),
            format!(" {} shown\n{PATHS}\n", PATHS.div_ceil(3))
        );
        // There are few roots, and descriptors left.
        let engine = served.named("engine");
        let open = std::fs::read_dir(format!("/proc/{engine}/fd")).expect("it runs");
        let open = open.count();
        assert!(open < 100, "{open}");
        assert_eq!(served.hang_up(), Some(0));
    });
}

#[test]
fn a_user_who_may_make_no_namespace_is_told_what_so_many_paths_need() {
    if !super::support::is_root() {
        return;
    }
    let scratch = Scratch::new(Who::Ordinary);
    let workspace = scratch.workspace();
    for number in 0..MANY {
        file(&scratch, &workspace.join(number.to_string()), "");
    }
    let names = (0..MANY).map(|number| hidden(&format!("/workspace/{number}")));
    let spec = scratch.spec(&json!({ "mounts": names.collect::<Vec<_>>() }));
    // In a user namespace in which there can be one other, which is this user's again.
    let user = scratch.user().expect("an ordinary one");
    let mut start = super::support::command("setpriv");
    start.args([&format!("--reuid={user}"), &format!("--regid={user}")]);
    let last = "echo 1 >/proc/sys/user/max_user_namespaces && exec unshare -U \"$@\"";
    start.args(["--clear-groups", "unshare", "-Ur", "sh", "-c", last, "sh"]);
    start.args([
        &format!("--map-user={user}"),
        &format!("--map-group={user}"),
    ]);
    start.arg(scratch.provider());
    let mut served = Served::start(&mut start);
    let answer = served.ask("acquire", &json!({ "spec": spec }));
    assert!(
        answer.to_string().contains("directories above them"),
        "{answer}"
    );
    assert_eq!(served.family().len(), 1, "something was left");
}

#[test]
fn a_place_in_which_something_is_not_hidden_yet_waits_even_when_nobody_is_left_to_hide_it() {
    if !super::support::is_root() {
        return;
    }
    let scratch = Scratch::new(Who::Me);
    file(&scratch, &scratch.workspace().join("key"), "");
    let told = format!("/dev/shm/spp-test-{}", std::process::id());
    // A bwrap that says nothing of what it started, and then waits to be let on, as the real one does.
    let waits = format!(
        "case $1 in --version) echo bubblewrap 0.9.0; exit;; --help) echo --bind-fd; exit;; esac
         exec bash -c 'while [ $# -gt 0 ]; do case $1 in --block-fd) block=$2;; --info-fd) info=$2;; esac; shift; done
             eval \"exec $info>&-\"
             sleep 0.5
             timeout 1 head -c 1 <&$block >/dev/null
             echo $? >{told}; exit 1' bwrap \"$@\""
    );
    let policy = json!({"mounts": [hidden("/workspace/key")]});
    let refused = super::refused::with_bwrap_and(&scratch, &waits, &policy).expect("refused");
    assert!(
        refused.contains("does not say what it started"),
        "{refused}"
    );
    let status = std::fs::read_to_string(&told).expect("it waited");
    std::fs::remove_file(&told).expect("it is there");
    assert_eq!(status, "124\n", "it was let on");
}
