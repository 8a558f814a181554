//! `[sandbox.policy]` and `[sandbox.limits]`: what is asked of the place, as the port's types.
//!
//! Here only the text is read. Whether a place can do what is asked is its provider's to say, and
//! it refuses what it cannot.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use sandbox_core::{
    EnvChange, EnvInherit, EnvPolicy, Limit, LimitKind, Limits, Mount, MountAccess, Network,
    Policy, Restriction, SandboxPath, Strength,
};
use toml::Spanned;
use toml::de::DeValue;

use super::document::{Section, list};
use super::error::{ConfigError, ConfigErrorKind};
use super::near::nearest;
use super::quantity;

type Result<T, E = ConfigError> = std::result::Result<T, E>;

/// Reads `[sandbox.policy]`; limits stay empty.
pub(super) fn policy(section: &Section<'_>) -> Result<Policy> {
    section.allow(
        &["network", "require", "prefer", "env", "mounts", "hide"],
        &[],
    )?;
    Ok(Policy {
        network: network(section)?,
        mounts: match section.section("mounts")? {
            Some(table) => mounts(&table)?,
            None => Vec::new(),
        },
        hidden: hidden(section)?,
        env: match section.section("env")? {
            Some(env) => environment(&env)?,
            None => EnvPolicy::default(),
        },
        require: restrictions(section, "require")?,
        prefer: restrictions(section, "prefer")?,
        limits: Limits::new(),
    })
}

fn network(section: &Section<'_>) -> Result<Option<Network>> {
    let Some(value) = section.get("network") else {
        return Ok(None);
    };
    match value.get_ref() {
        DeValue::String(word) => match word.as_ref() {
            "none" => Ok(Some(Network::None)),
            "open" => Ok(Some(Network::Open)),
            word => Err(one_of(
                section,
                "network",
                word,
                value.span(),
                &["none", "open"],
            )),
        },
        DeValue::Array(_) => {
            let origins = section.strings("network")?.unwrap_or_default();
            for (origin, span) in &origins {
                if !is_origin(origin) {
                    return Err(section
                        .invalid(
                            span.clone(),
                            format!("`{}` is not an origin", origin.escape_debug()),
                        )
                        .remedy("write scheme, host and port, such as `https://example.org:443`"));
                }
            }
            Ok(Some(Network::Allow(
                origins
                    .into_iter()
                    .map(|(origin, _)| origin.to_owned())
                    .collect(),
            )))
        }
        _ => Err(section.wrong("network", value, "`none`, `open` or a list of origins")),
    }
}

fn is_origin(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let Some((host, port)) = rest.rsplit_once(':') else {
        return false;
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '[' | ']' | ':');
    matches!(scheme, "http" | "https")
        && !host.is_empty()
        && host.chars().all(plain)
        && port.parse::<u16>().is_ok_and(|port| port != 0)
}

/// Where in the place, and what of the host: a directory, or a table with `host` and `access`.
fn mounts(table: &Section<'_>) -> Result<Vec<Mount>> {
    table
        .entries()
        .into_iter()
        .map(|(key, value)| mount(table, key.get_ref(), key.span(), value))
        .collect()
}

fn mount<'d>(
    table: &Section<'d>,
    at: &str,
    span: Range<usize>,
    value: &'d Spanned<DeValue<'d>>,
) -> Result<Mount> {
    let sandbox = absolute(table, at, span, "/opt/tools")?;
    let (host, span, access) = match value.get_ref() {
        DeValue::String(host) => (host.as_ref(), value.span(), MountAccess::ReadOnly),
        _ => {
            let section = table.section_of(at, value)?;
            section.allow(&["host", "access"], &[])?;
            let access = match section.string("access")? {
                None | Some(("read-only", _)) => MountAccess::ReadOnly,
                Some(("read-write", _)) => MountAccess::ReadWrite,
                Some((word, span)) => {
                    return Err(one_of(
                        &section,
                        "access",
                        word,
                        span,
                        &["read-only", "read-write"],
                    ));
                }
            };
            let Some((host, span)) = section.string("host")? else {
                return Err(section.invalid(
                    section.span.clone(),
                    "a mount names what it is of the `host`",
                ));
            };
            (host, span, access)
        }
    };
    let home = || super::sources::home().map(|home| home.join(host.trim_start_matches("~/")));
    let host = match host.starts_with("~/") {
        true => home(),
        false => Some(PathBuf::from(host)),
    };
    match host.filter(|host| host.is_absolute()) {
        Some(host) => Ok(Mount {
            host,
            sandbox,
            access,
        }),
        None => Err(table
            .invalid(span, "what a mount shows is absolute, or begins with `~/`")
            .remedy("write the whole path")),
    }
}

