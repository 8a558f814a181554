//! Replacing texts in a file's bytes.
//!
//! The bytes outside what is replaced are copied as they are: no decoding, no translation, so a byte
//! order mark, a lone carriage return or bytes that are no text at all survive. Only the *texts*
//! of a replacement adapt, because whoever writes them sees lines and not their ends: in a file of CR LF
//! a plain LF in them means CR LF. In a file with both, a text that does not occur as it is given
//! is tried as CR LF, and what replaces it then ends its lines that way too.

use std::borrow::Cow;

use memchr::memmem::Finder;
use sandbox_core::file::{MAX_FILE_BYTES, Newline, Occurrences, Replacement};

use super::{hint, text};

/// Bytes after an edit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Edited {
    pub(super) bytes: Vec<u8>,
    /// How many places were replaced.
    pub(super) replaced: u64,
}

/// Why an edit was not made. `number` is that of the replacement, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// The text does not occur; what is nearest.
    Absent { number: usize, hint: Option<String> },
    /// The text must occur once and occurs this often.
    Several { number: usize, count: u64 },
    /// The result would have this many bytes.
    TooLarge { bytes: u64 },
}

/// Makes the replacements in turn.
pub(super) fn apply(original: &[u8], replacements: &[Replacement]) -> Result<Edited, Miss> {
    let mut bytes = Cow::Borrowed(original);
    let mut replaced = 0;
    for (index, replacement) in replacements.iter().enumerate() {
        let (after, places) = one(&bytes, replacement, index + 1)?;
        bytes = Cow::Owned(after);
        replaced += places;
    }
    Ok(Edited {
        bytes: bytes.into_owned(),
        replaced,
    })
}

fn one(bytes: &[u8], replacement: &Replacement, number: usize) -> Result<(Vec<u8>, u64), Miss> {
    let spellings = match text::newline(bytes) {
        Newline::None | Newline::Lf => [Some(Spelling::AsGiven), None],
        Newline::CrLf => [Some(Spelling::CrLf), None],
        Newline::Mixed => [Some(Spelling::AsGiven), Some(Spelling::CrLf)],
    };
    for spelling in spellings.into_iter().flatten() {
        let find = spelling.of(&replacement.find);
        let finder = Finder::new(&find);
        let Some(first) = finder.find(bytes) else {
            continue;
        };
        // Counted and not collected: a short text may occur as often as the file has bytes.
        let count = match replacement.occurrences {
            Occurrences::All => finder.find_iter(bytes).count(),
            // A text may overlap itself, and then it is as unclear which place is meant.
            Occurrences::One if finder.find(&bytes[first + 1..]).is_some() => {
                return Err(Miss::Several {
                    number,
                    count: finder.find_iter(bytes).count().max(2) as u64,
                });
            }
            Occurrences::One => 1,
        };
        let replace = spelling.of(&replacement.replace);
        return Ok((splice(bytes, &finder, count, &replace)?, count as u64));
    }
    Err(Miss::Absent {
        number,
        hint: hint::nearest(bytes, &replacement.find),
    })
}

/// Replaces every place that `finder` finds in `bytes`, of which there are `count`.
fn splice(
    bytes: &[u8],
    finder: &Finder<'_>,
    count: usize,
    replace: &[u8],
) -> Result<Vec<u8>, Miss> {
    let length = finder.needle().len();
    let kept = (bytes.len() - count * length) as u64;
    let size = kept.saturating_add((count as u64).saturating_mul(replace.len() as u64));
    if size > MAX_FILE_BYTES {
        return Err(Miss::TooLarge { bytes: size });
    }
    let mut result = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    let mut position = 0;
    for place in finder.find_iter(bytes) {
        result.extend_from_slice(&bytes[position..place]);
        result.extend_from_slice(replace);
        position = place + length;
    }
    result.extend_from_slice(&bytes[position..]);
    Ok(result)
}

/// How the texts of a replacement end their lines.
#[derive(Clone, Copy)]
enum Spelling {
    AsGiven,
    CrLf,
}

