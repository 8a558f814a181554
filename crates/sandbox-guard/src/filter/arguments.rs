//! System calls that are refused for some of their arguments.

use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{BackendError, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::{Rules, lists};
use crate::spec::{GuardSpec, Neighbours, NetworkUse};

/// Types of a new namespace. Each is looked for by itself, because a mask can only be compared as a whole.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// The one that only `unshare` makes: for `clone` the bit is part of a signal's number.
const NEW_TIME: u64 = 0x80;
/// Puts characters into a terminal as if somebody had typed them; the second does so by way of a selection.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;
/// Makes a terminal speak some modem's protocol, of which the kernel has old ones.
const TIOCSETD: u64 = 0x5423;
/// With either a file is made, and the mode counts. The second is the bit that the flag does not share.
const MAKES_A_FILE: [u64; 2] = [0o100, 0o20_000_000];
/// A program that others may execute with the rights of whoever made it.
const SET_ID: [u64; 2] = [0o4000, 0o2000];
const SYS_FCHMODAT2: i64 = 452;
const IOPRIO_WHO_PROCESS: u64 = 1;

/// Adds to what is refused.
pub(super) fn refused(rules: &mut Rules, spec: &GuardSpec) -> Result<(), BackendError> {
    namespaces(rules)?;
    let requests = [TIOCSTI, TIOCLINUX, TIOCSETD];
    rules.insert(
        libc::SYS_ioctl,
        each(requests.map(|request| (1, Dword, Eq, request)))?,
    );
    families(rules)?;
    set_id_bits(rules)?;
    other_processes(rules)?;
    if spec.network == NetworkUse::Denied {
        // A socket of a path may lead to who has a network: a container's daemon, a session's bus.
        rules.insert(libc::SYS_connect, Vec::new());
        rules.insert(libc::SYS_sendto, each([(4, Qword, Ne, 0)])?);
    }
    if spec.neighbours == Neighbours::Shared {
        rules.extend(lists::OF_A_USER.iter().map(|number| (*number, Vec::new())));
    }
    Ok(())
}

/// What may be made of sockets where no network is to be reached: those that have to be connected before
/// anything can be sent, which `connect` then refuses. A datagram names its receiver behind a pointer, and
/// a raw socket of this family is one of datagrams.
pub(super) fn only_unconnected_sockets() -> Result<Rules, BackendError> {
    const TYPE: u64 = 0xf;
    let kind = |kind: i32| (1, Dword, MaskedEq(TYPE), bits(kind));
    let mut rules = Rules::new();
    let refused = each([
        (0, Dword, Ne, bits(libc::AF_UNIX)),
        kind(libc::SOCK_DGRAM),
        kind(libc::SOCK_RAW),
    ])?;
    rules.insert(libc::SYS_socketpair, refused.clone());
    rules.insert(libc::SYS_socket, refused);
    Ok(rules)
}

fn namespaces(rules: &mut Rules) -> Result<(), BackendError> {
    let new = |flag| (0, Dword, MaskedEq(flag), flag);
    let mut made = NAMESPACES.map(|flag| new(bits(flag))).to_vec();
    rules.insert(libc::SYS_clone, each(made.clone())?);
    made.push(new(NEW_TIME));
    rules.insert(libc::SYS_unshare, each(made)?);
    Ok(())
}

/// Sockets of what developers' tools use, and of nothing else. A hypervisor's, for one, is in no network
/// namespace.
fn families(rules: &mut Rules) -> Result<(), BackendError> {
    let other_than = |family: i32| (0, Dword, Ne, bits(family));
    let families = all(&[
        other_than(libc::AF_UNIX),
        other_than(libc::AF_INET),
        other_than(libc::AF_INET6),
        other_than(libc::AF_NETLINK),
    ])?;
    for number in [libc::SYS_socket, libc::SYS_socketpair] {
        rules.insert(number, vec![families.clone()]);
    }
    Ok(())
}

fn set_id_bits(rules: &mut Rules) -> Result<(), BackendError> {
    let mode = |argument, bit| (argument, Dword, MaskedEq(bit), bit);
    let mut modes = vec![
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (SYS_FCHMODAT2, 2),
        (libc::SYS_mknodat, 2),
    ];
    let mut opens = vec![(libc::SYS_openat, 2, 3)];
    #[cfg(target_arch = "x86_64")]
    {
        modes.extend([
            (libc::SYS_chmod, 1),
            (libc::SYS_creat, 1),
            (libc::SYS_mknod, 1),
        ]);
        opens.push((libc::SYS_open, 1, 2));
    }
    for (number, argument) in modes {
        rules.insert(number, each(SET_ID.map(|bit| mode(argument, bit)))?);
    }
    for (number, flags, argument) in opens {
        let mut refused = Vec::new();
        for made in MAKES_A_FILE {
            for bit in SET_ID {
                refused.push(all(&[mode(flags, made), mode(argument, bit)])?);
            }
        }
        rules.insert(number, refused);
    }
    Ok(())
}

/// Calls by which one process changes another of its user, and which neither Landlock nor an undumpable
/// process is asked about. Only a process itself may be meant, which is 0.
///
/// On which processors another may run can be changed: it takes nothing away that being many does not, and
/// every library for threads sets it by number.
fn other_processes(rules: &mut Rules) -> Result<(), BackendError> {
    let not = |argument, value| (argument, Dword, Ne, value);
    for number in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
    ] {
        rules.insert(number, each([not(0, 0)])?);
    }
    rules.insert(libc::SYS_setpriority, each([not(0, 0), not(1, 0)])?);
    let io = each([not(0, IOPRIO_WHO_PROCESS), not(1, 0)])?;
    rules.insert(libc::SYS_ioprio_set, io);
    Ok(())
}

/// Argument, bits of it that count, comparison, value.
type Test = (u8, SeccompCmpArgLen, SeccompCmpOp, u64);

/// A rule for each test: any of them refuses.
fn each(tests: impl IntoIterator<Item = Test>) -> Result<Vec<SeccompRule>, BackendError> {
    tests.into_iter().map(|test| all(&[test])).collect()
}

/// One rule: all of them together refuse.
fn all(tests: &[Test]) -> Result<SeccompRule, BackendError> {
    let conditions: Result<Vec<_>, _> = tests
        .iter()
        .cloned()
        .map(|(argument, length, comparison, value)| {
            SeccompCondition::new(argument, length, comparison, value)
        })
        .collect();
    SeccompRule::new(conditions?)
}

/// A constant of the kernel's, none of which is negative.
fn bits(constant: i32) -> u64 {
    u64::from(constant.unsigned_abs())
}
