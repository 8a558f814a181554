//! What something hostile inside tries against the engine and against the machine.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::support::{Scratch, each};

#[test]
fn no_signal_from_inside_ends_or_stops_the_engine() {
    each(|who| {
        let scratch = Scratch::new(who);
        let mut served = scratch.serve();
        for signal in [
            "TERM", "INT", "HUP", "QUIT", "KILL", "STOP", "SEGV", "USR1", "PIPE", "ALRM", "CHLD",
        ] {
            served.sh(&format!("kill -{signal} 1"));
        }
        served.sh("kill -9 -1");
        assert_eq!(served.sh("echo alive"), "alive\n");
    });
}

#[test]
fn nothing_inside_can_look_into_the_engine_or_answer_in_its_place() {
    each(|who| {
        let scratch = Scratch::new(who);
        let mut served = scratch.serve();
        let forged =
            r#"{"jsonrpc":"2.0","id":7,"result":{"exit":{"status":{"exited":{"code":0}}}}}"#;
        let script = format!(
            "for it in fd/0 fd/1 fd/100 fd/101 mem environ maps; do head -c1 /proc/1/$it 2>/dev/null && echo $it; done; \
             for it in 0 1 3 100 101; do echo '{forged}' 2>/dev/null >/proc/1/fd/$it && echo written; done 2>/dev/null; exit 3"
        );
        let outcome = served.verb("exec", json!({"process": {"argv": ["sh", "-c", script]}}));
        assert_eq!(outcome["exit"]["status"]["exited"]["code"], 3, "{outcome}");
        assert_eq!(outcome["stdout"]["total"], 0, "{outcome}");
    });
}

#[test]
fn the_kernels_settings_and_further_namespaces_are_out_of_reach() {
    each(|who| {
        let scratch = Scratch::new(who);
        let mut served = scratch.serve();
        for attempt in [
            "echo x >/proc/sys/kernel/core_pattern",
            "echo 1 >/proc/sys/vm/drop_caches",
            "echo b >/proc/sysrq-trigger",
            "unshare -U true",
            "unshare -Ur mount -t tmpfs x /tmp",
            "mount -o remount,rw /usr",
            "mount -t tmpfs x /mnt",
            "umount /proc/sys",
            "mknod /tmp/device c 1 5",
            "chroot / true",
            "setpriv --reuid=0 true",
            "echo 0 1000 1 >/proc/self/uid_map",
        ] {
            let outcome = served.verb("exec", json!({"process": {"argv": ["sh", "-c", attempt]}}));
            let code = &outcome["exit"]["status"]["exited"]["code"];
            assert_ne!(code, 0, "{attempt}: {outcome}");
        }
        let status = served
            .sh("grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status | sort -u -k2");
        assert_eq!(
            status
                .lines()
                .filter(|line| line.starts_with("Cap"))
                .count(),
            1,
            "{status}"
        );
        assert!(
            status.contains("0000000000000000") && status.contains("NoNewPrivs:\t1"),
            "{status}"
        );
    });
}

/// What is made in the workspace is its owner's outside, who may be root: a program with such a bit would give whoever
/// runs it there that owner's rights.
#[test]
fn no_file_gets_a_bit_that_gives_its_owners_rights_away() {
    each(|who| {
        let scratch = Scratch::new(who);
        let file = scratch.workspace().join("program");
        std::fs::write(&file, "#!/bin/sh\n").expect("a file");
        scratch.own(&file);
        let mut served = scratch.serve();
        for attempt in [
            "chmod u+s program",
            "chmod g+s program",
            "chmod 6755 program",
            "install -m 4755 /usr/bin/id made",
            "cp -p program made && chmod 2755 made",
            "mkdir -m 2777 directory",
        ] {
            served.sh(attempt);
            for entry in std::fs::read_dir(scratch.workspace()).expect("a directory") {
                let entry = entry.expect("an entry");
                let mode = entry.metadata().expect("it is there").permissions().mode();
                assert_eq!(
                    mode & 0o6000,
                    0,
                    "{attempt}: {:?} is {mode:o}",
                    entry.file_name()
                );
            }
        }
        assert_eq!(served.sh("chmod 755 program; stat -c %a program"), "755\n");
    });
}

#[test]
fn every_restriction_is_attested_and_can_be_required() {
    const ALL: [&str; 4] = [
        "network_denied",
        "write_contained",
        "process_contained",
        "secrets_hidden",
    ];
    each(|who| {
        let scratch = Scratch::new(who);
        let served = scratch.serve_with(&json!({"require": ALL}));
        for restriction in ALL {
            assert_eq!(
                served.descriptor["guarantees"][restriction], "full",
                "{}",
                served.descriptor
            );
        }
        let mut served = scratch.serve_with(&json!({"network": "open"}));
        let mut spec = scratch.spec(&json!({"network": "open", "require": ["network_denied"]}));
        spec["sandbox"] = "another".into();
        let refused = served.ask("acquire", &json!({"spec": spec}));
        assert_eq!(
            refused["error"]["data"]["kind"], "policy_unmet",
            "{refused}"
        );
    });
}

#[test]
fn a_place_to_write_in_memory_has_an_end() {
    let scratch = Scratch::new(super::support::Who::Me);
    let mut served = scratch.serve();
    let said = served.sh("df -k --output=size /tmp ~ /dev/shm | tail -n +2");
    for line in said.lines() {
        let kilobytes: u64 = line.trim().parse().expect("a number");
        assert!(kilobytes <= 2 << 20, "{said}");
    }
    assert_eq!(said.lines().count(), 3, "{said}");
}
