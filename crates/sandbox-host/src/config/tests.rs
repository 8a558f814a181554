//! The configuration as its users meet it: files in, a selection or a sentence out.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sandbox_core::{
    EnvChange, EnvInherit, Limit, LimitKind, Mount, MountAccess, Network, Restriction, Strength,
};
use tempfile::TempDir;

use super::*;

/// A user's file, a project's file three directories below, and what else names a location.
#[derive(Default)]
struct Case<'c> {
    user: Option<&'c str>,
    project: Option<&'c str>,
    variable: Option<&'c str>,
    flag: Option<&'c str>,
    installed: &'c [&'c str],
}

struct Loaded {
    result: Result<Config>,
    directory: TempDir,
}

fn load(case: &Case<'_>) -> Loaded {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let root = directory.path();
    let below = root.join("project/a/b");
    std::fs::create_dir_all(&below).expect("directories");
    let write = |path: &Path, text: Option<&str>| {
        if let Some(text) = text {
            std::fs::write(path, text).expect("a file");
        }
    };
    write(&root.join("config.toml"), case.user);
    write(&root.join("project").join(PROJECT_FILE), case.project);
    for name in case.installed {
        let path = root.join(format!("{}{name}", crate::locate::PREFIX));
        write(&path, Some("#!/bin/sh\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    let sources = Sources {
        location: case.flag.map(str::to_owned),
        location_variable: case.variable.map(Into::into),
        directory: below,
        user_file: UserFile::Usual(root.join("config.toml")),
        search: SearchPath {
            beside: Some(root.to_owned()),
            path: Vec::new(),
        },
    };
    Loaded {
        result: Config::load(&sources),
        directory,
    }
}

fn good(case: &Case<'_>) -> Config {
    load(case).result.expect("the configuration is good")
}

/// The error's kind, and its text without the scratch directory.
fn refused(case: &Case<'_>) -> (ConfigErrorKind, String) {
    let loaded = load(case);
    let error = loaded.result.expect_err("the configuration was accepted");
    let scratch = format!("{}/", loaded.directory.path().display());
    (error.kind(), error.to_string().replace(&scratch, ""))
}

fn user(text: &str) -> Config {
    good(&Case {
        user: Some(text),
        ..Case::default()
    })
}

fn user_refused(text: &str, kind: ConfigErrorKind, message: &str) {
    assert_eq!(
        refused(&Case {
            user: Some(text),
            ..Case::default()
        }),
        (kind, message.to_owned())
    );
}

const TWO: &str =
    "[sandbox]\nlocation = 'box'\n[sandbox.providers.box]\n[sandbox.providers.crate]\n";

#[test]
fn without_anything_the_location_is_local() {
    let config = good(&Case::default());
    assert_eq!(config.location().name, "local");
    assert_eq!(config.location().place, Place::Default);
    assert!(config.files().is_empty());
}

#[test]
fn the_nearest_source_that_names_a_location_wins() {
    let mut case = Case {
        user: Some(TWO),
        ..Case::default()
    };
    assert_eq!(good(&case).location().name, "box");
    case.project = Some("[sandbox]\nlocation = 'crate'\n");
    assert_eq!(good(&case).location().name, "crate");
    case.variable = Some("");
    assert_eq!(good(&case).location().name, "crate");
    case.variable = Some("local");
    assert_eq!(good(&case).location().name, "local");
    case.flag = Some("box");
    assert_eq!(good(&case).location().name, "box");
}

#[test]
fn the_file_that_named_the_location_is_known_by_line_and_column() {
    let loaded = load(&Case {
        project: Some("# ours\n[sandbox]\n  location = 'local'\n"),
        ..Case::default()
    });
    let config = loaded.result.expect("good");
    let place = config.location().place.to_string();
    assert!(place.ends_with("project/.spp.toml:3:14"), "{place}");
}

#[test]
fn an_unknown_location_is_told_with_its_place_and_the_near_miss() {
    assert_eq!(
        refused(&Case {
            user: Some(TWO),
            project: Some("[sandbox]\nlocation = 'locl'"),
            ..Case::default()
        }),
        (
            ConfigErrorKind::UnknownLocation,
            "project/.spp.toml:2:12: unknown location `locl`; did you mean `local`?".into()
        )
    );
    assert_eq!(
        refused(&Case {
            flag: Some("boxx"),
            user: Some(TWO),
            ..Case::default()
        })
        .1,
        "the command line: unknown location `boxx`; did you mean `box`?"
    );
    let (_, text) = refused(&Case {
        variable: Some("elsewhere"),
        user: Some(TWO),
        ..Case::default()
    });
    assert!(
        text.starts_with("the variable SPP_LOCATION: unknown location `elsewhere`; known here: `box`, `bubblewrap`, `crate` and `local`;"),
        "{text}"
    );
}

#[test]
fn a_location_that_is_overridden_need_not_exist() {
    let config = good(&Case {
        project: Some("[sandbox]\nlocation = 'elsewhere'"),
        flag: Some("local"),
        ..Case::default()
    });
    assert_eq!(config.location().name, "local");
}

#[test]
fn the_user_may_choose_what_is_installed_and_a_project_only_what_is_set_up() {
    let installed: &[&str] = &["fresh"];
    assert_eq!(
        good(&Case {
            flag: Some("fresh"),
            installed,
            ..Case::default()
        })
        .location()
        .name,
        "fresh"
    );
    let (kind, _) = refused(&Case {
        project: Some("[sandbox]\nlocation = 'fresh'"),
        installed,
        ..Case::default()
    });
    assert_eq!(kind, ConfigErrorKind::UnknownLocation);
}

#[test]
fn a_project_file_may_only_name_a_location() {
    for (project, message) in [
        (
            "[sandbox]\nlocation = 'local'\nmax_concurrent = 1",
            "project/.spp.toml:3:1: a project file may only name a location, and this sets `max_concurrent` in [sandbox]; put it into your own configuration file if you want it",
        ),
        (
            "[sandbox.providers.local]\ncommand = '/tmp/evil'",
            "project/.spp.toml:1:10: a project file may only name a location, and this sets `providers` in [sandbox]; put it into your own configuration file if you want it",
        ),
        (
            "[other]\n",
            "project/.spp.toml:1:2: a project file may only name a location, and this sets `other`; put it into your own configuration file if you want it",
        ),
    ] {
        // Naming another location does not make the rest of the file acceptable.
        assert_eq!(
            refused(&Case {
                project: Some(project),
                flag: Some("local"),
                ..Case::default()
            }),
            (ConfigErrorKind::Untrusted, message.to_owned())
        );
    }
    let (kind, text) = refused(&Case {
        project: Some("[sandbox]\nlocaton = 'local'"),
        ..Case::default()
    });
    assert_eq!(kind, ConfigErrorKind::UnknownKey);
    assert!(text.ends_with("did you mean `location`?"), "{text}");
}

#[test]
fn an_unknown_key_is_told_with_its_place_and_the_near_miss() {
    use ConfigErrorKind::{NotOffered, UnknownKey};
    user_refused(
        "[sandbox]\nmax_concurent = 3\n",
        UnknownKey,
        "config.toml:2:1: unknown key `max_concurent` in [sandbox]; did you mean `max_concurrent`?",
    );
    user_refused(
        "[sandbox.providers.box]\ncomand = 'x'",
        UnknownKey,
        "config.toml:2:1: unknown key `comand` in [sandbox.providers.box]; did you mean `command`?",
    );
    user_refused(
        "[sandbox.limits]\nram = '1GiB'",
        UnknownKey,
        "config.toml:2:1: unknown key `ram` in [sandbox.limits]; the keys here are `memory`, `processes`, `cpu`, `open-files`, `file-size`, `disk`, `wall-time` and `concurrency`",
    );
    user_refused(
        "[sandbox]\nseed = 'git'",
        NotOffered,
        "config.toml:2:1: `seed` in [sandbox] is not offered by this version; remove it",
    );
    let (kind, text) = refused(&Case {
        flag: Some("far:devbox"),
        ..Case::default()
    });
    assert_eq!(kind, NotOffered, "{text}");
}

#[test]
fn what_is_not_toml_is_told_with_its_place() {
    let (kind, text) = refused(&Case {
        user: Some("[sandbox]\nlocation = local\n"),
        ..Case::default()
    });
    assert_eq!(kind, ConfigErrorKind::NotToml);
    assert!(
        text.starts_with("config.toml:2:12: this is not TOML: "),
        "{text}"
    );
    let (_, text) = refused(&Case {
        project: Some("location: local\n"),
        ..Case::default()
    });
    assert!(
        text.starts_with("project/.spp.toml:1:11: this is not TOML"),
        "{text}"
    );
}

#[test]
fn a_file_that_is_there_and_cannot_be_read_is_an_error() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let mut sources = Sources {
        location: None,
        location_variable: None,
        directory: directory.path().to_owned(),
        user_file: UserFile::Usual(directory.path().to_owned()),
        search: SearchPath::default(),
    };
    let kind = |sources: &Sources| Config::load(sources).map_err(|error| error.kind()).err();
    assert_eq!(kind(&sources), Some(ConfigErrorKind::Unreadable));
    sources.user_file = UserFile::Named(directory.path().join("absent.toml"));
    assert_eq!(kind(&sources), Some(ConfigErrorKind::Unreadable));
    sources.user_file = UserFile::Usual(directory.path().join("absent.toml"));
    assert_eq!(kind(&sources), None);
    sources.user_file = UserFile::None;
    assert_eq!(kind(&sources), None);
    std::fs::write(directory.path().join("latin1.toml"), b"# caf\xe9").expect("a file");
    sources.user_file = UserFile::Named(directory.path().join("latin1.toml"));
    assert_eq!(kind(&sources), Some(ConfigErrorKind::NotToml));
}

#[test]
fn what_is_no_plain_file_is_refused_at_once_in_either_place() {
    use std::os::unix::fs::symlink;
    type Make = fn(&Path);
    let cases: [(&str, Make); 5] = [
        ("not a regular file", |path| {
            let mode = rustix::fs::Mode::RWXU;
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
                .expect("a FIFO");
        }),
        ("not a regular file", |path| {
            std::fs::create_dir(path).expect("a directory");
        }),
        ("not a regular file", |path| {
            symlink("/dev/zero", path).expect("a link");
        }),
        ("leads nowhere", |path| {
            symlink("nowhere", path).expect("a link");
        }),
        ("longer than 1 MiB", |path| {
            let file = std::fs::File::create(path).expect("a file");
            file.set_len(1 << 40).expect("room for holes");
        }),
    ];
    for (expected, make) in cases {
        for name in ["config.toml", PROJECT_FILE] {
            let directory = tempfile::tempdir().expect("a scratch directory");
            make(&directory.path().join(name));
            let error = Config::load(&Sources {
                location: None,
                location_variable: None,
                directory: directory.path().to_owned(),
                user_file: UserFile::Usual(directory.path().join("config.toml")),
                search: SearchPath::default(),
            })
            .expect_err("it was taken");
            assert_eq!(error.kind(), ConfigErrorKind::Unreadable, "{error}");
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(expected), "{text}");
        }
    }
}

