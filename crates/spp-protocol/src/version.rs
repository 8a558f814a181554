//! Which versions are spoken, and how two sides settle on one.
//!
//! A version is one integer, the major. Everything smaller is a capability. Each side says which
//! majors it speaks, and the highest common one holds.

use sandbox_core::{Error, ErrorKind, Result, Verb};

/// The major versions this crate speaks.
pub const MAJORS: &[u32] = &[1];

/// The highest major version that `theirs` and [`MAJORS`] have in common.
///
/// # Errors
///
/// `UnsupportedVersion`, naming both sides' versions.
pub fn negotiate(theirs: &[u32]) -> Result<u32> {
    let common = theirs.iter().filter(|major| MAJORS.contains(major)).max();
    common.copied().ok_or_else(|| {
        Error::refused(Verb::Initialize, ErrorKind::UnsupportedVersion)
            .detail(format_args!(
                "the host speaks {}, this provider {}; update the older of the two",
                list(theirs),
                list(MAJORS)
            ))
            .expected(list(MAJORS))
    })
}

/// Whether the provider chose a version that the host offered.
///
/// # Errors
///
/// `UnsupportedVersion`, naming both.
pub fn accept(chosen: u32) -> Result<()> {
    if MAJORS.contains(&chosen) {
        return Ok(());
    }
    Err(
        Error::refused(Verb::Initialize, ErrorKind::UnsupportedVersion).detail(format_args!(
            "this host speaks {}, and the provider chose {chosen}; update the older of the two",
            list(MAJORS)
        )),
    )
}

fn list(majors: &[u32]) -> String {
    if majors.is_empty() {
        return "no version".into();
    }
    let majors: Vec<String> = majors.iter().map(u32::to_string).collect();
    format!("version {}", majors.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_major_is_chosen_and_none_is_an_error_that_names_both_sides() {
        assert_eq!(negotiate(&[3, 1, 2]).expect("1 is common"), 1);
        let error = negotiate(&[2, 3]).expect_err("nothing is common");
        assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
        assert!(
            error
                .detail_text()
                .contains("the host speaks version 2, 3, this provider version 1")
        );
        assert!(negotiate(&[]).is_err());
        assert!(accept(2).is_err());
    }
}
