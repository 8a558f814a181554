//! Configuration: which location is meant, and what is known about providers.
//!
//! Four sources name a location, the first that does wins: the caller (a command line flag),
//! the variable `SPP_LOCATION`, the nearest `.spp.toml` upwards from the working directory, the
//! user's own file. Without any it is `local`. Everything else comes from the user's file alone.
//!
//! **Invariant:** a project file is untrusted. It may name a location that the user already has,
//! built in or configured, and nothing else: no program, no policy, no option of it is ever used.
//!
//! Errors point at file, line and column and say what to do. A key that is planned but not offered
//! yet is refused, never ignored: whoever sets a limit must not run without it.
//!
//! Not here: finding a provider's executable ([`locate`](crate::locate)).

mod document;
mod error;
mod near;
mod options;
mod policy;
mod provider;
pub mod quantity;
mod sources;
mod template;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use sandbox_core::Policy;

pub use error::{ConfigError, ConfigErrorKind, Place, Position};
pub use provider::{Pool, ProviderConfig};
pub use sources::{Sources, UserFile};
pub use template::Template;

use document::{Document, Section};

use crate::locate::SearchPath;

/// The variable that names a location.
pub const LOCATION_VARIABLE: &str = "SPP_LOCATION";
/// The name of a project's file.
pub const PROJECT_FILE: &str = ".spp.toml";
/// The location when nobody names one.
pub const DEFAULT_LOCATION: &str = "local";
/// Locations that need no configuration.
pub const BUILT_IN: &[&str] = &["bubblewrap", "local"];

type Result<T, E = ConfigError> = std::result::Result<T, E>;

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    location: Selection,
    max_concurrent: Option<NonZeroU32>,
    policy: Policy,
    providers: BTreeMap<String, ProviderConfig>,
    files: Vec<PathBuf>,
}

/// A location, and who chose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The location's name.
    pub name: String,
    /// Where it was named.
    pub place: Place,
}

/// Who chose a location.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chooser {
    /// The user, who may choose any provider that is installed.
    User,
    /// A project file, which may choose among what the user has set up.
    Project,
}

impl Config {
    /// Reads and merges all sources.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], pointing at the place.
    pub fn load(sources: &Sources) -> Result<Self> {
        let mut config = Self {
            location: Selection {
                name: DEFAULT_LOCATION.to_owned(),
                place: Place::Default,
            },
            max_concurrent: None,
            policy: Policy::default(),
            providers: BTreeMap::new(),
            files: Vec::new(),
        };
        if let Some(document) = sources.user_document()? {
            config.read_user(&document)?;
            config.files.push(document.path().to_owned());
        }
        let mut chooser = Chooser::User;
        if let Some(document) = sources.project_document()? {
            if let Some(selection) = read_project(&document)? {
                config.location = selection;
                chooser = Chooser::Project;
            }
            config.files.push(document.path().to_owned());
        }
        if let Some(selection) = sources.named()? {
            config.location = selection;
            chooser = Chooser::User;
        }
        config.check(&config.location, chooser, &sources.search)?;
        Ok(config)
    }

    /// The location of this name, chosen by the caller.
    ///
    /// # Errors
    ///
    /// `UnknownLocation` or `NotOffered`.
    pub fn select(&self, name: &str, search: &SearchPath) -> Result<Selection> {
        let selection = Selection {
            name: name.to_owned(),
            place: Place::CommandLine,
        };
        self.check(&selection, Chooser::User, search)?;
        Ok(selection)
    }

    /// The location to use when the caller names none.
    #[must_use]
    pub fn location(&self) -> &Selection {
        &self.location
    }

    /// How many commands may run at once, over all sandboxes of a host; `None` for no limit.
    #[must_use]
    pub fn max_concurrent(&self) -> Option<NonZeroU32> {
        self.max_concurrent
    }

    /// What is asked of every place, limits included.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What is known about a provider; the default for one that is not configured.
    #[must_use]
    pub fn provider(&self, name: &str) -> ProviderConfig {
        self.providers
            .get(name)
            .cloned()
            .unwrap_or_else(|| ProviderConfig::unconfigured(name))
    }

