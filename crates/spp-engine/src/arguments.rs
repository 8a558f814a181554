//! The command line on which a provider says what the place is that it put the engine into.
//!
//! Everything here is a claim of whoever starts the engine, and shown to everybody in the place by
//! `/proc/1/cmdline`: nothing secret belongs here.
//!
//! **Invariant:** an argument that makes no sense ends the start. A claim that was misspelt must not be a
//! claim that was not made, nor the other way round.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use sandbox_core::{EnvInherit, Grade, Restriction};
use sandbox_engine::{GuardUse, PassedLimit, Place};

/// What `--help` says of them.
pub(crate) const HELP: &str = "\
Arguments, for whoever places it; each may come as `--NAME VALUE` only:

--location NAME        what descriptors call the place; default: engine
--inherit WHAT         what commands inherit of its environment where the policy
                       does not say: all, nothing, or NAME,NAME...; default: all
--note TEXT            what to know about the place, in one sentence; repeatable
--kept-away WHAT       the place itself keeps this away in full: network-denied,
                       write-contained, process-contained or secrets-hidden;
                       repeatable
--kept-partly WHAT=GAP the same with a gap, in one sentence; repeatable, also for
                       one WHAT
--writable DIRECTORY   the place has this for itself, and it may be written: a root
                       beside the workspace, such as a /tmp; absolute; repeatable
--readable DIRECTORY   the same for what may only be read, such as /usr; repeatable
--readable-if-there DIRECTORY
                       the same where the place has a directory of that name;
                       repeatable
--workspace DEVICE:INODE:DIRECTORY
                       which directory has to be there, in numbers as `stat` has
                       them: where it is another, the engine does not start
--guard WHEN           always, or by-policy: when each command gets a guard of its
                       own; default: by-policy
--own-users YES        yes, or no: the users of the place are nobody else's, as in a
                       user namespace of its own; default: no
--own-group YES        yes, or no: the place is a control group of its own, whose limits
                       are those that its one sandbox is to have; default: no
--dial SOCKET          connect there first, and be handed standard input, output and
                       error; who listens there has to know the secret that is in
                       SPP_CHANNEL; absolute
--limited LIMIT        the place's one sandbox is limited by a control group that was
                       made for it: CONTROLLER:VERSION:ENTRANCE:EVENTS, the last two
                       descriptors that are open, or `-`; repeatable";

/// What was said of a place.
pub(crate) struct Said {
    pub(crate) place: Place,
    /// The limits of its control group, by descriptors that are meant for this process.
    pub(crate) limited: Vec<PassedLimit>,
    /// The socket behind which its pipes are, if it was not started with them.
    pub(crate) dial: Option<PathBuf>,
    /// What is every provider's to understand.
    pub(crate) rest: Vec<OsString>,
}

/// Reads the arguments that say what the place is. What is left is every provider's.
pub(crate) fn place(arguments: impl IntoIterator<Item = OsString>) -> Result<Said, String> {
    let mut place = Place::open("engine");
    let (mut limited, mut rest) = (Vec::new(), Vec::new());
    let mut dial = None;
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let Some(name) = argument.to_str().filter(|name| OWN.contains(name)) else {
            rest.push(argument);
            continue;
        };
        let value = arguments
            .next()
            .ok_or_else(|| format!("`{name}` needs a value"))?;
        match name {
            LIMITED => limited.push(limit(&value)?),
            DIAL if dial.is_some() => return Err(format!("`{DIAL}` is there twice")),
            DIAL => dial = Some(absolute(DIAL, &value)?),
            name => take(&mut place, name, &value)?,
        }
    }
    if place.notes.is_empty() && place.kept_away.is_empty() {
        place
            .notes
            .push("what keeps this place apart is said by the provider that made it".into());
    }
    let mut descriptors: Vec<_> = limited.iter().flat_map(PassedLimit::descriptors).collect();
    descriptors.sort_unstable();
    if descriptors.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("`{LIMITED}` names a descriptor twice"));
    }
    Ok(Said {
        place,
        limited,
        dial,
        rest,
    })
}

const LIMITED: &str = "--limited";
const DIAL: &str = "--dial";
const OWN: [&str; 14] = [
    "--location",
    "--inherit",
    "--note",
    "--kept-away",
    "--kept-partly",
    "--writable",
    "--readable",
    "--readable-if-there",
    "--workspace",
    "--guard",
    "--own-users",
    "--own-group",
    LIMITED,
    DIAL,
];

fn absolute(name: &str, value: &OsStr) -> Result<PathBuf, String> {
    let path = PathBuf::from(value);
    match path.is_absolute() {
        true => Ok(path),
        false => Err(format!("`{name} {}` is not absolute", path.display())),
    }
}

fn limit(value: &OsStr) -> Result<PassedLimit, String> {
    let value = value.to_str().unwrap_or_default();
    value
        .parse()
        .map_err(|problem| format!("{LIMITED}: {problem}"))
}

