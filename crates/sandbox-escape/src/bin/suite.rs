//! `spp-escape-suite`: runs `spp-escape` everywhere and says what it got away with.

use std::process::ExitCode;

fn main() -> ExitCode {
    sandbox_escape::suite::main()
}
