//! The command line: what there is to say, and the words that explain it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use sandbox_core::{Digest, EnvChange, SandboxPath};
use sandbox_host::config::quantity;

/// Run, read and write at a location: this directory, or a sandbox somewhere.
#[derive(Debug, Parser)]
#[command(
    name = "spp",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
The location comes from --location, else from SPP_LOCATION, else from the nearest .spp.toml
upwards, else from your own configuration file, else it is `local`: this directory, with your
own privileges.

Examples:
  spp run -- make test
  spp run --location box --timeout 10m -- cargo test
  spp read src/main.rs --lines 1:40
  spp doctor"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Where to do it.
    #[arg(long, short = 'l', global = true, value_name = "NAME")]
    pub(crate) location: Option<String>,
    /// A configuration file to read in place of your usual one.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Say more on standard error; twice for debugging, three times for everything.
    #[arg(long, short = 'v', global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Answer with one JSON object on standard output.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command, with its output as it comes.
    ///
    /// Standard output and standard error are the command's. Standard input is passed on when it is
    /// a pipe or a file; from a terminal nothing is passed, see `spp shell`. Ctrl-C interrupts the
    /// command and everything it started; what does not end within two seconds, or at a second
    /// Ctrl-C, is ended.
    #[command(after_help = "\
Exit status: the command's own; 128+N if signal N ended it; 124 after --timeout; 125 if spp
itself failed; 126 if the command cannot be executed; 127 if it was not found.

Examples:
  spp run -- make test
  spp run --timeout 10m -- cargo test
  spp run --cwd docs --env LANG=C -- make html
  spp run --track -- ./generate.sh
  spp run -- sh -c 'sort | uniq -c' < words
  spp run --json -- uname -a")]
    Run(Run),
    /// Open an interactive shell.
    ///
    /// A terminal of this one's size, which follows it. Without a command it is the place's shell;
    /// at `local`, yours.
    #[command(after_help = "\
Examples:
  spp shell
  spp shell --location box
  spp shell -- python3")]
    Shell(Shell),
    /// Write a file, or a part of it, to standard output.
    #[command(after_help = "\
Examples:
  spp read README.md
  spp read src/main.rs --lines 10:20
  spp read image.png --bytes 0:8 | xxd
  spp read README.md --json")]
    Read(Read),
    /// Give a file the content of standard input, and say what that did.
    #[command(after_help = "\
The file is replaced in one step: a reader sees the old content or the new.

Examples:
  echo hello | spp write notes/today.txt
  spp write --create-new --mode 755 run.sh < run.sh
  spp write --if-digest \"$(spp read a.txt --json | jq -r .digest)\" a.txt < new.txt")]
    Write(Write),
    /// Put a directory of this machine there, without what git ignores.
    ///
    /// All of it or nothing: what is there is not touched, so PATH must be missing or empty. With
    /// --update it need not be: what differs is replaced, what is missing is added, and what only
    /// PATH has stays.
    #[command(after_help = "\
Permission bits, times and links are kept; set-id bits and owners are not.
Exit status: 0; 1 if it failed, or if something could not be read.

Examples:
  spp push . build
  spp push --update . build
  spp push --location box ~/project .")]
    Push(Push),
    /// Get a directory from there, without what git ignores.
    ///
    /// DIR must be missing or empty. What could harm you is left out and told: links that may lead
    /// out of DIR, and everything in a `.git`. Of permission bits, only who may execute is kept.
    #[command(after_help = "\
Exit status: 0; 1 if it failed, or if something could not be read.

Examples:
  spp pull target/doc doc
  spp pull --location box . result --json")]
    Pull(Pull),
    /// List entries by name, sorted, under git's ignore rules.
    #[command(after_help = "\
A glob without a slash finds a name at any level, one with a slash a path from the directory you
stand in. Exit status: 0 if something was found, 1 if nothing was, 2 if something went wrong or
the answer is not complete.

Examples:
  spp glob '*.rs'
  spp glob 'src/**/*.{ts,tsx}' --newest --limit 20
  spp glob '*' --hidden --no-ignore")]
    Glob(Glob),
    /// Search text in files, under git's ignore rules.
    #[command(after_help = "\
Exit status: 0 if something was found, 1 if nothing was, 2 if something went wrong or the answer
is not complete.

Examples:
  spp grep 'fn \\w+_many' src
  spp grep -iF todo --glob '*.rs' -C2
  spp grep needle --json")]
    Grep(Grep),
    /// Say for every location whether it works, and if not, the one thing to do.
    #[command(after_help = "\
Exit status: 0 if the location in use works, 1 if it does not.

Examples:
  spp doctor
  spp doctor --location box --json")]
    Doctor,
    /// Remove what was left behind by whoever is gone, and say what else there is
    #[command(after_help = "\
