//! Running things: the verbs `exec`, `spawn`, `proc_read`, `proc_stdin` and `proc_stop`.
//!
//! A request is checked, admitted, given its descriptors, and handed to a supervisor
//! ([`supervisor`](crate::supervisor)); from then on one task watches over it until nothing of it is
//! left. Output goes from each pipe into a log, past whoever reads along.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `start`, `ends` | from a request to a run, with its descriptors |
//! | `run`, `oversee` | from there to the moment when nothing is left |
//! | `verbs` | reading, writing to and stopping what runs |
//! | `table` | the processes by id |
//! | `pump`, `log`, `store`, `budget` | output |
//! | `input`, `terminal` | input, and the terminal in place of pipes |
//! | [`environment`], `program` | what is executed, with which variables, and why it was not |
//!
//! **Invariants.**
//! - An answer to `exec` and `proc_stop` is given when nothing of the tree is left, or what is left
//!   is named in it. A slot is free only then, too.
//! - Dropping the [`Processes`] ends everything.
//!
//! Not here: opening the working directory (`root`), fingerprints of what a command changed.

pub mod environment;

mod budget;
mod ends;
mod input;
mod log;
mod oversee;
mod program;
mod pump;
mod run;
mod start;
mod store;
mod table;
mod terminal;
mod verbs;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;

use self::budget::Budget;
use self::ends::Spare;
use self::environment::Environment;
use self::table::Table;
use crate::supervisor::{Pool, Privileges, RlimitSpec};

/// Default of [`Settings::concurrency`].
pub const DEFAULT_CONCURRENCY: usize = 64;
/// Default of [`Settings::kept`].
pub const DEFAULT_KEPT: usize = 64;
/// Default of [`Settings::log_bytes`]: 256 MiB.
pub const DEFAULT_LOG_BYTES: u64 = 256 << 20;

/// What holds for everything that runs in a sandbox.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The variables that a process has before the changes of its own request.
    pub environment: Environment,
    /// Most process trees at once; the next request is `Busy`.
    pub concurrency: usize,
    /// Most processes that are remembered, with their output, after they ended.
    pub kept: usize,
    /// Bytes of output that are kept over all processes.
    pub log_bytes: u64,
    /// Where output goes that is too long for memory: a directory of the engine's, which may be
    /// full or missing.
    pub log_directory: PathBuf,
    /// Longest life of any process tree.
    pub wall_time: Option<Duration>,
    /// Resource limits of every process.
    pub limits: Vec<RlimitSpec>,
    /// Whether a process may gain privileges by executing something set-id.
    pub privileges: Privileges,
}

impl Settings {
    /// The defaults, with these variables.
    pub fn new(environment: Environment) -> Self {
        Settings {
            environment,
            concurrency: DEFAULT_CONCURRENCY,
            kept: DEFAULT_KEPT,
            log_bytes: DEFAULT_LOG_BYTES,
            log_directory: std::env::temp_dir(),
            wall_time: None,
            limits: Vec::new(),
            privileges: Privileges::Inherited,
        }
    }
}

/// The processes of one sandbox.
///
/// Belongs to the runtime on which its [`Pool`] was made. Dropping it kills everything that runs;
/// [`shutdown`](Self::shutdown) also waits until that is done.
#[derive(Debug)]
pub struct Processes {
    pool: Pool,
    settings: Settings,
    /// The variables for the next process; replaced as a whole.
    environment: Mutex<Environment>,
    table: Arc<Table>,
    budget: Arc<Budget>,
    slots: Arc<Semaphore>,
    spare: Arc<Spare>,
}

impl Processes {
    /// No process yet.
    pub fn new(pool: Pool, settings: Settings) -> Self {
        Processes {
            pool,
            environment: Mutex::new(settings.environment.clone()),
            table: Arc::new(Table::new(settings.kept)),
            budget: Arc::new(Budget::new(settings.log_bytes)),
            slots: Arc::new(Semaphore::new(settings.concurrency)),
            spare: Arc::default(),
            settings,
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.table.abandon();
    }
}
