//! What is fuzzed: for each target a function that takes any bytes, and panics where a promise does not hold.
//!
//! Two things call them: libFuzzer, from `fuzz/` (`cargo xtask fuzz`), for as long as one likes; and this crate's test,
//! which is part of every run, on the seeds and on some thousand mutations of them.
//!
//! **Invariant:** a function depends on its bytes alone, so that what was found once is found again.
//!
//! Not here: how bytes are made up. That is libFuzzer's business and the test's.

mod archive;
mod config;
mod line_codec;
mod messages;

pub use archive::archive;
pub use config::config;
pub use line_codec::line_codec;
pub use messages::messages;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its function, and of its file in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Panics where a promise does not hold.
    pub run: fn(&[u8]),
    /// Where its seeds are, from the root of the repository: each file of these directories, and each line of those
    /// that end in `.ndjson`.
    pub seeds: &'static [&'static str],
}

/// Every target.
pub const TARGETS: [Target; 4] = [
    Target {
        name: "line_codec",
        run: line_codec,
        seeds: &["crates/spp-protocol/golden", "fuzz/seeds/line_codec"],
    },
    Target {
        name: "messages",
        run: messages,
        seeds: &["crates/spp-protocol/golden"],
    },
    Target {
        name: "config",
        run: config,
        seeds: &["fuzz/seeds/config"],
    },
    Target {
        name: "archive",
        run: archive,
        seeds: &["fuzz/seeds/archive"],
    },
];
