//! How the engine in a container is reached: through a socket that is put there and closed behind it, or through an attached
//! client of the program.
//!
//! The socket is better: no process of ours stays for a sandbox, and nothing is copied by client and daemon. It needs a
//! daemon that sees this machine's files, and a kernel that lets a container connect to what is bound into it. Where one of
//! these is not so, that is found by trying, told in the descriptor, and remembered.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use spp_client::place::{Door, Refusal, StartFault, take_away};

use crate::cli::Cli;
use crate::marked;
use crate::options::Options;

/// Where the socket is seen in the container.
pub(crate) const SOCKET: &str = "/run/spp/channel";
/// How the directories of doors are called, before who made them.
const PREFIX: &str = "spp-door-";
/// Most characters of a reason.
const WHY: usize = 300;

/// What the configuration asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wish {
    /// The socket, and an attached client where that cannot be.
    #[default]
    Auto,
    /// The socket or nothing.
    Socket,
    /// An attached client.
    Attached,
}

/// How one container is reached.
#[derive(Debug)]
pub(crate) enum Channel {
    Socket(Door),
    /// And why it is not a socket, in one sentence without its full stop.
    Attached(String),
}

impl Channel {
    /// What to know about it, for the descriptor.
    pub(crate) fn note(&self) -> String {
        match self {
            Self::Socket(_) => "the engine is reached through a socket of its own".to_owned(),
            Self::Attached(why) => format!(
                "the engine is reached through an attached client of the container program, which is slower: {why}"
            ),
        }
    }

    /// What the engine has to be told, and nobody else.
    pub(crate) fn secret(&self) -> Option<&str> {
        match self {
            Self::Socket(door) => Some(door.secret()),
            Self::Attached(_) => None,
        }
    }

    /// What is said of its socket, if it is one.
    pub(crate) fn about(&self) -> About {
        About(match self {
            Self::Socket(door) => {
                let socket = door.socket().to_str().map(str::to_owned);
                socket.into_iter().chain([SOCKET.to_owned()]).collect()
            }
            Self::Attached(_) => Vec::new(),
        })
    }
}

/// Tells what is said of a socket from what is said of everything else, by the names that it has outside and inside.
#[derive(Debug)]
pub(crate) struct About(Vec<String>);

impl About {
    /// Why there is no socket, if that is what these words say.
    pub(crate) fn fault(&self, words: &str) -> Option<String> {
        let is_about = |line: &&str| self.0.iter().any(|name| line.contains(name.as_str()));
        words.lines().find(is_about).map(short)
    }

    /// The same of a start that came to nothing.
    pub(crate) fn fault_of(&self, fault: &StartFault) -> Option<String> {
        match fault {
            StartFault::Ended { words, .. } => self.fault(words),
            StartFault::Handshake { .. } | StartFault::Spawn(_) => None,
        }
    }
}

/// The daemons at which no socket can be had, and why.
#[derive(Debug, Default)]
pub(crate) struct Channels(Mutex<Vec<(Cli, Option<String>, String)>>);

impl Channels {
    /// What is tried for a container.
    ///
    /// # Errors
    ///
    /// A socket is asked for, and it is known that there can be none.
    pub(crate) fn choose(&self, cli: &Cli, options: &Options) -> Result<Channel, Refusal> {
        let known = || {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut known = known.iter();
            let same = known.find(|(of, runtime, _)| of == cli && *runtime == options.runtime);
            same.map(|(_, _, why)| why.clone())
        };
        let far = || {
            cli.is_far()
                .then(|| "the daemon is on another machine".to_owned())
        };
        let why = match options.channel {
            Wish::Attached => Some("the options ask for it".to_owned()),
            Wish::Socket => far(),
            Wish::Auto => far().or_else(known),
        };
        let why = match why {
            Some(why) => why,
            None => match door() {
                Ok(door) => return Ok(Channel::Socket(door)),
                Err(error) => format!(
                    "no socket can be made in {}: {error}",
                    std::env::temp_dir().display()
                ),
            },
        };
        Self::instead(options, why)
    }

    /// What is tried once a socket could not be had.
    ///
    /// # Errors
    ///
    /// Nothing else will do.
    pub(crate) fn give_up(
        &self,
        cli: &Cli,
        options: &Options,
        why: String,
    ) -> Result<Channel, Refusal> {
        tracing::info!(why, "no socket into a container");
        let channel = Self::instead(options, why.clone())?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push((cli.clone(), options.runtime.clone(), why));
        Ok(channel)
    }

    fn instead(options: &Options, why: String) -> Result<Channel, Refusal> {
        match options.channel {
            Wish::Auto | Wish::Attached => Ok(Channel::Attached(why)),
            Wish::Socket => Err(Refusal::new(
                format!("the engine cannot be reached through a socket: {why}"),
                "say `channel = \"auto\"` in the options of `docker` to have it reached through an attached client",
            )),
        }
    }
}

fn short(line: &str) -> String {
    let line = line.trim();
    let end = line
        .char_indices()
        .nth(WHY)
        .map_or(line.len(), |(at, _)| at);
    line[..end].replace(char::is_control, " ")
}

/// A door with the name of who made it.
fn door() -> std::io::Result<Door> {
    Door::open(marked::path(PREFIX)?)
}

/// Takes away the doors of providers that were killed while a container started.
pub(crate) fn tidy(beneath: &Path) {
    marked::left(beneath, PREFIX).for_each(|door| take_away(&door));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner;

    #[tokio::test]
    async fn the_doors_of_the_dead_are_taken_away_and_those_of_the_living_are_not() {
        let scratch = tempfile::tempdir().expect("a directory");
        let own = owner::own().expect("there is a process table");
        let (rest, began) = own.rsplit_once('/').expect("parts");
        let began: u64 = began.parse().expect("a number");
        let made = |by: &str| {
            let name = format!("{PREFIX}{}-0123456789abcdef", by.replace('/', "."));
            scratch.path().join(name)
        };
        let (living, dead) = (made(&own), made(&format!("{rest}/{}", began + 1)));
        let _open = Door::open(living.clone()).expect("a door");
        // It is as a killed one leaves it.
        std::mem::forget(Door::open(dead.clone()).expect("a door"));
        std::fs::create_dir(scratch.path().join("spp-door-x")).expect("a directory");
        tidy(scratch.path());
        assert!(living.exists() && !dead.exists());
        assert!(scratch.path().join("spp-door-x").exists());
    }

    #[tokio::test]
    async fn only_what_is_said_of_the_socket_makes_another_channel_tried() {
        let scratch = tempfile::tempdir().expect("a directory");
        let door = Door::open(scratch.path().join("door")).expect("a door");
        let socket = door.socket().to_str().expect("UTF-8").to_owned();
        let about = Channel::Socket(door).about();
        for words in [
            format!("bind source path does not exist: {socket}"),
            format!("x\n{SOCKET} cannot be reached: Permission denied (os error 13)\n"),
        ] {
            let why = about.fault(&words).expect("it is about it");
            assert!(words.contains(&why) && !why.contains('\n'), "{why}");
        }
        assert_eq!(about.fault("bind source path does not exist: /w"), None);
        assert_eq!(Channel::Attached(String::new()).about().fault(SOCKET), None);
    }

    #[test]
    fn a_reason_is_one_line_of_a_bounded_length() {
        assert_eq!(short(" a\tb "), "a b");
        assert_eq!(short(&"ä".repeat(1000)).chars().count(), WHY);
    }
}
