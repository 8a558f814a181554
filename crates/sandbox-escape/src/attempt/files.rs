//! Files that lie outside of every root, or may only be read.

use std::ffi::CString;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::{Tried, any, attempts, blocked, may};
use crate::attempt::processes::{engine_pids, others};
use crate::call::{NONE, call};
use crate::ground::{Ground, SECRET};

attempts! {
    "F01" Secret "read a secret by its absolute path" "baseline" |ground| read(&ground.secret);
    "F02" Secret "read it by `..` from the workspace" "CVE-2001-1267 and its kind" read_by_dots;
    "F03" Secret "read it through a link planted in the workspace" "CVE-2024-42472" read_by_link;
    "F04" Answer "write to a file of a read-only mount" "baseline" |ground| writable(&ground.readonly.join("file"));
    "F06" Answer "change mode or times of a file of a read-only mount" "bwrap as root" change_attributes;
    "F07" Answer "write to it by a hard link in the workspace" "baseline" write_by_hard_link;
    "F17" Answer "open the engine's executable for writing by its process" "CVE-2019-5736" write_engine_by_process;
    "F18" Answer "inherit a descriptor of the outside" "CVE-2024-21626" inherited;
    "F19" Secret "walk to the secret by another process's root" "nsjail, Kubernetes" |ground| by_others(ground, "root");
    "F20" Secret "walk to it by another process's directory" "CVE-2024-21626" |ground| by_others(ground, "cwd");
    "F30" Answer "read the machine's passwords" "baseline" |_| opened(Path::new("/etc/shadow"));
    "F33" Residue "put another engine in the engine's place" "a swapped engine" swap_engine;
    "F34" Residue "leave a settings file beside the workspace that the next session trusts" "CVE-2026-25725" leave_settings;
    "F35" Residue "leave a file in the machine's /tmp or /dev/shm" "shared /dev/shm" leave_in_tmp;
    "F36" Answer "write by another process's mapped files" "procfs" write_mapped;
    "F44" Residue "shorten a file outside" "baseline" |ground| shorten(&ground.outside);
    "F45" Residue "put another file in its place" "baseline" replace;
    "F46" Residue "remove it" "baseline" |ground| removed(&ground.outside);
    "F47" Residue "change what its mode allows" "Landlock has no right for it" change_mode;
    "F52" Answer "give a file outside an attribute" "Landlock has no right for it" |ground| {
        let path = text(&ground.outside)?;
        may(call!(libc::SYS_setxattr, &*path, c"user.spp-escape", c"x", 1, 0), &[libc::EOPNOTSUPP])
    };
    "F53" Arrival "write into a FIFO outside" "baseline" |ground| {
        std::fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&ground.fifo)?.write_all(b"F53")?;
        Ok("it was written".into())
    };
    "F54" Answer "set flags of a file outside, which is open for reading" "Landlock has no right for it" file_flags;
    "F55" Residue "make a directory, a link or a FIFO outside" "baseline" make_outside;
    "F56" Secret "read a file of the workspace that the policy hides" "settings with credentials" |_| any(
        HIDDEN, "such file", |path| read(Path::new(path)));
    "F57" Secret "read it under another name" "settings with credentials" hidden_by_another_name;
    "F58" Residue "change it, or put another in its place" "settings with credentials" change_hidden;
    "F10" Answer "open a directory by its file system's number" "Shocker (docker, 2014)" by_number;
}

/// What the policy hides where it can, relative to the workspace: a file, and one in a directory that is hidden.
pub const HIDDEN: [&str; 2] = ["hidden-file", "hidden/file"];

/// What a file holds.
fn read(path: &Path) -> Tried {
    Ok(std::fs::read_to_string(path)?)
}

fn opened(path: &Path) -> Tried {
    File::open(path)?;
    Ok("it can be read".into())
}

