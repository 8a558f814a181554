//! Sizes and durations as people write them: `512MiB`, `1.5h`, `90s`.
//!
//! **Invariant:** a unit is always written. A bare number would mean bytes to one reader and
//! mebibytes to the next, so only whole numbers of bytes may stand alone.

use std::time::Duration;

/// The longest duration: 2^53 - 1 milliseconds, which is the largest number in a message.
const MAX_MILLISECONDS: u128 = (1 << 53) - 1;

/// Parses a duration: a number and one of `ms`, `s`, `m`, `h`, `d`.
///
/// # Errors
///
/// A sentence that says what is expected.
pub fn duration(text: &str) -> Result<Duration, String> {
    let expected = || {
        format!(
            "`{text}` is not a duration; write a number and a unit, such as 500ms, 30s, 10m or 2h"
        )
    };
    let (number, unit) = split(text).ok_or_else(expected)?;
    let scale = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(expected()),
    };
    // As whole milliseconds, of which the wire carries this many.
    let Some(duration) = Duration::try_from_secs_f64(number * scale)
        .ok()
        .filter(|duration| duration.as_millis() <= MAX_MILLISECONDS)
    else {
        return Err(format!(
            "`{text}` is longer than can be said; leave it out for no limit"
        ));
    };
    if duration.is_zero() {
        return Err(format!("`{text}` is no time at all; write at least 1ms"));
    }
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Ok(Duration::from_millis(milliseconds.max(1)))
}

/// Parses a size in bytes: a number and one of `B`, `KiB`, `MiB`, `GiB`, `TiB`, `kB`, `MB`, `GB`, `TB`.
///
/// # Errors
///
/// A sentence that says what is expected.
pub fn size(text: &str) -> Result<u64, String> {
    let expected =
        || format!("`{text}` is not a size; write a number and a unit, such as 512MiB or 2GiB");
    let (number, unit) = split(text).ok_or_else(expected)?;
    let scale: u64 = match unit {
        "B" => 1,
        "kB" => 1000,
        "MB" => 1000 * 1000,
        "GB" => 1000 * 1000 * 1000,
        "TB" => 1000 * 1000 * 1000 * 1000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(expected()),
    };
    let bytes = number * scale as f64;
    // Above this a float no longer counts single bytes.
    if !(0.0..=9_007_199_254_740_992.0).contains(&bytes) {
        return Err(expected());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to lie between 0 and 2^53 just above"
    )]
    Ok(bytes as u64)
}

/// A non-negative decimal number, and what follows it.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number = &text[..end];
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Some((number.parse().ok()?, text[end..].trim_start_matches(' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_number_and_a_unit() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("1.5h", 5_400_000),
            ("10 m", 600_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "",
            "10",
            "s",
            "-1s",
            "1.2.3s",
            "0s",
            "1w",
            "1e3s",
            "inf s",
            "99999999999999999999d",
        ] {
            assert!(duration(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn sizes_need_a_number_and_a_unit() {
        for (text, bytes) in [
            ("1B", 1),
            ("2GiB", 2 << 30),
            ("1.5kB", 1500),
            ("4 MiB", 4 << 20),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "12", "GiB", "-1MiB", "1 gib", "1e9B", "99999999TiB"] {
            assert!(size(text).is_err(), "{text:?} was accepted");
        }
    }
}
