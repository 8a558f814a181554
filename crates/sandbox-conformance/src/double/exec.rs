//! Doubles that are wrong about starting processes, about how they end, and about their input.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use sandbox_core::file::{EntryKind, ReadRequest};
use sandbox_core::process::{
    ExitReport, Outcome, Output, ProcessSpec, Status, Stdin, Survivors, Usage,
};
use sandbox_core::stream::collect;
use sandbox_core::{Ctx, Error, ErrorKind, ProcId, Result, SandboxPath, Verb};

use super::doubles;
use super::wrapped::{Honest, mapped};

fn refused(kind: ErrorKind) -> Error {
    Error::refused(Verb::Exec, kind)
}

/// The outcome of something that never ran.
pub(super) fn made_up(status: Status) -> Outcome {
    Outcome {
        id: ProcId::new("made-up").expect("an id"),
        exit: ExitReport {
            status,
            duration: Duration::from_millis(1),
            usage: Usage::default(),
            survivors: Survivors::default(),
        },
        stdout: Output::default(),
        stderr: Output::default(),
        changes: None,
    }
}

/// What the program is, if it is named by a path in the workspace.
async fn program(
    honest: &Honest,
    ctx: &Ctx,
    process: &ProcessSpec,
) -> Option<(EntryKind, u32, SandboxPath)> {
    let name = process.argv.first()?;
    let path = SandboxPath::parse(name.strip_prefix(b"./")?).ok()?;
    let stat = honest.look(ctx, &path).await?;
    Some((stat.kind, stat.mode, path))
}

fn not_found(result: Result<Outcome>) -> Result<Outcome> {
    result.map_err(|_| refused(ErrorKind::NotFound).on("the program"))
}

