//! The groups that this process is in, and where it can make further ones, by controller.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::delegated;

/// What can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Memory of all processes together.
    Memory,
    /// Processes and threads at once.
    Processes,
    /// Time on processors.
    Cpu,
}

impl Controller {
    /// Every controller.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Processes, Self::Cpu];

    /// The kernel's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "pids",
            Self::Cpu => "cpu",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// Which of the kernel's two interfaces a hierarchy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for some controllers.
    One,
    /// One hierarchy for all of them.
    Two,
}

impl Version {
    /// Its number.
    #[must_use]
    pub fn number(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Two => "2",
        }
    }

    /// The one of that number.
    #[must_use]
    pub fn of_number(number: &str) -> Option<Self> {
        [Self::One, Self::Two]
            .into_iter()
            .find(|known| known.number() == number)
    }
}

/// A hierarchy that has a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its interface.
    pub version: Version,
    /// The directory of the group that this process is in.
    pub own: PathBuf,
    /// The directory that groups are made in: in version 1 the same, in version 2 perhaps one above that, or none.
    pub base: Option<PathBuf>,
}

/// The hierarchies of a machine, by the controllers that they have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hierarchies {
    by_controller: BTreeMap<Controller, Hierarchy>,
}

impl Hierarchies {
    /// Looks at what there is for this process.
    ///
    /// # Errors
    ///
    /// procfs cannot be read.
    pub fn of_this_process() -> io::Result<Self> {
        let mounts = std::fs::read("/proc/self/mountinfo")?;
        let own = std::fs::read("/proc/self/cgroup")?;
        Ok(Self::parse(&mounts, &own, delegated::controllers))
    }

