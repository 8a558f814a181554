//! How far an image has come, from what the program writes as it fetches it.

use sandbox_core::Progress;

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
