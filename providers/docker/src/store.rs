//! A container that is never started, and holds the volumes of a sandbox whose daemon does not see this machine's files: one
//! with the engine, one that is the workspace.
//!
//! The engine is sent once, as an image with nothing else in it but an empty directory that belongs to who will work there.
//! A daemon gives a new volume what its image has at that place, with the owner: so nothing is copied by hand, nothing
//! is unpacked by a program of the image, and nothing ever runs as root.
//!
//! **Invariant:** a store has the labels of its maker, and goes with the container that has its volumes, or is removed with
//! what else the dead have left.

use std::io;
use std::path::{Path, PathBuf};

use sandbox_core::SandboxId;
use spp_client::place::{Refusal, Spawner};
use tokio::sync::OnceCell;

use crate::cli::{Answer, Cli, PULL};
use crate::container::{ENGINE, SANDBOX};
use crate::options::User;
use crate::plan::WORKSPACE;
use crate::{owner, refusal};

/// How stores are called, behind the name of the container that has their volumes.
pub(crate) const SUFFIX: &str = "-store";
/// The label of images that hold an engine; its value says which.
const LABEL: &str = "spp.engine";
/// What they are called, before which engine it is and whose the workspace.
const IMAGE: &str = "spp-engine";
/// Digits of a digest that are enough of a name.
const DIGITS: usize = 32;
const EVERYBODY_EXECUTES: u32 = 0o555;
const EVERYBODY_ENTERS: u32 = 0o755;
const OWNER_ALONE: u32 = 0o700;

/// The engine that is sent.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    digest: OnceCell<String>,
}

impl Sent {
    /// Makes a store of this name, for this sandbox.
    ///
    /// - `engine`: the executable on this machine
    ///
    /// # Errors
    ///
    /// Why there is none. Something may have been made all the same.
    pub(crate) async fn store(
        &self,
        cli: &Cli,
        spawner: &Spawner,
        engine: &Path,
        user: User,
        (name, id): (&str, &SandboxId),
    ) -> Result<(), Refusal> {
        let digest = self.digest(engine).await?;
        let image = image(digest, user);
        let create = create(name, id, &image);
        let ask = async || {
            let answer = cli.ask(spawner, &create, PULL).await;
            answer.map_err(|error| refusal::of_asking(cli, &error))
        };
        let mut answer = ask().await?;
        if answer.says_missing() {
            self.send(cli, spawner, engine, user).await?;
            answer = ask().await?;
        }
        done(&answer)
    }

    /// Sends the engine as an image.
    async fn send(
        &self,
        cli: &Cli,
        spawner: &Spawner,
        engine: &Path,
        user: User,
    ) -> Result<(), Refusal> {
        let digest = self.digest(engine).await?;
        let engine = engine.to_owned();
        let packed = blocking(move || pack(&std::fs::read(&engine)?, user)).await?;
        let change = format!("--change=LABEL {LABEL}={digest}");
        let image = image(digest, user);
        let command = cli.command(["import", &change, "-", &image]);
        let answer = cli.answer(spawner, command, packed, PULL).await;
        done(&answer.map_err(|error| refusal::of_asking(cli, &error))?)
    }

    /// Removes images with other engines, but those that are in use.
    pub(crate) async fn tidy(&self, cli: &Cli, spawner: &Spawner, engine: &Path) {
        let Ok(digest) = self.digest(engine).await else {
            return;
        };
        let filter = format!("--filter=label={LABEL}");
        let list = ["image", "ls", &filter, "--format={{.Repository}}:{{.Tag}}"];
        let Ok(listed) = cli.ask(spawner, &list, PULL).await else {
            return;
        };
        let ours = format!("{IMAGE}:{digest}-");
        // Labels are passed on by what is built upon an image, and names are not.
        let is_other =
            |name: &&str| name.starts_with(&format!("{IMAGE}:")) && !name.starts_with(&ours);
        for other in listed.output.lines().filter(is_other) {
            let _ = cli.ask(spawner, &["image", "rm", other], PULL).await;
        }
    }

