//! What is to be executed, laid out so that the other side needs no memory of its own.
//!
//! An image is one block: a header of words, then tables of words, then text. Tables of strings hold
//! offsets, and end in 0; [`View::relocate`] turns the offsets into addresses, in place, once the
//! block sits where it will stay. A block is a whole number of words and its last byte is 0, so that
//! every offset inside it names a string that ends inside it.
//!
//! **Invariant:** [`View::parse`] accepts nothing that would make a later step read or write outside
//! the block. Both sides are ours; it is checked all the same, because the side that reads would
//! otherwise hand whatever it found to the kernel.

use std::borrow::Cow;
use std::ffi::CStr;

/// Words of the header.
const HEADER_WORDS: usize = 9;
/// Marks a block as one of ours.
const MAGIC: u64 = 0x5350_5049_4d47_3031;

/// Make the terminal on standard input the controlling one.
pub(super) const FLAG_TERMINAL: u64 = 1;
/// Set `no_new_privs`.
pub(super) const FLAG_NO_NEW_PRIVILEGES: u64 = 2;

/// Words of one resource limit: resource, soft, hard.
const LIMIT_WORDS: usize = 3;

/// Lays a program out.
///
/// - `candidates`: paths to try in turn, as `execvp` would
/// - `limits`: resource number, soft and hard value
pub(super) fn build(
    candidates: &[Cow<'_, CStr>],
    argv: &[Cow<'_, CStr>],
    env: &[Cow<'_, CStr>],
    limits: &[(u32, u64, u64)],
    flags: u64,
) -> Vec<u8> {
    let tables = [candidates, argv, env];
    let limits_at = HEADER_WORDS + tables.iter().map(|table| table.len() + 1).sum::<usize>();
    let text_at = (limits_at + limits.len() * LIMIT_WORDS) * 8;
    let text: usize = tables
        .iter()
        .flat_map(|table| table.iter())
        .map(|string| length(string))
        .sum();
    let total = (text_at + text + 1).next_multiple_of(8);

    let mut bytes = Vec::with_capacity(total);
    let push = |bytes: &mut Vec<u8>, word: usize| {
        bytes.extend_from_slice(&(word as u64).to_ne_bytes());
    };
    bytes.extend_from_slice(&MAGIC.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    push(&mut bytes, total);
    let mut at = HEADER_WORDS;
    for table in tables {
        push(&mut bytes, at);
        at += table.len() + 1;
    }
    push(&mut bytes, limits_at);
    push(&mut bytes, limits.len());
    push(&mut bytes, 0);

    let mut offset = text_at;
    for table in tables {
        for string in table {
            push(&mut bytes, offset);
            offset += length(string);
        }
        push(&mut bytes, 0);
    }
    for (resource, soft, hard) in limits {
        for word in [u64::from(*resource), *soft, *hard] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
    }
    for string in tables.iter().flat_map(|table| table.iter()) {
        bytes.extend_from_slice(string.to_bytes_with_nul());
    }
    bytes.resize(total, 0);
    bytes
}

/// Bytes of a string with its end.
fn length(string: &CStr) -> usize {
    string.to_bytes_with_nul().len()
}

/// A block that was found to be in order. Positions count words from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) flags: u64,
    pub(super) candidates: usize,
    pub(super) argv: usize,
    pub(super) env: usize,
    limits: usize,
    limit_count: usize,
}

impl View {
    /// Checks a block.
    pub(super) fn parse(words: &[u64]) -> Option<Self> {
        let bytes = words.len().checked_mul(8)?;
        let [.., last] = words.last()?.to_ne_bytes();
        let [
            magic,
            flags,
            total,
            candidates,
            argv,
            env,
            limits,
            limit_count,
            _,
        ]: [u64; HEADER_WORDS] = words.get(..HEADER_WORDS)?.try_into().ok()?;
        if magic != MAGIC || last != 0 || usize::try_from(total).ok()? != bytes {
            return None;
        }
        let view = View {
            flags,
            candidates: usize::try_from(candidates).ok()?,
            argv: usize::try_from(argv).ok()?,
            env: usize::try_from(env).ok()?,
            limits: usize::try_from(limits).ok()?,
            limit_count: usize::try_from(limit_count).ok()?,
        };
        let limits_end = view
            .limit_count
            .checked_mul(LIMIT_WORDS)?
            .checked_add(view.limits)?;
        let ordered = HEADER_WORDS <= view.candidates
            && view.candidates < view.argv
            && view.argv < view.env
            && view.env < view.limits
            && limits_end <= words.len();
        if !ordered {
            return None;
        }
        for (from, to) in view.tables() {
            let (end, entries) = words.get(from..to)?.split_last()?;
            let inside = |offset: &u64| *offset != 0 && *offset < total;
            if *end != 0 || !entries.iter().all(inside) {
                return None;
            }
        }
        Some(view)
    }

    /// Turns offsets into addresses, given the address of the block.
    pub(super) fn relocate(&self, words: &mut [u64], base: u64) {
        for (from, to) in self.tables() {
            for word in words.get_mut(from..to).into_iter().flatten() {
                if *word != 0 {
                    *word = word.wrapping_add(base);
                }
            }
        }
    }

    /// The resource limits: number, soft, hard.
    pub(super) fn limits<'a>(
        &self,
        words: &'a [u64],
    ) -> impl Iterator<Item = (u64, u64, u64)> + use<'a> {
        let all = words.get(self.limits..).unwrap_or_default();
        let (limits, _) = all.as_chunks::<LIMIT_WORDS>();
        limits
            .iter()
            .take(self.limit_count)
            .map(|[resource, soft, hard]| (*resource, *soft, *hard))
    }

    fn tables(&self) -> [(usize, usize); 3] {
        [
            (self.candidates, self.argv),
            (self.argv, self.env),
            (self.env, self.limits),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;

    fn strings(texts: &[&str]) -> Vec<Cow<'static, CStr>> {
        texts
            .iter()
            .map(|text| Cow::Owned(CString::new(*text).expect("no NUL")))
            .collect()
    }

    fn words_of(bytes: &[u8]) -> Vec<u64> {
        let (words, _) = bytes.as_chunks::<8>();
        words.iter().map(|word| u64::from_ne_bytes(*word)).collect()
    }

    fn sample() -> Vec<u8> {
        build(
            &strings(&["/bin/a", "/usr/bin/a"]),
            &strings(&["a", "", "b c"]),
            &strings(&["K=V"]),
            &[(7, 1, 2)],
            FLAG_TERMINAL,
        )
    }

    #[test]
    fn what_is_built_is_read_back() {
        let bytes = sample();
        let mut words = words_of(&bytes);
        let view = View::parse(&words).expect("a block of our own");
        assert_eq!(view.flags, FLAG_TERMINAL);
        assert_eq!(view.limits(&words).collect::<Vec<_>>(), [(7, 1, 2)]);

        view.relocate(&mut words, 1 << 32);
        let text = |at: usize| {
            let offset = usize::try_from(words[at] - (1 << 32)).expect("an offset");
            bytes[offset..]
                .split(|byte| *byte == 0)
                .next()
                .expect("a string")
                .to_vec()
        };
        assert_eq!(text(view.candidates), b"/bin/a");
        assert_eq!(text(view.candidates + 1), b"/usr/bin/a");
        assert_eq!(
            [text(view.argv), text(view.argv + 1)],
            [b"a".to_vec(), Vec::new()]
        );
        assert_eq!(text(view.argv + 2), b"b c");
        assert_eq!(text(view.env), b"K=V");
        assert_eq!(words[view.argv + 3], 0, "the table has no end");
    }

    #[test]
    fn a_damaged_block_is_refused_or_stays_inside_itself() {
        let bytes = sample();
        let words = words_of(&bytes);
        let mut endless = words.clone();
        *endless.last_mut().expect("a block has words") |=
            u64::from_ne_bytes([0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(View::parse(&endless), None);
        assert_eq!(View::parse(&words[..words.len() - 1]), None);
        assert_eq!(View::parse(&words[..4]), None);
        assert_eq!(View::parse(&[]), None);
        for at in 0..words.len() {
            for value in [0, 1, u64::MAX, bytes.len() as u64, 1 << 60] {
                let mut bad = words.clone();
                bad[at] = value;
                if let Some(view) = View::parse(&bad) {
                    view.relocate(&mut bad, 4096);
                    let inside = |word: &u64| *word < 4096 + bytes.len() as u64;
                    assert!(bad[view.candidates..view.limits].iter().all(inside));
                    assert!(view.limits(&bad).count() <= words.len());
                }
            }
        }
    }
}
