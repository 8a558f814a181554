//! Whatever the port can say arrives as it was said: port, wire type, JSON, and all the way back.

use std::fmt::Debug;

use bytes::Bytes;
use proptest::prelude::*;
use sandbox_core::file::RemoveReceipt;
use sandbox_core::process::{
    Delivery, ExecRequest, Output, SpawnReceipt, Stdin, StdinReceipt, StopReceipt,
};
use sandbox_core::transfer::{Compression, Flaw, FlawCause, PullReceipt, PushReceipt, PushRequest};
use sandbox_core::{
    ByteStream, Disposition, Generation, ReleaseReceipt, Result, SandboxId, TemplateReceipt, Verb,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use spp_protocol::convert::{ExecStreams, Inlet, Outlet, Target, meta, referenced};
use spp_protocol::message::Request;
use spp_protocol::message::file::*;
use spp_protocol::message::lifecycle::*;
use spp_protocol::message::process::*;
use spp_protocol::message::search::*;
use spp_protocol::message::tree::*;
use spp_protocol::message::value::{ByteField, MAX_INLINE_BYTES, StreamId};

use super::strategy as s;

const STREAM: StreamId = StreamId(7);

/// Over the wire: to JSON text and back, with nothing changed.
#[expect(
    clippy::needless_pass_by_value,
    reason = "every caller makes the value for this call"
)]
fn travel<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) -> T {
    let line = serde_json::to_string(&value).expect("JSON");
    assert!(!line.contains('\n'), "a message is one line");
    let arrived: T = serde_json::from_str(&line).expect("our own JSON");
    assert_eq!(arrived, value);
    arrived
}

/// What the stream of an outlet carried, at the other end.
fn carried(outlet: Outlet) -> Inlet {
    match outlet.into_stream() {
        Some((stream, chunks)) => Inlet::new(stream, chunks.concat().into()),
        None => Inlet::none(),
    }
}

