//! What to say when the text of an edit does not occur: where it nearly does.
//!
//! A text that is not found is most often right but for indentation, trailing blanks or what was
//! changed since it was read. Saying which, and where, saves the next read.

/// Lines of a file that are looked at. A hint is a help; it must not cost more than the edit.
const MAX_LINES: usize = 200_000;
/// Lines that are found alike before the search is given up: where text and file repeat themselves, each place
/// is alike for long.
const MAX_ALIKE: usize = 1_000_000;
/// Longest piece of a line that is shown, in bytes.
const MAX_SHOWN: usize = 120;

/// The place in `bytes` that is most like `find`, in words.
pub(super) fn nearest(bytes: &[u8], find: &[u8]) -> Option<String> {
    let wanted: Vec<&[u8]> = lines(find).map(<[u8]>::trim_ascii).collect();
    // Blank lines around the text say nothing about where it is.
    let blank = wanted.iter().take_while(|line| line.is_empty()).count();
    let wanted = &wanted[blank..];
    let first = *wanted.first()?;
    let lines: Vec<&[u8]> = lines(bytes).take(MAX_LINES).collect();
    let mut best: Option<(usize, usize)> = None;
    let mut alike_in_all = 0;
    for (at, line) in lines.iter().enumerate() {
        if line.trim_ascii() != first {
            continue;
        }
        let alike = wanted
            .iter()
            .zip(&lines[at..])
            .take_while(|(wanted, line)| **wanted == line.trim_ascii())
            .count();
        if best.is_none_or(|(_, most)| alike > most) {
            best = Some((at, alike));
        }
        alike_in_all += alike;
        if alike == wanted.len() || alike_in_all > MAX_ALIKE {
            break;
        }
    }
    if let Some((at, alike)) = best {
        let number = at + 1;
        if alike >= wanted.len() {
            return Some(format!(
                "line {number} differs only in white space: {}",
                shown(lines[at])
            ));
        }
        let differs = at + alike;
        return Some(match lines.get(differs) {
            Some(line) => format!(
                "its beginning is at line {number}, and line {} differs: {}",
                differs + 1,
                shown(line)
            ),
            None => format!("its beginning is at line {number}, where the file ends first"),
        });
    }
    if first.len() < 4 {
        return None;
    }
    let finder = memchr::memmem::Finder::new(first);
    let at = lines
        .iter()
        .position(|line| finder.find(line).is_some() || line.eq_ignore_ascii_case(first))?;
    Some(format!("line {} is alike: {}", at + 1, shown(lines[at])))
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .strip_suffix(b"\n")
        .unwrap_or(bytes)
        .split(|&byte| byte == b'\n')
}

fn shown(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let cut = &line[..line.len().min(MAX_SHOWN)];
    let text = String::from_utf8_lossy(cut);
    if cut.len() < line.len() {
        format!("{text:?}...")
    } else {
        format!("{text:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: &str, find: &str, expected: Option<&str>) {
        assert_eq!(
            nearest(file.as_bytes(), find.as_bytes()).as_deref(),
            expected,
            "{find:?} in {file:?}"
        );
    }

    #[test]
    fn the_line_that_is_nearly_right_is_named() {
        let file = "fn a() {\n    one();\n    two();\n}\n";
        check(
            file,
            "  one();\n  two();\n",
            Some("line 2 differs only in white space: \"    one();\""),
        );
        check(
            file,
            "one();\nthree();",
            Some("its beginning is at line 2, and line 3 differs: \"    two();\""),
        );
        check(
            file,
            "}\nfn b",
            Some("its beginning is at line 4, where the file ends first"),
        );
        check(file, "FN A() {", Some("line 1 is alike: \"fn a() {\""));
        check(file, "nothing like it", None);
        check(file, "\n\n", None);
        check("", "x", None);
    }

    #[test]
    fn a_long_or_odd_line_is_shown_short_and_escaped() {
        let file = format!("key\x1b[31m{}\n", "x".repeat(500));
        let hint = nearest(file.as_bytes(), b" key\x1b[31m").expect("it is alike");
        assert!(hint.len() < 200 && !hint.contains('\x1b'), "{hint}");
    }
    #[test]
    fn text_and_file_that_repeat_themselves_are_not_compared_for_ever() {
        let file = "same\n".repeat(MAX_LINES);
        let find = format!("{}other\n", "same\n".repeat(MAX_LINES / 2));
        let hint = nearest(file.as_bytes(), find.as_bytes()).expect("its beginning is there");
        assert!(hint.contains("line 1,"), "{hint}");
    }
}
