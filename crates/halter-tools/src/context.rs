//! What a tool is given to run one call.

use crate::asking::QuestionAsker;
use crate::deferred::ToolDirectory;
use crate::models::ModelAsker;
use crate::network::{ConnectError, Connector, HostQuestions};
use crate::path_locks::PathLockMap;
use crate::session::ToolSessionStore;
use crate::subagents::SubagentControl;
use async_trait::async_trait;
use halter_policy::{Destination, HostRefusal, ToolPolicy};
use halter_protocol::limits::FILE_VIEWS;
use halter_protocol::{
    MemoryChange, Message, ResourceSnapshot, SessionId, SessionMemory, ToolCallId, ToolError,
    ToolErrorCode, ToolName,
};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// The surroundings of one call. Cheap to clone.
#[derive(Clone)]
pub struct ToolContext {
    /// The session the call belongs to.
    pub session_id: SessionId,
    /// The call.
    pub call_id: ToolCallId,
    /// The session's directory: relative paths start here.
    pub working_dir: PathBuf,
    /// Exclusive locks on files, shared by all sessions of a harness.
    pub path_locks: Arc<PathLockMap>,
    /// What the session remembers, as of the start of the call.
    pub memory: Arc<SessionMemory>,
    /// What it shall remember of the call.
    pub remembered: MemoryChanges,
    /// What was said in the session, also what the model no longer sees.
    pub earlier: Arc<dyn EarlierMessages>,
    /// What tools keep between the calls of this session.
    pub tool_sessions: Arc<ToolSessionStore>,
    /// Puts questions of the call to a person: [`ask`](Self::ask).
    pub asker: Arc<dyn QuestionAsker>,
    /// Asks about hosts that the call may not reach; absent: they are refused.
    pub hosts: Option<HostQuestions>,
    /// The deferred tools of the session.
    pub tools: Arc<dyn ToolDirectory>,
    /// The resources the session runs with.
    pub snapshot: Arc<ResourceSnapshot>,
    /// Fires when the call should stop. A tool whose spec says `cancellable`
    /// must return soon after.
    pub cancel: CancellationToken,
    /// Where live output goes.
    pub emit: Arc<dyn ToolEventSink>,
    /// What may be read, written and run.
    pub policy: Arc<dyn ToolPolicy>,
    /// The longest a shell command may take, in seconds.
    pub shell_timeout_secs: u64,
    /// Starts and follows subagents, where there are any.
    pub subagents: Option<Arc<dyn SubagentControl>>,
    /// Has a model answer beside the conversation, where there is one.
    pub models: Option<Arc<dyn ModelAsker>>,
}

impl ToolContext {
    /// An error for the model if the call has been cancelled.
    pub fn check_cancelled(&self) -> Result<(), ToolError> {
        match self.cancel.is_cancelled() {
            true => Err(cancelled()),
            false => Ok(()),
        }
    }

    /// What starts and follows subagents.
    ///
    /// # Errors
    /// If there are none here.
    pub fn subagents(&self) -> Result<Arc<dyn SubagentControl>, ToolError> {
        self.subagents.clone().ok_or_else(|| {
            let message = "there are no subagents here; do the work yourself";
            ToolError::new(ToolErrorCode::Failed, message)
        })
    }

    /// Has the session remember something, in its log, with the result of the
    /// call.
    pub fn remember(&self, change: MemoryChange) {
        self.remembered.push(change);
    }

    /// Loads a deferred tool that whoever made this call needs next, if the
    /// session has it.
    pub fn load_tool(&self, name: &str) {
        let deferred = self.tools.deferred().into_iter();
        let wanted = deferred.map(|tool| tool.spec);
        for spec in wanted.filter(|spec| spec.name.as_str() == name) {
            if self.memory.loaded_tool(&spec.name).is_none() {
                self.remember(MemoryChange::ToolLoaded { spec });
            }
        }
    }

    /// Connects to a host that the policy lets through, or a person who is asked,
    /// at an address that was checked. Whoever is redirected connects anew. A refusal is in the log.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub async fn connect(&self, destination: &Destination) -> Result<TcpStream, ConnectError> {
        let resolver = Arc::clone(self.tool_sessions.resolver());
        let connector = Connector::with_resolver(self.policy.network(), resolver);
        let questions = self.hosts.as_ref();
        let connected = connector.connect_asking(destination, questions).await;
        if let Err(ConnectError::Refused(refusal)) = &connected {
            self.report_refusal(refusal);
        }
        connected
    }

    /// Has the log say that the network policy refused a connection of the
    /// call.
    pub fn report_refusal(&self, refusal: &HostRefusal) {
        self.emit.emit(ToolRuntimeEvent::NetworkRefused {
            host: refusal.host.clone(),
            rule: refusal.rule.to_owned(),
            message: refusal.message(),
        });
    }

    /// Sends a piece of live output on its way to the consumers of the turn.
    pub fn emit_output(&self, tool_name: &str, chunk: impl Into<String>) {
        self.emit.emit(ToolRuntimeEvent::ToolOutput {
            tool_name: ToolName::from(tool_name),
            chunk: chunk.into(),
        });
    }
}

impl std::fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolContext")
            .field("session_id", &self.session_id)
            .field("call_id", &self.call_id)
            .field("working_dir", &self.working_dir)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// How a path begins that stands for an earlier message of the session.
pub const EARLIER_MESSAGE: &str = "blob:";

/// The messages of one session, for `read` to show again.
#[async_trait]
pub trait EarlierMessages: Send + Sync {
    /// The newest message that is named so.
    async fn find(&self, id: &str) -> anyhow::Result<Option<Arc<Message>>>;
}

/// No messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoEarlierMessages;

#[async_trait]
impl EarlierMessages for NoEarlierMessages {
    async fn find(&self, _: &str) -> anyhow::Result<Option<Arc<Message>>> {
        Ok(None)
    }
}

/// What a session shall remember of a call. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryChanges(Arc<Mutex<Vec<MemoryChange>>>);

impl MemoryChanges {
    /// Adds a change, at most [`FILE_VIEWS`] in a call: the session would
    /// forget more at once.
    pub fn push(&self, change: MemoryChange) {
        let mut changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.len() < FILE_VIEWS {
            changes.push(change);
        }
    }

    /// Takes all changes so far.
    pub fn take(&self) -> Vec<MemoryChange> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The error of a call that was cancelled before it had a result.
pub(crate) fn cancelled() -> ToolError {
    ToolError::new(
        ToolErrorCode::Cancelled,
        "the call was cancelled before it finished",
    )
}

/// Takes what a tool has to say while it runs. Must never block: it is called
/// from the middle of the tool's work.
pub trait ToolEventSink: Send + Sync {
    /// Takes one event.
    fn emit(&self, event: ToolRuntimeEvent);
}

/// Something a running tool has to say before its result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolRuntimeEvent {
    /// Output of the call, as it appears.
    ToolOutput {
        /// The tool.
        tool_name: ToolName,
        /// The next piece of text.
        chunk: String,
    },
    /// The network policy refused a connection of the call.
    NetworkRefused {
        /// The host, with its port where that is known.
        host: String,
        /// The rule; stable, for programs to match on.
        rule: String,
        /// Why, and what to set.
        message: String,
    },
}

/// A sink that forgets everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoopToolEventSink;

impl ToolEventSink for NoopToolEventSink {
    fn emit(&self, _event: ToolRuntimeEvent) {}
}
