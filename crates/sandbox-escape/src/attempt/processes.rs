//! Other processes: what is seen of them, what they hold, what can be done to them.

use std::ffi::CString;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use rustix::process::{Pid, Signal};

use super::files::secret_in;
use super::{Tried, any, attempts, blocked, may, not_applicable};
use crate::call::{NONE, attached, call};
use crate::ground::Ground;

attempts! {
    "P11" Secret "find a secret in its own environment" "secrets" |_| search(&std::fs::read("/proc/self/environ")?);
    "P12" Secret "find a secret in the arguments of any process" "secrets" arguments;
    "P13" Answer "see a process of the machine" "process namespaces" |ground| match bystander(ground) {
        Some(pid) => Ok(format!("process {pid}")),
        None => blocked("it is not to be seen"),
    };
    "P14" Bystander "kill a process of the machine" "process namespaces" |ground| {
        let pid = bystander(ground).and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH)?;
        rustix::process::kill_process(pid, Signal::KILL)?;
        Ok("it was sent".into())
    };
    "P21" Secret "attach shared memory of the machine" "message namespaces" |ground| {
        let segment = call!(libc::SYS_shmget, ground.shared_memory, 0, 0)?;
        search(&attached(segment, 128)?)
    };
    "P22" Answer "find the user's keys" "keys know no namespace" |_| {
        const GET_KEYRING_ID: i32 = 0;
        const USER_KEYRING: i32 = -4;
        match call!(libc::SYS_keyctl, GET_KEYRING_ID, USER_KEYRING, 1) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => not_applicable("this kernel has no keys"),
            answer => may(answer, &[]),
        }
    };
    "P26" Answer "run before everything else" "resources" |_| {
        let priority = 1_u32.to_ne_bytes();
        may(call!(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &priority[..]), &[])
    };
    "P30" Answer "trace a process of the machine" "ptrace" |ground| {
        const SEIZE: i32 = 0x4206;
        let Some(pid) = bystander(ground) else { return blocked("it is not to be seen") };
        may(call!(libc::SYS_ptrace, SEIZE, pid, NONE, NONE), &[])
    };
    "P31" Secret "read the environment of a process of the machine" "secrets" |ground| {
        let Some(pid) = bystander(ground) else { return blocked("it is not to be seen") };
        search(&std::fs::read(format!("/proc/{pid}/environ"))?)
    };
    "P34" Bystander "have the kernel kill it, as one who is told of input" "signals by way of descriptors" by_input;
    "P35" Answer "reach a named message queue of the machine" "message namespaces" |ground| {
        let name = CString::new(ground.abstract_socket.as_str()).map_err(std::io::Error::from)?;
        may(call!(libc::SYS_mq_open, &*name, libc::O_RDWR, 0, NONE), &[])
    };
    "P38" Bystander "kill it by the other calls that send signals" "calls that a list forgets" by_other_calls;
    "P39" Answer "set the priority of all processes of a user" "resources" |_| may(
        call!(libc::SYS_setpriority, libc::PRIO_USER, NOBODY, 0), &[libc::ESRCH]);
    "P40" Answer "set how all processes of a user read and write" "resources" |_| {
        const OF_A_USER: i32 = 3;
        const BEST_EFFORT_4: i32 = (2 << 13) | 4;
        may(call!(libc::SYS_ioprio_set, OF_A_USER, NOBODY, BEST_EFFORT_4), &[libc::ESRCH])
    };
    "P32" Answer "reach a message queue of the machine" "message namespaces" |ground| may(call!(libc::SYS_msgget, ground.shared_memory, 0), &[]);
}

/// The processes that this program was started by, the nearest first: the engine and what it has between.
/// The program's own are none, nor is who drives the column.
pub(super) fn engine_pids(ground: &Ground) -> Vec<i32> {
    // This process is started by one more of its own.
    let own = parent(std::process::id().cast_signed());
    let mut found = Vec::new();
    let mut next = own.and_then(parent);
    while let Some(pid) = next.filter(|pid| *pid > 0 && *pid != ground.driver) {
        found.push(pid);
        next = parent(pid);
    }
    found
}