#[test]
fn a_link_to_a_file_is_as_good_as_the_file() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    std::fs::write(
        directory.path().join("elsewhere"),
        "[sandbox]\nlocation = 'local'",
    )
    .expect("a file");
    std::os::unix::fs::symlink("elsewhere", directory.path().join(PROJECT_FILE)).expect("a link");
    let config = Config::load(&Sources {
        location: None,
        location_variable: None,
        directory: directory.path().to_owned(),
        user_file: UserFile::None,
        search: SearchPath::default(),
    })
    .expect("it is read");
    assert_eq!(config.files(), [directory.path().join(PROJECT_FILE)]);
}

#[test]
fn values_of_the_wrong_kind_say_what_is_expected() {
    use ConfigErrorKind::Invalid;
    user_refused(
        "[sandbox]\nlocation = 3",
        Invalid,
        "config.toml:2:12: `location` in [sandbox] takes a string, and this is 3",
    );
    user_refused(
        "sandbox = 'local'",
        Invalid,
        "config.toml:1:11: `sandbox` takes a table, and this is of type string",
    );
    user_refused(
        "[sandbox]\nmax_concurrent = 0",
        Invalid,
        "config.toml:2:18: `max_concurrent` in [sandbox] takes a whole number from 1 to 4294967295, and this is 0",
    );
    for (key, value, expected) in [
        ("processes", "-1", "a whole number above 0"),
        ("memory", "-1", "a size such as `2GiB`"),
        ("cpu", "-0.5", "a number of processors such as `1.5`"),
        ("wall-time", "90", "a duration such as `10m`"),
    ] {
        let indent = key.len() + 4;
        user_refused(
            &format!("[sandbox.limits]\n{key} = {value}"),
            Invalid,
            &format!(
                "config.toml:2:{indent}: `{key}` in [sandbox.limits] takes {expected}, and this is {value}"
            ),
        );
    }
    user_refused(
        "[sandbox.policy]\nnetwork = 'closed'",
        Invalid,
        "config.toml:2:11: `network` in [sandbox.policy] does not know `closed`; it takes `none` and `open`",
    );
    user_refused(
        "[sandbox.policy]\nrequire = ['network-denyed']",
        Invalid,
        "config.toml:2:12: `require` in [sandbox.policy] does not know `network-denyed`; did you mean `network-denied`?",
    );
    user_refused(
        "[sandbox.limits]\nmemory = '2 gigs'",
        Invalid,
        "config.toml:2:10: `2 gigs` is not a size; write a number and a unit, such as 512MiB or 2GiB",
    );
    user_refused(
        "[sandbox.providers.Box]\n",
        Invalid,
        "config.toml:1:20: `Box` is not the name of a provider; use lower-case letters, digits and `-`, beginning with a letter",
    );
    user_refused(
        "[sandbox.providers.box.env]\nTOKEN = '${TOKEN}'",
        Invalid,
        "config.toml:2:9: `${` begins `${env:NAME}`; write `$${` for a literal `${`",
    );
}

