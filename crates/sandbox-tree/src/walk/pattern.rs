//! One file of ignore patterns, and what it says about a path: `gitignore(5)`, on bytes.
//!
//! The last pattern that matches decides. A pattern is compiled to a list of tokens and matched by
//! following all ways through it at once, so that no pattern takes longer than its length times that
//! of the path, whoever wrote it.
//!
//! Not here: which files of patterns there are and how they override each other (`rules`).
//!
//! Source: `gitignore(5)`, and the behaviour of git itself where that is silent.

/// What a file of patterns says about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is ignored.
    Ignore,
    /// It is not, whatever a file further out says.
    Keep,
}

/// The patterns of one file, in order.
#[derive(Debug, Default)]
pub(super) struct Patterns(Vec<Pattern>);

#[derive(Debug)]
struct Pattern {
    verdict: Verdict,
    /// It means directories only.
    directories: bool,
    /// It is compared with the last component only.
    name_only: bool,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    /// The text itself.
    Literal(Box<[u8]>),
    /// Anything, then the text: `*.log`.
    Suffix(Box<[u8]>),
    /// The text, then what the tokens say.
    Tokens(Box<[u8]>, Box<[Token]>),
}

#[derive(Debug)]
enum Token {
    Byte(u8),
    /// One byte; not a slash, where slashes matter.
    Any,
    /// One byte of a set; not a slash, where slashes matter.
    Set(Box<[u64; 4]>),
    /// Any bytes but slashes.
    Star,
    /// Any bytes.
    Everything,
    /// Nothing, or any bytes and a slash.
    Directories,
    /// Matches nothing: an unclosed `[` or a lone `\` at the end.
    Never,
}

impl Patterns {
    /// Reads the content of a file of patterns.
    pub(super) fn parse(content: &[u8]) -> Self {
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        Self(
            content
                .split(|&byte| byte == b'\n')
                .filter_map(line)
                .collect(),
        )
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What they say about `path`, given relative to where the file is.
    pub(super) fn decide(&self, path: &[u8], directory: bool) -> Option<Verdict> {
        let name = match memchr::memrchr(b'/', path) {
            Some(slash) => &path[slash + 1..],
            None => path,
        };
        self.0
            .iter()
            .rev()
            .find(|pattern| {
                (directory || !pattern.directories)
                    && pattern.matches(if pattern.name_only { name } else { path })
            })
            .map(|pattern| pattern.verdict)
    }
}

impl Pattern {
    fn matches(&self, text: &[u8]) -> bool {
        match &self.shape {
            Shape::Literal(literal) => text == &**literal,
            Shape::Suffix(suffix) => text.ends_with(suffix),
            Shape::Tokens(prefix, tokens) => text
                .strip_prefix(&**prefix)
                .is_some_and(|rest| run(tokens, rest, self.name_only)),
        }
    }
}

fn line(line: &[u8]) -> Option<Pattern> {
    if line.first() == Some(&b'#') {
        return None;
    }
    let line = trim(line.strip_suffix(b"\r").unwrap_or(line));
    let (verdict, line) = match line.strip_prefix(b"!") {
        Some(rest) => (Verdict::Keep, rest),
        None => (Verdict::Ignore, line),
    };
    let (directories, line) = match line.strip_suffix(b"/") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    if line.is_empty() || line.contains(&0) {
        return None;
    }
    let name_only = !line.contains(&b'/');
    let line = line.strip_prefix(b"/").unwrap_or(line);
    let plain = line
        .iter()
        .position(|byte| b"*?[\\".contains(byte))
        .unwrap_or(line.len());
    let (prefix, rest) = line.split_at(plain);
    let shape = match rest.strip_prefix(b"*") {
        _ if rest.is_empty() => Shape::Literal(prefix.into()),
        Some(suffix)
            if name_only
                && prefix.is_empty()
                && !suffix.iter().any(|byte| b"*?[\\".contains(byte)) =>
        {
            Shape::Suffix(suffix.into())
        }
        _ => Shape::Tokens(prefix.into(), compile(rest, name_only).into()),
    };
    Some(Pattern {
        verdict,
        directories,
        name_only,
        shape,
    })
}

/// Takes trailing spaces away, but for one that a backslash keeps.
fn trim(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        match byte {
            b' ' => {}
            b'\\' => {
                at += 1;
                end = (at + 1).min(line.len());
            }
            _ => end = at + 1,
        }
        at += 1;
    }
    &line[..end]
}

