//! A provider's options: TOML on this side, JSON text on the wire, the same data in between.
//!
//! The host neither knows nor checks what is in them. Keys keep the order in which they were
//! written, and numbers keep their digits: going through a number type would change long integers
//! and fractions.

use std::fmt::Write as _;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeTable, DeValue};

/// A value that JSON cannot carry, and where it is.
pub(super) struct NotJson {
    pub(super) span: Range<usize>,
    pub(super) problem: &'static str,
}

/// The JSON text of a table.
///
/// # Errors
///
/// For infinities and `nan`, which JSON does not have, and for numbers beyond 128 bits that are
/// not written in decimal.
pub(super) fn json(table: &DeTable<'_>) -> Result<String, NotJson> {
    let mut text = String::new();
    write_table(&mut text, table)?;
    Ok(text)
}

fn write_table(text: &mut String, table: &DeTable<'_>) -> Result<(), NotJson> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    text.push('{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_string(text, key.get_ref());
        text.push(':');
        write_value(text, value)?;
    }
    text.push('}');
    Ok(())
}

fn write_value(text: &mut String, value: &Spanned<DeValue<'_>>) -> Result<(), NotJson> {
    let refuse = |problem| NotJson {
        span: value.span(),
        problem,
    };
    match value.get_ref() {
        DeValue::String(string) => write_string(text, string),
        DeValue::Integer(integer) => write_integer(text, integer).ok_or_else(|| {
            refuse("this number is too long for its notation; write it in decimal")
        })?,
        DeValue::Float(float) => write_float(text, float).ok_or_else(|| {
            refuse("infinities and nan have no form in JSON; write it as a string")
        })?,
        DeValue::Boolean(boolean) => text.push_str(if *boolean { "true" } else { "false" }),
        DeValue::Datetime(datetime) => write_string(text, &datetime.to_string()),
        DeValue::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(text, item)?;
            }
            text.push(']');
        }
        DeValue::Table(table) => write_table(text, table)?,
    }
    Ok(())
}

fn write_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            control if u32::from(control) < 0x20 => {
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            plain => text.push(plain),
        }
    }
    text.push('"');
}

fn write_integer(text: &mut String, integer: &DeInteger<'_>) -> Option<()> {
    let digits: String = integer.as_str().chars().filter(|&c| c != '_').collect();
    if integer.radix() == 10 {
        text.push_str(digits.strip_prefix('+').unwrap_or(&digits));
    } else {
        let number = u128::from_str_radix(&digits, integer.radix()).ok()?;
        text.push_str(&number.to_string());
    }
    Some(())
}

fn write_float(text: &mut String, float: &DeFloat<'_>) -> Option<()> {
    let digits: String = float.as_str().chars().filter(|&c| c != '_').collect();
    let digits = digits.strip_prefix('+').unwrap_or(&digits);
    if digits.ends_with("inf") || digits.ends_with("nan") {
        return None;
    }
    text.push_str(digits);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(toml: &str, expected: Result<&str, &str>) {
        let table = DeTable::parse(toml).expect("the test's TOML is good");
        let result = json(table.get_ref());
        assert_eq!(
            result.as_deref().map_err(|error| &toml[error.span.clone()]),
            expected,
            "{toml}"
        );
        if let Ok(text) = result {
            serde_json::from_str::<&serde_json::value::RawValue>(&text).expect("valid JSON");
        }
    }

    #[test]
    fn nested_and_unknown_options_keep_order_digits_and_text() {
        check(
            "zeta = 1\nalpha = [1, 'two', { three = 3 }]\n[middle]\nempty = {}\n[middle.deep]\nyes = true\n",
            Ok(
                r#"{"zeta":1,"alpha":[1,"two",{"three":3}],"middle":{"empty":{},"deep":{"yes":true}}}"#,
            ),
        );
        check(
            "big = 123456789012345678901234567890\nsmall = -9_000\nfraction = 0.10\nexponent = 6.02e+23",
            Ok(
                r#"{"big":123456789012345678901234567890,"small":-9000,"fraction":0.10,"exponent":6.02e+23}"#,
            ),
        );
        check(
            "hex = 0xff\noctal = 0o755\nplus = +7",
            Ok(r#"{"hex":255,"octal":493,"plus":7}"#),
        );
        check(
            "when = 2026-01-02T03:04:05Z",
            Ok(r#"{"when":"2026-01-02T03:04:05Z"}"#),
        );
        check(
            "text = \"quote \\\" slash \\\\ bell \\u0007 line \\n é\"",
            Ok("{\"text\":\"quote \\\" slash \\\\ bell \\u0007 line \\n é\"}"),
        );
    }

    #[test]
    fn numbers_that_json_does_not_have_are_refused_where_they_stand() {
        check("a = 1\nb = inf", Err("inf"));
        check("b = [1.0, -nan]", Err("-nan"));
    }
}
