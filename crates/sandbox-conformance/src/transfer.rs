//! Checks of the verbs that move trees.
//!
//! Archives are made by hand here and read with a library that no provider shares with us, so that a mistake
//! of our own packer and reader cannot agree with itself. Each check works in a directory of its own name.

pub(crate) mod archive;
pub(crate) mod delta;
pub(crate) mod pull;
pub(crate) mod push;
pub(crate) mod refusal;

use bytes::Bytes;
use futures_util::stream;
use sandbox_core::transfer::{Compression, Manifest, PushReceipt, PushRequest};
use sandbox_core::{ByteStream, Error};

use crate::harness::Place;
use crate::support::path;

/// The whole of an archive in pieces, as a connection would bring it.
pub(crate) fn pieces(archive: &[u8]) -> ByteStream {
    let pieces: Vec<_> = archive
        .chunks(1000)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    Box::pin(stream::iter(pieces))
}

impl Place {
    /// Pushes `archive`.
    pub(crate) async fn push(
        &self,
        destination: &str,
        archive: &[u8],
        base: Option<Manifest>,
        removed: &[&str],
    ) -> Result<PushReceipt, Error> {
        let request = PushRequest {
            destination: path(destination),
            archive: pieces(archive),
            compression: Compression::None,
            base,
            removed: removed.iter().map(path).collect(),
        };
        self.sandbox.push_tree(&self.ctx(), request).await
    }
}
