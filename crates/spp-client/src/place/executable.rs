//! The engine's executable, found beside the provider's own and looked at before it is placed.
//!
//! A place may hold no libc and no loader, so that an engine that needs one would fail there with a message
//! about a file that everybody can see. It is refused here instead.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The name of the engine's executable.
pub const ENGINE: &str = "spp-engine";

/// Architectures that an engine can be for, as Rust names them.
pub const ARCHITECTURES: [&str; 3] = ["x86_64", "aarch64", "riscv64"];

/// An executable that can be placed on a machine of its architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFile {
    /// Where it is, absolute.
    pub path: PathBuf,
}

/// Why there is no engine to place.
#[derive(Debug, thiserror::Error)]
pub enum EngineFault {
    /// The running executable cannot be told.
    #[error("failed to find out where this executable is")]
    Where(#[source] io::Error),
    /// It is not there.
    #[error("{} is missing; install it beside this provider, as `cargo xtask install` does", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("failed to read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It is not what such a machine executes.
    #[error(
        "{} is no executable for Linux on {architecture} ({problem}); install one that is",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it should be for.
        architecture: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// It needs a loader, which the place may not have.
    #[error(
        "{} is linked dynamically and would not start in every place; build it static: unset RUSTFLAGS and build it \
         again with the configuration of its workspace",
        path.display()
    )]
    Dynamic {
        /// The file.
        path: PathBuf,
    },
}

/// Finds the engine beside the running executable.
///
/// # Errors
///
/// [`EngineFault`], which says what to do.
pub fn find_engine() -> Result<EngineFile, EngineFault> {
    let own = std::env::current_exe().map_err(EngineFault::Where)?;
    let path = own.with_file_name(ENGINE);
    look_at(&path, std::env::consts::ARCH)?;
    Ok(EngineFile { path })
}

/// Finds the engine for Linux on an architecture beside the running executable: `spp-engine-TRIPLE`, or `spp-engine` where
/// that is the architecture of this machine.
///
/// - `architecture`: one of [`ARCHITECTURES`]
///
/// # Errors
///
/// [`EngineFault`], which says what to do.
pub fn find_engine_for(architecture: &'static str) -> Result<EngineFile, EngineFault> {
    let own = std::env::current_exe().map_err(EngineFault::Where)?;
    let path = own.with_file_name(format!("{ENGINE}-{architecture}-unknown-linux-gnu"));
    match look_at(&path, architecture) {
        Err(EngineFault::Missing { .. })
            if cfg!(target_os = "linux") && architecture == std::env::consts::ARCH =>
        {
            find_engine()
        }
        looked => looked.map(|()| EngineFile { path }),
    }
}

/// The offsets and numbers of a 64-bit ELF file, from `elf.h`.
const HEADER_BYTES: usize = 64;
const ELFCLASS64: u8 = 2;
const ELFDATA2LSB: u8 = 1;
const PT_INTERP: u32 = 3;
/// More program headers than any linker writes.
const MAX_HEADERS: u16 = 256;
/// What a header says of each of the [`ARCHITECTURES`].
const NUMBERS: [u16; ARCHITECTURES.len()] = [62, 183, 243];

/// Whether a file can be executed anywhere on a machine of that architecture.
fn look_at(path: &Path, architecture: &'static str) -> Result<(), EngineFault> {
    let unreadable = |source| EngineFault::Unreadable {
        path: path.to_owned(),
        source,
    };
    let foreign = |problem| EngineFault::Foreign {
        path: path.to_owned(),
        architecture,
        problem,
    };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(EngineFault::Missing {
                path: path.to_owned(),
            });
        }
        Err(error) => return Err(unreadable(error)),
    };
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(foreign("it may not be executed"));
    }
    let mut header = [0; HEADER_BYTES];
    match file.read_exact(&mut header) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(foreign("it is too short"));
        }
        Err(error) => return Err(unreadable(error)),
    }
    if !header.starts_with(b"\x7fELF") || header[4] != ELFCLASS64 || header[5] != ELFDATA2LSB {
        return Err(foreign("it is no 64-bit little-endian ELF file"));
    }
    let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let mut known = ARCHITECTURES.iter().zip(NUMBERS);
    let number = known.find(|(name, _)| **name == architecture);
    if number.is_some_and(|(_, number)| number != short(18)) {
        return Err(foreign("it is for another processor"));
    }
    let mut offset = [0; 8];
    offset.copy_from_slice(&header[32..40]);
    let (size, count) = (short(54), short(56));
    if size < 4 || count == 0 || count > MAX_HEADERS {
        return Err(foreign("its program headers make no sense"));
    }
    file.seek(SeekFrom::Start(u64::from_le_bytes(offset)))
        .map_err(unreadable)?;
    let mut headers = vec![0; usize::from(size) * usize::from(count)];
    file.read_exact(&mut headers)
        .map_err(|_| foreign("its program headers are not there"))?;
    let dynamic = headers.chunks_exact(usize::from(size)).any(|header| {
        header
            .first_chunk()
            .is_some_and(|kind| u32::from_le_bytes(*kind) == PT_INTERP)
    });
    if dynamic {
        return Err(EngineFault::Dynamic {
            path: path.to_owned(),
        });
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::env::consts::ARCH;

    use super::*;

    #[test]
    fn our_own_executables_can_be_placed() {
        let own = std::env::current_exe().expect("this test is an executable");
        look_at(&own, ARCH).expect("it is static: RUSTFLAGS in the environment replaces our flags");
    }

    #[test]
    fn an_executable_for_another_processor_is_refused_with_its_name() {
        let own = std::env::current_exe().expect("this test is an executable");
        let other = ARCHITECTURES
            .into_iter()
            .find(|other| *other != ARCH)
            .expect("there are three");
        let error = look_at(&own, other).expect_err("it is for this one");
        assert!(error.to_string().contains(other), "{error}");
        let error = find_engine_for(other).expect_err("there is none");
        assert!(
            error
                .to_string()
                .contains(&format!("spp-engine-{other}-unknown-linux-gnu")),
            "{error}"
        );
    }

    #[test]
    fn an_executable_that_needs_a_loader_is_refused_with_what_to_do() {
        let error = look_at(Path::new("/bin/ls"), ARCH).expect_err("every system's is dynamic");
        assert!(matches!(error, EngineFault::Dynamic { .. }), "{error}");
        assert!(error.to_string().contains("RUSTFLAGS"), "{error}");
    }

    #[test]
    fn what_is_no_executable_is_refused_by_name() {
        let directory = std::env::temp_dir().join(format!("spp-place-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a scratch directory");
        let file = directory.join(ENGINE);
        let check = |content: &[u8], mode| {
            std::fs::write(&file, content).expect("a scratch file");
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("ours");
            look_at(&file, ARCH).expect_err("it is none").to_string()
        };
        let script = check(&[b'#'; 100], 0o755);
        assert!(
            script.contains(ENGINE) && script.contains("ELF"),
            "{script}"
        );
        assert!(check(b"\x7fELF", 0o755).contains("short"));
        assert!(check(b"\x7fELF", 0o644).contains("may not be executed"));
        std::fs::remove_dir_all(&directory).expect("it is ours");
        let missing = look_at(&file, ARCH).expect_err("it is gone");
        assert!(missing.to_string().contains("install"), "{missing}");
    }
}
