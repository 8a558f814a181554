//! The verbs that move trees.

use bytes::Bytes;
use sandbox_core::file::EntryKind;
use sandbox_core::transfer as core;
use sandbox_core::{ByteStream, Result, Verb};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::value::{Inlet, Outlet, digest, encode_path, mode, path};
use super::{Invalid, Mirror, Target, Within, each, mirror};
use crate::message::search::Scope;
use crate::message::tree as wire;
use crate::message::value::{ByteField, StreamId};

mirror! {
    wire::Compression = core::Compression { None, Gzip }
    wire::FlawCause = core::FlawCause { Changed, Special, Unreadable }
}

impl wire::PushTreeParams {
    /// The wire form; the caller sends `request.archive` on stream `archive`. A base that does not
    /// fit the line goes to `outlet`, a resulting manifest comes on stream `manifest`.
    #[must_use]
    pub fn encode(
        target: &Target,
        request: &core::PushRequest,
        archive: StreamId,
        manifest: Option<StreamId>,
        outlet: &mut Outlet,
    ) -> Self {
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            destination: encode_path(&request.destination),
            archive,
            compression: request.compression.into(),
            base: request
                .base
                .as_ref()
                .map(|base| encode_manifest(base, outlet)),
            removed: encode_list(&request.removed, encode_path, outlet),
            manifest,
            meta: target.meta.clone(),
        }
    }

    /// The request; `archive` is what comes on its stream.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self, archive: ByteStream, inlet: &mut Inlet) -> Result<core::PushRequest> {
        let request = || {
            let base = self.base.map(|base| decode_manifest(base, inlet));
            let base = base.transpose().within("base")?;
            let removed = decode_list(self.removed, inlet, path).within("removed")?;
            inlet.finish()?;
            Ok(core::PushRequest {
                destination: path(self.destination).within("destination")?,
                archive,
                compression: self.compression.decode().within("compression")?,
                base,
                removed,
            })
        };
        request().map_err(|invalid: Invalid| invalid.refuse(Verb::PushTree))
    }
}

impl wire::PushTreeResult {
    /// The wire form.
    #[must_use]
    pub fn encode(receipt: &core::PushReceipt, outlet: &mut Outlet) -> Self {
        Self {
            applied: receipt.applied,
            removed: receipt.removed,
            bytes: receipt.bytes,
            manifest: encode_manifest(&receipt.manifest, outlet),
        }
    }

    /// The receipt.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self, inlet: &mut Inlet) -> Result<core::PushReceipt> {
        let manifest = decode_manifest(self.manifest, inlet)
            .and_then(|manifest| inlet.finish().map(|()| manifest))
            .within("manifest");
        Ok(core::PushReceipt {
            applied: self.applied,
            removed: self.removed,
            bytes: self.bytes,
            manifest: manifest.map_err(|invalid| invalid.broken(Verb::PushTree))?,
        })
    }
}

impl wire::PullTreeParams {
    /// The wire form; the archive comes on stream `archive`. A base that does not fit the line goes
    /// to `outlet`, a resulting manifest comes on stream `manifest`.
    #[must_use]
    pub fn encode(
        target: &Target,
        request: &core::PullRequest,
        archive: StreamId,
        manifest: Option<StreamId>,
        outlet: &mut Outlet,
    ) -> Self {
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            scopes: request.scopes.iter().map(Scope::encode).collect(),
            compression: request.compression.into(),
            base: request
                .base
                .as_ref()
                .map(|base| encode_manifest(base, outlet)),
            archive,
            manifest,
            meta: target.meta.clone(),
        }
    }

    /// The request.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self, inlet: &mut Inlet) -> Result<core::PullRequest> {
        let request = || {
            let base = self.base.map(|base| decode_manifest(base, inlet));
            let base = base.transpose().within("base")?;
            inlet.finish()?;
            Ok(core::PullRequest {
                scopes: each(self.scopes, "scopes", Scope::decode)?,
                compression: self.compression.decode().within("compression")?,
                base,
            })
        };
        request().map_err(|invalid: Invalid| invalid.refuse(Verb::PullTree))
    }
}

