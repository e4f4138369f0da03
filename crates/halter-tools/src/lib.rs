//! The [`Tool`] trait, the registry that runs calls, and the built-in tools.
//!
//! This crate owns the one way a call reaches its tool: look up, check the
//! arguments against the schema, run, explain errors ([`ToolRuntime`]). It
//! never bypasses `halter-policy` (every path goes through the file door), starts
//! no process but through [`exec`], reads no environment, and keeps nothing once
//! a session is closed.
//!
//! | module | holds |
//! |---|---|
//! | [`tool`], [`mod@typed`] | the trait, and tools whose input is a struct |
//! | [`context`] | what a call is given |
//! | [`runtime`] | the registry and the dispatch of calls |
//! | [`session`], [`scratch`], [`path_locks`] | what lives between calls |
//! | [`catalog`] | the built-in tools, and names of others |
//! | [`availability`] | tools that are of no use where they are |
//! | [`models`] | how a call has a model answer something |
//! | [`subagents`] | the trait and the tools of child sessions |
//! | [`exec`] | the place where commands run |
//! | [`network`] | connections to other hosts, and the proxy for commands |
//! | [`web`] | how the tools for the web are set up |
//! | [`environment`] | what commands may see of the environment |
//! | [`limits`] | every bound |
//! | [`policy`] | `halter-policy`, re-exported |
//!
//! A tool of your own is a struct with doc comments and a function:
//!
//! ```
//! use async_trait::async_trait;
//! use halter_protocol::ToolResult;
//! use halter_tools::{ToolContext, ToolRuntime, TypedTool, typed};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! /// Count the words of a text.
//! #[derive(Deserialize, JsonSchema)]
//! struct CountWords {
//!     /// The text to count.
//!     text: String,
//! }
//!
//! struct WordCounter;
//!
//! #[async_trait]
//! impl TypedTool for WordCounter {
//!     type Input = CountWords;
//!     const NAME: &'static str = "count_words";
//!
//!     async fn run(&self, _: ToolContext, input: CountWords) -> anyhow::Result<ToolResult> {
//!         let words = input.text.split_whitespace().count();
//!         Ok(ToolResult::json(serde_json::json!({ "words": words })))
//!     }
//! }
//!
//! let mut tools = ToolRuntime::new();
//! tools.register(typed(WordCounter));
//! let spec = tools.spec("count_words").unwrap();
//! assert_eq!(spec.description, "Count the words of a text.");
//! assert_eq!(
//!     spec.input_schema["properties"]["text"]["description"],
//!     "The text to count."
//! );
//! ```

pub mod asking;
pub mod availability;
mod bounded;
mod builtin;
pub mod catalog;
pub mod context;
pub mod deferred;
mod effort;
pub mod exec;
pub mod late;
pub mod limits;
pub mod models;
pub mod network;
mod observer;
pub mod path_locks;
pub mod runtime;
pub mod scratch;
mod sent_schema;
pub mod session;
pub mod subagents;
mod suggest;
pub mod tool;
pub mod typed;
mod validate;
pub mod web;

pub use asking::{Answers, NobodyToAsk, QuestionAsker};
pub use availability::{HarnessFacts, UnavailableTool};
pub use builtin::SKILL_TOOL;
pub use catalog::{LeftOutTool, builtin_tools, builtin_tools_with, left_out_tools, tool_search};
pub use context::{
    EARLIER_MESSAGE, EarlierMessages, MemoryChanges, NoEarlierMessages, NoopToolEventSink,
    ToolContext, ToolEventSink, ToolRuntimeEvent,
};
pub use deferred::{
    DeferredTool, NoDeferredTools, SourceInstructions, TOOL_SEARCH, ToolDirectory, first_sentence,
};
pub use exec::{ExecBackend, ExecSession, LocalExec};
pub use halter_policy as policy;
pub use halter_policy::environment::{self, command_environment};
pub use halter_policy::{
    FileDoor, PolicyError, PolicySettings, SessionScope, StandardPolicy, ToolPolicy,
};
pub use late::{LateToolSet, LateTools};
pub use models::{ModelAsker, ModelQuestion, ModelReply};
pub use observer::ChangeObserver;
pub use path_locks::{PathLockGuard, PathLockMap};
pub use runtime::ToolRuntime;
pub use scratch::ScratchDir;
pub use sent_schema::sent_schema;
pub use session::{ToolSessionClosed, ToolSessionState, ToolSessionStore};
pub use subagents::{AgentTypeLine, SubagentControl, subagent_tools};
pub use tool::Tool;
pub use typed::{TypedTool, typed};
pub use validate::{CheckTooLong, InvalidSchema, SchemaCheck};
#[cfg(feature = "browser-tools")]
pub use web::Browserbase;
pub use web::WebSettings;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
