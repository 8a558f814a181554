//! The suite on the executable of `ssh`, on the server that `cargo xtask test` brings up, logged in as root and as an
//! ordinary user.
//!
//! The server is on this machine, so that what a sandbox did can be seen from outside.

use sandbox_conformance::{Failure, Harness};
use sandbox_host::SearchPath;
use sandbox_host::config::UserFile;

use crate::{local, over_host};

/// Logged in as root, where root runs the server.
mod as_root {
    use super::{Failure, Harness, at};

    async fn ssh() -> Result<Box<dyn Harness>, Failure> {
        at("spp-root").await
    }

    sandbox_conformance::suite!(ssh);
}

/// Logged in as an ordinary user.
mod as_a_user {
    use super::{Failure, Harness, at};

    async fn ssh() -> Result<Box<dyn Harness>, Failure> {
        at("spp-user").await
    }

    sandbox_conformance::suite!(ssh);
}

/// The user behind `spp-user`, where root runs the server.
const ORDINARY: u32 = 42_430;

async fn at(machine: &str) -> Result<Box<dyn Harness>, Failure> {
    let config = std::env::var("SPP_TEST_SSH").map_err(|_| {
        Failure::new(
            "there is no ssh server: test with `cargo xtask test`, or beside `cargo xtask sshd`, or name a configuration of ssh \
             with the machines of xtask/src/sshd.rs in SPP_TEST_SSH",
        )
    })?;
    let scratch = tempfile::tempdir().map_err(Failure::new)?;
    let file = scratch.path().join("config.toml");
    let options = format!(
        "[sandbox.providers.ssh.options]\nhost = '{machine}'\nroot = 'caller'\nconfig = '{config}'\n"
    );
    std::fs::write(&file, options).map_err(Failure::new)?;
    let search = SearchPath {
        beside: Some(local::executables()?),
        path: vec!["/usr/bin".into(), "/bin".into()],
    };
    let user = rustix::process::geteuid();
    let owner = match (user.is_root(), machine) {
        (true, "spp-user") => ORDINARY,
        _ => user.as_raw(),
    };
    over_host::owned("ssh", UserFile::Named(file), search, owner, scratch).await
}
