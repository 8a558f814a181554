//! The verb `push_tree`.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use sandbox_core::transfer::{PushReceipt, PushRequest};
use sandbox_core::{Ctx, Error, ErrorKind, Result, Verb};
use sandbox_tree::reader::{Limits, Reader};
use sandbox_tree::unpack::Receiver;
use sandbox_tree::unpack::place::{self, Delta};

use super::bridge::source;
use super::{Trees, Wanted};
use crate::file::call::{self, Interrupt};
use crate::root::Destination;

const VERB: Verb = Verb::PushTree;

impl Trees {
    /// See [`Sandbox::push_tree`](sandbox_core::Sandbox::push_tree).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn push_tree(&self, ctx: &Ctx, request: PushRequest) -> Result<PushReceipt> {
        let trees = self.clone();
        let (wanted, _waiting) = Wanted::new(VERB, ctx);
        let PushRequest {
            destination,
            archive,
            compression,
            base,
            removed,
        } = request;
        let source = source(archive, wanted.clone());
        // What is done is said even if it is cancelled: nothing, or all of it.
        call::blocking(ctx, VERB, Interrupt::Await, move |_| {
            if base.is_none() && !removed.is_empty() {
                return Err(Error::refused(VERB, ErrorKind::InvalidArgument)
                    .on(&destination)
                    .detail("removals need a base that says what is removed"));
            }
            let found = trees.roots.destination(&destination);
            let found = found.map_err(|fault| fault.on(VERB, &destination))?;
            let mut reader = Reader::open(source, compression, Limits::default());
            let mut go_on = || wanted.check();
            let delta = base.as_ref().map(|base| Delta {
                base,
                removed: &removed,
            });
            let placed = match found {
                Destination::There(dir) => place::merge(
                    VERB,
                    dir.as_fd(),
                    delta,
                    Receiver::Sandbox,
                    &mut reader,
                    &mut go_on,
                ),
                Destination::New { .. } if base.as_ref().is_some_and(|base| !base.entries.is_empty()) => {
                    Err(Error::refused(VERB, ErrorKind::Conflict).detail(
                        "the base has entries and the destination is missing; push the whole tree, without a base",
                    ))
                }
                Destination::New { parent, names } => {
                    let names: Vec<&OsStr> = names.iter().map(AsRef::as_ref).collect();
                    place::create(VERB, parent, &names, Receiver::Sandbox, &mut reader, &mut go_on)
                }
            };
            let placed = placed.map_err(|error| {
                if error.subject().is_empty() {
                    error.on(&destination)
                } else {
                    error
                }
            })?;
            Ok(PushReceipt {
                applied: placed.unpacked.entries.len() as u64,
                removed: placed.removed,
                bytes: placed.unpacked.bytes,
                manifest: placed.manifest,
            })
        })
        .await
    }
}
