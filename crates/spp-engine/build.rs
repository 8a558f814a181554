//! Links the static engine at a fixed address.
//!
//! A static executable that may be loaded anywhere corrects a pointer on almost each page of its constants as it starts, and from then on those
//! 350 KiB are its own: of a thousand idle sandboxes every one has them again. At a fixed address they stay in the file,
//! and all share them. What that costs is in `docs/decisions`.
//!
//! Only where the C library's own start files make it static; elsewhere the executable is what the compiler makes of it.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |variable: &str, value: &str| {
        env::var(variable).is_ok_and(|said| said.split(',').any(|one| one == value))
    };
    if is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("CARGO_CFG_TARGET_FEATURE", "crt-static")
    {
        // The last of the linker driver's answers to the same question counts.
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-bins=-static");
    }
}
