//! A container that runs without a client: which process is its first, and what the daemon says of its end.
//!
//! The daemon is asked when there is something to ask, never in between: that the first process has ended is told by the
//! kernel.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde_json::Value;
use spp_client::place::{Outside, Spawner, Why};

use crate::cli::ASK;
use crate::container::Container;

/// How long before the end of a container what brought it about may have happened.
const BEFORE_ITS_END: Duration = Duration::from_secs(5);
/// How long the daemon may take to say how a container ended.
const TELL: Duration = Duration::from_secs(1);
/// How the end by `SIGKILL` is told.
const KILLED: &str = "137";
/// Digits of a container's number.
const ID_DIGITS: usize = 64;

/// See the [module](self).
#[derive(Clone)]
pub(crate) struct Watched {
    container: Container,
    spawner: Arc<Spawner>,
    limits_memory: bool,
}

impl Watched {
    /// One that was just made.
    ///
    /// - `limits_memory`: whether a limit on its memory was asked for
    pub(crate) fn new(container: Container, spawner: Arc<Spawner>, limits_memory: bool) -> Self {
        Self {
            container,
            spawner,
            limits_memory,
        }
    }

    /// What the daemon says of its end, for people.
    pub(crate) fn why(&self) -> Why {
        let watched = self.clone();
        Why::new(move || {
            let watched = watched.clone();
            Box::pin(async move { watched.ended().await })
        })
    }

    async fn ended(&self) -> Option<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = now.unwrap_or_default().saturating_sub(BEFORE_ITS_END);
        let (cli, id) = (&self.container.cli, &self.container.id);
        let since = format!("--since={}.{:09}", since.as_secs(), since.subsec_nanos());
        let filter = format!("--filter=container={id}");
        let events = ["events", &since, &filter, "--format={{json .}}"];
        let mut end = End::default();
        let read = cli.read(&self.spawner, &events, TELL, |line| end.take(line));
        if let Err(error) = read.await {
            tracing::debug!(%error, "the daemon does not say all of how a container ended");
        }
        end.text(self.limits_memory)
    }

    async fn state(&self, field: &str) -> Option<String> {
        let format = format!("--format={{{{.State.{field}}}}}");
        let inspect = ["container", "inspect", &format, &self.container.name];
        let answer = self.container.cli.ask(&self.spawner, &inspect, ASK).await;
        let answer = answer.ok().filter(|answer| answer.status.success())?;
        Some(answer.output.trim().to_owned())
    }
}

#[async_trait]
impl Outside for Watched {
    async fn is_first(&self, pid: u32) -> bool {
        // Its group has the name of the container, which nobody else's has, and only root puts a process into one. The daemon
        // is asked where groups are not seen, or called otherwise.
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup"));
        if groups.is_ok_and(|groups| is_in(&groups, &self.container.id)) {
            return true;
        }
        self.state("Pid").await.and_then(|said| said.parse().ok()) == Some(pid)
    }

    async fn is_running(&self) -> bool {
        self.state("Running").await.as_deref() == Some("true")
    }

    async fn kill(&self) {
        if let Err(left) = self.container.remove(&self.spawner).await {
            tracing::warn!(%left, "a container whose engine does not end");
        }
    }
}

/// Whether a process in these groups is in the container of this number.
fn is_in(groups: &str, id: &str) -> bool {
    let is_number = id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number && groups.lines().any(|line| line.contains(id))
}

/// What is known of an end, from what happened in order.
#[derive(Debug, Default)]
struct End {
    status: Option<String>,
    signal: Option<String>,
    is_out_of_memory: bool,
}

impl End {
    /// Takes one event; whether it was the last.
    fn take(&mut self, line: &str) -> bool {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            return false;
        };
        // Programs with docker's command line have events of their own form.
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let action = text(&event["Action"]).or_else(|| text(&event["Status"]));
        let of = &event["Actor"]["Attributes"];
        match action.as_deref() {
            Some("oom") => self.is_out_of_memory = true,
            Some("kill") => self.signal = Some(text(&of["signal"]).unwrap_or_default()),
            Some("die" | "died") => {
                self.status = text(&of["exitCode"]).or_else(|| text(&event["ContainerExitCode"]));
            }
            // Nothing comes behind it.
            Some("destroy" | "remove") => return true,
            _ => {}
        }
        // That there was no memory may be said behind that it was killed.
        let is_told = self.is_out_of_memory || self.signal.is_some();
        let is_plain = |status: &String| is_told || status != KILLED;
        self.status.as_ref().is_some_and(is_plain)
    }

    fn text(self, limits_memory: bool) -> Option<String> {
        let status = self.status?;
        if self.is_out_of_memory && status == KILLED {
            let remedy = match limits_memory {
                true => {
                    "it used up the memory that the limit allows, and its engine was killed; raise the limit `memory`"
                }
                false => "its engine was killed because this machine had no memory left",
            };
            return Some(remedy.to_owned());
        }
        if let Some(signal) = self.signal {
            return Some(format!(
                "the container was stopped, killed or removed from outside (signal {signal})"
            ));
        }
        Some(format!("the container ended (exit status {status})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str], limits_memory: bool) -> Option<String> {
        let mut end = End::default();
        for (index, line) in lines.iter().enumerate() {
            assert_eq!(end.take(line), index + 1 == lines.len(), "{line}");
        }
        end.text(limits_memory)
    }

    #[test]
    fn how_a_container_ended_is_what_the_daemon_saw() {
        let event = |action: &str, of: &str| {
            format!(r#"{{"Action":"{action}","Actor":{{"Attributes":{{{of}}}}}}}"#)
        };
        let start = event("start", r#""name":"kill""#);
        let kill = event("kill", r#""signal":"9""#);
        let oom = event("oom", "");
        let die = |status| event("die", &format!(r#""exitCode":"{status}""#));
        let destroy = event("destroy", "");
        let says = |lines: &[&str], limits_memory, part: &str| {
            let text = told(lines, limits_memory).expect("it is known");
            assert!(text.contains(part), "{text}");
        };
        let killed = die("137");
        says(&[&start, &die("70")], true, "(exit status 70)");
        says(&[&kill, &killed], true, "from outside (signal 9)");
        says(&[&oom, &killed], true, "raise the limit");
        says(&[&killed, &oom], true, "raise the limit");
        says(&[&killed, &oom], false, "no memory left");
        says(&[&killed, &destroy], true, "(exit status 137)");
        says(&[&oom, &die("0")], true, "(exit status 0)");
        let other = r#"{"Status":"died","ContainerExitCode":70}"#;
        says(&[other], false, "(exit status 70)");
        assert_eq!(told(&[&destroy], true), None);
        assert!(!End::default().take("no JSON"));
    }

    #[test]
    fn only_the_whole_number_of_a_container_is_its_group() {
        let id = "8e74edd7bc86f56ef81f506beba5f8fbc890ec812b6517a1edaf85e8f4fea5fc";
        assert!(is_in(&format!("0::/system.slice/docker-{id}.scope\n"), id));
        assert!(!is_in("0::/\n", id));
        assert!(!is_in("0::/docker/8e74\n", "8e74"));
        assert!(!is_in("0::/\n", ""));
    }
}
