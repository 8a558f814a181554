//! Checks of `read` and `read_many`.

use std::time::SystemTime;

use sandbox_core::ErrorKind;
use sandbox_core::file::{Encoding, FileContent, Newline, Range, ReadManyRequest, ReadRequest};

use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::{path, refused, soon, tells_digest};

async fn part(place: &Place, name: &str, range: Range) -> Result<FileContent, Failure> {
    let request = ReadRequest {
        range,
        ..ReadRequest::new(path(name))
    };
    Ok(place.sandbox.read(&place.ctx(), request).await?)
}

/// Long enough not to fit one message of the wire, and with every byte there is.
pub(crate) async fn a_file_is_read_byte_for_byte(place: &Place) -> Verdict {
    let content: Vec<u8> = (0..=255u8).cycle().take(100_000).collect();
    place.put("all", content.clone()).await?;
    let read = place.read("all").await?;
    ensure!(
        read.bytes == content,
        "{} bytes came back, and not those that were put",
        read.bytes.len()
    );
    Ok(())
}

pub(crate) async fn a_whole_read_tells_size_lines_digest_and_mode(place: &Place) -> Verdict {
    let before = SystemTime::now();
    place
        .script("printf 'one\\ntwo\\nthree' >facts; chmod 640 facts")
        .await?;
    let read = place.read("facts").await?;
    ensure_eq!(read.offset, 0, "offset of a whole read");
    ensure_eq!(read.total_bytes, 13, "size");
    ensure_eq!(
        read.total_lines,
        Some(3),
        "lines, the last one without an end"
    );
    tells_digest(place, read.digest, b"one\ntwo\nthree")?;
    ensure_eq!(read.mode, 0o640, "permission bits");
    let modified = read
        .modified
        .ok_or_else(|| Failure::new("the time of the last change is missing"))?;
    // Clocks of two machines differ; a wrong unit or epoch differs by far more.
    let apart = modified
        .duration_since(before)
        .unwrap_or_else(|error| error.duration());
    ensure!(
        apart.as_secs() < 3600,
        "the file was changed {apart:?} away from now"
    );
    Ok(())
}

pub(crate) async fn a_range_of_bytes_is_that_range(place: &Place) -> Verdict {
    place.put("digits", "0123456789").await?;
    for (offset, length, bytes) in [
        (0, 1, "0"),
        (3, 4, "3456"),
        (9, 1, "9"),
        (8, 100, "89"),
        (0, 10, "0123456789"),
    ] {
        let read = part(place, "digits", Range::Bytes { offset, length }).await?;
        ensure_eq!(read.bytes, bytes, "{length} bytes from {offset}");
        ensure_eq!(
            read.offset,
            offset,
            "where {length} bytes from {offset} start"
        );
        ensure_eq!(read.total_bytes, 10, "size of the whole file");
    }
    Ok(())
}

pub(crate) async fn a_range_of_lines_counts_from_one_and_keeps_line_ends(place: &Place) -> Verdict {
    place.put("lines", "one\ntwo\r\n\nfour").await?;
    for (first, count, bytes, offset) in [
        (1, 1, "one\n", 0),
        (2, 2, "two\r\n\n", 4),
        (4, 1, "four", 10),
        (3, 100, "\nfour", 9),
    ] {
        let read = part(place, "lines", Range::Lines { first, count }).await?;
        ensure_eq!(read.bytes, bytes, "{count} lines from line {first}");
        ensure_eq!(read.offset, offset, "where line {first} starts, in bytes");
    }
    Ok(())
}

pub(crate) async fn a_range_past_the_end_is_empty_and_no_error(place: &Place) -> Verdict {
    place.put("short", "one\n").await?;
    for range in [
        Range::Bytes {
            offset: 4,
            length: 1,
        },
        Range::Bytes {
            offset: 1 << 40,
            length: 10,
        },
        Range::Lines { first: 2, count: 1 },
        Range::Lines {
            first: 1000,
            count: 10,
        },
    ] {
        let read = part(place, "short", range).await?;
        ensure_eq!(read.bytes, "", "{range:?} of a file with 4 bytes");
        ensure_eq!(read.total_bytes, 4, "size of the whole file");
    }
    Ok(())
}

