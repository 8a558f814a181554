//! Faults of a start: each is told apart, says what to do, and leaves no process behind.

use sandbox_host::StartError;

use crate::fixture::{Fixture, open, refused, runs};

/// Opens a faulty provider, and returns the fault with its text. Nothing of it may still run.
async fn fault(fixture: &Fixture) -> (StartError, String) {
    let host = fixture.host();
    let error = refused(&host).await;
    for pid in fixture.pids("pids") {
        assert!(!runs(pid), "the provider was left running after: {error}");
    }
    let text = error.to_string();
    (error, text)
}

#[tokio::test]
async fn a_missing_executable_says_where_it_was_looked_for() {
    let fixture = Fixture::new("");
    std::fs::remove_file(fixture.path("provider")).expect("it was there");
    let (error, text) = fault(&fixture).await;
    assert!(matches!(error, StartError::NotFound { .. }), "{text}");
    assert!(text.contains("correct `command`"), "{text}");
}

#[tokio::test]
async fn a_file_without_permission_to_execute_is_told_as_that() {
    let fixture = Fixture::new("serve").mode(0o644);
    let (error, text) = fault(&fixture).await;
    assert!(matches!(error, StartError::NotExecutable { .. }), "{text}");
    assert!(text.contains("chmod +x"), "{text}");
}

#[tokio::test]
async fn a_directory_is_told_as_that() {
    let fixture = Fixture::new("");
    std::fs::remove_file(fixture.path("provider")).expect("it was there");
    std::fs::create_dir(fixture.path("provider")).expect("a directory");
    let (error, text) = fault(&fixture).await;
    assert!(matches!(error, StartError::IsADirectory { .. }), "{text}");
}

#[tokio::test]
async fn a_provider_that_crashes_at_the_start_shows_its_status_and_its_last_words() {
    let (error, text) = fault(&Fixture::new("echo 'no such daemon' >&2; exit 3")).await;
    assert!(matches!(error, StartError::Ended { .. }), "{text}");
    assert!(
        text.contains("exited with 3") && text.contains("no such daemon"),
        "{text}"
    );
    let (error, text) = fault(&Fixture::new("kill -KILL $$")).await;
    assert!(matches!(error, StartError::Ended { .. }), "{text}");
    assert!(text.contains("signal 9"), "{text}");
}

#[tokio::test]
async fn a_provider_that_reads_its_request_and_crashes_is_told_as_ended() {
    let (error, text) = fault(&Fixture::new("read -r line; echo bad >&2; exit 4")).await;
    assert!(matches!(error, StartError::Ended { .. }), "{text}");
    assert!(
        text.contains("exited with 4") && text.contains("bad"),
        "{text}"
    );
}

#[tokio::test]
async fn a_silent_provider_is_given_up_after_the_time_for_the_handshake() {
    let (error, text) = fault(&Fixture::new("exec sleep 1000")).await;
    assert!(matches!(error, StartError::Silent { .. }), "{text}");
    assert!(text.contains("within 2s"), "{text}");
}

// B188: a banner before the handshake is skipped.
#[tokio::test]
async fn lines_of_text_before_the_first_answer_are_skipped() {
    let fixture = Fixture::new("for n in 1 2 3 4 5 6 7 8; do echo \"Welcome, $n\"; done; serve");
    let host = fixture.host();
    let opened = open(&host).await.expect("the provider speaks at last");
    assert_eq!(opened.sandbox.descriptor().provider, "fixture");
    host.shutdown().await;
}

// B188: within bounds.
#[tokio::test]
async fn endless_text_is_refused_and_shown() {
    let (error, text) = fault(&Fixture::new("exec yes 'Welcome to the box'")).await;
    assert!(matches!(error, StartError::Babble { .. }), "{text}");
    assert!(text.contains("begins `Welcome to the box`"), "{text}");
}

// B185: memory stays bounded, and the start is refused.
#[tokio::test]
async fn a_line_without_end_is_refused() {
    // Its input stays open on another descriptor: without it, writing to it may fail first.
    let (error, text) = fault(&Fixture::new("exec 3<&0; exec tr '\\0' x < /dev/zero")).await;
    assert!(matches!(error, StartError::Babble { .. }), "{text}");
}