#[test]
fn what_is_hidden_is_named_by_whole_paths() {
    let user = |hide: &str| format!("[sandbox.policy]\nhide = {hide}\n");
    let text = user("[\"/workspace/.env\", \"/workspace/keys/\"]");
    let config = good(&Case {
        user: Some(&text),
        ..Case::default()
    });
    let hidden: Vec<_> = config
        .policy()
        .hidden
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(hidden, ["/workspace/.env", "/workspace/keys"]);
    for (hide, says) in [
        ("[\".env\"]", "`.env` is no absolute path"),
        ("[\"/workspace/../x\"]", "no absolute path"),
        ("\"/workspace/.env\"", "list"),
    ] {
        let text = user(hide);
        let (_, told) = refused(&Case {
            user: Some(&text),
            ..Case::default()
        });
        assert!(
            told.contains(says) && told.contains("config.toml:2:"),
            "{told}"
        );
    }
}

#[test]
fn mounts_are_read_only_unless_written_otherwise_and_name_whole_paths() {
    let user = |mounts: &str| format!("[sandbox.policy.mounts]\n{mounts}\n");
    let text = user(
        "\"/opt/tools\" = \"/srv/tools\"\n\"/cache\" = { host = \"/srv/cache\", access = \"read-write\" }",
    );
    let config = good(&Case {
        user: Some(&text),
        ..Case::default()
    });
    let mounts: Vec<_> = config.policy().mounts.iter().collect();
    let shown = |mount: &Mount| (mount.host.clone(), mount.sandbox.to_string(), mount.access);
    assert_eq!(
        mounts.into_iter().map(shown).collect::<Vec<_>>(),
        [
            (
                "/srv/tools".into(),
                "/opt/tools".to_owned(),
                MountAccess::ReadOnly
            ),
            (
                "/srv/cache".into(),
                "/cache".to_owned(),
                MountAccess::ReadWrite
            ),
        ]
    );
    for (mounts, says) in [
        ("\"opt\" = \"/srv\"", "`opt` is no absolute path"),
        ("\"/opt/../x\" = \"/srv\"", "no absolute path"),
        ("\"/opt\" = \"srv\"", "absolute, or begins with"),
        ("\"/opt\" = { access = \"read-only\" }", "of the `host`"),
        ("\"/opt\" = { host = \"/srv\", access = \"rw\" }", "`rw`"),
        ("\"/opt\" = { host = \"/srv\", mode = 1 }", "`mode`"),
    ] {
        let text = user(mounts);
        let (_, told) = refused(&Case {
            user: Some(&text),
            ..Case::default()
        });
        assert!(
            told.contains(says) && told.contains("config.toml:2:"),
            "{told}"
        );
    }
    let project = user("\"/opt\" = \"/etc\"");
    let (_, told) = refused(&Case {
        project: Some(&project),
        ..Case::default()
    });
    assert!(
        told.contains("policy"),
        "a project file is not trusted: {told}"
    );
}

