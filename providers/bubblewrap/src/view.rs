//! What a sandbox sees of this machine, as what bwrap is told.
//!
//! The tree begins empty and is filled with what programs need: `/usr` and what belongs to it, a few files of `/etc`,
//! devices, processes, and places to write that nobody else has. Nothing is hidden by covering it: what is not
//! named here is not there. The machine's own `/` is never shown, not even read-only, since a socket in it could
//! still be connected to.
//!
//! The order matters: what is mounted later covers what was there, and the remounts come last.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::launch::{Access, Item, Kind};

/// Where the workspace is seen.
pub(crate) const WORKSPACE: &str = "/workspace";
/// The home of what runs: its own, and gone with the sandbox.
pub(crate) const HOME: &str = "/home/sandbox";
/// Where temporary files go: its own, and gone with the sandbox.
pub(crate) const TMP: &str = "/tmp";
/// Where the engine is seen.
const ENGINE: &str = "/run/spp/engine";
/// User and group of what runs, as it sees itself.
const USER: &str = "1000";
/// The most that each place to write may hold, in bytes. They are in memory.
const HOME_BYTES: u64 = 2 << 30;
const TMP_BYTES: u64 = 2 << 30;
const SHARED_MEMORY_BYTES: u64 = 512 << 20;

/// Directories that hold programs and what they need, shown where they are on this machine.
const PROGRAMS: [&str; 8] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix",
];
/// The same for a system that names what is current by a link.
const CURRENT: &str = "/run/current-system";
/// What file verbs may read there, as far as it is there: the same, and settings.
const READ: [&str; 2] = ["/etc", CURRENT];
/// Directories of the programs of this machine that a search path may name.
const SEARCHED: [&str; 6] = [
    "/usr",
    "/bin",
    "/sbin",
    "/nix",
    "/run/current-system",
    WORKSPACE,
];

/// What of `/etc` programs need and nobody keeps a secret in.
const SETTINGS: [&str; 33] = [
    "alternatives",
    "bash.bashrc",
    "bindresvport.blacklist",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "default/locale",
    "fonts",
    "gai.conf",
    "java",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "mime.types",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "profile",
    "protocols",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "static",
    "terminfo",
];
/// What of `/etc` leads to other machines.
const NETWORK_SETTINGS: [&str; 3] = ["hosts", "host.conf", "resolv.conf"];

const USERS: &str = "root:x:0:0:root:/:/usr/sbin/nologin\n\
    sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n\
    nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const GROUPS: &str = "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n";
const HOSTS: &str = "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost\n";
const NAME_SERVICES: &str =
    "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n";

/// What is to be seen beside what every sandbox sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) network: NetworkView,
    /// The engine's executable on this machine.
    pub(crate) engine: PathBuf,
    /// The workspace and the mounts of the policy.
    pub(crate) shown: Vec<Shown>,
    /// What is not to be seen of that.
    pub(crate) hidden: Vec<(PathBuf, Kind)>,
}

/// The network that a sandbox has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkView {
    /// A loopback of its own.
    None,
    /// This machine's.
    Machine,
}

/// Something of this machine that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) source: PathBuf,
    pub(crate) at: PathBuf,
    pub(crate) access: Access,
}

impl View {
    /// Everything that bwrap is told.
    ///
    /// - `machine`: the root of this machine
    /// - `engine`: the arguments that the engine is started with
    pub(crate) fn items(
        &self,
        machine: &Path,
        engine: impl IntoIterator<Item = OsString>,
    ) -> Vec<Item> {
        let mut items = Items::default();
        items.say(["--unshare-all", "--unshare-user", "--disable-userns"]);
        if self.network == NetworkView::Machine {
            items.say(["--share-net"]);
        }
        items.say(["--uid", USER, "--gid", USER, "--cap-drop", "ALL"]);
        items.say([
            "--die-with-parent",
            "--new-session",
            "--as-pid-1",
            "--clearenv",
        ]);
        items.say(["--setenv", "SPP_HOST", "1", "--hostname", "sandbox"]);
        items.programs(machine);
        items.settings(self.network);
        items.say(["--proc", "/proc", "--dev", "/dev"]);
        items.memory("/dev/shm", SHARED_MEMORY_BYTES, "1777");
        items.memory(TMP, TMP_BYTES, "1777");
        items.memory(HOME, HOME_BYTES, "0700");
        items.say([
            "--ro-bind-try",
            "/sys/devices/system/cpu",
            "/sys/devices/system/cpu",
        ]);
        let mut shown: Vec<_> = self.shown.iter().collect();
        // What lies beneath another comes after it.
        shown.sort_by_key(|shown| shown.at.components().count());
        for shown in shown {
            items.show(shown.access, &shown.source, shown.at.as_os_str());
        }
        items
            .0
            .extend(self.hidden.iter().map(|(at, kind)| Item::Hide {
                at: at.clone().into_os_string(),
                kind: *kind,
            }));
        items.show(Access::ReadOnly, &self.engine, OsStr::new(ENGINE));
        items.say(["--ro-bind", "/proc/sys", "/proc/sys"]);
        items.say(["--remount-ro", "/dev", "--remount-ro", "/"]);
        items.say(["--chdir", WORKSPACE, "--", ENGINE]);
        items.0.extend(engine.into_iter().map(Item::Argument));
        items.0
    }
}

