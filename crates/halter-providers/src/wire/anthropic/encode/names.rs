//! Ids and names that the service takes.
//!
//! Both are letters, digits, `_` and `-`. What another service or an embedding
//! program chose differently is spelled anew, always the same way.

use crate::wire::anthropic::limits::TOOL_NAME_CHARS;
use halter_protocol::{ProviderKind, ToolCallId, ToolName, ToolSpec};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The ids of calls as they were written. The service wants each to be unique
/// in a conversation; some services number the calls of each answer from one.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    used: HashSet<String>,
}

impl CallIds {
    /// The id to write for a new call.
    pub fn assign(&mut self, id: &ToolCallId) -> String {
        let spelled = spelled(id.as_str(), usize::MAX);
        let mut candidate = spelled.clone().into_owned();
        let mut copy = 1;
        while !self.used.insert(candidate.clone()) {
            copy += 1;
            candidate = format!("{spelled}_{copy}");
        }
        candidate
    }
}

/// The names of tools as the service knows them, and back.
#[derive(Debug)]
pub(super) struct ToolNames {
    provider: ProviderKind,
    sent: HashMap<ToolName, String>,
    original: HashMap<String, ToolName>,
}

impl ToolNames {
    pub fn new(provider: ProviderKind) -> Self {
        Self {
            provider,
            sent: HashMap::new(),
            original: HashMap::new(),
        }
    }

    /// Learns the names of the tools on offer; keeps those of earlier ones,
    /// whose calls are still in the conversation.
    pub fn learn(&mut self, tools: &[ToolSpec]) {
        for tool in tools {
            let alias = tool.provider_aliases.get(&self.provider);
            let wanted = alias.map_or(tool.name.as_str(), |alias| alias.as_str());
            let sent = spelled(wanted, TOOL_NAME_CHARS);
            if sent != tool.name.as_str() {
                self.original
                    .insert(sent.clone().into_owned(), tool.name.clone());
                self.sent.insert(tool.name.clone(), sent.into_owned());
            }
        }
    }

    /// The name to write for a tool.
    pub fn sent<'a>(&'a self, name: &'a ToolName) -> Cow<'a, str> {
        match self.sent.get(name) {
            Some(sent) => Cow::Borrowed(sent),
            None => spelled(name.as_str(), TOOL_NAME_CHARS),
        }
    }

    /// The tool behind a written name, where that differs from its own.
    pub fn original(&self, sent: &str) -> Option<&ToolName> {
        self.original.get(sent)
    }
}

/// The text itself if the service takes it. Else with `_` for each character
/// it does not take and a checksum of the original behind, so that different
/// texts stay different.
fn spelled(text: &str, most_chars: usize) -> Cow<'_, str> {
    let taken = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    if !text.is_empty() && text.len() <= most_chars && text.chars().all(taken) {
        return Cow::Borrowed(text);
    }
    let checksum = format!("_{:08x}", fnv1a(text.as_bytes()));
    let stem: String = text
        .chars()
        .map(|character| if taken(character) { character } else { '_' })
        .take(most_chars.saturating_sub(checksum.len()))
        .collect();
    Cow::Owned(stem + &checksum)
}

fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_service_takes_stays() {
        let longest = "a".repeat(TOOL_NAME_CHARS);
        for name in ["read", "mcp__files__read-all", longest.as_str()] {
            assert_eq!(spelled(name, TOOL_NAME_CHARS), name);
        }
    }

    #[test]
    fn what_it_does_not_take_is_spelled_anew_and_stays_distinct() {
        let too_long = "a".repeat(TOOL_NAME_CHARS + 1);
        let names = ["", "a.b", "a:b", "ä", "functions.Bash:0", too_long.as_str()];
        let spelled: HashSet<_> = names
            .iter()
            .map(|name| spelled(name, TOOL_NAME_CHARS))
            .collect();
        assert_eq!(spelled.len(), names.len());
        for name in spelled {
            assert!((1..=TOOL_NAME_CHARS).contains(&name.len()), "{name}");
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
                "{name}"
            );
        }
    }

    #[test]
    fn repeated_ids_are_told_apart() {
        let mut ids = CallIds::default();
        assert_eq!(ids.assign(&"call_1".into()), "call_1");
        assert_eq!(ids.assign(&"call_1".into()), "call_1_2");
        assert_eq!(ids.assign(&"call_1_2".into()), "call_1_2_2");
        assert_eq!(ids.assign(&"call_1".into()), "call_1_3");
    }
}
