//! A hostile program, the places it is run in, and the table of what it got away with.
//!
//! `spp-escape` is what a sandbox must hold: it tries, one by one, what is known to have led out of
//! containers and sandboxes. `spp-escape-suite` prepares what is to be reached outside (secrets,
//! services, processes, files), runs the program in each *column*, and judges: by what the outside
//! saw wherever only that counts, and by the kernel's answer elsewhere.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`attempt`] | what is tried, one function each |
//! | [`ground`] | what the hostile program is told of the outside |
//! | [`report`] | the one line that each attempt is told in |
//! | [`suite`] | the outside, the columns, the judgement, the table |
//!
//! **Invariants.**
//! - An attempt shows something only where it works without protection. Columns without any are
//!   *controls*; a row in which no control succeeds proves nothing, and is listed apart.
//! - A guarded column runs what a user of ours would run: the host library, the provider's
//!   executable, its engine, and the hostile program as a command.
//! - What a location does not promise to keep away is named ([`suite::gaps`]), and must succeed. A
//!   name that is no longer true fails as an escape does.
//! - No attempt harms the machine, even where it succeeds: settings are opened and not written, or
//!   written with the value that they have, or asked for with arguments that cannot be carried out.

pub mod attempt;
mod call;
pub mod ground;
pub mod hostile;
pub mod report;
pub mod suite;
