//! `spp-escape`: tries to get out.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    sandbox_escape::hostile::main(&arguments)
}
