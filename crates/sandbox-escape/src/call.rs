//! System calls as a hostile program makes them: by number, with whatever arguments.
//!
//! Everything that the kernel reads or writes is borrowed for the length of the call. What starts a process
//! has a function of its own.

#![expect(
    unsafe_code,
    reason = "an attempt is a system call that no library offers, or with arguments that none would pass"
)]

use std::ffi::CStr;
use std::io;
use std::marker::PhantomData;

/// An argument of a system call, which lives as long as what it points to.
#[derive(Clone, Copy)]
pub(crate) struct Argument<'live>(i64, PhantomData<&'live mut [u8]>);

/// A null pointer.
pub(crate) const NONE: i32 = 0;

impl From<i32> for Argument<'_> {
    fn from(number: i32) -> Self {
        Argument(number.into(), PhantomData)
    }
}

impl From<u32> for Argument<'_> {
    fn from(number: u32) -> Self {
        Argument(number.into(), PhantomData)
    }
}

impl From<i64> for Argument<'_> {
    fn from(number: i64) -> Self {
        Argument(number, PhantomData)
    }
}

impl From<u64> for Argument<'_> {
    fn from(number: u64) -> Self {
        Argument(number.cast_signed(), PhantomData)
    }
}

impl From<usize> for Argument<'_> {
    fn from(number: usize) -> Self {
        Argument(number.cast_signed() as i64, PhantomData)
    }
}

impl<'live> From<&'live CStr> for Argument<'live> {
    fn from(text: &'live CStr) -> Self {
        text.as_ptr().expose_provenance().into()
    }
}

impl<'live> From<&'live [u8]> for Argument<'live> {
    fn from(bytes: &'live [u8]) -> Self {
        bytes.as_ptr().expose_provenance().into()
    }
}

impl<'live> From<&'live mut [u8]> for Argument<'live> {
    fn from(room: &'live mut [u8]) -> Self {
        room.as_mut_ptr().expose_provenance().into()
    }
}

impl<'live> From<&'live mut [u64]> for Argument<'live> {
    fn from(room: &'live mut [u64]) -> Self {
        room.as_mut_ptr().expose_provenance().into()
    }
}

/// Makes a system call; what it returned, or what the kernel says. What it points to is as long as the
/// kernel takes it to be.
pub(crate) fn system_call<const N: usize>(
    number: i64,
    arguments: [Argument<'_>; N],
) -> io::Result<i64> {
    let mut all = [0_i64; 6];
    for (place, argument) in all.iter_mut().zip(arguments) {
        *place = argument.0;
    }
    let [a, b, c, d, e, f] = all;
    // SAFETY: what is pointed to is borrowed for this call by the arguments' type, or null.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Makes a system call: `call!(NUMBER, ARGUMENTS...)`.
macro_rules! call {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        $crate::call::system_call($number, [$($crate::call::Argument::from($argument)),*])
    };
}
pub(crate) use call;

/// Makes one that starts a process, which ends at once and is waited for.
pub(crate) fn born<const N: usize>(number: i64, arguments: [Argument<'_>; N]) -> io::Result<()> {
    let child = system_call(number, arguments)?;
    if child == 0 {
        // SAFETY: this is the copy, which does nothing else.
        unsafe { libc::_exit(0) };
    }
    wait(child);
    Ok(())
}

/// Waits for a process that was started.
pub(crate) fn wait(child: impl Into<Argument<'static>>) {
    let _ = system_call(
        libc::SYS_wait4,
        [child.into(), NONE.into(), 0.into(), NONE.into()],
    );
}

/// Starts a copy of this process, which has one thread only: it does the work and ends.
pub(crate) fn copy(work: impl FnOnce()) -> io::Result<i32> {
    // SAFETY: nobody else here holds a lock that the copy could wait for.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        work();
        // SAFETY: the copy ends without running anything of the original's.
        unsafe { libc::_exit(0) };
    }
    Ok(child)
}

/// Has a signal do nothing to this process and what it starts.
pub(crate) fn ignore(signal: i32) {
    // SAFETY: no handler is set that could run.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Makes a user namespace by the door for 32-bit programs, whose numbers are others. What was answered, as
/// the kernel gives it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn unshare_by_the_old_door() -> i64 {
    const UNSHARE: i64 = 310;
    let result: i64;
    // SAFETY: the kernel takes numbers only and touches no memory; `rbx` is put back.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {flags:r}",
            "int 0x80",
            "xchg rbx, {flags:r}",
            flags = inout(reg) i64::from(libc::CLONE_NEWUSER) => _,
            inlateout("rax") UNSHARE => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    i64::from(i32::from_ne_bytes(
        result.to_ne_bytes()[..4].try_into().unwrap_or_default(),
    ))
}

/// Reads a byte string from shared memory of System V: at most this many bytes, up to a NUL.
pub(crate) fn attached(segment: i64, most: usize) -> io::Result<Vec<u8>> {
    let address = call!(libc::SYS_shmat, segment, NONE, libc::SHM_RDONLY)?;
    let start = std::ptr::with_exposed_provenance::<u8>(pointer(address)?);
    // SAFETY: it was mapped just now, at least a page of it, and stays.
    let bytes = unsafe { std::slice::from_raw_parts(start, most.min(4096)) };
    Ok(bytes
        .iter()
        .copied()
        .take_while(|byte| *byte != 0)
        .collect())
}

/// Makes shared memory of System V under a key, for this user alone, that holds some bytes and a NUL.
pub(crate) fn share(key: i32, bytes: &[u8]) -> io::Result<i64> {
    const SIZE: usize = 4096;
    let segment = call!(
        libc::SYS_shmget,
        key,
        SIZE,
        libc::IPC_CREAT | libc::IPC_EXCL | 0o600
    )?;
    let address = call!(libc::SYS_shmat, segment, NONE, 0)?;
    let start = std::ptr::with_exposed_provenance_mut::<u8>(pointer(address)?);
    let count = bytes.len().min(SIZE - 1);
    // SAFETY: a page was mapped just now, writable and full of zeros, and nobody else has a name for it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, count) };
    call!(libc::SYS_shmdt, address)?;
    Ok(segment)
}

/// An address that the kernel gave as a number.
fn pointer(address: i64) -> io::Result<usize> {
    usize::try_from(address).map_err(io::Error::other)
}
