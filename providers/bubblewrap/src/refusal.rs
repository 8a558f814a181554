//! Why a sandbox could not be made, and the one thing to do about it.
//!
//! bwrap tells what failed and not why: the same words mean a container, a kernel's setting or a distribution's rules.
//! The table here is what each was seen to mean.

use std::path::Path;

use spp_client::place::{Refusal, StartFault};

use crate::launch::{Failure, FailureKind};

/// What a start that came to nothing means.
pub(crate) fn of_start(fault: &StartFault) -> Refusal {
    match fault {
        StartFault::Spawn(error) => Refusal::new(
            format!("no process can be started: {error}"),
            "see the limits of this user (`ulimit -u`), and whether memory is left",
        ),
        StartFault::Ended { status, words } => of_words(&status.to_string(), words),
        StartFault::Handshake { error, words } => of_words(error.detail_text(), words),
    }
}

/// What these last words mean.
///
/// - `ended`: how it ended, for where there are none
pub(crate) fn of_words(ended: &str, words: &str) -> Refusal {
    if let Some(failure) = Failure::read(words) {
        return of_launch(&failure);
    }
    let told = words.lines().rev().find(|line| !line.trim().is_empty());
    let reason = match told {
        Some(line) => format!("the sandbox could not be made: {line}"),
        None => format!("the sandbox could not be made: {ended}"),
    };
    let known = TABLE
        .iter()
        .find(|(says, _)| says.iter().any(|says| words.contains(says)));
    let remedy = match known {
        Some((_, Meaning::Is(remedy))) => (*remedy).to_owned(),
        Some((_, Meaning::NoNamespaces)) => no_namespaces().to_owned(),
        None => "run `spp -vv doctor` for everything that was said".to_owned(),
    };
    Refusal::new(reason, remedy)
}

enum Meaning {
    Is(&'static str),
    /// It depends on where this is.
    NoNamespaces,
}

const IN_CONTAINER: &str = "this process is inside a container whose rules forbid user namespaces; use the container \
    itself as the sandbox, or start it with `--security-opt seccomp=unconfined --security-opt \
    systempaths=unconfined`, or choose the location `local`";
const NO_USER_NAMESPACES: &str = "this kernel gives no user namespaces to ordinary users; `sysctl -w \
    kernel.unprivileged_userns_clone=1` (Debian) or `sysctl -w user.max_user_namespaces=15000` allows them";
const FILTERED: &str = "this process may not make namespaces, because it is itself in a sandbox or under another filter of \
    system calls; run it outside of that";
const NESTED: &str = "this process is already inside a sandbox that forbids another one in it, or \
    `user.max_user_namespaces` is reached; run it outside of that sandbox";
const APPARMOR: &str = "this distribution restricts user namespaces to programs that it names; install \
    `apparmor-profiles` and `sudo install -m644 /usr/share/apparmor/extra-profiles/bwrap-userns-restrict \
    /etc/apparmor.d/ && sudo apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict`; only /usr/bin/bwrap is covered";
const COVERED_PROC: &str = "parts of /proc are hidden from this process, as in most containers, and then no new /proc can be \
    mounted; start the container with `--security-opt systempaths=unconfined`";
const NO_ROOM: &str = "a mount inside of a read-only directory of the place needs a directory that is there already; show \
    it somewhere else, such as beneath /mnt";
const NO_ENGINE: &str = "the engine beside this provider cannot be executed by the sandbox's user; give it mode 0755, and \
    have it on a filesystem that is not mounted noexec";

/// What bwrap says, and what it was seen to mean.
const TABLE: [(&[&str], Meaning); 8] = [
    (
        &[
            "No permissions to creat",
            "Creating new namespace failed: Operation not permitted",
        ],
        Meaning::NoNamespaces,
    ),
    (
        &["nesting depth or /proc/sys/user/max_", "(ENOSPC)"],
        Meaning::Is(NESTED),
    ),
    (&["Can't mount proc on"], Meaning::Is(COVERED_PROC)),
    (
        &[
            "pivot_root: Operation not permitted",
            "Failed to make / slave",
        ],
        Meaning::Is(IN_CONTAINER),
    ),
    (
        &[
            "setting up uid map: Permission denied",
            "loopback: Failed RTM_NEWADDR",
        ],
        Meaning::Is(APPARMOR),
    ),
    (
        &[
            ": Read-only file system",
            "Can't mkdir",
            "Can't create file at",
        ],
        Meaning::Is(NO_ROOM),
    ),
    (&["execvp "], Meaning::Is(NO_ENGINE)),
    (
        &["Unknown option"],
        Meaning::Is("this bubblewrap lacks an option that is needed; install 0.8.0 or newer"),
    ),
];

fn of_launch(failure: &Failure) -> Refusal {
    let what = &failure.what;
    match failure.kind {
        FailureKind::Source => Refusal::new(
            format!("what is to be shown cannot be opened: {what}"),
            "name a directory that is there and that you may enter",
        ),
        FailureKind::User => Refusal::new(
            format!("there is no user for the sandbox to run as: {what}"),
            "start this as an ordinary user instead of root, or with all of root's users and groups \
             (no `--userns-remap`, no limited user namespace)",
        ),
        FailureKind::Idmap => Refusal::new(
            format!(
                "the filesystem of the workspace cannot show its files under another owner: {what}"
            ),
            "start this as the ordinary user who owns the workspace, or have the workspace on a filesystem that \
             can (ext4, xfs, btrfs, tmpfs), with nothing mounted in it that cannot",
        ),
        FailureKind::Group => Refusal::new(
            format!("the control group that limits the sandbox cannot be opened: {what}"),
            "see who else removes control groups here, and try again; or ask for no limit on memory, processes or cpu",
        ),
        FailureKind::Link => Refusal::new(
            format!("what is to be shown became a link, or is reached by one: {what}"),
            "see who can write there, and name the directory that it really is",
        ),
        FailureKind::Forbidden => Refusal::new(
            format!("the sandbox may not be prepared: {what}"),
            "run it where mounts may be made (root with CAP_SYS_ADMIN), or as an ordinary user",
        ),
        FailureKind::Limit => Refusal::new(
            format!("the sandbox could not be prepared, because a limit was reached: {what}"),
            "see the limits of this user (`ulimit -a`) and of this machine (`sysctl user fs.mount-max`), and whether memory is left",
        ),
        FailureKind::Kernel => Refusal::new(
            format!("this kernel cannot do what the sandbox needs: {what}"),
            "have Linux 5.13 or newer, and no filter of system calls that hides what it can do",
        ),
        FailureKind::Many => Refusal::new(
            format!(
                "so many mounts in the workspace or in one another need a user namespace of their own: {what}"
            ),
            "mount or hide the directories above them instead, or let this user make user namespaces",
        ),
        FailureKind::Execute => Refusal::new(
            format!("bubblewrap cannot be executed: {what}"),
            "give it and the directories above it mode 0755, on a filesystem that is not mounted noexec",
        ),
        FailureKind::Other => Refusal::new(
            format!("the sandbox could not be prepared: {what}"),
            "run `spp -vv doctor` for everything that was said",
        ),
    }
}

/// What to do where the kernel makes no namespace, by where this is.
fn no_namespaces() -> &'static str {
    let is_container = ["/.dockerenv", "/run/.containerenv"]
        .into_iter()
        .any(|mark| Path::new(mark).exists());
    if is_container {
        IN_CONTAINER
    } else if is_filtered(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()) {
        FILTERED
    } else {
        NO_USER_NAMESPACES
    }
}

