//! `cargo xtask dist`: stripped, static executables and their checksums.
//!
//! An executable is placed where no libc need be, so each is examined before it is given out, and a
//! dynamic one refuses the whole. The files are copied when all have passed: there is never a
//! directory with some of them.

mod elf;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::error::{Context as _, Failure, Result};
use crate::executables::{self, Executable, Profile};
use crate::workspace::{self, Workspace};

pub(crate) const HELP: &str = "\
Make stripped static executables and SHA256SUMS.

Usage: cargo xtask dist [--out DIR]

  --out DIR   where they go; default: dist-files in cargo's target directory

Check them with: cd DIR && sha256sum --check SHA256SUMS";

const SUMS: &str = "SHA256SUMS";

/// Variables that replace the flags that `.cargo/config.toml` links statically by.
const FLAG_VARIABLES: [&str; 3] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
];

/// Builds the executables and puts them into `out`, with their checksums.
///
/// # Errors
///
/// When the build fails, an executable is not static or not stripped, or `out` cannot be written.
pub(crate) fn run(out: Option<PathBuf>) -> Result<()> {
    let workspace = Workspace::load(workspace::root())?;
    let out = out.unwrap_or_else(|| workspace.target_directory.join("dist-files"));
    let built = executables::build_shipped(&workspace, Profile::Dist)?;
    let flags = FLAG_VARIABLES
        .into_iter()
        .find(|name| std::env::var_os(name).is_some());
    give_out(&built, &out, flags)?;
    eprintln!(
        "{} executables and {SUMS} are in {}",
        built.len(),
        out.display()
    );
    Ok(())
}

/// Examines all of `executables`, then copies them to `out` and writes their checksums.
///
/// - `flags`: the variable that replaced the linker's flags, if one did, to be blamed.
fn give_out(executables: &[Executable], out: &Path, flags: Option<&str>) -> Result<()> {
    let mut read = Vec::new();
    for executable in executables {
        let path = executable.path.display();
        let bytes = fs::read(&executable.path).context(|| format!("read {path}"))?;
        let facts = elf::examine(&bytes).context(|| format!("examine {path}"))?;
        if let Some(refusal) = refusal(&facts, flags) {
            return Err(Failure::new(format!(
                "refused to give out {path}: {refusal}"
            )));
        }
        read.push((executable, bytes));
    }
    fs::create_dir_all(out).context(|| format!("create the directory {}", out.display()))?;
    let mut sums = String::new();
    for (executable, bytes) in read {
        let to = out.join(&executable.name);
        fs::copy(&executable.path, &to).context(|| format!("write {}", to.display()))?;
        for byte in Sha256::digest(&bytes) {
            write!(sums, "{byte:02x}").expect("a string takes everything");
        }
        writeln!(sums, "  {}", executable.name).expect("a string takes everything");
    }
    let to = out.join(SUMS);
    fs::write(&to, sums).context(|| format!("write {}", to.display()))
}

/// Why an executable of which `facts` hold is not given out, if so.
fn refusal(facts: &elf::Facts, flags: Option<&str>) -> Option<String> {
    if let Some(needs) = facts.interpreter.as_ref().or(facts.libraries.first()) {
        let cause = match flags {
            Some(variable) => format!(
                "{variable} in the environment replaces the flags of .cargo/config.toml; unset it"
            ),
            None => "build with the flags of .cargo/config.toml (`-C target-feature=+crt-static`)"
                .into(),
        };
        return Some(format!(
            "it is dynamic (it needs `{needs}`), so it would not start where there is no libc; {cause}"
        ));
    }
    facts.has_symbols.then(|| {
        "it is not stripped; build it with the profile `dist` (`strip = \"symbols\"`)".into()
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::process;

    /// A small executable, compiled here with `flags` beside those that make it static or not.
    fn compiled(directory: &Path, flags: &[&str]) -> Executable {
        let source = directory.join("small.rs");
        fs::write(&source, "fn main() {}\n").expect("the directory is writable");
        let path = directory.join("small");
        process::run(
            process::command("rustc")
                .args(flags)
                .arg("-o")
                .args([&path, &source]),
        )
        .expect("the compiler that built this test works");
        Executable {
            name: "small".into(),
            path,
        }
    }

    const STATIC: [&str; 2] = ["-C", "target-feature=+crt-static"];

    #[test]
    fn a_static_stripped_executable_is_given_out_with_a_checksum_that_holds() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let out = directory.path().join("out");
        let executable = compiled(
            directory.path(),
            &[STATIC[0], STATIC[1], "-C", "strip=symbols"],
        );

        give_out(&[executable], &out, None).expect("it is static and stripped");

        process::run(
            process::command("sha256sum")
                .args(["--check", SUMS])
                .current_dir(&out),
        )
        .expect("the checksum is that of the file");
        process::run(&mut process::command(out.join("small"))).expect("the copy runs");
    }

    #[test]
    fn a_dynamic_executable_of_the_system_is_refused_and_nothing_is_written() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let out = directory.path().join("out");
        let system = Executable {
            name: "ls".into(),
            path: "/bin/ls".into(),
        };
        let good = compiled(
            directory.path(),
            &[STATIC[0], STATIC[1], "-C", "strip=symbols"],
        );

        let failure = give_out(&[good, system], &out, None)
            .expect_err("a dynamic executable was given out")
            .to_string();

        assert!(
            failure.contains("/bin/ls") && failure.contains("it is dynamic"),
            "{failure}"
        );
        assert!(!out.exists(), "something was written before the refusal");
    }

    #[test]
    fn flags_that_were_replaced_are_blamed_by_the_variables_name() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let dynamic = compiled(
            directory.path(),
            &["-C", "target-feature=-crt-static", "-C", "strip=symbols"],
        );
        let failure = give_out(&[dynamic], directory.path(), Some("RUSTFLAGS"))
            .expect_err("a dynamic executable was given out")
            .to_string();
        assert!(
            failure.contains("RUSTFLAGS") && failure.contains("unset it"),
            "{failure}"
        );
    }

    #[test]
    fn symbols_that_were_left_in_are_refused() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let unstripped = compiled(directory.path(), &STATIC);
        let failure = give_out(&[unstripped], directory.path(), None)
            .expect_err("an executable with symbols was given out")
            .to_string();
        assert!(failure.contains("not stripped"), "{failure}");
    }
}
