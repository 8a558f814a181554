//! Capabilities, the end of a sandbox, progress.

use std::borrow::Cow;

use sandbox_core::{Capabilities, Capability, Closed, Disposition, ProviderInfo};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::message::handshake::{CapabilityTree, Peer, ShutdownMode};
use crate::message::stream::{CloseReason, Progress, SandboxClosed};

/// Where each capability is in the tree: its group, and its name there.
pub const PATH_OF_CAPABILITY: [(Capability, &str, &str); 24] = [
    (Capability::ReadMany, "files", "read_many"),
    (Capability::Edit, "files", "edit"),
    (Capability::MakeDirectory, "files", "make_directory"),
    (Capability::Rename, "files", "rename"),
    (Capability::SetMode, "files", "set_mode"),
    (Capability::Link, "files", "link"),
    (Capability::Precondition, "files", "precondition"),
    (Capability::Durable, "files", "durable"),
    (Capability::Glob, "search", "glob"),
    (Capability::Grep, "search", "grep"),
    (Capability::Fingerprint, "search", "fingerprint"),
    (Capability::Track, "exec", "track"),
    (Capability::Stdin, "exec", "stdin"),
    (Capability::Pty, "exec", "pty"),
    (Capability::Spawn, "processes", "spawn"),
    (Capability::PushTree, "trees", "push"),
    (Capability::PullTree, "trees", "pull"),
    (Capability::Probe, "lifecycle", "probe"),
    (Capability::Attach, "lifecycle", "attach"),
    (Capability::List, "lifecycle", "list"),
    (Capability::Prepare, "lifecycle", "prepare"),
    (Capability::Update, "lifecycle", "update"),
    (Capability::Linger, "lifecycle", "linger"),
    (Capability::Lease, "lifecycle", "lease"),
];

impl CapabilityTree {
    /// The tree of these capabilities.
    #[must_use]
    pub fn encode(capabilities: &Capabilities) -> Self {
        let mut tree = Self::default();
        for (capability, group, name) in PATH_OF_CAPABILITY {
            if capabilities.has(capability) {
                let group = tree
                    .0
                    .entry(group.to_owned())
                    .or_insert_with(|| Value::Object(Map::new()));
                group[name] = json!({});
            }
        }
        tree
    }

    /// The capabilities of this version that the tree declares. Others are ignored; `null` and
    /// `false` declare nothing.
    #[must_use]
    pub fn decode(&self) -> Capabilities {
        let declares = |group: &str, name: &str| {
            let entry = self.0.get(group).and_then(|group| group.get(name));
            entry.is_some_and(|entry| !matches!(entry, Value::Null | Value::Bool(false)))
        };
        PATH_OF_CAPABILITY
            .into_iter()
            .filter(|(_, group, name)| declares(group, name))
            .map(|(capability, _, _)| capability)
            .collect()
    }
}

impl JsonSchema for CapabilityTree {
    fn schema_name() -> Cow<'static, str> {
        "CapabilityTree".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut groups = Map::new();
        for (_, group, name) in PATH_OF_CAPABILITY {
            let group = groups
                .entry(group)
                .or_insert_with(|| json!({ "type": ["object", "null"], "properties": {} }));
            group["properties"][name] = json!({
                "description": "Declared by an object; its members are for later versions.",
                "type": ["object", "boolean", "null"],
            });
        }
        json_schema!({
            "description": "Capabilities as nested objects: group, then name. What is absent, `null` or `false` is not supported.",
            "type": "object",
            "properties": groups,
        })
    }
}

impl From<&ProviderInfo> for Peer {
    fn from(info: &ProviderInfo) -> Self {
        Self {
            name: info.name.clone(),
            version: info.version.clone(),
            pid: None,
        }
    }
}

impl ShutdownMode {
    /// What is asked to become of each sandbox. A mode that is not known keeps them.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Release => Disposition::Destroy,
            Self::Keep | Self::Unknown(_) => Disposition::Keep,
        }
    }
}

impl SandboxClosed {
    /// The wire form.
    #[must_use]
    pub fn encode(sandbox: String, generation: u64, closed: &Closed) -> Self {
        let (reason, detail) = match closed {
            Closed::Released => (CloseReason::Released, String::new()),
            Closed::Lost { reason } => (CloseReason::Lost, reason.clone()),
        };
        Self {
            sandbox,
            generation,
            reason,
            detail,
        }
    }

    /// How the sandbox ended. A reason that is not known is a loss: nobody asked for it.
    #[must_use]
    pub fn decode(self) -> Closed {
        match self.reason {
            CloseReason::Released => Closed::Released,
            CloseReason::Lost => Closed::Lost {
                reason: self.detail,
            },
            CloseReason::Unknown(name) => Closed::Lost {
                reason: format!("{name}: {}", self.detail),
            },
        }
    }
}

impl From<Progress> for sandbox_core::Progress {
    fn from(progress: Progress) -> Self {
        Self {
            phase: progress.phase,
            message: progress.message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capability_has_a_place_of_its_own() {
        for capability in Capability::ALL {
            let one: Capabilities = [capability].into_iter().collect();
            let tree = CapabilityTree::encode(&one);
            assert_eq!(tree.decode(), one, "{tree:?}");
        }
    }

    #[test]
    fn what_is_not_an_object_or_not_known_declares_nothing() {
        let tree: CapabilityTree = serde_json::from_str(
            r#"{"files":{"edit":{"later":1},"rename":null,"link":false},"search":null,"x.example.org":{"a":{}},"trees":3}"#,
        )
        .expect("a tree");
        assert_eq!(tree.decode().iter().collect::<Vec<_>>(), [Capability::Edit]);
    }
}
