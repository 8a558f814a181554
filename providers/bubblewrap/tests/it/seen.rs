//! What a sandbox sees, and what it does not.

use serde_json::json;

use super::support::{Scratch, each};

#[test]
fn what_runs_sees_its_workspace_and_nothing_else_of_anybodys() {
    each(|who| {
        let scratch = Scratch::new(who);
        let secret = scratch.beside("secret");
        std::fs::write(secret.join("key"), "hidden").expect("a file");
        std::fs::write(scratch.workspace().join("file"), "shown").expect("a file");
        let mut served = scratch.serve();
        assert_eq!(served.descriptor["root"], "/workspace");
        assert_eq!(served.sh("pwd; cat file"), "/workspace\nshown");
        let found = served.sh(&format!("cat {}/key", secret.display()));
        assert!(found.contains("No such file"), "{found}");
        assert_eq!(
            served.sh("cd /; echo *"),
            "bin dev etc home lib lib64 proc run sbin sys tmp usr workspace\n".replace(
                "lib64 ",
                if std::path::Path::new("/lib64").exists() {
                    "lib64 "
                } else {
                    ""
                }
            )
        );
        for secret in [
            "/etc/shadow",
            "/root",
            "/etc/ssh",
            "/var",
            "/run/user",
            "/boot",
        ] {
            let found = served.sh(&format!("ls -d {secret}"));
            assert!(found.contains("No such file"), "{secret}: {found}");
        }
        // Nobody else's processes.
        let processes = served.sh("ls /proc | grep -c '^[0-9]'");
        let count: u32 = processes.trim().parse().expect("a number");
        assert!(count < 12, "{count} processes are seen");
    });
}

#[test]
fn what_is_written_outside_of_the_workspace_is_refused_or_gone_with_the_sandbox() {
    each(|who| {
        let scratch = Scratch::new(who);
        let mut served = scratch.serve();
        for file in [
            "/x",
            "/usr/x",
            "/etc/x",
            "/run/spp/x",
            "/run/x",
            "/dev/x",
            "/sys/x",
            "/home/x",
        ] {
            let said = served.sh(&format!("echo x >{file} && echo written"));
            assert!(!said.contains("written"), "{file}: {said}");
        }
        let name = format!("spp-private-{}", std::process::id());
        let script =
            format!("for it in /tmp ~ /dev/shm; do echo kept >$it/{name} && cat $it/{name}; done");
        assert_eq!(
            served.sh(&script),
            "kept\nkept\nkept\n",
            "the places of its own"
        );
        assert_eq!(
            served.sh(&format!("cat /tmp/{name}")),
            "kept\n",
            "it is there for the next command"
        );
        assert!(!std::path::Path::new("/tmp").join(&name).exists());
        served.call("release", &json!({"sandbox": "s", "disposition": "keep"}));
        served.acquire(&scratch.spec(&json!({})));
        assert_eq!(served.sh(&format!("ls /tmp ~ /dev/shm | grep {name}")), "");
    });
}

#[test]
fn file_verbs_and_commands_see_one_tree() {
    each(|who| {
        let scratch = Scratch::new(who);
        let mut served = scratch.serve();
        served.sh("echo made by a command >/tmp/file; ln -s /tmp/file link; ln -s /usr/bin tools; mkdir -p ~/.config");
        for path in ["/tmp/file", "link"] {
            let read = served.verb("read", json!({"path": path}));
            assert_eq!(read["content"]["text"], "made by a command\n", "{read}");
        }
        let changes = [
            "/tmp/new/file",
            "/home/sandbox/.config/file",
            "/dev/shm/file",
        ]
        .map(|path| json!({"put": {"path": path, "content": {"text": "made by a verb\n"}}}));
        served.verb("write", json!({"changes": changes}));
        let said = served.sh("cat /tmp/new/file ~/.config/file /dev/shm/file");
        assert_eq!(said, "made by a verb\n".repeat(3));
        let stats = served.verb(
            "stat_many",
            json!({"paths": ["/usr/bin/env", "/bin/sh", "tools/env", "/etc/passwd"]}),
        );
        assert_eq!(stats["items"].as_array().map(Vec::len), Some(4));
        assert!(!stats.to_string().contains("error"), "{stats}");
        for path in ["/usr/x", "/etc/passwd", "tools/x"] {
            let change = json!({"put": {"path": path, "content": {"text": "x"}}});
            let answer = served.verb("write", json!({"changes": [change]}));
            assert_eq!(
                answer["items"][0]["error"]["data"]["kind"], "read_only",
                "{answer}"
            );
        }
        for path in [
            "/proc/1/environ",
            "/sys/devices/system/cpu/online",
            "/run/spp/engine",
            "/dev/null",
            "/..",
        ] {
            let read = served.of_sandbox(json!({"path": path}));
            let refused = served.ask("read", &read);
            assert!(refused["error"].is_object(), "{path}: {refused}");
        }
    });
}

