//! Why there is no place, and the one thing to do about it.
//!
//! The program tells what failed in words of its own. The table here is what each was seen to mean; what is not in it
//! is passed on.

use std::io;
use std::path::Path;

use sandbox_core::ErrorKind;
use spp_client::place::{Refusal, StartFault};

use crate::client::PROGRAM;

/// Whose fault something is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Of a machine, or of what lies between.
    Machine,
    /// Of what was asked for.
    Spec,
}

/// What the words hold, the reason, and what to do then. `HOST` stands for the machine's name. What comes first holds:
/// who cannot show who they are is told about a key as well.
const TABLE: [(Fault, &[&str], &str, &str); 14] = [
    (
        Fault::Spec,
        &[
            "bad configuration option",
            "Bad configuration option",
            "Can't open user config",
            "Bad owner or permissions",
        ],
        "the configuration of ssh cannot be used",
        "correct that file; `ssh -G HOST` reads it as well",
    ),
    (
        Fault::Machine,
        &[
            "REMOTE HOST IDENTIFICATION HAS CHANGED",
            "has changed and you have requested strict checking",
            "REVOKED",
        ],
        "the host key of HOST is another one than is known",
        "find out why; only if it is meant, forget the known one with `ssh-keygen -R HOST`, and connect once with `ssh HOST` to see the new one",
    ),
    (
        Fault::Machine,
        &["Host key verification failed", "key is known for"],
        "the host key of HOST is not known here",
        "connect once with `ssh HOST`, and compare what it shows with what the machine's owner says",
    ),
    (
        Fault::Machine,
        &["Too many authentication failures"],
        "HOST refused before the right key was offered",
        "say in ~/.ssh/config which key it is: `IdentityFile`, with `IdentitiesOnly yes`",
    ),
    (
        Fault::Machine,
        &["Permission denied (", "No more authentication methods"],
        "HOST does not accept who you are",
        "see that `ssh -o BatchMode=yes HOST true` works: a key that needs no question, or one in an agent (`ssh-add`), named by \
         SSH_AUTH_SOCK or `IdentityAgent`",
    ),
    (
        Fault::Spec,
        &["Could not resolve hostname", "Name or service not known"],
        "there is no machine of the name HOST",
        "correct `host` in the options of `ssh`, or give it a `HostName` in ~/.ssh/config",
    ),
    (
        Fault::Machine,
        &["Connection refused"],
        "nothing answers at HOST",
        "see that the machine runs an ssh server, and that the port is right (`ssh -G HOST`)",
    ),
    (
        Fault::Machine,
        &[
            "Connection timed out",
            "Operation timed out",
            "No route to host",
            "Network is unreachable",
            "timed out during banner",
        ],
        "HOST cannot be reached",
        "see that it is on, and that this machine's network leads there (`ssh HOST true`)",
    ),
    (
        Fault::Machine,
        &[
            "no matching key exchange",
            "no matching host key",
            "no matching cipher",
            "no matching mac",
        ],
        "HOST and this machine's ssh have no method in common",
        "see `ssh -v HOST true`, and bring the older of the two up to date",
    ),
    (
        Fault::Machine,
        &[
            "administratively prohibited",
            "open failed",
            "shell request failed",
            "exec request failed",
        ],
        "HOST opens no session",
        "the server has to allow one for the account (`MaxSessions`, `PermitTTY` and what is forced upon it)",
    ),
    (
        Fault::Machine,
        &[
            "kex_exchange_identification",
            "Connection reset",
            "Connection closed by",
            "Broken pipe",
            "closed by remote host",
        ],
        "HOST ended the connection",
        "see `ssh -v HOST true`; a server with too many connections at once does that (`MaxStartups`)",
    ),
    (
        Fault::Machine,
        &["not responding", "Timeout, server"],
        "HOST answers no more",
        "see whether the connection is there at all (`ssh HOST true`)",
    ),
    (
        Fault::Machine,
        &["ProxyCommand", "stdio forwarding failed", "ssh_askpass"],
        "the way to HOST is closed",
        "see that each machine on it can be reached without a question (`ssh -v HOST true`)",
    ),
    (
        Fault::Machine,
        &["Permission denied", "Could not open"],
        "ssh may not read what it needs",
        "see `ssh -v HOST true`",
    ),
];

/// What the program says where another one, which was to lead to the machine, ended: a reason besides that is its.
const BEHIND: &str = "kex_exchange_identification";

/// The status that the program ends with for reasons of its own.
const OWN_STATUS: i32 = 255;