    async fn digest(&self, engine: &Path) -> Result<&str, Refusal> {
        let read = || {
            let engine: PathBuf = engine.to_owned();
            blocking(move || {
                let digest = blake3::hash(&std::fs::read(&engine)?).to_hex();
                Ok(digest[..DIGITS].to_owned())
            })
        };
        self.digest.get_or_try_init(read).await.map(String::as_str)
    }
}

/// That podman fills a volume when a container starts, and a store is never started.
pub(crate) fn not_by_podman() -> Refusal {
    Refusal::new(
        "podman fills a volume only when its container starts, so the engine cannot be sent in one",
        "say `workspace = \"bound\"` in the options of `docker` with a podman of this machine, or name docker by `program`",
    )
    .of_what_was_asked()
}

fn image(digest: &str, user: User) -> String {
    format!("{IMAGE}:{digest}-{}-{}", user.user, user.group)
}

fn create(name: &str, id: &SandboxId, image: &str) -> Vec<String> {
    let mut arguments = vec![
        "create".to_owned(),
        "--pull=never".to_owned(),
        "--network=none".to_owned(),
        format!("--name={name}"),
        format!("--label={}={name}", owner::NAME_LABEL),
        format!("--label={SANDBOX}={id}"),
    ];
    arguments.extend(owner::own().map(|own| format!("--label={}={own}", owner::LABEL)));
    // Without names: they go with it.
    arguments.extend([
        "--volume=/run/spp".to_owned(),
        format!("--volume={WORKSPACE}"),
        format!("--entrypoint={ENGINE}"),
        image.to_owned(),
    ]);
    arguments
}

fn done(answer: &Answer) -> Result<(), Refusal> {
    match answer.status.success() {
        true => Ok(()),
        false => Err(refusal::of_words(&answer.status.to_string(), &answer.words)),
    }
}

/// Reads the engine where that keeps nobody waiting.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Refusal> {
    let read = tokio::task::spawn_blocking(read)
        .await
        .map_err(io::Error::other);
    read.flatten().map_err(|error| {
        Refusal::new(
            format!("the engine beside this provider cannot be read: {error}"),
            "install it again",
        )
    })
}

/// The engine and an empty workspace, as an archive.
fn pack(engine: &[u8], user: User) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::with_capacity(engine.len() + 4096));
    let mut add = |path: &str, mode, owner: Option<User>, content: Option<&[u8]>| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(match content {
            Some(_) => tar::EntryType::Regular,
            None => tar::EntryType::Directory,
        });
        let content = content.unwrap_or_default();
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        header.set_uid(owner.map_or(0, |owner| owner.user.into()));
        header.set_gid(owner.map_or(0, |owner| owner.group.into()));
        archive.append_data(&mut header, path.trim_start_matches('/'), content)
    };
    add("/run", EVERYBODY_ENTERS, None, None)?;
    add("/run/spp", EVERYBODY_ENTERS, None, None)?;
    add(ENGINE, EVERYBODY_EXECUTES, None, Some(engine))?;
    add(WORKSPACE, OWNER_ALONE, Some(user), None)?;
    archive.into_inner()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn what_is_sent_is_an_engine_of_roots_and_a_workspace_of_who_works_there() {
        let user = User {
            user: 3_000_000,
            group: 1001,
        };
        let packed = pack(b"an engine", user).expect("it fits");
        let mut archive = tar::Archive::new(&*packed);
        let entries = archive.entries().expect("an archive").map(|entry| {
            let mut entry = entry.expect("whole");
            let mut content = String::new();
            entry.read_to_string(&mut content).expect("text");
            let header = entry.header();
            let numbers = [
                header.mode().expect("a number").into(),
                header.uid().expect("a number"),
                header.gid().expect("a number"),
            ];
            let path = entry.path().expect("a path").display().to_string();
            (path, numbers, content)
        });
        let expected = [
            ("run", [0o755, 0, 0], ""),
            ("run/spp", [0o755, 0, 0], ""),
            ("run/spp/engine", [0o555, 0, 0], "an engine"),
            ("workspace", [0o700, 3_000_000, 1001], ""),
        ];
        let expected =
            expected.map(|(path, numbers, content)| (path.to_owned(), numbers, content.to_owned()));
        assert!(entries.eq(expected));
    }
}