fn take(place: &mut Place, name: &str, value: &OsStr) -> Result<(), String> {
    if let "--writable" | "--readable" | "--readable-if-there" = name {
        let directory = absolute(name, value)?;
        match name {
            "--writable" => place.writable.push(directory),
            "--readable" => place.readable.push(directory),
            _ if directory.is_dir() => place.readable.push(directory),
            _ => {}
        }
        return Ok(());
    }
    let value = value
        .to_str()
        .filter(|value| !value.is_empty())
        .ok_or_else(|| format!("the value of `{name}` is empty, or no UTF-8"))?;
    match name {
        "--workspace" => workspace(value)?,
        "--location" => place.location = value.into(),
        "--note" => place.notes.push(value.into()),
        "--inherit" => {
            place.inherit = match value {
                "all" => EnvInherit::All,
                "nothing" => EnvInherit::Nothing,
                names => EnvInherit::Names(names.split(',').map(str::to_owned).collect()),
            }
        }
        // Of two claims about one thing the weaker one holds.
        "--kept-away" => {
            place
                .kept_away
                .entry(restriction(value)?)
                .or_insert(Grade::Full);
        }
        "--kept-partly" => {
            let (what, gap) = value
                .split_once('=')
                .filter(|(_, gap)| !gap.is_empty())
                .ok_or_else(|| format!("`--kept-partly {value}` names no gap"))?;
            let what = restriction(what)?;
            let mut gaps = match place.grade(what) {
                Grade::Partial { gaps } => gaps,
                Grade::Full | Grade::Unavailable => Vec::new(),
            };
            gaps.push(gap.into());
            place.kept_away.insert(what, Grade::Partial { gaps });
        }
        "--own-users" => place.own_users = is_so(name, value)?,
        "--own-group" => place.own_group = is_so(name, value)?,
        _ => {
            place.guard = match value {
                "always" => GuardUse::Always,
                "by-policy" => GuardUse::ByPolicy,
                other => {
                    return Err(format!("`--guard {other}` is neither always nor by-policy"));
                }
            }
        }
    }
    Ok(())
}

fn is_so(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        other => Err(format!("`{name} {other}` is neither yes nor no")),
    }
}

/// Whether the directory is the one that it is said to be, and nothing else was put there on the way.
fn workspace(said: &str) -> Result<(), String> {
    let mut parts = said.splitn(3, ':');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let wanted = number().zip(number());
    let (Some(wanted), Some(directory)) = (wanted, parts.next()) else {
        return Err(format!(
            "`--workspace {said}` is not DEVICE:INODE:DIRECTORY"
        ));
    };
    match std::fs::symlink_metadata(directory) {
        Ok(found) if (found.dev(), found.ino()) == wanted => Ok(()),
        Ok(_) => Err(format!(
            "{directory} is not the directory that was asked for: it was replaced meanwhile, or something else of the place \
             has its name"
        )),
        Err(error) => Err(format!("{directory} cannot be looked at: {error}")),
    }
}

fn restriction(name: &str) -> Result<Restriction, String> {
    Restriction::ALL
        .into_iter()
        .find(|restriction| restriction.name() == name)
        .ok_or_else(|| format!("there is no restriction `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Said, String> {
        place(arguments.iter().map(OsString::from))
    }

    #[test]
    fn everything_that_a_place_is_can_be_said() {
        let said = read(&[
            "--location",
            "box",
            "--inherit",
            "PATH,LANG",
            "--kept-away",
            "network-denied",
            "--kept-partly",
            "process-contained=they are seen",
            "--kept-partly",
            "process-contained=and heard",
            "--writable",
            "/tmp",
            "--readable",
            "/usr",
            "--readable-if-there",
            "/proc",
            "--readable-if-there",
            "/nothing/is/here",
            "--guard",
            "always",
            "--kept-away",
            "process-contained",
            "--note",
            "a box",
            "--own-users",
            "yes",
            "--own-group",
            "yes",
            "--limited",
            "memory:1:7:8",
            "--limited",
            "cpu:1:9:-",
            "--dial",
            "/run/spp/channel",
            "--help",
        ])
        .expect("it makes sense");
        let Said {
            place,
            limited,
            dial,
            rest,
        } = said;
        assert_eq!(dial, Some("/run/spp/channel".into()));
        let limited: Vec<_> = limited.iter().map(ToString::to_string).collect();
        assert_eq!(limited, ["memory:1:7:8", "cpu:1:9:-"]);
        let gaps = vec!["they are seen".to_owned(), "and heard".to_owned()];
        assert_eq!(
            place,
            Place {
                location: "box".into(),
                inherit: EnvInherit::Names(vec!["PATH".into(), "LANG".into()]),
                notes: vec!["a box".into()],
                kept_away: [
                    (Restriction::NetworkDenied, Grade::Full),
                    (Restriction::ProcessContained, Grade::Partial { gaps }),
                ]
                .into(),
                writable: vec!["/tmp".into()],
                readable: vec!["/usr".into(), "/proc".into()],
                guard: GuardUse::Always,
                own_users: true,
                own_group: true,
            }
        );
        assert_eq!(rest, ["--help"]);
    }

    #[test]
    fn a_claim_that_makes_no_sense_ends_the_start() {
        for (arguments, says) in [
            (&["--kept-away", "network-denyed"][..], "network-denyed"),
            (&["--kept-away"], "needs a value"),
            (&["--kept-partly", "write-contained"], "names no gap"),
            (&["--kept-partly", "write-contained="], "names no gap"),
            (&["--writable", "tmp"], "not absolute"),
            (&["--guard", "sometimes"], "neither"),
            (&["--location", ""], "empty"),
            (&["--workspace", "/"], "DEVICE:INODE"),
            (
                &["--workspace", "1:1:/nothing/is/here"],
                "cannot be looked at",
            ),
            (&["--workspace", "0:0:/"], "replaced"),
            (&["--own-users", "maybe"], "neither"),
            (&["--own-group", ""], "empty"),
            (&["--dial", "channel"], "not absolute"),
            (&["--dial", "/a", "--dial", "/b"], "twice"),
            (&["--limited", "memory:1:7"], "memory:1:7"),
            (
                &["--limited", "memory:1:7:8", "--limited", "cpu:1:8:-"],
                "twice",
            ),
        ] {
            let problem = read(arguments).err().expect("it makes no sense");
            assert!(problem.contains(says), "{problem}");
        }
    }
}
