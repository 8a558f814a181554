//! The executables that can be placed, with their digests.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};
use spp_client::place::{ARCHITECTURES, EngineFault, Refusal, find_engine_for};

/// Bytes that are read at once.
const CHUNK: usize = 1 << 18;

/// An executable for one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Engine {
    pub(crate) architecture: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    /// SHA-256 in hexadecimal digits: what programs over there can compute.
    pub(crate) digest: String,
}

/// Finds all of them and reads each whole.
///
/// # Errors
///
/// There is none, or one that is there cannot be placed.
pub(crate) fn all() -> Result<Vec<Engine>, Refusal> {
    let refused = |why: String| {
        Refusal::new(
            why,
            "every provider of this kind needs the engine beside it, and one for each other architecture",
        )
    };
    let mut engines = Vec::new();
    let mut missing = None;
    for architecture in ARCHITECTURES {
        let path = match find_engine_for(architecture) {
            Ok(file) => file.path,
            Err(fault @ EngineFault::Missing { .. }) => {
                // That of this machine is the one that people know.
                if missing.is_none() || architecture == std::env::consts::ARCH {
                    missing = Some(fault);
                }
                continue;
            }
            Err(fault) => return Err(refused(fault.to_string())),
        };
        let (size, digest) =
            look(&path).map_err(|error| refused(format!("{}: {error}", path.display())))?;
        engines.push(Engine {
            architecture,
            path,
            size,
            digest,
        });
    }
    match missing {
        Some(fault) if engines.is_empty() => Err(refused(fault.to_string())),
        _ => Ok(engines),
    }
}

fn look(path: &PathBuf) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut size = 0;
    loop {
        let read = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        digest.update(&chunk[..read]);
        size += read as u64;
    }
    let digest = digest.finalize();
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    Ok((size, digits.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_one_that_everybody_computes() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        io::Write::write_all(&mut file, b"abc").expect("written");
        let (size, digest) = look(&file.path().to_owned()).expect("it can be read");
        assert_eq!(size, 3);
        assert_eq!(
            digest,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
