//! A container daemon for the tests, with two images and nothing else in it, gone when they are over.
//!
//! Its data, its socket and its containers are its own, in a directory that is removed with it: neither the machine's
//! daemon nor anybody's images are touched. Whoever is not root, or says where a daemon is (`SPP_TEST_DOCKER`), uses
//! that one.
//!
//! Not here: what is tested with it (`providers/docker/tests`).

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Context as _, Failure, Result};
use crate::process;

/// Where the tests find the daemon.
pub(crate) const ADDRESS: &str = "SPP_TEST_DOCKER";
/// The image in which there is a shell and what one calls from it.
const IMAGE: &str = "spp-test-busybox";
/// The image in which there is nothing.
const EMPTY: &str = "spp-test-empty";
/// How long the daemon may take to answer, and to end.
const WAIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
/// The group that may ask the daemon: the one that the tests' ordinary user is in.
const GROUP: &str = "42422";

/// A daemon that can be asked.
pub(crate) struct Daemon {
    address: String,
    own: Option<Own>,
}

/// One that was started here.
struct Own {
    child: Child,
    directory: PathBuf,
}

impl Daemon {
    /// Starts a daemon, or takes the one that is named, and gives it the images.
    ///
    /// # Errors
    ///
    /// It does not answer, or takes no image.
    pub(crate) fn start() -> Result<Self> {
        let daemon = match std::env::var(ADDRESS) {
            Ok(address) => Self { address, own: None },
            Err(_) if is_root()? => Self::own()?,
            Err(_) => Self {
                address: std::env::var("DOCKER_HOST")
                    .unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned()),
                own: None,
            },
        };
        daemon.wait()?;
        daemon.images()?;
        Ok(daemon)
    }

    /// Where it is, as the tests are told.
    pub(crate) fn variable(&self) -> (&'static str, &str) {
        (ADDRESS, &self.address)
    }

    fn own() -> Result<Self> {
        let directory =
            std::env::temp_dir().join(format!("spp-test-docker-{}", std::process::id()));
        fs::create_dir_all(&directory).context(|| format!("make {}", directory.display()))?;
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&directory, open).context(|| "open it to the tests' users".into())?;
        let at = |name: &str| directory.join(name).display().to_string();
        let address = format!("unix://{}", at("socket"));
        let log = File::create(at("log")).context(|| format!("write {}", at("log")))?;
        let errors = log
            .try_clone()
            .context(|| "write the daemon's log".into())?;
        let child = process::command("dockerd")
            .args(["--data-root", &at("data"), "--exec-root", &at("run")])
            .args([
                "--pidfile",
                &at("pid"),
                "--host",
                &address,
                "--group",
                GROUP,
            ])
            // No container of the tests has a network, and the machine's own is left as it is.
            .args(["--bridge=none", "--iptables=false", "--ip6tables=false"])
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .context(|| "start `dockerd`".into())?;
        let own = Some(Own { child, directory });
        Ok(Self { address, own })
    }

    fn wait(&self) -> Result<()> {
        let started = Instant::now();
        loop {
            let asked = self.docker(&["version", "--format={{.Server.Version}}"]);
            let Err(failure) = asked else { return Ok(()) };
            if started.elapsed() > WAIT {
                let log = self.own.as_ref().map(|own| own.directory.join("log"));
                let said = log
                    .and_then(|log| fs::read_to_string(log).ok())
                    .unwrap_or_default();
                let from = said.len().saturating_sub(2000);
                return Err(Failure::new(format!(
                    "the container daemon at {} does not answer: {failure}\n{}",
                    self.address,
                    said.get(from..).unwrap_or_default()
                )));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn docker(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let mut docker = process::command("docker");
        docker
            .arg(format!("--host={}", self.address))
            .args(arguments);
        process::capture(&mut docker)
    }

    /// Makes the images from what this machine has.
    fn images(&self) -> Result<()> {
        let directory =
            std::env::temp_dir().join(format!("spp-test-images-{}", std::process::id()));
        let made = lay_out(&directory).and_then(|()| {
            for (name, tree) in [(IMAGE, "busybox"), (EMPTY, "empty")] {
                let archive = directory.join(format!("{tree}.tar")).display().to_string();
                let tree = directory.join(tree).display().to_string();
                process::capture(
                    process::command("tar").args(["-C", &tree, "-cf", &archive, "."]),
                )?;
                self.docker(&["import", &archive, name])?;
            }
            Ok(())
        });
        let _ = fs::remove_dir_all(&directory);
        made
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let Some(own) = &mut self.own else { return };
        // It ends its containers and unmounts what they had; killed, it would leave both.
        let pid = own.child.id().to_string();
        let _ = process::capture(process::command("sh").args(["-c", "kill -TERM \"$0\"", &pid]));
        let started = Instant::now();
        while matches!(own.child.try_wait(), Ok(None)) && started.elapsed() < WAIT {
            std::thread::sleep(PAUSE);
        }
        let _ = own.child.kill();
        let _ = own.child.wait();
        let _ = fs::remove_dir_all(&own.directory);
    }
}

fn is_root() -> Result<bool> {
    Ok(process::capture(process::command("id").arg("-u"))?.trim_ascii() == b"0")
}

/// Two trees: busybox under all of its names, and one without anything.
fn lay_out(directory: &Path) -> Result<()> {
    let programs = directory.join("busybox/bin");
    for tree in [
        &programs,
        &directory.join("busybox/etc"),
        &directory.join("empty"),
    ] {
        fs::create_dir_all(tree).context(|| format!("make {}", tree.display()))?;
    }
    let found = process::capture(process::command("sh").args(["-c", "command -v busybox"]))?;
    let found = String::from_utf8_lossy(&found);
    let busybox = programs.join("busybox");
    fs::copy(found.trim(), &busybox).context(|| format!("copy {}", found.trim()))?;
    let names = process::capture(process::command(&busybox).arg("--list"))?;
    for name in String::from_utf8_lossy(&names).lines() {
        // Its own name is there.
        let _ = symlink("busybox", programs.join(name));
    }
    Ok(())
}
