//! Values of a provider's variables, in which `${env:NAME}` stands for a variable of the caller.
//!
//! So that a secret can reach a provider without being written into a file. The variable is looked
//! up when the provider is started, and a missing one refuses the start: an empty credential would
//! fail later and say less.

use std::ffi::{OsStr, OsString};
use std::fmt;

/// A value with places to fill in. Shown without its text in debug output, since it may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable(String),
}

impl Template {
    /// Parses a value. `${env:NAME}` is filled in, `$${` is a literal `${`, everything else is
    /// text.
    ///
    /// # Errors
    ///
    /// A sentence about a `${` that is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, after) = rest.split_at(start);
            if let Some(escaped) = before.strip_suffix('$') {
                literal.push_str(escaped);
                literal.push_str("${");
                rest = &after[2..];
                continue;
            }
            literal.push_str(before);
            let (name, tail) = after[2..]
                .strip_prefix("env:")
                .and_then(|named| named.split_once('}'))
                .filter(|(name, _)| !name.is_empty() && !name.contains(['=', '\0', '$', '{']))
                .ok_or("`${` begins `${env:NAME}`; write `$${` for a literal `${`")?;
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Variable(name.to_owned()));
            rest = tail;
        }
        literal.push_str(rest);
        if literal.contains('\0') {
            return Err("a variable's value has no NUL".into());
        }
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Self(pieces))
    }

    /// Fills in the caller's variables.
    ///
    /// # Errors
    ///
    /// The name of the first one that is not set.
    pub fn expand(&self, variable: impl Fn(&str) -> Option<OsString>) -> Result<OsString, String> {
        let mut value = OsString::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => value.push(OsStr::new(text)),
                Piece::Variable(name) => value.push(variable(name).ok_or_else(|| name.clone())?),
            }
        }
        Ok(value)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let expanded = Template::parse(text).and_then(|template| {
            template.expand(|name| (name == "TOKEN").then(|| OsString::from("s3cret")))
        });
        let expanded = expanded.map(|value| value.into_string().expect("UTF-8 in, UTF-8 out"));
        match expected {
            Ok(value) => assert_eq!(expanded.as_deref(), Ok(value), "{text}"),
            Err(part) => assert!(
                expanded.as_ref().is_err_and(|error| error.contains(part)),
                "{text}: {expanded:?}"
            ),
        }
    }

    #[test]
    fn variables_are_filled_in_and_everything_else_is_text() {
        check("plain $HOME {}", Ok("plain $HOME {}"));
        check("Bearer ${env:TOKEN}!", Ok("Bearer s3cret!"));
        check("${env:TOKEN}${env:TOKEN}", Ok("s3crets3cret"));
        check("$${env:TOKEN}", Ok("${env:TOKEN}"));
        check("", Ok(""));
        check("${env:MISSING}", Err("MISSING"));
        for bad in ["${TOKEN}", "${env:}", "${env:TOKEN", "${env:A=B}"] {
            check(bad, Err("literal"));
        }
    }

    #[test]
    fn debug_output_does_not_show_the_text() {
        let template = Template::parse("hunter2").expect("plain text");
        assert_eq!(format!("{template:?}"), "Template(..)");
    }
}