/// Every process that can be seen, apart from this program's own.
pub(super) fn others(_: &Ground) -> Vec<i32> {
    let own = std::process::id().cast_signed();
    all()
        .filter(|pid| *pid != own && Some(*pid) != parent(own))
        .collect()
}

fn all() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent(pid: i32) -> Option<i32> {
    stat(pid, 1)?.parse().ok()
}

/// The state of every process that can be seen, as one letter.
pub(super) fn states() -> impl Iterator<Item = char> {
    all().filter_map(|pid| stat(pid, 0)?.chars().next())
}

/// A word of what the kernel says of a process, counted from behind its name: the state, then the parent.
fn stat(pid: i32, word: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let behind = stat.rsplit(')').next()?;
    behind.split_whitespace().nth(word).map(str::to_owned)
}

/// The number of the process outside, where it is to be seen, and is that process.
fn bystander(ground: &Ground) -> Option<i32> {
    let arguments = std::fs::read(format!("/proc/{}/cmdline", ground.bystander)).ok()?;
    String::from_utf8_lossy(&arguments)
        .contains(crate::hostile::BYSTANDER)
        .then_some(ground.bystander)
}

/// A user that runs nothing: what is asked of its processes is allowed, and reaches none.
const NOBODY: u32 = 4_000_000_001;
/// Which signal tells of input.
const F_SETSIG: i32 = 10;

/// Names it as the one who is to be told of input, by a signal that ends it, and then sends some.
fn by_input(ground: &Ground) -> Tried {
    let pid = bystander(ground).ok_or(rustix::io::Errno::SRCH)?;
    let (reader, writer) = std::os::unix::net::UnixStream::pair()?;
    let number = reader.as_raw_fd();
    call!(libc::SYS_fcntl, number, libc::F_SETOWN, pid)?;
    call!(libc::SYS_fcntl, number, F_SETSIG, libc::SIGKILL)?;
    call!(libc::SYS_fcntl, number, libc::F_SETFL, libc::O_ASYNC)?;
    std::io::Write::write_all(&mut &writer, b"x")?;
    Ok("it was told".into())
}

fn by_other_calls(ground: &Ground) -> Tried {
    let pid = bystander(ground).ok_or(rustix::io::Errno::SRCH)?;
    let mut told = [0_u64; 16];
    // Which signal, and that a program sent it by itself.
    told[0] = u64::from(libc::SIGKILL.cast_unsigned());
    told[1] = u64::from(libc::SI_QUEUE.cast_unsigned());
    any(0..5, "call", |which| {
        let sent = match which {
            0 => call!(libc::SYS_tkill, pid, libc::SIGKILL),
            1 => call!(libc::SYS_tgkill, pid, pid, libc::SIGKILL),
            2 => call!(libc::SYS_rt_sigqueueinfo, pid, libc::SIGKILL, &mut told[..]),
            3 => call!(
                libc::SYS_rt_tgsigqueueinfo,
                pid,
                pid,
                libc::SIGKILL,
                &mut told[..]
            ),
            _ => {
                let process = call!(libc::SYS_pidfd_open, pid, 0)?;
                call!(libc::SYS_pidfd_send_signal, process, libc::SIGKILL, NONE, 0)
            }
        };
        may(sent, &[])
    })
}

fn search(bytes: &[u8]) -> Tried {
    match secret_in(&String::from_utf8_lossy(bytes)) {
        Some(secret) => Ok(secret),
        None => blocked("there is none"),
    }
}

fn arguments(_: &Ground) -> Tried {
    let mut all_of_them = Vec::new();
    for pid in all() {
        all_of_them.extend(
            std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"))
                .unwrap_or_default(),
        );
        all_of_them.push(b'\n');
    }
    search(&all_of_them)
}
