//! What reaches a provider, and what does not come back from it.

use sandbox_core::process::{ExecRequest, ProcessSpec, SpawnRequest};
use sandbox_core::{Ctx, ErrorKind, ProcId};
use tokio::time::timeout;

use crate::fixture::{Fixture, LIMIT, eventually, open};

// B191: standard error is always drained.
#[tokio::test]
async fn a_flood_on_standard_error_stops_nothing() {
    for mebibytes in [1, 100] {
        let flood =
            format!("yes 'a line of some length on standard error' | head -c {mebibytes}M >&2");
        let fixture = Fixture::new(&format!("{flood}\nserve"));
        // Only that it ends is meant, not how fast a busy machine moves so much.
        let host = fixture.patient_host();
        let opened = open(&host).await.expect("the flood held up the start");
        drop(opened);
        timeout(LIMIT, host.shutdown())
            .await
            .expect("the shutdown hung");
    }
}

#[tokio::test]
async fn options_arrive_as_they_were_written() {
    let options = r#"{"zone":"b","big":123456789012345678901234567890,"deep":{"list":[1.50,"é\n"],"yes":true}}"#;
    let fixture = Fixture::new("serve").settings(
        "[sandbox.providers.fixture.options]\nzone = 'b'\nbig = 123456789012345678901234567890\n[sandbox.providers.fixture.options.deep]\nlist = [1.50, \"é\\n\"]\nyes = true",
    );
    let host = fixture.host();
    let _opened = open(&host).await.expect("it starts");
    host.shutdown().await;
    let line = fixture.left("acquired");
    assert!(line.contains(&format!("\"options\":{options}")), "{line}");
}

#[tokio::test]
async fn the_environment_is_what_is_allowed_and_configured() {
    let fixture = Fixture::new("env > \"$DIR/env\"\nserve").settings("env = { EXTRA = 'e' }");
    let host = fixture.host();
    let _opened = open(&host).await.expect("it starts");
    host.shutdown().await;
    let env = fixture.left("env");
    let names: Vec<&str> = env
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    for wanted in ["EXTRA", "SPP_HOST", "SPP_HOST_PID", "PATH"] {
        assert!(names.contains(&wanted), "{wanted} is missing of {names:?}");
    }
    // Set by cargo in every test's environment.
    assert!(!names.contains(&"CARGO_MANIFEST_DIR"), "{names:?}");
}

#[tokio::test]
async fn a_provider_gets_no_descriptor_but_its_three() {
    let leaked = rustix::pipe::pipe().expect("a pipe that is not closed on exec");
    let fixture = Fixture::new("ls /proc/self/fd > \"$DIR/fds\"\nserve");
    let host = fixture.host();
    let _opened = open(&host).await.expect("it starts");
    host.shutdown().await;
    drop(leaked);
    // `ls` itself has the directory open; its number is the first that is free.
    let open: Vec<String> = fixture.left("fds").lines().map(str::to_owned).collect();
    assert_eq!(open, ["0", "1", "2", "3"]);
}

#[tokio::test]
async fn busy_is_said_before_anything_is_sent() {
    let fixture = Fixture::new("other() { printf '%s\\n' \"$line\" >> \"$DIR/requests\"; }\nserve");
    let host = fixture.host_with("max_concurrent = 1");
    let (one, two) = (
        open(&host).await.expect("the first"),
        open(&host).await.expect("the second"),
    );
    let ctx = Ctx::new();
    let sleep = || ProcessSpec::new(["sleep", "1000"]);
    let running = one
        .sandbox
        .exec(&ctx, ExecRequest::new(sleep()))
        .await
        .expect("the first fits");
    eventually("the first arrives", || {
        fixture.left("requests").contains("\"method\":\"exec\"")
    })
    .await;

    // Over all sandboxes, and over all ways to start something.
    let refused = two
        .sandbox
        .exec(&ctx, ExecRequest::new(sleep()))
        .await
        .expect_err("the second does not fit");
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    assert!(refused.is_retryable());
    let id = ProcId::new("p").expect("a good id");
    let refused = two
        .sandbox
        .spawn(&ctx, SpawnRequest::new(id, sleep()))
        .await
        .expect_err("a spawn does not fit either");
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    let starts = |requests: &str| {
        requests
            .lines()
            .filter(|line| {
                line.contains("\"method\":\"exec\"") || line.contains("\"method\":\"spawn\"")
            })
            .count()
    };
    assert_eq!(starts(&fixture.left("requests")), 1);

    // A slot is free again once nobody waits for the outcome any more.
    drop(running);
    let again = two.sandbox.exec(&ctx, ExecRequest::new(sleep())).await;
    assert!(again.is_ok(), "{again:?}");
    host.shutdown().await;
}

#[tokio::test]
async fn a_spawned_process_holds_its_slot_until_it_is_known_to_be_gone() {
    let fixture = Fixture::new(
        r#"other() {
            printf '%s\n' "$line" >> "$DIR/requests"
            case $line in
                *'"method":"spawn"'*)
                    process=${line#*'"params":'}
                    process=${process#*'"id":"'}
                    answer '{"id":"'"${process%%\"*}"'","pid":1}' ;;
                *'"method":"proc_read"'*)
                    if [ -e "$DIR/gone" ]; then
                        refuse '{"code":1301,"message":"gone","data":{"kind":"process_not_found","effect":"none","verb":"proc_read"}}'
                    else
                        answer '{"offset":0,"content":{"text":""},"total":0,"end":false,"status":"running"}'
                    fi ;;
            esac
        }
        serve"#,
    );
    let host = fixture.host_with("max_concurrent = 1");
    let opened = open(&host).await.expect("it starts");
    let ctx = Ctx::new();
    let request = |id: &str| {
        let id = ProcId::new(id).expect("a good id");
        SpawnRequest::new(id, ProcessSpec::new(["sleep", "1000"]))
    };
    opened
        .sandbox
        .spawn(&ctx, request("p"))
        .await
        .expect("the first fits");
    // Asking again for the same process asks for nothing new.
    opened
        .sandbox
        .spawn(&ctx, request("p"))
        .await
        .expect("a repeated call is no second process");
    let refused = opened
        .sandbox
        .spawn(&ctx, request("q"))
        .await
        .expect_err("the second does not fit");
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    assert!(!fixture.left("requests").contains("\"q\""));

    std::fs::write(fixture.path("gone"), "").expect("a mark for the script");
    opened
        .sandbox
        .spawn(&ctx, request("q"))
        .await
        .expect("the slot of a process that is gone is free");
    host.shutdown().await;
}
