//! The verbs that go on after they have returned: `exec` and `pull_tree`; and `push_tree`, which
//! sends while it waits.
//!
//! A task of its own drives each run, so that cancellation, deadlines and standard input work while
//! the caller looks at nothing but the output. Dropping the outcome ends the task, and with it
//! the run.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::join;
use sandbox_core::output::OutputKeeper;
use sandbox_core::process::{Delivery, ExecRequest, Execution, Outcome, Output, Stdin};
use sandbox_core::transfer::{Pull, PullReceipt, PullRequest, PushReceipt, PushRequest};
use sandbox_core::{ByteStream, Ctx, Error, ErrorKind, ProcId, Result, Verb};
use spp_link::{Keeping, Kept, Receiver, Taken};
use spp_protocol::convert::{ExecStreams, Inlet, Outlet};
use spp_protocol::message::process::ExecParams;
use spp_protocol::message::tree::{PullTreeParams, PushTreeParams};
use spp_protocol::message::value::{MAX_INLINE_BYTES, StreamId};
use tokio::task::JoinHandle;

use crate::call::{Plan, judged};
use crate::fit;
use crate::pending::random_id;
use crate::sandbox::{
    MAX_MANIFEST_BYTES, RemoteSandbox, Sending, beside, chunks, content, id_drawn_twice,
};

/// Runs a command.
pub(crate) fn exec(
    sandbox: &RemoteSandbox,
    ctx: &Ctx,
    mut request: ExecRequest,
) -> Result<Execution> {
    let id = match &request.id {
        Some(id) => id.clone(),
        None => ProcId::new(format!("x{:x}", random_id()))
            .map_err(|error| Error::refused(Verb::Exec, ErrorKind::Internal).detail(error))?,
    };
    request.id = Some(id.clone());
    let stdout = Side::open(sandbox, &request)?;
    let stderr = Side::open(sandbox, &request)?;
    let streams = ExecStreams {
        stdin: StreamId(random_id()),
        stdout: stdout.stream,
        stderr: stderr.stream,
    };
    let (stdout, live_stdout) = stdout.split();
    let (stderr, live_stderr) = stderr.split();
    let run = Run {
        sandbox: sandbox.clone(),
        ctx: ctx.clone(),
        id: id.clone(),
        streams,
        stdout,
        stderr,
    };
    Ok(Execution {
        id,
        stdout: live_stdout,
        stderr: live_stderr,
        outcome: Box::pin(Driven::new(Verb::Exec, run.drive(request))),
    })
}

/// One output of a run.
struct Side {
    stream: StreamId,
    receiver: Receiver,
    kept: Option<Kept>,
    max: u64,
}

/// What the driving task has of an output.
enum Source {
    /// It comes with the outcome, at most this many bytes.
    AtEnd(Receiver, u64),
    /// The caller reads it; head and tail are kept in passing.
    Live(Kept),
}

impl Side {
    fn open(sandbox: &RemoteSandbox, request: &ExecRequest) -> Result<Self> {
        let receivers = &sandbox.connection.shared.receivers;
        let id = random_id();
        let policy = &request.process.output;
        let (receiver, kept) = match request.delivery {
            Delivery::AtEnd => (receivers.open(id, Verb::Exec), None),
            Delivery::Live => {
                let kept = Keeping::new(OutputKeeper::new(policy));
                let receiver = receivers.open_kept(id, Verb::Exec, Arc::clone(&kept));
                (receiver, Some(kept))
            }
        };
        Ok(Self {
            stream: StreamId(id),
            receiver: receiver.map_err(|_| id_drawn_twice(Verb::Exec))?,
            kept,
            max: policy.head.saturating_add(policy.tail),
        })
    }

    /// What the driving task gets, and what the caller gets.
    fn split(self) -> (Source, ByteStream) {
        match self.kept {
            None => (
                Source::AtEnd(self.receiver, self.max),
                Box::pin(futures_util::stream::empty()),
            ),
            Some(kept) => (Source::Live(kept), Box::pin(self.receiver)),
        }
    }
}

impl Source {
    /// What travelled beside the answer.
    async fn collected(self) -> Result<(Bytes, Option<Kept>)> {
        match self {
            Self::AtEnd(receiver, max) => Ok((content(receiver, max).await?, None)),
            Self::Live(kept) => Ok((Bytes::new(), Some(kept))),
        }
    }
}