#[test]
fn there_is_no_network_unless_the_policy_opens_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let bash = |script: &str| format!("bash -c '{script}' 2>&1");
    each(|who| {
        let scratch = Scratch::new(who);
        let mut served = scratch.serve();
        assert_eq!(served.descriptor["network"], "none");
        let said = served.sh(&bash(&connect));
        assert!(said.contains("refused"), "{said}");
        assert_eq!(
            served.sh("ls /sys/class/net 2>&1 | grep -v cannot; grep -c : /proc/net/dev"),
            "1\n"
        );
        let mut open = scratch.serve_with(&json!({"network": "open"}));
        assert_eq!(open.descriptor["network"], "open");
        assert_eq!(open.sh(&bash(&connect)), "connected\n");
        assert_eq!(
            open.descriptor["guarantees"]["network_denied"],
            "unavailable"
        );
    });
}

#[test]
fn mounts_are_what_they_say_nested_either_way() {
    each(|who| {
        let scratch = Scratch::new(who);
        let (tools, cache) = (scratch.beside("tools"), scratch.beside("cache"));
        let vendor = scratch.workspace().join("vendor");
        std::fs::create_dir(&vendor).expect("a directory");
        std::fs::create_dir(tools.join("cache")).expect("a directory");
        for path in [&vendor, &tools.join("cache")] {
            scratch.own(path);
        }
        std::fs::write(tools.join("tool"), "tool\n").expect("a file");
        let mount = |host: &std::path::Path, at: &str, access: &str| json!({"host": host.to_str(), "sandbox": at, "access": access});
        let mut served = scratch.serve_with(&json!({"mounts": [
            // The one beneath is named first.
            mount(&cache, "/opt/tools/cache", "read_write"),
            mount(&tools, "/opt/tools", "read_only"),
            mount(&tools, "/workspace/vendor", "read_only"),
        ]}));
        let said = served.sh("cat /opt/tools/tool vendor/tool; echo x >/opt/tools/cache/made; echo x >/opt/tools/no; echo x >vendor/no");
        assert!(said.starts_with("tool\ntool\n"), "{said}");
        assert_eq!(
            said.matches("ead-only").count() + said.matches("ermission denied").count(),
            2,
            "{said}"
        );
        assert!(cache.join("made").exists() && !tools.join("no").exists());
        assert_eq!(std::fs::read_dir(&vendor).expect("a directory").count(), 0);
        // What file verbs see is the same.
        let read = served.verb("read", json!({"path": "/opt/tools/tool"}));
        assert_eq!(read["content"]["text"], "tool\n");
        let change = json!({"put": {"path": "/opt/tools/no", "content": {"text": "x"}}});
        let answer = served.verb("write", json!({"changes": [change]}));
        assert_eq!(
            answer["items"][0]["error"]["data"]["kind"], "read_only",
            "{answer}"
        );
    });
}