/// What it means that the program was not found.
pub(crate) fn of_finding(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::NotFound => Refusal::new(
            format!("there is no program `{PROGRAM}`"),
            "install it, such as by `apt install openssh-client`",
        ),
        _ => Refusal::new(
            format!("`{PROGRAM}` cannot be started: {error}"),
            "see the limits of this user (`ulimit -u`), and whether memory is left",
        ),
    }
}

/// What a start that came to nothing means.
///
/// - `noise`: what was printed over there
pub(crate) fn of_start(host: &str, noise: &str, fault: &StartFault) -> Refusal {
    match fault {
        StartFault::Spawn(error) => of_finding(error),
        StartFault::Ended { status, words } if status.code() == Some(OWN_STATUS) => {
            of_words(host, words)
        }
        StartFault::Ended { status, .. } if status.code().is_none() => Refusal::new(
            format!("`{PROGRAM}` was killed before anything ran on {host} ({status})"),
            "see who did that; where memory is used up, the kernel does",
        ),
        StartFault::Ended { status, words } => {
            let said = [noise, words]
                .map(last_line)
                .into_iter()
                .flatten()
                .next_back();
            let told = said.map(|said| format!(": {said}")).unwrap_or_default();
            Refusal::new(
                format!(
                    "{host} ran something else than it was asked to, which ended ({status}){told}"
                ),
                "the account needs a shell, and no command that is forced upon it (`ForceCommand`, `command=` in \
                 authorized_keys, `nologin`) but one that runs SSH_ORIGINAL_COMMAND",
            )
        }
        StartFault::Handshake { error, .. } if error.kind() == ErrorKind::Lost => of_chatter(host),
        StartFault::Handshake { error, words } => {
            let told = last_line(words).map_or_else(|| error.to_string(), str::to_owned);
            Refusal::new(
                format!("the engine did not start on {host}: {told}"),
                format!("see what `ssh {host} true` prints and how it ends"),
            )
        }
    }
}

/// What these last words of the program mean.
fn of_words(host: &str, words: &str) -> Refusal {
    let known = TABLE
        .iter()
        .find(|(_, says, _, _)| says.iter().any(|says| words.contains(says)));
    let Some((fault, says, reason, remedy)) = known else {
        let told = told(words, &[]);
        return Refusal::new(
            format!("{host} cannot be connected to: {told}"),
            format!("see `ssh -v {host} true`"),
        );
    };
    let told = told(words, says);
    let reason = match words.contains(BEHIND) && !says.contains(&BEHIND) && *fault == Fault::Machine
    {
        true => reason.replace("HOST", "a machine on the way to HOST"),
        false => (*reason).to_owned(),
    };
    let forget = forgetting(words).unwrap_or("ssh-keygen -R HOST");
    let remedy = remedy.replace("ssh-keygen -R HOST", forget);
    let refusal = Refusal::new(
        format!("{} ({told})", reason.replace("HOST", host)),
        remedy.replace("HOST", host),
    );
    match fault {
        Fault::Spec => refusal.of_what_was_asked(),
        Fault::Machine => refusal,
    }
}

/// The line that says what failed: the last that says so and more than that it did, else the last.
fn told<'a>(words: &'a str, says: &[&str]) -> &'a str {
    let lines = || words.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_more = |line: &&str| {
        !line.starts_with("Host key verification failed") && !line.contains(": terminating,")
    };
    lines()
        .filter(is_more)
        .rfind(|line| says.iter().any(|says| line.contains(says)))
        .or_else(|| lines().rfind(is_more))
        .or_else(|| lines().next_back())
        .unwrap_or("it said nothing")
}

/// The command to forget a host key with, where the program names it.
fn forgetting(words: &str) -> Option<&str> {
    let mut lines = words.lines().map(str::trim);
    lines.find(|line| line.starts_with("ssh-keygen -f "))
}

