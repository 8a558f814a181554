//! `write`: changes and their receipts.

use sandbox_core::file as core;
use sandbox_core::{Result, Verb};

use super::value::{Inlet, Outlet, digest, encode_item, encode_path, item, path};
use super::{Invalid, Mirror, Target, Within, each, mirror};
use crate::message::file as wire;
use crate::message::value::Octets;

mirror! {
    wire::Durability = core::Durability { Cached, Durable }
    wire::Existing = core::Existing { Keep, Replace }
    wire::Occurrences = core::Occurrences { One, All }
}

impl wire::WriteParams {
    /// The wire form; contents that do not fit the line go to `outlet`.
    #[must_use]
    pub fn encode(target: &Target, request: core::WriteRequest, outlet: &mut Outlet) -> Self {
        let encode = |change| encode_change(change, outlet);
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            changes: request.changes.into_iter().map(encode).collect(),
            durability: request.durability.into(),
            meta: target.meta.clone(),
        }
    }

    /// The request. What is wrong with one change fails all: nothing was done then.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self, inlet: &mut Inlet) -> Result<core::WriteRequest> {
        let request = || {
            Ok(core::WriteRequest {
                changes: each(self.changes, "changes", |change| {
                    decode_change(change, inlet)
                })?,
                durability: self.durability.decode().within("durability")?,
            })
        };
        request()
            .and_then(|request| inlet.finish().map(|()| request))
            .map_err(|invalid: Invalid| invalid.refuse(Verb::Write))
    }
}

fn encode_change(change: core::Change, outlet: &mut Outlet) -> wire::Change {
    match change {
        core::Change::Put {
            path,
            content,
            mode,
            precondition,
        } => wire::Change::Put(wire::Put {
            path: encode_path(&path),
            content: outlet.field(content),
            mode,
            precondition: encode_precondition(precondition),
        }),
        core::Change::Edit {
            path,
            replacements,
            precondition,
        } => wire::Change::Edit(wire::Edit {
            path: encode_path(&path),
            replacements: replacements
                .into_iter()
                .map(|replacement| wire::Replacement {
                    find: outlet.field(replacement.find),
                    replace: outlet.field(replacement.replace),
                    occurrences: replacement.occurrences.into(),
                })
                .collect(),
            precondition: encode_precondition(precondition),
        }),
        core::Change::MakeDirectory { path, mode } => {
            wire::Change::MakeDirectory(wire::MakeDirectory {
                path: encode_path(&path),
                mode,
            })
        }
        core::Change::Rename { from, to, existing } => wire::Change::Rename(wire::Rename {
            from: encode_path(&from),
            to: encode_path(&to),
            existing: existing.into(),
        }),
        core::Change::SetMode { path, mode } => wire::Change::SetMode(wire::SetMode {
            path: encode_path(&path),
            mode,
        }),
        core::Change::Link { path, target } => wire::Change::Link(wire::Link {
            path: encode_path(&path),
            target: Octets(target.into()),
        }),
    }
}

fn encode_precondition(precondition: core::Precondition) -> wire::Precondition {
    match precondition {
        core::Precondition::None => wire::Precondition::None,
        core::Precondition::Absent => wire::Precondition::Absent,
        core::Precondition::Digest(digest) => wire::Precondition::Digest(digest.to_string()),
    }
}

fn decode_change(change: wire::Change, inlet: &mut Inlet) -> Result<core::Change, Invalid> {
    Ok(match change {
        wire::Change::Put(put) => core::Change::Put {
            path: path(put.path).within("put.path")?,
            content: inlet.take(put.content).within("put.content")?,
            mode: put.mode,
            precondition: decode_precondition(put.precondition).within("put.precondition")?,
        },
        wire::Change::Edit(edit) => core::Change::Edit {
            path: path(edit.path).within("edit.path")?,
            replacements: each(edit.replacements, "replacements", |replacement| {
                Ok(core::Replacement {
                    find: inlet.take(replacement.find).within("find")?,
                    replace: inlet.take(replacement.replace).within("replace")?,
                    occurrences: replacement.occurrences.decode().within("occurrences")?,
                })
            })
            .within("edit")?,
            precondition: decode_precondition(edit.precondition).within("edit.precondition")?,
        },
        wire::Change::MakeDirectory(make) => core::Change::MakeDirectory {
            path: path(make.path).within("make_directory.path")?,
            mode: make.mode,
        },
        wire::Change::Rename(rename) => core::Change::Rename {
            from: path(rename.from).within("rename.from")?,
            to: path(rename.to).within("rename.to")?,
            existing: rename.existing.decode().within("rename.existing")?,
        },
        wire::Change::SetMode(set) => core::Change::SetMode {
            path: path(set.path).within("set_mode.path")?,
            mode: set.mode,
        },
        wire::Change::Link(link) => core::Change::Link {
            path: path(link.path).within("link.path")?,
            target: link.target.0.into(),
        },
        wire::Change::Unknown(name) => {
            return Err(Invalid::new(format_args!("`{name}` is not known here")));
        }
    })
}

fn decode_precondition(precondition: wire::Precondition) -> Result<core::Precondition, Invalid> {
    Ok(match precondition {
        wire::Precondition::None => core::Precondition::None,
        wire::Precondition::Absent => core::Precondition::Absent,
        wire::Precondition::Digest(text) => {
            core::Precondition::Digest(digest(&text).within("digest")?)
        }
        wire::Precondition::Unknown(name) => {
            return Err(Invalid::new(format_args!("`{name}` is not known here")));
        }
    })
}

impl wire::WriteResult {
    /// The wire form.
    #[must_use]
    pub fn encode(items: core::WriteResult) -> Self {
        let encode = |item| {
            encode_item(item, |receipt: core::WriteReceipt| wire::WriteReceipt {
                existed: receipt.existed,
                bytes: receipt.bytes,
                line_delta: receipt.line_delta,
                digest: receipt.digest.map(|digest| digest.to_string()),
                replaced: receipt.replaced,
            })
        };
        Self {
            items: items.into_iter().map(encode).collect(),
        }
    }

    /// The receipts.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self) -> Result<core::WriteResult> {
        each(self.items, "items", |it| {
            item(Verb::Write, it, |receipt: wire::WriteReceipt| {
                Ok(core::WriteReceipt {
                    existed: receipt.existed,
                    bytes: receipt.bytes,
                    line_delta: receipt.line_delta,
                    digest: receipt
                        .digest
                        .as_deref()
                        .map(digest)
                        .transpose()
                        .within("digest")?,
                    replaced: receipt.replaced,
                })
            })
        })
        .map_err(|invalid| invalid.broken(Verb::Write))
    }
}