#[test]
fn variables_are_the_places_and_none_is_seen_in_any_command_line() {
    each(|who| {
        let scratch = Scratch::new(who);
        let mut start = scratch.command();
        let mut served =
            super::support::Served::start(start.env("TOKEN", "hidden-1").env("TZ", "UTC"));
        served.acquire(
            &scratch.spec(&json!({"env": {"changes": [{"name": "SECRET", "value": "hidden-2"}]}})),
        );
        let said =
            served.sh("echo $SECRET.$TOKEN.$TZ.$HOME.$TMPDIR.$SPP_HOST; cat ~/x 2>/dev/null");
        assert_eq!(said, "hidden-2..UTC./home/sandbox./tmp.\n");
        for pid in served.family() {
            for file in ["cmdline", "environ"] {
                let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                let text = String::from_utf8_lossy(&text).into_owned();
                let own = pid == served.child.id() || text.contains("--launch");
                assert!(!text.contains("hidden-2"), "{file} of {pid}");
                assert!(own || !text.contains("hidden-1"), "{file} of {pid}");
            }
        }
    });
}

#[test]
fn nothing_that_is_open_here_is_open_there() {
    each(|who| {
        let scratch = Scratch::new(who);
        let secret = scratch.beside("secret");
        let mut shell = match scratch.user() {
            None => super::support::command("sh"),
            Some(user) => {
                let mut start = super::support::command("setpriv");
                start.args([&format!("--reuid={user}"), &format!("--regid={user}")]);
                start.args(["--clear-groups", "sh"]);
                start
            }
        };
        shell.args(["-c", "exec 7<\"$1\" 9<\"$1\"; exec \"$0\""]);
        shell.arg(scratch.provider()).arg(&secret);
        let mut served = super::support::Served::start(&mut shell);
        served.acquire(&scratch.spec(&json!({})));
        assert_eq!(
            served.sh("ls /proc/self/fd"),
            "0\n1\n2\n3\n",
            "3 is the directory that ls reads"
        );
        let engine = served.named("engine");
        for entry in std::fs::read_dir(format!("/proc/{engine}/fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let target = std::fs::read_link(entry.path()).unwrap_or_default();
            assert!(
                !target.starts_with(secret.parent().expect("private"))
                    || target.starts_with(scratch.workspace()),
                "{target:?}"
            );
        }
    });
}

/// What the descriptor says of sockets is so: they have names like files, and no namespace of networks keeps them away.
#[test]
fn a_socket_in_what_is_shown_can_be_connected_to_and_the_descriptor_says_so() {
    each(|who| {
        let scratch = Scratch::new(who);
        let service = scratch.beside("service");
        let [path, other] =
            [scratch.workspace(), service.clone()].map(|directory| directory.join("socket"));
        let _listeners = [&path, &other].map(|path| {
            let listener = std::os::unix::net::UnixListener::bind(path).expect("a socket");
            scratch.own(path);
            listener
        });
        let read_only =
            json!({"host": service.to_str(), "sandbox": "/mnt/service", "access": "read_only"});
        let mut served = scratch.serve_with(&json!({"mounts": [read_only]}));
        for name in ["socket", "/mnt/service/socket"] {
            let said = served.sh(&format!(
                "perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); print connect(S, pack_sockaddr_un(\"{name}\")) ? \"connected\" : $!'"
            ));
            assert_eq!(said, "connected", "{name}");
        }
        assert!(
            served.descriptor["notes"].to_string().contains("socket"),
            "{}",
            served.descriptor
        );
        let at = json!({"host": path.to_str(), "sandbox": "/mnt/socket", "access": "read_only"});
        let mut spec = scratch.spec(&json!({"mounts": [at]}));
        spec["sandbox"] = "another".into();
        let refused = served.ask("acquire", &json!({"spec": spec}));
        let data = &refused["error"]["data"];
        assert_eq!(
            (&data["kind"], &data["effect"]),
            (&json!("policy_unmet"), &json!("none")),
            "{refused}"
        );
        assert!(refused.to_string().contains("it is a socket"), "{refused}");
    });
}