struct Run {
    sandbox: RemoteSandbox,
    ctx: Ctx,
    id: ProcId,
    streams: ExecStreams,
    stdout: Source,
    stderr: Source,
}

impl Run {
    async fn drive(self, mut request: ExecRequest) -> Result<Outcome> {
        let Self {
            sandbox,
            ctx,
            id,
            streams,
            stdout,
            stderr,
        } = self;
        let policy = request.process.output;
        let plan = Plan::new(Verb::Exec)
            .with_stream(streams.stdout.0)
            .with_stream(streams.stderr.0)
            .with_grace(request.process.grace);
        let taken = Arc::clone(&plan.taken);
        let _ends = Ends::new(&sandbox, &taken, [streams.stdout, streams.stderr]);
        let mut params = ExecParams::encode(&sandbox.target(), &request, streams);
        let stdin = match std::mem::replace(&mut request.stdin, Stdin::Null) {
            Stdin::Null => None,
            Stdin::Bytes(bytes) if bytes.len() <= MAX_INLINE_BYTES => None,
            Stdin::Bytes(bytes) => Some(chunks(vec![bytes])),
            Stdin::Stream(stream) => Some(stream),
        };
        let both = Sending::new(&ctx);
        let calling = if stdin.is_some() { &both.ctx } else { &ctx };
        let answer = sandbox.call(calling, plan, move |target| {
            params.meta.clone_from(&target.meta);
            params
        });
        let answer = async {
            match stdin {
                None => answer.await,
                Some(stdin) => {
                    let sending = sandbox.send(Verb::Exec, streams.stdin, stdin, &taken);
                    both.beside(Verb::Exec, answer, sending).await
                }
            }
        };
        let outputs = async {
            let (stdout, stderr) = join!(stdout.collected(), stderr.collected());
            Ok((stdout?, stderr?))
        };
        let (answer, ((stdout, kept_stdout), (stderr, kept_stderr))) =
            beside(answer, outputs).await?;
        let mut outcome = answer.decode(
            &mut Inlet::new(streams.stdout, stdout),
            &mut Inlet::new(streams.stderr, stderr),
        )?;
        if outcome.id != id {
            return Err(Error::new(Verb::Exec, ErrorKind::Protocol)
                .on(&id)
                .detail(format_args!("the provider answered for `{}`", outcome.id)));
        }
        rebuild(&mut outcome.stdout, kept_stdout)?;
        rebuild(&mut outcome.stderr, kept_stderr)?;
        fit::outcome(&policy, outcome)
    }
}

/// Puts head and tail that passed by into the output of a live run.
///
/// If the caller dropped its stream, or it failed, what came after did not come here: the outcome
/// then has the head alone, and counts the rest as dropped. A stream that ended in order and is
/// short has lost something, which nobody else would notice.
fn rebuild(output: &mut Output, kept: Option<Kept>) -> Result<()> {
    let Some(kept) = kept else {
        return Ok(());
    };
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let Keeping { keeper, is_cut } = &mut *kept;
    let empty = OutputKeeper::new(&sandbox_core::process::OutputPolicy::default());
    let passed = std::mem::replace(keeper, empty).finish();
    if passed.total > output.total || (passed.total < output.total && !*is_cut) {
        return Err(
            Error::new(Verb::Exec, ErrorKind::Protocol).detail(format_args!(
                "{} bytes of output came, and the process wrote {}",
                passed.total, output.total
            )),
        );
    }
    output.head = passed.head;
    output.tail = if passed.total == output.total {
        passed.tail
    } else {
        Bytes::new()
    };
    output.dropped = output.total - (output.head.len() + output.tail.len()) as u64;
    Ok(())
}

