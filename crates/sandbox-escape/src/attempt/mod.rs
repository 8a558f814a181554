//! What is tried, one function each.
//!
//! An attempt takes what it knows of the outside, does what a hostile program would do, and tells either what
//! it had by it or what kept it. Each runs in a process of its own, with the workspace as its directory.

pub mod abuse;
mod devices;
mod engine;
pub mod files;
mod kernel;
pub mod life;
mod mounts;
mod network;
mod processes;
mod setid;
mod terminal;

use std::fmt::Display;
use std::io;

use crate::ground::Ground;
use crate::report::Told;

/// Something that is tried.
#[derive(Debug)]
pub struct Attempt {
    /// What it is called: the kind, and a number.
    pub id: &'static str,
    /// What it would do.
    pub title: &'static str,
    /// Where it worked once, or why it would.
    pub source: &'static str,
    /// Who says whether it worked.
    pub judge: Judge,
    make: fn(&Ground) -> Tried,
}

/// Who says whether an attempt worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// The kernel's answer inside: whether it may be done is all there is to it.
    Answer,
    /// What it had by it holds a secret of the outside.
    Secret,
    /// A service or a terminal outside received its id.
    Arrival,
    /// It changed or left something outside.
    Residue,
    /// It left a file in the workspace with a set-id bit.
    SetId,
    /// The process outside is gone.
    Bystander,
    /// What runs the commands no longer does, or lost this one.
    Engine,
    /// What it uses up is not bounded, or a sandbox beside it no longer answers.
    Abuse(Abuse),
    /// It lives on after the end of what it was started by.
    Outliving(Outliving),
}

/// How something is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abuse {
    /// More of something than the limits of the policy allow; these, as in a configuration file.
    Limit(&'static str),
    /// More output than anybody keeps, to its end.
    Output,
    /// Output without an end and without a line's end.
    EndlessOutput,
    /// Time, by a process that hears no polite signal.
    Stubborn,
    /// Time, by a process that keeps the output open after the command has ended.
    HeldPipe,
    /// A process that is left behind by a command.
    Daemon,
    /// Entries of the process table.
    Zombies,
    /// The time of whoever reads what was planted in the workspace.
    Unreadable,
}

/// What a process lives on after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outliving {
    /// The provider was killed.
    Provider,
    /// The host was killed, so that the provider reads the end of its input.
    Host,
    /// What made the namespaces was killed.
    Monitor,
    /// The provider was killed, and with it who held a lock.
    Lock,
}

/// What came of it: what was had, or why not.
pub(crate) type Tried = Result<String, Kept>;

/// Why nothing was had.
#[derive(Debug)]
pub(crate) enum Kept {
    /// Something kept it.
    Blocked(String),
    /// It cannot be tried here.
    NotApplicable(String),
}

impl From<io::Error> for Kept {
    fn from(error: io::Error) -> Self {
        Kept::Blocked(error.to_string())
    }
}

impl From<rustix::io::Errno> for Kept {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

/// It cannot be tried here.
pub(crate) fn not_applicable<T>(reason: impl Display) -> Result<T, Kept> {
    Err(Kept::NotApplicable(reason.to_string()))
}

/// Nothing was found to try it on.
pub(crate) fn blocked<T>(reason: impl Display) -> Result<T, Kept> {
    Err(Kept::Blocked(reason.to_string()))
}

/// Takes an answer for success that is only given to who may: the arguments were wrong on purpose.
pub(crate) fn may<T>(answer: io::Result<T>, only_then: &[i32]) -> Tried {
    match answer {
        Ok(_) => Ok("done".into()),
        Err(error)
            if error
                .raw_os_error()
                .is_some_and(|it| only_then.contains(&it)) =>
        {
            Ok(format!("permitted: {error}"))
        }
        Err(error) => Err(error.into()),
    }
}

/// The first of these that works; else what kept the last.
pub(crate) fn any<T>(
    of: impl IntoIterator<Item = T>,
    what: &str,
    mut attempt: impl FnMut(T) -> Tried,
) -> Tried {
    let mut kept = Kept::Blocked(format!("there is no {what}"));
    for one in of {
        match attempt(one) {
            Ok(had) => return Ok(had),
            Err(reason) => kept = reason,
        }
    }
    Err(kept)
}

/// Everything that is tried, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Attempt> {
    [
        files::ALL,
        mounts::ALL,
        setid::ALL,
        devices::ALL,
        kernel::ALL,
        network::ALL,
        engine::ALL,
        processes::ALL,
        terminal::ALL,
        abuse::ALL,
        life::ALL,
    ]
    .into_iter()
    .flatten()
}

/// The one of this name.
#[must_use]
pub fn named(id: &str) -> Option<&'static Attempt> {
    all().find(|attempt| attempt.id == id)
}

impl Attempt {
    /// Tries it, here and now.
    #[must_use]
    pub fn make(&self, ground: &Ground) -> Told {
        match (self.make)(ground) {
            Ok(had) => Told::Succeeded(had),
            Err(Kept::Blocked(reason)) => Told::Blocked(reason),
            Err(Kept::NotApplicable(reason)) => Told::NotApplicable(reason),
        }
    }
}

/// One line of a table of attempts.
macro_rules! attempts {
    ($($id:literal $judge:ident $(($($how:tt)*))? $title:literal $source:literal $make:expr;)*) => {
        pub(super) const ALL: &[$crate::attempt::Attempt] = &[$(
            $crate::attempt::Attempt {
                id: $id,
                title: $title,
                source: $source,
                judge: $crate::attempt::Judge::$judge $(($($how)*))?,
                make: $make,
            },
        )*];
    };
}
pub(crate) use attempts;
