//! An ssh server for the tests on loopback, with accounts that are difficult each in a way of its own, gone when they are
//! over.
//!
//! Its keys and its accounts are its own, in a directory that is removed with it: in a mount namespace that nobody else
//! is in, where `/etc/passwd` has more lines and some homes cannot be written or executed from. Nothing of the machine is
//! changed. Started by root, each account is a user of its own; started by anybody else, all of them are that user under
//! other names. Who says where a configuration of ssh is (`SPP_TEST_SSH`) has that one used, with the same names.
//!
//! Not here: what is tried with it (`providers/ssh/tests`).

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Context as _, Failure, Result};
use crate::process;

pub(crate) const HELP: &str = "\
Run a command beside the ssh server that the tests of the location `ssh` use, and end it with the command.

Usage: cargo xtask sshd COMMAND [ARGS...]

The command finds in SPP_TEST_SSH the configuration by which the accounts of that server are reached:
`ssh -F \"$SPP_TEST_SSH\" spp-user`.

Example: cargo xtask sshd cargo nextest run -p spp-provider-ssh";

/// Where the tests find the configuration of ssh by which the accounts are reached.
pub(crate) const CONFIG: &str = "SPP_TEST_SSH";
/// How long the server may take to listen.
const WAIT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);
/// The user that is behind the first account, and the others behind it: no system gives them a name.
const FIRST_USER: u32 = 42_430;

/// Runs a command beside a server.
///
/// # Errors
///
/// When there is no server, or the command fails.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let (program, args) = args
        .split_first()
        .ok_or_else(|| Failure::new("no command was given; see `cargo xtask sshd --help`"))?;
    let server = Server::start()?;
    let (name, config) = server.variable();
    process::run(process::command(program).args(args).env(name, config))
}

/// An account. Its name is that of the machine in the configuration of ssh as well.
struct Account {
    name: &'static str,
    /// Found in `PATH`.
    shell: &'static str,
    /// What the server does with it that is not usual. `DIR` stands for the directory of all this.
    server: &'static str,
    /// What its shell reads when it begins.
    profile: &'static str,
}

const fn account(name: &'static str, shell: &'static str) -> Account {
    Account {
        name,
        shell,
        server: "",
        profile: "",
    }
}

/// The account that is root where the server is root's.
const ROOT: &str = "spp-root";
const ACCOUNTS: [Account; 16] = [
    account("spp-user", "sh"),
    account(ROOT, "bash"),
    account("spp-csh", "csh"),
    account("spp-fish", "fish"),
    account("spp-readonly", "sh"),
    account("spp-noexec", "sh"),
    account("spp-nologin", "nologin"),
    account("spp-stranger", "sh"),
    Account {
        profile: "echo 'Welcome to this machine'; printf 'run no send \\001\\377 and no line end'; echo words >&2\n",
        server: "Banner DIR/banner",
        ..account("spp-noisy", "bash")
    },
    Account {
        profile: "(while sleep 0.001; do echo and on; done) & echo $! >~/chatter\n",
        ..account("spp-chatter", "bash")
    },
    Account {
        server: "MaxSessions 1",
        ..account("spp-one", "sh")
    },
    Account {
        server: "ForceCommand echo this is a gate; exit 7",
        ..account("spp-gate", "sh")
    },
    Account {
        server: "ForceCommand /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"",
        ..account("spp-passed", "bash")
    },
    Account {
        profile: "uname() { echo Plan9 mips; }; export -f uname; mkdir -p ~/bin; printf '#!/bin/sh\\necho Plan9 mips\\n' >~/bin/uname; chmod 755 ~/bin/uname; PATH=~/bin:$PATH\n",
        ..account("spp-other-system", "bash")
    },
    Account {
        profile: "mkdir -p ~/bin; busybox --install -s ~/bin; PATH=$HOME/bin\n",
        ..account("spp-busybox", "bash")
    },
    Account {
        server: "SetEnv TMPDIR=/tmp/LONG",
        ..account("spp-long", "sh")
    },
];

/// A server that can be asked.
pub(crate) struct Server {
    config: PathBuf,
    own: Option<Own>,
}

/// One that was started here.
struct Own {
    child: Child,
    directory: PathBuf,
}