pub(crate) async fn a_file_over_the_cap_is_refused_with_its_size(place: &Place) -> Verdict {
    place.put("large", "12345678901").await?;
    let request = ReadRequest {
        max: 10,
        ..ReadRequest::new(path("large"))
    };
    let error = refused(
        place.sandbox.read(&place.ctx(), request).await,
        ErrorKind::TooLarge,
        "a read of 11 bytes where at most 10 were wanted",
    )?;
    ensure!(
        error.to_string().contains("11"),
        "the error does not say how large the file is: {error}"
    );
    Ok(())
}

pub(crate) async fn a_small_part_of_a_large_file_is_read(place: &Place) -> Verdict {
    place.put("large", "12345678901").await?;
    let request = ReadRequest {
        range: Range::Bytes {
            offset: 5,
            length: 3,
        },
        max: 3,
        ..ReadRequest::new(path("large"))
    };
    let read = place.sandbox.read(&place.ctx(), request).await?;
    ensure_eq!(
        read.bytes,
        "678",
        "three bytes, where at most three were wanted"
    );
    Ok(())
}

pub(crate) async fn encoding_byte_order_mark_and_line_ends_are_told(place: &Place) -> Verdict {
    let texts: [(&[u8], Encoding, bool, Option<Newline>); 9] = [
        (b"one line", Encoding::Utf8, false, Some(Newline::None)),
        (b"", Encoding::Utf8, false, Some(Newline::None)),
        (b"a\nb\n", Encoding::Utf8, false, Some(Newline::Lf)),
        (b"a\r\nb\r\n", Encoding::Utf8, false, Some(Newline::CrLf)),
        (b"a\r\nb\n", Encoding::Utf8, false, Some(Newline::Mixed)),
        (b"\xef\xbb\xbfa\n", Encoding::Utf8, true, Some(Newline::Lf)),
        (b"\xff\xfea\0\n\0", Encoding::Utf16Le, true, None),
        (b"\xfe\xff\0a\0\n", Encoding::Utf16Be, true, None),
        (b"a\0b\n", Encoding::Binary, false, None),
    ];
    for (content, encoding, bom, newline) in texts {
        place.put("text", content).await?;
        let facts = place.read("text").await?.text;
        ensure_eq!(
            (facts.encoding, facts.bom),
            (encoding, bom),
            "encoding and byte order mark of {content:?}"
        );
        if let Some(newline) = newline {
            ensure_eq!(facts.newline, newline, "line ends of {content:?}");
        }
    }
    Ok(())
}

pub(crate) async fn a_missing_file_is_not_found(place: &Place) -> Verdict {
    for name in ["missing", "missing/below"] {
        refused(
            place
                .sandbox
                .read(&place.ctx(), ReadRequest::new(path(name)))
                .await,
            ErrorKind::NotFound,
            &format!("a read of {name}"),
        )?;
    }
    Ok(())
}

pub(crate) async fn a_refusal_names_the_verb_and_what_it_was_about(place: &Place) -> Verdict {
    let error = refused(
        place
            .sandbox
            .read(&place.ctx(), ReadRequest::new(path("no/such/file")))
            .await,
        ErrorKind::NotFound,
        "a read of a missing file",
    )?;
    ensure!(
        error.verb() == sandbox_core::Verb::Read && error.subject().contains("no/such/file"),
        "the error does not say what was tried on what: {error}"
    );
    Ok(())
}

pub(crate) async fn a_directory_is_not_read_as_a_file(place: &Place) -> Verdict {
    place.script("mkdir directory").await?;
    refused(
        place
            .sandbox
            .read(&place.ctx(), ReadRequest::new(path("directory")))
            .await,
        ErrorKind::NotAFile,
        "a read of a directory",
    )?;
    Ok(())
}

