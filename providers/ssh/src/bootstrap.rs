//! This side of what happens between a connection and an engine that runs: the [script](crate::script) is sent, what it
//! says is picked out of whatever else is printed, and the executable is sent where it is missing.
//!
//! **Invariant:** everything here has an end, in bytes and in time, whatever comes from over there.

use std::fs::File;
use std::io::{self, Read as _};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::{Ctx, Error, ErrorKind, Progress, Verb};
use spp_client::place::{Introduction, Refusal};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::engines::Engine;
use crate::refusal;
use crate::script::Mark;

/// How long the next word from over there may take to be said to its end, or the next piece of an executable to be taken.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same for the word after an executable, of which megabytes may be under way on a slow line.
const ARRIVAL: Duration = Duration::from_secs(300);
/// How long it may take to tell how a connection ended whose output has.
const ENDED: Duration = Duration::from_secs(5);
/// Most bytes that may be printed before the script speaks.
const MAX_NOISE: usize = 8 << 20;
/// Longest line of the script.
const MAX_LINE: usize = 16 << 10;
/// How much of what was printed is kept, for reasons.
const KEPT_NOISE: usize = 512;
/// Bytes that are sent at once.
const CHUNK: usize = 1 << 16;

/// What the script says.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    Run,
    Send {
        architecture: String,
        directory: String,
    },
    No(String),
}

/// One start.
pub(crate) struct Bootstrap<'a> {
    ctx: &'a Ctx,
    host: &'a str,
    mark: String,
    script: String,
    engines: &'a [Engine],
    heard: Vec<u8>,
    noise: Vec<u8>,
    /// Bytes of noise so far.
    noisy: usize,
    refusal: Option<Refusal>,
}

impl<'a> Bootstrap<'a> {
    /// - `script`: made with `mark`
    pub(crate) fn new(
        ctx: &'a Ctx,
        host: &'a str,
        mark: &Mark,
        script: String,
        engines: &'a [Engine],
    ) -> Self {
        Self {
            ctx,
            host,
            mark: mark.text(),
            script,
            engines,
            heard: Vec::new(),
            noise: Vec::new(),
            noisy: 0,
            refusal: None,
        }
    }

    /// Why it failed, if it is known better than by how the connection ended.
    pub(crate) fn refusal(&mut self) -> Option<Refusal> {
        self.refusal.take()
    }

    /// The end of what was printed besides what the script says, in one line.
    pub(crate) fn noise(&self) -> String {
        let printed = [&self.noise[..], &self.heard].concat();
        plain(&String::from_utf8_lossy(&printed))
    }

    async fn talk(
        &mut self,
        input: &mut (impl AsyncWrite + Unpin + Send),
        output: &mut (impl AsyncRead + Unpin + Send),
    ) -> io::Result<()> {
        in_time(PATIENCE, input.write_all(self.script.as_bytes())).await?;
        let mut word = in_time(PATIENCE, self.word(output)).await?;
        if let Word::Send {
            architecture,
            directory,
        } = &word
        {
            self.send(architecture, directory, input).await?;
            word = in_time(ARRIVAL, self.word(output)).await?;
        }
        match word {
            Word::Run if self.heard.is_empty() => Ok(()),
            Word::Run => Err(self.refuse(refusal::of_chatter(self.host))),
            Word::Send { .. } => Err(self.refuse(refusal::of_nonsense(self.host))),
            Word::No(what) => Err(self.refuse(refusal::of_script(self.host, &what))),
        }
    }

