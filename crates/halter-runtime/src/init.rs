//! How a session starts.

use halter_protocol::{
    Budget, ModelId, PermissionMode, SessionBounds, SessionBudget, SessionId,
    SubagentEventForwarding, ToolName,
};
use halter_tools::Tool;
use std::path::PathBuf;
use std::sync::Arc;

/// What a new session is given. Everything has a default.
#[derive(Debug, Clone, Default)]
pub struct SessionInit {
    /// Its id; a fresh one if none is given.
    pub session_id: Option<SessionId>,
    /// The session that starts it.
    pub parent_session_id: Option<SessionId>,
    /// The directory it works in; the process's own if empty.
    pub working_dir: PathBuf,
    /// Guidance that replaces the configured one.
    pub system_prompt: Option<String>,
    /// Guidance added after the configured one.
    pub append_system_prompt: Vec<String>,
    /// How many model calls one submitted turn may make.
    pub max_turns: Option<u32>,
    /// The registered model of its turns; `default` if none is given.
    pub default_model: Option<ModelId>,
    /// The registered model of its subagents, if not the role `subagent`.
    pub subagent_model: Option<ModelId>,
    /// Whether its event stream carries the events of its subagents; as the
    /// harness says if nothing is given.
    pub subagent_event_forwarding: Option<SubagentEventForwarding>,
    /// What it may use of what the harness has.
    pub bounds: SessionBounds,
    /// What it may spend; what it leaves open is as the harness says.
    pub budget: SessionBudget,
    /// Tools of the harness it does not have.
    pub removed_tools: Vec<ToolName>,
    /// Tools of its own.
    pub own_tools: OwnTools,
}

/// Tools that one session has besides those of its harness. They are judged
/// by the same policy. One with the name of a tool of the harness takes its
/// place.
#[derive(Clone, Default)]
pub struct OwnTools(pub Vec<Arc<dyn Tool>>);

impl std::fmt::Debug for OwnTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.0.iter().map(|tool| tool.spec().name);
        f.debug_list().entries(names).finish()
    }
}

impl SessionInit {
    /// Works in another directory.
    #[must_use]
    pub fn with_working_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.working_dir = directory.into();
        self
    }

    /// Uses another registered model.
    #[must_use]
    pub fn with_default_model(mut self, model: impl Into<ModelId>) -> Self {
        self.default_model = Some(model.into());
        self
    }

    /// Uses another registered model for subagents.
    #[must_use]
    pub fn with_subagent_model(mut self, model: impl Into<ModelId>) -> Self {
        self.subagent_model = Some(model.into());
        self
    }

    /// Has the session's event stream carry the events of its subagents, or not.
    #[must_use]
    pub fn with_subagent_event_forwarding(mut self, forwarding: SubagentEventForwarding) -> Self {
        self.subagent_event_forwarding = Some(forwarding);
        self
    }

    /// Limits what the session may spend in all its turns, with the sessions it
    /// starts.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget.session = budget;
        self
    }

    /// Limits what each turn of the session may spend.
    #[must_use]
    pub fn with_turn_budget(mut self, budget: Budget) -> Self {
        self.budget.turn = budget;
        self
    }

    /// Narrows what the session may use. A session that asks for more than its
    /// harness has is refused.
    #[must_use]
    pub fn with_bounds(mut self, bounds: SessionBounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Asks more than the harness does. A mode that is wider than that of the
    /// harness is refused.
    #[must_use]
    pub fn with_permission_mode(mut self, mode: PermissionMode) -> Self {
        self.bounds.permission_mode = Some(mode);
        self
    }

    /// Adds a tool of the session's own. Whoever resumes the session gives it
    /// again.
    #[must_use]
    pub fn with_tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.own_tools.0.push(tool);
        self
    }

    /// Takes a tool of the harness away.
    #[must_use]
    pub fn without_tool(mut self, name: impl Into<ToolName>) -> Self {
        self.removed_tools.push(name.into());
        self
    }

    /// Replaces the configured guidance. Blank text is ignored.
    #[must_use]
    pub fn with_system_prompt(mut self, text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        if !text.trim().is_empty() {
            self.system_prompt = Some(text.to_owned());
        }
        self
    }

    /// Adds to the configured guidance. Blank text is ignored.
    #[must_use]
    pub fn append_system_prompt(mut self, text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        if !text.trim().is_empty() {
            self.append_system_prompt.push(text.to_owned());
        }
        self
    }

    /// Bounds the model calls of one submitted turn.
    #[must_use]
    pub fn with_max_turns(mut self, model_calls: u32) -> Self {
        self.max_turns = Some(model_calls);
        self
    }
}
