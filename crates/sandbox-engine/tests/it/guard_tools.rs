//! What developers do all day goes on under a guard that keeps everything away that it can.

use sandbox_core::process::{ProcessSpec, PtySize, Status};
use sandbox_core::{Network, Policy, Restriction};

use super::file::as_ordinary_user;
use super::guard::Ground;

/// Runs a script under the strictest guard there is.
#[track_caller]
fn works(script: &'static str, says: &'static str) {
    as_ordinary_user(move || async move {
        let strictest = Policy {
            network: Some(Network::None),
            prefer: Restriction::ALL.into(),
            ..Policy::default()
        };
        let ground = Ground::new(strictest).await;
        let (status, text) = ground
            .sh(&format!("export HOME=$PWD; set -e; {script}"))
            .await;
        assert_eq!(status, Status::Exited(0), "{text}");
        assert!(text.ends_with(says), "{text}");
    });
}

#[test]
fn a_repository_is_made_and_committed_to() {
    works(
        "git init -q . && git config user.email a@b && git config user.name a && git add . \
         && git commit -qm first && git checkout -qb other && git log --format=%s",
        "first\n",
    );
}

#[test]
fn a_program_is_compiled_by_make_and_run() {
    works(
        "printf 'int puts(const char *); int main(void) { return puts(\"hello\") < 0; }' > a.c \
         && printf 'a: a.c\\n\\t@cc -o a a.c\\n' > Makefile && make -s && ./a && install -m 755 a b && ./b",
        "hello\nhello\n",
    );
}

#[test]
fn python_starts_threads_processes_and_temporary_files() {
    works(
        "python3 -c '
import subprocess, tempfile, threading, socket, os
with tempfile.NamedTemporaryFile() as file:
    file.write(b\"x\")
thread = threading.Thread(target=lambda: print(\"thread\", flush=True))
thread.start(); thread.join()
a, b = socket.socketpair()
a.send(b\"pair\\n\"); print(b.recv(9).decode(), end=\"\", flush=True)
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print(subprocess.run([\"echo\", \"child\"], capture_output=True, text=True).stdout, end=\"\")
'",
        "thread\npair\nchild\n",
    );
}

#[test]
fn a_shell_has_pipelines_jobs_and_its_streams_by_name() {
    works(
        "seq 1 100000 | sort -n | tail -1; echo named > /dev/stdout; echo gone > /dev/null; \
         bash -c 'sleep 1000 & kill %1; wait %1; echo \"ended $?\"'; cat <<END\nhere\nEND\n",
        "100000\nnamed\nended 143\nhere\n",
    );
}

#[test]
fn archives_keep_modes_and_times() {
    works(
        "mkdir d && echo x > d/f && chmod 700 d/f && touch -d 2001-01-01 d/f && tar cf a.tar d && rm -r d \
         && tar xpf a.tar && stat -c '%a %Y' d/f && cp -a d e && ln e/f e/g && mv e/g d/g && ls d",
        "f\ng\n",
    );
}

#[test]
fn a_terminal_is_made_and_used() {
    works(
        "python3 -c '
import os, pty
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(\"sh\", [\"sh\", \"-c\", \"echo inside > /dev/tty\"])
print(os.read(terminal, 100).decode().strip())
os.waitpid(pid, 0)
'",
        "inside\n",
    );
}

#[test]
fn a_command_has_the_terminal_that_it_was_given() {
    as_ordinary_user(|| async {
        let policy = Policy {
            network: Some(Network::None),
            ..Policy::default()
        };
        let ground = Ground::new(policy).await;
        let mut process = ProcessSpec::new([
            "sh",
            "-c",
            "tty && stty size < /dev/tty && echo x > /dev/tty",
        ]);
        process.pty = Some(PtySize {
            rows: 10,
            columns: 20,
        });
        let (status, text) = ground.run(process).await;
        assert_eq!(status, Status::Exited(0), "{text}");
        assert!(
            text.contains("/dev/pts/") && text.contains("10 20") && text.ends_with("x\r\n"),
            "{text}"
        );
    });
}

/// As a debugger does: what a process started itself it may trace.
#[test]
fn a_process_traces_its_own_child() {
    works(
        "python3 -c '
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_TRACEME, PTRACE_CONT = 0, 7
pid = os.fork()
if pid == 0:
    libc.ptrace(PTRACE_TRACEME, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(7)
_, status = os.waitpid(pid, 0)
assert os.WIFSTOPPED(status)
assert libc.ptrace(PTRACE_CONT, pid, 0, 0) == 0
_, status = os.waitpid(pid, 0)
print(\"traced\", os.WEXITSTATUS(status))
'",
        "traced 7\n",
    );
}