/// Whether a process of this status has its system calls filtered.
fn is_filtered(status: &str) -> bool {
    let mode = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_that_bwrap_says_leads_to_something_to_do() {
        let check = |says: &str, remedy: &str| {
            let refusal = of_words("exit status: 1", &format!("bwrap: {says}\n"));
            assert!(refusal.reason.contains(says), "{refusal:?}");
            assert!(refusal.remedy.contains(remedy), "{refusal:?}");
        };
        check(
            "Can't mount proc on /newroot/proc: Operation not permitted",
            "systempaths",
        );
        check("pivot_root: Operation not permitted", "container");
        check("setting up uid map: Permission denied", "apparmor_parser");
        check(
            "loopback: Failed RTM_NEWADDR: Operation not permitted",
            "apparmor_parser",
        );
        check(
            "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
            "already inside a sandbox",
        );
        check(
            "Can't mkdir /usr/x: Read-only file system",
            "somewhere else",
        );
        check("execvp /run/spp/engine: Permission denied", "0755");
        check("Unknown option --disable-userns", "0.8.0");
        check(
            "No permissions to create a new namespace",
            "user namespaces",
        );
    }

    #[test]
    fn each_way_that_a_launch_fails_leads_to_something_of_its_own_to_do() {
        let check = |kind: &str, remedy: &str| {
            let refusal = of_words("exit status: 71", &format!("spp-launch: {kind} it"));
            assert!(refusal.reason.ends_with(": it"), "{refusal:?}");
            assert!(refusal.remedy.contains(remedy), "{refusal:?}");
        };
        check("source", "that is there");
        check("link", "really is");
        check("user", "ordinary user instead of root");
        check("idmap", "owns the workspace");
        check("forbidden", "CAP_SYS_ADMIN");
        check("limit", "ulimit");
        check("kernel", "5.13");
        check("many", "directories above");
        check("execute", "noexec");
        check("other", "doctor");
    }

    #[test]
    fn a_filter_of_system_calls_is_told_from_a_kernel_that_gives_no_namespaces() {
        assert!(is_filtered("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!is_filtered("Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n"));
    }

    #[test]
    fn what_is_not_known_is_told_as_it_was_said() {
        let refusal = of_words("exit status: 1", "first\nbwrap: something new\n");
        assert!(
            refusal.reason.ends_with("bwrap: something new"),
            "{refusal:?}"
        );
        let silent = of_words("exit status: 1", "");
        assert!(silent.reason.contains("exit status: 1"), "{silent:?}");
    }
}
