//! What a shell over there does until the engine runs.
//!
//! The account's own shell is given one line that all shells read alike, sh, csh and fish among them: it becomes
//! `/bin/sh`, which reads the script as one line from its input. `read` takes no byte more than the line, so that what
//! follows is there for whoever reads next.
//!
//! It says what it found on lines that begin with a mark: of all that a profile or a server prints, nothing else
//! does. The mark is put together over there, so that a server that sends everything back does not send it.
//!
//! | word | then |
//! | --- | --- |
//! | `run PATH` | the engine reads next |
//! | `send ARCHITECTURE DIRECTORY` | it waits for exactly the bytes of that executable, and for nothing else |
//! | `no WHAT ...` | it has ended |
//!
//! An executable is kept in a directory that is this user's alone, by its digest, and never started without having
//! been read whole and found to be that. It is written under a name that nobody else has and then renamed, so that any
//! number of hosts may do so at once.

use std::fmt::Write as _;

use crate::engines::Engine;

/// The command for the account's shell. It has no quotation mark, exclamation mark or backslash within the quotes: these
/// are what shells differ over.
pub(crate) const COMMAND: &str = r#"exec /bin/sh -c 'IFS= read -r spp_s && eval "$spp_s"'"#;

/// What is the same everywhere. Each line ends where a command does, since all become one.
///
/// No variable is exported that was not: what runs in the sandbox inherits the account's.
const BEGIN: &str = r#"
spp_say() { printf "\n%s %s\n" "$spp_mark" "$*"; };
spp_no() { spp_say no "$@"; exit 3; };
spp_uid=$(id -u);
spp_own() {
 spp_ls=$(ls -ldn "$1" 2>/dev/null) || return 1;
 set -- $spp_ls;
 case $1 in drwx------*) [ "$3" = "$spp_uid" ];; *) return 1;; esac;
};
spp_has() { command -v "$1" >/dev/null 2>&1; };
if spp_has sha256sum; then spp_sum=sha256sum;
 elif spp_has shasum; then spp_sum="shasum -a 256";
 elif spp_has openssl; then spp_sum="openssl dgst -r -sha256";
 else spp_no digest;
fi;
spp_same() { case $($spp_sum <"$1" 2>/dev/null) in $spp_digest*) return 0;; *) return 1;; esac; };
spp_starts() { "$1" --version </dev/null >/dev/null 2>&1; };
set -- $(uname -sm 2>/dev/null);
case $1/$2 in
 Linux/x86_64|Linux/amd64) spp_arch=x86_64;;
 Linux/aarch64|Linux/arm64) spp_arch=aarch64;;
 Linux/riscv64) spp_arch=riscv64;;
 *) spp_no system "$1" "$2";;
esac;
"#;

