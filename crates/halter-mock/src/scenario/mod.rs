//! Scenarios as data: what the model says, step by step, and which
//! faults the server has.
//!
//! A [`Script`] is a TOML or JSON file of named [`Scenario`]s, each a list of
//! [`Step`]s. The types below are the whole format; [`script_schema`] prints
//! them as JSON Schema.
//!
//! # Which step answers
//!
//! Nothing is remembered between requests: the request itself says where the
//! conversation stands.
//!
//! 1. The *prompt* is the last user text that starts a turn: the first of all,
//!    or one that follows an answer without tool calls. Texts after it, beside
//!    tool results, steer the turn.
//! 2. A text of a prompt the harness writes itself chooses by phrase: if the
//!    last user text begins with one of a scenario's `phrases`, or has one and
//!    no word `mock:NAME`, that scenario answers, and this text is the *anchor*.
//! 3. Else the word `mock:NAME` in the prompt or in a later text chooses the
//!    scenario; the last such word wins, and its text is the anchor.
//! 4. Else the last scenario named before goes on if it `continues`.
//! 5. Else the default of the service answers. The prompt is the anchor.
//!
//! The step that is due is the number of assistant turns after the anchor.
//!
//! # Templates
//!
//! Texts, arguments and tool names may quote from the request:
//!
//! | template | becomes |
//! |---|---|
//! | `{{prompt}}` | the anchor's text without the scenario's word |
//! | `{{arg NAME}}` | the value of the word `NAME=value` in the anchor's text |
//! | `{{arg NAME or DEFAULT}}` | the same, or the rest when there is none |
//! | `{{result}}` | the last tool result since the anchor |
//! | `{{result N}}` | the N-th one, counted from 1 |
//! | `{{result N /a/b}}` | that JSON value in it; N may be `last` |
//! | `{{images}}` | how many images the request holds |
//! | `{{model}}`, `{{step}}` | the model asked for, the step from 0 |
//! | `{{tools}}` | the names of the tools offered, comma separated |
//!
//! A quotation that finds nothing becomes `(none)`; an unknown template stays
//! as it is.

mod fault;
pub(crate) mod library;
pub(crate) mod select;
pub(crate) mod template;

pub use fault::{ChatQuirk, Delivery, FailFirst, Fault, Hold, HttpFault, LineEnding, UnknownKind};
pub use library::ScenarioLibrary;

use crate::wire::MockWire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A file of scenarios.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The scenarios by name: lower-case letters, digits, `_` and `-`.
    pub scenarios: BTreeMap<String, Scenario>,
}

/// The model's side of one conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is for, in a sentence.
    pub description: String,
    /// The wires it is meant for; empty means all. On another wire the request
    /// is refused, so that a test cannot pass by accident.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wires: Vec<MockWire>,
    /// The scenario is also chosen when the last user text contains one of
    /// these and names no scenario: for prompts the harness writes itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phrases: Vec<String>,
    /// Goes on over later prompts that name no scenario, instead of leaving
    /// them to the default.
    #[serde(default, skip_serializing_if = "is_false")]
    pub continues: bool,
    /// Starts again at the first step after the last one. Otherwise a request
    /// past the end is told in plain text that the scenario is over.
    #[serde(default, skip_serializing_if = "is_false")]
    pub repeat: bool,
    /// Its calls may name tools that the request does not offer. Otherwise such
    /// a request is refused: a model calls what it was sent. Calls of a tool that
    /// a result describes are carried by `call_tool`, where that is offered.
    #[serde(default, skip_serializing_if = "is_false")]
    pub invents_tools: bool,
    /// What the model does, one step per request.
    pub steps: Vec<Step>,
}

