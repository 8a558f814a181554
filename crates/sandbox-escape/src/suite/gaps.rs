//! What a location does not promise to keep away, so that it is no escape.
//!
//! Each has the sentence of `docs/threat-model.md` that says so, and must succeed wherever a control does: one
//! that is kept away by now is to be promised.

/// Something that is not promised.
#[derive(Debug)]
pub struct Gap {
    /// The columns that it is a gap of, by their names.
    pub columns: &'static [&'static str],
    /// What succeeds there.
    pub ids: &'static [&'static str],
    /// What the threat model says.
    pub sentence: &'static str,
}

const LOCAL: &[&str] = &["local"];
const DOCKER: &[&str] = &["docker-root", "docker-user"];
/// Those that have namespaces of their own.
const APART: &[&str] = &[
    "bubblewrap-root",
    "bubblewrap-user",
    "docker-root",
    "docker-user",
];
/// Started by root, what runs in a container is not who the sockets of the workspace belong to.
const SAME_USER: &[&str] = &["bubblewrap-root", "bubblewrap-user", "docker-user"];
/// The daemon has its own filter in the others.
const OWN_FILTER_ALONE: &[&str] = &["local", "bubblewrap-root", "bubblewrap-user"];

/// All of them.
pub const GAPS: &[Gap] = &[
    Gap {
        columns: LOCAL,
        ids: &["F01", "F02", "F03", "F51"],
        sentence: "a command reads what you can read",
    },
    Gap {
        columns: LOCAL,
        ids: &["F56", "F57", "F58"],
        sentence: "Nothing in a root can be hidden, and a policy that asks for it is refused",
    },
    Gap {
        columns: LOCAL,
        ids: &["F06", "F47", "F52", "F54"],
        sentence: "modes, owners, times and attributes of your files elsewhere can be changed, though not what is in them",
    },
    Gap {
        columns: LOCAL,
        ids: &["P12", "P13"],
        sentence: "which processes there are can be seen, with their arguments",
    },
    Gap {
        columns: LOCAL,
        ids: &["P27"],
        sentence: "on which processors yours run can be changed",
    },
    Gap {
        columns: APART,
        ids: &["P27"],
        sentence: "On which processors the engine runs can be changed from inside",
    },
    Gap {
        columns: LOCAL,
        ids: &["P28"],
        sentence: "your other terminals can be written to",
    },
    Gap {
        columns: SAME_USER,
        ids: &["N11", "N12"],
        sentence: "Sockets with a name are shown like files",
    },
    Gap {
        columns: DOCKER,
        ids: &["F56", "F57", "F58"],
        sentence: "Nothing of the workspace can be hidden there, and a policy that asks for it is refused",
    },
    Gap {
        columns: OWN_FILTER_ALONE,
        ids: &["K15"],
        sentence: "a process may weaken itself",
    },
];

/// What the threat model says of it, if it is one.
#[must_use]
pub fn of(column: &str, id: &str) -> Option<&'static Gap> {
    GAPS.iter()
        .find(|gap| gap.columns.contains(&column) && gap.ids.contains(&id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gap_is_in_the_threat_model_in_these_words() {
        let document = include_str!("../../../../docs/threat-model.md");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let document = words(document);
        for gap in GAPS {
            assert!(document.contains(&words(gap.sentence)), "{}", gap.sentence);
        }
    }
}
