//! Capabilities of files, which only the superuser of some namespace can give.

use std::path::Path;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::support::{Ground, LEAST};

/// The number of the capability to give any to files.
const SETFCAP: u32 = 31;

/// Marks a file so that whoever executes it may bind low ports.
fn mark(file: &Path) -> rustix::io::Result<()> {
    const SECOND_FORM: u32 = 0x0200_0000;
    const BIND: u32 = 1 << 10;
    let words = [SECOND_FORM, BIND, 0, 0, 0];
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    rustix::fs::setxattr(file, c"security.capability", &value, XattrFlags::empty())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a process that nobody here watches over"
)]
fn status_of_a_program() -> String {
    let ran = std::process::Command::new("cat")
        .arg("/proc/self/status")
        .output();
    String::from_utf8(ran.expect("there is a cat").stdout).expect("UTF-8")
}

/// Such a file would be to its owner outside what one with set-id bits is.
#[test]
#[expect(clippy::print_stderr, reason = "a test that shows nothing says so")]
fn root_under_a_guard_gives_no_file_a_capability() {
    let ground = Ground::new();
    let file = ground.inside.join("file");
    if let Err(error) = mark(&file) {
        eprintln!("nothing is shown: without a guard no file can be marked here either: {error}");
        return;
    }
    let other = ground.outside.join("file");
    let guard = ground.guard(LEAST);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            guard.put_on().expect("this kernel has it");
            assert_eq!(mark(&other), Err(Errno::PERM));
            // Nor has what it executes, though that is started by root.
            let status = status_of_a_program();
            for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                let line = status.lines().find(|line| line.starts_with(set));
                let value = line.and_then(|line| line.split_whitespace().nth(1));
                let value = u64::from_str_radix(value.expect("a set"), 16).expect("a number");
                assert_eq!(value & (1 << SETFCAP), 0, "{set}");
            }
        });
    });
    let marked = rustix::fs::getxattr(&other, c"security.capability", &mut [0_u8; 64]);
    assert_eq!(marked, Err(Errno::NODATA));
}