fn compile(pattern: &[u8], name_only: bool) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = pattern.get(at) {
        match byte {
            b'*' => {
                let stars = pattern[at..]
                    .iter()
                    .take_while(|&&byte| byte == b'*')
                    .count();
                let bounded_before = at == 0 || pattern[at - 1] == b'/';
                at += stars;
                let rest = &pattern[at..];
                let bounded_after = rest.is_empty() || rest[0] == b'/' || rest.starts_with(b"\\/");
                if name_only {
                    tokens.push(Token::Everything);
                } else if stars < 2 || !bounded_before || !bounded_after {
                    tokens.push(Token::Star);
                } else if rest.first() == Some(&b'/') {
                    tokens.push(Token::Directories);
                    at += 1;
                } else {
                    tokens.push(Token::Everything);
                }
                continue;
            }
            b'?' => tokens.push(Token::Any),
            b'[' => match set(&pattern[at + 1..]) {
                Some((set, length)) => {
                    tokens.push(Token::Set(Box::new(set)));
                    at += length;
                }
                None => {
                    tokens.push(Token::Never);
                    return tokens;
                }
            },
            b'\\' => {
                at += 1;
                tokens.push(
                    pattern
                        .get(at)
                        .map_or(Token::Never, |&byte| Token::Byte(byte)),
                );
            }
            _ => tokens.push(Token::Byte(byte)),
        }
        at += 1;
    }
    tokens
}

/// Reads a set behind its `[`: which bytes it holds, and how long it is with its `]`.
fn set(text: &[u8]) -> Option<([u64; 4], usize)> {
    let mut set = [0_u64; 4];
    let mut add = |byte: u8| set[usize::from(byte >> 6)] |= 1 << (byte & 63);
    let negated = matches!(text.first(), Some(b'!' | b'^'));
    let first = usize::from(negated);
    let mut at = first;
    let mut before: Option<u8> = None;
    loop {
        let byte = *text.get(at)?;
        match byte {
            b']' if at > first => break,
            b'-' if before.is_some() && text.get(at + 1).is_some_and(|&next| next != b']') => {
                at += 1;
                let mut last = text[at];
                if last == b'\\' {
                    at += 1;
                    last = *text.get(at)?;
                }
                for byte in before.unwrap_or(last)..=last {
                    add(byte);
                }
                before = None;
            }
            b'[' if text.get(at + 1) == Some(&b':') => {
                let end = at + 2 + text[at + 2..].iter().position(|&byte| byte == b']')?;
                match text[at + 2..end].strip_suffix(b":") {
                    Some(name) => {
                        (0..=u8::MAX)
                            .filter(|&byte| class(name, byte) == Some(true))
                            .for_each(&mut add);
                        class(name, 0)?;
                        at = end;
                        before = None;
                    }
                    // No such thing as a class: the bracket is one of the set.
                    None => {
                        add(b'[');
                        before = Some(b'[');
                    }
                }
            }
            b'\\' => {
                at += 1;
                let byte = *text.get(at)?;
                add(byte);
                before = Some(byte);
            }
            _ => {
                add(byte);
                before = Some(byte);
            }
        }
        at += 1;
    }
    if negated {
        set = set.map(|word| !word);
    }
    Some((set, at + 1))
}

