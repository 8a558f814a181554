//! What a launch does, as arguments: the provider encodes it, the process it starts decodes it.
//!
//! Arguments are the one form in which any path travels as it is.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

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
}

/// Whether what is shown can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    ReadOnly,
    ReadWrite,
}

/// Stands for the number of a user where nobody becomes another one.
const NOBODY: &str = "-";
const ACCESSES: [(Access, &str); 2] = [(Access::ReadOnly, "ro"), (Access::ReadWrite, "rw")];
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
    /// As arguments.
    pub(crate) fn encode(&self) -> Vec<OsString> {
        let mut arguments = vec![
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
                Item::Argument(argument) => arguments.extend(["a".into(), argument.clone()]),
                Item::Bind { access, source, at } => arguments.extend([
                    "b".into(),
                    word(&ACCESSES, *access),
                    source.clone().into_os_string(),
                    at.clone(),
                ]),
                Item::Data { text, at } => {
                    arguments.extend(["d".into(), text.into(), at.clone()]);
                }
            }
        }
        arguments
    }

    /// From arguments; `None` if they are none of ours.
    pub(crate) fn decode(arguments: Vec<OsString>) -> Option<Self> {
        let mut rest = arguments.into_iter();
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
                "d" => Item::Data {
                    text: rest.next()?.into_string().ok()?,
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
                Item::Data {
                    text: "a\nb\n".into(),
                    at: name,
                },
            ],
        };
        assert_eq!(Order::decode(order.encode()), Some(order));
    }

    #[test]
    fn arguments_that_are_none_of_ours_are_no_order() {
        for arguments in [&[][..], &["-"], &["nobody", "1", "fd", "/x"]] {
            let arguments = arguments.iter().map(OsString::from).collect();
            assert_eq!(Order::decode(arguments), None);
        }
        let cut = ["-", "1", "fd", "/x", "b", "rw"].map(OsString::from);
        assert_eq!(Order::decode(cut.into()), None);
    }
}