/// Sends a tree.
pub(crate) async fn push_tree(
    sandbox: &RemoteSandbox,
    ctx: &Ctx,
    request: PushRequest,
) -> Result<PushReceipt> {
    let manifest = sandbox.receive(Verb::PushTree)?;
    let manifest_id = StreamId(manifest.id());
    let (archive, base) = (StreamId(random_id()), StreamId(random_id()));
    let mut outlet = Outlet::new(Some(base));
    let mut params = PushTreeParams::encode(
        &sandbox.target(),
        &request,
        archive,
        Some(manifest_id),
        &mut outlet,
    );
    let plan = Plan::new(Verb::PushTree).with_stream(manifest_id.0);
    let taken = Arc::clone(&plan.taken);
    let both = Sending::new(ctx);
    let answer = sandbox.call(&both.ctx, plan, move |target| {
        params.meta.clone_from(&target.meta);
        params
    });
    let sending = async {
        if let Some((base, pieces)) = outlet.into_stream() {
            sandbox
                .send(Verb::PushTree, base, chunks(pieces), &taken)
                .await?;
        }
        sandbox
            .send(Verb::PushTree, archive, request.archive, &taken)
            .await
    };
    let (answer, manifest) = beside(
        both.beside(Verb::PushTree, answer, sending),
        content(manifest, MAX_MANIFEST_BYTES),
    )
    .await?;
    answer.decode(&mut Inlet::new(manifest_id, manifest))
}

/// Fetches trees.
pub(crate) fn pull_tree(sandbox: &RemoteSandbox, ctx: &Ctx, request: PullRequest) -> Result<Pull> {
    let archive = sandbox.receive(Verb::PullTree)?;
    let manifest = sandbox.receive(Verb::PullTree)?;
    let receipt = drive_pull(
        sandbox.clone(),
        ctx.clone(),
        request,
        StreamId(archive.id()),
        manifest,
    );
    Ok(Pull {
        archive: Box::pin(archive),
        receipt: Box::pin(Driven::new(Verb::PullTree, receipt)),
    })
}

async fn drive_pull(
    sandbox: RemoteSandbox,
    ctx: Ctx,
    request: PullRequest,
    archive: StreamId,
    manifest: Receiver,
) -> Result<PullReceipt> {
    let manifest_id = StreamId(manifest.id());
    let base = StreamId(random_id());
    let mut outlet = Outlet::new(Some(base));
    let mut params = PullTreeParams::encode(
        &sandbox.target(),
        &request,
        archive,
        Some(manifest_id),
        &mut outlet,
    );
    let plan = Plan::new(Verb::PullTree)
        .with_stream(archive.0)
        .with_stream(manifest_id.0);
    let taken = Arc::clone(&plan.taken);
    let _ends = Ends::new(&sandbox, &taken, [archive]);
    let base_pieces = outlet.into_stream();
    let both = Sending::new(&ctx);
    let calling = if base_pieces.is_some() {
        &both.ctx
    } else {
        &ctx
    };
    let answer = sandbox.call(calling, plan, move |target| {
        params.meta.clone_from(&target.meta);
        params
    });
    let answer = async {
        match base_pieces {
            None => answer.await,
            Some((base, pieces)) => {
                let sending = sandbox.send(Verb::PullTree, base, chunks(pieces), &taken);
                both.beside(Verb::PullTree, answer, sending).await
            }
        }
    };
    let received = async {
        let (answer, manifest) = beside(answer, content(manifest, MAX_MANIFEST_BYTES)).await?;
        answer.decode(&mut Inlet::new(manifest_id, manifest))
    };
    judged(Verb::PullTree, received.await)
}

/// Ends streams of a request that was never sent. Of one that was, the answer ends them.
struct Ends<'a, const N: usize> {
    sandbox: &'a RemoteSandbox,
    taken: &'a Taken,
    streams: [StreamId; N],
}

impl<'a, const N: usize> Ends<'a, N> {
    fn new(sandbox: &'a RemoteSandbox, taken: &'a Taken, streams: [StreamId; N]) -> Self {
        Self {
            sandbox,
            taken,
            streams,
        }
    }
}

impl<const N: usize> Drop for Ends<'_, N> {
    fn drop(&mut self) {
        if !self.taken.is_set() {
            for stream in self.streams {
                let receivers = &self.sandbox.connection.shared.receivers;
                receivers.end(stream.0, None, Ok(()));
            }
        }
    }
}

/// The result of a task that ends when nobody waits for it any more.
struct Driven<T> {
    verb: Verb,
    task: JoinHandle<Result<T>>,
}

impl<T: Send + 'static> Driven<T> {
    fn new(verb: Verb, work: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self {
            verb,
            task: tokio::spawn(work),
        }
    }
}

impl<T> Future for Driven<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        Pin::new(&mut self.task).poll(context).map(|ended| {
            ended.unwrap_or_else(|error| {
                Err(Error::new(self.verb, ErrorKind::Internal)
                    .detail("the task that drove it was ended")
                    .caused_by(error))
            })
        })
    }
}

impl<T> Drop for Driven<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