/// Where in the place something is not to be seen.
fn hidden(section: &Section<'_>) -> Result<BTreeSet<SandboxPath>> {
    section
        .strings("hide")?
        .unwrap_or_default()
        .into_iter()
        .map(|(at, span)| absolute(section, at, span, "/workspace/.env"))
        .collect()
}

/// A path in the place.
///
/// - `such_as`: one that would do
fn absolute(
    section: &Section<'_>,
    at: &str,
    span: Range<usize>,
    such_as: &str,
) -> Result<SandboxPath> {
    let path = SandboxPath::parse(at).ok().filter(SandboxPath::is_absolute);
    path.ok_or_else(|| {
        section
            .invalid(span, format!("`{}` is no absolute path", at.escape_debug()))
            .remedy(format!(
                "name where in the place it is seen, such as `\"{such_as}\"`"
            ))
    })
}

fn restrictions(section: &Section<'_>, key: &'static str) -> Result<BTreeSet<Restriction>> {
    section
        .strings(key)?
        .unwrap_or_default()
        .into_iter()
        .map(|(name, span)| restriction(section, key, name, span))
        .collect()
}

fn restriction(
    section: &Section<'_>,
    key: &'static str,
    name: &str,
    span: Range<usize>,
) -> Result<Restriction> {
    Restriction::ALL
        .into_iter()
        .find(|restriction| restriction.name() == name)
        .ok_or_else(|| {
            one_of(
                section,
                key,
                name,
                span,
                &Restriction::ALL.map(Restriction::name),
            )
        })
}

fn environment(section: &Section<'_>) -> Result<EnvPolicy> {
    section.allow(&["inherit", "set", "remove"], &[])?;
    let inherit = match section.get("inherit") {
        None => None,
        Some(value) => Some(match value.get_ref() {
            DeValue::String(word) => match word.as_ref() {
                "all" => EnvInherit::All,
                "nothing" => EnvInherit::Nothing,
                word => {
                    return Err(one_of(
                        section,
                        "inherit",
                        word,
                        value.span(),
                        &["all", "nothing"],
                    ));
                }
            },
            DeValue::Array(_) => EnvInherit::Names(
                section
                    .strings("inherit")?
                    .unwrap_or_default()
                    .into_iter()
                    .map(|(name, span)| variable(section, name, span))
                    .collect::<Result<_>>()?,
            ),
            _ => {
                return Err(section.wrong("inherit", value, "`all`, `nothing` or a list of names"));
            }
        }),
    };
    let mut changes = Vec::new();
    for (name, span) in section.strings("remove")?.unwrap_or_default() {
        changes.push(EnvChange::remove(variable(section, name, span)?));
    }
    if let Some(set) = section.section("set")? {
        for (key, value) in set.entries() {
            let name = variable(&set, key.get_ref(), key.span())?;
            let DeValue::String(text) = value.get_ref() else {
                return Err(set.wrong(&name, value, "a string"));
            };
            let change = EnvChange::set(&name, text.as_bytes());
            if !change.is_valid() {
                return Err(set.invalid(value.span(), "a variable's value has no NUL"));
            }
            changes.push(change);
        }
    }
    Ok(EnvPolicy { inherit, changes })
}

/// Checks the name of an environment variable.
pub(super) fn variable(section: &Section<'_>, name: &str, span: Range<usize>) -> Result<String> {
    if EnvChange::remove(name).is_valid() {
        Ok(name.to_owned())
    } else {
        Err(section.invalid(
            span,
            format!("`{}` is not the name of a variable", name.escape_debug()),
        ))
    }
}

