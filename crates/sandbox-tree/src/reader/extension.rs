//! Extension records: what is said about an entry before its header.

use super::Refusal;
use super::header::Type;

/// What extension records say about the next entry.
#[derive(Debug, Default)]
pub(super) struct Extensions {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) modified: Option<(i64, u32)>,
    /// A record came that says nothing of this.
    seen: bool,
}

impl Extensions {
    pub(super) fn is_empty(&self) -> bool {
        !self.seen
    }

    pub(super) fn add(&mut self, kind: Type, record: &[u8]) -> Result<(), Refusal> {
        self.seen = true;
        match kind {
            Type::LongName => once(&mut self.path, gnu(record)?),
            Type::LongLink => once(&mut self.link, gnu(record)?),
            _ => self.extended(record),
        }
    }

    /// Records of the form `LENGTH KEY=VALUE\n`.
    fn extended(&mut self, mut rest: &[u8]) -> Result<(), Refusal> {
        while !rest.is_empty() {
            let blank = rest
                .iter()
                .take(20)
                .position(|&byte| byte == b' ')
                .ok_or(Refusal::Record)?;
            let length: usize = digits(&rest[..blank])
                .and_then(|length| usize::try_from(length).ok())
                .ok_or(Refusal::Record)?;
            if length <= blank + 1 || length > rest.len() {
                return Err(Refusal::Record);
            }
            let (record, after) = rest.split_at(length);
            rest = after;
            let record = record[blank + 1..]
                .strip_suffix(b"\n")
                .ok_or(Refusal::Record)?;
            let equals = record
                .iter()
                .position(|&byte| byte == b'=')
                .ok_or(Refusal::Record)?;
            self.keyword(&record[..equals], &record[equals + 1..])?;
        }
        Ok(())
    }

    fn keyword(&mut self, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
        match key {
            b"path" => once(&mut self.path, value.to_vec()),
            b"linkpath" => once(&mut self.link, value.to_vec()),
            b"mtime" => once(&mut self.modified, time(value).ok_or(Refusal::Record)?),
            // Names are bytes to us, which is what both of these say.
            b"hdrcharset" if matches!(value, b"BINARY" | b"ISO-IR 10646 2000 UTF-8") => Ok(()),
            // Of no consequence: what is unpacked belongs to whoever unpacks it.
            b"atime" | b"ctime" | b"uid" | b"gid" | b"uname" | b"gname" => Ok(()),
            other => Err(Refusal::Key(String::from_utf8_lossy(other).into_owned())),
        }
    }
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), Refusal> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Refusal::RecordTwice),
    }
}

/// A text with one NUL, at its end.
fn gnu(record: &[u8]) -> Result<Vec<u8>, Refusal> {
    match record.split_last() {
        Some((0, text)) if !text.contains(&0) => Ok(text.to_vec()),
        _ => Err(Refusal::Record),
    }
}

fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, &byte| match byte {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// Seconds with an optional sign and fraction. Beyond nanoseconds nothing is kept.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (whole, fraction) = match text.iter().position(|&byte| byte == b'.') {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &b"0"[..]),
    };
    let whole = i64::try_from(digits(whole)?).ok()?;
    let mut nanos = 0;
    for place in 0..9 {
        let digit = fraction.get(place).copied().unwrap_or(b'0');
        nanos = nanos * 10 + char::from(digit).to_digit(10)?;
    }
    if fraction.iter().any(|byte| !byte.is_ascii_digit()) {
        return None;
    }
    Some(match (negative, nanos) {
        (false, _) => (whole, nanos),
        (true, 0) => (-whole, 0),
        (true, nanos) => (-whole - 1, 1_000_000_000 - nanos),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended(record: &[u8]) -> Result<Extensions, Refusal> {
        let mut extensions = Extensions::default();
        extensions.add(Type::Extended, record).map(|()| extensions)
    }

    #[test]
    fn a_record_is_taken_by_its_length_and_not_by_its_lines() {
        let read = extended(b"15 path=a\nb=c\n\n26 mtime=-1.5000000000000\n").expect("well formed");
        assert_eq!(read.path.as_deref(), Some(&b"a\nb=c\n"[..]));
        assert_eq!(read.modified, Some((-2, 500_000_000)));
    }

    #[test]
    fn what_is_malformed_repeated_or_unknown_is_refused() {
        for (record, refusal) in [
            (&b"8 path=a\n"[..], Refusal::Record),
            (b"99 path=a\n", Refusal::Record),
            (b"0 path=a\n", Refusal::Record),
            (b"-1 path=a\n", Refusal::Record),
            (b"10 path=ab", Refusal::Record),
            (b"8 path a\n", Refusal::Record),
            (b"18446744073709551615 path=a\n", Refusal::Record),
            (b"11 mtime=x\n", Refusal::Record),
            (b"10 path=a\n10 path=a\n", Refusal::RecordTwice),
            (b"10 size=9\n", Refusal::Key("size".into())),
            (b"16 hdrcharset=a\n", Refusal::Key("hdrcharset".into())),
        ] {
            let text = String::from_utf8_lossy(record);
            assert_eq!(extended(record).map(|_| ()), Err(refusal), "{text}");
        }
    }
}
