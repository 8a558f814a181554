//! Attempts at what a guard keeps away: system calls as a hostile program makes them, each of which works for
//! an ordinary user where nothing is kept away.

#![expect(
    unsafe_code,
    reason = "an attempt is a system call as a hostile program makes it"
)]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::support::Ground;

/// Makes a system call, and says what the kernel says.
macro_rules! call {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        // SAFETY: every pointer that is passed is to a live value, or null where the kernel refuses that.
        $crate::calls::answer(unsafe { libc::syscall($number $(, $argument)*) })
    };
}

pub(crate) fn answer(result: i64) -> Result<i64, i32> {
    if result < 0 {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    } else {
        Ok(result)
    }
}

pub(crate) use call;

/// Does something that opens a descriptor, and closes it.
fn closed(result: Result<i64, i32>) -> Result<i64, i32> {
    if let Ok(descriptor) = result {
        let _ = call!(libc::SYS_close, descriptor);
    }
    result
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL")
}

/// This thread, by the number that another process's would have: a filter cannot tell the two apart.
fn own_number() -> i64 {
    call!(libc::SYS_gettid).expect("every thread has one")
}

/// What an attempt must be answered with under a guard.
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    pub(crate) refusal: i32,
    /// Refused by every guard, or only by one that keeps everything away.
    pub(crate) always: bool,
    pub(crate) make: fn(&Ground) -> Result<i64, i32>,
}

const fn attempt(
    name: &'static str,
    refusal: i32,
    make: fn(&Ground) -> Result<i64, i32>,
) -> Attempt {
    Attempt {
        name,
        refusal,
        always: true,
        make,
    }
}

const fn by_spec(
    name: &'static str,
    refusal: i32,
    make: fn(&Ground) -> Result<i64, i32>,
) -> Attempt {
    Attempt {
        always: false,
        ..attempt(name, refusal, make)
    }
}

const AF_VSOCK: i32 = 40;

/// Sockets that every guard keeps away. One that keeps the network away answers as for any socket.
pub(crate) const FAMILIES: &[Attempt] = &[
    attempt(
        "a socket to the hypervisor",
        libc::EPERM,
        |_| match closed(call!(libc::SYS_socket, AF_VSOCK, libc::SOCK_STREAM, 0)) {
            Err(libc::EAFNOSUPPORT) => Ok(0),
            other => other,
        },
    ),
    attempt(
        "the same with bits set that the kernel ignores",
        libc::EPERM,
        |_| {
            let family = 0x1_0000_0000_u64 | 40;
            match closed(call!(libc::SYS_socket, family, libc::SOCK_STREAM, 0)) {
                Err(libc::EAFNOSUPPORT) => Ok(0),
                other => other,
            }
        },
    ),
    attempt(
        "a socket into the kernel's cryptography",
        libc::EPERM,
        |_| match closed(call!(
            libc::SYS_socket,
            libc::AF_ALG,
            libc::SOCK_SEQPACKET,
            0
        )) {
            Err(libc::EAFNOSUPPORT) => Ok(0),
            other => other,
        },
    ),
];

