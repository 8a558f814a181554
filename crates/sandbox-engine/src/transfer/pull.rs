//! The verb `pull_tree`.
//!
//! All scopes are walked first and their entries sorted, so that equal trees give equal archives. Memory grows
//! with the number of entries, which the manifest has to hold anyway, and not with their size.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::write::GzEncoder;
use sandbox_core::search::Scope;
use sandbox_core::transfer::{Compression, Manifest, Pull, PullReceipt, PullRequest};
use sandbox_core::{Ctx, Error, ErrorKind, Result, SandboxPath, Verb};
use sandbox_tree::listing::list;
use sandbox_tree::pack::{Packed, Packer, Tree, gone};
use sandbox_tree::walk::Place;

use super::bridge::sink;
use super::{Trees, Wanted};
use crate::file::call::{self, Interrupt};

const VERB: Verb = Verb::PullTree;

impl Trees {
    /// See [`Sandbox::pull_tree`](sandbox_core::Sandbox::pull_tree).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn pull_tree(&self, ctx: &Ctx, request: PullRequest) -> Result<Pull> {
        call::check(ctx, VERB)?;
        let trees = self.clone();
        let (wanted, waiting) = Wanted::new(VERB, ctx);
        let (sink, archive, end) = sink(wanted.clone());
        let own = ctx.clone();
        let work = tokio::spawn(async move {
            call::blocking(&own, VERB, Interrupt::Await, move |ctx| {
                let packed = trees.pull_now(&ctx, &wanted, &request, sink);
                packed.inspect_err(|error| end.fail(error))
            })
            .await
        });
        let receipt = async move {
            let _waiting = waiting;
            work.await.unwrap_or_else(|error| {
                Err(Error::refused(VERB, ErrorKind::Internal)
                    .detail("the work on it broke off; please report this as a defect")
                    .caused_by(error))
            })
        };
        Ok(Pull {
            archive,
            receipt: Box::pin(receipt),
        })
    }

    fn pull_now(
        &self,
        ctx: &Ctx,
        wanted: &Wanted,
        request: &PullRequest,
        sink: impl Write,
    ) -> Result<PullReceipt> {
        let top = common_directory(&request.scopes)?;
        let mut trees = Vec::new();
        // In path order; what two scopes share is there once.
        let mut names: BTreeMap<SandboxPath, (usize, SandboxPath)> = BTreeMap::new();
        let mut unreadable = Vec::new();
        for scope in &request.scopes {
            let prefix = beneath(&scope.root, &top)?;
            let (tree, entries, blind) = self.walk(ctx, scope, prefix.clone())?;
            for path in entries {
                let name = joined(&prefix, &path)?;
                names.entry(name).or_insert((trees.len(), path));
            }
            unreadable.extend(blind);
            trees.push(tree);
        }
        wanted.check()?;
        let base = request.base.as_ref();
        let packed = match request.compression {
            Compression::None => {
                let packer = Packer::new(VERB, sink, base);
                let (packed, mut sink) = pack(packer, &mut trees, &names, &unreadable, wanted)?;
                finished(sink.flush())?;
                packed
            }
            Compression::Gzip => {
                let encoder = GzEncoder::new(sink, flate2::Compression::fast());
                let packer = Packer::new(VERB, encoder, base);
                let (packed, encoder) = pack(packer, &mut trees, &names, &unreadable, wanted)?;
                finished(encoder.finish().and_then(|mut sink| sink.flush()))?;
                packed
            }
        };
        let Packed {
            entries,
            manifest,
            flaws,
            ..
        } = packed;
        Ok(PullReceipt {
            entries,
            removed: base.map_or_else(Vec::new, |base: &Manifest| gone(base, &manifest)),
            flaws,
            manifest,
        })
    }

    /// What a scope holds, and a directory of it that nobody could look into.
    fn walk(
        &self,
        ctx: &Ctx,
        scope: &Scope,
        prefix: SandboxPath,
    ) -> Result<(Tree, Vec<SandboxPath>, Option<SandboxPath>)> {
        let origin = self.roots.origin(&scope.root);
        let origin = origin.map_err(|fault| fault.on(VERB, &scope.root))?;
        let place = Place::new(&origin.root).below(&origin.below);
        let listed = list(VERB, ctx, scope, &place)?;
        let blind = match &listed.unreadable {
            Some(path) => Some(joined(&prefix, path)?),
            None => None,
        };
        Ok((Tree::new(origin.dir, prefix), listed.paths, blind))
    }
}

fn pack<'a, W: Write>(
    mut packer: Packer<'a, W>,
    trees: &mut [Tree],
    names: &BTreeMap<SandboxPath, (usize, SandboxPath)>,
    unreadable: &[SandboxPath],
    wanted: &Wanted,
) -> Result<(Packed, W)> {
    for (tree, path) in names.values() {
        wanted.check()?;
        packer.entry(&mut trees[*tree], path, &mut || wanted.check())?;
    }
    for path in unreadable {
        packer.unreadable(path);
    }
    packer.finish()
}

fn finished(result: std::io::Result<()>) -> Result<()> {
    result.map_err(|error| match error.downcast::<Error>() {
        Ok(error) => error,
        Err(error) => Error::refused(VERB, ErrorKind::Io)
            .detail("the archive could not be written")
            .caused_by(error),
    })
}

/// The deepest directory that all scopes start at or in.
fn common_directory(scopes: &[Scope]) -> Result<SandboxPath> {
    let refuse =
        |detail: &str| Err(Error::refused(VERB, ErrorKind::InvalidArgument).detail(detail));
    let Some((first, others)) = scopes.split_first() else {
        return refuse("a pull needs a scope");
    };
    let mut top = first.root.clone();
    for scope in others {
        if scope.root.is_absolute() != top.is_absolute() {
            return refuse(
                "the scopes of one pull all start at the workspace root, or all at `/`; pull them one by one",
            );
        }
        while rest(&scope.root, &top).is_none() {
            match top.parent() {
                Some(parent) => top = parent,
                None => break,
            }
        }
    }
    Ok(top)
}

/// What is left of `path` in `top`.
fn rest<'a>(path: &'a SandboxPath, top: &SandboxPath) -> Option<&'a [u8]> {
    let rest = path.as_bytes().strip_prefix(top.as_bytes())?;
    match rest.first() {
        None => Some(rest),
        Some(b'/') => Some(&rest[1..]),
        Some(_) => matches!(top.as_bytes(), b"" | b"/").then_some(rest),
    }
}

fn beneath(path: &SandboxPath, top: &SandboxPath) -> Result<SandboxPath> {
    parsed(rest(path, top).unwrap_or_default())
}

fn joined(prefix: &SandboxPath, path: &SandboxPath) -> Result<SandboxPath> {
    if path.is_root() {
        return Ok(prefix.clone());
    }
    prefix
        .join(path.as_bytes())
        .map_err(|error| too_long(path, error))
}

fn parsed(path: &[u8]) -> Result<SandboxPath> {
    if path.is_empty() {
        return Ok(SandboxPath::root());
    }
    SandboxPath::parse(path).map_err(|error| too_long(&SandboxPath::root(), error))
}

fn too_long(path: &SandboxPath, error: sandbox_core::PathError) -> Error {
    Error::refused(VERB, ErrorKind::InvalidArgument)
        .on(path)
        .detail(error)
}
