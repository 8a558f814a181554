//! The arguments of a task: flags, options with a path, and a rest behind `--`.
//!
//! Each is taken out when asked for, in any order; what is left at the end is refused by name.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::{Failure, Result};

/// What stands behind a task's name.
#[derive(Debug)]
pub(crate) struct Arguments {
    task: &'static str,
    left: Vec<OsString>,
    rest: Vec<OsString>,
}

impl Arguments {
    /// The arguments `args` of `task`.
    pub(crate) fn new(task: &'static str, mut args: Vec<OsString>) -> Self {
        let rest = match args.iter().position(|it| it == "--") {
            Some(at) => {
                let rest = args.split_off(at + 1);
                args.truncate(at);
                rest
            }
            None => Vec::new(),
        };
        Self {
            task,
            left: args,
            rest,
        }
    }

    /// Whether `flag` is there.
    pub(crate) fn flag(&mut self, flag: &str) -> bool {
        let before = self.left.len();
        self.left.retain(|it| it != flag);
        self.left.len() < before
    }

    /// The value of `option`, as `OPTION VALUE` or `OPTION=VALUE`.
    ///
    /// # Errors
    ///
    /// When it is there without a value.
    pub(crate) fn path(&mut self, option: &str) -> Result<Option<PathBuf>> {
        let glued = format!("{option}=");
        let at = self
            .left
            .iter()
            .position(|it| it == option || it.to_str().is_some_and(|it| it.starts_with(&glued)));
        let Some(at) = at else { return Ok(None) };
        let found = self.left.remove(at);
        if found != option {
            let value = found.to_str().and_then(|it| it.strip_prefix(&glued));
            return Ok(value.map(PathBuf::from));
        }
        if at == self.left.len() {
            return Err(Failure::new(format!(
                "{option} needs a directory behind it"
            )));
        }
        Ok(Some(self.left.remove(at).into()))
    }

    /// Everything behind `--`.
    pub(crate) fn rest(&mut self) -> Vec<OsString> {
        std::mem::take(&mut self.rest)
    }

    /// Refuses what nobody asked for.
    ///
    /// # Errors
    ///
    /// Names the first such argument.
    pub(crate) fn finish(self) -> Result<()> {
        match self.left.first().or(self.rest.first()) {
            None => Ok(()),
            Some(unknown) => Err(Failure::new(format!(
                "`cargo xtask {task}` does not take `{}`; see `cargo xtask {task} --help`",
                unknown.to_string_lossy(),
                task = self.task
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(args: &[&str]) -> Arguments {
        Arguments::new("task", args.iter().map(OsString::from).collect())
    }

    #[test]
    fn flags_options_and_the_rest_are_told_apart() {
        let mut args = arguments(&["--out", "a b", "--all", "--", "--all", "-p", "x"]);
        assert!(args.flag("--all"));
        assert_eq!(
            args.path("--out").expect("it has a value"),
            Some("a b".into())
        );
        assert_eq!(args.rest(), ["--all", "-p", "x"]);
        args.finish().expect("everything was taken");
    }

    #[test]
    fn an_option_takes_its_value_glued_on_too() {
        let mut args = arguments(&["--out=here"]);
        assert_eq!(
            args.path("--out").expect("it has a value"),
            Some("here".into())
        );
    }

    #[test]
    fn an_option_without_a_value_is_refused() {
        let failure = arguments(&["--out"])
            .path("--out")
            .expect_err("there is no value");
        assert!(failure.to_string().contains("--out"), "{failure}");
    }

    #[test]
    fn what_a_task_does_not_take_is_refused_by_name() {
        for unknown in [&["--fast"][..], &["--", "--fast"]] {
            let failure = arguments(unknown)
                .finish()
                .expect_err("it was taken")
                .to_string();
            assert!(
                failure.contains("`--fast`") && failure.contains("--help"),
                "{failure}"
            );
        }
    }
}
