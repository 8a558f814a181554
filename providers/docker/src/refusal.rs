//! Why a container could not be made, and the one thing to do about it.
//!
//! The program tells what failed in words of its own. The table here is what each was seen to mean; what is not in it
//! is passed on.

use std::io;

use spp_client::place::{Refusal, StartFault};

use crate::cli::Cli;

/// Whose fault something is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Of what is installed here.
    Machine,
    /// Of what was asked for.
    Spec,
}

/// What the words hold, and what to do then.
const TABLE: [(Fault, &[&str], &str); 15] = [
    (
        Fault::Machine,
        &["permission denied while trying to connect", "dial unix"],
        "become a member of the daemon's group (`sudo usermod -aG docker USER`, then log in again), which makes you as \
         good as root, or use a daemon of your own",
    ),
    (
        Fault::Machine,
        &[
            "Cannot connect to the Docker daemon",
            "connection refused",
            "Is the docker daemon running",
        ],
        "start the daemon, or name another one by `context` or `host` in the options of `docker`",
    ),
    (
        Fault::Spec,
        &["context not found", "context \""],
        "name a context that `docker context ls` lists",
    ),
    (
        Fault::Spec,
        &["No such image", "no such image", "image not known"],
        "build or pull it, or say `pull = \"missing\"`",
    ),
    (
        Fault::Spec,
        &[
            "pull access denied",
            "unauthorized",
            "authentication required",
        ],
        "log in (`docker login`), or correct the image's name",
    ),
    (
        Fault::Spec,
        &[
            "manifest unknown",
            "not found: manifest",
            "repository does not exist",
        ],
        "correct the image's name or tag",
    ),
    (
        Fault::Machine,
        &["toomanyrequests", "429 Too Many Requests"],
        "wait, log in (`docker login`), or pull the image from another registry",
    ),
    (
        Fault::Machine,
        &[
            "no such host",
            "i/o timeout",
            "TLS handshake timeout",
            "network is unreachable",
        ],
        "see whether the daemon reaches the registry, or pull the image by other means and say `pull = \"never\"`",
    ),
    (
        Fault::Machine,
        &["no space left on device"],
        "make room where the daemon keeps its data (`docker system df`, `docker system prune`)",
    ),
    (
        Fault::Spec,
        &["exec format error"],
        "use an image for this machine's processor",
    ),
    (
        Fault::Spec,
        &["invalid reference format"],
        "correct the image's name in the options of `docker`",
    ),
    (
        Fault::Spec,
        &["unknown or invalid runtime name", "Unknown runtime"],
        "name a runtime that `docker info` lists",
    ),
    (
        Fault::Spec,
        &["bind source path does not exist", "statfs "],
        "the daemon does not see this machine's files: use one on this machine, or have the workspace be a volume of the daemon's by \
         `workspace = \"volume\"` in the options of `docker`",
    ),
    (
        Fault::Spec,
        &["unknown flag", "unknown shorthand flag"],
        "remove that argument from `args`, or use a newer program",
    ),
    (
        Fault::Spec,
        &["does not support", "are not supported", "discarded"],
        "ask for no limit that the daemon cannot hold",
    ),
];

/// How lines begin that say nothing of what failed.
const ADVICE: [&str; 3] = ["See '", "Run '", "Usage:"];

/// What it means that the program was not found.
pub(crate) fn of_finding(name: &str, error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::NotFound => Refusal::new(
            format!("there is no program `{name}`"),
            "install docker or podman, or name another one by `program` in the options of `docker`, by an absolute path if it is in \
             no absolute directory of PATH",
        ),
        _ => Refusal::new(
            format!("`{name}` cannot be looked for: {error}"),
            "see whether this system works at all",
        ),
    }
}

/// What it means that the program could not be asked.
pub(crate) fn of_asking(cli: &Cli, error: &io::Error) -> Refusal {
    let name = cli.name();
    match error.kind() {
        io::ErrorKind::NotFound => of_finding(name, error),
        io::ErrorKind::PermissionDenied => Refusal::new(
            format!("`{name}` may not be executed"),
            "name another program by `program` in the options of `docker`",
        ),
        io::ErrorKind::TimedOut => Refusal::new(
            format!("`{name}` does not answer"),
            "see whether its daemon is overloaded or stopped (`docker info`)",
        ),
        _ => Refusal::new(
            format!("`{name}` cannot be started: {error}"),
            "see the limits of this user (`ulimit -u`), and whether memory is left",
        ),
    }
}

/// What these last words mean.
///
/// - `ended`: how it ended, for where there are none
pub(crate) fn of_words(ended: &str, words: &str) -> Refusal {
    let told = words
        .lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty() && !ADVICE.iter().any(|advice| line.starts_with(advice)));
    let told = told.map(|line| line.trim_start_matches("docker: ").trim_end_matches('.'));
    let reason = format!("the container program says: {}", told.unwrap_or(ended));
    let known = TABLE
        .iter()
        .find(|(_, says, _)| says.iter().any(|says| words.contains(says)));
    match known {
        Some((Fault::Spec, _, remedy)) => Refusal::new(reason, *remedy).of_what_was_asked(),
        Some((Fault::Machine, _, remedy)) => Refusal::new(reason, *remedy),
        None => Refusal::new(reason, "run `spp -vv doctor` for everything that was said"),
    }
}

/// What a start that came to nothing means.
pub(crate) fn of_start(cli: &Cli, fault: &StartFault) -> Refusal {
    match fault {
        StartFault::Spawn(error) => of_asking(cli, error),
        StartFault::Ended { status, words } => of_words(&status.to_string(), words),
        StartFault::Handshake { error, words } => of_words(error.detail_text(), words),
    }
}
