//! Bits and attributes of a file that give away its owner's rights.

use std::path::Path;
use std::process::Stdio;

use super::{Tried, any, attempts, blocked, not_applicable};
use crate::call::{NONE, call};
use crate::ground::Ground;
use crate::hostile::command;

const MODE: u32 = 0o4755;
const SYS_FCHMODAT2: i64 = 452;

attempts! {
    "F29" Answer "gain another user's rights by a set-user-id program" "set-user-id" gain;
    "F37" SetId "leave a set-user-id file: made as one" "F29" |_| made(|at| call!(libc::SYS_openat, libc::AT_FDCWD, at, libc::O_CREAT | libc::O_WRONLY, MODE));
    "F38" SetId "leave one: openat2, whose mode no filter sees" "F29" by_openat2;
    "F41" SetId "leave one: chmod" "F29" |_| made(|at| {
        std::fs::write("set-id", "x")?;
        call!(libc::SYS_fchmodat, libc::AT_FDCWD, at, MODE)
    });
    "F42" SetId "leave one: the newest chmod" "F29" |_| made(|at| {
        std::fs::write("set-id", "x")?;
        call!(SYS_FCHMODAT2, libc::AT_FDCWD, at, MODE, 0)
    });
    "F43" SetId "leave one: mknod" "F29" |_| made(|at| call!(libc::SYS_mknodat, libc::AT_FDCWD, at, libc::S_IFREG | MODE, 0));
    "F49" SetId "leave one: a file without a name that gets one" "F29" by_no_name;
    "F50" Answer "mark a file with capabilities" "F29" capabilities;
}

/// What the helper said when it was started: who it is.
fn gain(ground: &Ground) -> Tried {
    let output = command(ground.readonly.join("helper"))
        .arg("--who")
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match said.split_once(' ') {
        Some((real, effective)) if real != effective => {
            Ok(format!("user {real} is user {effective}"))
        }
        Some(_) => blocked("its bit counts for nothing"),
        None => not_applicable("the helper does not run here"),
    }
}

/// Makes a file in the workspace, which is judged by its mode and taken away outside.
fn made(make: impl Fn(&std::ffi::CStr) -> std::io::Result<i64>) -> Tried {
    let _ = std::fs::remove_file("set-id");
    // With the usual mask that takes nothing of the bits in question.
    make(c"set-id")?;
    Ok("it was left".into())
}

fn by_openat2(_: &Ground) -> Tried {
    made(|at| {
        let flags = (libc::O_CREAT | libc::O_WRONLY).cast_unsigned();
        let mut how = [u64::from(flags), u64::from(MODE), 0];
        let size = size_of_val(&how);
        call!(libc::SYS_openat2, libc::AT_FDCWD, at, &mut how[..], size)
    })
}

fn by_no_name(_: &Ground) -> Tried {
    made(|at| {
        let flags = libc::O_TMPFILE | libc::O_WRONLY;
        let file = call!(libc::SYS_openat, libc::AT_FDCWD, c".", flags, MODE)?;
        let by = std::ffi::CString::new(format!("/proc/self/fd/{file}"))?;
        call!(
            libc::SYS_linkat,
            libc::AT_FDCWD,
            &*by,
            libc::AT_FDCWD,
            at,
            libc::AT_SYMLINK_FOLLOW
        )
    })
}

fn capabilities(_: &Ground) -> Tried {
    let file = Path::new("capable");
    std::fs::write(file, "x")?;
    let mut second = [0_u32; 5];
    second[0] = 0x0200_0001;
    second[1] = 1 << 21;
    let mut third = [0_u32; 6];
    third[0] = 0x0300_0001;
    third[1] = 1 << 21;
    let bytes = |words: &[u32]| {
        words
            .iter()
            .flat_map(|it| it.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    any([bytes(&second), bytes(&third)], "version", |value| {
        call!(
            libc::SYS_setxattr,
            c"capable",
            c"security.capability",
            &value[..],
            value.len(),
            NONE
        )?;
        Ok("it was marked".into())
    })
}