doubles! {
    arguments_arrive_verbatim: "empty arguments are dropped"
    process(process) {
        process.argv.retain(|argument| !argument.is_empty());
    }

    ten_thousand_arguments_arrive: "arguments after the five thousandth are dropped"
    process(process) {
        process.argv.truncate(5000);
    }

    an_argument_beyond_the_limit_is_too_large: "arguments beyond the limit just fail to start"
    outcome(_, outcome) {
        outcome.map_err(|error| match error.kind() {
            ErrorKind::TooLarge => refused(ErrorKind::SpawnFailed),
            _ => error,
        })
    }

    variables_are_set_and_removed_in_order: "variables are removed after others are set"
    process(process) {
        process.env.sort_by_key(|change| change.value.is_none());
    }

    a_call_leaves_nothing_for_the_next: "variables of one call stay for the next"
    exec(honest, ctx, mut request) {
        {
            let mut left = honest.left.lock().expect("nobody panics with it");
            left.append(&mut request.process.env);
            request.process.env = left.clone();
        }
        honest.exec(&ctx, request).await
    }

    a_process_starts_in_the_workspace_root:
        "a program without a path starts in a directory of its own"
    exec(honest, ctx, mut request) {
        let process = &mut request.process;
        if process.cwd.is_root()
            && process.argv.first().is_some_and(|name| !name.contains(&b'/'))
            && std::fs::create_dir_all(honest.host(&SandboxPath::root()).join(".start")).is_ok()
            && let Ok(cwd) = SandboxPath::parse(".start")
        {
            process.cwd = cwd;
        }
        honest.exec(&ctx, request).await
    }

    a_process_starts_where_it_is_told: "a directory behind a link is taken for the root"
    exec(honest, ctx, mut request) {
        if let Some(first) = Honest::first(&request.process.cwd)
            && honest.link(&ctx, &first).await.is_some_and(|text| !text.starts_with('/'))
        {
            request.process.cwd = SandboxPath::root();
        }
        honest.exec(&ctx, request).await
    }

    a_missing_directory_is_said_before_anything_starts:
        "without its directory a process starts in the root"
    exec(honest, ctx, mut request) {
        let cwd = &mut request.process.cwd;
        if !cwd.is_root() && honest.look(&ctx, cwd).await.is_none() {
            *cwd = SandboxPath::root();
        }
        honest.exec(&ctx, request).await
    }

    a_process_does_not_start_in_a_file: "a file is a directory that is missing"
    outcome(_, outcome) {
        outcome.map_err(|error| match error.kind() {
            ErrorKind::NotADirectory => refused(ErrorKind::NotFound).on(error.subject()),
            _ => error,
        })
    }

    a_missing_program_is_not_found: "a program that is not in the path exits with 127"
    outcome(process, outcome) {
        match outcome {
            Err(error) if error.kind() == ErrorKind::NotFound
                && process.argv.first().is_some_and(|name| !name.contains(&b'/')) =>
            {
                Ok(made_up(Status::Exited(127)))
            }
            outcome => outcome,
        }
    }

    what_is_not_executable_is_not_started: "what is not executable is not found"
    exec(honest, ctx, request) {
        let found = program(&honest, &ctx, &request.process).await;
        let plain = matches!(found, Some((EntryKind::File, mode, _)) if mode & 0o111 == 0);
        mapped(&honest, &ctx, request, move |result| {
            if plain { not_found(result) } else { result }
        }).await
    }

    a_directory_is_not_started: "a directory that is to be started is not found"
    exec(honest, ctx, request) {
        let found = program(&honest, &ctx, &request.process).await;
        let directory = matches!(found, Some((EntryKind::Directory, ..)));
        mapped(&honest, &ctx, request, move |result| {
            if directory { not_found(result) } else { result }
        }).await
    }

    a_text_without_an_interpreter_is_not_started: "a text without an interpreter is run by a shell"
    exec(honest, ctx, mut request) {
        if let Some((EntryKind::File, mode, path)) = program(&honest, &ctx, &request.process).await
            && mode & 0o111 != 0
            && !honest.read(&ctx, ReadRequest::new(path)).await?.bytes.starts_with(b"#!")
        {
            request.process.argv.insert(0, b"/bin/sh".to_vec());
        }
        honest.exec(&ctx, request).await
    }

    a_program_is_looked_up_in_the_path_it_will_have: "the path of a call is ignored"
    process(process) {
        process.env.retain(|change| change.name != b"PATH");
    }

    an_empty_command_is_refused: "an empty name is a program that is missing"
    outcome(process, outcome) {
        match process.argv.first() {
            Some(name) if name.is_empty() => not_found(outcome),
            _ => outcome,
        }
    }

    a_nul_in_an_argument_is_refused: "an argument ends at its NUL"
    process(process) {
        for argument in &mut process.argv {
            let end = argument.iter().position(|byte| *byte == 0).unwrap_or(argument.len());
            argument.truncate(end);
        }
    }

    a_variable_that_cannot_be_is_refused: "a variable that cannot be is skipped"
    process(process) {
        process.env.retain(sandbox_core::EnvChange::is_valid);
    }

    every_exit_code_comes_back: "a code over 128 is taken for a signal"
    outcome(_, outcome) {
        let mut outcome = outcome?;
        if let Status::Exited(code @ 129..) = outcome.exit.status {
            outcome.exit.status = Status::Signalled { signal: i32::from(code) - 128, core: false };
        }
        Ok(outcome)
    }

    a_signal_is_not_an_exit_code: "a signal is an exit code over 128"
    outcome(_, outcome) {
        let mut outcome = outcome?;
        if let Status::Signalled { .. } = outcome.exit.status {
            outcome.exit.status = Status::Exited(outcome.exit.status.shell_code());
        }
        Ok(outcome)
    }

    a_process_starts_with_no_signal_ignored:
        "a program that is looked up starts with SIGPIPE ignored"
    process(process) {
        if process.argv.first().is_some_and(|name| name == b"grep") {
            let ignoring = ["/bin/sh", "-c", "trap '' PIPE; exec \"$@\"", "sh"];
            process.argv.splice(..0, ignoring.map(|argument| argument.as_bytes().to_vec()));
        }
    }

    duration_and_use_are_told: "every run takes no time"
    outcome(_, outcome) {
        let mut outcome = outcome?;
        outcome.exit.duration = Duration::ZERO;
        Ok(outcome)
    }

    runs_at_once_do_not_mix: "of many runs at once the output is mixed"
    exec(honest, ctx, request) {
        let others = honest.add("running", 1);
        let mut execution = honest.exec(&ctx, request).await?;
        let outcome = execution.outcome;
        execution.outcome = Box::pin(async move {
            let outcome = outcome.await;
            honest.note("running", honest.noted("running").saturating_sub(1));
            let mut outcome = outcome?;
            if others > 4 {
                outcome.stdout.head = Bytes::from_static(b"of another\n");
            }
            Ok(outcome)
        });
        Ok(execution)
    }

    a_run_has_the_id_it_was_given: "a run is handed out under another id"
    exec(honest, ctx, request) {
        let mut execution = honest.exec(&ctx, request).await?;
        execution.id = made_up(Status::Lost).id;
        Ok(execution)
    }

    a_call_ends_at_its_deadline: "a deadline is taken for a cancel"
    outcome(_, outcome) {
        outcome.map_err(|error| match error.kind() {
            ErrorKind::DeadlineExceeded => Error::new(Verb::Exec, ErrorKind::Cancelled),
            _ => error,
        })
    }

    no_input_ends_at_once: "a command without input has a line of it"
    exec(honest, ctx, mut request) {
        if let (Stdin::Null, None) = (&request.stdin, request.process.pty) {
            request.stdin = Stdin::Bytes(Bytes::from_static(b"line\n"));
        }
        honest.exec(&ctx, request).await
    }

    input_arrives_byte_for_byte: "the last byte of a long input is lost"
    exec(honest, ctx, mut request) {
        if let Stdin::Bytes(bytes) = &mut request.stdin
            && (100_000..1 << 20).contains(&bytes.len())
        {
            bytes.truncate(bytes.len() - 1);
        }
        honest.exec(&ctx, request).await
    }

    an_input_stream_arrives_in_order: "an input stream ends after a hundred chunks"
    exec(honest, ctx, mut request) {
        request.stdin = match request.stdin {
            Stdin::Stream(stream) => Stdin::Stream(Box::pin(stream.take(100))),
            stdin => stdin,
        };
        honest.exec(&ctx, request).await
    }

    input_that_nobody_reads_is_no_error: "a command must read all of a large input"
    exec(honest, ctx, request) {
        let large = matches!(&request.stdin, Stdin::Bytes(bytes) if bytes.len() > 1 << 20);
        mapped(&honest, &ctx, request, move |result| match result {
            Ok(_) if large => Err(Error::new(Verb::Exec, ErrorKind::Io)),
            result => result,
        }).await
    }

    an_input_that_never_ends_holds_nothing_up: "an input stream is read to its end first"
    exec(honest, ctx, mut request) {
        request.stdin = match request.stdin {
            Stdin::Stream(stream) => Stdin::Bytes(collect(Verb::Exec, stream, u64::MAX).await?),
            stdin => stdin,
        };
        honest.exec(&ctx, request).await
    }
}