/// What is done with the directories that are the arguments by then: the first in which it lies, else the first in which
/// it can.
const END: &str = r##"
for spp_dir in "$@"; do
 spp_file=$spp_dir/engine-$spp_digest;
 case $spp_dir in /*) ;; *) continue;; esac;
 if spp_own "$spp_dir" && [ -f "$spp_file" ] && spp_same "$spp_file" && spp_starts "$spp_file"; then
  touch -c "$spp_file" 2>/dev/null;
  spp_go "$spp_file";
 fi;
done;
spp_why=;
for spp_dir in "$@"; do
 case $spp_dir in /*) ;; *) continue;; esac;
 case $spp_dir in "$spp_cache"|"$spp_home") spp_deep=-p;; *) spp_deep=;; esac;
 mkdir $spp_deep -m 700 "$spp_dir" 2>/dev/null;
 spp_own "$spp_dir" || { spp_why="$spp_why$spp_dir cannot be made or is not private; "; continue; };
 spp_new=$spp_dir/new-$spp_id;
 { printf "#!/bin/sh\nexit 0\n" >"$spp_new" && chmod 700 "$spp_new"; } 2>/dev/null || { spp_why="$spp_why$spp_dir cannot be written; "; continue; };
 spp_starts "$spp_new" || { rm -f "$spp_new"; spp_why="$spp_why$spp_dir holds no programs that can be executed; "; continue; };
 spp_say send "$spp_arch" "$spp_dir";
 head -c "$spp_size" >"$spp_new" || { rm -f "$spp_new"; spp_no write "$spp_dir"; };
 spp_same "$spp_new" || { rm -f "$spp_new"; spp_no bytes "$spp_dir"; };
 spp_starts "$spp_new" || { rm -f "$spp_new"; spp_no start "$spp_dir"; };
 mv -f "$spp_new" "$spp_dir/engine-$spp_digest" || { rm -f "$spp_new"; spp_no write "$spp_dir"; };
 find "$spp_dir" -type f \( -name "engine-*" -mtime +30 -o -name "new-*" -mtime +1 \) -exec rm -f {} + </dev/null >/dev/null 2>&1;
 spp_go "$spp_dir/engine-$spp_digest";
done;
spp_no place "$spp_why";
"##;

/// Where it may lie, best first: what is kept, then what is gone with the next start of the machine. Of the latter none is
/// made but its last part: what lies above belongs to the system. Where one is named, there is no other.
const DIRECTORIES: &str = r#"
spp_home=${HOME:+${XDG_CACHE_HOME:-$HOME/.cache}/spp/engines};
[ -n "$spp_cache" ] && set -- "$spp_cache" || set -- "$spp_home" "${XDG_RUNTIME_DIR:-/run/user/$spp_uid}/spp-engines" "/var/tmp/spp-engines-$spp_uid" "/dev/shm/spp-engines-$spp_uid" "/tmp/spp-engines-$spp_uid"
"#;

/// What makes one start different from every other.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    halves: [String; 2],
}

impl Mark {
    /// One that nobody knows.
    ///
    /// # Errors
    ///
    /// The system gives no random numbers.
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let half = || getrandom::u64().map(|drawn| format!("{drawn:016x}"));
        Ok(Self {
            halves: [half()?, half()?],
        })
    }

    /// What the lines of the script begin with.
    pub(crate) fn text(&self) -> String {
        self.halves.concat()
    }
}

/// The script, as one line with its end.
///
/// - `cache`: the one directory that it may lie in
/// - `arguments`: of the engine
pub(crate) fn line(
    mark: &Mark,
    engines: &[Engine],
    cache: Option<&str>,
    arguments: &[String],
) -> String {
    let [first, second] = &mark.halves;
    let mut script = format!("spp_mark={first}; spp_mark=${{spp_mark}}{second}; spp_id={second};");
    script.push_str(BEGIN);
    script.push_str("case $spp_arch in");
    for engine in engines {
        let Engine {
            architecture,
            size,
            digest,
            ..
        } = engine;
        let _ = write!(
            script,
            " {architecture}) spp_size={size}; spp_digest={digest};;"
        );
    }
    script.push_str(" *) spp_no engine \"$spp_arch\";; esac; ");
    // Standing in the account's home, whatever a profile did.
    script.push_str("spp_go() { cd >/dev/null 2>&1; SPP_HOST=1; export SPP_HOST; spp_say run \"$1\"; exec \"$1\"");
    for argument in arguments {
        script.push(' ');
        script.push_str(&quoted(argument));
    }
    script.push_str("; }; spp_cache=");
    script.push_str(&quoted(cache.unwrap_or_default()));
    script.push(';');
    script.push_str(DIRECTORIES.trim_end());
    script.push(';');
    script.push_str(END);
    let mut line = script.replace('\n', " ");
    line.push('\n');
    line
}

/// As one word of a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_command_has_nothing_that_shells_read_differently() {
        let within = COMMAND
            .strip_prefix("exec /bin/sh -c '")
            .and_then(|rest| rest.strip_suffix('\''))
            .expect("one word in quotes");
        assert!(!within.contains(['\'', '!', '\\', '\n']), "{within}");
    }

    #[test]
    fn nobody_who_sends_the_script_back_sends_the_mark() {
        let mark = Mark::new().expect("random numbers");
        let script = line(&mark, &[], None, &[]);
        assert!(!script.contains(&mark.text()));
        assert_eq!(script.find('\n'), Some(script.len() - 1), "one line");
    }

    #[test]
    fn a_word_stays_one_word_whatever_is_in_it() {
        let word = "a'b $(x) `y` \"z\" \\ !";
        let script = format!("printf %s {}", quoted(word));
        let output = sh(&script, "");
        assert_eq!(output, word);
    }

    #[test]
    fn a_machine_for_which_there_is_no_engine_is_told_by_its_name() {
        let mark = Mark::new().expect("random numbers");
        let said = sh(
            r#"IFS= read -r spp_s && eval "$spp_s""#,
            &line(&mark, &[], None, &[]),
        );
        let expected = format!("{} no engine {}", mark.text(), std::env::consts::ARCH);
        assert!(said.contains(&expected), "{said}");
    }

    fn sh(script: &str, input: &str) -> String {
        #[expect(
            clippy::disallowed_methods,
            reason = "the shell of this machine stands for one over there"
        )]
        let mut child = Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let mut pipe = child.stdin.take().expect("piped");
        // A shell that does not read is no failure.
        let _ = pipe.write_all(input.as_bytes());
        drop(pipe);
        let output = child.wait_with_output().expect("it ends");
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}
