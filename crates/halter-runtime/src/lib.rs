//! Sessions, turns and everything that happens in them.
//!
//! A session is an append-only log of events. A turn is a pure machine, the
//! [`engine`], which turns inputs into effects; a [`driver`] carries the
//! effects out. The live driver gives each busy session one task that owns it,
//! and idle sessions none. This crate decides; it never parses a wire format,
//! prints, or reads the environment.
//!
//! | module | holds |
//! |---|---|
//! | [`runtime`] | all sessions of a process |
//! | [`session`] | a session as its users hold it |
//! | [`engine`] | the turn machine, without I/O |
//! | [`driver`] | what runs the engine: live, and simulated |
//! | [`hub`] | subscribers as cursors over the log and its live tail |
//! | [`budget`] | what may be spent, and what was |
//! | [`context`] | what of a session a model sees |
//! | [`prompt`] | guidance, skills, instruction files, environment |
//! | [`subagents`] | child sessions: types, control, reports |
//! | [`services`] | what sessions share, all of it replaceable |
//! | [`limits`] | every bound |

mod approvals;
mod bounds;
pub mod budget;
pub mod clock;
pub mod context;
pub mod driver;
pub mod engine;
mod error;
pub mod hub;
mod init;
mod instructions;
mod invocation;
pub mod limits;
pub mod prompt;
mod reader;
pub mod runtime;
mod scoped_hooks;
pub mod services;
pub mod session;
mod streams;
pub mod subagents;
mod toolset;

pub use approvals::{ApprovalHandler, Approvals};
pub use budget::{HarnessBudget, SharedLedger};
pub use clock::{Clock, SystemClock};
pub use context::{
    Compaction, CompactionRequest, ContextManager, ContextPlan, ContextReport, ContextRequest,
    ContextSettings, NativeCompactor, NativeContext, StandardContext,
};
pub use engine::structured::check_response_schema;
pub use error::{HalterError, store_failure};
pub use init::{OwnTools, SessionInit};
pub use instructions::InstructionSettings;
pub use prompt::{
    EnvironmentProbe, PromptAssembler, PromptContext, PromptSettings, StandardPromptAssembler,
};
pub use reader::SessionReader;
pub use runtime::{SessionRuntime, ShutdownReport};
pub use scoped_hooks::frontmatter_hooks;
pub use services::{ResourceCell, Resources, RuntimeServices};
pub use session::SessionHandle;
pub use streams::{SessionStream, TurnStream};
pub use subagents::{AgentType, AgentTypes};
pub use toolset::{ToolDeferral, Toolset};

/// A session, under the name the facade gives it.
pub type HalterSession = SessionHandle;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
