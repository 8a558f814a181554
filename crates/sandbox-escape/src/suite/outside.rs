//! What is to be reached from inside, and what was reached of it.
//!
//! All of it belongs to the user that starts the column, and goes with this process: a control column can
//! reach it because that user may.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::mem::ManuallyDrop;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode};

use super::Failure;
use crate::attempt::files::HIDDEN;
use crate::attempt::life::{ALIVE, STOP};
use crate::call::{NONE, call, share};
use crate::ground::Ground;
use crate::hostile::{BYSTANDER, command};

/// What is in the file outside.
const BEFORE: &str = "what was there before\n";
/// How long something that was sent may be under way.
const UNDER_WAY: Duration = Duration::from_millis(20);

/// What is to be reached.
pub(super) struct Outside {
    /// What the hostile program is told of it.
    pub(super) ground: Ground,
    /// The column's directory.
    pub(super) directory: PathBuf,
    secret: String,
    arrived: Arrived,
    bystander: Child,
    segment: i64,
    queue: i64,
    queue_name: CString,
    /// Descriptors that a careless program would let everybody inherit.
    leaked: [OwnedFd; 2],
    /// Closed with the process: one whose terminal goes away is ended by that.
    _terminals: ManuallyDrop<[OwnedFd; 2]>,
}

type Arrived = Arc<Mutex<BTreeSet<String>>>;

impl Outside {
    /// Makes all of it.
    ///
    /// - `directory`: the column's, prepared
    pub(super) fn new(directory: &Path, secret: &str) -> Result<Self, Failure> {
        let arrived = Arrived::default();
        let workspace = directory.join("workspace");
        std::fs::write(directory.join("secret"), secret)?;
        // Before anything has a thread: this process's session gets a terminal of its own, as a shell's has.
        rustix::process::setsid()?;
        let (held, _) = terminal(&arrived, libc::O_RDWR)?;
        let (another, terminal) = terminal(&arrived, libc::O_RDWR | libc::O_NOCTTY)?;

        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let abstract_socket = format!("spp-escape-{}", std::process::id());
        let by_name = SocketAddr::from_abstract_name(&abstract_socket)?;
        let (tcp_port, udp_port) = (tcp.local_addr()?.port(), udp.local_addr()?.port());
        accept(&arrived, move || tcp.accept().map(|(stream, _)| stream));
        for listener in [
            UnixListener::bind_addr(&by_name)?,
            UnixListener::bind(directory.join("service"))?,
            UnixListener::bind(workspace.join("service"))?,
        ] {
            accept(&arrived, move || {
                listener.accept().map(|(stream, _)| stream)
            });
        }
        let datagrams = UnixDatagram::bind(workspace.join("service.datagrams"))?;
        receive(&arrived, move |room| udp.recv(room));
        receive(&arrived, move |room| datagrams.recv(room));

        let fifo = directory.join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        // Open on both ends, so that it has no end.
        let mut ends = File::options().read(true).write(true).open(&fifo)?;
        receive(&arrived, move |room| ends.read(room));

        let queue_name = CString::new(abstract_socket.as_str())?;
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_CLOEXEC;
        call!(libc::SYS_mq_open, &*queue_name, flags, 0o600, NONE)?;
        let key = i32::try_from(std::process::id())? | 0x5350_0000;
        let bystander = bystander(directory, secret)?;
        let ground = Ground {
            secret: directory.join("secret"),
            outside: directory.join("outside"),
            readonly: directory.join("readonly"),
            beside: directory.to_owned(),
            engine: directory.join("bin/spp-engine"),
            driver: std::process::id().cast_signed(),
            bystander: bystander.id().cast_signed(),
            tcp: tcp_port,
            udp: udp_port,
            abstract_socket,
            socket: directory.join("service"),
            fifo,
            shared_socket: "service".into(),
            shared_memory: key,
            everybody: false,
            terminal,
        };
        let mut outside = Self {
            ground,
            directory: directory.to_owned(),
            secret: secret.to_owned(),
            arrived,
            bystander,
            segment: share(key, secret.as_bytes())?,
            queue_name,
            queue: call!(
                libc::SYS_msgget,
                key,
                libc::IPC_CREAT | libc::IPC_EXCL | 0o600
            )?,
            leaked: [
                leak(directory, libc::O_DIRECTORY)?,
                leak(&directory.join("secret"), 0)?,
            ],
            _terminals: ManuallyDrop::new([held, another]),
        };
        outside.restore()?;
        Ok(outside)
    }

