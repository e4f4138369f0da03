//! Faults of a step: errors, unusual delivery, unknown things, dialects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What goes wrong. `after` counts content deltas (text, thinking, argument
/// fragments): 0 is after the opening events and before any content; unset is
/// after all content and before the stream says it is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Fault {
    /// An HTTP error instead of an answer.
    Http(HttpFault),
    /// An error event after HTTP 200, which ends the stream. A request that
    /// does not stream gets it as an HTTP error.
    ErrorEvent {
        /// Where.
        #[serde(default)]
        after: Option<usize>,
        /// The error; its status chooses the wire's type when `error` is unset.
        error: HttpFault,
    },
    /// Silence without an end, until the client leaves.
    Stall {
        /// Where.
        #[serde(default)]
        after: Option<usize>,
    },
    /// Not even headers arrive.
    Hang {},
    /// The body ends as if it were whole.
    Truncate {
        /// Where.
        #[serde(default)]
        after: Option<usize>,
    },
    /// The connection is reset.
    Reset {
        /// Where.
        #[serde(default)]
        after: Option<usize>,
    },
    /// Bytes that belong to no wire, in the stream.
    Garbage {
        /// Where.
        #[serde(default)]
        after: Option<usize>,
        /// The bytes, sent as they are.
        data: String,
    },
}

/// An error answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpFault {
    /// The status, 400 to 599.
    pub status: u16,
    /// The wire's error type (`overloaded_error`, `RESOURCE_EXHAUSTED`); unset:
    /// what the wire uses for the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// A finer code where the wire has one (`insufficient_quota`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The words; unset: a plain sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Response headers (`retry-after`). A `retry-after` in seconds is also
    /// given as Gemini's `RetryInfo`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The whole body as this text instead: a proxy's HTML page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// Fails the first attempts of a request. Attempts are recognised by the bytes of
/// its body: a retry repeats them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailFirst {
    /// How many attempts fail.
    pub times: u32,
    /// How.
    pub fault: Fault,
}

/// A pause in the stream that a test ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// The gate's name; `MockService::open_gate` opens it.
    pub gate: String,
    /// After how many content deltas; see [`Fault`].
    #[serde(default)]
    pub after: Option<usize>,
}

/// How the bytes of an answer travel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Delivery {
    /// Milliseconds before the headers.
    pub first_byte_ms: u64,
    /// Milliseconds between events.
    pub gap_ms: u64,
    /// Cuts the body into writes of this many bytes, through characters and
    /// lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<usize>,
    /// How lines end.
    pub line_ending: LineEnding,
    /// Keep-alives between events: `ping` on the Anthropic wire, comment lines
    /// on the others.
    pub pings: bool,
    /// A comment line before each event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Spreads the JSON of each event over several `data:` lines.
    pub multiline_data: bool,
    /// Leaves out the space after `data:`.
    pub no_space: bool,
    /// Starts the body with a byte order mark.
    pub bom: bool,
    /// Leaves out the last event of the wire (`message_stop`, `[DONE]`);
    /// what comes before it already says why the model stopped.
    pub omit_terminator: bool,
}

/// The end of a line in the event stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LineEnding {
    /// `\n`.
    #[default]
    Lf,
    /// `\r\n`.
    Crlf,
    /// `\r`.
    Cr,
}

/// Something no client knows. A good one keeps or ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnknownKind {
    /// An event of a new type.
    Event,
    /// A content block, item or part of a new type.
    Block,
    /// New fields in known objects.
    Field,
    /// New buckets in the usage.
    Usage,
}

/// How Chat servers differ from one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChatQuirk {
    /// Tool call fragments have no `index`.
    MissingIndex,
    /// The id is repeated in every fragment.
    RepeatedId,
    /// Later fragments carry an empty id.
    EmptyId,
    /// Each call comes whole, in one fragment.
    WholeCall,
    /// The name comes in two fragments.
    SplitName,
    /// Arguments are an object instead of a string, in one fragment.
    ArgumentsObject,
    /// All calls have index 0 and differ by id.
    SharedIndex,
    /// Empty arguments are sent as `""`.
    EmptyArguments,
    /// `finish_reason` is `stop` although there are calls.
    StopWithCalls,
    /// Usage comes on the chunk with the finish reason.
    UsageOnChoice,
    /// No usage at all.
    NoUsage,
    /// No `[DONE]`.
    MissingDone,
    /// Reasoning in `reasoning_content`.
    ReasoningContent,
    /// Reasoning in `reasoning`.
    Reasoning,
    /// Reasoning in `reasoning_text` with an opaque companion.
    ReasoningText,
    /// Reasoning in `reasoning_details`, which must come back unmodified.
    ReasoningDetails,
    /// Reasoning in the text, between `<think>` tags.
    ThinkTags,
    /// `reasoning_content` must be echoed on messages with calls.
    EchoReasoning,
    /// Comment lines before the answer, as OpenRouter sends them.
    ProcessingComments,
}
