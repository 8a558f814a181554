//! The lies of `spp-chaos-provider`, a line each: what is asked, and what a host makes of the answer.

use sandbox_core::{Effect, ErrorKind};

/// What is asked of the provider.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask {
    /// To be opened.
    Open,
    /// A file of at most a thousand bytes.
    Read,
    /// The same, with so little time that the provider has to be given up.
    ReadInTime,
    /// Two files of at most a thousand bytes in all.
    ReadMany,
    /// Two entries.
    Stat,
    /// At most a hundred entries.
    Glob,
    /// At most ten matches in lines of at most a thousand bytes.
    Grep,
    /// What changed.
    Fingerprint,
    /// A run whose output comes while it runs.
    Live,
    /// The same, read only after its end.
    LiveLater,
    /// A run of whose output at most a thousand bytes come at its end.
    Run,
    /// A process.
    Spawn,
    /// At most a thousand bytes of an output, from the tenth on.
    Log,
    /// Which sandboxes there are.
    List,
    /// Two files at once.
    Two,
}

/// What the host makes of it.
pub(crate) enum Made {
    /// What was asked for, as if nothing had been.
    Fine,
    /// This failure, which says this.
    Fails(ErrorKind, Effect, &'static str),
}

/// Whether the provider can be used after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Lives,
    GivenUp,
}

use After::{GivenUp, Lives};
use Ask::{
    Fingerprint, Glob, Grep, List, Live, LiveLater, Log, Open, Read, ReadInTime, ReadMany, Run,
    Spawn, Stat, Two,
};
use Made::{Fails, Fine};

const DROPPED: &str = "a line of the provider was dropped";
const UNASKED: &str = "answered what nobody waits for";
const REFUSED: &str = "sent a request, which was refused";
const STREAM: &str = "data of a stream was refused";

fn protocol(says: &'static str) -> Made {
    Fails(ErrorKind::Protocol, Effect::None, says)
}

/// As [`protocol`], of a verb that may have done something.
fn broken(says: &'static str) -> Made {
    Fails(ErrorKind::Protocol, Effect::Unknown, says)
}

fn gone(says: &'static str) -> Made {
    Fails(ErrorKind::Disconnected, Effect::None, says)
}

