//! Checks of what a process is started with, and of what cannot be started.

use sandbox_core::process::{ProcessSpec, Status};
use sandbox_core::{EnvChange, ErrorKind, SandboxExt};

use crate::check::Verdict;
use crate::harness::Place;
use crate::support::{path, refused};

/// Fails unless `process` is refused before anything starts.
async fn not_started(place: &Place, process: ProcessSpec, kind: ErrorKind, what: &str) -> Verdict {
    let error = refused(place.sandbox.run(&place.ctx(), process).await, kind, what)?;
    ensure!(
        !error.detail_text().is_empty() || !error.subject().is_empty(),
        "the error does not say what the matter is: {error}"
    );
    Ok(())
}

/// Printed NUL-terminated by the program itself, with no shell between.
pub(crate) async fn arguments_arrive_verbatim(place: &Place) -> Verdict {
    let odd: [&[u8]; 13] = [
        b"",
        b" ",
        b"two words",
        b"\"quoted\"",
        b"'quoted'",
        b"$HOME",
        b"$(id)",
        b"*",
        b"a\nb",
        b"back\\slash",
        b"-n",
        b"latin\xe9",
        "\u{1f980}".as_bytes(),
    ];
    let mut argv: Vec<&[u8]> = vec![b"printf", b"%s\\0"];
    argv.extend(odd);
    let outcome = place.run(ProcessSpec::new(argv)).await?;
    let mut expected = odd.join(&0);
    expected.push(0);
    ensure_eq!(
        outcome.stdout.head,
        expected,
        "arguments as the program saw them"
    );
    Ok(())
}

pub(crate) async fn ten_thousand_arguments_arrive(place: &Place) -> Verdict {
    let mut process = place.line("echo $# ${10000}")?;
    process.argv.push(b"sh".to_vec());
    process
        .argv
        .extend((1..=10_000).map(|number| format!("argument-{number}").into_bytes()));
    let outcome = place.run(process).await?;
    ensure_eq!(
        outcome.stdout.to_text(),
        "10000 argument-10000\n",
        "count and last"
    );
    Ok(())
}

pub(crate) async fn an_argument_beyond_the_limit_is_too_large(place: &Place) -> Verdict {
    let mut process = place.line("echo started >started")?;
    process.argv.push(vec![b'x'; 4 << 20]);
    not_started(place, process, ErrorKind::TooLarge, "an argument of 4 MiB").await?;
    ensure!(!place.exists("started").await?, "something was started");
    Ok(())
}

pub(crate) async fn variables_are_set_and_removed_in_order(place: &Place) -> Verdict {
    let mut process = place.line(
        r#"printf '%s|' "$ODD" "${EMPTY-unset}" "${GONE-unset}" "${LAST-unset}" "${PATH:+path}""#,
    )?;
    process.env = vec![
        EnvChange::set("ODD", "a=b c\n\"$x\""),
        EnvChange::set("EMPTY", ""),
        EnvChange::set("GONE", "there"),
        EnvChange::remove("GONE"),
        EnvChange::remove("LAST"),
        EnvChange::set("LAST", "first"),
        EnvChange::set("LAST", "second"),
    ];
    let outcome = place.run(process).await?;
    ensure_eq!(
        outcome.stdout.to_text(),
        "a=b c\n\"$x\"||unset|second|path|",
        "variables as the process saw them"
    );
    Ok(())
}

