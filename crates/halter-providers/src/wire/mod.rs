//! Model wires as pure functions: requests to bytes, stream events to
//! [`StreamEvent`]s, error bodies to [`ProviderError`]s. No I/O here; the
//! transport that carries a wire is elsewhere.
//!
//! A wire is two small machines and a few look-ups:
//!
//! - a [`ConversationEncoder`] takes each message once, in order, keeps its
//!   bytes, and writes the body of a request by copying them out, so that a
//!   request costs what is new in it;
//! - a [`Decoder`] takes the events of a response, in order, and emits
//!   normalized ones. What it does not know it ignores; a stream that ends
//!   before the wire's own end is an error, never a short answer.

pub(crate) mod address;
pub mod anthropic;
mod attachment;
mod body;
pub mod chat;
mod common;
mod error_report;
mod failure;
pub mod gemini;
mod names;
mod refused;
pub mod responses;
mod schema;
mod strict;
mod structured;

use halter_protocol::{
    AssembledPrompt, MediaLimits, Message, ProviderError, ProviderErrorKind, ResolvedModel,
    ResponseSchema, StreamEvent, ToolName, ToolSpec,
};
use std::sync::Arc;
use std::time::Duration;

/// True if an address is that of a vendor whose service compacts conversations
/// itself.
pub fn is_compacting_vendor(base_url: &str) -> bool {
    let wires: [&dyn Wire; 2] = [&anthropic::Anthropic::new(), &responses::ResponsesWire];
    let hosts = wires.iter().filter_map(|wire| wire.compacting_host());
    hosts.into_iter().any(|host| address::is_at(base_url, host))
}

/// True if an address is that of a vendor whose service takes tools in the midst
/// of a conversation.
pub fn is_tool_loading_vendor(base_url: &str) -> bool {
    let wires: [&dyn Wire; 2] = [&anthropic::Anthropic::new(), &responses::ResponsesWire];
    let hosts = wires.iter().filter_map(|wire| wire.loading_host());
    hosts.into_iter().any(|host| address::is_at(base_url, host))
}

/// A model wire.
pub trait Wire: Send + Sync + 'static {
    /// The wire's name; opaque parts it made carry it.
    fn name(&self) -> &'static str;

    /// Where a streaming request is posted.
    fn url(&self, base_url: &str, model: &ResolvedModel) -> String;

    /// The headers of a request, secrets included.
    fn headers(&self, api_key: Option<&str>) -> Vec<(String, String)>;

    /// The images and documents that the service takes.
    fn media_limits(&self) -> MediaLimits {
        MediaLimits::default()
    }

    /// A fresh encoder of one conversation with one model, which takes images
    /// or not.
    fn encoder(&self, model: &ResolvedModel, images: ImageInput) -> Box<dyn ConversationEncoder>;

    /// A fresh decoder of one response.
    fn decoder(&self) -> Box<dyn Decoder>;

    /// What a response that is not a success means.
    fn error(&self, response: &ErrorResponse<'_>) -> ProviderError;

    /// What the headers of a response say about rates.
    fn rate_limit(&self, headers: &dyn HeaderLookup) -> RateLimitHints;

    /// The setting that made a service refuse the request, if it was one that
    /// can be left out. The transport leaves it out, tells the user, and asks
    /// again.
    fn refused_setting(&self, response: &ErrorResponse<'_>) -> Option<RefusedSetting> {
        refused::setting_in(response)
    }

    /// Where the list of models is read, if the service has one. The headers
    /// are those of a request.
    fn models_url(&self, base_url: &str) -> Option<String> {
        let _ = base_url;
        None
    }

    /// The host of the vendor whose service takes tools in the midst of a
    /// conversation; other servers that speak the wire may not.
    fn loading_host(&self) -> Option<&'static str> {
        None
    }

    /// The host of the vendor whose service compacts conversations itself; other
    /// servers that speak the wire may not.
    fn compacting_host(&self) -> Option<&'static str> {
        None
    }

    /// Whether the vendor's service does that with conversations of a model.
    fn compacts(&self, model: &ResolvedModel) -> bool {
        let _ = model;
        self.compacting_host().is_some()
    }

    /// Where a conversation is posted to be compacted.
    fn compaction_url(&self, base_url: &str, model: &ResolvedModel) -> String {
        self.url(base_url, model)
    }

    /// True if people run the server themselves, with a window of their choice.
    fn is_self_hosted(&self) -> bool {
        false
    }
}

/// One conversation with one model, encoded as it grows.
pub trait ConversationEncoder: Send {
    /// Sets what comes before the messages. Called for every request; encodes
    /// anew only what differs.
    fn set_prefix(&mut self, prompt: &AssembledPrompt, tools: &Arc<[ToolSpec]>);