impl Server {
    /// Starts a server, or takes the one that is named.
    ///
    /// # Errors
    ///
    /// It does not listen, or lets nobody in.
    pub(crate) fn start() -> Result<Self> {
        let server = match std::env::var_os(CONFIG) {
            Some(config) => Self {
                config: config.into(),
                own: None,
            },
            None => Self::own()?,
        };
        let mut ssh = process::command("ssh");
        ssh.arg("-F").arg(&server.config);
        ssh.args(["-o", "BatchMode=yes", "spp-user", "true"]);
        match process::capture(&mut ssh) {
            Ok(_) => Ok(server),
            Err(failure) => Err(Failure::new(format!("{failure}\n{}", server.log()))),
        }
    }

    /// Where the configuration is, as the tests are told.
    pub(crate) fn variable(&self) -> (&'static str, &Path) {
        (CONFIG, &self.config)
    }

    fn own() -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("spp-test-ssh-{}", std::process::id()));
        fs::create_dir_all(&directory).context(|| format!("make {}", directory.display()))?;
        let user = number("-u")?;
        let port = lay_out(&directory, user)?;
        let log =
            File::create(directory.join("log")).context(|| "write the server's log".into())?;
        let errors = log
            .try_clone()
            .context(|| "write the server's log".into())?;
        let mut unshare = process::command("unshare");
        if user != 0 {
            unshare.args(["--user", "--map-current-user", "--keep-caps"]);
        }
        let child = unshare
            .args(["--mount", "--propagation", "private"])
            .args(["/bin/sh", "-e", "-c", ENTER, "sh"])
            .arg(&directory)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .context(|| "start `unshare`".into())?;
        let server = Self {
            config: directory.join("ssh_config"),
            own: Some(Own { child, directory }),
        };
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if started.elapsed() > WAIT {
                return Err(Failure::new(format!(
                    "the ssh server does not listen:\n{}",
                    server.log()
                )));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(server)
    }

    /// The end of what the server wrote.
    fn log(&self) -> String {
        let log = self.own.as_ref().map(|own| own.directory.join("log"));
        let log = log.and_then(|log| fs::read(log).ok()).unwrap_or_default();
        let from = log.len().saturating_sub(2000);
        String::from_utf8_lossy(&log[from..]).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(own) = &mut self.own else { return };
        let _ = own.child.kill();
        let _ = own.child.wait();
        let _ = fs::remove_dir_all(&own.directory);
    }
}

/// What is done in the namespace. `/var/tmp` is its own, so that nothing is left there; the privileges that mounting
/// took are given up. The server ends with whoever started it, however that ends.
const ENTER: &str = r#"
cd "$1"
mount --bind passwd /etc/passwd
mount -t tmpfs none /var/tmp -o mode=1777
mount --bind home/spp-readonly home/spp-readonly
mount -o remount,bind,ro home/spp-readonly
mount --bind home/spp-noexec home/spp-noexec
mount -o remount,bind,noexec home/spp-noexec
PATH=$PATH:/usr/sbin:/sbin
server=$(command -v sshd)
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
exec setpriv --pdeathsig=KILL --inh-caps=-all --ambient-caps=-all "$server" -D -e -f "$1/sshd_config"
"#;

