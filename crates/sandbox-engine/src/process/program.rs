//! Which program a request means, and what it means that it could not be started.

use std::ffi::CString;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType};
use sandbox_core::{Error, ErrorKind, Result, Verb};

use super::environment::Environment;
use crate::supervisor::{LaunchError, Stage};

/// What there is to do about a process that the system has no room for.
const NO_ROOM: &str = "the system has no room for another process; end some, or raise the limits of \
                       this user (`ulimit -a`)";

/// What is to be executed.
#[derive(Debug)]
pub(super) struct Program {
    /// The name as it was asked for, for people.
    name: String,
    /// Where it was looked for, for people; empty if it was named by path.
    searched: String,
    pub(super) argv: Vec<CString>,
    pub(super) candidates: Vec<CString>,
}

impl Program {
    /// Checks the arguments and lists the places where the program may be.
    ///
    /// A name without `/` is looked up in the `PATH` that the process will have, as `execvp` would,
    /// an empty element meaning the working directory.
    pub(super) fn new(verb: Verb, argv: &[Vec<u8>], environment: &Environment) -> Result<Self> {
        let invalid = || Error::refused(verb, ErrorKind::InvalidArgument);
        let name = argv.first().ok_or_else(|| {
            invalid().detail("argv is empty; its first element names the program")
        })?;
        if name.is_empty() {
            return Err(
                invalid().detail("the name of the program, which argv begins with, is empty")
            );
        }
        let shown = String::from_utf8_lossy(name).into_owned();
        let arguments: Result<Vec<CString>> = argv
            .iter()
            .map(|argument| {
                CString::new(argument.as_slice())
                    .map_err(|_| invalid().on(&shown).detail("an argument holds a NUL"))
            })
            .collect();
        let argv = arguments?;
        let by_path = name.contains(&b'/');
        let path = environment.path();
        let candidates = if by_path {
            argv.iter().take(1).cloned().collect()
        } else {
            path.split(|byte| *byte == b':')
                .filter_map(|directory| in_directory(directory, name))
                .collect()
        };
        let searched = if by_path {
            String::new()
        } else {
            String::from_utf8_lossy(path).into_owned()
        };
        Ok(Program {
            name: shown,
            searched,
            argv,
            candidates,
        })
    }

    /// Says why it was not started, as far as the reason can be told.
    pub(super) fn refusal(
        &self,
        verb: Verb,
        error: LaunchError,
        directory: BorrowedFd<'_>,
    ) -> Error {
        let refused = |kind| Error::refused(verb, kind).on(&self.name);
        let LaunchError::Start { stage, error } = error else {
            return match error {
                LaunchError::Lost => Error::new(verb, ErrorKind::SpawnFailed)
                    .on(&self.name)
                    .detail("its supervisor was killed, and what had started was killed with it"),
                other => refused(ErrorKind::SpawnFailed)
                    .detail(NO_ROOM)
                    .caused_by(other),
            };
        };
        match (stage, error.raw_os_error().unwrap_or(0)) {
            (Stage::Exec, libc::ENOENT) => self.missing(refused, directory),
            (Stage::Exec, libc::EACCES) => self.forbidden(refused, directory),
            (Stage::Exec, libc::E2BIG) => refused(ErrorKind::TooLarge).detail(
                "arguments and environment are beyond the kernel's limit (128 KiB for one, about \
                 2 MiB for all); pass them by a file or by standard input",
            ),
            (Stage::Exec, libc::ENOEXEC) => refused(ErrorKind::SpawnFailed).detail(
                "it is no program for this machine; a script needs a first line such as `#!/bin/sh`",
            ),
            (Stage::Directory, _) => refused(ErrorKind::PermissionDenied)
                .detail("the working directory cannot be entered")
                .caused_by(error),
            (Stage::Guard, _) => refused(ErrorKind::SpawnFailed)
                .detail(
                    "the guard that it should run under could not be put on, and nothing runs without it; \
                     acquire the sandbox again to see what this kernel has",
                )
                .caused_by(error),
            (_, libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE) => {
                refused(ErrorKind::SpawnFailed)
                    .detail(NO_ROOM)
                    .caused_by(error)
            }
            (stage, _) => refused(ErrorKind::SpawnFailed)
                .detail(format_args!("the step {stage:?} failed"))
                .caused_by(error),
        }
    }