    /// Sets the deferred tools that were loaded. Called for every request, before
    /// the messages that loaded them.
    fn set_loaded(&mut self, tools: &Arc<[Arc<ToolSpec>]>);

    /// Has tools stand with the messages that load them, in the wire's own way,
    /// so that the service reads nothing afresh. Without this, and on a wire that
    /// has no such way, the transport tells of them in words and gives only those
    /// that no message tells of any more, which stand behind the other tools.
    fn load_natively(&mut self) {}

    /// Takes the next message.
    fn push(&mut self, message: &Message);

    /// Writes the body of a request about everything taken so far. `messages`
    /// come last in it.
    fn body(&mut self, settings: &RequestSettings) -> Result<EncodedBody, ProviderError>;

    /// Sends compactions that the service made in its own form. Without this
    /// they are sent in words.
    fn allow_native_compaction(&mut self) {}

    /// Writes the body of a request to compact everything taken so far.
    fn compaction_body(
        &mut self,
        settings: &RequestSettings,
    ) -> Result<EncodedBody, ProviderError> {
        let _ = settings;
        Err(ProviderError::new(
            "this wire has no compaction of its own",
            ProviderErrorKind::Fatal,
        ))
    }

    /// The tool that the wire calls `sent`, where that is not its own name: an
    /// alias, or a name spelled anew because the service does not take it.
    fn tool_name(&self, sent: &str) -> Option<ToolName> {
        let _ = sent;
        None
    }
}

/// What becomes of the images of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ImageInput {
    /// They are sent, as far as the wire takes their types.
    #[default]
    Taken,
    /// The model takes none: it reads in words what was left out.
    LeftOut,
}

/// What a request asks for besides the conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestSettings {
    /// The sampling temperature, where the model takes one.
    pub temperature: Option<f32>,
    /// Further members of the body, as JSON text of an object without its
    /// braces: OpenRouter's routing.
    pub extra_members: Option<String>,
    /// Names a cache of prompts that belong together, where the wire has it.
    pub prompt_cache_key: Option<String>,
    /// What the answer must look like.
    pub output: Option<WantedOutput>,
}

/// A structured answer that a request asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedOutput {
    /// What it must look like.
    pub schema: ResponseSchema,
    /// How to ask for it.
    pub way: OutputWay,
}

/// How a structured answer is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputWay {
    /// In the words of the wire, where it, the model and the schema allow that;
    /// else with a tool.
    Native,
    /// In both ways at once, also where the service is not known to take a
    /// schema beside tools.
    Both,
    /// With a tool.
    Tool,
}

/// A body ready to post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedBody {
    /// The JSON text.
    pub json: Vec<u8>,
    /// What was left out and why, for the user.
    pub warnings: Vec<String>,
    /// A header that the service wants with it; values that it has already stay.
    pub beta: Option<(&'static str, &'static str)>,
}

/// Turns the events of one response into normalized ones.
pub trait Decoder: Send {
    /// Takes one server-sent event and appends what it means.
    fn event(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError>;

    /// The response has ended. An error if the wire's own end was not seen.
    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError>;
}

/// One server-sent event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Its `event` field; empty if it has none.
    pub name: &'a str,
    /// Its `data` lines, joined by newlines.
    pub data: &'a str,
}

/// A response that is not a success.
#[derive(Clone, Copy)]
pub struct ErrorResponse<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: &'a dyn HeaderLookup,
    /// The body, as far as it was read.
    pub body: &'a [u8],
}

/// Looks up response headers without a dependency on a client.
pub trait HeaderLookup: Send + Sync {
    /// The first value of a header, by lower-case name.
    fn header(&self, name: &str) -> Option<&str>;
}

/// A setting that not every model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusedSetting {
    /// The sampling temperature.
    Temperature,
    /// The level of reasoning.
    Reasoning,
    /// A schema of the answer in the words of the wire.
    Output,
    /// Images in messages and in the results of tools.
    Images,
    /// Tools in the midst of a conversation.
    LateTools,
}

/// What a server says about how much more it takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimitHints {
    /// Tokens that it takes per minute.
    pub tokens_limit: Option<u64>,
    /// Tokens left in the window.
    pub tokens_remaining: Option<u64>,
    /// When that window resets, from now.
    pub tokens_reset: Option<Duration>,
    /// Requests left in the window.
    pub requests_remaining: Option<u64>,
    /// When that window resets, from now.
    pub requests_reset: Option<Duration>,
}