impl Spelling {
    fn of(self, text: &[u8]) -> Vec<u8> {
        match self {
            Self::AsGiven => text.to_vec(),
            Self::CrLf => {
                let mut spelled = Vec::with_capacity(text.len() + 16);
                let mut before = 0;
                for &byte in text {
                    if byte == b'\n' && before != b'\r' {
                        spelled.push(b'\r');
                    }
                    spelled.push(byte);
                    before = byte;
                }
                spelled
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replacement(find: &str, replace: &str, occurrences: Occurrences) -> Replacement {
        Replacement {
            find: find.as_bytes().to_vec().into(),
            replace: replace.as_bytes().to_vec().into(),
            occurrences,
        }
    }

    fn check(original: &str, find: &str, replace: &str, expected: &str) {
        let edited = apply(
            original.as_bytes(),
            &[replacement(find, replace, Occurrences::One)],
        )
        .expect("the text occurs once");
        assert_eq!(String::from_utf8_lossy(&edited.bytes), expected);
    }

    #[test]
    fn only_the_text_is_replaced() {
        check("a b c", "b", "x\ny", "a x\ny c");
        check("\u{feff}use a;\nb", "use a;", "use z;", "\u{feff}use z;\nb");
        check("10%\r20%\rdone\n", "done", "end", "10%\r20%\rend\n");
    }

    #[test]
    fn in_a_file_of_cr_lf_a_plain_lf_means_cr_lf() {
        check("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n");
        check("a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n");
        check("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n");
    }

    #[test]
    fn in_a_file_with_both_the_text_is_taken_as_given_and_then_as_cr_lf() {
        check("a\nb\r\nc\nd\r\n", "c\nd", "x\ny", "a\nb\r\nx\ny\r\n");
        check("a\r\nb\nc\n", "a\nb", "x\ny", "x\r\ny\nc\n");
    }

    #[test]
    fn later_replacements_see_the_result_of_earlier_ones() {
        let steps = [
            replacement("one", "two", Occurrences::One),
            replacement("two", "three", Occurrences::All),
        ];
        let edited = apply(b"one two", &steps).expect("both occur");
        assert_eq!(
            (edited.bytes.as_slice(), edited.replaced),
            (&b"three three"[..], 3)
        );
    }

    #[test]
    fn a_text_that_occurs_several_times_or_overlaps_itself_is_refused_with_the_number() {
        let several = |original: &str, find: &str| {
            apply(
                original.as_bytes(),
                &[replacement(find, "", Occurrences::One)],
            )
        };
        assert_eq!(
            several("x x x", "x"),
            Err(Miss::Several {
                number: 1,
                count: 3
            })
        );
        assert_eq!(
            several("aaa", "aa"),
            Err(Miss::Several {
                number: 1,
                count: 2
            })
        );
    }

    #[test]
    fn all_places_are_replaced_from_the_left_without_overlap() {
        let edited = apply(b"aaa", &[replacement("aa", "b", Occurrences::All)]).expect("it occurs");
        assert_eq!((edited.bytes.as_slice(), edited.replaced), (&b"ba"[..], 1));
    }

    #[test]
    fn a_result_that_no_put_could_carry_is_refused_before_it_is_made() {
        let original = vec![b'a'; 1 << 20];
        let long = "b".repeat(1 << 10);
        let result = apply(&original, &[replacement("a", &long, Occurrences::All)]);
        assert_eq!(result, Err(Miss::TooLarge { bytes: 1 << 30 }));
    }
    #[cfg(target_os = "linux")]
    #[test]
    fn a_text_that_occurs_everywhere_needs_no_memory_for_its_places() {
        // The most that this process, which runs nothing but this test, ever had, in KiB.
        let peak = || -> usize {
            let status = std::fs::read_to_string("/proc/self/status").expect("a status");
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:"))
                .expect("a peak");
            line.trim_end_matches("kB").trim().parse().expect("KiB")
        };
        let original = vec![b'x'; 16 << 20];
        let before = peak();
        for occurrences in [Occurrences::One, Occurrences::All] {
            // Refused or made, whichever: what counts is what it takes.
            let _ = apply(&original, &[replacement("x", "y", occurrences)]);
        }
        let grown = peak() - before;
        assert!(grown < 40 << 10, "{grown} KiB for a file of 16 MiB");
    }
}
