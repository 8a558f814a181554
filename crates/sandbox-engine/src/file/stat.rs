//! The verb `stat_many`.

use bytes::Bytes;
use rustix::fs::FileType;
use rustix::io::Errno;
use sandbox_core::file::{EntryKind, Stat, StatManyRequest, StatManyResult};
use sandbox_core::{Ctx, Result, SandboxPath, Verb};

use super::call::{self, Interrupt};
use super::{Files, changed, modified};
use crate::root::{Fault, Found, Last, Missing, Near, Outcome, read_link};

/// Most paths that are looked at where the call arrives, if they are in memory.
const INLINE_PATHS: usize = 16;

impl Files {
    /// See [`Sandbox::stat_many`](sandbox_core::Sandbox::stat_many).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn stat_many(&self, ctx: &Ctx, request: StatManyRequest) -> Result<StatManyResult> {
        call::check(ctx, Verb::StatMany)?;
        if request.paths.len() <= INLINE_PATHS
            && let Some(stats) = request
                .paths
                .iter()
                .map(|path| self.stat_inline(path))
                .collect()
        {
            return Ok(stats);
        }
        let files = self.clone();
        call::blocking(ctx, Verb::StatMany, Interrupt::Abandon, move |ctx| {
            let mut stats = Vec::with_capacity(request.paths.len());
            let mut near = Near::default();
            for path in &request.paths {
                call::check(&ctx, Verb::StatMany)?;
                stats.push(
                    files
                        .stat(path, &mut near)
                        .map_err(|fault| fault.on(Verb::StatMany, path)),
                );
            }
            Ok(stats)
        })
        .await
    }

    /// What needs no waiting; `None` if something would have to be waited for, or read.
    fn stat_inline(&self, path: &SandboxPath) -> Option<Result<Option<Stat>>> {
        match self.roots.stat_cached(path) {
            Ok(stat) if kind(&stat) == EntryKind::Link => None,
            Ok(stat) => Some(Ok(Some(describe(&stat, None)))),
            Err(Fault::Os(Errno::NOENT | Errno::NOTDIR)) => Some(Ok(None)),
            Err(_) => None,
        }
    }

    fn stat(&self, path: &SandboxPath, near: &mut Near) -> Outcome<Option<Stat>> {
        match self.roots.stat_near(path, near) {
            Some(Ok(stat)) if kind(&stat) != EntryKind::Link => {
                return Ok(Some(describe(&stat, None)));
            }
            Some(Err(Errno::NOENT)) => return Ok(None),
            // Everything else is judged on the way that knows all roots.
            _ => {}
        }
        let found = match self.roots.find(path, Last::Keep, Missing::Fail) {
            Err(Fault::Os(Errno::NOENT | Errno::NOTDIR)) => return Ok(None),
            found => found?,
        };
        let entry = match found {
            Found::Entry(entry) => entry,
            Found::Directory { root, dir } => {
                let stat = match dir {
                    Some(dir) => rustix::fs::fstat(&dir)?,
                    None => rustix::fs::fstat(root.fd())?,
                };
                return Ok(Some(describe(&stat, None)));
            }
        };
        let Some(stat) = entry.stat()? else {
            return Ok(None);
        };
        let text = match kind(&stat) {
            EntryKind::Link => read_link(&entry)?.map(Bytes::from),
            _ => None,
        };
        Ok(Some(describe(&stat, text)))
    }
}

/// What kind of entry something is.
pub(crate) fn kind(stat: &rustix::fs::Stat) -> EntryKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Special,
    }
}

/// What the system says of an entry, as the port says it.
pub(crate) fn describe(stat: &rustix::fs::Stat, target: Option<Bytes>) -> Stat {
    #[expect(
        clippy::useless_conversion,
        reason = "the types differ between architectures"
    )]
    Stat {
        kind: kind(stat),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        modified: modified(stat),
        changed: changed(stat),
        inode: stat.st_ino.into(),
        links: stat.st_nlink.into(),
        target,
    }
}