    /// The names of all locations that are built in or configured, in order.
    #[must_use]
    pub fn locations(&self) -> Vec<String> {
        let mut names: Vec<String> = BUILT_IN
            .iter()
            .map(|name| (*name).to_owned())
            .chain(self.providers.keys().cloned())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// The files that were read, in order.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    fn read_user(&mut self, document: &Document) -> Result<()> {
        let table = document.parse()?;
        let root = document.root(&table);
        root.allow(&["sandbox"], &[])?;
        let Some(sandbox) = root.section("sandbox")? else {
            return Ok(());
        };
        sandbox.allow(
            &[
                "location",
                "max_concurrent",
                "policy",
                "limits",
                "providers",
            ],
            &["seed"],
        )?;
        if let Some(selection) = selection(&sandbox)? {
            self.location = selection;
        }
        if let Some(value) = sandbox.get("max_concurrent") {
            let count = policy::whole(value)
                .and_then(|count| u32::try_from(count).ok())
                .and_then(NonZeroU32::new)
                .ok_or_else(|| {
                    let expected = format!("a whole number from 1 to {}", u32::MAX);
                    sandbox.wrong("max_concurrent", value, &expected)
                })?;
            self.max_concurrent = Some(count);
        }
        if let Some(section) = sandbox.section("policy")? {
            self.policy = policy::policy(&section)?;
        }
        if let Some(section) = sandbox.section("limits")? {
            self.policy.limits = policy::limits(&section)?;
        }
        if let Some(providers) = sandbox.section("providers")? {
            let directory = document.path().parent().unwrap_or(Path::new("/"));
            for (key, value) in providers.entries() {
                let name = key.get_ref().as_ref();
                if !is_name(name) {
                    return Err(providers
                        .invalid(
                            key.span(),
                            format!("`{}` is not the name of a provider", name.escape_debug()),
                        )
                        .remedy(
                            "use lower-case letters, digits and `-`, beginning with a letter",
                        ));
                }
                let section = providers.section_of(name, value)?;
                self.providers.insert(
                    name.to_owned(),
                    ProviderConfig::read(name, &section, directory)?,
                );
            }
        }
        Ok(())
    }

    /// Refuses a location that does not exist.
    fn check(&self, selection: &Selection, chooser: Chooser, search: &SearchPath) -> Result<()> {
        let name = selection.name.as_str();
        if chooser == Chooser::User && is_name(name) && search.installed(name).is_some() {
            return Ok(());
        }
        let known = self.locations();
        if known.iter().any(|location| location == name) {
            return Ok(());
        }
        let place = selection.place.clone();
        if is_name(name.split([':', ' ']).next().unwrap_or_default())
            && (name.contains(':') || name.contains(" > "))
        {
            return Err(ConfigError::new(
                ConfigErrorKind::NotOffered,
                place,
                format!(
                    "the location `{}` has a target, which this version does not offer",
                    name.escape_debug()
                ),
            )
            .remedy("name a location without `:` and `>`"));
        }
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let error = ConfigError::new(
            ConfigErrorKind::UnknownLocation,
            place,
            format!("unknown location `{}`", name.escape_debug()),
        );
        Err(match near::nearest(name, known.iter().copied()) {
            Some(near) => error.remedy(format!("did you mean `{near}`?")),
            None => error.remedy(format!(
                "known here: {}; others are configured under [sandbox.providers.NAME] in your own configuration file, or installed as `{}NAME`",
                document::list(&known),
                crate::locate::PREFIX,
            )),
        })
    }
}

/// Whether a text can name a provider.
#[must_use]
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Reads a project file: the location it names, if it names one.
///
/// # Errors
///
/// `Untrusted` for anything else in it.
fn read_project(document: &Document) -> Result<Option<Selection>> {
    let table = document.parse()?;
    let root = document.root(&table);
    let sandbox = root.section("sandbox")?;
    only(&root, "sandbox")?;
    let Some(sandbox) = sandbox else {
        return Ok(None);
    };
    only(&sandbox, "location")?;
    selection(&sandbox)
}

/// Refuses every key of a project file's section but one.
fn only(section: &Section<'_>, allowed: &str) -> Result<()> {
    for (key, _) in section.entries() {
        let name = key.get_ref().as_ref();
        if name == allowed {
            continue;
        }
        let error = |kind, problem: String| section.document.error(kind, key.span(), problem);
        let (quoted, within) = (name.escape_debug(), section.within());
        // A slip of the hand is told as one. Anything else would mislead if it were called
        // unknown, because the same key is good in the user's own file.
        return Err(match near::nearest(name, [allowed]) {
            Some(near) => error(
                ConfigErrorKind::UnknownKey,
                format!("unknown key `{quoted}`{within}"),
            )
            .remedy(format!("did you mean `{near}`?")),
            None => error(
                ConfigErrorKind::Untrusted,
                format!(
                    "a project file may only name a location, and this sets `{quoted}`{within}"
                ),
            )
            .remedy("put it into your own configuration file if you want it"),
        });
    }
    Ok(())
}

fn selection(sandbox: &Section<'_>) -> Result<Option<Selection>> {
    Ok(sandbox.string("location")?.map(|(name, span)| Selection {
        name: name.to_owned(),
        place: sandbox.document.place(span),
    }))
}

#[cfg(test)]
mod tests;
