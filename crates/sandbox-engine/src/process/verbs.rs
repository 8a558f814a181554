//! Reading, writing to and stopping what runs.

use std::time::Duration;

use sandbox_core::process::{
    DRAIN, MAX_PROC_READ_BYTES, ProcChunk, ProcReadRequest, ProcStatus, ProcStdinRequest,
    ProcStopRequest, StdinReceipt, Stop, StopReceipt,
};
use sandbox_core::{Ctx, Error, ErrorKind, ProcId, Result, Verb};
use tokio::time::Instant;

use super::Processes;
use super::input::past;
use super::oversee::Order;

impl Processes {
    /// Reads output by offset. See [`Sandbox::proc_read`](sandbox_core::Sandbox::proc_read).
    ///
    /// # Errors
    ///
    /// As the port says.
    pub async fn proc_read(&self, ctx: &Ctx, request: ProcReadRequest) -> Result<ProcChunk> {
        let verb = Verb::ProcRead;
        let process = self.table.get(verb, &request.id)?.process;
        let log = process.log(request.stream);
        log.release(request.from);
        let mut until = Instant::now().checked_add(request.wait);
        let mut ended = matches!(process.status(), ProcStatus::Ended(_));
        loop {
            // Asked for before looking, so that what happens in between is not missed.
            let changed = log.changed();
            if log.has_news(request.from) {
                break;
            }
            if ended {
                // What it left running may still write. A short wait tells soon that it has ended,
                // and keeps whoever follows the stream from asking all the time.
                until = Some(until.map_or(Instant::now() + DRAIN, |until| {
                    until.min(Instant::now() + DRAIN)
                }));
            }
            tokio::select! {
                () = changed => {}
                () = process.ended(), if !ended => ended = true,
                () = past_instant(until) => break,
                () = ctx.cancel().cancelled() => {
                    return Err(Error::refused(verb, ErrorKind::Cancelled).on(&request.id));
                }
                () = past(ctx) => break,
            }
        }
        // The status first: what is there after a process ended is all there will be.
        let status = process.status();
        let max = usize::try_from(request.max.min(MAX_PROC_READ_BYTES)).unwrap_or(usize::MAX);
        let piece = log.read(request.from, max).map_err(|error| {
            Error::refused(verb, ErrorKind::Io)
                .on(&request.id)
                .detail("its log cannot be read")
                .caused_by(error)
        })?;
        let reached = piece.offset.saturating_add(piece.bytes.len() as u64);
        Ok(ProcChunk {
            offset: piece.offset,
            end: piece.ended && reached >= piece.total,
            bytes: piece.bytes,
            total: piece.total,
            status,
        })
    }

    /// Writes input. See [`Sandbox::proc_stdin`](sandbox_core::Sandbox::proc_stdin).
    ///
    /// # Errors
    ///
    /// As the port says.
    pub async fn proc_stdin(&self, ctx: &Ctx, request: ProcStdinRequest) -> Result<StdinReceipt> {
        let process = self.table.get(Verb::ProcStdin, &request.id)?.process;
        process.input.write(ctx, &request, process.ended()).await
    }

    /// Signals or ends. See [`Sandbox::proc_stop`](sandbox_core::Sandbox::proc_stop).
    ///
    /// # Errors
    ///
    /// As the port says.
    pub async fn proc_stop(&self, ctx: &Ctx, request: ProcStopRequest) -> Result<StopReceipt> {
        let verb = Verb::ProcStop;
        let entry = self.table.get(verb, &request.id)?;
        let order = match request.stop {
            Stop::Signal(signal @ 1..=64) => Order::Signal(signal),
            Stop::Signal(signal) => {
                return Err(Error::refused(verb, ErrorKind::InvalidArgument)
                    .on(&request.id)
                    .detail(format_args!("{signal} is no signal; those are 1 to 64")));
            }
            Stop::Graceful { grace } => Order::Stop(grace),
            Stop::Kill => Order::Stop(Duration::ZERO),
        };
        // That nobody takes it means that nothing is left to end.
        let taken = entry.orders.send(order).is_ok();
        if taken && !matches!(order, Order::Signal(_)) {
            tokio::select! {
                () = entry.orders.closed() => {}
                () = ctx.cancel().cancelled() => return Err(unfinished(&request.id, ErrorKind::Cancelled)),
                () = past(ctx) => return Err(unfinished(&request.id, ErrorKind::DeadlineExceeded)),
            }
        }
        Ok(StopReceipt {
            status: entry.process.status(),
        })
    }

    /// Ends everything and resolves when nothing is left. Nothing can be started after it.
    pub async fn shutdown(&self) {
        let entries = self.table.close();
        for entry in &entries {
            let _ = entry.orders.send(Order::Stop(Duration::ZERO));
        }
        for entry in &entries {
            entry.orders.closed().await;
        }
    }
}

/// The order was given; how it ends was not waited for.
fn unfinished(id: &ProcId, kind: ErrorKind) -> Error {
    Error::new(Verb::ProcStop, kind)
        .on(id)
        .detail("the process is being ended; ask again")
}

async fn past_instant(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        // So far away that it cannot be told.
        None => std::future::pending().await,
    }
}