Looks in every location, or in the one that --location names. Only what its provider knows to be
nobody's any more is removed: what somebody who is there has, what was asked to be kept, and what
cannot be told stays, and is listed with the reason. Exits with 1 if something could not be removed.

Examples:
  spp gc
  spp gc --dry-run --location docker --json")]
    Gc(Gc),
}

#[derive(Debug, Args)]
pub(crate) struct Gc {
    /// Remove nothing, and say what would be.
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// End the command, and everything it started, after this long: 500ms, 30s, 10m, 2h.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    pub(crate) timeout: Option<Duration>,
    /// Where to start, from the directory you stand in.
    #[arg(long, value_name = "DIR", value_parser = path())]
    pub(crate) cwd: Option<SandboxPath>,
    /// Set a variable, or with a name alone pass yours on. May be repeated.
    #[arg(long = "env", short = 'e', value_name = "NAME[=VALUE]", value_parser = OsStringValueParser::new())]
    pub(crate) env: Vec<OsString>,
    /// Say on standard error, when the command has ended, which files it created, modified and
    /// removed: git's own and ignored ones left out. With --json they are in the object.
    #[arg(long)]
    pub(crate) track: bool,
    /// The command and its arguments.
    #[arg(value_name = "CMD", trailing_var_arg = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Shell {
    /// Where to start, from the directory you stand in.
    #[arg(long, value_name = "DIR", value_parser = path())]
    pub(crate) cwd: Option<SandboxPath>,
    /// A command to run in place of the shell.
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Read {
    /// The file, from the directory you stand in, or absolute as the place sees it.
    #[arg(value_name = "PATH", value_parser = path())]
    pub(crate) path: SandboxPath,
    /// Only these lines, first to last, counted from 1. Either may be left out.
    #[arg(long, value_name = "A:B", value_parser = lines)]
    pub(crate) lines: Option<(u64, u64)>,
    /// Only N bytes from offset O. N may be left out.
    #[arg(long, value_name = "O:N", value_parser = bytes, conflicts_with = "lines")]
    pub(crate) bytes: Option<(u64, u64)>,
}

#[derive(Debug, Args)]
pub(crate) struct Write {
    /// The file, from the directory you stand in, or absolute as the place sees it.
    #[arg(value_name = "PATH", value_parser = path())]
    pub(crate) path: SandboxPath,
    /// Permission bits, in octal: 644, 755.
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub(crate) mode: Option<u32>,
    /// Refuse if anything of that name is there.
    #[arg(long)]
    pub(crate) create_new: bool,
    /// Refuse unless the file has this digest, as `spp read --json` tells it.
    #[arg(long, value_name = "DIGEST", conflicts_with = "create_new")]
    pub(crate) if_digest: Option<Digest>,
}

#[derive(Debug, Args)]
pub(crate) struct Push {
    /// Onto what is there already: send what differs, and remove nothing.
    #[arg(long)]
    pub(crate) update: bool,
    /// The directory on this machine.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Where it goes, from the directory you stand in, or absolute as the place sees it.
    #[arg(value_name = "PATH", value_parser = path())]
    pub(crate) destination: SandboxPath,
}

#[derive(Debug, Args)]
pub(crate) struct Pull {
    /// The directory there, from the directory you stand in, or absolute as the place sees it.
    #[arg(value_name = "PATH", value_parser = path())]
    pub(crate) path: SandboxPath,
    /// The new directory on this machine.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// What is looked at.
#[derive(Debug, Args)]
pub(crate) struct Where {
    /// Also names that start with a dot.
    #[arg(long)]
    pub(crate) hidden: bool,
    /// Also what git ignores.
    #[arg(long)]
    pub(crate) no_ignore: bool,
    /// Not what this glob takes, nor what is in it. May be repeated.
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// No deeper than so many levels.
    #[arg(long, value_name = "N")]
    pub(crate) max_depth: Option<u32>,
    /// No more than so many entries, or matches.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Glob {
    /// What to find.
    #[arg(value_name = "PATTERN", required = true)]
    pub(crate) patterns: Vec<String>,
    /// The newest first, in place of sorted by path.
    #[arg(long)]
    pub(crate) newest: bool,
    #[command(flatten)]
    pub(crate) scope: Where,
}

#[derive(Debug, Args)]
pub(crate) struct Grep {
    /// What to find: a regular expression without look-around and back-references.
    #[arg(value_name = "PATTERN")]
    pub(crate) pattern: String,
    /// Files and directories to search; the directory you stand in if none is given.
    #[arg(value_name = "PATH", value_parser = path())]
    pub(crate) paths: Vec<SandboxPath>,
    /// Without regard to case.
    #[arg(long, short = 'i')]
    pub(crate) ignore_case: bool,
    /// The pattern is literal text.
    #[arg(long, short = 'F')]
    pub(crate) fixed_strings: bool,
    /// A match may span lines.
    #[arg(long, short = 'U')]
    pub(crate) multiline: bool,
    /// Lines to show after each match.
    #[arg(long, short = 'A', value_name = "N")]
    pub(crate) after_context: Option<u32>,
    /// Lines to show before each match.
    #[arg(long, short = 'B', value_name = "N")]
    pub(crate) before_context: Option<u32>,
    /// Lines to show around each match.
    #[arg(long, short = 'C', value_name = "N")]
    pub(crate) context: Option<u32>,
    /// No more than so many matching lines of a file.
    #[arg(long, short = 'm', value_name = "N")]
    pub(crate) max_count: Option<u64>,
    /// No more than so many bytes of a line.
    #[arg(long, value_name = "BYTES", default_value = "4096")]
    pub(crate) max_columns: u64,
    /// Only files that this glob takes. May be repeated.
    #[arg(long, short = 'g', value_name = "GLOB")]
    pub(crate) glob: Vec<String>,
    #[command(flatten)]
    pub(crate) scope: Where,
}

/// How much is asked for when the end is left out; more than any file.
const TO_THE_END: u64 = 1 << 50;

/// Paths are bytes: a name need not be UTF-8.
fn path() -> impl TypedValueParser<Value = SandboxPath> {
    use std::os::unix::ffi::OsStrExt as _;
    OsStringValueParser::new().try_map(|text| SandboxPath::parse(text.as_bytes()))
}

/// `A:B` as first line and count.
fn lines(text: &str) -> Result<(u64, u64), String> {
    let expected = || "write first and last line, such as 10:20, 10: or :20".to_owned();
    let (first, last) = text.split_once(':').ok_or_else(expected)?;
    let number = |text: &str, default| match text {
        "" => Ok(default),
        digits => digits.parse::<u64>().map_err(|_| expected()),
    };
    let first = number(first, 1)?;
    let last = number(last, TO_THE_END)?;
    if first == 0 {
        return Err("lines are counted from 1".into());
    }
    if last < first {
        return Err(format!("line {last} comes before line {first}"));
    }
    Ok((first, (last - first).saturating_add(1)))
}

/// `O:N` as offset and length.
fn bytes(text: &str) -> Result<(u64, u64), String> {
    let expected = || "write offset and number of bytes, such as 0:512 or 100:".to_owned();
    let (offset, length) = text.split_once(':').ok_or_else(expected)?;
    let number = |digits: &str| digits.parse::<u64>().map_err(|_| expected());
    let length = match length {
        "" => TO_THE_END,
        digits => number(digits)?,
    };
    Ok((number(offset)?, length))
}

fn mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| "write permission bits in octal, 0 to 777".into())
}

