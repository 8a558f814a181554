//! The messages between the engine and a supervisor.
//!
//! Both ends are the same executable at the same moment, so a message is an array of machine words
//! and nothing is versioned. Each is one packet of a `SOCK_SEQPACKET` socket: it arrives whole or
//! not at all. Decoding is total: what is not a message is `None`, on both sides.

use std::time::Duration;

/// Most survivors that are named in one message; more are only counted.
pub(super) const NAMED_SURVIVORS: usize = 16;

/// Words of a request.
const REQUEST_WORDS: usize = 5;
/// Words of a reply.
const REPLY_WORDS: usize = 8 + NAMED_SURVIVORS;

/// Bytes of a request on the socket.
pub(super) const REQUEST_BYTES: usize = REQUEST_WORDS * 8;
/// Bytes of a reply on the socket.
pub(super) const REPLY_BYTES: usize = REPLY_WORDS * 8;

/// Descriptors that travel with [`Request::Run`]: directory, stdin, stdout, stderr, and the image if
/// it is longer than [`INLINE_BYTES`].
pub(super) const RUN_DESCRIPTORS: usize = 5;
/// Longest image that travels in the packet, behind the request. Most do, which spares both sides
/// a file in memory: together some 20 us of a run.
pub(super) const INLINE_BYTES: usize = 32 * 1024;

/// Which processes of a run a signal goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The process that was started.
    Leader,
    /// Its process group, as a terminal would do it.
    Group,
    /// Every process that descends from it.
    Tree,
}

/// What the engine asks of a leader (`Run`) and of its supervisor (the others).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Start the image that comes along; end the tree after `timeout_ms` (0: never), politely for
    /// `grace_ms` first. Say that it runs after `announce_ms`, or not at all if it has ended by then.
    Run {
        timeout_ms: u64,
        grace_ms: u64,
        announce_ms: u64,
    },
    /// Send a signal.
    Signal { signal: i32, scope: Scope },
    /// Ask the tree to end, and kill what is left after `grace_ms`.
    Stop { grace_ms: u64 },
    /// Kill what is left, now.
    Sweep,
    /// Say what is left, and let it run.
    Leave,
}

/// Where starting a program failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The supervisor could not take the request.
    Accept,
    /// No process could be made.
    Fork,
    /// The working directory could not be entered.
    Directory,
    /// The terminal could not be made the controlling one.
    Terminal,
    /// Standard input or output could not be put in place.
    Stdio,
    /// A resource limit could not be set.
    Limit,
    /// `no_new_privs` could not be set.
    Privileges,
    /// The guard could not be put on.
    Guard,
    /// The kernel would not execute any candidate.
    Exec,
}

/// Processor time and memory of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Microseconds in user mode.
    pub user_micros: u64,
    /// Microseconds in the kernel.
    pub system_micros: u64,
    /// Most resident memory of any one process, in KiB. Never less than what the supervisor itself
    /// occupied when the process was made: the kernel starts counting there.
    pub peak_kib: u64,
}

impl Usage {
    /// Adds the time of another process, and takes the larger of the two peaks.
    pub fn add(&mut self, other: Usage) {
        self.user_micros = self.user_micros.saturating_add(other.user_micros);
        self.system_micros = self.system_micros.saturating_add(other.system_micros);
        self.peak_kib = self.peak_kib.max(other.peak_kib);
    }
}

/// Processes of a run that are still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survivors {
    /// How many there are.
    pub count: u32,
    pids: [i32; NAMED_SURVIVORS],
}

impl Survivors {
    /// The first of them, at most sixteen.
    pub fn pids(&self) -> impl Iterator<Item = i32> + '_ {
        self.pids.iter().copied().filter(|pid| *pid > 0)
    }

    /// Counts one more, and names it while there is room.
    pub(super) fn add(&mut self, pid: i32) {
        if let Some(slot) = usize::try_from(self.count)
            .ok()
            .and_then(|at| self.pids.get_mut(at))
        {
            *slot = pid;
        }
        self.count = self.count.saturating_add(1);
    }
}