    /// The next thing that the script says.
    async fn word(&mut self, output: &mut (impl AsyncRead + Unpin + Send)) -> io::Result<Word> {
        let mut chunk = vec![0; 16 << 10];
        loop {
            if let Some(line) = self.line()? {
                return match parse(&line) {
                    Some(word) => Ok(word),
                    None => Err(self.refuse(refusal::of_nonsense(self.host))),
                };
            }
            match output.read(&mut chunk).await? {
                0 => {
                    // How it ended says more, and is told by then.
                    tokio::time::sleep(ENDED).await;
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                read => self.heard.extend_from_slice(&chunk[..read]),
            }
        }
    }

    /// The first whole line behind a mark, of what was heard so far.
    fn line(&mut self) -> io::Result<Option<String>> {
        let mark = self.mark.as_bytes();
        let Some(at) = find(&self.heard, mark) else {
            // The end may be the beginning of a mark.
            let past = self.heard.len().saturating_sub(mark.len());
            self.pass_over(past);
            return match self.noisy > MAX_NOISE {
                true => Err(self.refuse(refusal::of_noise(self.host))),
                false => Ok(None),
            };
        };
        self.pass_over(at);
        let behind = &self.heard[self.mark.len()..];
        match behind.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                let line = String::from_utf8_lossy(&behind[..end]).trim().to_owned();
                self.heard.drain(..self.mark.len() + end + 1);
                Ok(Some(line))
            }
            None if behind.len() > MAX_LINE => Err(self.refuse(refusal::of_nonsense(self.host))),
            None => Ok(None),
        }
    }

    fn pass_over(&mut self, bytes: usize) {
        self.noisy += bytes;
        self.noise.extend(self.heard.drain(..bytes));
        let past = self.noise.len().saturating_sub(KEPT_NOISE);
        self.noise.drain(..past);
    }

    /// Sends an executable, all of it and nothing else.
    async fn send(
        &mut self,
        architecture: &str,
        directory: &str,
        input: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let known = |engine: &&Engine| engine.architecture == architecture;
        let Some(engine) = self.engines.iter().find(known) else {
            return Err(self.refuse(refusal::of_nonsense(self.host)));
        };
        self.ctx.report(Progress {
            phase: "place".into(),
            message: format!(
                "sending the engine ({} MB) to {} on {}",
                engine.size.div_ceil(1_000_000),
                plain(directory),
                self.host
            ),
        });
        // As much as was looked at: whatever the file has become meanwhile, over there it is waited for that.
        let mut file = File::open(&engine.path)?.take(engine.size);
        let mut chunk = vec![0; CHUNK];
        // Read from memory, since it was read whole a moment ago: nobody waits for a disk here.
        let mut sent = 0;
        loop {
            match file.read(&mut chunk)? {
                0 if sent == engine.size => return Ok(()),
                0 => {
                    let refusal = refusal::of_replaced(&engine.path);
                    return Err(self.refuse(refusal));
                }
                read => {
                    in_time(PATIENCE, input.write_all(&chunk[..read])).await?;
                    sent += read as u64;
                }
            }
        }
    }

    fn refuse(&mut self, refusal: Refusal) -> io::Error {
        let error = io::Error::other(refusal.reason.clone());
        self.refusal = Some(refusal);
        error
    }
}

#[async_trait]
impl Introduction for Bootstrap<'_> {
    async fn introduce(
        &mut self,
        input: &mut ChildStdin,
        output: &mut ChildStdout,
    ) -> Result<(), Error> {
        let talked = self.talk(input, output).await;
        if let Err(error) = &talked
            && self.refusal.is_none()
        {
            match error.kind() {
                io::ErrorKind::TimedOut => {
                    self.refusal = Some(refusal::of_silence(self.host, &self.noise()));
                }
                // Whoever does not read any more has most likely ended.
                io::ErrorKind::BrokenPipe => tokio::time::sleep(ENDED).await,
                _ => {}
            }
        }
        talked.map_err(|error| {
            Error::refused(Verb::Acquire, ErrorKind::ProviderUnavailable)
                .detail("the engine could not be started over there")
                .caused_by(error)
        })
    }
}

async fn in_time<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    timeout(limit, work).await.map_err(late)?
}

fn find(within: &[u8], what: &[u8]) -> Option<usize> {
    within.windows(what.len()).position(|window| window == what)
}

fn parse(line: &str) -> Option<Word> {
    let (word, rest) = line.split_once(' ')?;
    match word {
        "run" => Some(Word::Run),
        "send" => {
            let (architecture, directory) = rest.split_once(' ')?;
            Some(Word::Send {
                architecture: architecture.to_owned(),
                directory: directory.to_owned(),
            })
        }
        "no" => Some(Word::No(plain(rest))),
        _ => None,
    }
}

