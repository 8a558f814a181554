//! What a policy keeps away from commands at a place that keeps nothing away itself. Everything is really
//! tried, by an ordinary user, and without the policy first.
//!
//! What tries is this test executable once more, told by a variable what to try.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox_core::process::{ProcStatus, ProcStopRequest, ProcessSpec, SpawnRequest, Status, Stop};
use sandbox_core::{
    AcquireSpec, Ctx, Disposition, EnvChange, ErrorKind, Grade, Mount, MountAccess, Network,
    Policy, ProcId, Provider, Restriction, Sandbox, SandboxExt, SandboxId, SandboxPath,
};
use sandbox_engine::{EngineProvider, GuardUse, Place, ProviderOptions};

use sandbox_guard::Landlock;

use super::file::{as_ordinary_user, refused};

/// Tells a copy of this executable what to try, and on what.
const ATTEMPT: &str = "ATTEMPT_UNDER_TEST";
const SUBJECT: &str = "SUBJECT_UNDER_TEST";

/// A sandbox under a policy, and a directory beside its root.
pub(crate) struct Ground {
    provider: EngineProvider,
    pub(crate) sandbox: Arc<dyn Sandbox>,
    pub(crate) inside: PathBuf,
    pub(crate) outside: PathBuf,
    _directory: tempfile::TempDir,
}

pub(crate) fn provider(place: Place) -> EngineProvider {
    EngineProvider::new(ProviderOptions {
        name: "here".into(),
        version: "1".into(),
        place,
    })
}

pub(crate) fn spec(root: &Path, policy: Policy) -> AcquireSpec {
    AcquireSpec {
        root: Some(root.to_str().expect("UTF-8").into()),
        policy,
        ..AcquireSpec::new(SandboxId::new("guarded").expect("valid"))
    }
}

pub(crate) fn path(path: &Path) -> SandboxPath {
    SandboxPath::parse(path.to_str().expect("UTF-8")).expect("valid")
}

impl Ground {
    pub(crate) async fn new(policy: Policy) -> Self {
        Self::at(Place::open("here"), |_| policy).await
    }

    async fn at(place: Place, policy: impl FnOnce(&Path) -> Policy) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let own = |name: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).expect("a directory");
            std::fs::write(path.join("file"), "before").expect("a file");
            path
        };
        let (inside, outside) = (own("inside"), own("outside"));
        let provider = provider(place);
        let sandbox = provider
            .acquire(&Ctx::new(), &spec(&inside, policy(&outside)))
            .await
            .expect("acquired");
        Ground {
            provider,
            sandbox,
            inside,
            outside,
            _directory: directory,
        }
    }

    /// Runs a script, and returns its status and what it wrote.
    pub(crate) async fn sh(&self, script: &str) -> (Status, String) {
        self.run(ProcessSpec::new(["sh", "-c", script])).await
    }

    pub(crate) async fn run(&self, process: ProcessSpec) -> (Status, String) {
        let ran = self.sandbox.run(&Ctx::new(), process).await;
        let outcome = ran.expect("it runs");
        let text = outcome.stdout.to_text() + &outcome.stderr.to_text();
        (outcome.exit.status, text)
    }

    /// Whether an attempt succeeds.
    async fn succeeds(&self, attempt: &str, subject: &str) -> bool {
        let own = std::env::current_exe().expect("this executable");
        let own = own.to_str().expect("UTF-8");
        let name = "guard::what_tries";
        let process = ProcessSpec::new([own, "--ignored", "--exact", name, "--nocapture"])
            .env(ATTEMPT, attempt)
            .env(SUBJECT, subject);
        let (status, said) = self.run(process).await;
        assert_eq!(status, Status::Exited(0), "{attempt}: {said}");
        match (said.contains("it succeeded"), said.contains("it failed")) {
            (true, false) => true,
            (false, true) => false,
            _ => panic!("{attempt}: {said}"),
        }
    }

    fn grade(&self, restriction: Restriction) -> Grade {
        self.sandbox.descriptor().guarantees[&restriction].clone()
    }
}

