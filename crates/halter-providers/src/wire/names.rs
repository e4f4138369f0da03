//! Names of tools and ids of calls, spelled as services take them.
//!
//! Services take letters, digits, `_` and `-`. What another service or an
//! embedding program chose differently is spelled anew, always the same way.

use halter_protocol::{ProviderKind, ToolCallId, ToolName, ToolSpec};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Where [`fnv1a`] begins.
pub(super) const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// A hash that is the same in every process and version: of more bytes, given
/// that of those before.
pub(super) fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The names of tools as a service knows them, and back.
#[derive(Debug)]
pub(super) struct ToolNames {
    provider: ProviderKind,
    most_bytes: usize,
    sent: HashMap<ToolName, String>,
    own: HashMap<String, ToolName>,
}

impl ToolNames {
    /// No tools yet.
    pub fn new(provider: ProviderKind, most_bytes: usize) -> Self {
        Self {
            provider,
            most_bytes,
            sent: HashMap::new(),
            own: HashMap::new(),
        }
    }

    /// Learns the names of the tools on offer; keeps those of earlier ones,
    /// whose calls are still in the conversation.
    pub fn learn<'a>(&mut self, tools: impl IntoIterator<Item = &'a ToolSpec>) {
        for tool in tools {
            let alias = tool.provider_aliases.get(&self.provider);
            let wanted = alias.map_or(tool.name.as_str(), |alias| alias.as_str());
            let sent = spelled(wanted, self.most_bytes);
            if sent != tool.name.as_str() {
                self.own
                    .insert(sent.clone().into_owned(), tool.name.clone());
                self.sent.insert(tool.name.clone(), sent.into_owned());
            }
        }
    }

    /// The name to write for a tool.
    pub fn sent<'a>(&'a self, name: &'a ToolName) -> Cow<'a, str> {
        match self.sent.get(name) {
            Some(sent) => Cow::Borrowed(sent),
            None => spelled(name.as_str(), self.most_bytes),
        }
    }

    /// The tool behind a written name, where that differs from its own.
    pub fn own(&self, sent: &str) -> Option<&ToolName> {
        self.own.get(sent)
    }
}

/// The ids of calls as they were written. Each is written once: some services
/// number the calls of each answer from one.
#[derive(Debug)]
pub(super) struct CallIds {
    most_bytes: usize,
    used: HashSet<String>,
    respelled: HashMap<ToolCallId, String>,
}

impl CallIds {
    /// No calls yet.
    pub fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            used: HashSet::new(),
            respelled: HashMap::new(),
        }
    }

    /// Takes note of a call that goes out under its own id.
    pub fn keep(&mut self, id: &ToolCallId) {
        self.used.insert(id.0.clone());
        self.respelled.remove(id);
    }

    /// The id to write for a call from elsewhere.
    pub fn assign(&mut self, id: &ToolCallId) -> String {
        let mut wanted = spelled(id.as_str(), self.most_bytes).into_owned();
        let mut copy = 1;
        while !self.used.insert(wanted.clone()) {
            copy += 1;
            wanted = spelled(&format!("{id} {copy}"), self.most_bytes).into_owned();
        }
        if wanted == id.as_str() {
            self.respelled.remove(id);
        } else {
            self.respelled.insert(id.clone(), wanted.clone());
        }
        wanted
    }

    /// The id that the latest call of this id went out under.
    pub fn written<'a>(&'a self, id: &'a ToolCallId) -> &'a str {
        self.respelled.get(id).map_or(id.as_str(), String::as_str)
    }
}

/// The text itself if services take it. Else with `_` for each character they
/// do not take and a checksum of the original behind, so that different texts
/// stay different.
fn spelled(text: &str, most_bytes: usize) -> Cow<'_, str> {
    let taken = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    let begins_well = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if begins_well && text.len() <= most_bytes && text.chars().all(taken) {
        return Cow::Borrowed(text);
    }
    let checksum = format!("_{:016x}", fnv1a(FNV_START, text.as_bytes()));
    let lead = if begins_well { "" } else { "_" };
    let stem: String = lead
        .chars()
        .chain(text.chars())
        .map(|character| if taken(character) { character } else { '_' })
        .take(most_bytes.saturating_sub(checksum.len()))
        .collect();
    Cow::Owned(stem + &checksum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use indexmap::IndexMap;
    use serde_json::json;

    const MOST: usize = 64;

    #[test]
    fn what_services_take_stays_as_it_is() {
        let longest = "a".repeat(MOST);
        for name in ["read", "mcp__git__log", "_x-1", &longest] {
            assert_eq!(spelled(name, MOST), name);
        }
    }

    #[test]
    fn anything_else_is_spelled_anew_and_stays_different() {
        let too_long = "a".repeat(MOST + 1);
        let odd = ["", "a.b", "a b", "1st", "é", &too_long];
        let new: HashSet<String> = odd
            .iter()
            .map(|name| spelled(name, MOST).into_owned())
            .collect();
        assert_eq!(new.len(), odd.len());
        for name in new {
            assert!(name.len() <= MOST, "{name}");
            assert_eq!(spelled(&name, MOST), name);
        }
    }

    #[test]
    fn a_tool_is_found_by_the_name_it_was_sent_under() {
        let spec = ToolSpec {
            name: "fs.read".into(),
            description: String::new(),
            input_schema: json!({}),
            concurrency: Default::default(),
            capabilities: Default::default(),
            provider_aliases: IndexMap::from([(ProviderKind::OpenAi, "view".into())]),
        };
        for provider in [ProviderKind::OpenAi, ProviderKind::Custom] {
            let mut names = ToolNames::new(provider, MOST);
            names.learn(std::slice::from_ref(&spec));
            let sent = names.sent(&spec.name).into_owned();
            assert_ne!(sent, "fs.read");
            assert_eq!(names.own(&sent), Some(&spec.name));
            assert_eq!(names.own("other"), None);
        }
    }

    #[test]
    fn an_id_is_written_once() {
        let mut ids = CallIds::new(MOST);
        let id = ToolCallId::from("call_1");
        assert_eq!(ids.assign(&id), "call_1");
        assert_eq!(ids.written(&id), "call_1");
        let second = ids.assign(&id);
        assert_ne!(second, "call_1");
        assert_eq!(ids.written(&id), second);
        assert_ne!(ids.assign(&id), second);
        ids.keep(&id);
        assert_eq!(ids.written(&id), "call_1");
    }

    #[test]
    fn an_id_is_shortened_only_past_the_limit() {
        let mut ids = CallIds::new(MOST);
        let longest = ToolCallId("x".repeat(MOST));
        assert_eq!(ids.assign(&longest), longest.as_str());
        let too_long = ToolCallId("x".repeat(MOST + 1));
        assert_eq!(ids.assign(&too_long).len(), MOST);
    }
}
