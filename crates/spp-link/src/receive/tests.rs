//! Credit, ends and faults of received streams, without a wire.

use futures_util::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::io::AsyncReadExt;

use super::*;
use crate::lane::{LaneWriter, lanes};

const WINDOW: Window = Window {
    stream: 10_000,
    connection: 20_000,
};
/// Half a stream's window, as cost.
const HALF: usize = 5_000 - 512;

fn receivers() -> (Receivers, Lanes, LaneWriter) {
    let (lanes, writer) = lanes(1 << 20);
    (Receivers::new(lanes.clone(), WINDOW), lanes, writer)
}

fn bytes(length: usize) -> Bytes {
    vec![b'x'; length].into()
}

/// Method, stream and bytes of everything that was told to the sender.
async fn told(lanes: &Lanes, writer: LaneWriter) -> Vec<(String, u64, u64)> {
    let (mut near, far) = tokio::io::duplex(1 << 20);
    lanes.close();
    writer.run(far).await.expect("the pipe holds everything");
    let mut text = String::new();
    near.read_to_string(&mut text).await.expect("UTF-8");
    text.lines()
        .map(|line| {
            let message: Value = serde_json::from_str(line).expect("JSON");
            let number = |name: &str| message["params"][name].as_u64().unwrap_or(0);
            let method = message["method"].as_str().expect("a method").to_owned();
            (method, number("stream"), number("bytes"))
        })
        .collect()
}

fn credit(stream: u64, bytes: u64) -> (String, u64, u64) {
    ("stream/credit".into(), stream, bytes)
}

#[tokio::test]
async fn credit_is_given_back_once_half_a_window_was_taken() {
    let (receivers, lanes, writer) = receivers();
    let mut receiver = receivers.open(1, Verb::Exec).expect("a new id");
    receivers.data(1, 0, 0, bytes(HALF - 1)).expect("covered");
    assert_eq!(
        receiver.next().await.expect("data").expect("data").len(),
        HALF - 1
    );
    receivers
        .data(1, 1, HALF as u64 - 1, bytes(10))
        .expect("covered");
    receiver.next().await.expect("data").expect("data");
    receivers.end(1, Some(HALF as u64 + 9), Ok(()));
    assert!(receiver.next().await.is_none());
    drop(receiver);
    let all = HALF as u64 + 9 + 2 * 512;
    assert_eq!(told(&lanes, writer).await, [credit(1, all)]);
}

#[tokio::test]
async fn credit_parked_in_many_streams_starves_none() {
    let (receivers, lanes, writer) = receivers();
    let mut readers: Vec<_> = (0..5)
        .map(|id| receivers.open(id, Verb::Exec).expect("a new id"))
        .collect();
    // Each takes less than half a window, so none would give credit back by itself.
    for (id, reader) in (0..).zip(&mut readers) {
        receivers.data(id, 0, 0, bytes(3_000)).expect("covered");
        reader.next().await.expect("data").expect("data");
    }
    let given: u64 = told(&lanes, writer).await.iter().map(|told| told.2).sum();
    assert!(given >= 3 * 3_512, "{given} came back");
}

#[tokio::test]
async fn what_arrives_for_a_dropped_reader_is_discarded_and_its_credit_given_back() {
    let (receivers, lanes, writer) = receivers();
    let receiver = receivers.open(1, Verb::Exec).expect("a new id");
    receivers.data(1, 0, 0, bytes(1_000)).expect("covered");
    drop(receiver);
    for seq in 1..100 {
        receivers
            .data(1, seq, seq * 1_000, bytes(1_000))
            .expect("credit comes back");
    }
    let told = told(&lanes, writer).await;
    assert_eq!(told[0], ("stream/stop".into(), 1, 0));
    assert_eq!(told[1], credit(1, 1_512));
    let given: u64 = told.iter().map(|told| told.2).sum();
    assert!(given > 90 * 1_512, "{given} came back");
}

#[tokio::test]
async fn an_end_returns_what_was_outstanding_and_keeps_what_was_not_read() {
    let (receivers, _lanes, _writer) = receivers();
    let mut first = receivers.open(1, Verb::Exec).expect("a new id");
    let _second = receivers.open(2, Verb::Exec).expect("a new id");
    receivers.data(1, 0, 0, bytes(9_000)).expect("covered");
    receivers.data(2, 0, 0, bytes(9_000)).expect("covered");
    let _third = receivers.open(3, Verb::Exec).expect("a new id");
    assert_eq!(
        receivers.data(3, 0, 0, bytes(5_000)),
        Err(Refused::Overrun),
        "the connection's window is used up"
    );
    assert_eq!(receivers.end(1, Some(9_000), Ok(())), Some(9_000));
    assert_eq!(receivers.end(1, None, Ok(())), None);
    assert_eq!(receivers.data(1, 1, 9_000, bytes(1)), Err(Refused::Unknown));
    let _fourth = receivers.open(4, Verb::Exec).expect("a new id");
    receivers
        .data(4, 0, 0, bytes(5_000))
        .expect("there is room again");
    assert_eq!(
        first.next().await.expect("data").expect("data").len(),
        9_000
    );
    assert!(first.next().await.is_none());
}

#[tokio::test]
async fn a_reader_that_waits_is_woken_by_data_by_an_end_and_by_the_end_of_all() {
    let (receivers, _lanes, _writer) = receivers();
    let mut receiver = receivers.open(1, Verb::Exec).expect("a new id");
    assert!(receiver.next().now_or_never().is_none());
    let reading = tokio::spawn(async move {
        let first = receiver.next().await.expect("data");
        let second = receiver.next().await.expect("an error");
        (first, second, receiver.next().await)
    });
    tokio::task::yield_now().await;
    receivers.data(1, 0, 0, bytes(3)).expect("covered");
    tokio::task::yield_now().await;
    receivers.close(&Fault {
        kind: ErrorKind::Disconnected,
        detail: "gone".into(),
    });
    let (first, second, third) = reading.await.expect("no panic");
    assert_eq!(first.expect("data").len(), 3);
    let error = second.expect_err("the connection is gone");
    assert_eq!(
        (error.kind(), error.verb()),
        (ErrorKind::Disconnected, Verb::Exec)
    );
    assert!(third.is_none(), "an error is the last item");
    let mut late = receivers.open(2, Verb::Exec).expect("a new id");
    late.next()
        .await
        .expect("an error")
        .expect_err("the connection is gone");
}
