//! A relay between a host and a provider: it sees every message, and may cut the connection at one.
//!
//! Put between the two ends it tells how many round trips a verb really takes, and what becomes of a
//! verb whose connection ends at any point of it. A [`Cut`] names the point by counting messages, so
//! that a test may enumerate all of them from one run without a cut ([`Tap::seen`]).
//!
//! **Invariant:** without a cut every byte is passed on as it came, and each end is told when the
//! other is gone.
//!
//! Not here: starting either end.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_core::Cancel;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From the host.
    ToProvider,
    /// From the provider.
    ToHost,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A request of this method.
    Request(String),
    /// A notification of this method.
    Notification(String),
    /// A result or an error.
    Answer,
    /// Nothing of the protocol.
    Other,
}

/// A message that came by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which way it went.
    pub way: Way,
    /// What it is.
    pub what: What,
}

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The direction whose messages are counted.
    pub way: Way,
    /// The message at which it is cut, counted from 0 since the tap was armed.
    pub message: usize,
    /// Where in that message.
    pub point: Point,
    /// What is cut.
    pub how: How,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            way,
            message,
            point,
            how,
        } = self;
        write!(f, "{how:?} {point:?} message {message} {way:?}")
    }
}

/// Where in a message a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Nothing of the message was passed on.
    Before,
    /// Half of it was.
    Inside,
    /// All of it was, its line's end included.
    After,
}

impl Point {
    /// Every point.
    pub const ALL: [Self; 3] = [Self::Before, Self::Inside, Self::After];
}

/// What of a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Both directions.
    Both,
    /// The one whose message it is; the other goes on.
    OneWay,
    /// Neither: the provider is told to die, by whatever [`Tap::new`] was given.
    Kill,
}

impl How {
    /// Every way to cut.
    pub const ALL: [Self; 3] = [Self::Both, Self::OneWay, Self::Kill];
}

/// What watches a relay from outside. Clones share it.
#[derive(Clone)]
pub struct Tap(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    severed: Cancel,
    kill: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    cut: Option<Cut>,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap")
            .field("cut", &self.lock().cut)
            .finish_non_exhaustive()
    }
}

impl Tap {
    /// Watches; `kill` ends the provider at once.
    pub fn new(kill: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::default(),
            severed: Cancel::new(),
            kill: Box::new(kill),
        }))
    }

    /// Counts messages from 0 again, and cuts at `cut`.
    pub fn arm(&self, cut: Option<Cut>) {
        let mut state = self.lock();
        state.seen.clear();
        state.cut = cut;
    }

    /// Where it cuts.
    #[must_use]
    pub fn cut(&self) -> Option<Cut> {
        self.lock().cut
    }

    /// What came by since the tap was armed, or since the start.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.lock().seen.clone()
    }

    /// The methods of the requests among them: the round trips.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        let requests = self.seen().into_iter().map(|seen| match seen.what {
            What::Request(method) => Some(method),
            _ => None,
        });
        requests.flatten().collect()
    }

    /// Notes a message, and says whether it is the one to cut at.
    fn note(&self, way: Way, line: &[u8]) -> Option<Cut> {
        let mut state = self.lock();
        let number = state.seen.iter().filter(|seen| seen.way == way).count();
        let what = what(line);
        state.seen.push(Seen { way, what });
        state
            .cut
            .filter(|cut| cut.way == way && cut.message == number)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn what(line: &[u8]) -> What {
    let Ok(message) = serde_json::from_slice::<serde_json::Value>(line) else {
        return What::Other;
    };
    let method = message.get("method").and_then(|method| method.as_str());
    match (method, message.get("id")) {
        (Some(method), Some(_)) => What::Request(method.to_owned()),
        (Some(method), None) => What::Notification(method.to_owned()),
        (None, Some(_)) => What::Answer,
        (None, None) => What::Other,
    }
}

/// Carries one direction until either end is gone or it is cut. Both ends are let go of then.
pub async fn carry(
    way: Way,
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    tap: Tap,
) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    let severed = tap.0.severed.clone();
    loop {
        line.clear();
        let read = tokio::select! {
            biased;
            () = severed.cancelled() => return,
            read = from.read_until(b'\n', &mut line) => read,
        };
        if !matches!(read, Ok(1..)) {
            return;
        }
        let cut = tap.note(way, &line);
        let before = match cut.map(|cut| cut.point) {
            None | Some(Point::After) => line.len(),
            Some(Point::Inside) => line.len() / 2,
            Some(Point::Before) => 0,
        };
        let (before, after) = line.split_at(before);
        if !pass(&mut to, before, &severed).await {
            return;
        }
        match cut.map(|cut| cut.how) {
            None => {}
            Some(How::OneWay) => return,
            Some(How::Both) => {
                severed.cancel();
                return;
            }
            // What it wrote before it died still arrives.
            Some(How::Kill) => {
                (tap.0.kill)();
                if !pass(&mut to, after, &severed).await {
                    return;
                }
            }
        }
    }
}

/// Writes, and says whether there is anybody to write to.
async fn pass(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8], severed: &Cancel) -> bool {
    let written = tokio::select! {
        biased;
        () = severed.cancelled() => return false,
        written = to.write_all(bytes) => written,
    };
    written.is_ok() && to.flush().await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    async fn relayed(cut: Option<Cut>) -> (String, Vec<Seen>) {
        let tap = Tap::new(|| {});
        tap.arm(cut);
        let text = concat!(
            "{\"id\":1,\"method\":\"read\"}\n",
            "{\"method\":\"stream/end\"}\n",
            "{\"id\":1,\"result\":{}}\n",
            "text\n",
        );
        let (to, mut out) = tokio::io::duplex(1 << 16);
        carry(Way::ToProvider, text.as_bytes(), to, tap.clone()).await;
        let mut passed = String::new();
        out.read_to_string(&mut passed).await.expect("it is text");
        (passed, tap.seen())
    }

    #[tokio::test]
    async fn messages_are_told_apart_and_passed_on_as_they_came() {
        let (passed, seen) = relayed(None).await;
        assert_eq!(passed.lines().count(), 4);
        let what: Vec<What> = seen.into_iter().map(|seen| seen.what).collect();
        assert_eq!(
            what,
            [
                What::Request("read".into()),
                What::Notification("stream/end".into()),
                What::Answer,
                What::Other
            ]
        );
    }

    #[tokio::test]
    async fn a_cut_is_where_it_was_asked_for() {
        for (point, lines, half) in [
            (Point::Before, 1, false),
            (Point::Inside, 1, true),
            (Point::After, 2, false),
        ] {
            let cut = Cut {
                way: Way::ToProvider,
                message: 1,
                point,
                how: How::OneWay,
            };
            let (passed, _) = relayed(Some(cut)).await;
            assert_eq!(passed.matches('\n').count(), lines, "{point:?}");
            assert_eq!(!passed.ends_with('\n'), half, "{point:?}");
        }
        let (passed, _) = relayed(Some(Cut {
            way: Way::ToHost,
            message: 0,
            point: Point::Before,
            how: How::Both,
        }))
        .await;
        assert_eq!(passed.lines().count(), 4, "that is the other way");
    }
}