pub(crate) async fn a_call_leaves_nothing_for_the_next(place: &Place) -> Verdict {
    place.script("mkdir elsewhere").await?;
    let first = place
        .line("cd elsewhere; export LEFT=over; umask 777; ulimit -n 20")?
        .env("ALSO_LEFT", "over");
    place.run(first).await?;
    let left = place
        .script(r#"basename "$PWD"; echo "${LEFT-}${ALSO_LEFT-}"; umask; ulimit -n"#)
        .await?;
    ensure!(
        !left.contains("elsewhere")
            && !left.contains("over")
            && !left.contains("777")
            && !left.ends_with("\n20\n"),
        "one call changed the next: {left:?}"
    );
    Ok(())
}

pub(crate) async fn a_process_starts_in_the_workspace_root(place: &Place) -> Verdict {
    let outcome = place.run(ProcessSpec::new(["pwd", "-P"])).await?;
    let root = place.sandbox.descriptor().root.to_string();
    ensure_eq!(outcome.stdout.to_text(), format!("{root}\n"), "directory");
    Ok(())
}

pub(crate) async fn a_process_starts_where_it_is_told(place: &Place) -> Verdict {
    place
        .script("mkdir -p 'deep/odd $name'; ln -s deep door")
        .await?;
    for cwd in ["deep/odd $name", "door/odd $name"] {
        let process = ProcessSpec::new(["pwd", "-P"]).cwd(path(cwd));
        let printed = place.run(process).await?.stdout.to_text();
        ensure!(
            printed.ends_with("/deep/odd $name\n"),
            "a process that was to start in {cwd} started in {printed:?}"
        );
    }
    Ok(())
}

pub(crate) async fn a_missing_directory_is_said_before_anything_starts(place: &Place) -> Verdict {
    let process = place.line("echo started >started")?.cwd(path("missing"));
    not_started(
        place,
        process,
        ErrorKind::NotFound,
        "a start in a missing directory",
    )
    .await?;
    ensure!(!place.exists("started").await?, "something was started");
    Ok(())
}

pub(crate) async fn a_process_does_not_start_in_a_file(place: &Place) -> Verdict {
    place.put("file", "content").await?;
    let process = ProcessSpec::new(["true"]).cwd(path("file"));
    not_started(
        place,
        process,
        ErrorKind::NotADirectory,
        "a start in a file",
    )
    .await
}

pub(crate) async fn a_process_does_not_start_outside(place: &Place) -> Verdict {
    let outside = place.outside()?;
    outside.link_to_outside("door", None)?;
    let before = outside.entries()?;
    let process = place.line("echo escaped >escaped")?.cwd(path("door"));
    let result = place.sandbox.run(&place.ctx(), process).await;
    ensure_eq!(outside.entries()?, before, "entries outside");
    refused(
        result,
        ErrorKind::OutsideRoot,
        "a start through a link that leaves",
    )?;
    Ok(())
}

pub(crate) async fn a_missing_program_is_not_found(place: &Place) -> Verdict {
    for program in ["no-such-program-anywhere", "./missing", "/no/such/program"] {
        not_started(
            place,
            ProcessSpec::new([program]),
            ErrorKind::NotFound,
            &format!("a start of {program}"),
        )
        .await?;
    }
    Ok(())
}

pub(crate) async fn what_is_not_executable_is_not_started(place: &Place) -> Verdict {
    place
        .script("echo 'echo started' >plain; chmod 644 plain")
        .await?;
    not_started(
        place,
        ProcessSpec::new(["./plain"]),
        ErrorKind::PermissionDenied,
        "a start of a file that is not executable",
    )
    .await
}

pub(crate) async fn a_directory_is_not_started(place: &Place) -> Verdict {
    place.script("mkdir directory").await?;
    not_started(
        place,
        ProcessSpec::new(["./directory"]),
        ErrorKind::NotAFile,
        "a start of a directory",
    )
    .await
}

/// A shell would run it line by line; a place that runs what it is told does not.
pub(crate) async fn a_text_without_an_interpreter_is_not_started(place: &Place) -> Verdict {
    place
        .script("echo 'echo started >started' >script; chmod 755 script")
        .await?;
    not_started(
        place,
        ProcessSpec::new(["./script"]),
        ErrorKind::SpawnFailed,
        "a start of a text without an interpreter",
    )
    .await?;
    ensure!(!place.exists("started").await?, "a shell ran the text");
    Ok(())
}

pub(crate) async fn a_program_is_looked_up_in_the_path_it_will_have(place: &Place) -> Verdict {
    place
        .script("mkdir first second; for d in first second; do \
             printf '#!/bin/sh\\necho %s' $d >$d/tool; chmod 755 $d/tool; done; chmod 644 first/tool")
        .await?;
    let root = place.sandbox.descriptor().root.to_string();
    let process =
        ProcessSpec::new(["tool"]).env("PATH", format!("{root}/none:{root}/first:{root}/second"));
    let outcome = place.run(process).await?;
    ensure_eq!(outcome.stdout.to_text(), "second\n", "the tool that ran");
    ensure_eq!(outcome.exit.status, Status::Exited(0), "how it ended");
    Ok(())
}

pub(crate) async fn an_empty_command_is_refused(place: &Place) -> Verdict {
    for argv in [vec![], vec![Vec::new()]] {
        let process = ProcessSpec::new::<Vec<u8>>(argv);
        let error = place.sandbox.run(&place.ctx(), process).await;
        refused(error, ErrorKind::InvalidArgument, "a start of nothing")?;
    }
    Ok(())
}

pub(crate) async fn a_nul_in_an_argument_is_refused(place: &Place) -> Verdict {
    let mut process = place.line("echo started >started")?;
    process.argv.push(b"a\0b".to_vec());
    let result = place.sandbox.run(&place.ctx(), process).await;
    refused(result, ErrorKind::InvalidArgument, "an argument with a NUL")?;
    ensure!(!place.exists("started").await?, "something was started");
    Ok(())
}

pub(crate) async fn a_variable_that_cannot_be_is_refused(place: &Place) -> Verdict {
    for change in [
        EnvChange::set("", "x"),
        EnvChange::set("A=B", "x"),
        EnvChange::set("A", "x\0y"),
    ] {
        let mut process = place.line("echo started >started")?;
        process.env = vec![change];
        let result = place.sandbox.run(&place.ctx(), process).await;
        refused(result, ErrorKind::InvalidArgument, "an impossible variable")?;
    }
    ensure!(!place.exists("started").await?, "something was started");
    Ok(())
}
