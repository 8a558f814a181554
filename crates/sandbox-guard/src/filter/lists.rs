//! System calls that are refused whatever their arguments are.
//!
//! Each group says what it would be good for. Numbers that the C library does not know yet are the kernel's
//! own, which are the same for every processor from 424 on.

use libc::{
    SYS_acct, SYS_add_key, SYS_adjtimex, SYS_bpf, SYS_chroot, SYS_clock_adjtime, SYS_clock_settime,
    SYS_clone3, SYS_delete_module, SYS_fanotify_init, SYS_finit_module, SYS_fsconfig, SYS_fsmount,
    SYS_fsopen, SYS_fspick, SYS_init_module, SYS_io_uring_enter, SYS_io_uring_register,
    SYS_io_uring_setup, SYS_kcmp, SYS_kexec_file_load, SYS_kexec_load, SYS_keyctl,
    SYS_lookup_dcookie, SYS_migrate_pages, SYS_mount, SYS_move_mount, SYS_move_pages,
    SYS_nfsservctl, SYS_open_by_handle_at, SYS_open_tree, SYS_openat2, SYS_perf_event_open,
    SYS_pivot_root, SYS_process_vm_writev, SYS_quotactl, SYS_reboot, SYS_request_key,
    SYS_setdomainname, SYS_sethostname, SYS_setns, SYS_settimeofday, SYS_swapoff, SYS_swapon,
    SYS_syslog, SYS_umount2, SYS_userfaultfd, SYS_vhangup,
};
use seccompiler::{BpfProgram, sock_filter};

const SYS_MOUNT_SETATTR: i64 = 442;
const SYS_QUOTACTL_FD: i64 = 443;
const SYS_OPEN_TREE_ATTR: i64 = 467;

/// Refused, on every processor.
pub(super) const NEVER: &[i64] = &[
    // What is seen of the file system, by which everything else is kept apart.
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_MOUNT_SETATTR,
    SYS_setns,
    // Files by number, past every directory.
    SYS_open_by_handle_at,
    // Work that the kernel does for a process past these filters.
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    // Parts of the kernel that were the way in more often than they were of use to a tool.
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_fanotify_init,
    SYS_lookup_dcookie,
    SYS_nfsservctl,
    // Keys belong to a user and know no sandbox.
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    // The machine itself.
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_swapon,
    SYS_swapoff,
    SYS_reboot,
    SYS_syslog,
    SYS_acct,
    SYS_quotactl,
    SYS_QUOTACTL_FD,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_vhangup,
    // Other processes. (Tracing one's own children stays: debuggers need it.)
    SYS_kcmp,
    SYS_move_pages,
    SYS_migrate_pages,
    SYS_process_vm_writev,
];

/// Refused, where this processor has them.
#[cfg(target_arch = "x86_64")]
pub(super) const NEVER_HERE: &[i64] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_uselib,
    libc::SYS__sysctl,
];
/// Refused, where this processor has them.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const NEVER_HERE: &[i64] = &[];

/// What processes of one user share by numbers and names of its own, which no Landlock domain knows of.
/// Numbers can be guessed, so that using is refused as making is.
pub(super) const OF_A_USER: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Answered as if the kernel were older: what they would do lies behind a pointer, where no filter can see
/// it. The C library and everybody else then falls back to `clone` and `openat`.
pub(super) const UNKNOWN: &[i64] = &[SYS_clone3, SYS_openat2];

/// Answers as unknown every number of the third numbering of x86-64, which is the second with one bit set:
/// the other programs see the same architecture, and a number that none of them lists.
pub(super) fn third_numbering() -> BpfProgram {
    const FIRST: u32 = 0x4000_0000;
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ANSWER_ENOSYS: u32 = 0x0005_0000 | libc::ENOSYS.unsigned_abs();
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        step(LOAD_NUMBER, 0, 0, 0),
        step(JUMP_IF_AT_LEAST, 0, 1, FIRST),
        step(RETURN, 0, 0, ANSWER_ENOSYS),
        step(RETURN, 0, 0, ALLOW),
    ]
}
