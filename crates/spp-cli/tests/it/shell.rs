//! `spp shell`, at a terminal that the test plays.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::support::{LIMIT, Place, check, children, eventually, finish, runs, signal, start};

/// A terminal with `spp` on it.
struct Terminal {
    keyboard: File,
    screen: mpsc::Receiver<Vec<u8>>,
    shown: String,
    /// Kept open, so that the settings can be looked at after the end.
    line: OwnedFd,
    unplugged: Arc<AtomicBool>,
    child: Child,
}

impl Terminal {
    fn open(place: &Place, args: &[&str], shell: &str) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        grantpt(&keyboard).expect("access to it");
        unlockpt(&keyboard).expect("access to it");
        resize(&keyboard, 30, 100);
        let name = ptsname(&keyboard, Vec::new()).expect("its name");
        let line = || {
            rustix::fs::open(
                &name,
                OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .expect("its other end")
        };
        let child = start(
            place
                .command(args)
                .env("SHELL", shell)
                .env("PS1", "> ")
                .env("TERM", "dumb")
                .stdin(Stdio::from(line()))
                .stdout(Stdio::from(line()))
                .stderr(Stdio::from(line())),
        );
        let keyboard = File::from(keyboard);
        let mut reader = keyboard.try_clone().expect("another handle");
        let (told, screen) = mpsc::channel();
        let unplugged = Arc::new(AtomicBool::new(false));
        std::thread::spawn({
            let unplugged = Arc::clone(&unplugged);
            move || {
                let mut buffer = [0; 4096];
                // Looks up now and then, so that its handle does not keep a terminal that is gone.
                while !unplugged.load(Ordering::Relaxed) {
                    let pause = Timespec {
                        tv_sec: 0,
                        tv_nsec: 20_000_000,
                    };
                    let mut readable = [PollFd::new(&reader, PollFlags::IN)];
                    if !poll(&mut readable, Some(&pause)).is_ok_and(|count| count > 0) {
                        continue;
                    }
                    match reader.read(&mut buffer) {
                        Ok(0) | Err(_) => break,
                        Ok(count) if told.send(buffer[..count].to_vec()).is_err() => break,
                        Ok(_) => {}
                    }
                }
            }
        });
        Self {
            keyboard,
            screen,
            shown: String::new(),
            line: line(),
            unplugged,
            child,
        }
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard
            .write_all(keys.as_bytes())
            .expect("the terminal takes keys");
    }

    /// Waits until a text is shown, and forgets what came up to it.
    fn expect(&mut self, text: &str) {
        let start = Instant::now();
        loop {
            if let Some(at) = self.shown.find(text) {
                self.shown.drain(..at + text.len());
                return;
            }
            assert!(
                start.elapsed() < LIMIT,
                "{text:?} was not shown; what was: {:?}",
                self.shown
            );
            if let Ok(piece) = self.screen.recv_timeout(Duration::from_millis(100)) {
                self.shown.push_str(&String::from_utf8_lossy(&piece));
            }
        }
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.line)
            .expect("its settings")
            .local_modes
            .contains(LocalModes::ICANON)
    }

    /// Stops looking at the screen, so that nothing more can be shown once it is full.
    fn look_away(&self) {
        self.unplugged.store(true, Ordering::Relaxed);
    }

    /// Takes the terminal away.
    fn unplug(self) -> Option<i32> {
        self.look_away();
        drop((self.keyboard, self.line));
        finish(self.child).code
    }

    fn end(self) -> (Option<i32>, bool) {
        let restored = |line: &OwnedFd| {
            tcgetattr(line)
                .expect("its settings")
                .local_modes
                .contains(LocalModes::ICANON | LocalModes::ECHO)
        };
        let ended = finish(self.child);
        (ended.code, restored(&self.line))
    }
}

fn resize(keyboard: &impl rustix::fd::AsFd, rows: u16, columns: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(keyboard, size).expect("a size can be set");
}

#[test]
fn a_shell_has_the_terminals_size_follows_it_and_gives_it_back() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["shell"], "/bin/sh");
    terminal.expect("> ");
    assert!(terminal.is_raw());
    terminal.type_in("stty size; tty | sed s/^/tty-/\n");
    terminal.expect("30 100");
    terminal.expect("tty-/dev/");
    resize(&terminal.keyboard, 41, 121);
    signal(&terminal.child, Signal::WINCH);
    // The change takes its own way; ask until it has arrived.
    terminal
        .type_in("until [ \"$(stty size)\" = '41 121' ]; do sleep 0.05; done; echo resi''zed\n");
    terminal.expect("resized");
    terminal.type_in("exit 3\n");
    assert_eq!(terminal.end(), (Some(3), true));
}

