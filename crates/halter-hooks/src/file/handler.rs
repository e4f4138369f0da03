//! A handler of a hook file, read.

use super::condition::RuleCondition;
use super::matcher::FileMatcher;
use super::origin::HookOrigin;
use halter_protocol::HookHandlerType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What runs, for which calls, and what its failure means.
#[derive(Debug)]
pub(crate) struct FileHandler {
    pub origin: Arc<HookOrigin>,
    pub matcher: FileMatcher,
    /// The matcher as it was written.
    pub matcher_text: Option<String>,
    pub condition: Option<RuleCondition>,
    pub action: HandlerAction,
    pub on_failure: OnFailure,
    /// It runs beside the turn, and its answer decides nothing.
    pub runs_beside: bool,
    /// Variables of the user's environment that it sees besides the usual.
    pub env_vars: Vec<String>,
}

/// What a handler does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HandlerAction {
    /// A line for the shell.
    Shell {
        line: String,
        env: BTreeMap<String, String>,
    },
    /// A program with its arguments, without a shell.
    Program {
        program: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
    },
    /// A request to a server.
    Http {
        url: String,
        headers: BTreeMap<String, String>,
    },
    /// A question to a model.
    Prompt {
        prompt: String,
        model: Option<String>,
    },
    /// A task for a short session that may look around.
    Agent {
        prompt: String,
        model: Option<String>,
        max_turns: Option<u32>,
    },
}

/// What it means that a handler failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OnFailure {
    /// On a blocking event it denies; on others it is reported.
    #[default]
    ByEvent,
    /// It is reported.
    Continue,
    /// It blocks.
    Block,
}

impl FileHandler {
    pub fn handler_type(&self) -> HookHandlerType {
        match self.action {
            HandlerAction::Shell { .. } | HandlerAction::Program { .. } => HookHandlerType::Command,
            HandlerAction::Http { .. } => HookHandlerType::Http,
            HandlerAction::Prompt { .. } => HookHandlerType::Prompt,
            HandlerAction::Agent { .. } => HookHandlerType::Agent,
        }
    }

    /// What it does, in one line for people.
    pub fn describe(&self) -> String {
        match &self.action {
            HandlerAction::Shell { line, .. } => line.clone(),
            HandlerAction::Program { program, args, .. } => {
                let mut words = vec![program.clone()];
                words.extend(args.iter().cloned());
                words.join(" ")
            }
            HandlerAction::Http { url, .. } => url.clone(),
            HandlerAction::Prompt { prompt, .. } | HandlerAction::Agent { prompt, .. } => {
                prompt.clone()
            }
        }
    }

    /// True if both would do the same at the same place, so that one run is
    /// enough.
    pub fn does_the_same(&self, other: &Self) -> bool {
        self.action == other.action
            && self.origin.root == other.origin.root
            && self.env_vars == other.env_vars
            && self.runs_beside == other.runs_beside
            && self.on_failure == other.on_failure
    }
}