    /// Understands what procfs says.
    ///
    /// - `mounts`, `own`: `/proc/self/mountinfo` and `/proc/self/cgroup`
    /// - `controllers`: those of a group of version 2, with the directory that groups can be made in, if there is one. The second argument is
    ///   the highest group that is shown
    pub fn parse(
        mounts: &[u8],
        own: &[u8],
        controllers: impl Fn(&Path, &Path) -> BTreeMap<Controller, Option<PathBuf>>,
    ) -> Self {
        let mounts: Vec<_> = mounts
            .split(|byte| *byte == b'\n')
            .filter_map(Mount::parse)
            .collect();
        let mut by_controller = BTreeMap::new();
        for line in own.split(|byte| *byte == b'\n') {
            // `ID:CONTROLLERS:PATH`, of which only the path may hold a colon.
            let mut parts = line.splitn(3, |byte| *byte == b':');
            let (Some(_), Some(named), Some(path)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let version = if named.is_empty() {
                Version::Two
            } else {
                Version::One
            };
            let named: Vec<_> = named.split(|byte| *byte == b',').collect();
            let found = mounts.iter().find_map(|mount| {
                let own = mount.directory(version, &named, path)?;
                Some((own, mount.point.as_path()))
            });
            let Some((own, top)) = found else { continue };
            let found = match version {
                Version::One => limited_by(&named)
                    .map(|controller| (controller, Some(own.clone())))
                    .collect(),
                Version::Two => controllers(&own, top),
            };
            for (controller, base) in found {
                let own = own.clone();
                by_controller.insert(controller, Hierarchy { version, own, base });
            }
        }
        Self { by_controller }
    }

    /// The hierarchy that has a controller.
    #[must_use]
    pub fn of(&self, controller: Controller) -> Option<&Hierarchy> {
        self.by_controller.get(&controller)
    }

    /// The directories that groups are made in, each once.
    pub(crate) fn directories(&self) -> Vec<&Path> {
        let mut all: Vec<_> = self
            .by_controller
            .values()
            .filter_map(|found| found.base.as_deref())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The controllers among the names of procfs.
fn limited_by(named: &[&[u8]]) -> impl Iterator<Item = Controller> {
    let has = |controller: &Controller| named.contains(&controller.name().as_bytes());
    Controller::ALL.into_iter().filter(has)
}

/// A hierarchy as it is mounted.
struct Mount<'a> {
    version: Version,
    /// Its controllers are among these.
    options: Vec<&'a [u8]>,
    /// Which of its directories is seen at the mount point.
    root: PathBuf,
    point: PathBuf,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        // `ID PARENT DEVICE ROOT POINT OPTIONS [TAGS...] - KIND SOURCE OPTIONS`
        let mut words = line.split(|byte| *byte == b' ');
        let root = unescaped(words.nth(3)?);
        let point = unescaped(words.next()?);
        let mut rest = words.skip_while(|word| *word != b"-").skip(1);
        let version = match rest.next()? {
            b"cgroup" => Version::One,
            b"cgroup2" => Version::Two,
            _ => return None,
        };
        let options = rest.nth(1)?.split(|byte| *byte == b',').collect();
        Some(Mount {
            version,
            options,
            root,
            point,
        })
    }

    /// The directory of a group, if this is its hierarchy and shows it.
    fn directory(&self, version: Version, named: &[&[u8]], path: &[u8]) -> Option<PathBuf> {
        let same = self.version == version
            && (version == Version::Two || named.iter().all(|name| self.options.contains(name)));
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        let beneath = path.strip_prefix(&self.root).ok().filter(|_| same)?;
        // Whoever was moved out of what is shown here has `..` in its path.
        let inside = beneath
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        // `join` with nothing would end in a slash.
        let nothing = beneath.as_os_str().is_empty();
        inside.then(|| {
            if nothing {
                self.point.clone()
            } else {
                self.point.join(beneath)
            }
        })
    }
}

/// The kernel writes what would end a word as an octal number.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let escaped = match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if *first == b'\\' => {
                Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
            }
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = after
            .get(if escaped.is_some() { 3 } else { 0 }..)
            .unwrap_or_default();
    }
    PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(mounts: &str, own: &str, offered: &str) -> Vec<(Controller, Version, String)> {
        let offered = || offered.split_whitespace().filter_map(Controller::of_name);
        let all = Hierarchies::parse(mounts.as_bytes(), own.as_bytes(), |own, _| {
            offered()
                .map(|controller| (controller, Some(own.to_owned())))
                .collect()
        });
        let shown = |found: &Hierarchy| found.own.to_str().expect("UTF-8").to_owned();
        Controller::ALL
            .into_iter()
            .filter_map(|controller| {
                let found = all.of(controller)?;
                Some((controller, found.version, shown(found)))
            })
            .collect()
    }

    const ONE_EACH: &str = "\
23 1 8:1 / / rw - ext4 /dev/vda rw
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 /box /sys/fs/cgroup/a\\040b rw shared:3 master:1 - cgroup cgroup rw,pids
";

    #[test]
    fn each_controller_of_version_1_is_found_where_it_is_mounted() {
        let own = "8:pids:/box/in:side\n4:memory:/a/b\n2:cpu,cpuacct:/\n9:name=systemd:/\n0::/\n";
        let expected = [
            (
                Controller::Memory,
                Version::One,
                "/sys/fs/cgroup/memory/a/b".to_owned(),
            ),
            (
                Controller::Processes,
                Version::One,
                "/sys/fs/cgroup/a b/in:side".to_owned(),
            ),
            (
                Controller::Cpu,
                Version::One,
                "/sys/fs/cgroup/cpu,cpuacct".to_owned(),
            ),
        ];
        assert_eq!(found(ONE_EACH, own, ""), expected);
    }

    #[test]
    fn version_2_has_what_it_hands_on() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let own = "0::/user.slice/me\n";
        let at = "/sys/fs/cgroup/user.slice/me".to_owned();
        let expected = [
            (Controller::Memory, Version::Two, at.clone()),
            (Controller::Processes, Version::Two, at),
        ];
        assert_eq!(found(mounts, own, "memory pids io\n"), expected);
    }

    #[test]
    fn some_may_be_here_and_some_there() {
        let mounts =
            format!("{ONE_EACH}41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
        let own = "4:memory:/\n0::/\n";
        let expected = [
            (
                Controller::Memory,
                Version::One,
                "/sys/fs/cgroup/memory".to_owned(),
            ),
            (
                Controller::Processes,
                Version::Two,
                "/sys/fs/cgroup/unified".to_owned(),
            ),
        ];
        assert_eq!(found(&mounts, own, "hugetlb pids\n"), expected);
    }

    #[test]
    fn what_is_not_shown_is_not_there() {
        // A mount that shows another part of the hierarchy, and a path that leads out of the one shown.
        assert_eq!(found(ONE_EACH, "8:pids:/other\n", ""), []);
        assert_eq!(found(ONE_EACH, "4:memory:/../up\n", ""), []);
        for damaged in ["", "\n\n", "8:pids\n", "::\n", "x"] {
            assert_eq!(found(ONE_EACH, damaged, "memory"), [], "{damaged:?}");
            assert_eq!(
                found(damaged, "8:pids:/box\n0::/\n", "memory"),
                [],
                "{damaged:?}"
            );
        }
    }
}