/// The lie, what is asked, what the host makes of it, whether the provider lives, and what the log says
/// of it beside.
#[rustfmt::skip]
pub(crate) fn table() -> Vec<(&'static str, Ask, Made, After, &'static str)> {
    vec![
        ("fine", Read, Fine, Lives, ""),
        // Lines that are no message, or none that anybody asked for.
        ("text", Read, Fine, Lives, DROPPED),
        ("commands", Read, Fine, Lives, r"\u{1b}]0;owned\u{7}"),
        ("truncated", Read, Fine, Lives, DROPPED),
        ("scalar", Read, Fine, Lives, DROPPED),
        ("not-utf8", Read, Fine, Lives, "not UTF-8"),
        ("garbage", Read, Fine, Lives, "not UTF-8"),
        ("nul", Read, Fine, Lives, "not JSON"),
        ("blank", Read, Fine, Lives, ""),
        ("no-jsonrpc", Read, Fine, Lives, "does not say that it is JSON-RPC 2.0"),
        ("mark", Read, Fine, Lives, DROPPED),
        ("surrogate", Read, Fine, Lives, ""),
        ("notification", Read, Fine, Lives, ""),
        ("no-params", Read, Fine, Lives, "a notification is malformed"),
        ("array", Read, Fine, Lives, DROPPED),
        ("batch", Read, Fine, Lives, DROPPED),
        ("null-id", Read, Fine, Lives, "no id that we gave out"),
        ("headers", Read, Fine, Lives, DROPPED),
        ("deep", Read, Fine, Lives, ""),
        ("deep-object", Read, Fine, Lives, "malformed"),
        ("long", Read, Fine, Lives, "longer than a line may be"),
        ("request", Read, Fine, Lives, REFUSED),
        ("requests", ReadInTime, gone("wedged"), GivenUp, REFUSED),
        ("drops", Read, gone("more than 100 lines"), GivenUp, DROPPED),
        ("notifications", Read, Fine, Lives, ""),
        ("progress", Read, Fine, Lives, ""),
        ("endless", Read, gone("a line without an end"), GivenUp, DROPPED),
        ("endless-start", Open, Fails(ErrorKind::ProviderUnavailable, Effect::None, "its output begins `xxxx"), GivenUp, DROPPED),
        ("banner", Read, Fine, Lives, "Welcome, line 35"),
        ("long-banner", Open, Fails(ErrorKind::ProviderUnavailable, Effect::None, "its output begins `welcome"), GivenUp, DROPPED),
        // Whose answer it is, how often it comes, and whether it comes.
        ("unknown-id", Read, Fine, Lives, UNASKED),
        ("text-id", Read, Fine, Lives, "no id that we gave out"),
        ("fraction-id", Read, Fine, Lives, "no id that we gave out"),
        ("negative-id", Read, Fine, Lives, "no id that we gave out"),
        ("huge-id", Read, Fine, Lives, "no id that we gave out"),
        ("number-id", Read, Fine, Lives, DROPPED),
        ("guess", Read, Fine, Lives, UNASKED),
        ("twice", Read, Fine, Lives, UNASKED),
        ("twice-error", Read, Fine, Lives, UNASKED),
        ("twice-initialize", Read, Fine, Lives, UNASKED),
        ("answers", Read, Fine, Lives, UNASKED),
        ("neither", Read, protocol("not exactly one of `result` and `error`"), Lives, ""),
        ("both", Read, protocol("not exactly one of `result` and `error`"), Lives, ""),
        ("null-result", Read, protocol("malformed"), Lives, ""),
        ("half-result", Read, protocol("not JSON"), Lives, ""),
        ("two-ids", Read, protocol("not JSON"), Lives, ""),
        ("error-text", Read, protocol("malformed error"), Lives, ""),
        ("error-extra", Read, Fails(ErrorKind::NotFound, Effect::None, "m"), Lives, ""),
        ("error-code", Read, Fails(ErrorKind::Internal, Effect::None, "m"), Lives, ""),
        ("error-kind", Read, Fails(ErrorKind::Other, Effect::None, "x.example.org/asleep: wake it"), Lives, ""),
        ("error-verb", Read, Fails(ErrorKind::NotFound, Effect::None, "failed to read"), Lives, ""),
        ("error-commands", Read, Fails(ErrorKind::NotFound, Effect::None, r"exe.\u{202e}txt: not found: \u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31mfail\nOK: all tests passed"), Lives, ""),
        ("error-deep", Live, Fails(ErrorKind::NotFound, Effect::Unknown, ""), Lives, ""),
        ("error-long", Read, Fails(ErrorKind::NotFound, Effect::None, "because"), Lives, ""),
        ("never", ReadInTime, gone("wedged"), GivenUp, ""),
        ("drip", ReadInTime, gone("wedged"), GivenUp, ""),
        ("stopped", ReadInTime, gone("wedged"), GivenUp, ""),
        ("deaf", ReadInTime, gone("wedged"), GivenUp, ""),
        ("deaf-start", Open, Fails(ErrorKind::ProviderUnavailable, Effect::None, "did not answer within"), GivenUp, ""),
        ("lag", Two, Fine, Lives, ""),
        ("crash", Read, gone(r"exited with 7; its standard error ends:\n    out of \u{1b}[31mcheese"), GivenUp, ""),
        ("crash-half", Read, gone("exited with 7"), GivenUp, ""),
        ("crash-whole", Read, gone("exited with 0"), GivenUp, ""),
        ("crash-after", Read, Fine, GivenUp, ""),
        ("close", Read, gone("closed its output"), GivenUp, ""),
        ("stderr", Read, Fine, Lives, "more lines of standard error than are logged"),
        ("carriage", Read, Fine, Lives, ""),
        ("extra", Read, Fine, Lives, ""),
        // Answers that can be read, and do not fit what was asked.
        ("long-answer", Read, Fails(ErrorKind::TooLarge, Effect::None, "longer than a line may be"), Lives, ""),
        ("size", Read, protocol("more bytes than were asked for"), Lives, ""),
        ("beyond", Read, protocol("beyond the end of the file"), Lives, ""),
        ("elsewhere", Read, protocol("another part of the file"), Lives, ""),
        ("huge-offset", Read, protocol("another part of the file"), Lives, ""),
        ("digest", Read, protocol("a digest that is not that of the bytes"), Lives, ""),
        ("no-digest", Read, protocol("digest"), Lives, ""),
        ("mode", Read, protocol("mode"), Lives, ""),
        ("items", Stat, protocol("2 items were sent, and 1 came back"), Lives, ""),
        ("items-more", Stat, protocol("2 items were sent, and 3 came back"), Lives, ""),
        ("total", ReadMany, protocol("more bytes than were asked for"), Lives, ""),
        ("names", Glob, protocol("entries"), Lives, ""),
        ("names-nul", Glob, protocol("entries"), Lives, ""),
        ("names-empty", Glob, protocol("entries"), Lives, ""),
        ("names-stat", Glob, protocol("inode"), Lives, ""),
        ("more-found", Glob, protocol("more entries than were asked for"), Lives, ""),
        ("billion", Glob, Fine, Lives, ""),
        ("changed-names", Fingerprint, protocol("changes"), Lives, ""),
        ("match-range", Grep, protocol("a range does not lie in the line"), Lives, ""),
        ("match-back", Grep, protocol("a range does not lie in the line"), Lives, ""),
        ("match-line", Grep, protocol("longer lines than were asked for"), Lives, ""),
        ("match-more", Grep, protocol("more matches than were asked for"), Lives, ""),
        ("exec-id", Run, broken("answered for `other`"), Lives, ""),
        ("exec-more", Run, broken("more bytes than were asked for"), Lives, ""),
        ("exec-sum", Run, broken("another number of bytes"), Lives, ""),
        ("exec-two-ends", Run, Fine, Lives, ""),
        ("exec-signal", Run, Fine, Lives, ""),
        ("exec-code", Run, broken("code"), Lives, ""),
        ("spawn-id", Spawn, broken("answered for `other`"), Lives, ""),
        ("log-earlier", Log, protocol("an earlier part"), Lives, ""),
        ("log-beyond", Log, protocol("more bytes than the process wrote"), Lives, ""),
        ("log-more", Log, protocol("more bytes than were asked for"), Lives, ""),
        ("log-overflow", Log, protocol("more bytes than the process wrote"), Lives, ""),
        ("log-status", Log, protocol("status"), Lives, ""),
        // Streams.
        ("overrun", LiveLater, broken("more than it had credit for"), Lives, STREAM),
        ("flood", LiveLater, broken("more than it had credit for"), Lives, STREAM),
        ("gap", Live, broken("missing or came twice"), Lives, STREAM),
        ("again", Live, broken("missing or came twice"), Lives, STREAM),
        ("jump", Live, broken("missing or came twice"), Lives, STREAM),
        ("unknown-stream", Live, Fine, Lives, STREAM),
        ("large-piece", Live, broken(""), Lives, STREAM),
        ("no-text", Live, broken("malformed"), Lives, STREAM),
        ("no-base64", Live, broken("base64"), Lives, STREAM),
        ("end-of-what", Live, broken("neither how long it was nor why it failed"), Lives, DROPPED),
        ("end-both-ways", Live, broken("both how long it was and why it failed"), Lives, DROPPED),
        ("end-short", Live, broken("2 bytes of the stream came, and 5 were sent"), Lives, ""),
        ("after-end", Live, Fine, Lives, STREAM),
        ("short", Live, broken("2 bytes of output came, and the process wrote 5"), Lives, ""),
        ("credit", Live, Fine, Lives, ""),
        ("content-other", Read, protocol("content"), Lives, ""),
        ("content-short", Read, protocol("content"), Lives, ""),
        ("content-long", Read, protocol(""), Lives, ""),
        ("content-huge", Read, protocol("content"), Lives, ""),
        ("content-more", Read, protocol("more than the 1000 bytes that were asked for"), Lives, ""),
        // Places.
        ("other-sandbox", Open, Fails(ErrorKind::Protocol, Effect::Unknown, "answered with sandbox `other`"), Lives, ""),
        ("no-sandbox", Open, Fails(ErrorKind::Protocol, Effect::Unknown, "sandbox"), Lives, ""),
        ("bad-root", Open, Fails(ErrorKind::Protocol, Effect::Unknown, "root"), Lives, ""),
        ("other-generation", Read, Fine, Lives, ""),
        ("other-closed", Read, Fine, Lives, "a sandbox has an id that is none"),
        ("lost", Read, Fine, GivenUp, ""),
        ("list", List, protocol("sandbox"), Lives, ""),
        ("version", Open, Fails(ErrorKind::UnsupportedVersion, Effect::None, "share no version of the protocol"), GivenUp, ""),
        ("no-version", Open, Fails(ErrorKind::ProviderUnavailable, Effect::None, "failed the handshake"), GivenUp, ""),
        ("limits", Read, Fine, Lives, ""),
    ]
}