/// What answers one request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// The content of the answer, in order.
    pub parts: Vec<ScriptPart>,
    /// Why the model stopped: `end`, `tool_use`, `max_tokens`,
    /// `stop_sequence`, `refusal`, `content_filter`, `context_window`,
    /// `pause`; any other word is sent as it is, as a reason that clients do not know.
    /// Unset: `tool_use` when the step makes calls, else `end`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Token counts; unset: estimated from the request and the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Further response headers, such as rate limits.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How the bytes are sent.
    pub delivery: Delivery,
    /// Things that clients do not know, mixed into the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownKind>,
    /// How a Chat server departs from the norm; other wires ignore it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quirks: Vec<ChatQuirk>,
    /// A request of more bytes than this is refused as too long for the
    /// context, in the words of the wire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_bytes: Option<usize>,
    /// What goes wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Fails the first attempts of each request, then lets it through. The only
    /// part of a scenario that is not a function of the request alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_first: Option<FailFirst>,
    /// Waits in the middle of the stream until the test opens a gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ScriptPart {
    /// Words for the user. Templates are filled in.
    Text {
        /// The text; a list is sent as exactly these deltas.
        text: Pieces,
        /// Characters per delta when the text is one string.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chunk_chars: Option<usize>,
    },
    /// Reasoning, signed or encrypted as each wire does it.
    Thinking {
        /// What is shown of it; a list is sent as exactly these deltas.
        text: Pieces,
        /// Characters per delta when the text is one string.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chunk_chars: Option<usize>,
    },
    /// Reasoning of which nothing is shown: `redacted_thinking`, encrypted
    /// content alone, a signature on an empty part.
    RedactedThinking {},
    /// A tool call. Several in one step are parallel calls.
    Call {
        /// The tool. Templates are filled in.
        tool: String,
        /// Its arguments. Templates in strings are filled in.
        #[serde(default)]
        input: Map<String, Value>,
        /// Arguments as this text instead, valid JSON or not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<String>,
        /// Only this many characters of the arguments are sent: a call cut
        /// off by the output limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cut_chars: Option<usize>,
        /// Characters per argument delta.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chunk_chars: Option<usize>,
    },
    /// Text of a given size in a single delta: a very long line.
    Filler {
        /// Its size.
        bytes: usize,
    },
}

/// One string, or the deltas it is sent in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Pieces {
    /// Split by `chunk_chars`.
    Whole(String),
    /// Sent as given.
    Deltas(Vec<String>),
}

/// Token counts in disjoint buckets: no token is in two of them. Each wire adds
/// them up its own way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    /// Input that was neither read from nor written to a cache.
    pub input: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache for five minutes (or the wire's only way).
    pub cache_write: u64,
    /// Input written to a cache for an hour.
    pub cache_write_long: u64,
    /// Output that was not reasoning.
    pub output: u64,
    /// Reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// All input, cached or not.
    #[must_use]
    pub fn total_input(&self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_writes())
    }

    /// All cache writes, whatever their lifetime.
    #[must_use]
    pub fn cache_writes(&self) -> u64 {
        self.cache_write.saturating_add(self.cache_write_long)
    }

    /// All output, reasoning included.
    #[must_use]
    pub fn total_output(&self) -> u64 {
        self.output.saturating_add(self.reasoning)
    }
}

impl Scenario {
    /// A scenario of these steps.
    pub fn new(description: impl Into<String>, steps: Vec<Step>) -> Self {
        Self {
            description: description.into(),
            steps,
            ..Self::default()
        }
    }
}

impl Step {
    /// A step that says this.
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().and_text(text)
    }

    /// A step that makes this call.
    #[must_use]
    pub fn call(tool: impl Into<String>, input: Map<String, Value>) -> Self {
        Self::default().and_call(tool, input)
    }

    /// The step with more text.
    #[must_use]
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        self.parts.push(ScriptPart::Text {
            text: Pieces::Whole(text.into()),
            chunk_chars: None,
        });
        self
    }

    /// The step with one more call.
    #[must_use]
    pub fn and_call(mut self, tool: impl Into<String>, input: Map<String, Value>) -> Self {
        self.parts.push(ScriptPart::Call {
            tool: tool.into(),
            input,
            raw: None,
            cut_chars: None,
            chunk_chars: None,
        });
        self
    }

    /// The step with a fault.
    #[must_use]
    pub fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }
}

/// The script format as JSON Schema.
#[must_use]
pub fn script_schema() -> Value {
    schemars::schema_for!(Script).to_value()
}

fn is_false(value: &bool) -> bool {
    !value
}
