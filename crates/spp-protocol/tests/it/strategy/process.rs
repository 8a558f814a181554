//! Arbitrary requests and answers of the process verbs.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use sandbox_core::process::*;

use super::search::{changes, fingerprint_scope};
use super::{content, env_change, integer, microseconds, milliseconds, path, proc_id, raw, text};

pub(crate) fn pty_size() -> impl Strategy<Value = PtySize> {
    any::<(u16, u16)>().prop_map(|(rows, columns)| PtySize { rows, columns })
}

pub(crate) fn process_spec() -> impl Strategy<Value = ProcessSpec> {
    let output = (
        (integer(), integer(), integer()),
        select(vec![BeyondLog::Drop, BeyondLog::Block, BeyondLog::Kill]),
    )
        .prop_map(|((head, tail, log), beyond)| OutputPolicy {
            head,
            tail,
            log,
            beyond,
        });
    (
        (vec(raw(), 1..4), path(), vec(env_change(), 0..3)),
        (
            option::of(pty_size()),
            option::of(milliseconds()),
            milliseconds(),
            output,
        ),
        select(vec![Descendants::Kill, Descendants::Leave]),
    )
        .prop_map(
            |((argv, cwd, env), (pty, timeout, grace, output), descendants)| ProcessSpec {
                argv,
                cwd,
                env,
                pty,
                timeout,
                grace,
                output,
                descendants,
            },
        )
}

/// Without a stream as standard input, which cannot be compared.
pub(crate) fn exec_request() -> impl Strategy<Value = ExecRequest> {
    (
        option::of(proc_id()),
        process_spec(),
        option::of(vec(any::<u8>(), 0..40)),
        select(vec![Delivery::AtEnd, Delivery::Live]),
        option::of(fingerprint_scope()),
    )
        .prop_map(|(id, process, stdin, delivery, track)| ExecRequest {
            id,
            process,
            stdin: stdin.map_or(Stdin::Null, |bytes| Stdin::Bytes(bytes.into())),
            delivery,
            track,
        })
}

pub(crate) fn exit_report() -> impl Strategy<Value = ExitReport> {
    let status = prop_oneof![
        any::<u8>().prop_map(Status::Exited),
        (1..64i32, any::<bool>()).prop_map(|(signal, core)| Status::Signalled { signal, core }),
        select(vec![
            Status::TimedOut,
            Status::Cancelled,
            Status::OutputLimit,
            Status::MemoryLimit,
            Status::Lost,
        ]),
    ];
    let usage =
        (microseconds(), microseconds(), integer()).prop_map(|(user, system, peak_memory)| Usage {
            user,
            system,
            peak_memory,
        });
    let survivor = (any::<u32>(), text()).prop_map(|(pid, name)| Survivor { pid, name });
    let survivors =
        (any::<u32>(), vec(survivor, 0..3), any::<u32>()).prop_map(|(killed, left, left_total)| {
            Survivors {
                killed,
                left,
                left_total,
            }
        });
    (status, microseconds(), usage, survivors).prop_map(|(status, duration, usage, survivors)| {
        ExitReport {
            status,
            duration,
            usage,
            survivors,
        }
    })
}

pub(crate) fn output() -> impl Strategy<Value = Output> {
    (
        content(),
        content(),
        integer(),
        integer(),
        integer(),
        option::of(text()),
    )
        .prop_map(
            |(head, tail, dropped, total, unlogged, log_failure)| Output {
                head,
                tail,
                dropped,
                total,
                unlogged,
                log_failure,
            },
        )
}

pub(crate) fn outcome() -> impl Strategy<Value = Outcome> {
    (
        proc_id(),
        exit_report(),
        output(),
        output(),
        option::of(changes()),
    )
        .prop_map(|(id, exit, stdout, stderr, changes)| Outcome {
            id,
            exit,
            stdout,
            stderr,
            changes,
        })
}

pub(crate) fn spawn_request() -> impl Strategy<Value = SpawnRequest> {
    (
        proc_id(),
        process_spec(),
        select(vec![SpawnStdin::Null, SpawnStdin::Open]),
        select(vec![Detach::No, Detach::Yes]),
    )
        .prop_map(|(id, process, stdin, detach)| SpawnRequest {
            id,
            process,
            stdin,
            detach,
        })
}

pub(crate) fn proc_read_request() -> impl Strategy<Value = ProcReadRequest> {
    (
        proc_id(),
        select(vec![OutputStream::Stdout, OutputStream::Stderr]),
        integer(),
        0..=MAX_PROC_READ_BYTES,
        milliseconds(),
    )
        .prop_map(|(id, stream, from, max, wait)| ProcReadRequest {
            id,
            stream,
            from,
            max,
            wait,
        })
}

pub(crate) fn proc_status() -> impl Strategy<Value = ProcStatus> {
    prop_oneof![
        Just(ProcStatus::Running),
        exit_report().prop_map(ProcStatus::Ended)
    ]
}

pub(crate) fn proc_chunk() -> impl Strategy<Value = ProcChunk> {
    (
        integer(),
        content(),
        integer(),
        any::<bool>(),
        proc_status(),
    )
        .prop_map(|(offset, bytes, total, end, status)| ProcChunk {
            offset,
            bytes,
            total,
            end,
            status,
        })
}

pub(crate) fn proc_stdin_request() -> impl Strategy<Value = ProcStdinRequest> {
    (
        proc_id(),
        integer(),
        content(),
        any::<bool>(),
        option::of(pty_size()),
    )
        .prop_map(|(id, offset, bytes, close, resize)| ProcStdinRequest {
            id,
            offset,
            bytes,
            close,
            resize,
        })
}

pub(crate) fn proc_stop_request() -> impl Strategy<Value = ProcStopRequest> {
    let stop = prop_oneof![
        (1..=64i32).prop_map(Stop::Signal),
        milliseconds().prop_map(|grace| Stop::Graceful { grace }),
        Just(Stop::Kill),
    ];
    (proc_id(), stop).prop_map(|(id, stop)| ProcStopRequest { id, stop })
}