/// What a supervisor reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The program runs. Left out if it ended before there was time to say so.
    Started { pid: i32 },
    /// Nothing was started.
    Failed { stage: Stage, errno: i32 },
    /// The leader ended. `alone`: nothing of the run is left, and no other reply follows.
    Exited {
        status: i32,
        usage: Usage,
        timed_out: bool,
        alone: bool,
    },
    /// The tree ended, was ended, or (`survivors`) is still there in part.
    Swept {
        killed: u32,
        usage: Usage,
        survivors: Survivors,
    },
}

impl Request {
    /// - `run`: the number of the run that it is about, from 1 on
    pub(super) fn encode(self, run: u64) -> [u8; REQUEST_BYTES] {
        let [kind, a, b, c] = match self {
            Request::Run {
                timeout_ms,
                grace_ms,
                announce_ms,
            } => [1, timeout_ms, grace_ms, announce_ms],
            Request::Signal { signal, scope } => [2, pack(signal), scope.code(), 0],
            Request::Stop { grace_ms } => [3, grace_ms, 0, 0],
            Request::Sweep => [4, 0, 0, 0],
            Request::Leave => [5, 0, 0, 0],
        };
        to_bytes([kind, run, a, b, c])
    }

    /// The number of the run, and what is asked.
    pub(super) fn decode(bytes: &[u8]) -> Option<(u64, Self)> {
        let [kind, run, a, b, c]: [u64; REQUEST_WORDS] =
            from_bytes::<REQUEST_WORDS, REQUEST_BYTES>(bytes)?;
        let request = match kind {
            1 => Request::Run {
                timeout_ms: a,
                grace_ms: b,
                announce_ms: c,
            },
            2 => Request::Signal {
                signal: unpack(a)?,
                scope: Scope::from_code(b)?,
            },
            3 => Request::Stop { grace_ms: a },
            4 => Request::Sweep,
            5 => Request::Leave,
            _ => return None,
        };
        Some((run, request))
    }
}

impl Reply {
    pub(super) fn encode(self) -> [u8; REPLY_BYTES] {
        let mut words = [0; REPLY_WORDS];
        let head: [u64; 8] = match self {
            Reply::Started { pid } => [1, pack(pid), 0, 0, 0, 0, 0, 0],
            Reply::Failed { stage, errno } => [2, stage.code(), pack(errno), 0, 0, 0, 0, 0],
            Reply::Exited {
                status,
                usage,
                timed_out,
                alone,
            } => [
                3,
                pack(status),
                usage.user_micros,
                usage.system_micros,
                usage.peak_kib,
                u64::from(timed_out),
                u64::from(alone),
                0,
            ],
            Reply::Swept {
                killed,
                usage,
                survivors,
            } => {
                for (word, pid) in words.iter_mut().skip(8).zip(survivors.pids) {
                    *word = pack(pid);
                }
                [
                    4,
                    u64::from(killed),
                    usage.user_micros,
                    usage.system_micros,
                    usage.peak_kib,
                    u64::from(survivors.count),
                    0,
                    0,
                ]
            }
        };
        for (word, value) in words.iter_mut().zip(head) {
            *word = value;
        }
        to_bytes(words)
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let words: [u64; REPLY_WORDS] = from_bytes::<REPLY_WORDS, REPLY_BYTES>(bytes)?;
        let [kind, a, b, c, d, e, f, _, named @ ..] = words;
        Some(match kind {
            1 => Reply::Started { pid: unpack(a)? },
            2 => Reply::Failed {
                stage: Stage::from_code(a)?,
                errno: unpack(b)?,
            },
            3 => Reply::Exited {
                status: unpack(a)?,
                usage: Usage {
                    user_micros: b,
                    system_micros: c,
                    peak_kib: d,
                },
                timed_out: e != 0,
                alone: f != 0,
            },
            4 => {
                let mut survivors = Survivors {
                    count: u32::try_from(e).ok()?,
                    ..Survivors::default()
                };
                for (slot, word) in survivors.pids.iter_mut().zip(named) {
                    *slot = unpack(word)?;
                }
                Reply::Swept {
                    killed: u32::try_from(a).ok()?,
                    usage: Usage {
                        user_micros: b,
                        system_micros: c,
                        peak_kib: d,
                    },
                    survivors,
                }
            }
            _ => return None,
        })
    }
}

impl Scope {
    fn code(self) -> u64 {
        match self {
            Scope::Leader => 1,
            Scope::Group => 2,
            Scope::Tree => 3,
        }
    }