#[test]
#[ignore = "it is what the other tests here run, and does nothing alone"]
#[expect(
    clippy::print_stdout,
    reason = "that is how the other tests hear of it"
)]
fn what_tries() {
    let Ok(attempt) = std::env::var(ATTEMPT) else {
        return;
    };
    let subject = std::env::var(SUBJECT).expect("it comes with what to try it on");
    let number = || subject.parse().expect("a number");
    let pid = || rustix::process::Pid::from_raw(number()).expect("a process");
    let error = match attempt.as_str() {
        "connect to the network" => TcpStream::connect(&subject).err(),
        "connect to a path" => UnixStream::connect(&subject).err(),
        "write" => std::fs::write(&subject, "written").err(),
        "append" => std::fs::File::options().append(true).open(&subject).err(),
        "make a directory" => std::fs::create_dir(&subject).err(),
        "remove" => std::fs::remove_file(&subject).err(),
        "link into the root" => std::fs::hard_link(&subject, "linked").err(),
        "change the mode" => {
            std::fs::set_permissions(&subject, PermissionsExt::from_mode(0o600)).err()
        }
        "mark as set-user-id" => {
            std::fs::set_permissions(&subject, PermissionsExt::from_mode(0o4755)).err()
        }
        "signal" => rustix::process::test_kill_process(pid())
            .err()
            .map(Into::into),
        "signal its supervisor" => {
            let supervisor = rustix::process::getppid().expect("it has one");
            rustix::process::test_kill_process(supervisor)
                .err()
                .map(Into::into)
        }
        "look into" => std::fs::read(format!("/proc/{subject}/environ")).err(),
        "read memory" => std::fs::File::open(format!("/proc/{subject}/mem")).err(),
        "follow" => std::fs::read_dir(format!("/proc/{subject}/cwd/")).err(),
        other => panic!("nobody knows how to {other}"),
    };
    match error {
        None => println!("it succeeded"),
        Some(error) => println!("it failed: {error}"),
    }
}

/// Whether this kernel can keep signals away, which is said of a sandbox where it cannot.
fn scopes_signals() -> bool {
    Landlock::of_kernel().scopes_signals()
}

/// A process of this user outside of any sandbox, which may be looked into.
struct Neighbour(std::process::Child);

impl Neighbour {
    fn new() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "a process that no sandbox has anything to do with"
        )]
        let child = std::process::Command::new("sleep").arg("1000").spawn();
        Neighbour(child.expect("there is a sleep"))
    }

    fn number(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn no_network() -> Policy {
    Policy {
        network: Some(Network::None),
        ..Policy::default()
    }
}

fn prefer(restriction: Restriction) -> Policy {
    Policy {
        prefer: [restriction].into(),
        ..Policy::default()
    }
}

#[test]
fn no_network_is_reached_neither_by_address_nor_by_a_services_path() {
    as_ordinary_user(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let open = Ground::new(Policy::default()).await;
        let service = open.outside.join("service");
        let _service = UnixListener::bind(&service).expect("a socket");
        let service = service.to_str().expect("UTF-8");
        assert!(open.succeeds("connect to the network", &address).await);
        assert!(open.succeeds("connect to a path", service).await);
        assert_eq!(open.sandbox.descriptor().network, Network::Open);

        let denied = Ground::new(no_network()).await;
        assert_eq!(denied.sandbox.descriptor().network, Network::None);
        assert_eq!(denied.grade(Restriction::NetworkDenied), Grade::Full);
        assert!(!denied.succeeds("connect to the network", &address).await);
        assert!(!denied.succeeds("connect to a path", service).await);
    });
}

#[test]
fn a_network_that_must_be_denied_is() {
    as_ordinary_user(|| async {
        let required = Policy {
            require: [Restriction::NetworkDenied].into(),
            ..Policy::default()
        };
        let ground = Ground::new(required).await;
        assert_eq!(ground.grade(Restriction::NetworkDenied), Grade::Full);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        assert!(!ground.succeeds("connect to the network", &address).await);
    });
}