/// In one line, without what could move a cursor.
fn plain(text: &str) -> String {
    let words: Vec<_> = text
        .split(|character: char| character.is_whitespace() || character.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of this being printed over there; and what was sent.
    async fn of(engines: &[Engine], printed: &[u8]) -> (io::Result<()>, Option<Refusal>, String) {
        let ctx = Ctx::new();
        let mark = Mark::new().expect("random numbers");
        let text = mark.text();
        let printed = String::from_utf8_lossy(printed).replace("MARK", &text);
        let mut bootstrap = Bootstrap::new(&ctx, "box", &mark, "script\n".into(), engines);
        let mut sent = Vec::new();
        let talked = bootstrap.talk(&mut sent, &mut printed.as_bytes()).await;
        (
            talked,
            bootstrap.refusal(),
            String::from_utf8_lossy(&sent).into_owned(),
        )
    }

    fn engine(content: &str) -> (tempfile::TempDir, Engine) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("engine");
        std::fs::write(&path, content).expect("a file");
        let engine = Engine {
            architecture: "x86_64",
            path,
            size: 3,
            digest: String::new(),
        };
        (directory, engine)
    }

    #[tokio::test]
    async fn whatever_is_printed_before_does_not_matter() {
        let mut noise = b"Welcome!\r\n\x1b[31mno run send\xff".repeat(10_000);
        noise.extend(b"\nMARK run /x\n");
        let (talked, refusal, sent) = of(&[], &noise).await;
        assert!(talked.is_ok() && refusal.is_none(), "{refusal:?}");
        assert_eq!(sent, "script\n");
    }

    #[tokio::test(start_paused = true)]
    async fn noise_has_an_end() {
        let (talked, refusal, _) = of(&[], &vec![b'x'; MAX_NOISE + CHUNK]).await;
        assert!(talked.is_err());
        assert!(refusal.expect("why").reason.contains("prints"));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_never_says_a_word_to_its_end_is_not_waited_for_ever() {
        let ctx = Ctx::new();
        let mark = Mark::new().expect("random numbers");
        let mut bootstrap = Bootstrap::new(&ctx, "box", &mark, "script\n".into(), &[]);
        let (mut here, mut there) = tokio::io::duplex(64);
        tokio::spawn(async move {
            while there.write_all(b".").await.is_ok() {
                tokio::time::sleep(PATIENCE / 3).await;
            }
        });
        let started = tokio::time::Instant::now();
        let talked = bootstrap.talk(&mut tokio::io::sink(), &mut here).await;
        assert_eq!(talked.expect_err("no word").kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed(), PATIENCE);
    }

    #[tokio::test]
    async fn exactly_the_executable_is_sent_where_it_is_asked_for() {
        let (_directory, engine) = engine("abc and what was added since");
        let printed = b"\nMARK send x86_64 /d\n\nMARK run /d/x\n";
        let (talked, _, sent) = of(std::slice::from_ref(&engine), printed).await;
        assert!(talked.is_ok());
        assert_eq!(sent, "script\nabc");
        let (talked, refusal, _) = of(&[engine], b"MARK send sparc /d\n").await;
        assert!(talked.is_err() && refusal.is_some(), "there is none");
    }

    #[tokio::test]
    async fn an_executable_that_became_shorter_is_told() {
        let (_directory, engine) = engine("ab");
        let (_, refusal, _) = of(&[engine], b"MARK send x86_64 /d\n").await;
        assert!(refusal.expect("why").reason.contains("replaced"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_makes_no_sense_is_refused_and_no_silence_is_waited_for_ever() {
        for printed in [
            &b"MARK hello there\n"[..],
            b"MARK run /x\nand then some",
            b"MARK send x86_64\n",
            b"MARK no place /x cannot be written\n",
        ] {
            let (talked, refusal, _) = of(&[], printed).await;
            assert!(talked.is_err() && refusal.is_some(), "{printed:?}");
        }
        let endless = [&b"MARK "[..], &vec![b'x'; 2 * MAX_LINE]].concat();
        assert!(of(&[], &endless).await.1.is_some());
        let (talked, refusal, _) = of(&[], b"bye\n").await;
        assert_eq!(
            talked.expect_err("it ended").kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert!(refusal.is_none(), "how it ended says more");
    }
}