fn target() -> Target {
    Target {
        sandbox: SandboxId::new("box").expect("plain"),
        generation: Generation(3),
        meta: meta(Some(std::time::Duration::from_secs(2))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn read(request in s::file::read_request(), content in s::file::file_content()) {
        let wire = travel(ReadParams::encode(&target(), &request, Some(STREAM)));
        prop_assert_eq!(Request::target(&wire), Some(("box", 3)));
        prop_assert_eq!(wire.meta().and_then(|meta| meta.deadline_ms), Some(2000));
        prop_assert_eq!(wire.decode().expect("valid"), request);

        let mut outlet = Outlet::new(Some(STREAM));
        let wire = travel(FileContent::encode(content.clone(), &mut outlet));
        let streamed = matches!(wire.content, ByteField::Stream { .. });
        prop_assert_eq!(streamed, content.bytes.len() > MAX_INLINE_BYTES);
        prop_assert_eq!(wire.decode(&mut carried(outlet)).expect("valid"), content);
    }

    #[test]
    fn read_many(request in s::file::read_many_request(), items in s::items(s::file::file_content())) {
        let wire = travel(ReadManyParams::encode(&target(), &request, Some(STREAM)));
        prop_assert_eq!(wire.decode().expect("valid"), request);

        // Errors cannot be compared; all that they are made of can be shown.
        let shown = format!("{items:?}");
        let mut outlet = Outlet::new(Some(STREAM));
        let wire = travel(ReadManyResult::encode(items, &mut outlet));
        let arrived = wire.decode(&mut carried(outlet)).expect("valid");
        prop_assert_eq!(format!("{arrived:?}"), shown);
    }

    #[test]
    fn write(request in s::file::write_request(), receipt in s::file::write_receipt(), error in s::error()) {
        let mut outlet = Outlet::new(Some(STREAM));
        let wire = travel(WriteParams::encode(&target(), request.clone(), &mut outlet));
        let announced = referenced(Verb::Write, wire.byte_fields(), u64::MAX).expect("valid");
        let stream = outlet.into_stream();
        let sent = stream.as_ref().map(|(id, chunks)| (*id, chunks.concat().len() as u64));
        prop_assert_eq!(announced, sent);
        let mut inlet = match stream {
            Some((id, chunks)) => Inlet::new(id, chunks.concat().into()),
            None => Inlet::none(),
        };
        prop_assert_eq!(wire.decode(&mut inlet).expect("valid"), request);

        let items = vec![Ok(receipt), Err(error)];
        let shown = format!("{items:?}");
        let arrived = travel(WriteResult::encode(items)).decode().expect("valid");
        prop_assert_eq!(format!("{arrived:?}"), shown);
    }

    #[test]
    fn remove_and_stat_many(
        request in s::file::remove_request(),
        existed in any::<bool>(),
        entries in s::integer(),
        paths in proptest::collection::vec(s::path(), 0..4),
        stats in s::items(proptest::option::of(s::file::stat())),
    ) {
        let wire = travel(RemoveParams::encode(&target(), &request));
        prop_assert_eq!(wire.decode().expect("valid"), request);
        let receipt = RemoveReceipt { existed, entries };
        prop_assert_eq!(RemoveReceipt::from(travel(RemoveResult::from(receipt))), receipt);

        let request = sandbox_core::file::StatManyRequest { paths };
        let wire = travel(StatManyParams::encode(&target(), &request));
        prop_assert_eq!(wire.decode().expect("valid"), request);
        let shown = format!("{stats:?}");
        let arrived = travel(StatManyResult::encode(stats)).decode().expect("valid");
        prop_assert_eq!(format!("{arrived:?}"), shown);
    }

    #[test]
    fn glob(request in s::search::glob_request(), result in s::search::glob_result()) {
        prop_assert_eq!(travel(GlobParams::encode(&target(), &request)).decode().expect("valid"), request);
        prop_assert_eq!(travel(GlobResult::encode(result.clone())).decode().expect("valid"), result);
    }

    #[test]
    fn grep(request in s::search::grep_request(), result in s::search::grep_result()) {
        prop_assert_eq!(travel(GrepParams::encode(&target(), &request)).decode().expect("valid"), request);
        prop_assert_eq!(travel(GrepResult::encode(result.clone())).decode().expect("valid"), result);
    }

    #[test]
    fn fingerprint(request in s::search::fingerprint_request(), result in s::search::fingerprint()) {
        prop_assert_eq!(travel(FingerprintParams::encode(&target(), &request)).decode().expect("valid"), request);
        prop_assert_eq!(travel(FingerprintResult::encode(result.clone())).decode().expect("valid"), result);
    }

    #[test]
    fn exec(request in s::process::exec_request(), outcome in s::process::outcome()) {
        let streams = ExecStreams { stdin: StreamId(1), stdout: StreamId(2), stderr: StreamId(3) };
        let shown = format!("{request:?}");
        let arrival = travel(ExecParams::encode(&target(), &request, streams)).decode().expect("valid");
        prop_assert_eq!(format!("{:?}", arrival.request), shown);
        prop_assert_eq!(arrival.stdin, None);
        prop_assert_eq!((arrival.stdout, arrival.stderr), (Some(streams.stdout), Some(streams.stderr)));

        let (mut stdout, mut stderr) = (Outlet::new(Some(streams.stdout)), Outlet::new(Some(streams.stderr)));
        let wire = travel(ExecResult::encode(outcome.clone(), Delivery::AtEnd, &mut stdout, &mut stderr));
        let arrived = wire.decode(&mut carried(stdout), &mut carried(stderr)).expect("valid");
        prop_assert_eq!(&arrived, &outcome);

        let mut nowhere = Outlet::new(None);
        let mut elsewhere = Outlet::new(None);
        let wire = travel(ExecResult::encode(outcome.clone(), Delivery::Live, &mut nowhere, &mut elsewhere));
        let arrived = wire.decode(&mut Inlet::none(), &mut Inlet::none()).expect("valid");
        let bare = |output: Output| Output { head: Bytes::new(), tail: Bytes::new(), ..output };
        prop_assert_eq!(arrived.stdout, bare(outcome.stdout));
        prop_assert_eq!(arrived.stderr, bare(outcome.stderr));
    }

    #[test]
    fn spawn_and_its_handle(
        spawn in s::process::spawn_request(),
        pid in any::<u32>(),
        read in s::process::proc_read_request(),
        chunk in s::process::proc_chunk(),
        stdin in s::process::proc_stdin_request(),
        stop in s::process::proc_stop_request(),
        status in s::process::proc_status(),
    ) {
        let receipt = SpawnReceipt { id: spawn.id.clone(), pid };
        prop_assert_eq!(travel(SpawnParams::encode(&target(), &spawn)).decode().expect("valid"), spawn);
        prop_assert_eq!(travel(SpawnResult::from(receipt.clone())).decode().expect("valid"), receipt);

        let wire = travel(ProcReadParams::encode(&target(), &read, Some(STREAM)));
        prop_assert_eq!(wire.decode().expect("valid"), read);
        let mut outlet = Outlet::new(Some(STREAM));
        let wire = travel(ProcReadResult::encode(chunk.clone(), &mut outlet));
        prop_assert_eq!(wire.decode(&mut carried(outlet)).expect("valid"), chunk);

        let mut outlet = Outlet::new(Some(STREAM));
        let wire = travel(ProcStdinParams::encode(&target(), stdin.clone(), &mut outlet));
        prop_assert_eq!(wire.decode(&mut carried(outlet)).expect("valid"), stdin);
        let receipt = StdinReceipt { next: u64::from(pid), closed: true };
        prop_assert_eq!(StdinReceipt::from(travel(ProcStdinResult::from(receipt))), receipt);

        prop_assert_eq!(travel(ProcStopParams::encode(&target(), &stop)).decode().expect("valid"), stop);
        let receipt = StopReceipt { status };
        prop_assert_eq!(travel(ProcStopResult::encode(receipt.clone())).decode().expect("valid"), receipt);
    }

    #[test]
    fn trees(
        (manifest, base) in (s::place::manifest(), proptest::option::of(s::place::manifest())),
        (destination, removed) in (s::path(), proptest::collection::vec(s::path(), 0..3)),
        pull in s::place::pull_request(),
        count in s::integer(),
    ) {
        let push = PushRequest { destination, archive: nothing(), compression: Compression::Gzip, base, removed };
        let mut outlet = Outlet::new(Some(STREAM));
        let wire = travel(PushTreeParams::encode(&target(), &push, StreamId(9), Some(StreamId(8)), &mut outlet));
        prop_assert_eq!((wire.archive, wire.manifest), (StreamId(9), Some(StreamId(8))));
        let arrived = wire.decode(nothing(), &mut carried(outlet)).expect("valid");
        prop_assert_eq!(arrived.destination, push.destination);
        prop_assert_eq!(arrived.compression, push.compression);
        prop_assert_eq!(arrived.base, push.base);
        prop_assert_eq!(&arrived.removed, &push.removed);

        let receipt = PushReceipt { applied: count, removed: 1, bytes: 2, manifest: manifest.clone() };
        let mut outlet = Outlet::new(Some(STREAM));
        let wire = travel(PushTreeResult::encode(&receipt, &mut outlet));
        prop_assert_eq!(wire.decode(&mut carried(outlet)).expect("valid"), receipt);

        let mut outlet = Outlet::new(Some(STREAM));
        let wire = travel(PullTreeParams::encode(&target(), &pull, StreamId(9), None, &mut outlet));
        prop_assert_eq!(wire.decode(&mut carried(outlet)).expect("valid"), pull);
        let flaws = push.removed.iter().map(|path| Flaw { path: path.clone(), cause: FlawCause::Special });
        let receipt = PullReceipt { entries: count, flaws: flaws.collect(), removed: push.removed, manifest };
        let mut outlet = Outlet::new(Some(STREAM));
        let wire = travel(PullTreeResult::encode(&receipt, &mut outlet));
        prop_assert_eq!(wire.decode(&mut carried(outlet)).expect("valid"), receipt);
    }

    #[test]
    fn lifecycle(
        spec in s::place::spec(),
        probe in s::place::probe(),
        descriptor in s::place::descriptor(),
        state in s::place::state(),
        entries in s::place::entries(),
        template in s::place::template(),
        update in s::place::update(),
        key in s::text(),
    ) {
        let id = spec.id.clone();
        prop_assert_eq!(travel(ProbeParams::encode(&spec, None)).decode().expect("valid"), spec.clone());
        prop_assert_eq!(travel(AcquireParams::encode(&spec, None)).decode().expect("valid"), spec);
        prop_assert_eq!(travel(ProbeResult::encode(probe.clone())).decode(), probe);
        let wire = travel(SandboxResult::encode(descriptor.clone()));
        prop_assert_eq!(wire.decode(Verb::Acquire).expect("valid"), descriptor);
        prop_assert_eq!(travel(AttachParams::encode(&state, None)).decode().expect("valid"), state.clone());
        prop_assert_eq!(travel(CaptureStateResult::encode(&state)).decode().expect("valid"), state);
        prop_assert_eq!(travel(ListResult::encode(entries.clone())).decode().expect("valid"), entries);
        prop_assert_eq!(travel(PrepareParams::encode(&template, None)).decode(), template);
        let receipt = TemplateReceipt { key, reused: true };
        prop_assert_eq!(TemplateReceipt::from(travel(PrepareResult::from(receipt.clone()))), receipt);
        let wire = travel(UpdateParams::encode(&id, &update, None));
        prop_assert_eq!(wire.decode().expect("valid"), (id.clone(), update));
        for disposition in [Disposition::Keep, Disposition::Destroy] {
            let wire = travel(ReleaseParams::encode(&id, disposition, None));
            prop_assert_eq!(wire.decode().expect("valid"), (id.clone(), disposition));
            let receipt = ReleaseReceipt { existed: true, disposition };
            prop_assert_eq!(ReleaseReceipt::from(travel(ReleaseResult::from(receipt))), receipt);
        }
    }
}

#[test]
fn standard_input_goes_on_its_stream_if_it_is_one_or_is_long() {
    let streams = ExecStreams {
        stdin: StreamId(1),
        stdout: StreamId(2),
        stderr: StreamId(3),
    };
    let check = |stdin, expected| {
        let request =
            ExecRequest::new(sandbox_core::process::ProcessSpec::new(["cat"])).stdin(stdin);
        let wire = travel(ExecParams::encode(&target(), &request, streams));
        assert_eq!(wire.decode().expect("valid").stdin, expected);
    };
    check(Stdin::Stream(nothing()), Some((StreamId(1), None)));
    check(
        Stdin::Bytes(vec![0; 40_000].into()),
        Some((StreamId(1), Some(40_000))),
    );
    check(Stdin::Bytes(Bytes::from_static(b"x")), None);
    check(Stdin::Null, None);
}

fn nothing() -> ByteStream {
    struct Nothing;
    impl futures_core::Stream for Nothing {
        type Item = Result<Bytes>;

        fn poll_next(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Self::Item>> {
            std::task::Poll::Ready(None)
        }
    }
    Box::pin(Nothing)
}
