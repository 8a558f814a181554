//! Starting a provider: the one door through which this program starts processes.
//!
//! A provider gets a process group of its own, so that a terminal's Ctrl-C reaches the host alone,
//! which then decides; three pipes and no other file descriptor of the host; and an environment
//! that was cleared to [`INHERITED`] plus what its configuration says.
//!
//! The location `local`, as it comes with the program, is the exception: it gets the caller's whole environment. It promises your
//! tree with your privileges, so what it runs could read the same variables from the caller's
//! process anyway, and a build expects the toolchain's variables that it has in your shell.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::config::ProviderConfig;
use crate::error::StartError;
use crate::locate::{SearchPath, executable};

/// The variable that tells a provider that a host started it.
pub const COOKIE: &str = "SPP_HOST";
/// The variable that tells a provider its host's process id.
pub const COOKIE_PID: &str = "SPP_HOST_PID";

/// Variables that every provider gets from the caller, besides all that begin with `LC_`. What a
/// provider needs beyond these is named in its configuration, where it can be seen.
pub const INHERITED: &[&str] = &[
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    // Where the keys of `ssh` are, which more than one provider reaches its place by; they are not in it.
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// A provider that can be started.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    args: Vec<String>,
    env: Vec<(OsString, OsString)>,
}

impl Launch {
    /// Settles what is started and with which environment.
    ///
    /// # Errors
    ///
    /// The faults of [`executable`]; [`StartError::VariableNotSet`].
    pub(crate) fn new(
        provider: &ProviderConfig,
        search: &SearchPath,
        caller: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, StartError> {
        let program = executable(provider, search)?;
        let caller: Vec<_> = caller.into_iter().collect();
        let mut env: Vec<_> = caller
            .iter()
            .filter(|(name, _)| provider.is_own_place() || is_inherited(name))
            .filter(|(name, _)| name != COOKIE && name != COOKIE_PID)
            .cloned()
            .collect();
        for (name, template) in &provider.env {
            let value = template
                .expand(|wanted| {
                    caller
                        .iter()
                        .find(|(name, _)| name == wanted)
                        .map(|(_, value)| value.clone())
                })
                .map_err(|missing| StartError::VariableNotSet {
                    provider: provider.name.clone(),
                    name: name.clone(),
                    missing,
                })?;
            env.retain(|(known, _)| known != name.as_str());
            env.push((name.into(), value));
        }
        env.push((COOKIE.into(), "1".into()));
        env.push((COOKIE_PID.into(), std::process::id().to_string().into()));
        Ok(Self {
            program,
            args: provider.args.clone(),
            env,
        })
    }

    /// The same with further arguments.
    pub(crate) fn with_more(mut self, args: impl IntoIterator<Item = String>) -> Self {
        self.args.extend(args);
        self
    }

    /// The same with one more variable, or another value of it.
    pub(crate) fn with_variable(mut self, name: OsString, value: OsString) -> Self {
        self.env.retain(|(known, _)| *known != name);
        self.env.push((name, value));
        self
    }

    /// The same without the variables by which a provider knows its host.
    pub(crate) fn by_hand(mut self) -> Self {
        self.env
            .retain(|(name, _)| name != COOKIE && name != COOKIE_PID);
        self
    }

    /// Starts it.
    ///
    /// The child is not killed when its handle is dropped: closing its input ends it in order, and
    /// killing it at once would keep it from cleaning up.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub(crate) fn spawn(&self) -> std::io::Result<Child> {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the one door for starting providers"
        )]
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        close_inherited(&mut command);
        command.spawn()
    }
}

fn is_inherited(name: &OsString) -> bool {
    name.to_str()
        .is_some_and(|name| INHERITED.contains(&name) || name.starts_with("LC_"))
}

/// Keeps descriptors that this process itself inherited (a build's job server, a caller's pipe)
/// from a provider, which may outlive whoever waits for their end.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "between fork and exec there is no safe interface"
)]
fn close_inherited(command: &mut Command) {
    // SAFETY: the closure runs in the forked child before exec and does one system call, which is
    // async-signal-safe. It only sets the close-on-exec flag, so the descriptors that the standard
    // library still uses until then stay open, and 0 to 2 are left out.
    unsafe {
        command.pre_exec(|| {
            // A kernel before 5.11 refuses the flag; then the descriptors are simply kept.
            libc::syscall(
                libc::SYS_close_range,
                3_u32,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
            Ok(())
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn close_inherited(_: &mut Command) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Template;

    fn names(provider: &ProviderConfig, caller: &[(&str, &str)]) -> Vec<String> {
        let caller = caller
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let launch = Launch::new(provider, &SearchPath::of_process(), caller)
            .expect("the provider can be found");
        let mut names: Vec<String> = launch
            .env
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .filter(|pair| !pair.starts_with(COOKIE_PID))
            .collect();
        names.sort();
        names
    }

    fn configured() -> ProviderConfig {
        ProviderConfig {
            command: Some("/bin/sh".into()),
            ..ProviderConfig::unconfigured("box")
        }
    }

    #[test]
    fn a_provider_gets_a_few_variables_and_what_is_configured() {
        let mut provider = configured();
        provider.env = vec![(
            "TOKEN".into(),
            Template::parse("a ${env:SECRET}").expect("a good template"),
        )];
        assert_eq!(
            names(
                &provider,
                &[
                    ("PATH", "/bin"),
                    ("SECRET", "b"),
                    ("LC_ALL", "C"),
                    ("TOKEN", "callers"),
                    ("SPP_HOST", "outer"),
                ]
            ),
            ["LC_ALL=C", "PATH=/bin", "SPP_HOST=1", "TOKEN=a b"]
        );
    }

    #[test]
    fn a_reference_to_a_variable_that_is_not_set_refuses_the_start() {
        let mut provider = configured();
        provider.env = vec![(
            "TOKEN".into(),
            Template::parse("${env:SECRET}").expect("a good template"),
        )];
        let refusal = Launch::new(&provider, &SearchPath::default(), []).err();
        assert!(matches!(
            refusal,
            Some(StartError::VariableNotSet { missing, .. }) if missing == "SECRET"
        ));
    }

    #[test]
    fn a_local_with_a_command_of_its_own_is_not_the_built_in_one() {
        let mut provider = configured();
        provider.name = "local".into();
        assert_eq!(names(&provider, &[("SECRET", "b")]), ["SPP_HOST=1"]);
    }

    #[test]
    fn of_what_comes_with_the_program_only_local_is_the_callers_own_place() {
        assert!(ProviderConfig::unconfigured("local").is_own_place());
        assert!(!ProviderConfig::unconfigured("bubblewrap").is_own_place());
    }
}
