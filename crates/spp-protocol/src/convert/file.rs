//! `read`, `read_many`, `remove`, `stat_many`. `write` is in `write`.

use sandbox_core::file as core;
use sandbox_core::{Result, Verb};

use super::value::{
    Inlet, Outlet, digest, encode_item, encode_path, encode_time, item, mode, path, time,
};
use super::{Invalid, Mirror, Target, Within, each, integer, mirror};
use crate::message::file as wire;
use crate::message::value::{Octets, StreamId};

mirror! {
    wire::Encoding = core::Encoding { Utf8, Utf16Le, Utf16Be, Binary }
    wire::Newline = core::Newline { None, Lf, CrLf, Mixed }
    wire::Recursion = core::Recursion { No, Yes }
    wire::EntryKind = core::EntryKind { File, Directory, Link, Special }
}

impl wire::ReadParams {
    /// The wire form; a content that does not fit the line comes on stream `content`.
    #[must_use]
    pub fn encode(target: &Target, request: &core::ReadRequest, content: Option<StreamId>) -> Self {
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            path: encode_path(&request.path),
            range: match request.range {
                core::Range::All => wire::Range::All,
                core::Range::Bytes { offset, length } => wire::Range::Bytes(wire::ByteRange {
                    offset: integer(offset),
                    length: integer(length),
                }),
                core::Range::Lines { first, count } => wire::Range::Lines(wire::LineRange {
                    first: integer(first),
                    count: integer(count),
                }),
            },
            max: integer(request.max),
            content,
            meta: target.meta.clone(),
        }
    }

    /// The request.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<core::ReadRequest> {
        let request = || {
            Ok(core::ReadRequest {
                path: path(self.path).within("path")?,
                range: match self.range {
                    wire::Range::All => core::Range::All,
                    wire::Range::Bytes(range) => core::Range::Bytes {
                        offset: range.offset,
                        length: range.length,
                    },
                    wire::Range::Lines(range) if range.first == 0 => {
                        return Err(Invalid::new("lines are counted from 1"))
                            .within("range.lines.first");
                    }
                    wire::Range::Lines(range) => core::Range::Lines {
                        first: range.first,
                        count: range.count,
                    },
                    wire::Range::Unknown(name) => {
                        return Err(Invalid::new(format_args!("`{name}` is not known here")))
                            .within("range");
                    }
                },
                max: self.max.min(core::MAX_FILE_BYTES),
            })
        };
        request().map_err(|invalid: Invalid| invalid.refuse(Verb::Read))
    }
}

impl wire::FileContent {
    /// The wire form.
    #[must_use]
    pub fn encode(content: core::FileContent, outlet: &mut Outlet) -> Self {
        Self {
            content: outlet.field(content.bytes),
            offset: content.offset,
            total_bytes: content.total_bytes,
            total_lines: content.total_lines,
            digest: content.digest.map(|digest| digest.to_string()),
            mode: content.mode,
            modified: content.modified.map(encode_time),
            text: wire::TextFacts {
                encoding: content.text.encoding.into(),
                bom: content.text.bom,
                newline: content.text.newline.into(),
            },
        }
    }

    /// The content.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self, inlet: &mut Inlet) -> Result<core::FileContent> {
        self.content(inlet)
            .and_then(|content| inlet.finish().map(|()| content))
            .map_err(|invalid| invalid.broken(Verb::Read))
    }

    fn content(self, inlet: &mut Inlet) -> Result<core::FileContent, Invalid> {
        Ok(core::FileContent {
            bytes: inlet.take(self.content).within("content")?,
            offset: self.offset,
            total_bytes: self.total_bytes,
            total_lines: self.total_lines,
            digest: self
                .digest
                .as_deref()
                .map(digest)
                .transpose()
                .within("digest")?,
            mode: mode(self.mode).within("mode")?,
            modified: self.modified.map(time).transpose().within("modified")?,
            text: core::TextFacts {
                encoding: self.text.encoding.decode_or(core::Encoding::Binary),
                bom: self.text.bom,
                newline: self.text.newline.decode_or(core::Newline::Mixed),
            },
        })
    }
}

