//! Parts of the kernel that were the way in more often than they were of use to a tool.

use super::{Tried, attempts, may, not_applicable};
use crate::call::{NONE, call};
use crate::ground::Ground;

/// How a number is marked that belongs to the third numbering of x86-64.
#[cfg(target_arch = "x86_64")]
const THIRD: i64 = 0x4000_0000;

attempts! {
    "K01" Answer "load a program into the kernel's machine (bpf)" "docker's list" bpf;
    "K02" Answer "watch the processor's events" "docker's list" perf;
    "K03" Answer "have work done past the filters (io_uring)" "Google's kCTF; docker 25" io_uring;
    "K04" Answer "answer page faults by itself" "CVE-2021-22555" |_| may(call!(libc::SYS_userfaultfd, libc::O_CLOEXEC | 1), &[]);
    "K05" Answer "load a module" "modules" |_| may(call!(libc::SYS_finit_module, -1, c"", 0), &[libc::EBADF]);
    "K06" Answer "load another kernel" "kexec" |_| may(call!(libc::SYS_kexec_load, 0, 0, NONE, 0xdead_0000_u64), &[libc::EINVAL]);
    "K09" Answer "read the kernel's log" "dmesg" kernel_log;
    "K10" Answer "set the clock" "time" clock;
    "K11" Answer "set the machine's name" "names" host_name;
    "K14" Answer "watch files with fanotify" "docker's list" |_| may(call!(libc::SYS_fanotify_init, 0x200, 0), &[]);
    "K15" Answer "have no random addresses" "weakens itself alone" |_| may(call!(libc::SYS_personality, libc::ADDR_NO_RANDOMIZE), &[]);
    "K16" Answer "add a key to the user's" "keys know no namespace" |_| may(call!(libc::SYS_add_key, c"user", c"spp-escape", c"x", 1, -2), &[]);
    "K17" Answer "turn memory of others into swap" "swap" |_| may(call!(libc::SYS_swapon, c"no-such-file", 0), &[libc::ENOENT]);
    "K18" Answer "compare what other processes hold" "docker's list" |_| {
        let own = std::process::id();
        may(call!(libc::SYS_kcmp, own, own, 0, 0, 0), &[])
    };
    "K19" Answer "have the kernel look for a key, by a program of its own" "upcalls" |_| may(
        call!(libc::SYS_request_key, c"user", c"spp-escape-none", NONE, -2), &[libc::ENOKEY]);
    "P36" Answer "a namespace of clocks" "a flag that a list forgets" |_| may(call!(libc::SYS_unshare, 0x80 | libc::CLONE_NEWUSER), &[]);
    "P18" Answer "a user namespace: unshare" "the surface behind it" |_| may(call!(libc::SYS_unshare, libc::CLONE_NEWUSER), &[]);
    "P19" Answer "a user namespace: clone3, whose flags no filter sees" "the surface behind it" by_clone3;
    "P20" Answer "a user namespace: clone" "the surface behind it" |_| {
        let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
        may(crate::call::born(libc::SYS_clone, [flags.into(), NONE.into(), NONE.into(), NONE.into(), NONE.into()]), &[])
    };
    "K12" Answer "a user namespace: the door for 32-bit programs" "numbers of another kind" old_door;
    "K13" Answer "a user namespace: the third numbering" "numbers of another kind" third_numbering;
}

fn bpf(_: &Ground) -> Tried {
    const CREATE_MAP: i32 = 0;
    const ARRAY: u64 = 2;
    // A map of one entry of four bytes: kind and size of keys, size of values and their count.
    let mut map = [0_u64; 16];
    map[0] = ARRAY | (4 << 32);
    map[1] = 4 | (1 << 32);
    may(call!(libc::SYS_bpf, CREATE_MAP, &mut map[..], 72), &[])
}

fn perf(_: &Ground) -> Tried {
    const SOFTWARE: u64 = 1;
    // Kind and size; which event; and that the kernel is left out of it.
    let mut event = [0_u64; 16];
    event[0] = SOFTWARE | (112 << 32);
    event[5] = 1 << 5 | 1 << 6;
    may(
        call!(libc::SYS_perf_event_open, &mut event[..], 0, -1, -1, 0),
        &[],
    )
}

fn io_uring(_: &Ground) -> Tried {
    let mut parameters = [0_u64; 15];
    match call!(libc::SYS_io_uring_setup, 1, &mut parameters[..]) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            not_applicable("this kernel was built without it")
        }
        answer => may(answer, &[]),
    }
}

fn kernel_log(_: &Ground) -> Tried {
    const READ_ALL: i32 = 3;
    let mut room = [0_u8; 64];
    let size = room.len();
    may(call!(libc::SYS_syslog, READ_ALL, &mut room[..], size), &[])
}

/// Sets the length of a tick to what it is.
fn clock(_: &Ground) -> Tried {
    const TICK: u64 = 0x4000;
    const PLACE_OF_TICK: usize = 11;
    let mut clock = [0_u64; 26];
    call!(libc::SYS_adjtimex, &mut clock[..])?;
    let mut same = [0_u64; 26];
    same[0] = TICK;
    same[PLACE_OF_TICK] = clock[PLACE_OF_TICK];
    may(call!(libc::SYS_adjtimex, &mut same[..]), &[])
}

/// Sets the name to what it is.
fn host_name(_: &Ground) -> Tried {
    let name = rustix::system::uname();
    let name = name.nodename();
    may(call!(libc::SYS_sethostname, name, name.count_bytes()), &[])
}

fn by_clone3(_: &Ground) -> Tried {
    let mut how = [0_u64; 11];
    how[0] = u64::from(libc::CLONE_NEWUSER.cast_unsigned());
    how[4] = u64::from(libc::SIGCHLD.cast_unsigned());
    let size = size_of_val(&how);
    may(
        crate::call::born(libc::SYS_clone3, [(&mut how[..]).into(), size.into()]),
        &[],
    )
}

#[cfg(target_arch = "x86_64")]
fn old_door(_: &Ground) -> Tried {
    match i32::try_from(crate::call::unshare_by_the_old_door()) {
        Ok(0) => Ok("done".into()),
        Ok(answer) => Err(std::io::Error::from_raw_os_error(-answer).into()),
        Err(_) => super::blocked("no answer"),
    }
}

#[cfg(target_arch = "x86_64")]
fn third_numbering(_: &Ground) -> Tried {
    may(call!(THIRD | libc::SYS_unshare, libc::CLONE_NEWUSER), &[])
}

#[cfg(not(target_arch = "x86_64"))]
fn old_door(_: &Ground) -> Tried {
    not_applicable("this processor has no such door")
}

#[cfg(not(target_arch = "x86_64"))]
fn third_numbering(_: &Ground) -> Tried {
    not_applicable("this processor has one numbering")
}
