//! Doubles that are wrong about `read` and `read_many`.

use std::time::Duration;

use bytes::Bytes;
use sandbox_core::file::{Encoding, FileContent};
use sandbox_core::file::{EntryKind, Newline, Range, ReadManyRequest, ReadRequest, TextFacts};
use sandbox_core::{Effect, Error, ErrorKind, SandboxExt, Verb};

use super::doubles;
use super::wrapped::Honest;

fn content(bytes: impl Into<Bytes>) -> FileContent {
    let bytes = bytes.into();
    FileContent {
        offset: 0,
        total_bytes: bytes.len() as u64,
        total_lines: None,
        digest: None,
        mode: 0o644,
        modified: None,
        text: TextFacts {
            encoding: Encoding::Utf8,
            bom: false,
            newline: Newline::None,
        },
        bytes,
    }
}

fn refused(kind: ErrorKind) -> Error {
    Error::refused(Verb::Read, kind)
}

doubles! {
    a_file_is_read_byte_for_byte: "a file of middling size ends at its first NUL"
    read(honest, ctx, request) {
        let mut read = honest.read(&ctx, request).await?;
        if (50_000..1_000_000).contains(&read.bytes.len())
            && let Some(nul) = read.bytes.iter().position(|byte| *byte == 0)
        {
            read.bytes.truncate(nul);
        }
        Ok(read)
    }

    a_whole_read_tells_size_lines_digest_and_mode: "a last line without an end is not counted"
    read(honest, ctx, request) {
        let mut read = honest.read(&ctx, request).await?;
        if !read.bytes.ends_with(b"\n") {
            read.total_lines = read.total_lines.map(|lines| lines.saturating_sub(1));
        }
        Ok(read)
    }

    a_range_of_bytes_is_that_range: "a range that reaches the end lacks the last byte"
    read(honest, ctx, request) {
        let bytes = matches!(request.range, Range::Bytes { .. });
        let mut read = honest.read(&ctx, request).await?;
        if bytes && read.offset + read.bytes.len() as u64 == read.total_bytes {
            read.bytes.truncate(read.bytes.len().saturating_sub(1));
        }
        Ok(read)
    }

    a_range_of_lines_counts_from_one_and_keeps_line_ends: "lines are counted from zero"
    read(honest, ctx, mut request) {
        if let Range::Lines { first, .. } = &mut request.range {
            *first += 1;
        }
        honest.read(&ctx, request).await
    }

    a_range_past_the_end_is_empty_and_no_error: "a range past the end is an error"
    read(honest, ctx, request) {
        let part = request.range != Range::All;
        let read = honest.read(&ctx, request).await?;
        if part && read.bytes.is_empty() {
            return Err(refused(ErrorKind::InvalidArgument));
        }
        Ok(read)
    }

    a_file_over_the_cap_is_refused_with_its_size: "a file over the cap is cut in silence"
    read(honest, ctx, request) {
        let max = usize::try_from(request.max).unwrap_or(usize::MAX);
        let mut read = honest.read(&ctx, ReadRequest { max: u64::MAX, ..request }).await?;
        read.bytes.truncate(max);
        Ok(read)
    }

    a_small_part_of_a_large_file_is_read: "the cap is compared with the whole file"
    read(honest, ctx, request) {
        let max = request.max;
        let read = honest.read(&ctx, request).await?;
        if read.total_bytes > max {
            return Err(refused(ErrorKind::TooLarge).detail(read.total_bytes));
        }
        Ok(read)
    }

    encoding_byte_order_mark_and_line_ends_are_told: "mixed line ends are said to be CR LF"
    read(honest, ctx, request) {
        let mut read = honest.read(&ctx, request).await?;
        if read.text.newline == Newline::Mixed {
            read.text.newline = Newline::CrLf;
        }
        Ok(read)
    }

    a_missing_file_is_not_found: "a file that is missing in the root may not be read"
    read(honest, ctx, request) {
        let path = request.path.clone();
        match honest.read(&ctx, request).await {
            Err(error) if error.kind() == ErrorKind::NotFound
                && path.components().count() == 1
                && honest.look(&ctx, &path).await.is_none() =>
            {
                Err(refused(ErrorKind::PermissionDenied).on(path))
            }
            read => read,
        }
    }

    a_refusal_names_the_verb_and_what_it_was_about: "the error for a deep path does not name it"
    read(honest, ctx, request) {
        let deep = request.path.components().count() > 2;
        honest.read(&ctx, request).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound if deep => refused(ErrorKind::NotFound).detail("it is not there"),
            _ => error,
        })
    }

    a_directory_is_not_read_as_a_file: "reading a directory is an input/output error"
    read(honest, ctx, request) {
        let path = request.path.clone();
        match honest.read(&ctx, request).await {
            Err(_) if honest.look(&ctx, &path).await
                .is_some_and(|stat| stat.kind == EntryKind::Directory) =>
            {
                Err(refused(ErrorKind::Io).on(path))
            }
            read => read,
        }
    }

    a_fifo_never_blocks_a_read: "a FIFO reads as an empty file"
    read(honest, ctx, request) {
        let path = request.path.clone();
        match honest.read(&ctx, request).await {
            Err(_) if honest.look(&ctx, &path).await
                .is_some_and(|stat| stat.kind == EntryKind::Special) =>
            {
                Ok(content(""))
            }
            read => read,
        }
    }

    a_link_inside_the_workspace_is_followed: "a relative link is never followed"
    read(honest, ctx, request) {
        let path = request.path.clone();
        let read = honest.read(&ctx, request).await?;
        match honest.link(&ctx, &path).await {
            Some(text) if !text.starts_with('/') => Err(refused(ErrorKind::OutsideRoot).on(path)),
            _ => Ok(read),
        }
    }

    a_link_to_nothing_is_not_found: "a link to nothing reads as an empty file"
    read(honest, ctx, request) {
        let path = request.path.clone();
        match honest.read(&ctx, request).await {
            Err(error) if error.kind() == ErrorKind::NotFound
                && honest.link(&ctx, &path).await.is_some() => Ok(content("")),
            read => read,
        }
    }

    a_loop_of_links_ends_in_an_error: "a loop of links may have had an effect"
    read(honest, ctx, request) {
        let path = request.path.clone();
        match honest.read(&ctx, request).await {
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::OutsideRoot)
                && honest.link(&ctx, &path).await.is_some() =>
            {
                Err(error.with_effect(Effect::Unknown))
            }
            read => read,
        }
    }

    many_files_come_back_in_the_order_asked: "many files come back in another order"
    read_many(honest, ctx, request) {
        let mut answers = honest.read_many(&ctx, request).await?;
        if answers.iter().all(Result::is_ok) {
            answers.reverse();
        }
        Ok(answers)
    }

    one_missing_file_fails_no_other: "one missing file fails the call"
    read_many(honest, ctx, request) {
        let answers = honest.read_many(&ctx, request).await?;
        let missing = |answer: &Result<_, Error>| {
            answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        if answers.iter().any(missing) {
            return Err(Error::refused(Verb::ReadMany, ErrorKind::NotFound));
        }
        Ok(answers)
    }

    the_total_cap_refuses_only_what_would_exceed_it: "after one large file every file is too large"
    read_many(honest, ctx, request) {
        let ReadManyRequest { .. } = request;
        let mut full = false;
        let answers = honest.read_many(&ctx, request).await?;
        let cut = answers.into_iter().map(|answer| {
            full |= answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::TooLarge);
            if full { Err(Error::refused(Verb::ReadMany, ErrorKind::TooLarge)) } else { answer }
        });
        Ok(cut.collect())
    }

    a_read_through_a_link_never_leaves_the_roots: "a link to a file outside is followed"
    read(honest, ctx, request) {
        let path = request.path.clone();
        match honest.read(&ctx, request).await {
            Err(error) if error.kind() == ErrorKind::OutsideRoot => {
                match honest.link(&ctx, &path).await.map(std::fs::read) {
                    Some(Ok(bytes)) => Ok(content(bytes)),
                    _ => Err(error),
                }
            }
            read => read,
        }
    }

    an_absolute_path_outside_is_not_read: "an absolute path is read wherever it is"
    read(honest, ctx, request) {
        let path = request.path.clone();
        match honest.read(&ctx, request).await {
            Err(_) if path.is_absolute() => {
                std::fs::read(path.to_string())
                    .map(content)
                    .map_err(|_| refused(ErrorKind::NotFound).on(path))
            }
            read => read,
        }
    }

    a_link_that_changes_meanwhile_leads_nowhere_else: "a link is looked at first and followed later"
    read(honest, ctx, request) {
        let path = request.path.clone();
        let first = Honest::first(&path);
        let link = match &first {
            Some(first) if *first != path => honest.link(&ctx, first).await,
            _ => None,
        };
        let root = honest.descriptor().root.to_string();
        if !link.is_some_and(|text| !text.starts_with('/') || text.starts_with(&root)) {
            return honest.read(&ctx, request).await;
        }
        tokio::time::sleep(Duration::from_micros(300)).await;
        std::fs::read(honest.host(&path))
            .map(content)
            .map_err(|_| refused(ErrorKind::NotFound).on(path))
    }

    an_absolute_path_into_the_workspace_is_followed: "every absolute path is outside"
    read(honest, ctx, request) {
        if request.path.is_absolute() {
            return Err(refused(ErrorKind::OutsideRoot).on(request.path));
        }
        honest.read(&ctx, request).await
    }

    a_link_with_an_absolute_text_inside_is_followed: "every link with an absolute text is outside"
    read(honest, ctx, request) {
        if honest.link(&ctx, &request.path).await.is_some_and(|text| text.starts_with('/')) {
            return Err(refused(ErrorKind::OutsideRoot).on(request.path));
        }
        honest.read(&ctx, request).await
    }

    a_verb_after_a_release_says_so: "a read after the release is an input/output error"
    read(honest, ctx, request) {
        honest.read(&ctx, request).await.map_err(|error| match error.kind() {
            ErrorKind::Lost | ErrorKind::SandboxNotFound => refused(ErrorKind::Io),
            _ => error,
        })
    }

    nothing_is_left_beside_what_was_put: "a file that is replaced is kept under another name"
    change(honest, ctx, change) {
        let path = change.path().clone();
        let there = honest.look(&ctx, &path).await;
        let receipt = honest.change(&ctx, change).await?;
        if there.is_some_and(|stat| stat.kind == EntryKind::File)
            && let Ok(beside) = sandbox_core::SandboxPath::parse(format!("{path}.orig"))
        {
            honest.put(&ctx, beside, "old".into()).await?;
        }
        Ok(receipt)
    }
}
