//! The suite on the executable of `docker`, on the daemon that `cargo xtask test` brings up.

use sandbox_conformance::{Failure, Harness};
use sandbox_host::SearchPath;
use sandbox_host::config::UserFile;

use crate::{local, over_host};

/// A user that no system gives a name to, who owns the workspaces: nothing in a container is root outside.
const ORDINARY: u32 = 42_422;

async fn docker() -> Result<Box<dyn Harness>, Failure> {
    let daemon = std::env::var("SPP_TEST_DOCKER").map_err(|_| {
        Failure::new(
            "there is no container daemon: test with `cargo xtask test`, or name one with the images of \
             xtask/src/daemon.rs in SPP_TEST_DOCKER",
        )
    })?;
    let scratch = tempfile::tempdir().map_err(Failure::new)?;
    let file = scratch.path().join("config.toml");
    let options = format!(
        "[sandbox.providers.docker.options]\nimage = 'spp-test-busybox'\nhost = '{daemon}'\n"
    );
    std::fs::write(&file, options).map_err(Failure::new)?;
    let search = SearchPath {
        beside: Some(local::executables()?),
        path: vec!["/usr/bin".into(), "/bin".into()],
    };
    let user = rustix::process::geteuid();
    let owner = if user.is_root() {
        ORDINARY
    } else {
        user.as_raw()
    };
    over_host::owned("docker", UserFile::Named(file), search, owner, scratch).await
}

sandbox_conformance::suite!(docker);
