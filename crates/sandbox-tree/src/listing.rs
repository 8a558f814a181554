//! Every entry of a scope by name, in path order: what an archive is made of.
//!
//! A tree of which a part was not listed must not pass for the whole one, since whoever packs it would lose
//! the rest without a word. So a walk that ended early is an error here, and so is a name that the port cannot
//! say; a directory that nobody could look into is named.
//!
//! Not here: packing ([`pack`](crate::pack)).

use std::ops::ControlFlow;

use sandbox_core::search::Scope;
use sandbox_core::{Ctx, Error, ErrorKind, Result, SandboxPath, Verb};

use crate::errno::os_error;
use crate::unpack::is_staging;
use crate::walk::{End, Entry, Place, Visitor, Walk};

/// The entries of a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Paths from the scope's root, in path order. Trees that are being put in place are no part of it.
    pub paths: Vec<SandboxPath>,
    /// The first directory that could not be looked into.
    pub unreadable: Option<SandboxPath>,
}

/// Lists what `scope` holds at `place`, on behalf of `verb`.
///
/// # Errors
///
/// All of them without effect.
///
/// | kind | when |
/// | --- | --- |
/// | `InvalidArgument` | a glob of the scope is none, or an entry's path is longer than the port allows |
/// | `Cancelled`, `DeadlineExceeded` | the call ended before the walk did |
/// | what the system says | the scope's root cannot be read |
pub fn list(verb: Verb, ctx: &Ctx, scope: &Scope, place: &Place<'_>) -> Result<Listing> {
    let refuse = |kind| Error::refused(verb, kind).on(&scope.root);
    let walk =
        Walk::new(scope).map_err(|error| refuse(ErrorKind::InvalidArgument).detail(error))?;
    let (noted, summary) = walk
        .run(ctx, place, Notes::default)
        .map_err(|errno| os_error(verb, errno).on(&scope.root))?;
    match summary.end {
        End::Cancelled => return Err(refuse(ErrorKind::Cancelled)),
        End::Late => {
            let late = refuse(ErrorKind::DeadlineExceeded);
            return Err(late.detail("the tree was not listed in time; allow more, or take less"));
        }
        End::Complete | End::Stopped => {}
    }
    let mut paths = Vec::new();
    for notes in noted {
        if let Some(long) = notes.too_long {
            return Err(refuse(ErrorKind::InvalidArgument).detail(format_args!(
                "an entry in it has a path of {long} bytes, which is too long; begin further inside"
            )));
        }
        paths.extend(notes.paths);
    }
    paths.sort_unstable();
    let unreadable = match &summary.unreadable.first {
        None => None,
        Some((path, _)) if path.is_empty() => Some(SandboxPath::root()),
        Some((path, _)) => Some(
            SandboxPath::parse(path)
                .map_err(|error| refuse(ErrorKind::InvalidArgument).detail(error))?,
        ),
    };
    Ok(Listing { paths, unreadable })
}

#[derive(Default)]
struct Notes {
    paths: Vec<SandboxPath>,
    too_long: Option<usize>,
}

impl Visitor for Notes {
    fn visit(&mut self, entry: &Entry<'_>) -> ControlFlow<()> {
        let path = entry.path();
        if path.split(|&byte| byte == b'/').any(is_staging) {
            return ControlFlow::Continue(());
        }
        match SandboxPath::parse(path) {
            Ok(path) => self.paths.push(path),
            Err(_) => self.too_long = Some(path.len()),
        }
        ControlFlow::Continue(())
    }
}