    /// Puts back what an attempt may have changed.
    pub(super) fn restore(&mut self) -> Result<(), Failure> {
        self.heard().clear();
        let alive = self.directory.join("workspace").join(ALIVE);
        if alive.exists() {
            self.end_survivors()?;
        }
        std::fs::write(&alive, "")?;
        // Who runs there may be another user.
        std::fs::set_permissions(&alive, std::fs::Permissions::from_mode(0o666))?;
        for path in self.left() {
            remove(&path)?;
        }
        hide(&self.directory.join("workspace"), &self.secret)?;
        remove(&self.ground.outside)?;
        std::fs::write(&self.ground.outside, BEFORE)?;
        std::fs::set_permissions(&self.ground.outside, std::fs::Permissions::from_mode(0o600))?;
        if self.bystander.try_wait()?.is_some() {
            self.bystander = bystander(&self.directory, &self.secret)?;
            self.ground.bystander = self.bystander.id().cast_signed();
        }
        Ok(())
    }

    /// Whether this is in it.
    pub(super) fn is_in(&self, text: &str) -> bool {
        text.contains(&self.secret)
    }

    /// Whether somebody sent this here.
    ///
    /// - `patience`: how long to wait for it
    pub(super) fn arrived(&self, id: &str, told_to_have_sent: bool) -> bool {
        let patience = if told_to_have_sent {
            UNDER_WAY * 50
        } else {
            UNDER_WAY
        };
        let started = Instant::now();
        loop {
            if self.heard().contains(id) {
                return true;
            }
            if started.elapsed() > patience {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What was changed or left, if anything was.
    pub(super) fn changed(&self) -> Option<String> {
        if let Some(left) = self
            .left()
            .into_iter()
            .find(|path| path.symlink_metadata().is_ok())
        {
            return Some(format!("{} was left", left.display()));
        }
        let hidden = |name: &&str| {
            let path = self.directory.join("workspace").join(name);
            std::fs::read_to_string(path).is_ok_and(|text| text == self.secret)
        };
        if let Some(name) = HIDDEN.iter().find(|name| !hidden(name)) {
            return Some(format!("{name} is no longer what it was"));
        }
        let file = &self.ground.outside;
        match std::fs::read_to_string(file) {
            Ok(text) if text != BEFORE => return Some("the file outside has other content".into()),
            Ok(_) => {}
            Err(error) => return Some(format!("the file outside: {error}")),
        }
        let mode = std::fs::metadata(file).map_or(0, |it| it.permissions().mode() & 0o7777);
        (mode != 0o600).then(|| format!("the file outside has mode {mode:o}"))
    }

    /// A file of the workspace that gives its owner's rights away.
    pub(super) fn set_id(&self) -> Option<String> {
        let entries = std::fs::read_dir(self.directory.join("workspace")).ok()?;
        entries.flatten().find_map(|entry| {
            let mode = entry.metadata().ok()?.permissions().mode() & 0o7777;
            (mode & 0o6000 != 0).then(|| format!("{} has mode {mode:o}", entry.path().display()))
        })
    }

    /// Whether the process outside is gone.
    pub(super) fn is_bystander_gone(&mut self) -> bool {
        let started = Instant::now();
        loop {
            if !matches!(self.bystander.try_wait(), Ok(None)) {
                return true;
            }
            if started.elapsed() > UNDER_WAY {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether something that an attempt left holds its lock, and so is alive.
    pub(super) fn somebody_lives(&self) -> bool {
        let path = self.directory.join("workspace").join(ALIVE);
        File::open(path).is_ok_and(|file| file.try_lock().is_err())
    }

    /// Whether somebody else holds the lock that this process held, and gives up here.
    pub(super) fn is_lock_held(&mut self) -> bool {
        // Two at once: the one that is asked is another than the one that was held.
        let (Ok(again), Ok(asked)) = (
            leak(&self.directory, libc::O_DIRECTORY),
            File::open(&self.ground.secret),
        ) else {
            return true;
        };
        drop(std::mem::replace(&mut self.leaked[1], again));
        let held = asked.try_lock().is_err();
        drop(asked);
        if let Ok(again) = leak(&self.ground.secret, 0) {
            self.leaked[1] = again;
        }
        held
    }

    /// Ends what an attempt left alive.
    fn end_survivors(&self) -> Result<(), Failure> {
        let workspace = self.directory.join("workspace");
        let started = Instant::now();
        std::fs::write(workspace.join(STOP), "")?;
        while self.somebody_lives() {
            if started.elapsed() > Duration::from_secs(60) {
                return Err("what an attempt left does not end".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        remove(&workspace.join(STOP))?;
        Ok(())
    }

    /// Kills whatever was started from the column's directory and is left, such as what an attempt has stopped.
    fn end_strays(&self) {
        let own = std::process::id().cast_signed();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else {
                continue;
            };
            // Its link to the executable is closed where it does not let itself be looked into.
            let runs = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if pid != own
                && runs.starts_with(self.directory.as_os_str().as_encoded_bytes())
                && let Some(pid) = rustix::process::Pid::from_raw(pid)
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }

    /// Where something may have been left.
    fn left(&self) -> Vec<PathBuf> {
        let name = format!("spp-escape-{}", self.ground.driver);
        let mut all: Vec<PathBuf> = ["/tmp", "/dev/shm", "/var/tmp"]
            .iter()
            .map(|directory| Path::new(directory).join(&name))
            .collect();
        all.push(self.directory.join("bin/left-F33"));
        all.push(self.directory.join("left-F34"));
        all.push(self.directory.join("left-F55"));
        all
    }

    fn heard(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.end_survivors();
        self.end_strays();
        let _ = self.bystander.kill();
        let _ = self.bystander.wait();
        let _ = call!(libc::SYS_shmctl, self.segment, libc::IPC_RMID, NONE);
        let _ = call!(libc::SYS_mq_unlink, &*self.queue_name);
        let _ = call!(libc::SYS_msgctl, self.queue, libc::IPC_RMID, NONE);
        for path in self.left() {
            let _ = remove(&path);
        }
    }
}

/// Writes what a policy hides of a workspace.
pub(super) fn hide(workspace: &Path, secret: &str) -> std::io::Result<()> {
    for name in HIDDEN {
        let path = workspace.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(workspace))?;
        std::fs::write(path, secret)?;
    }
    Ok(())
}

fn remove(path: &Path) -> std::io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir(path),
        _ => std::fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A process that does nothing, with the secret in its arguments and its environment.
fn bystander(directory: &Path, secret: &str) -> std::io::Result<Child> {
    command(directory.join("hostile/spp-escape"))
        .args([BYSTANDER, secret])
        .env("TOKEN", secret)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
}

/// Opens something so that whatever is started inherits it.
fn leak(path: &Path, flags: i32) -> Result<OwnedFd, Failure> {
    let opened = File::options().read(true).custom_flags(flags).open(path)?;
    let _ = opened.try_lock();
    // A number that nothing else here gets.
    let leaked = rustix::io::fcntl_dupfd_cloexec(&opened, 60)?;
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty())?;
    Ok(leaked)
}

/// A terminal of which what is written to it is read here; its other end, held open, and its name.
fn terminal(arrived: &Arrived, flags: i32) -> Result<(OwnedFd, PathBuf), Failure> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&controller)?;
    unlockpt(&controller)?;
    let name = PathBuf::from(ptsname(&controller, Vec::new())?.into_string()?);
    let held = File::options()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(&name)?;
    let mut controller = File::from(controller);
    receive(arrived, move |room| controller.read(room));
    Ok((held.into(), name))
}

/// Notes the first words of everybody who connects.
fn accept<S: Read>(arrived: &Arrived, next: impl Fn() -> std::io::Result<S> + Send + 'static) {
    receive(arrived, move |room| {
        // One who says nothing is let go when the next one ends the wait: each attempt speaks at once, and ends.
        next()?.read(room)
    });
}

/// Notes every message.
fn receive(
    arrived: &Arrived,
    mut next: impl FnMut(&mut [u8]) -> std::io::Result<usize> + Send + 'static,
) {
    let arrived = Arc::clone(arrived);
    std::thread::spawn(move || {
        let mut room = [0_u8; 64];
        while let Ok(count) = next(&mut room) {
            let text = String::from_utf8_lossy(&room[..count]).into_owned();
            arrived
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(text);
        }
    });
}

#[cfg(test)]
mod tests {
    /// The number under which a careless program would let something be inherited.
    #[test]
    fn what_is_leaked_stays_open_in_what_is_started() {
        let leaked =
            super::leak(std::path::Path::new("/"), libc::O_DIRECTORY).expect("it is there");
        let flags = rustix::io::fcntl_getfd(&leaked).expect("it is open");
        assert!(flags.is_empty(), "{flags:?}");
        assert!(std::os::fd::AsRawFd::as_raw_fd(&leaked) >= 60);
    }
}
