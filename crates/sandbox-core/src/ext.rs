//! Sugar over single verbs.
//!
//! **Invariant:** no method here calls more than one verb. What needs two is the caller's to
//! write, where the two round trips can be seen.

use async_trait::async_trait;
use bytes::Bytes;

use crate::file::{Change, FileContent, ReadRequest, WriteReceipt, WriteRequest};
use crate::process::{ExecRequest, Outcome, ProcessSpec};
use crate::{Ctx, Error, ErrorKind, Result, Sandbox, SandboxPath, Verb};

/// Shorthands, available on every [`Sandbox`].
#[async_trait]
pub trait SandboxExt: Sandbox {
    /// Runs `process` to its end and returns the outcome. One `exec`.
    ///
    /// # Errors
    ///
    /// As [`Sandbox::exec`].
    async fn run(&self, ctx: &Ctx, process: ProcessSpec) -> Result<Outcome> {
        self.exec(ctx, ExecRequest::new(process))
            .await?
            .outcome
            .await
    }

    /// Runs a command line with the place's shell: not a login shell, so that no profile changes
    /// `PATH` or prints. One `exec`.
    ///
    /// # Errors
    ///
    /// As [`Sandbox::exec`]; `Unsupported` if the place has no shell.
    async fn shell(&self, ctx: &Ctx, line: &str) -> Result<Outcome> {
        let descriptor = self.descriptor();
        let Some(shell) = &descriptor.shell else {
            return Err(Error::refused(Verb::Exec, ErrorKind::Unsupported)
                .detail("there is no shell in this place; pass the program and its arguments"));
        };
        self.run(
            ctx,
            ProcessSpec::new([shell.as_bytes(), b"-c", line.as_bytes()]),
        )
        .await
    }

    /// Reads a whole file. One `read`.
    ///
    /// # Errors
    ///
    /// As [`Sandbox::read`].
    async fn read_file(&self, ctx: &Ctx, path: SandboxPath) -> Result<FileContent> {
        self.read(ctx, ReadRequest::new(path)).await
    }

    /// Gives a file this content. One `write`.
    ///
    /// # Errors
    ///
    /// As [`Sandbox::write`] and its items.
    async fn put(&self, ctx: &Ctx, path: SandboxPath, content: Bytes) -> Result<WriteReceipt> {
        self.change(ctx, Change::put(path, content)).await
    }

    /// Replaces a text that occurs once. One `write`.
    ///
    /// # Errors
    ///
    /// As [`Sandbox::write`] and its items.
    async fn edit(
        &self,
        ctx: &Ctx,
        path: SandboxPath,
        find: Bytes,
        replace: Bytes,
    ) -> Result<WriteReceipt> {
        self.change(ctx, Change::edit(path, find, replace)).await
    }

    /// Makes one change. One `write`.
    ///
    /// # Errors
    ///
    /// As [`Sandbox::write`] and its items.
    async fn change(&self, ctx: &Ctx, change: Change) -> Result<WriteReceipt> {
        let mut receipts = self.write(ctx, WriteRequest::new([change])).await?;
        match (receipts.pop(), receipts.is_empty()) {
            (Some(receipt), true) => receipt,
            _ => Err(Error::new(Verb::Write, ErrorKind::Protocol)
                .detail("one change was sent, and not one receipt came back")),
        }
    }
}

impl<S: Sandbox + ?Sized> SandboxExt for S {}