#[test]
fn policy_and_limits_are_read() {
    let config = user(
        "[sandbox]\nmax_concurrent = 4\n\
         [sandbox.policy]\nnetwork = ['https://example.org:443']\nrequire = ['write-contained', 'secrets-hidden']\nprefer = ['process-contained']\n\
         [sandbox.policy.env]\ninherit = ['PATH']\nremove = ['TOKEN']\nset = { CI = '1' }\n\
         [sandbox.limits]\nmemory = '2GiB'\ncpu = 1.5\nprocesses = 256\nwall-time = { value = '10m', strength = 'best-effort' }\n",
    );
    assert_eq!(config.max_concurrent().map(NonZeroU32::get), Some(4));
    let policy = config.policy();
    assert_eq!(
        policy.network,
        Some(Network::Allow(vec!["https://example.org:443".into()]))
    );
    assert!(
        policy
            .require
            .iter()
            .eq([&Restriction::WriteContained, &Restriction::SecretsHidden])
    );
    assert!(policy.prefer.iter().eq([&Restriction::ProcessContained]));
    assert_eq!(
        policy.env.inherit,
        Some(EnvInherit::Names(vec!["PATH".into()]))
    );
    assert_eq!(
        policy.env.changes,
        [EnvChange::remove("TOKEN"), EnvChange::set("CI", "1")]
    );
    let limits: Vec<_> = policy
        .limits
        .iter()
        .map(|(kind, limit)| (*kind, *limit))
        .collect();
    let limit = |value, strength| Limit { value, strength };
    assert_eq!(
        limits,
        [
            (LimitKind::Memory, limit(2 << 30, Strength::Required)),
            (LimitKind::Processes, limit(256, Strength::Required)),
            (LimitKind::Cpu, limit(1500, Strength::Required)),
            (LimitKind::WallTime, limit(600_000, Strength::BestEffort)),
        ]
    );
}

#[test]
fn a_provider_is_read_with_its_options_untouched() {
    let loaded = load(&Case {
        user: Some(
            "[sandbox.providers.box]\ncommand = 'bin/provider'\nargs = ['--fast']\nenv = { TOKEN = '${env:SECRET}' }\npool = 'per-session'\n\
             [sandbox.providers.box.options]\nzone = 'b'\nanswer = 18446744073709551616\n[sandbox.providers.box.options.deep]\nunknown = [1.50, true]\n",
        ),
        ..Case::default()
    });
    let provider = loaded.result.expect("good").provider("box");
    assert_eq!(
        provider.command,
        Some(loaded.directory.path().join("bin/provider"))
    );
    assert_eq!(provider.args, ["--fast"]);
    assert_eq!(provider.pool, Pool::PerSession);
    assert!(!provider.is_own_place());
    assert_eq!(
        provider.options.as_deref(),
        Some(r#"{"zone":"b","answer":18446744073709551616,"deep":{"unknown":[1.50,true]}}"#)
    );
    let plain = user("").provider("local");
    assert!(plain.is_own_place());
    assert_eq!(plain, ProviderConfig::unconfigured("local"));
}
