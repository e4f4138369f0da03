//! The four wires, by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A model API the service speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MockWire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// Chat Completions, as OpenAI and compatible servers speak it.
    Chat,
    /// Gemini `generateContent`.
    Gemini,
}

impl MockWire {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::Responses, Self::Chat, Self::Gemini];

    /// Its name in scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses => "responses",
            Self::Chat => "chat",
            Self::Gemini => "gemini",
        }
    }
}

impl fmt::Display for MockWire {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Which server a Chat endpoint behaves like; chosen by the path prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// The vendor itself: a key is needed, errors carry a string code.
    Vendor,
    /// OpenRouter: errors carry a number, and come inside a chunk after 200.
    OpenRouter,
    /// A server on the user's machine: no key needed.
    Local,
}