fn last_line(words: &str) -> Option<&str> {
    words.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// What the script says stands in the way.
pub(crate) fn of_script(host: &str, what: &str) -> Refusal {
    let (what, of) = what.split_once(' ').unwrap_or((what, ""));
    match what {
        "system" => Refusal::new(
            format!(
                "the system of {host} is {}, and the engine needs Linux on x86_64, aarch64 or riscv64",
                named(of)
            ),
            "use a machine with Linux; a container or a virtual machine on that one will do",
        ),
        "engine" => Refusal::new(
            format!(
                "{host} is for {}, and there is no engine for that beside this provider",
                named(of)
            ),
            format!(
                "build one there (`cargo xtask dist`) and install it here, beside this provider, as \
                 `spp-engine-{of}-unknown-linux-gnu`"
            ),
        ),
        "digest" => Refusal::new(
            format!("{host} has no program that computes SHA-256 (sha256sum, shasum, openssl)"),
            "install one of them there, such as by `apt install coreutils`",
        ),
        "place" => Refusal::new(
            format!(
                "there is no directory on {host} that the engine can be kept in: {}",
                of.trim_end_matches([';', ' '])
            ),
            "name one that is this user's, can be written, and is not mounted `noexec`, by `cache` in the options of `ssh`",
        ),
        "write" => Refusal::new(
            format!("the engine could not be written to {} on {host}", named(of)),
            "make room there, or name another directory by `cache` in the options of `ssh`",
        ),
        "bytes" => Refusal::new(
            format!(
                "what arrived in {} on {host} is not the engine that was sent",
                named(of)
            ),
            "see whether there is room, and whether the engine beside this provider was replaced meanwhile",
        ),
        "start" => Refusal::new(
            format!(
                "the engine was put into {} on {host}, and cannot be started there",
                named(of)
            ),
            "see whether something there forbids programs that are not installed (fapolicyd, AppArmor, SELinux)",
        ),
        _ => of_nonsense(host),
    }
}

fn named(of: &str) -> &str {
    match of.trim() {
        "" => "unknown",
        of => of,
    }
}

/// Nothing that the script could have said.
pub(crate) fn of_nonsense(host: &str) -> Refusal {
    Refusal::new(
        format!("what {host} answers makes no sense"),
        format!("see what `ssh {host} true` prints"),
    )
}

/// Something was printed when only the engine could.
pub(crate) fn of_chatter(host: &str) -> Refusal {
    Refusal::new(
        format!("something on {host} writes into the connection beside the engine"),
        "see what the account's profile starts in the background, and give that another output",
    )
}

/// More was printed than anybody reads.
pub(crate) fn of_noise(host: &str) -> Refusal {
    Refusal::new(
        format!("{host} prints and does not come to an end of it"),
        format!(
            "see what `ssh {host} true` prints; the account's profile may do so for terminals only"
        ),
    )
}

/// Nothing came for a long time.
pub(crate) fn of_silence(host: &str, noise: &str) -> Refusal {
    let told = match noise {
        "" => String::new(),
        noise => format!("; what it printed ends with: {noise}"),
    };
    Refusal::new(
        format!("{host} was connected to and does nothing{told}"),
        format!(
            "see whether `ssh {host} true </dev/null` ends; the account's profile may wait for input"
        ),
    )
}

/// The executable is another one by now.
pub(crate) fn of_replaced(path: &Path) -> Refusal {
    Refusal::new(
        format!("{} was replaced while it was sent", path.display()),
        "do it again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_first_holds_and_names_the_machine() {
        let changed = "@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nremove with:\n  ssh-keygen -f \"/k\" -R \"[b]:22\"\n\
                       Host key for [b]:22 has changed and you have requested strict checking.\nHost key verification failed.\n";
        let refusal = of_words("box", changed);
        assert!(
            refusal
                .reason
                .contains("the host key of box is another one"),
            "{refusal:?}"
        );
        assert!(
            refusal
                .remedy
                .contains("`ssh-keygen -f \"/k\" -R \"[b]:22\"`"),
            "{refusal:?}"
        );
        let unknown = "No ED25519 host key is known for b and you have requested strict checking.\nHost key verification failed.\n";
        let refusal = of_words("box", unknown);
        assert!(refusal.reason.contains("not known here"), "{refusal:?}");
        assert!(refusal.reason.contains("ED25519"), "{refusal:?}");
        let behind =
            format!("{unknown}kex_exchange_identification: Connection closed by remote host\n");
        let refusal = of_words("box", &behind);
        assert!(refusal.reason.contains("on the way to box"), "{refusal:?}");
        assert!(refusal.reason.contains("ED25519"), "{refusal:?}");
        let name = of_words(
            "box",
            "ssh: Could not resolve hostname box: Name or service not known",
        );
        assert_eq!(name.kind, ErrorKind::UnsupportedSpec);
        let other = of_words("box", "something else\n");
        assert!(other.reason.contains("something else"), "{other:?}");
    }

    #[test]
    fn what_the_script_says_is_told_with_what_to_do() {
        for (said, reason) in [
            ("system Darwin arm64", "Darwin arm64"),
            ("system", "unknown"),
            ("engine riscv64", "riscv64"),
            ("digest", "SHA-256"),
            ("place /x cannot be written; ", "/x cannot be written"),
            ("write /x", "/x"),
            ("bytes /x", "/x"),
            ("start /x", "/x"),
            ("other", "no sense"),
        ] {
            let refusal = of_script("box", said);
            assert!(refusal.reason.contains(reason), "{refusal:?}");
            assert!(
                refusal.reason.contains("box") && !refusal.remedy.is_empty(),
                "{refusal:?}"
            );
        }
    }
}