    fn missing(&self, refused: impl Fn(ErrorKind) -> Error, directory: BorrowedFd<'_>) -> Error {
        // The kernel says the same of a program that is there and whose interpreter is not.
        if let Some(found) = self.first(directory, |kind| kind == FileType::RegularFile) {
            return refused(ErrorKind::SpawnFailed).detail(format_args!(
                "{found} is there, but the interpreter that it names is not",
            ));
        }
        if self.searched.is_empty() {
            refused(ErrorKind::NotFound).detail("no such program")
        } else {
            refused(ErrorKind::NotFound)
                .detail(format_args!("no such program in PATH={}", self.searched))
        }
    }

    fn forbidden(&self, refused: impl Fn(ErrorKind) -> Error, directory: BorrowedFd<'_>) -> Error {
        let regular = self.first(directory, |kind| kind == FileType::RegularFile);
        match regular {
            None if self
                .first(directory, |kind| kind == FileType::Directory)
                .is_some() =>
            {
                refused(ErrorKind::NotAFile).detail("it is a directory")
            }
            Some(found) => refused(ErrorKind::PermissionDenied).detail(format_args!(
                "{found} is not executable; set its mode, or name its interpreter"
            )),
            None => refused(ErrorKind::PermissionDenied).detail("it may not be executed"),
        }
    }

    /// The first candidate of this kind.
    fn first(
        &self,
        directory: BorrowedFd<'_>,
        wanted: impl Fn(FileType) -> bool,
    ) -> Option<String> {
        let is_wanted = |candidate: &&CString| {
            rustix::fs::statat(directory, candidate.as_c_str(), AtFlags::empty())
                .is_ok_and(|stat| wanted(FileType::from_raw_mode(stat.st_mode)))
        };
        let found = self.candidates.iter().find(is_wanted)?;
        Some(found.to_string_lossy().into_owned())
    }
}

/// A name in one element of `PATH`.
fn in_directory(directory: &[u8], name: &[u8]) -> Option<CString> {
    let mut path = Vec::with_capacity(directory.len() + name.len() + 3);
    path.extend_from_slice(if directory.is_empty() {
        b"."
    } else {
        directory
    });
    path.push(b'/');
    path.extend_from_slice(name);
    CString::new(path).ok()
}

#[cfg(test)]
mod tests {
    use sandbox_core::EnvChange;

    use super::*;

    fn candidates(name: &str, path: &str) -> Vec<String> {
        let mut environment = Environment::default();
        environment
            .change(Verb::Exec, &[EnvChange::set("PATH", path)])
            .expect("valid");
        let program = Program::new(Verb::Exec, &[name.into()], &environment).expect("valid");
        program
            .candidates
            .iter()
            .map(|path| path.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_name_is_looked_up_in_the_path_of_the_process_and_a_path_is_not() {
        assert_eq!(candidates("cc", "/a:/b"), ["/a/cc", "/b/cc"]);
        assert_eq!(candidates("cc", ":tools"), ["./cc", "tools/cc"]);
        assert_eq!(candidates("./cc", "/a"), ["./cc"]);
    }

    #[test]
    fn arguments_that_no_process_can_have_are_refused() {
        for argv in [
            vec![],
            vec![Vec::new()],
            vec![b"a".to_vec(), b"b\0c".to_vec()],
        ] {
            let error =
                Program::new(Verb::Exec, &argv, &Environment::default()).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    }
    #[test]
    fn a_system_without_room_for_a_process_is_told_with_what_to_do() {
        let program =
            Program::new(Verb::Exec, &[b"cc".to_vec()], &Environment::default()).expect("valid");
        let error = LaunchError::Start {
            stage: Stage::Fork,
            error: std::io::Error::from_raw_os_error(libc::EAGAIN),
        };
        let refusal = program.refusal(Verb::Exec, error, rustix::fs::CWD);
        assert_eq!(refusal.kind(), ErrorKind::SpawnFailed);
        assert!(refusal.to_string().contains("ulimit"), "{refusal}");
    }
}