impl wire::ReadManyParams {
    /// The wire form; contents that do not fit the line come on stream `content`.
    #[must_use]
    pub fn encode(
        target: &Target,
        request: &core::ReadManyRequest,
        content: Option<StreamId>,
    ) -> Self {
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            paths: request.paths.iter().map(encode_path).collect(),
            total_max: integer(request.total_max),
            content,
            meta: target.meta.clone(),
        }
    }

    /// The request.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<core::ReadManyRequest> {
        Ok(core::ReadManyRequest {
            paths: each(self.paths, "paths", path)
                .map_err(|invalid| invalid.refuse(Verb::ReadMany))?,
            total_max: self.total_max.min(core::MAX_FILE_BYTES),
        })
    }
}

impl wire::ReadManyResult {
    /// The wire form.
    #[must_use]
    pub fn encode(items: core::ReadManyResult, outlet: &mut Outlet) -> Self {
        let encode = |item| encode_item(item, |content| wire::FileContent::encode(content, outlet));
        Self {
            items: items.into_iter().map(encode).collect(),
        }
    }

    /// The contents.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self, inlet: &mut Inlet) -> Result<core::ReadManyResult> {
        each(self.items, "items", |it| {
            item(Verb::ReadMany, it, |content| content.content(inlet))
        })
        .and_then(|items| inlet.finish().map(|()| items))
        .map_err(|invalid| invalid.broken(Verb::ReadMany))
    }
}

impl wire::RemoveParams {
    /// The wire form.
    #[must_use]
    pub fn encode(target: &Target, request: &core::RemoveRequest) -> Self {
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            path: encode_path(&request.path),
            recursion: request.recursion.into(),
            meta: target.meta.clone(),
        }
    }

    /// The request.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<core::RemoveRequest> {
        let request = || {
            Ok(core::RemoveRequest {
                path: path(self.path).within("path")?,
                recursion: self.recursion.decode().within("recursion")?,
            })
        };
        request().map_err(|invalid: Invalid| invalid.refuse(Verb::Remove))
    }
}

impl From<core::RemoveReceipt> for wire::RemoveResult {
    fn from(receipt: core::RemoveReceipt) -> Self {
        Self {
            existed: receipt.existed,
            entries: receipt.entries,
        }
    }
}

impl From<wire::RemoveResult> for core::RemoveReceipt {
    fn from(result: wire::RemoveResult) -> Self {
        Self {
            existed: result.existed,
            entries: result.entries,
        }
    }
}

impl wire::StatManyParams {
    /// The wire form.
    #[must_use]
    pub fn encode(target: &Target, request: &core::StatManyRequest) -> Self {
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            paths: request.paths.iter().map(encode_path).collect(),
            meta: target.meta.clone(),
        }
    }

    /// The request.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<core::StatManyRequest> {
        let paths =
            each(self.paths, "paths", path).map_err(|invalid| invalid.refuse(Verb::StatMany))?;
        Ok(core::StatManyRequest { paths })
    }
}

impl wire::StatManyResult {
    /// The wire form.
    #[must_use]
    pub fn encode(items: core::StatManyResult) -> Self {
        let encode = |item| encode_item(item, |stat: Option<core::Stat>| stat.map(encode_stat));
        Self {
            items: items.into_iter().map(encode).collect(),
        }
    }

    /// The entries.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self) -> Result<core::StatManyResult> {
        each(self.items, "items", |it| {
            item(Verb::StatMany, it, |stat| stat.map(decode_stat).transpose())
        })
        .map_err(|invalid| invalid.broken(Verb::StatMany))
    }
}

pub(crate) fn encode_stat(stat: core::Stat) -> wire::Stat {
    wire::Stat {
        kind: stat.kind.into(),
        size: stat.size,
        mode: stat.mode,
        modified: stat.modified.map(encode_time),
        changed: stat.changed.map(encode_time),
        inode: stat.inode.to_string(),
        links: stat.links,
        target: stat.target.map(|target| Octets(target.into())),
    }
}

pub(crate) fn decode_stat(stat: wire::Stat) -> Result<core::Stat, Invalid> {
    Ok(core::Stat {
        kind: stat.kind.decode_or(core::EntryKind::Special),
        size: stat.size,
        mode: mode(stat.mode).within("mode")?,
        modified: stat.modified.map(time).transpose().within("modified")?,
        changed: stat.changed.map(time).transpose().within("changed")?,
        inode: stat.inode.parse().map_err(Invalid::new).within("inode")?,
        links: stat.links,
        target: stat.target.map(|target| target.0.into()),
    })
}
