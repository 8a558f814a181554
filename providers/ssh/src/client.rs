//! The program, and the arguments that it is given always.
//!
//! Whatever the user's configuration says of hosts, keys and ways there holds. What is set here is what a connection of
//! ours has to be: one of its own, which asks nobody, hands nothing of this machine on, and notices when nobody answers
//! any more.

use std::io;
use std::path::{Path, PathBuf};

use spp_client::place::find_program;
use tokio::process::Command;

use crate::options::Options;

/// The program's name.
pub(crate) const PROGRAM: &str = "ssh";

/// What every connection is. The first value that is said holds, so the configuration changes none of these.
const SETTINGS: [&str; 13] = [
    // Nobody is there to answer.
    "BatchMode=yes",
    // Of its own: a shared one is as slow as its slowest user, has few sessions, and ends when somebody else ends it.
    "ControlMaster=no",
    "ControlPath=none",
    // What runs over there gets no way back: neither the agent's keys nor a port of this machine.
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "Tunnel=no",
    "PermitLocalCommand=no",
    // What runs over there is ours, on pipes.
    "RemoteCommand=none",
    "RequestTTY=no",
    // A server that does not answer for 15 s is gone.
    "ServerAliveInterval=5",
    "ServerAliveCountMax=2",
    // Also that nobody answers any more, and not every step.
    "LogLevel=INFO",
];
/// How long a server may take to greet, in seconds.
const CONNECT: &str = "ConnectTimeout=20";

/// Finds the program.
///
/// # Errors
///
/// There is none (`NotFound`).
pub(crate) fn find() -> io::Result<PathBuf> {
    find_program(PROGRAM, std::env::var_os("PATH").as_deref())
}

/// A connection on which this command runs over there. It is not started.
///
/// - `program`: where the program is
/// - `remote`: a command line for whatever shell the account has
pub(crate) fn command(program: &Path, options: &Options, remote: &str) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "started by the one door for places, `Spawner`"
    )]
    let mut command = Command::new(program);
    if let Some(config) = &options.config {
        command.arg("-F").arg(config);
    }
    for setting in SETTINGS.into_iter().chain([CONNECT]) {
        command.arg("-o").arg(setting);
    }
    command.arg("--").arg(&options.host).arg(remote);
    // What it does must not depend on where this process stands, which may be somebody's workspace.
    command.current_dir("/");
    // A machine on the way is reached by a program of its own, which does not know that nobody is to be asked.
    command
        .env("SSH_ASKPASS", "/bin/false")
        .env("SSH_ASKPASS_REQUIRE", "force");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_comes_behind_all_options_and_is_none() {
        let options = Options::read(Some(
            r#"{"host": "box", "root": "/", "config": "/etc/ours"}"#,
        ))
        .expect("it makes sense");
        let command = command(Path::new("/usr/bin/ssh"), &options, "true");
        let arguments: Vec<_> = command
            .as_std()
            .get_args()
            .map(|argument| argument.to_str().expect("UTF-8"))
            .collect();
        assert_eq!(arguments[..2], ["-F", "/etc/ours"]);
        assert_eq!(arguments[arguments.len() - 3..], ["--", "box", "true"]);
        assert!(arguments.contains(&"BatchMode=yes"));
    }
}