// B190: a peer that frames like an editor's language server is told as that, at once.
#[tokio::test]
async fn messages_behind_headers_are_recognised() {
    let (error, text) = fault(&Fixture::new(
        "printf 'Content-Length: 2\\r\\n\\r\\n{}'; exec sleep 1000",
    ))
    .await;
    assert!(matches!(error, StartError::Framed { .. }), "{text}");
    assert!(text.contains("one JSON message a line"), "{text}");
}

#[tokio::test]
async fn a_provider_of_another_major_version_is_told_with_both_sides() {
    let body = r#"
        read -r line; id=${line#*'"id":'}; id=${id%%[,\}]*}
        refuse '{"code":1001,"message":"this provider speaks 7","data":{"kind":"unsupported_version","effect":"none","verb":"initialize","detail":"this provider speaks 7"}}'
        exec sleep 1000"#;
    let (error, text) = fault(&Fixture::new(body)).await;
    assert!(matches!(error, StartError::Version { .. }), "{text}");
    let cause = std::error::Error::source(&error)
        .expect("the versions are in the cause")
        .to_string();
    assert!(cause.contains("speaks 7"), "{cause}");
    assert!(text.contains("this host speaks 1"), "{text}");
}

#[tokio::test]
async fn a_provider_that_chooses_a_version_nobody_offered_is_refused() {
    let body = r#"
        read -r line; id=${line#*'"id":'}; id=${id%%[,\}]*}
        answer '{"protocol":{"major":7},"provider":{"name":"fixture","version":"1.0"},"instance":"1"}'
        exec sleep 1000"#;
    let (error, text) = fault(&Fixture::new(body)).await;
    assert!(matches!(error, StartError::Version { .. }), "{text}");
}

#[tokio::test]
async fn a_provider_that_closes_its_output_is_not_waited_for() {
    let (error, text) = fault(&Fixture::new("exec >&-; exec sleep 1000")).await;
    assert!(matches!(error, StartError::Closed { .. }), "{text}");
}

#[tokio::test]
async fn a_variable_that_is_not_set_refuses_the_start_before_anything_runs() {
    let fixture =
        Fixture::new("serve").settings("env = { TOKEN = '${env:SPP_TEST_NOBODY_SETS_THIS}' }");
    let (error, text) = fault(&fixture).await;
    assert!(matches!(error, StartError::VariableNotSet { .. }), "{text}");
    assert_eq!(fixture.pids("pids"), []);
}

#[tokio::test]
async fn a_start_that_is_cancelled_leaves_nothing() {
    let fixture = Fixture::new("exec sleep 1000");
    let host = fixture.host();
    let cancel = sandbox_core::Cancel::new();
    let ctx = sandbox_core::Ctx::new().with_cancel(cancel.clone());
    let opening = host.open(&ctx, None, sandbox_host::OpenRequest::default());
    let cancelling = async {
        crate::fixture::eventually("the provider starts", || !fixture.pids("pids").is_empty())
            .await;
        cancel.cancel();
    };
    let (opened, ()) = tokio::join!(opening, cancelling);
    assert!(opened.is_err());
    assert!(!runs(fixture.pids("pids")[0]));
}

#[tokio::test]
async fn a_start_that_nobody_waits_for_any_more_leaves_nothing() {
    let fixture = Fixture::new("trap '' TERM; sleep 1000");
    let host = fixture.patient_host();
    let ctx = sandbox_core::Ctx::new();
    let opening = host.open(&ctx, None, sandbox_host::OpenRequest::default());
    let started =
        crate::fixture::eventually("the provider starts", || !fixture.pids("pids").is_empty());
    tokio::select! {
        _ = opening => panic!("nobody answered"),
        () = started => {}
    }
    let pid = fixture.pids("pids")[0];
    crate::fixture::eventually("it is gone", || !runs(pid)).await;
}
