//! Every message type: JSON to wire type to JSON, and requests to the port and back.

use sandbox_core::{Effect, Error, Generation, Result, SandboxId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use spp_protocol::codec::{self, Envelope};
use spp_protocol::convert::Target;
use spp_protocol::error::ErrorObject;
use spp_protocol::message::handshake::*;
use spp_protocol::message::lifecycle::*;
use spp_protocol::message::process::*;
use spp_protocol::message::search::*;
use spp_protocol::message::stream::*;
use spp_protocol::message::tree::*;
use spp_protocol::message::{Notification, Request, file::*};

/// Reads each line as a message of its method, and as a result of each method there is.
pub fn messages(data: &[u8]) {
    for line in data.split(|byte| *byte == b'\n') {
        if let Ok(envelope) = Envelope::parse(line) {
            match (envelope.method.as_deref(), envelope.params) {
                (Some(method), params) => {
                    sent(method, params.map(serde_json::value::RawValue::get));
                }
                (None, _) => answered(line),
            }
        }
    }
}

/// A result and an error do not say what they answer: each type may read them.
fn answered(line: &[u8]) {
    #[derive(serde::Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        result: Option<&'a serde_json::value::RawValue>,
        #[serde(borrow)]
        error: Option<&'a serde_json::value::RawValue>,
    }
    let Ok(answer) = serde_json::from_slice::<Answer<'_>>(line) else {
        return;
    };
    if let Some(error) = answer.error {
        stable::<ErrorObject>(error.get());
    }
    if let Some(result) = answer.result {
        for read in RESULTS {
            read(result.get());
        }
    }
}

/// Reads a value as `T`. What was read is written as text that reads as the same, and is written the same again.
fn stable<T: Serialize + DeserializeOwned>(text: &str) -> Option<T> {
    let value: T = serde_json::from_str(text).ok()?;
    let once = serde_json::to_string(&value).expect("what was read can be written");
    assert!(!once.contains('\n'), "a message is one line: {once}");
    let again: T = serde_json::from_str(&once).unwrap_or_else(|error| panic!("{error}: {once}"));
    let twice = serde_json::to_string(&again).expect("what was read can be written");
    assert_eq!(once, twice, "of {text}");
    Some(value)
}

fn result<T: Request>(text: &str) {
    stable::<T::Result>(text);
    refusal(&codec::result::<T>(text).map(drop));
}

/// A refusal of something malformed has a text, and a request's has no effect.
fn refusal<T>(result: &Result<T>) -> Option<&Error> {
    let error = result.as_ref().err()?;
    assert!(!error.to_string().is_empty());
    Some(error)
}

fn refused_without_effect<T>(result: Result<T>) -> Option<T> {
    if let Some(error) = refusal(&result) {
        assert_eq!(error.effect(), Effect::None, "{error}");
    }
    result.ok()
}

fn notification<T: Notification>(params: &str) {
    stable::<T>(params);
}

/// A request that the port can say is said on the wire in a form that means the same.
macro_rules! mirrored {
    ($params:expr, $wire:ty, $encode:expr) => {{
        stable::<$wire>($params.unwrap_or("{}"));
        if let Some(wire) = refused_without_effect(codec::params::<$wire>($params))
            && let Some(request) = refused_without_effect(wire.decode())
        {
            let encode: fn(&_) -> $wire = $encode;
            let text =
                serde_json::to_string(&encode(&request)).expect("what was read can be written");
            let again: $wire = serde_json::from_str(&text).expect("our own JSON");
            assert_eq!(again.decode().expect("our own request"), request, "{text}");
        }
    }};
}

fn target() -> Target {
    Target {
        sandbox: SandboxId::new("box").expect("an id"),
        generation: Generation(3),
        meta: None,
    }
}

