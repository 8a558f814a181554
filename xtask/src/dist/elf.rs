//! What an ELF executable says about itself: what it needs to be started, and what it carries.

use object::elf::PT_INTERP;
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, Object as _};

use crate::error::{Context as _, Result};

/// The facts that decide whether an executable starts anywhere.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// The dynamic loader it asks the kernel for, if any.
    pub(super) interpreter: Option<String>,
    /// The shared libraries it asks the loader for.
    pub(super) libraries: Vec<String>,
    /// Whether it still has its symbol table.
    pub(super) has_symbols: bool,
}

/// Examines the bytes of an executable.
///
/// A static-pie executable has a dynamic section, for relocating itself: only an interpreter or a
/// needed library makes one dynamic.
///
/// # Errors
///
/// When they are not a 64-bit ELF file, or one that contradicts itself.
pub(super) fn examine(bytes: &[u8]) -> Result<Facts> {
    let reading = || "read it as a 64-bit ELF executable".to_owned();
    let file = ElfFile64::<Endianness>::parse(bytes).context(reading)?;
    let endian = file.endian();
    let mut facts = Facts {
        interpreter: None,
        libraries: Vec::new(),
        has_symbols: file.symbol_table().is_some(),
    };
    for header in file.elf_program_headers() {
        if header.p_type(endian) == PT_INTERP {
            let path = header.data(endian, bytes).ok();
            facts.interpreter = Some(text(path.unwrap_or_default()));
        }
    }
    for library in file.import_libraries().context(reading)? {
        facts.libraries.push(text(library.context(reading)?.name()));
    }
    Ok(facts)
}

/// A name in the file, up to its NUL.
fn text(bytes: &[u8]) -> String {
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn an_executable_of_the_system_names_its_loader_and_its_libraries() {
        let bytes = std::fs::read("/bin/ls").expect("every system has it");
        let facts = examine(&bytes).expect("it is an executable");
        let interpreter = facts.interpreter.expect("it is dynamic");
        assert!(interpreter.starts_with('/'), "{interpreter}");
        assert!(
            facts.libraries.iter().any(|it| it.starts_with("libc")),
            "{:?}",
            facts.libraries
        );
    }

    #[test]
    fn our_own_executables_are_static() {
        let own = std::env::current_exe().expect("this test is an executable");
        let facts = examine(&std::fs::read(own).expect("it can be read")).expect("it is one");
        assert_eq!(
            (facts.interpreter, facts.libraries),
            (None, Vec::new()),
            "RUSTFLAGS in the environment replaces the flags of .cargo/config.toml; unset it"
        );
    }

    #[test]
    fn what_is_no_executable_is_said_to_be_none() {
        let failure = examine(b"#!/bin/sh\n").expect_err("a script was taken for an executable");
        assert!(failure.to_string().contains("64-bit ELF"), "{failure}");
    }
}
