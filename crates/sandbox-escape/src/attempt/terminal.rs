//! Terminals, by which characters become commands of whoever sits there.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

use super::{Tried, attempts, may};
use crate::call::call;

/// Puts a character into a terminal as if it had been typed.
const TIOCSTI: u64 = 0x5412;

attempts! {
    "P15" Answer "type into a terminal" "CVE-2017-5226" |_| type_into(&own()?, TIOCSTI);
    "P16" Answer "the same with bits that the kernel ignores" "CVE-2019-10063" |_| type_into(&own()?, TIOCSTI | 1 << 32);
    "P17" Answer "have the terminal of whoever started it" "CVE-2017-5226" |_| {
        File::open("/dev/tty")?;
        Ok("it is there".into())
    };
    "P33" Answer "type into the terminal of whoever started it" "CVE-2017-5226" |_| type_into(&File::open("/dev/tty")?, TIOCSTI);
    "P37" Answer "have a terminal speak a modem's protocol" "CVE-2017-2636" |_| {
        const GSM: u32 = 21;
        let which = GSM.to_ne_bytes();
        may(call!(libc::SYS_ioctl, own()?.as_raw_fd(), libc::TIOCSETD, &which[..]), &[libc::EINVAL])
    };
    "P28" Arrival "write to another terminal of the user" "terminals understand commands" |ground| {
        let mut terminal = OpenOptions::new().write(true).custom_flags(libc::O_NOCTTY).open(&ground.terminal)?;
        terminal.write_all(b"P28")?;
        Ok("it was written".into())
    };
}

fn type_into(terminal: &File, request: u64) -> Tried {
    may(
        call!(libc::SYS_ioctl, terminal.as_raw_fd(), request, c"x"),
        &[],
    )
}

/// A terminal that is this process's own.
fn own() -> std::io::Result<File> {
    const TIOCGPTPEER: u64 = 0x5441;
    let controller =
        rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY)?;
    rustix::pty::unlockpt(&controller)?;
    let _ = rustix::process::setsid();
    let flags = libc::O_RDWR | libc::O_NOCTTY;
    let number = call!(libc::SYS_ioctl, controller.as_raw_fd(), TIOCGPTPEER, flags)?;
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{number}"))?;
    call!(libc::SYS_ioctl, terminal.as_raw_fd(), libc::TIOCSCTTY, 0)?;
    // It lasts as long as its other end is open.
    std::mem::forget(controller);
    Ok(terminal)
}