/// Writes everything that the server and its clients read, and returns the port.
fn lay_out(directory: &Path, user: u32) -> Result<u16> {
    let at = |name: &str| directory.join(name);
    let write = |name: &str, text: &str| {
        fs::write(at(name), text).context(|| format!("write {}", at(name).display()))
    };
    let mode = |name: &str, mode: u32| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(at(name), mode).context(|| format!("open {}", at(name).display()))
    };
    mode(".", 0o755)?;
    for sub in ["home", "keys"] {
        fs::create_dir_all(at(sub)).context(|| format!("make {}", at(sub).display()))?;
        mode(sub, 0o755)?;
    }
    for key in ["host_key", "client_key", "other_key"] {
        let path = at(key).display().to_string();
        process::capture(
            process::command("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &path]),
        )?;
    }
    let read = |name: &str| {
        fs::read_to_string(at(name)).context(|| format!("read {}", at(name).display()))
    };
    let port = free_port()?;
    for (known, key) in [("known", "host_key.pub"), ("changed", "other_key.pub")] {
        write(known, &format!("[127.0.0.1]:{port} {}", read(key)?))?;
    }
    write("unknown", "")?;
    write("banner", "This machine is watched.\n")?;
    let root = directory.display();
    let mut passwd =
        fs::read_to_string("/etc/passwd").context(|| "read the machine's users".into())?;
    let mut server = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {root}/host_key\nPidFile none\n\
         AuthorizedKeysFile {root}/keys/%u\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nMaxStartups 200\nPrintMotd no\n"
    );
    // Newer servers shut out who fails too often, which some tests do.
    let penalties = format!("{server}PerSourcePenalties no\n");
    write("sshd_config", &penalties)?;
    let config = at("sshd_config").display().to_string();
    let is_known = process::capture(process::command("sh").args([
        "-c",
        "PATH=$PATH:/usr/sbin:/sbin; \"$(command -v sshd)\" -t -f \"$0\"",
        &config,
    ]));
    if is_known.is_ok() {
        server = penalties;
    }
    let mut client = String::new();
    for (number, account) in (FIRST_USER..).zip(&ACCOUNTS) {
        let name = account.name;
        let user = match (user, name) {
            (0, ROOT) => 0,
            (0, _) => number,
            (user, _) => user,
        };
        let home = format!("home/{name}");
        fs::create_dir_all(at(&home)).context(|| format!("make {}", at(&home).display()))?;
        write(&format!("{home}/.bashrc"), account.profile)?;
        own(&at(&home), user)?;
        let shell = which(account.shell)?;
        let _ = writeln!(passwd, "{name}:x:{user}:{user}::{root}/{home}:{shell}");
        let key = if name == "spp-stranger" {
            "other_key.pub"
        } else {
            "client_key.pub"
        };
        write(&format!("keys/{name}"), &read(key)?)?;
        if !account.server.is_empty() {
            let said = account.server.replace("DIR", &root.to_string());
            let said = said.replace("LONG", &"long/".repeat(60));
            let _ = writeln!(server, "Match User {name}\n  {said}");
        }
        let _ = writeln!(client, "Host {name}\n  User {name}");
    }
    write("passwd", &passwd)?;
    write("sshd_config", &server)?;
    for (name, said) in [
        ("spp-unknown", format!("UserKnownHostsFile {root}/unknown")),
        ("spp-changed", format!("UserKnownHostsFile {root}/changed")),
        ("spp-closed", "Port 1".to_owned()),
        (
            "spp-nameless",
            "HostName no-such-machine.invalid".to_owned(),
        ),
        ("spp-behind", "ProxyJump spp-user".to_owned()),
        ("spp-behind-unknown", "ProxyJump spp-unknown".to_owned()),
    ] {
        let _ = writeln!(client, "Host {name}\n  User spp-user\n  {said}");
    }
    let _ = writeln!(
        client,
        "Host spp-*\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {root}/client_key\n  IdentitiesOnly yes\n  \
         UserKnownHostsFile {root}/known\n  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n  \
         KexAlgorithms curve25519-sha256"
    );
    write("ssh_config", &client)?;
    // Who runs as somebody else and tries the way has to be able to read it.
    mode("ssh_config", 0o644)?;
    Ok(port)
}

/// A port that nobody listens on.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address
        .context(|| "find a port that is free".into())?
        .port())
}

fn which(program: &str) -> Result<String> {
    let script = "PATH=$PATH:/usr/sbin:/sbin; command -v \"$0\"";
    let found = process::capture(process::command("/bin/sh").args(["-c", script, program]))?;
    Ok(String::from_utf8_lossy(&found).trim().to_owned())
}

fn number(of: &str) -> Result<u32> {
    let said = process::capture(process::command("id").arg(of))?;
    let said = String::from_utf8_lossy(&said);
    said.trim()
        .parse()
        .map_err(|_| Failure::new(format!("`id {of}` printed {said:?}")))
}

/// Gives a home to its user, where that is somebody else.
fn own(home: &Path, user: u32) -> Result<()> {
    for path in [home.to_owned(), home.join(".bashrc")] {
        std::os::unix::fs::chown(&path, Some(user), None)
            .context(|| format!("give {} to user {user}", path.display()))?;
    }
    Ok(())
}