#[test]
fn nothing_elsewhere_is_written_and_what_still_can_be_done_is_named() {
    as_ordinary_user(|| async {
        let subject = |ground: &Ground, name: &str| {
            let path = ground.outside.join(name);
            path.to_str().expect("UTF-8").to_owned()
        };
        let attempts = [
            ("append", "file"),
            ("write", "file"),
            ("write", "new"),
            ("make a directory", "directory"),
            ("link into the root", "file"),
            ("remove", "file"),
        ];
        let open = Ground::new(Policy::default()).await;
        let guarded = Ground::new(prefer(Restriction::WriteContained)).await;
        for (attempt, name) in attempts {
            assert!(
                open.succeeds(attempt, &subject(&open, name)).await,
                "{attempt}"
            );
            let tried = guarded.succeeds(attempt, &subject(&guarded, name)).await;
            assert!(!tried, "{attempt} {name}");
        }
        let names = std::fs::read_dir(&guarded.outside).expect("it is there");
        assert_eq!(names.count(), 1);
        let kept = std::fs::read(guarded.outside.join("file")).expect("it is there");
        assert_eq!(kept, b"before");

        let Grade::Partial { gaps } = guarded.grade(Restriction::WriteContained) else {
            panic!("what can be changed elsewhere is no full containment");
        };
        let named = gaps.iter().any(|gap| gap.contains("modes"));
        let mode = guarded
            .succeeds("change the mode", &subject(&guarded, "file"))
            .await;
        assert_eq!(mode, named, "{gaps:?}");

        let inside = guarded.inside.join("file");
        let inside = inside.to_str().expect("UTF-8");
        assert!(guarded.succeeds("write", inside).await);
        assert!(!guarded.succeeds("mark as set-user-id", inside).await);
        assert!(
            open.succeeds("mark as set-user-id", &subject(&open, "new"))
                .await
        );
    });
}

#[test]
fn what_does_not_hold_in_full_is_refused_where_it_is_required_and_nothing_is_left() {
    as_ordinary_user(|| async {
        for restriction in [
            Restriction::WriteContained,
            Restriction::ProcessContained,
            Restriction::SecretsHidden,
        ] {
            let directory = tempfile::tempdir().expect("a directory");
            let required = Policy {
                require: [restriction].into(),
                ..Policy::default()
            };
            let provider = provider(Place::open("here"));
            let spec = spec(directory.path(), required);
            let acquired = provider.acquire(&Ctx::new(), &spec).await;
            let error = refused(acquired.map(drop), ErrorKind::PolicyUnmet);
            let text = error.to_string();
            assert!(
                text.contains(restriction.name()) && text.contains("isolates"),
                "{text}"
            );
            assert!(
                provider
                    .list(&Ctx::new(), None)
                    .await
                    .expect("listed")
                    .is_empty()
            );
        }
    });
}

#[test]
fn processes_outside_are_neither_signalled_nor_looked_into() {
    as_ordinary_user(|| async {
        let neighbour = Neighbour::new();
        let engine = std::process::id().to_string();
        let attempts = [
            ("signal", neighbour.number()),
            ("look into", neighbour.number()),
            ("read memory", neighbour.number()),
            ("follow", neighbour.number()),
            ("signal its supervisor", String::new()),
        ];
        let open = Ground::new(Policy::default()).await;
        let guarded = Ground::new(prefer(Restriction::ProcessContained)).await;
        let named = |word: &str| match guarded.grade(Restriction::ProcessContained) {
            Grade::Partial { gaps } => gaps.iter().any(|gap| gap.contains(word)),
            Grade::Full | Grade::Unavailable => false,
        };
        for (attempt, subject) in &attempts {
            assert!(open.succeeds(attempt, subject).await, "{attempt}");
            let kept = scopes_signals() || !attempt.starts_with("signal");
            assert_eq!(guarded.succeeds(attempt, subject).await, !kept, "{attempt}");
        }
        assert_eq!(guarded.succeeds("signal", &engine).await, !scopes_signals());
        assert_eq!(named("signalled"), !scopes_signals());
        let seen = Path::new("/proc").join(neighbour.number()).exists();
        assert_eq!(named("seen"), seen);
    });
}