    fn from_code(code: u64) -> Option<Self> {
        [Scope::Leader, Scope::Group, Scope::Tree]
            .into_iter()
            .find(|scope| scope.code() == code)
    }
}

impl Stage {
    const ALL: [Stage; 9] = [
        Stage::Accept,
        Stage::Fork,
        Stage::Directory,
        Stage::Terminal,
        Stage::Stdio,
        Stage::Limit,
        Stage::Privileges,
        Stage::Guard,
        Stage::Exec,
    ];

    pub(super) fn code(self) -> u64 {
        match self {
            Stage::Accept => 1,
            Stage::Fork => 2,
            Stage::Directory => 3,
            Stage::Terminal => 4,
            Stage::Stdio => 5,
            Stage::Limit => 6,
            Stage::Privileges => 7,
            Stage::Exec => 8,
            Stage::Guard => 9,
        }
    }

    pub(super) fn from_code(code: u64) -> Option<Self> {
        Stage::ALL.into_iter().find(|stage| stage.code() == code)
    }
}

/// Whole milliseconds of a duration, at least one unless it is zero: a timeout of 10 µs is one.
pub(super) fn millis(duration: Duration) -> u64 {
    let whole = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if whole == 0 && !duration.is_zero() {
        1
    } else {
        whole
    }
}

/// A signed number in a word, so that it survives the way back.
fn pack(value: i32) -> u64 {
    u64::from(u32::from_ne_bytes(value.to_ne_bytes()))
}

fn unpack(word: u64) -> Option<i32> {
    u32::try_from(word)
        .ok()
        .map(|value| i32::from_ne_bytes(value.to_ne_bytes()))
}

fn to_bytes<const WORDS: usize, const BYTES: usize>(words: [u64; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

fn from_bytes<const WORDS: usize, const BYTES: usize>(bytes: &[u8]) -> Option<[u64; WORDS]> {
    if bytes.len() != BYTES {
        return None;
    }
    let mut words = [0; WORDS];
    for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(place.try_into().ok()?);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_comes_back_as_it_was() {
        let requests = [
            Request::Run {
                timeout_ms: u64::MAX,
                grace_ms: 500,
                announce_ms: 3,
            },
            Request::Signal {
                signal: 15,
                scope: Scope::Tree,
            },
            Request::Signal {
                signal: -1,
                scope: Scope::Leader,
            },
            Request::Stop { grace_ms: 0 },
            Request::Sweep,
            Request::Leave,
        ];
        for (run, request) in (1..).zip(requests) {
            assert_eq!(Request::decode(&request.encode(run)), Some((run, request)));
        }
    }

    #[test]
    fn every_reply_comes_back_as_it_was() {
        let usage = Usage {
            user_micros: 1,
            system_micros: 2,
            peak_kib: 3,
        };
        let mut survivors = Survivors::default();
        for pid in 100..120 {
            survivors.add(pid);
        }
        assert_eq!(
            (survivors.count, survivors.pids().count()),
            (20, NAMED_SURVIVORS)
        );
        let mut replies = vec![
            Reply::Started { pid: 4_194_304 },
            Reply::Exited {
                status: -1,
                usage,
                timed_out: true,
                alone: false,
            },
            Reply::Exited {
                status: 256,
                usage,
                timed_out: false,
                alone: true,
            },
            Reply::Swept {
                killed: 7,
                usage,
                survivors,
            },
        ];
        replies.extend(Stage::ALL.map(|stage| Reply::Failed { stage, errno: 2 }));
        for reply in replies {
            assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }
    }

    #[test]
    fn what_is_not_a_message_is_refused() {
        assert_eq!(Request::decode(b""), None);
        assert_eq!(Request::decode(&[0; REQUEST_BYTES]), None);
        assert_eq!(Request::decode(&[0xff; REQUEST_BYTES]), None);
        assert_eq!(Reply::decode(&[0xff; REPLY_BYTES]), None);
        assert_eq!(Reply::decode(&Request::Sweep.encode(1)), None);
    }

    #[test]
    fn a_tiny_duration_is_not_no_duration() {
        assert_eq!(millis(Duration::from_micros(10)), 1);
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
