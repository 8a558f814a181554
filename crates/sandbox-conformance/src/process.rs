//! Checks of the process verbs: `exec`, `spawn`, `proc_read`, `proc_stdin`, `proc_stop`.
//!
//! Whether a process is gone is asked of the place's own kernel, by pid, in another run. A zombie
//! counts as still there: what is said to be dealt with must also have been waited for.

pub(crate) mod input;
pub(crate) mod live;
pub(crate) mod log;
pub(crate) mod output;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod stdin;
pub(crate) mod stop;
pub(crate) mod terminal;
pub(crate) mod tree;