#[test]
fn what_was_started_before_is_stopped_by_the_engine_and_not_by_another_command() {
    as_ordinary_user(|| async {
        let ground = Ground::new(prefer(Restriction::ProcessContained)).await;
        let ctx = Ctx::new();
        let id = ProcId::new("server").expect("valid");
        let daemons = "setsid sleep 1000 & (setsid sleep 1000 &) ; exec sleep 1000";
        let process = ProcessSpec::new(["sh", "-c", daemons]);
        let request = SpawnRequest::new(id.clone(), process);
        let receipt = ground.sandbox.spawn(&ctx, request).await.expect("started");
        let signalled = ground.succeeds("signal", &receipt.pid.to_string()).await;
        assert_eq!(signalled, !scopes_signals());
        let stop = ProcStopRequest {
            id,
            stop: Stop::Graceful {
                grace: std::time::Duration::from_secs(1),
            },
        };
        let stopped = ground.sandbox.proc_stop(&ctx, stop).await.expect("stopped");
        let ProcStatus::Ended(report) = stopped.status else {
            panic!("it still runs");
        };
        assert_eq!(report.survivors.left_total, 0, "{report:?}");
    });
}

#[test]
fn a_mount_may_be_read_only_for_commands_and_file_verbs() {
    as_ordinary_user(|| async {
        let read_only = |outside: &Path| Policy {
            mounts: vec![Mount {
                host: outside.into(),
                sandbox: path(outside),
                access: MountAccess::ReadOnly,
            }],
            ..Policy::default()
        };
        let ground = Ground::at(Place::open("here"), read_only).await;
        let file = ground.outside.join("file");
        let name = file.to_str().expect("UTF-8");
        assert!(!ground.succeeds("write", name).await);
        let put = ground
            .sandbox
            .put(&Ctx::new(), path(&file), "x".into())
            .await;
        refused(put, ErrorKind::ReadOnly);
        let (_, text) = ground.sh(&format!("cat {name}")).await;
        assert_eq!(text, "before");
        assert_eq!(std::fs::read(&file).expect("it is there"), b"before");
    });
}

#[test]
fn an_exception_beneath_a_writable_root_is_refused() {
    as_ordinary_user(|| async {
        let directory = tempfile::tempdir().expect("a directory");
        let inner = directory.path().join("inner");
        std::fs::create_dir(&inner).expect("a directory");
        // By a link, which is what it leads to.
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&inner, &link).expect("a link");
        for shown in [inner, link] {
            let policy = Policy {
                mounts: vec![Mount {
                    host: shown.clone(),
                    sandbox: path(&shown),
                    access: MountAccess::ReadOnly,
                }],
                ..Policy::default()
            };
            let acquired = provider(Place::open("here"))
                .acquire(&Ctx::new(), &spec(directory.path(), policy.clone()))
                .await;
            let error = refused(acquired.map(drop), ErrorKind::PolicyUnmet);
            assert!(error.to_string().contains("beneath"), "{error}");

            // Beneath what the place has for itself it is one too.
            let elsewhere = tempfile::tempdir().expect("a directory");
            let mut place = Place::open("here");
            place.writable.push(directory.path().into());
            let acquired = provider(place)
                .acquire(&Ctx::new(), &spec(elsewhere.path(), policy))
                .await;
            let error = refused(acquired.map(drop), ErrorKind::PolicyUnmet);
            assert!(error.to_string().contains("beneath"), "{error}");
        }
    });
}

#[test]
fn temporary_files_have_a_directory_of_their_own_that_goes_with_the_sandbox() {
    as_ordinary_user(|| async {
        let ground = Ground::new(no_network()).await;
        let script = "echo x > \"$TMPDIR/file\" && mktemp && printf %s \"$TMPDIR\"";
        let (status, text) = ground.sh(script).await;
        assert_eq!(status, Status::Exited(0), "{text}");
        let temporary = text.lines().last().expect("it says where").to_owned();
        assert!(Path::new(&temporary).join("file").exists());
        let shared = std::env::temp_dir().join("spp-not-to-be-made");
        let shared = shared.to_str().expect("UTF-8");
        assert!(!ground.succeeds("write", shared).await);
        let notes = ground.sandbox.descriptor().notes.join(" ");
        assert!(notes.contains("TMPDIR"), "{notes}");

        let id = SandboxId::new("guarded").expect("valid");
        let ctx = Ctx::new();
        let released = ground.provider.release(&ctx, &id, Disposition::Keep).await;
        released.expect("released");
        assert!(!Path::new(&temporary).exists());
    });
}