/// Those that an ordinary user can make where nothing is kept away.
pub(crate) const ATTEMPTS: &[Attempt] = &[
    attempt("a user namespace by clone3", libc::ENOSYS, |_| {
        // Of no size, so that a kernel which looks at it refuses it for that.
        match call!(libc::SYS_clone3, std::ptr::null::<u8>(), 0) {
            Err(libc::EINVAL) => Ok(0),
            other => other,
        }
    }),
    attempt(
        "openat2, whose mode no filter can see",
        libc::ENOSYS,
        |_| match call!(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            c".".as_ptr(),
            std::ptr::null::<u8>(),
            0
        ) {
            Err(libc::EINVAL) => Ok(0),
            other => other,
        },
    ),
    attempt("a set-user-id program by chmod", libc::EPERM, |ground| {
        let path = text(&ground.inside.join("file"));
        call!(libc::SYS_fchmodat, libc::AT_FDCWD, path.as_ptr(), 0o4755)
    }),
    attempt(
        "the same by the newest call of that kind",
        libc::EPERM,
        |ground| {
            let path = text(&ground.inside.join("file"));
            match call!(452, libc::AT_FDCWD, path.as_ptr(), 0o2755, 0) {
                Err(libc::ENOSYS) => {
                    call!(libc::SYS_fchmodat, libc::AT_FDCWD, path.as_ptr(), 0o2755)
                }
                other => other,
            }
        },
    ),
    attempt(
        "a set-user-id file that is made as one",
        libc::EPERM,
        |ground| {
            let path = text(&ground.inside.join("made"));
            let flags = libc::O_CREAT | libc::O_WRONLY;
            closed(call!(
                libc::SYS_openat,
                libc::AT_FDCWD,
                path.as_ptr(),
                flags,
                0o4755
            ))
        },
    ),
    attempt("a set-user-id file without a name", libc::EPERM, |ground| {
        let path = text(&ground.inside);
        let flags = libc::O_TMPFILE | libc::O_WRONLY;
        match closed(call!(
            libc::SYS_openat,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            0o4755
        )) {
            // Not every file system has them; a guard does not ask it.
            Err(libc::EOPNOTSUPP) => Ok(0),
            other => other,
        }
    }),
    attempt("a set-user-id node", libc::EPERM, |ground| {
        let path = text(&ground.inside.join("node"));
        call!(
            libc::SYS_mknodat,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::S_IFREG | 0o4755,
            0
        )
    }),
    attempt("the keys of the user", libc::EPERM, |_| {
        const GET_KEYRING_ID: i32 = 0;
        const PROCESS_KEYRING: i32 = -2;
        match call!(libc::SYS_keyctl, GET_KEYRING_ID, PROCESS_KEYRING, 1) {
            Err(libc::ENOSYS) => Err(libc::EPERM),
            other => other,
        }
    }),
    attempt("work past the filters", libc::EPERM, |_| {
        // No parameters, which a kernel that has this refuses for that; others were built without it.
        match call!(libc::SYS_io_uring_setup, 0, std::ptr::null::<u8>()) {
            Err(libc::EFAULT | libc::EINVAL | libc::ENOSYS) => Ok(0),
            other => other,
        }
    }),
    attempt("characters as if typed", libc::EPERM, |_| {
        // No terminal; whether the request is known is asked first of all.
        match call!(libc::SYS_ioctl, 0, 0x5412_u64, c"x".as_ptr()) {
            Err(libc::ENOTTY | libc::EBADF | libc::EIO) => Ok(0),
            other => other,
        }
    }),
    attempt(
        "the same with bits set that the kernel ignores",
        libc::EPERM,
        |_| match call!(libc::SYS_ioctl, 0, 0x1_0000_5412_u64, c"x".as_ptr()) {
            Err(libc::ENOTTY | libc::EBADF | libc::EIO) => Ok(0),
            other => other,
        },
    ),
    attempt("another process's limits", libc::EPERM, |_| {
        let pid = own_number();
        let none = std::ptr::null::<u8>();
        call!(libc::SYS_prlimit64, pid, libc::RLIMIT_NOFILE, none, none)
    }),
    attempt("another process's priority", libc::EPERM, |_| {
        call!(libc::SYS_setpriority, libc::PRIO_PROCESS, own_number(), 0).or_else(|error| {
            if error == libc::EPERM {
                Err(error)
            } else {
                Ok(0)
            }
        })
    }),
    attempt("another process's scheduling", libc::EPERM, |_| {
        let priority = 0_i32;
        let pid = own_number();
        call!(
            libc::SYS_sched_setscheduler,
            pid,
            libc::SCHED_OTHER,
            &raw const priority
        )
    }),
    attempt("another process's input and output", libc::EPERM, |_| {
        const BEST_EFFORT_4: i32 = (2 << 13) | 4;
        call!(libc::SYS_ioprio_set, 1, own_number(), BEST_EFFORT_4)
    }),
    by_spec("a socket of the network", libc::EAFNOSUPPORT, |_| {
        closed(call!(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0))
    }),
    by_spec(
        "a socket of datagrams, which names its receiver unseen",
        libc::EAFNOSUPPORT,
        |_| {
            closed(call!(
                libc::SYS_socket,
                libc::AF_UNIX,
                libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
                0
            ))
        },
    ),
    by_spec("the same by its other name", libc::EAFNOSUPPORT, |_| {
        closed(call!(libc::SYS_socket, libc::AF_UNIX, libc::SOCK_RAW, 0))
    }),
    by_spec("the same as a pair", libc::EAFNOSUPPORT, |_| {
        let mut pair = [0_i32; 2];
        let made = call!(
            libc::SYS_socketpair,
            libc::AF_UNIX,
            libc::SOCK_DGRAM,
            0,
            pair.as_mut_ptr()
        );
        if made.is_ok() {
            for descriptor in pair {
                let _ = call!(libc::SYS_close, descriptor);
            }
        }
        made
    }),
    by_spec("a connection", libc::EPERM, |_| {
        match call!(libc::SYS_connect, -1, std::ptr::null::<u8>(), 0) {
            Err(libc::EBADF) => Ok(0),
            other => other,
        }
    }),
    by_spec("a message to a name", libc::EPERM, |_| {
        let name = [0_u8; 16];
        match call!(libc::SYS_sendto, -1, name.as_ptr(), 1, 0, name.as_ptr(), 16) {
            Err(libc::EBADF) => Ok(0),
            other => other,
        }
    }),
    by_spec("shared memory of the user", libc::EPERM, |_| {
        let made = call!(libc::SYS_shmget, libc::IPC_PRIVATE, 4096, 0o600);
        if let Ok(memory) = made {
            let _ = call!(
                libc::SYS_shmctl,
                memory,
                libc::IPC_RMID,
                std::ptr::null::<u8>()
            );
        }
        made
    }),
    by_spec("semaphores that somebody else made", libc::EPERM, |_| {
        let wait = [0_i16; 3];
        match call!(libc::SYS_semop, -1, wait.as_ptr(), 1) {
            Err(libc::EINVAL | libc::EFBIG) => Ok(0),
            other => other,
        }
    }),
    by_spec(
        "a message to a queue that somebody else made",
        libc::EPERM,
        |_| {
            let message = [1_i64, 0];
            match call!(libc::SYS_msgsnd, -1, message.as_ptr(), 8, libc::IPC_NOWAIT) {
                Err(libc::EINVAL) => Ok(0),
                other => other,
            }
        },
    ),
    by_spec("removing a queue by its name", libc::EPERM, |_| {
        match call!(libc::SYS_mq_unlink, c"no-such-queue".as_ptr()) {
            Err(libc::ENOENT) => Ok(0),
            other => other,
        }
    }),
    by_spec("writing elsewhere", libc::EACCES, |ground| {
        let path = text(&ground.outside.join("file"));
        closed(call!(
            libc::SYS_openat,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::O_WRONLY,
            0
        ))
    }),
    by_spec("shortening elsewhere", libc::EACCES, |ground| {
        let path = text(&ground.outside.join("file"));
        call!(libc::SYS_truncate, path.as_ptr(), 3)
    }),
    by_spec("making a file elsewhere", libc::EACCES, |ground| {
        let path = text(&ground.outside.join("new"));
        let flags = libc::O_CREAT | libc::O_WRONLY;
        closed(call!(
            libc::SYS_openat,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            0o600
        ))
    }),
    by_spec("making a directory elsewhere", libc::EACCES, |ground| {
        let path = text(&ground.outside.join("new-directory"));
        call!(libc::SYS_mkdirat, libc::AT_FDCWD, path.as_ptr(), 0o700)
    }),
    by_spec("a name for a file from elsewhere", libc::EXDEV, |ground| {
        let from = text(&ground.outside.join("file"));
        let to = text(&ground.inside.join("linked"));
        call!(
            libc::SYS_linkat,
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            0
        )
    }),
    by_spec("moving a file there", libc::EACCES, |ground| {
        let from = text(&ground.inside.join("file"));
        let to = text(&ground.outside.join("moved"));
        call!(
            libc::SYS_renameat,
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr()
        )
    }),
    by_spec("removing elsewhere", libc::EACCES, |ground| {
        let path = text(&ground.outside.join("file"));
        call!(libc::SYS_unlinkat, libc::AT_FDCWD, path.as_ptr(), 0)
    }),
];