impl wire::PullTreeResult {
    /// The wire form.
    #[must_use]
    pub fn encode(receipt: &core::PullReceipt, outlet: &mut Outlet) -> Self {
        Self {
            entries: receipt.entries,
            removed: encode_list(&receipt.removed, encode_path, outlet),
            flaws: encode_list(&receipt.flaws, encode_flaw, outlet),
            manifest: encode_manifest(&receipt.manifest, outlet),
        }
    }

    /// The receipt.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self, inlet: &mut Inlet) -> Result<core::PullReceipt> {
        let receipt = || {
            let removed = decode_list(self.removed, inlet, path).within("removed")?;
            let flaws = decode_list(self.flaws, inlet, decode_flaw).within("flaws")?;
            let manifest = decode_manifest(self.manifest, inlet).within("manifest")?;
            inlet.finish()?;
            Ok(core::PullReceipt {
                entries: self.entries,
                removed,
                flaws,
                manifest,
            })
        };
        receipt().map_err(|invalid: Invalid| invalid.broken(Verb::PullTree))
    }
}

fn encode_flaw(flaw: &core::Flaw) -> wire::Flaw {
    wire::Flaw {
        path: encode_path(&flaw.path),
        cause: flaw.cause.into(),
    }
}

fn decode_flaw(flaw: wire::Flaw) -> Result<core::Flaw, Invalid> {
    Ok(core::Flaw {
        path: path(flaw.path).within("path")?,
        // One that this version does not know is at least not what was there.
        cause: flaw.cause.decode_or(core::FlawCause::Changed),
    })
}

fn encode_manifest(manifest: &core::Manifest, outlet: &mut Outlet) -> ByteField {
    outlet.field(lines(&manifest.entries, |entry| wire::ManifestEntry {
        path: encode_path(&entry.path),
        kind: entry.kind.into(),
        mode: entry.mode,
        size: entry.size,
        digest: entry.digest.map(|digest| digest.to_string()),
    }))
}

fn decode_manifest(field: ByteField, inlet: &mut Inlet) -> Result<core::Manifest, Invalid> {
    let entries = decode_lines(&inlet.take(field)?, |entry: wire::ManifestEntry| {
        Ok(core::ManifestEntry {
            path: path(entry.path).within("path")?,
            kind: entry.kind.decode_or(EntryKind::Special),
            mode: mode(entry.mode).within("mode")?,
            size: entry.size,
            digest: entry
                .digest
                .as_deref()
                .map(digest)
                .transpose()
                .within("digest")?,
        })
    })?;
    Ok(core::Manifest { entries })
}

/// A list that may be empty, and then is left out.
fn encode_list<T, W: Serialize>(
    items: &[T],
    encode: impl Fn(&T) -> W,
    outlet: &mut Outlet,
) -> Option<ByteField> {
    (!items.is_empty()).then(|| outlet.field(lines(items, encode)))
}

fn decode_list<T, W: DeserializeOwned>(
    field: Option<ByteField>,
    inlet: &mut Inlet,
    decode: impl Fn(W) -> Result<T, Invalid>,
) -> Result<Vec<T>, Invalid> {
    match field {
        None => Ok(Vec::new()),
        Some(field) => decode_lines(&inlet.take(field)?, decode),
    }
}

/// One value as JSON a line.
fn lines<T, W: Serialize>(items: &[T], encode: impl Fn(&T) -> W) -> Bytes {
    let mut lines = Vec::with_capacity(128 * items.len());
    for item in items {
        serde_json::to_writer(&mut lines, &encode(item))
            .expect("our own messages have string keys, and memory does not fail");
        lines.push(b'\n');
    }
    lines.into()
}

fn decode_lines<T, W: DeserializeOwned>(
    bytes: &[u8],
    decode: impl Fn(W) -> Result<T, Invalid>,
) -> Result<Vec<T>, Invalid> {
    let lines: Vec<&[u8]> = bytes
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .collect();
    each(lines, "", |line| {
        decode(serde_json::from_slice(line).map_err(Invalid::new)?)
    })
}