#[test]
fn ctrl_c_reaches_the_program_in_the_shell_and_not_spp() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["shell"], "/bin/sh");
    terminal.expect("> ");
    // Typed so that only the program's own output, not the echo of the keys, is what is waited for.
    terminal.type_in("sh -c \"echo st''arted; exec sleep 1000\"\n");
    terminal.expect("started");
    terminal.type_in("\x03");
    terminal.expect("> ");
    terminal.type_in("echo ali''ve\n");
    terminal.expect("alive");
    terminal.type_in("exit\n");
    assert_eq!(terminal.end(), (Some(0), true));
}

#[test]
fn much_output_is_shown_to_its_end() {
    let place = Place::new();
    let mut terminal = Terminal::open(
        &place,
        &[
            "shell",
            "--",
            "sh",
            "-c",
            "seq 1 300000; echo the-end; exit 9",
        ],
        "/bin/sh",
    );
    terminal.expect("299999\r\n300000\r\nthe-end");
    assert_eq!(terminal.end(), (Some(9), true));
}

#[test]
fn a_request_to_terminate_restores_the_terminal() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["shell"], "/bin/sh");
    terminal.expect("> ");
    signal(&terminal.child, Signal::TERM);
    let (code, restored) = terminal.end();
    assert!(restored, "the terminal was left raw");
    assert!(code.is_some_and(|code| code >= 128), "{code:?}");
}

#[test]
fn a_terminal_that_goes_away_ends_the_shell_and_what_runs_in_it() {
    let place = Place::new();
    let script = "trap '' HUP TERM; echo $$ > pids; while :; do sleep 1; done";
    let terminal = Terminal::open(&place, &["shell", "--", "sh", "-c", script], "/bin/sh");
    let pids = place.pids("pids", 1);
    let code = terminal.unplug();
    assert!(code.is_some_and(|code| code != 0), "{code:?}");
    assert!(!runs(pids[0]), "the program in the shell was left");
}

#[test]
fn without_a_terminal_it_explains_itself() {
    let place = Place::new();
    let ended = place.spp(&["shell"]);
    check(&ended, 125, "");
    assert!(ended.stderr.contains("spp run"), "{}", ended.stderr);
}

#[test]
fn a_provider_that_crashes_gives_the_terminal_back() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["shell"], "/bin/sh");
    terminal.expect("> ");
    for provider in children(&terminal.child) {
        kill_process(provider, Signal::KILL).expect("it runs");
    }
    terminal.expect("signal 9 ended it");
    assert_eq!(terminal.end(), (Some(125), true));
}

#[test]
fn a_shell_that_was_stopped_takes_its_terminal_again() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["shell"], "/bin/sh");
    terminal.expect("> ");
    signal(&terminal.child, Signal::STOP);
    // As the shell does that spp was started from.
    let mut cooked = tcgetattr(&terminal.line).expect("its settings");
    cooked.local_modes |= LocalModes::ICANON | LocalModes::ECHO;
    tcsetattr(&terminal.line, OptionalActions::Now, &cooked).expect("other settings");
    resize(&terminal.keyboard, 42, 142);
    signal(&terminal.child, Signal::CONT);
    eventually("the terminal is raw again", || terminal.is_raw());
    terminal
        .type_in("until [ \"$(stty size)\" = '42 142' ]; do sleep 0.05; done; echo resi''zed\n");
    terminal.expect("resized");
    terminal.type_in("exit\n");
    assert_eq!(terminal.end(), (Some(0), true));
}

#[test]
fn a_screen_that_stands_still_keeps_nothing_from_ending() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["shell", "--", "yes"], "/bin/sh");
    terminal.expect("y");
    terminal.look_away();
    let providers = children(&terminal.child);
    signal(&terminal.child, Signal::TERM);
    assert_eq!(terminal.end(), (Some(143), true));
    assert!(providers.into_iter().all(|pid| !runs(pid)));
}

#[test]
fn what_cannot_be_started_in_a_terminal_has_the_status_that_shells_give() {
    let place = Place::new();
    place.put("plain", "");
    for (program, code) in [("no-such-program-here", 127), ("./plain", 126)] {
        let mut terminal = Terminal::open(&place, &["shell", "--", program], "/bin/sh");
        // In colour, which is ours, and not escaped, as what others say is.
        terminal.expect("\u{1b}[1;31mspp:\u{1b}[0m failed to spawn");
        assert_eq!(terminal.end(), (Some(code), true));
    }
}
