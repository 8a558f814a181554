//! What a launch does, as bytes: the provider encodes it, the process it starts decodes it.
//!
//! It travels ahead of the engine's own lines, and not as arguments: of those there can be too few for a long policy, and
//! everybody can read them. Words end in NUL, which no path contains.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use sandbox_cgroup::{Controller, Door, Version};

/// Everything that a launch needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Who starts it.
    pub(crate) starter: Starter,
    /// The process that it dies with.
    pub(crate) parent: u32,
    /// Whether bwrap can bind what a descriptor names.
    pub(crate) by_descriptor: bool,
    /// bwrap, absolute.
    pub(crate) bwrap: OsString,
    /// What bwrap is told, in order.
    pub(crate) items: Vec<Item>,
}

/// Who starts a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Starter {
    /// The machine's user 0, who becomes another user first.
    Root {
        /// The number of that user and group.
        becomes: u32,
    },
    /// Anybody else.
    User,
}

/// One thing that bwrap is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// As it is.
    Argument(OsString),
    /// To show something of this machine.
    Bind {
        access: Access,
        source: PathBuf,
        at: OsString,
    },
    /// To show a small file with this content.
    Data { text: String, at: OsString },
    /// To show nothing where something shown before has something.
    Hide { at: OsString, kind: Kind },
    /// To tell the engine of a limit, and to pass on what it is kept by.
    Limit(Door),
}

impl Item {
    /// Where something of this machine is shown or hidden.
    pub(super) fn at(&self) -> Option<&OsStr> {
        match self {
            Self::Bind { at, .. } | Self::Hide { at, .. } => Some(at),
            Self::Argument(_) | Self::Data { .. } | Self::Limit(_) => None,
        }
    }
}

/// Whether what is shown can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    ReadOnly,
    ReadWrite,
}

/// What something is to whoever mounts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    /// Anything else.
    File,
}

/// Stands for the number of a user where nobody becomes another one.
const NOBODY: &str = "-";
const ACCESSES: [(Access, &str); 2] = [(Access::ReadOnly, "ro"), (Access::ReadWrite, "rw")];
const KINDS: [(Kind, &str); 2] = [(Kind::Directory, "directory"), (Kind::File, "file")];
const DESCRIPTORS: [(bool, &str); 2] = [(true, "fd"), (false, "path")];

fn word<T: Copy + PartialEq>(table: &[(T, &'static str)], value: T) -> OsString {
    let found = table.iter().find(|(known, _)| *known == value);
    found.map_or("", |(_, word)| *word).into()
}

fn value<T: Copy>(table: &[(T, &str)], word: &OsStr) -> Option<T> {
    let found = table.iter().find(|(_, known)| word == *known);
    found.map(|(value, _)| *value)
}

impl Order {
    /// As bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut words: Vec<OsString> = vec![
            match self.starter {
                Starter::Root { becomes } => becomes.to_string().into(),
                Starter::User => NOBODY.into(),
            },
            self.parent.to_string().into(),
            word(&DESCRIPTORS, self.by_descriptor),
            self.bwrap.clone(),
        ];
        for item in &self.items {
            match item {
                Item::Argument(argument) => words.extend(["a".into(), argument.clone()]),
                Item::Bind { access, source, at } => words.extend([
                    "b".into(),
                    word(&ACCESSES, *access),
                    source.clone().into_os_string(),
                    at.clone(),
                ]),
                Item::Data { text, at } => {
                    words.extend(["d".into(), text.into(), at.clone()]);
                }
                Item::Hide { at, kind } => {
                    words.extend(["h".into(), word(&KINDS, *kind), at.clone()]);
                }
                Item::Limit(door) => words.extend([
                    "l".into(),
                    door.controller.name().into(),
                    door.version.number().into(),
                    door.directory.clone().into_os_string(),
                ]),
            }
        }
        let mut bytes = Vec::new();
        for word in &words {
            bytes.extend_from_slice(word.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    /// From bytes; `None` if they are none of ours.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let words = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0);
        let mut rest = words.map(|word| OsString::from_vec(word.to_vec()));
        let mut order = Self {
            starter: match rest.next()?.to_str()? {
                NOBODY => Starter::User,
                number => Starter::Root {
                    becomes: number.parse().ok()?,
                },
            },
            parent: rest.next()?.to_str()?.parse().ok()?,
            by_descriptor: value(&DESCRIPTORS, &rest.next()?)?,
            bwrap: rest.next()?,
            items: Vec::new(),
        };
        while let Some(kind) = rest.next() {
            order.items.push(match kind.to_str()? {
                "a" => Item::Argument(rest.next()?),
                "b" => Item::Bind {
                    access: value(&ACCESSES, &rest.next()?)?,
                    source: rest.next()?.into(),
                    at: rest.next()?,
                },
                "l" => Item::Limit(Door {
                    controller: Controller::of_name(rest.next()?.to_str()?)?,
                    version: Version::of_number(rest.next()?.to_str()?)?,
                    directory: rest.next()?.into(),
                }),
                "d" => Item::Data {
                    text: rest.next()?.into_string().ok()?,
                    at: rest.next()?,
                },
                "h" => Item::Hide {
                    kind: value(&KINDS, &rest.next()?)?,
                    at: rest.next()?,
                },
                _ => return None,
            });
        }
        Some(order)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn an_order_is_decoded_as_it_was_encoded_whatever_the_names() {
        let name = OsString::from_vec(b"/srv/\xff\n b".to_vec());
        let order = Order {
            starter: Starter::Root { becomes: 2_000 },
            parent: 7,
            by_descriptor: true,
            bwrap: "/usr/bin/bwrap".into(),
            items: vec![
                Item::Argument("--tmpfs".into()),
                Item::Argument(name.clone()),
                Item::Bind {
                    access: Access::ReadWrite,
                    source: name.clone().into(),
                    at: "b".into(),
                },
                Item::Limit(Door {
                    controller: Controller::Memory,
                    version: Version::Two,
                    directory: name.clone().into(),
                }),
                Item::Data {
                    text: "a\nb\n".into(),
                    at: name.clone(),
                },
                Item::Hide {
                    at: name,
                    kind: Kind::Directory,
                },
            ],
        };
        assert_eq!(Order::decode(&order.encode()), Some(order));
    }

    #[test]
    fn bytes_that_are_none_of_ours_are_no_order() {
        let known = b"-\x001\0fd\0/x\0b\0rw\0/srv\0/at\0";
        assert!(Order::decode(known).is_some());
        for end in 0..known.len() {
            // What ends with its last but one word is a shorter order.
            let is_whole = known[..end].ends_with(b"/x\0");
            assert_eq!(Order::decode(&known[..end]).is_some(), is_whole, "{end}");
        }
        assert_eq!(Order::decode(b"nobody\x001\0fd\0/x\0"), None);
    }
}
