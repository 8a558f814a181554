//! The places that the hostile program is run in, and who starts them.

/// A place that the hostile program is run in.
#[derive(Debug)]
pub struct Column {
    /// What it is called on a command line.
    pub name: &'static str,
    /// What the table calls it.
    pub title: &'static str,
    /// What it is for.
    pub role: Role,
    /// Who starts it.
    pub starter: Starter,
    /// What runs the hostile program there.
    pub(super) by: By,
}

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It shows that an attempt works where nothing, or too little, is kept away.
    Control,
    /// It is to keep everything away that its location promises to.
    Guarded,
}

/// Who starts a column. None is ever root without a user namespace, a container or a user of its own between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// A user that no system gives a name to; whoever runs the suite, if that is not root.
    Ordinary,
    /// Root, for a location that never lets it in, and for one that shows what it does when it does.
    Root,
}

/// What runs the hostile program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A naive engine and nothing else.
    Nothing,
    /// A naive engine in bwrap with the flags that come to mind first, as root of a throwaway namespace of users,
    /// mounts, network, names and processes: bwrap as root, without the machine's root.
    NaiveBwrap,
    /// A naive engine in a container as it is made without any flag, as root.
    NaiveDocker,
    /// The host library at a location, with or without a policy.
    Location(&'static str, Policy),
}

/// What is asked of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// Nothing.
    None,
    /// As much as it takes.
    Strongest,
}

/// All of them: the controls, then the guarded ones.
pub const COLUMNS: &[Column] = &[
    Column {
        name: "bare",
        title: "no sandbox",
        role: Role::Control,
        starter: Starter::Ordinary,
        by: By::Nothing,
    },
    Column {
        name: "naive-bwrap",
        title: "bwrap, naive, as root",
        role: Role::Control,
        starter: Starter::Ordinary,
        by: By::NaiveBwrap,
    },
    Column {
        name: "naive-docker",
        title: "docker, naive, as root",
        role: Role::Control,
        starter: Starter::Root,
        by: By::NaiveDocker,
    },
    Column {
        name: "local-open",
        title: "local, no policy",
        role: Role::Control,
        starter: Starter::Ordinary,
        by: By::Location("local", Policy::None),
    },
    Column {
        name: "local",
        title: "local, policy",
        role: Role::Guarded,
        starter: Starter::Ordinary,
        by: By::Location("local", Policy::Strongest),
    },
    Column {
        name: "bubblewrap-root",
        title: "bubblewrap, by root",
        role: Role::Guarded,
        starter: Starter::Root,
        by: By::Location("bubblewrap", Policy::Strongest),
    },
    Column {
        name: "bubblewrap-user",
        title: "bubblewrap, by a user",
        role: Role::Guarded,
        starter: Starter::Ordinary,
        by: By::Location("bubblewrap", Policy::Strongest),
    },
    Column {
        name: "docker-root",
        title: "docker, by root",
        role: Role::Guarded,
        starter: Starter::Root,
        by: By::Location("docker", Policy::Strongest),
    },
    Column {
        name: "docker-user",
        title: "docker, by a user",
        role: Role::Guarded,
        starter: Starter::Ordinary,
        by: By::Location("docker", Policy::Strongest),
    },
];

impl Column {
    /// Whether it takes a container daemon.
    pub(super) fn needs_daemon(&self) -> bool {
        matches!(self.by, By::NaiveDocker | By::Location("docker", _))
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        COLUMNS.iter().find(|column| column.name == name)
    }
}
