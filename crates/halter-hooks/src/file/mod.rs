//! Hook files in the public format: reading them, and running their handlers.
//!
//! ```json
//! {"hooks": {"PreToolUse": [
//!   {"matcher": "Bash", "hooks": [{"type": "command", "command": "./guard.py", "timeout": 5}]}
//! ]}}
//! ```
//!
//! The same object stands in settings files, in `hooks.json` of a plugin, in a
//! plugin's manifest, and in the frontmatter of skills and agents. What cannot
//! be used is left out with a [warning](crate::HookWarning) that says where and
//! why, and the rest loads.
//!
//! Handlers are told the public names of tools and of their fields; what they
//! rewrite is mapped back ([`public_tools`](halter_protocol::public_tools)).

mod answer;
mod condition;
mod handler;
mod http;
mod matcher;
mod named;
mod origin;
mod outside;
mod parse;
mod public;
mod run;

pub use http::check_address;
pub use origin::{HookLayer, HookOrigin};
pub use outside::{
    AgentQuestion, HookOutside, HttpAnswer, HttpCall, NothingOutside, PromptQuestion,
};
pub use parse::{ParsedHooks, parse_text, parse_value};

pub(crate) use handler::{FileHandler, OnFailure};
pub(crate) use run::{RunPlace, no_answer, run};