/// Reads `[sandbox.limits]`.
pub(super) fn limits(section: &Section<'_>) -> Result<Limits> {
    section.allow(&LimitKind::ALL.map(LimitKind::name), &[])?;
    LimitKind::ALL
        .into_iter()
        .filter_map(|kind| Some((kind, section.get(kind.name())?)))
        .map(|(kind, value)| Ok((kind, limit(section, kind, value)?)))
        .collect()
}

fn limit(section: &Section<'_>, kind: LimitKind, value: &Spanned<DeValue<'_>>) -> Result<Limit> {
    let DeValue::Table(_) = value.get_ref() else {
        return Ok(Limit {
            value: amount(section, kind, value)?,
            strength: Strength::Required,
        });
    };
    let table = section
        .section(kind.name())?
        .ok_or_else(|| section.wrong(kind.name(), value, "a table"))?;
    table.allow(&["value", "strength"], &[])?;
    let amount_value = table
        .get("value")
        .ok_or_else(|| table.invalid(table.span.clone(), "this limit has no `value`"))?;
    let strength = match table.string("strength")? {
        None | Some(("required", _)) => Strength::Required,
        Some(("best-effort", _)) => Strength::BestEffort,
        Some((word, span)) => {
            return Err(one_of(
                &table,
                "strength",
                word,
                span,
                &["required", "best-effort"],
            ));
        }
    };
    Ok(Limit {
        value: amount(&table, kind, amount_value)?,
        strength,
    })
}

/// A limit's value in the unit of its kind.
fn amount(section: &Section<'_>, kind: LimitKind, value: &Spanned<DeValue<'_>>) -> Result<u64> {
    let invalid = |problem: String| section.invalid(value.span(), problem);
    let amount = match kind {
        LimitKind::Memory | LimitKind::FileSize | LimitKind::Disk => match value.get_ref() {
            DeValue::String(text) => quantity::size(text).map_err(invalid)?,
            _ => whole(value)
                .ok_or_else(|| section.wrong(kind.name(), value, "a size such as `2GiB`"))?,
        },
        LimitKind::WallTime => match value.get_ref() {
            DeValue::String(text) => {
                let time = quantity::duration(text).map_err(invalid)?;
                u64::try_from(time.as_millis()).map_err(|_| invalid("this is too long".into()))?
            }
            _ => return Err(section.wrong(kind.name(), value, "a duration such as `10m`")),
        },
        LimitKind::Cpu => {
            let processors = match value.get_ref() {
                DeValue::Float(float) => float.as_str().replace('_', "").parse::<f64>().ok(),
                _ => whole(value)
                    .and_then(|count| u32::try_from(count).ok())
                    .map(f64::from),
            };
            match processors {
                Some(count) if (0.001..=1_000_000.0).contains(&count) => {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "checked to lie between one thousandth and a million"
                    )]
                    let thousandths = (count * 1000.0).round() as u64;
                    thousandths
                }
                _ => {
                    return Err(section.wrong(
                        kind.name(),
                        value,
                        "a number of processors such as `1.5`",
                    ));
                }
            }
        }
        LimitKind::Processes | LimitKind::OpenFiles | LimitKind::Concurrency => whole(value)
            .ok_or_else(|| section.wrong(kind.name(), value, "a whole number above 0"))?,
    };
    if amount == 0 {
        return Err(invalid(format!(
            "a limit of nothing on `{}` leaves nothing to run",
            kind.name()
        )));
    }
    Ok(amount)
}

/// A whole number that is not negative.
pub(super) fn whole(value: &Spanned<DeValue<'_>>) -> Option<u64> {
    let integer = value.get_ref().as_integer()?;
    let digits = integer.as_str().replace('_', "");
    u64::from_str_radix(&digits, integer.radix()).ok()
}

fn one_of(
    section: &Section<'_>,
    key: &str,
    word: &str,
    span: Range<usize>,
    words: &[&str],
) -> ConfigError {
    let error = section.document.error(
        ConfigErrorKind::Invalid,
        span,
        format!(
            "`{key}`{} does not know `{}`",
            section.within(),
            word.escape_debug()
        ),
    );
    match nearest(word, words.iter().copied()) {
        Some(near) => error.remedy(format!("did you mean `{near}`?")),
        None => error.remedy(format!("it takes {}", list(words))),
    }
}