/// Whether a byte belongs to a class such as `alpha`; `None` for a class that nobody knows.
fn class(name: &[u8], byte: u8) -> Option<bool> {
    Some(match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte == b' ' || byte.is_ascii_graphic(),
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}

/// Whether the tokens match the whole text.
fn run(tokens: &[Token], text: &[u8], name_only: bool) -> bool {
    // `now[i]`: the text so far can have been matched by the first `i` tokens.
    let mut now = vec![false; tokens.len() + 1];
    let mut next = now.clone();
    enter(tokens, &mut now, 0);
    for &byte in text {
        next.fill(false);
        let slash = byte == b'/' && !name_only;
        let mut alive = false;
        for (at, token) in tokens.iter().enumerate() {
            if !now[at] {
                continue;
            }
            alive = true;
            let passed = match token {
                Token::Byte(own) => *own == byte,
                Token::Any => !slash,
                Token::Set(set) => !slash && set[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0,
                Token::Star if slash => false,
                Token::Star | Token::Everything => {
                    enter(tokens, &mut next, at);
                    false
                }
                // Once something of it was passed, only a slash ends it.
                Token::Directories => {
                    next[at] = true;
                    byte == b'/'
                }
                Token::Never => false,
            };
            if passed {
                enter(tokens, &mut next, at + 1);
            }
        }
        if !alive {
            return false;
        }
        std::mem::swap(&mut now, &mut next);
    }
    now[tokens.len()]
}

/// Arrives before the token `at`, and behind it where it may match nothing.
fn enter(tokens: &[Token], states: &mut [bool], mut at: usize) {
    states[at] = true;
    while let Some(Token::Star | Token::Everything | Token::Directories) = tokens.get(at) {
        at += 1;
        states[at] = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, path: &str, ignored: bool) {
        let verdict = Patterns::parse(pattern.as_bytes()).decide(path.as_bytes(), false);
        assert_eq!(verdict.is_some(), ignored, "{pattern:?} on {path:?}");
    }

    #[test]
    fn a_name_matches_at_any_level_and_a_path_at_its_own() {
        check("build", "a/b/build", true);
        check("/build", "a/build", false);
        check("a/build", "a/build", true);
        check("a/build", "x/a/build", false);
        check("*.log", "a/b.log", true);
        check("a/*.log", "a/b/c.log", false);
    }

    #[test]
    fn two_stars_span_directories_and_nothing() {
        check("**/x", "x", true);
        check("**/x", "a/b/x", true);
        check("**/x", "a/bx", false);
        check("a/**/x", "a/x", true);
        check("a/**/x", "a/b/c/x", true);
        check("a/**/x", "a/bx", false);
        check("a/**", "a/b/c", true);
        check("a/**", "a", false);
        check("a/b**c", "a/b/c", false);
    }

    #[test]
    fn sets_classes_and_escapes_are_read_as_git_reads_them() {
        check("[a-c]x", "bx", true);
        check("[!a-c]x", "bx", false);
        check("[^a-c]x", "dx", true);
        check("[]x]", "]", true);
        check("[[:digit:]]", "7", true);
        check("[[:nonsense:]]", "7", false);
        check("a[", "a[", false);
        check("\\#x", "#x", true);
        check("\\!x", "!x", true);
        check("x\\ ", "x ", true);
        check("x  ", "x", true);
        check("{a,b}", "a", false);
        check("{a,b}", "{a,b}", true);
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_bytes() {
        let patterns = Patterns::parse(b"caf\xe9\n?\n");
        assert_eq!(patterns.decide(b"caf\xe9", false), Some(Verdict::Ignore));
        assert_eq!(patterns.decide(b"\xe9", false), Some(Verdict::Ignore));
        assert_eq!(patterns.decide(b"caf\xe8", false), None);
    }

    #[test]
    fn a_pattern_made_to_be_slow_is_not() {
        let pattern = "**/a*a*a*".repeat(200);
        let path = "a/".repeat(2000);
        check(&pattern, &path, false);
    }
}