/// Opens something for writing, and does not write.
pub(super) fn writable(path: &Path) -> Tried {
    match OpenOptions::new().write(true).open(path) {
        Ok(_) => Ok(format!("{} can be written", path.display())),
        // Whether it may be is asked first.
        Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) => {
            Ok(format!("{} can be written once it ends", path.display()))
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) fn text(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn read_by_dots(ground: &Ground) -> Tried {
    let name = ground.secret.file_name().unwrap_or_default();
    let far = PathBuf::from("../".repeat(32));
    let absolute = ground.secret.strip_prefix("/").unwrap_or(&ground.secret);
    any(
        [Path::new("..").join(name), far.join(absolute)],
        "way",
        |path| read(&path),
    )
}

fn read_by_link(ground: &Ground) -> Tried {
    let link = Path::new("planted");
    let _ = std::fs::remove_file(link);
    std::os::unix::fs::symlink(&ground.secret, link)?;
    let had = read(link);
    std::fs::remove_file(link)?;
    had
}

fn change_attributes(ground: &Ground) -> Tried {
    let file = ground.readonly.join("file");
    let same = std::fs::metadata(&file)?;
    let mode = Permissions::from_mode(same.permissions().mode() & 0o777);
    let times = || {
        let path = text(&file)?;
        // Now: the owner may, and whoever may write.
        call!(libc::SYS_utimensat, libc::AT_FDCWD, &*path, NONE, 0)
    };
    std::fs::set_permissions(&file, mode).or_else(|_| times().map(drop))?;
    Ok("they were set to what they are".into())
}

fn write_by_hard_link(ground: &Ground) -> Tried {
    let link = Path::new("linked");
    let _ = std::fs::remove_file(link);
    std::fs::hard_link(ground.readonly.join("file"), link)?;
    let had = writable(link);
    std::fs::remove_file(link)?;
    had
}

fn write_engine_by_process(ground: &Ground) -> Tried {
    any(engine_pids(ground), "engine to be seen", |pid| {
        writable(&PathBuf::from(format!("/proc/{pid}/exe")))
    })
}

fn inherited(_: &Ground) -> Tried {
    let names = std::fs::read_dir("/proc/self/fd")?;
    let mut found = Vec::new();
    for entry in names.flatten() {
        let leads = std::fs::read_link(entry.path()).unwrap_or_default();
        let number: i32 = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        // The listing itself is one, and is no longer there.
        if number > 2 && !leads.starts_with("/proc") {
            found.push(format!("{number} -> {}", leads.display()));
        }
    }
    if found.is_empty() {
        return blocked("three descriptors, and no others");
    }
    Ok(found.join(", "))
}

fn by_others(ground: &Ground, what: &str) -> Tried {
    let absolute = ground.secret.strip_prefix("/").unwrap_or(&ground.secret);
    any(others(ground), "other process", |pid| {
        let start = PathBuf::from(format!("/proc/{pid}/{what}"));
        let up = if what == "cwd" {
            "../".repeat(32)
        } else {
            String::new()
        };
        read(&start.join(up).join(absolute))
    })
}

fn swap_engine(ground: &Ground) -> Tried {
    let directory = ground.engine.parent().unwrap_or(Path::new("/"));
    std::fs::write(directory.join("left-F33"), "x")?;
    Ok("beside it can be written".into())
}

fn leave_settings(ground: &Ground) -> Tried {
    let own = || std::fs::write("../left-F34", "x");
    std::fs::write(ground.beside.join("left-F34"), "x").or_else(|_| own())?;
    Ok("it was left".into())
}

fn leave_in_tmp(ground: &Ground) -> Tried {
    // The driver's number makes the name this run's.
    let name = format!("spp-escape-{}", ground.driver);
    any(
        ["/tmp", "/dev/shm", "/var/tmp"],
        "such directory",
        |directory| {
            std::fs::write(Path::new(directory).join(&name), "x")?;
            Ok(format!("{directory} took it"))
        },
    )
}

fn write_mapped(ground: &Ground) -> Tried {
    any(others(ground), "other process", |pid| {
        let maps = std::fs::read_dir(format!("/proc/{pid}/map_files"))?;
        any(maps.flatten(), "mapped file", |file| writable(&file.path()))
    })
}

fn shorten(path: &Path) -> Tried {
    let path = text(path)?;
    call!(libc::SYS_truncate, &*path, 1)?;
    Ok("it is shorter".into())
}

fn replace(ground: &Ground) -> Tried {
    let own = Path::new("replacement");
    std::fs::write(own, "replaced")?;
    std::fs::rename(own, &ground.outside)?;
    Ok("it is another".into())
}

fn removed(path: &Path) -> Tried {
    std::fs::remove_file(path)?;
    Ok("it is gone".into())
}

fn change_mode(ground: &Ground) -> Tried {
    std::fs::set_permissions(&ground.outside, Permissions::from_mode(0o666))?;
    Ok("everybody may".into())
}

/// Gives it the flags that it has.
fn file_flags(ground: &Ground) -> Tried {
    const GET_FLAGS: u64 = 0x8008_6601;
    const SET_FLAGS: u64 = 0x4008_6602;
    let file = File::open(&ground.outside)?;
    let mut flags = [0_u8; 8];
    call!(libc::SYS_ioctl, file.as_raw_fd(), GET_FLAGS, &mut flags[..])?;
    may(
        call!(libc::SYS_ioctl, file.as_raw_fd(), SET_FLAGS, &flags[..]),
        &[],
    )
}

fn make_outside(ground: &Ground) -> Tried {
    let at = text(&ground.beside.join("left-F55"))?;
    any(0..3, "kind", |kind| {
        match kind {
            0 => call!(libc::SYS_mkdirat, libc::AT_FDCWD, &*at, 0o700)?,
            1 => call!(libc::SYS_symlinkat, c"/", libc::AT_FDCWD, &*at)?,
            _ => call!(
                libc::SYS_mknodat,
                libc::AT_FDCWD,
                &*at,
                libc::S_IFIFO | 0o600,
                0
            )?,
        };
        Ok("it was made".into())
    })
}

fn hidden_by_another_name(_: &Ground) -> Tried {
    let fresh = || {
        let _ = std::fs::remove_file("another-name");
    };
    fresh();
    let by_link = |path: &str| {
        std::fs::hard_link(path, "another-name")?;
        read(Path::new("another-name"))
    };
    let by_descriptor = |path: &str| {
        let found = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(path)?;
        read(Path::new(&format!("/proc/self/fd/{}", found.as_raw_fd())))
    };
    let had = any(HIDDEN, "such file", |path| {
        by_link(path).or_else(|_| by_descriptor(path))
    });
    fresh();
    had
}

fn change_hidden(_: &Ground) -> Tried {
    any(HIDDEN, "such file", |path| {
        std::fs::write("replacement", "replaced")?;
        std::fs::rename("replacement", path)
            .or_else(|_| std::fs::write(path, "replaced"))
            .or_else(|_| std::fs::remove_file(path))
            .or_else(|_| std::fs::rename("hidden", "moved"))?;
        Ok("it is another".into())
    })
}

/// A handle of a name, and that handle opened: past every directory on the way to it.
fn by_number(_: &Ground) -> Tried {
    const ROOM: u32 = 128;
    let mut handle = [0_u8; 8 + ROOM as usize];
    handle[..4].copy_from_slice(&ROOM.to_ne_bytes());
    let mut mount = [0_u8; 8];
    call!(
        libc::SYS_name_to_handle_at,
        libc::AT_FDCWD,
        c".",
        &mut handle[..],
        &mut mount[..],
        0
    )?;
    call!(
        libc::SYS_open_by_handle_at,
        libc::AT_FDCWD,
        &handle[..],
        libc::O_RDONLY
    )?;
    Ok("it was opened".into())
}

/// What of some text is a secret.
pub(super) fn secret_in(text: &str) -> Option<String> {
    let start = text.find(SECRET)?;
    let rest = &text[start..];
    let end = rest
        .find(|it: char| !it.is_ascii_alphanumeric() && it != '-')
        .unwrap_or(rest.len());
    Some(rest[..end].to_owned())
}