#[test]
fn whoever_asks_for_another_temporary_directory_has_it() {
    as_ordinary_user(|| async {
        let mut policy = no_network();
        policy.env.changes = vec![EnvChange::set("TMPDIR", "/elsewhere")];
        let ground = Ground::new(policy).await;
        let (_, text) = ground.sh("printf %s \"$TMPDIR\"").await;
        assert_eq!(text, "/elsewhere");
    });
}

#[test]
fn an_engine_that_is_inside_its_place_is_out_of_reach_without_any_policy() {
    as_ordinary_user(|| async {
        let mut place = Place::open("box");
        place.guard = GuardUse::Always;
        place
            .kept_away
            .insert(Restriction::ProcessContained, Grade::Full);
        place.writable.push(std::env::temp_dir());
        let ground = Ground::at(place, |_| Policy::default()).await;
        let engine = std::process::id().to_string();
        assert!(!ground.succeeds("look into", &engine).await);
        for (attempt, subject) in [("signal", engine.as_str()), ("signal its supervisor", "")] {
            let done = ground.succeeds(attempt, subject).await;
            assert_eq!(done, !scopes_signals(), "{attempt}");
        }
        assert_eq!(ground.grade(Restriction::ProcessContained), Grade::Full);
        // The place's own temporary directory is shared by what is in the place.
        let mine = ground.outside.join("new");
        assert!(
            ground
                .succeeds("write", mine.to_str().expect("UTF-8"))
                .await
        );
    });
}

/// A 32-bit entry into the kernel has other numbers, which the filters do not know.
#[cfg(target_arch = "x86_64")]
#[test]
fn no_call_is_made_by_its_32_bit_number() {
    as_ordinary_user(|| async {
        // `mov eax, 310 (unshare); xor ebx, ebx; int 0x80; xor edi, edi; mov eax, 231; syscall`
        let code = b"\xb8\x36\x01\x00\x00\x31\xdb\xcd\x80\x31\xff\xb8\xe7\x00\x00\x00\x0f\x05";
        let program = executable(code);
        for (policy, status) in [
            (Policy::default(), Status::Exited(0)),
            (
                no_network(),
                Status::Signalled {
                    signal: libc::SIGSYS,
                    core: false,
                },
            ),
        ] {
            let ground = Ground::new(policy).await;
            let file = ground.inside.join("program");
            std::fs::write(&file, &program).expect("written");
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("ours");
            let (ended, _) = ground.sh("ulimit -c 0; exec ./program").await;
            assert_eq!(ended, status);
        }
    });
}

/// The smallest program of 64 bits around some instructions.
#[cfg(target_arch = "x86_64")]
fn executable(code: &[u8]) -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    let mut words = |values: &[u64]| {
        for value in values {
            file.extend_from_slice(&value.to_le_bytes());
        }
    };
    // Where it begins, where the one program header is, no sections.
    words(&[BASE + HEADERS, 64, 0]);
    file.extend_from_slice(b"\0\0\0\0\x40\0\x38\0\x01\0\0\0\0\0\0\0");
    // To be loaded, readable and executable.
    file.extend_from_slice(b"\x01\0\0\0\x05\0\0\0");
    let length = HEADERS + code.len() as u64;
    for value in [0, BASE, BASE, length, length, 0x1000] {
        file.extend_from_slice(&value.to_le_bytes());
    }
    file.extend_from_slice(code);
    file
}

#[test]
fn what_listens_outside_hears_nothing() {
    as_ordinary_user(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("it is ours");
        let port = listener.local_addr().expect("bound").port();
        let ground = Ground::new(no_network()).await;
        let script = format!(
            "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))' 2>&1; \
             exec 3<>/dev/tcp/127.0.0.1/{port}"
        );
        let process = ProcessSpec::new(["bash", "-c", &script]);
        let (status, text) = ground.run(process).await;
        assert_ne!(status, Status::Exited(0), "{text}");
        match listener.accept() {
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            Ok((mut stream, _)) => {
                let mut heard = Vec::new();
                let _ = stream.read_to_end(&mut heard);
                panic!("somebody came through and said {heard:?}");
            }
        }
    });
}
