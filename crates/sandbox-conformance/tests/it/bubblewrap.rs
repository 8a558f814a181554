//! The suite on the executable of `bubblewrap`, started by whoever runs the tests and by an ordinary user.
//!
//! The two differ in nearly everything beneath: root gives each sandbox a user of its own and maps the owner of the
//! workspace to it, an ordinary user has one user only. What a sandbox does must not differ.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sandbox_conformance::{Failure, Harness};
use sandbox_host::SearchPath;
use sandbox_host::config::UserFile;

use crate::{local, over_host};

/// A user that no system gives a name to.
const ORDINARY: u32 = 42_420;

fn search() -> Result<SearchPath, Failure> {
    Ok(SearchPath {
        beside: Some(local::executables()?),
        path: vec!["/usr/bin".into(), "/bin".into()],
    })
}

/// Started by whoever runs the tests.
mod as_started {
    use super::{Failure, Harness, UserFile, over_host, search};

    async fn bubblewrap() -> Result<Box<dyn Harness>, Failure> {
        over_host::provider("bubblewrap", UserFile::None, search()?).await
    }

    sandbox_conformance::suite!(bubblewrap);
}

/// Started by an ordinary user, whoever runs the tests.
mod as_a_user {
    use super::{Failure, Harness, ORDINARY, UserFile, enterable, local, over_host, search};

    async fn bubblewrap() -> Result<Box<dyn Harness>, Failure> {
        if !rustix::process::geteuid().is_root() {
            return over_host::provider("bubblewrap", UserFile::None, search()?).await;
        }
        let scratch = tempfile::tempdir().map_err(Failure::new)?;
        let executables = enterable(&local::executables()?, scratch.path())?;
        let provider = executables.join("spp-provider-bubblewrap");
        let file = scratch.path().join("config.toml");
        std::fs::write(
            &file,
            format!(
                "[sandbox.providers.bubblewrap]\ncommand = \"setpriv\"\nargs = ['--reuid={ORDINARY}', \
                 '--regid={ORDINARY}', '--clear-groups', '{}']\n",
                provider.display()
            ),
        )
        .map_err(Failure::new)?;
        over_host::owned(
            "bubblewrap",
            UserFile::Named(file),
            search()?,
            ORDINARY,
            scratch,
        )
        .await
    }

    sandbox_conformance::suite!(bubblewrap);
}

/// The executables where anybody can start them: where they are, or in `scratch`.
fn enterable(executables: &Path, scratch: &Path) -> Result<PathBuf, Failure> {
    let open = executables.ancestors().all(|directory| {
        std::fs::metadata(directory).is_ok_and(|it| it.permissions().mode() & 0o001 != 0)
    });
    if open {
        return Ok(executables.to_owned());
    }
    let everybody = || std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(scratch, everybody()).map_err(Failure::new)?;
    for name in ["spp-provider-bubblewrap", "spp-engine"] {
        let (from, to) = (executables.join(name), scratch.join(name));
        if std::fs::hard_link(&from, &to).is_err() {
            std::fs::copy(&from, &to).map_err(Failure::new)?;
        }
        std::fs::set_permissions(&to, everybody()).map_err(Failure::new)?;
    }
    Ok(scratch.to_owned())
}
