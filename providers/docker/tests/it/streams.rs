//! Streams are whole, through whatever carries them: a program that ends, a daemon that closes a pipe early and a client that
//! is slow were each seen to lose the end of what others sent.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use sandbox_core::process::{Delivery, ExecRequest, ProcessSpec, Stdin};
use sandbox_core::{Ctx, Sandbox};

use super::support::{IMAGE, Scratch, end};

/// Bytes in a piece that is sent.
const PIECE: usize = 50_000;

/// Bytes that are no text and nowhere the same, and the digest of those that were taken.
fn content(
    size: usize,
) -> (
    impl Iterator<Item = Bytes> + Send,
    Arc<Mutex<blake3::Hasher>>,
) {
    let digest = Arc::new(Mutex::new(blake3::Hasher::new()));
    let (mut state, mut left, taken) = (0x9e37_79b9_7f4a_7c15_u64, size, Arc::clone(&digest));
    let pieces = std::iter::from_fn(move || {
        let length = left.min(PIECE);
        if length == 0 {
            return None;
        }
        left -= length;
        let mut piece = Vec::with_capacity(length + 8);
        while piece.len() < length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            piece.extend_from_slice(&state.to_le_bytes());
        }
        piece.truncate(length);
        taken.lock().expect("nobody panics").update(&piece);
        Some(Bytes::from(piece))
    });
    (pieces, digest)
}

/// Sends so many bytes to a command that keeps them and sends them back.
async fn is_whole(sandbox: &dyn Sandbox, scratch: &Scratch, size: usize) {
    let (pieces, sent) = content(size);
    let mut request = ExecRequest::new(ProcessSpec::new(["tee", "kept"])).delivery(Delivery::Live);
    request.stdin = Stdin::Stream(Box::pin(stream::iter(pieces.map(Ok))));
    let execution = sandbox.exec(&Ctx::new(), request).await.expect("it starts");
    let (mut stdout, outcome) = (execution.stdout, execution.outcome);
    let read = async {
        let (mut digest, mut count) = (blake3::Hasher::new(), 0);
        while let Some(piece) = stdout.next().await {
            let piece = piece.expect("it comes");
            digest.update(&piece);
            count += piece.len();
        }
        (digest.finalize(), count)
    };
    let ((came_back, count), outcome) = futures_util::join!(read, outcome);
    let outcome = outcome.expect("it ends");
    let sent = sent.lock().expect("nobody panics").finalize();
    assert_eq!(count, size);
    assert_eq!(came_back, sent, "{size} bytes came back as others");
    assert_eq!(outcome.stdout.total, size as u64);
    let kept = std::fs::read(scratch.workspace().join("kept")).expect("it is there");
    assert_eq!(blake3::hash(&kept), sent, "{size} bytes arrived as others");
}

async fn are_whole(channel: &str, powers: std::ops::RangeInclusive<u32>) {
    let scratch = Scratch::new();
    let options = format!("{}channel = '{channel}'\n", Scratch::options(IMAGE));
    let host = scratch.host(&options);
    let opened = scratch.open(&host).await;
    for power in powers {
        for size in [(1 << power) - 1, 1 << power, (1 << power) + 1] {
            is_whole(&*opened.sandbox, &scratch, size).await;
        }
    }
    end(opened, &host).await;
}

#[tokio::test]
async fn what_goes_through_a_socket_arrives_whole_both_ways() {
    are_whole("socket", 20..=22).await;
}

#[tokio::test]
async fn what_goes_through_a_client_arrives_whole_both_ways() {
    are_whole("attached", 20..=22).await;
}

mod real_work {
    use super::are_whole;

    #[tokio::test]
    #[ignore = "two gigabytes each way"]
    async fn hundreds_of_megabytes_arrive_whole_both_ways() {
        for channel in ["socket", "attached"] {
            are_whole(channel, 23..=27).await;
        }
    }
}