fn sent(method: &str, params: Option<&str>) {
    let text = params.unwrap_or("{}");
    match method {
        InitializeParams::METHOD => request::<InitializeParams>(params),
        PingParams::METHOD => request::<PingParams>(params),
        ShutdownParams::METHOD => request::<ShutdownParams>(params),
        ProbeParams::METHOD => {
            mirrored!(params, ProbeParams, |spec| ProbeParams::encode(spec, None));
        }
        AcquireParams::METHOD => {
            mirrored!(params, AcquireParams, |spec| AcquireParams::encode(
                spec, None
            ));
        }
        AttachParams::METHOD => {
            mirrored!(params, AttachParams, |state| AttachParams::encode(
                state, None
            ));
        }
        ReleaseParams::METHOD => {
            request::<ReleaseParams>(params);
            if let Some(wire) = stable::<ReleaseParams>(text) {
                refused_without_effect(wire.decode());
            }
        }
        ListParams::METHOD => request::<ListParams>(params),
        PrepareParams::METHOD => request::<PrepareParams>(params),
        UpdateParams::METHOD => {
            request::<UpdateParams>(params);
            if let Some(wire) = stable::<UpdateParams>(text) {
                refused_without_effect(wire.decode());
            }
        }
        CaptureStateParams::METHOD => request::<CaptureStateParams>(params),
        ReadParams::METHOD => {
            mirrored!(params, ReadParams, |it| ReadParams::encode(
                &target(),
                it,
                None
            ));
        }
        ReadManyParams::METHOD => {
            mirrored!(params, ReadManyParams, |it| ReadManyParams::encode(
                &target(),
                it,
                None
            ));
        }
        WriteParams::METHOD => request::<WriteParams>(params),
        RemoveParams::METHOD => {
            mirrored!(params, RemoveParams, |it| RemoveParams::encode(
                &target(),
                it
            ));
        }
        StatManyParams::METHOD => {
            mirrored!(params, StatManyParams, |it| StatManyParams::encode(
                &target(),
                it
            ));
        }
        GlobParams::METHOD => mirrored!(params, GlobParams, |it| GlobParams::encode(&target(), it)),
        GrepParams::METHOD => mirrored!(params, GrepParams, |it| GrepParams::encode(&target(), it)),
        FingerprintParams::METHOD => {
            mirrored!(params, FingerprintParams, |it| FingerprintParams::encode(
                &target(),
                it
            ));
        }
        ExecParams::METHOD => {
            request::<ExecParams>(params);
            if let Some(wire) = stable::<ExecParams>(text) {
                refused_without_effect(wire.decode().map(drop));
            }
        }
        SpawnParams::METHOD => {
            mirrored!(params, SpawnParams, |it| SpawnParams::encode(&target(), it));
        }
        ProcReadParams::METHOD => request::<ProcReadParams>(params),
        ProcStdinParams::METHOD => request::<ProcStdinParams>(params),
        ProcStopParams::METHOD => {
            mirrored!(params, ProcStopParams, |it| ProcStopParams::encode(
                &target(),
                it
            ));
        }
        PushTreeParams::METHOD => request::<PushTreeParams>(params),
        PullTreeParams::METHOD => request::<PullTreeParams>(params),
        Cancel::METHOD => notification::<Cancel>(text),
        Progress::METHOD => notification::<Progress>(text),
        SandboxClosed::METHOD => notification::<SandboxClosed>(text),
        StreamEnd::METHOD => notification::<StreamEnd>(text),
        StreamCredit::METHOD => notification::<StreamCredit>(text),
        StreamStop::METHOD => notification::<StreamStop>(text),
        // `stream/data` is `line_codec`'s.
        _ => {}
    }
}

fn request<T: Request>(params: Option<&str>) {
    stable::<T>(params.unwrap_or("{}"));
    refused_without_effect(codec::params::<T>(params));
}

const RESULTS: [fn(&str); 26] = [
    result::<InitializeParams>,
    result::<PingParams>,
    result::<ShutdownParams>,
    result::<ProbeParams>,
    result::<AcquireParams>,
    result::<AttachParams>,
    result::<ReleaseParams>,
    result::<ListParams>,
    result::<PrepareParams>,
    result::<UpdateParams>,
    result::<CaptureStateParams>,
    result::<ReadParams>,
    result::<ReadManyParams>,
    result::<WriteParams>,
    result::<RemoveParams>,
    result::<StatManyParams>,
    result::<GlobParams>,
    result::<GrepParams>,
    result::<FingerprintParams>,
    result::<ExecParams>,
    result::<SpawnParams>,
    result::<ProcReadParams>,
    result::<ProcStdinParams>,
    result::<ProcStopParams>,
    result::<PushTreeParams>,
    result::<PullTreeParams>,
];
