//! How a session starts.

use halter_protocol::{ModelId, SessionId};
use std::path::PathBuf;

/// What a new session is given. Everything has a default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
