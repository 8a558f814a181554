//! Links the static engine at a fixed address.
//!
//! A static executable that may be loaded anywhere corrects a pointer on almost each page of its constants as it starts, and from then on those
//! 350 KiB are its own: of a thousand idle sandboxes every one has them again. At a fixed address they stay in the file,
//! and all share them. What that costs is in `docs/decisions`.
//!
//! Only where the C library's own start files make it static; elsewhere the executable is what the compiler makes of it.
//!
//! One that is optimized carries nothing for a debugger: it may travel to where the tools run, and is read whole there before each
//! start. That is a fifth of its size. The names of functions stay, for what a panic says.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|said| said == "linux");
    if is_linux && env::var("PROFILE").is_ok_and(|said| said == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-debug");
    }
    let is = |variable: &str, value: &str| {
        env::var(variable).is_ok_and(|said| said.split(',').any(|one| one == value))
    };
    if is_linux && is("CARGO_CFG_TARGET_ENV", "gnu") && is("CARGO_CFG_TARGET_FEATURE", "crt-static")
    {
        // The last of the linker driver's answers to the same question counts.
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-bins=-static");
    }
}