#[derive(Default)]
struct Items(Vec<Item>);

impl Items {
    fn say<'a>(&mut self, arguments: impl IntoIterator<Item = &'a str>) {
        let arguments = arguments.into_iter();
        self.0.extend(arguments.map(|it| Item::Argument(it.into())));
    }

    fn show(&mut self, access: Access, source: &Path, at: &OsStr) {
        self.0.push(Item::Bind {
            access,
            source: source.to_owned(),
            at: at.to_owned(),
        });
    }

    fn memory(&mut self, at: &str, bytes: u64, mode: &str) {
        self.say(["--perms", mode, "--size", &bytes.to_string(), "--tmpfs", at]);
    }

    /// Directories as they are here: one that is a link to a part of `/usr` is the same link there.
    fn programs(&mut self, machine: &Path) {
        for at in PROGRAMS {
            let real = below(machine, at);
            let Ok(metadata) = std::fs::symlink_metadata(&real) else {
                continue;
            };
            if !metadata.is_symlink() {
                self.say(["--ro-bind", at, at]);
            } else if let Ok(target) = std::fs::read_link(&real) {
                self.link(target.as_os_str(), at);
            }
        }
        if let Ok(target) = std::fs::canonicalize(below(machine, CURRENT)) {
            self.link(target.as_os_str(), CURRENT);
        }
    }

    fn link(&mut self, target: &OsStr, at: &str) {
        self.say(["--symlink"]);
        self.0.push(Item::Argument(target.to_owned()));
        self.say([at]);
    }

    fn settings(&mut self, network: NetworkView) {
        let shared: &[&str] = match network {
            NetworkView::None => &[],
            NetworkView::Machine => &NETWORK_SETTINGS,
        };
        for name in SETTINGS.iter().chain(shared) {
            let at = format!("/etc/{name}");
            self.say(["--ro-bind-try", &at, &at]);
        }
        let own = [
            ("/etc/passwd", USERS),
            ("/etc/group", GROUPS),
            ("/etc/nsswitch.conf", NAME_SERVICES),
            ("/etc/hosts", HOSTS),
        ];
        for (at, text) in own {
            if network == NetworkView::Machine && at == "/etc/hosts" {
                continue;
            }
            self.0.push(Item::Data {
                text: text.into(),
                at: at.into(),
            });
        }
    }
}

/// `path`, which is absolute, on the machine whose root this is.
fn below(machine: &Path, path: &str) -> PathBuf {
    machine.join(path.trim_start_matches('/'))
}

/// The directories that every sandbox sees and nobody can change.
///
/// - `machine`: the root of this machine
pub(crate) fn readable(machine: &Path) -> impl Iterator<Item = &'static str> {
    let all = PROGRAMS.into_iter().chain(READ);
    all.filter(move |at| below(machine, at).is_dir())
}

