//! What does the verbs and runs the commands, which this program is a child of.

use std::fs::OpenOptions;
use std::path::PathBuf;

use rustix::process::{Pid, Signal};

use super::files::writable;
use super::processes::engine_pids;
use super::{Tried, any, attempts, may, not_applicable};
use crate::call::{NONE, call};
use crate::ground::Ground;

/// What every one of these is tried on.
const WHO: &str = "engine to be seen";

attempts! {
    "P01" Engine "kill the engine" "process 1 of a container" |ground| signal(ground, &[Signal::KILL]);
    "P02" Engine "stop the engine" "process 1 of a container" |ground| signal(ground, &[Signal::STOP, Signal::TSTP]);
    "P03" Engine "end the engine by other signals" "process 1 of a container" |ground| signal(
        ground, &[Signal::HUP, Signal::INT, Signal::USR1, Signal::ABORT, Signal::SEGV, Signal::PIPE, Signal::TERM]);
    "P04" Answer "trace the engine" "ptrace" |ground| any(engine_pids(ground), WHO, |pid| {
        const SEIZE: i32 = 0x4206;
        may(call!(libc::SYS_ptrace, SEIZE, pid, NONE, NONE), &[])
    });
    "P05" Answer "write the engine's memory" "ptrace" |ground| any(engine_pids(ground), WHO, |pid| file(pid, "mem"));
    "P06" Answer "read the engine's memory" "ptrace" read_memory;
    "P07" Answer "take a descriptor from the engine" "pidfd_getfd" take_descriptor;
    "P08" Answer "open what the engine writes its answers to" "forged answers" |ground| any(engine_pids(ground), WHO, |pid| file(pid, "fd/1"));
    "P09" Answer "open what the engine reads its requests from" "forged answers" |ground| any(engine_pids(ground), WHO, |pid| file(pid, "fd/0"));
    "P10" Answer "read the engine's environment" "secrets" |ground| any(engine_pids(ground), WHO, |pid| {
        let size = std::fs::read(format!("/proc/{pid}/environ"))?.len();
        Ok(format!("{size} bytes"))
    });
    "P23" Answer "read the engine's limits" "resources" |ground| any(engine_pids(ground), WHO, |pid| {
        let mut room = [0_u64; 2];
        may(call!(libc::SYS_prlimit64, pid, libc::RLIMIT_NOFILE, NONE, &mut room[..]), &[])
    });
    "P23b" Answer "set the engine's limits" "resources" |ground| any(engine_pids(ground), WHO, |pid| {
        // Two of its limits, told apart by nobody, become what every process here has.
        let mut same = [0_u64; 2];
        call!(libc::SYS_prlimit64, 0, libc::RLIMIT_CORE, NONE, &mut same[..])?;
        may(call!(libc::SYS_prlimit64, pid, libc::RLIMIT_CORE, &mut same[..], NONE), &[])
    });
    "P24" Answer "make the engine the first to go where memory is short" "resources" |ground| any(engine_pids(ground), WHO, |pid| file(pid, "oom_score_adj"));
    "P25" Answer "set the engine's priority" "resources" |ground| any(engine_pids(ground), WHO, |pid| {
        let own = 20 - call!(libc::SYS_getpriority, libc::PRIO_PROCESS, pid)?;
        may(call!(libc::SYS_setpriority, libc::PRIO_PROCESS, pid, own), &[])
    });
    "P27" Answer "set which processors the engine runs on" "resources" |ground| any(engine_pids(ground), WHO, |pid| {
        let mut same = [0_u8; 128];
        let size = call!(libc::SYS_sched_getaffinity, pid, 128, &mut same[..])?;
        may(call!(libc::SYS_sched_setaffinity, pid, size, &same[..]), &[])
    });
    "L04" Engine "kill everything that can be signalled" "kill -9 -1" |ground| {
        if !ground.everybody {
            return not_applicable("whoever drives this column would be killed");
        }
        may(call!(libc::SYS_kill, -1, libc::SIGKILL), &[])
    };
    "P29" Answer "set how the engine is scheduled" "resources" |ground| any(engine_pids(ground), WHO, |pid| {
        let priority = 0_u32.to_ne_bytes();
        may(call!(libc::SYS_sched_setscheduler, pid, libc::SCHED_OTHER, &priority[..]), &[])
    });
}

/// Sends all of them to all of it; the outside sees what became of it.
fn signal(ground: &Ground, signals: &[Signal]) -> Tried {
    // The farthest first: what is nearer may be what this program needs to go on.
    let all = engine_pids(ground)
        .into_iter()
        .rev()
        .filter_map(Pid::from_raw);
    let mut tried = any(Vec::<Pid>::new(), WHO, |_| Ok(String::new()));
    for (pid, signal) in all.flat_map(|pid| signals.iter().map(move |signal| (pid, *signal))) {
        match rustix::process::kill_process(pid, signal) {
            Ok(()) => tried = Ok("they were sent".into()),
            Err(error) if tried.is_err() => tried = Err(error.into()),
            Err(_) => {}
        }
    }
    tried
}

/// Opens a file of a process for writing, or for reading where it is what is read from.
fn file(pid: i32, name: &str) -> Tried {
    let path = PathBuf::from(format!("/proc/{pid}/{name}"));
    if name == "fd/0" {
        OpenOptions::new().read(true).open(&path)?;
        return Ok(format!("{} can be read", path.display()));
    }
    writable(&path)
}

/// One word of its memory, wherever the kernel says that some lies.
fn read_memory(ground: &Ground) -> Tried {
    any(engine_pids(ground), WHO, |pid| {
        let mut byte = [0_u8; 1];
        let here = [byte.as_mut_ptr().expose_provenance() as u64, 1];
        // An address that nothing lies at: who may look is told so.
        let there = [8_u64, 1];
        let (mut here, mut there) = (here, there);
        may(
            call!(
                libc::SYS_process_vm_readv,
                pid,
                &mut here[..],
                1,
                &mut there[..],
                1,
                0
            ),
            &[libc::EFAULT],
        )
    })
}

fn take_descriptor(ground: &Ground) -> Tried {
    any(engine_pids(ground), WHO, |pid| {
        let process = call!(libc::SYS_pidfd_open, pid, 0)?;
        may(call!(libc::SYS_pidfd_getfd, process, 1, 0), &[libc::EBADF])
    })
}
