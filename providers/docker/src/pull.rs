//! The image: whether it is there, having it fetched, and how far it has come, from what the program writes meanwhile.

use sandbox_core::{Ctx, Progress};
use spp_client::place::{Refusal, Spawner};

use crate::cli::{ASK, Answer, Cli, PULL};
use crate::options::{Options, Pull};
use crate::refusal;

/// Sees to it that the daemon has the image, and that it is for this machine's processor.
///
/// # Errors
///
/// It cannot be had, or is for another.
pub(crate) async fn see_to(
    ctx: &Ctx,
    cli: &Cli,
    spawner: &Spawner,
    options: &Options,
) -> Result<(), Refusal> {
    let inspect = [
        "image",
        "inspect",
        "--format={{.Os}}/{{.Architecture}}",
        &options.image,
    ];
    let mut found = asked(cli, spawner, &inspect).await?;
    let is_missing = found.says_missing();
    let fetch = match options.pull {
        Pull::Always => true,
        Pull::Missing => is_missing,
        Pull::Never => false,
    };
    if fetch {
        let mut so_far = Pulled::default();
        ctx.report(so_far.progress(&options.image));
        let tell = |line: &str| {
            if so_far.take(line) {
                ctx.report(so_far.progress(&options.image));
            }
        };
        let pull = ["pull", &options.image];
        let pulled = cli.follow(spawner, &pull, PULL, tell).await;
        let pulled = pulled.map_err(|error| refusal::of_asking(cli, &error))?;
        if !pulled.status.success() {
            return Err(refusal::of_words(&pulled.status.to_string(), &pulled.words));
        }
        found = asked(cli, spawner, &inspect).await?;
    }
    if !found.status.success() {
        return Err(refusal::of_words(&found.status.to_string(), &found.words));
    }
    let is_for = found.output.trim();
    let here = format!("linux/{}", architecture());
    if is_for == here {
        return Ok(());
    }
    Err(Refusal::new(
        format!(
            "the image `{}` is for {is_for}, and the engine beside this provider for {here}",
            options.image
        ),
        "use an image for this machine's processor",
    )
    .of_what_was_asked())
}

async fn asked(cli: &Cli, spawner: &Spawner, arguments: &[&str]) -> Result<Answer, Refusal> {
    let answer = cli.ask(spawner, arguments, ASK).await;
    answer.map_err(|error| refusal::of_asking(cli, &error))
}

/// This machine's processor as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// What was written so far.
#[derive(Debug, Default)]
pub(crate) struct Pulled {
    layers: u32,
    here: u32,
}

impl Pulled {
    /// Takes a line; whether it says that something is further than before.
    pub(crate) fn take(&mut self, line: &str) -> bool {
        let Some((_, step)) = line.split_once(": ") else {
            return false;
        };
        match step.trim() {
            "Pulling fs layer" => self.layers += 1,
            "Pull complete" => self.here += 1,
            "Already exists" => {
                self.layers += 1;
                self.here += 1;
            }
            _ => return false,
        }
        true
    }

    /// What to tell whoever waits for it.
    pub(crate) fn progress(&self, image: &str) -> Progress {
        let so_far = match self.layers {
            // Not every program says how many there are.
            0 => String::new(),
            layers => format!(": {} of {layers} layers are here", self.here),
        };
        Progress {
            phase: "pull".into(),
            message: format!("pulling the image {image}{so_far}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_counted_as_they_come() {
        let mut pulled = Pulled::default();
        assert_eq!(pulled.progress("x").message, "pulling the image x");
        let lines = "12: Pulling from library/x\n\
                     aa: Already exists\n\
                     bb: Pulling fs layer\n\
                     cc: Pulling fs layer\n\
                     bb: Verifying Checksum\n\
                     bb: Download complete\n\
                     bb: Pull complete\n\
                     Digest: sha256:00\n\
                     Status: Downloaded newer image for x\n\
                     x";
        let told = lines.lines().filter(|line| pulled.take(line)).count();
        assert_eq!(told, 4);
        assert_eq!(
            pulled.progress("x").message,
            "pulling the image x: 2 of 3 layers are here"
        );
    }
}