/// Whether programs in a directory of this machine are seen in a sandbox under the same name.
///
/// - `shown`: what is shown beside what every sandbox sees
pub(crate) fn is_searched(directory: &Path, shown: &[Shown]) -> bool {
    let same = shown.iter().filter(|shown| shown.source == shown.at);
    directory.is_absolute()
        && (SEARCHED.iter().any(|known| directory.starts_with(known))
            || same
                .into_iter()
                .any(|shown| directory.starts_with(&shown.at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(network: NetworkView) -> View {
        let shown = |at: &str| Shown {
            source: format!("/srv{at}").into(),
            at: at.into(),
            access: Access::ReadWrite,
        };
        View {
            network,
            engine: "/opt/spp/spp-engine".into(),
            shown: ["/workspace/a/b", "/workspace", "/workspace/a"]
                .map(shown)
                .into(),
            hidden: vec![("/workspace/a/key".into(), Kind::File)],
        }
    }

    /// What bwrap is told, as words.
    fn words(view: &View, machine: &Path) -> Vec<String> {
        let mut words = Vec::new();
        for item in view.items(machine, ["--guard".into()]) {
            match item {
                Item::Argument(argument) => words.push(argument.to_string_lossy().into_owned()),
                Item::Bind { source, at, .. } => {
                    words.push("bind".into());
                    words.push(source.display().to_string());
                    words.push(at.to_string_lossy().into_owned());
                }
                Item::Hide { at, .. } => {
                    words.push("hide".into());
                    words.push(at.to_string_lossy().into_owned());
                }
                Item::Data { at, .. } => {
                    words.push("data".into());
                    words.push(at.to_string_lossy().into_owned());
                }
                Item::Limit(_) => panic!("no view has limits"),
            }
        }
        words
    }

    fn has(words: &[String], wanted: &[&str]) -> bool {
        words.windows(wanted.len()).any(|window| window == wanted)
    }

    #[test]
    fn what_lies_beneath_another_is_mounted_after_it_and_the_remounts_come_last() {
        let words = words(&view(NetworkView::None), Path::new("/"));
        let place = |wanted: &str| words.iter().rposition(|word| word == wanted);
        assert!(place("/workspace").is_some());
        assert!(place("/srv/workspace") < place("/srv/workspace/a"));
        assert!(place("/srv/workspace/a") < place("/srv/workspace/a/b"));
        assert!(place("/srv/workspace/a/b") < place("hide"));
        assert!(place("hide") < place("--remount-ro"));
        assert!(place("--tmpfs") < place("/srv/workspace"));
        assert!(has(&words, &["--", ENGINE, "--guard"]));
    }

    #[test]
    fn the_network_is_shared_only_where_it_is_asked_for() {
        let without = words(&view(NetworkView::None), Path::new("/"));
        assert!(has(&without, &["--unshare-all"]) && !has(&without, &["--share-net"]));
        assert!(has(&without, &["data", "/etc/hosts"]));
        assert!(!has(&without, &["/etc/resolv.conf"]));
        let with = words(&view(NetworkView::Machine), Path::new("/"));
        assert!(has(&with, &["--share-net"]) && has(&with, &["/etc/resolv.conf"]));
    }

    #[test]
    fn the_machines_root_and_its_secrets_are_never_shown() {
        for network in [NetworkView::None, NetworkView::Machine] {
            let words = words(&view(network), Path::new("/"));
            assert!(!has(&words, &["--ro-bind", "/", "/"]));
            for secret in [
                "/etc",
                "/etc/shadow",
                "/etc/ssh",
                "/etc/ssl/private",
                "/root",
                "/home",
                "/var",
                "/run",
            ] {
                assert!(!words.iter().any(|word| word == secret), "{secret}");
            }
        }
    }

    #[test]
    fn directories_are_shown_as_this_machine_has_them() {
        let machine = tempfile::tempdir().expect("a scratch directory");
        let make = |name| std::fs::create_dir(machine.path().join(name)).expect("a directory");
        let link = |target: &str, name| {
            std::os::unix::fs::symlink(target, machine.path().join(name)).expect("a link");
        };
        make("usr");
        make("nix");
        make("sbin");
        link("usr/bin", "bin");
        link("usr/lib", "lib");
        let words = words(&view(NetworkView::None), machine.path());
        assert!(has(&words, &["--symlink", "usr/bin", "/bin"]));
        assert!(has(&words, &["--symlink", "usr/lib", "/lib"]));
        assert!(has(&words, &["--ro-bind", "/sbin", "/sbin"]));
        assert!(has(&words, &["--ro-bind", "/nix", "/nix"]));
        assert!(
            !words.iter().any(|word| word == "/lib64"),
            "it is not there"
        );
    }

    #[test]
    fn only_directories_that_are_seen_are_searched() {
        let cache = Shown {
            source: "/srv/tools".into(),
            at: "/srv/tools".into(),
            access: Access::ReadOnly,
        };
        let check =
            |directory: &str| is_searched(Path::new(directory), std::slice::from_ref(&cache));
        assert!(check("/usr/local/bin") && check("/nix/store/x/bin") && check("/srv/tools/bin"));
        assert!(!check("/home/me/bin") && !check("/usrlocal") && !check("bin") && !check(""));
    }
}