/// Opening a FIFO blocks until somebody writes to it, which nobody ever does here.
pub(crate) async fn a_fifo_never_blocks_a_read(place: &Place) -> Verdict {
    place.script("mkfifo fifo").await?;
    let ctx = place.ctx();
    let read = place.sandbox.read(&ctx, ReadRequest::new(path("fifo")));
    refused(
        soon("the answer about the FIFO", read).await?,
        ErrorKind::NotAFile,
        "a read of a FIFO",
    )?;
    Ok(())
}

pub(crate) async fn a_link_inside_the_workspace_is_followed(place: &Place) -> Verdict {
    place
        .script(
            "mkdir -p real/deep; echo found >real/deep/file; ln -s real/deep door; \
             ln -s ../real/deep/file real/link",
        )
        .await?;
    for name in ["door/file", "real/link"] {
        ensure_eq!(
            place.content(name).await?,
            "found\n",
            "content through {name}"
        );
    }
    Ok(())
}

pub(crate) async fn a_link_to_nothing_is_not_found(place: &Place) -> Verdict {
    place.script("ln -s nowhere dangling").await?;
    refused(
        place
            .sandbox
            .read(&place.ctx(), ReadRequest::new(path("dangling")))
            .await,
        ErrorKind::NotFound,
        "a read through a link to nothing",
    )?;
    Ok(())
}

pub(crate) async fn a_loop_of_links_ends_in_an_error(place: &Place) -> Verdict {
    place.script("ln -s b a; ln -s a b").await?;
    let ctx = place.ctx();
    let read = place.sandbox.read(&ctx, ReadRequest::new(path("a")));
    let Err(error) = soon("the answer about the loop", read).await? else {
        return Err(Failure::new("two links that name each other were read"));
    };
    ensure!(
        error.is_verdict() && error.effect() == sandbox_core::Effect::None,
        "a loop of links is not a failure of the way to it: {error}"
    );
    Ok(())
}

fn all(names: &[&str], total_max: u64) -> ReadManyRequest {
    ReadManyRequest {
        paths: names.iter().map(path).collect(),
        total_max,
    }
}

pub(crate) async fn many_files_come_back_in_the_order_asked(place: &Place) -> Verdict {
    for name in ["a", "b", "c"] {
        place.put(name, format!("content of {name}")).await?;
    }
    let names = ["c", "a", "b", "a"];
    let answers = place
        .sandbox
        .read_many(&place.ctx(), all(&names, 1 << 20))
        .await?;
    ensure_eq!(answers.len(), names.len(), "answers");
    for (name, answer) in names.iter().zip(answers) {
        ensure_eq!(
            answer?.bytes,
            format!("content of {name}"),
            "content of {name}"
        );
    }
    Ok(())
}

pub(crate) async fn one_missing_file_fails_no_other(place: &Place) -> Verdict {
    place.put("a", "there").await?;
    place.put("b", "also there").await?;
    let answers = place
        .sandbox
        .read_many(&place.ctx(), all(&["a", "missing", "b"], 1 << 20))
        .await?;
    let [Ok(first), missing, Ok(last)] =
        <[_; 3]>::try_from(answers).map_err(|_| Failure::new("three files, not three answers"))?
    else {
        return Err(Failure::new("a missing file failed another"));
    };
    refused(missing, ErrorKind::NotFound, "a missing file among others")?;
    ensure_eq!(
        (first.bytes, last.bytes),
        ("there".into(), "also there".into()),
        "content of the others"
    );
    Ok(())
}

/// One large file in the middle must not hide the small ones after it.
pub(crate) async fn the_total_cap_refuses_only_what_would_exceed_it(place: &Place) -> Verdict {
    place.put("six", "123456").await?;
    place.put("three", "123").await?;
    let answers = place
        .sandbox
        .read_many(&place.ctx(), all(&["six", "six", "three", "three"], 10))
        .await?;
    ensure_eq!(answers.len(), 4, "answers");
    for (index, answer) in answers.into_iter().enumerate() {
        match index {
            0 | 2 => ensure!(
                answer.is_ok(),
                "file {index} fits and was refused: {answer:?}"
            ),
            _ => {
                refused(
                    answer,
                    ErrorKind::TooLarge,
                    &format!("file {index}, which exceeds the total"),
                )?;
            }
        }
    }
    Ok(())
}