/// `NAME=VALUE`, or `NAME` with the caller's value.
///
/// # Errors
///
/// A sentence about a name that cannot be one, or that the caller does not have.
pub(crate) fn variable(text: &OsString) -> Result<EnvChange, String> {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let bytes = text.as_bytes();
    let (name, value) = match bytes.iter().position(|&byte| byte == b'=') {
        Some(equals) => (&bytes[..equals], Some(bytes[equals + 1..].to_vec())),
        None => (bytes, std::env::var_os(text).map(OsString::into_vec)),
    };
    if !EnvChange::remove(name).is_valid() {
        return Err(format!(
            "`{}` names no variable; write --env NAME=VALUE",
            text.display()
        ));
    }
    match value {
        Some(value) => Ok(EnvChange::set(name, value)),
        None => Err(format!(
            "`{}` is not set here; write --env {0}=VALUE",
            text.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn ranges_are_read_as_people_write_them() {
        assert_eq!(lines("10:20"), Ok((10, 11)));
        assert_eq!(lines("3:3"), Ok((3, 1)));
        assert_eq!(lines(":5"), Ok((1, 5)));
        assert!(lines("5:").is_ok_and(|(first, count)| first == 5 && count > 1 << 40));
        for bad in ["", "5", "0:3", "4:3", "a:b", "-1:2", "1:2:3"] {
            assert!(lines(bad).is_err(), "{bad:?} was accepted");
        }
        assert_eq!(bytes("0:512"), Ok((0, 512)));
        for bad in ["", "5", ":3", "a:b", "-1:2"] {
            assert!(bytes(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn flags_behind_the_command_are_the_commands() {
        for line in [
            "spp run --json -- make -j4 --json",
            "spp run --json make -j4 --json",
        ] {
            let cli = Cli::try_parse_from(line.split(' ')).expect("a good line");
            let Command::Run(run) = cli.command else {
                panic!("{line} is not a run")
            };
            assert_eq!(run.command, ["make", "-j4", "--json"], "{line}");
        }
        assert!(Cli::try_parse_from(["spp", "run", "--jsn", "--", "ls"]).is_err());
    }
}
