//! What a hook is told.

use crate::error::HookError;
use crate::event::HookEventName;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One occurrence of an event, as a handler sees it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HookInput {
    /// The event.
    pub event_name: HookEventName,
    /// What matchers were compared with, such as the tool's name.
    pub matcher_value: Option<String>,
    /// The fields of the event; see [`payload`](crate::payload).
    pub payload: Value,
}

impl HookInput {
    /// An input, for testing a handler without a session.
    pub fn new(event_name: HookEventName, matcher_value: Option<String>, payload: Value) -> Self {
        Self {
            event_name,
            matcher_value,
            payload,
        }
    }

    /// A field of the payload.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.payload.get(name)
    }

    /// A field of the payload that is text.
    pub fn string_field(&self, name: &str) -> Option<&str> {
        self.field(name)?.as_str()
    }

    /// The tool of a tool event.
    pub fn tool_name(&self) -> Option<&str> {
        self.string_field("tool_name")
    }

    /// The id of the call of a tool event.
    pub fn tool_use_id(&self) -> Option<&str> {
        self.string_field("tool_use_id")
    }

    /// The payload as a type of your own.
    ///
    /// ```
    /// # use halter_hooks::{HookEventName, HookInput};
    /// # use serde::Deserialize;
    /// #[derive(Deserialize)]
    /// struct Prompt { prompt: String }
    ///
    /// let payload = serde_json::json!({"prompt": "hello", "cwd": "/"});
    /// let input = HookInput::new(HookEventName::UserPromptSubmit, None, payload);
    /// assert_eq!(input.decode::<Prompt>()?.prompt, "hello");
    /// # Ok::<(), halter_hooks::HookError>(())
    /// ```
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, HookError> {
        T::deserialize(&self.payload).map_err(|source| HookError::Payload {
            event: self.event_name,
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn input(payload: Value) -> HookInput {
        HookInput::new(HookEventName::PreToolUse, Some("shell".into()), payload)
    }

    #[test]
    fn fields_are_read_by_name() {
        let input = input(json!({"tool_name": "shell", "tool_use_id": "call_1", "tool_input": {}}));
        assert_eq!(input.tool_name(), Some("shell"));
        assert_eq!(input.tool_use_id(), Some("call_1"));
        assert_eq!(input.field("tool_input"), Some(&json!({})));
        assert_eq!(input.string_field("tool_input"), None);
        assert_eq!(input.field("absent"), None);
    }

    #[test]
    fn a_payload_that_is_not_an_object_has_no_fields() {
        assert_eq!(input(json!("words")).tool_name(), None);
    }

    #[test]
    fn a_mismatch_names_the_event() {
        let error = input(json!({"tool_name": 7}))
            .decode::<std::collections::BTreeMap<String, String>>()
            .unwrap_err();
        assert_eq!(error.code(), "hook_payload_mismatch");
        assert!(error.to_string().contains("PreToolUse"));
    }
}
