//! A terminal that the test plays, with `spp` on it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::{LIMIT, Place, eventually, finish, start};

/// A terminal with `spp` on it.
pub(crate) struct Terminal {
    pub(crate) keyboard: File,
    screen: mpsc::Receiver<Vec<u8>>,
    shown: String,
    passed: String,
    /// Kept open, so that the settings can be looked at after the end.
    pub(crate) line: OwnedFd,
    unplugged: Arc<AtomicBool>,
    pub(crate) child: Child,
}

impl Terminal {
    pub(crate) fn open(place: &Place, args: &[&str], shell: &str) -> Self {
        let mut command = place.command(args);
        command.env("SHELL", shell).env("PS1", "> ");
        Self::on(command.env("TERM", "dumb"))
    }

    /// With this command on it.
    pub(crate) fn on(command: &mut Command) -> Self {
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
            command
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
            passed: String::new(),
            line: line(),
            unplugged,
            child,
        }
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keyboard
            .write_all(keys.as_bytes())
            .expect("the terminal takes keys");
    }

    /// Waits until a text is shown, and forgets what came up to it.
    pub(crate) fn expect(&mut self, text: &str) {
        let start = Instant::now();
        loop {
            if let Some(at) = self.shown.find(text) {
                self.passed = self.shown.drain(..at + text.len()).collect();
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

    pub(crate) fn is_raw(&self) -> bool {
        !tcgetattr(&self.line)
            .expect("its settings")
            .local_modes
            .contains(LocalModes::ICANON)
    }

    /// Stops looking at the screen, so that nothing more can be shown once it is full.
    pub(crate) fn look_away(&self) {
        self.unplugged.store(true, Ordering::Relaxed);
    }

    /// Takes the terminal away.
    pub(crate) fn unplug(self) -> Option<i32> {
        self.look_away();
        drop((self.keyboard, self.line));
        finish(self.child).code
    }

    /// Waits for the end, and returns the status and everything that came since what was expected last.
    pub(crate) fn end_shown(mut self) -> (Option<i32>, String) {
        eventually("it ends", || {
            let ended = self.child.try_wait();
            ended.expect("a child can be waited for").is_some()
        });
        let mark = "-- the end --";
        rustix::io::write(&self.line, mark.as_bytes()).expect("written behind it");
        self.expect(mark);
        let shown = std::mem::take(&mut self.passed);
        (finish(self.child).code, shown.replace(mark, ""))
    }

    pub(crate) fn end(self) -> (Option<i32>, bool) {
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

pub(crate) fn resize(keyboard: &impl rustix::fd::AsFd, rows: u16, columns: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(keyboard, size).expect("a size can be set");
}
