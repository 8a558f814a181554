//! Failures as the host gets to see them: with the effect that their verb can have had, and never
//! too long for a line.

use std::borrow::Cow;

use jsonrpsee::types::ErrorObjectOwned;
use sandbox_core::{Error, ErrorKind, Verb};
use spp_protocol::error::ErrorObject;
use spp_protocol::method::{Changes, find};

/// Most bytes that a text of an error takes on the line. All texts of one error together stay below
/// the shortest limit that a line may have, and below what counts as bulk.
pub(crate) const TEXT_BYTES: usize = 4 * 1024;
/// The same for the sentence that is put together from the others.
const MESSAGE_BYTES: usize = 2 * TEXT_BYTES;

/// An error that was found here while a provider did `verb`: where that changes nothing by its
/// nature, nothing happened, whatever the provider did.
pub(crate) fn failed(verb: Verb, kind: ErrorKind) -> Error {
    match find(verb.name()) {
        Some(method) if method.changes == Changes::Nothing => Error::refused(verb, kind),
        _ => Error::new(verb, kind),
    }
}

/// An error of the port as an error object.
pub(crate) fn wire(error: &Error) -> ErrorObjectOwned {
    let object = object(error);
    ErrorObjectOwned::owned(object.code, object.message, object.data)
}

/// The same, as a part of another message.
pub(crate) fn object(error: &Error) -> ErrorObject {
    let mut object = ErrorObject::encode(error);
    shorten(&mut object.message, MESSAGE_BYTES);
    if let Some(data) = &mut object.data {
        let texts = [
            &mut data.subject,
            &mut data.detail,
            &mut data.expected,
            &mut data.cause,
        ];
        for text in texts.into_iter().flatten() {
            shorten(text, TEXT_BYTES);
        }
    }
    object
}

/// The beginning of a text, as much as takes `most` bytes on the line; a mark shows that there was
/// more.
pub(crate) fn beginning(text: &str, most: usize) -> Cow<'_, str> {
    let mut bytes = 0;
    for (at, character) in text.char_indices() {
        bytes += match character {
            '"' | '\\' => 2,
            // Escaped as `\u0001`, some of them shorter.
            '\0'..' ' => 6,
            _ => character.len_utf8(),
        };
        if bytes > most {
            return format!("{}...", &text[..at]).into();
        }
    }
    text.into()
}

fn shorten(text: &mut String, most: usize) {
    if let Cow::Owned(short) = beginning(text, most) {
        *text = short;
    }
}

#[cfg(test)]
mod tests {
    use spp_link::BULK_LINE;

    use super::*;

    #[test]
    fn an_error_of_any_length_fits_a_short_line_and_keeps_its_parts() {
        for text in ["x", "\u{1}", "\"", "\u{20ac}", "\u{10ffff}"] {
            let long = text.repeat(1_000_000);
            let error = Error::new(Verb::Exec, ErrorKind::Io)
                .on(&long)
                .detail(&long)
                .expected(&long)
                .caused_by(long);
            let object = object(&error);
            let line = serde_json::to_string(&object).expect("string keys");
            assert!(line.len() < BULK_LINE - 256, "{} bytes", line.len());
            let data = object.data.expect("always there");
            assert_eq!(data.kind, "io");
            let subject = data.subject.expect("named");
            assert!(subject.starts_with(text) && subject.ends_with("..."));
            assert!(subject.len() > TEXT_BYTES / 8, "{} bytes", subject.len());
        }
    }

    #[test]
    fn an_error_of_usual_length_stays_as_it_is() {
        let path = "p".repeat(4096);
        let error = Error::refused(Verb::Read, ErrorKind::NotFound).on(&path);
        assert_eq!(object(&error), ErrorObject::encode(&error));
    }

    #[test]
    fn only_a_verb_that_changes_nothing_promises_so() {
        use sandbox_core::Effect;
        for verb in Verb::ALL {
            let changes = find(verb.name()).expect("a method").changes;
            let effect = failed(verb, ErrorKind::Internal).effect();
            let nothing = changes == Changes::Nothing;
            assert_eq!(effect == Effect::None, nothing, "{verb}");
        }
    }
}
