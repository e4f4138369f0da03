//! How a turn opens: what it needs is looked at, hooks run, its prompt joins.

use super::budget::TurnAccount;
use super::guard::RepeatGuard;
use super::structured::ResponseContract;
use super::traits::ToolTraits;
use super::turn::{Ending, LiveTurn, Phase};
use super::{Effect, EffectId, Engine, Preparation};
use halter_hooks::{HookEventName, HookPoint};
use halter_protocol::{
    CacheBreakReason, FINAL_TOOL, Message, ReplayMeta, SessionEventPayload, SubagentPlace,
    SystemMessage, Turn, TurnError, TurnId, Usage, UserMessage, UserPart,
};
use std::sync::Arc;

/// What hooks match a subagent by.
pub(crate) fn hook_name(place: &SubagentPlace) -> String {
    let named = place.agent_type.as_deref();
    named.unwrap_or("default").to_owned()
}

impl Engine {
    pub(super) fn open_turn(&mut self, turn: Turn) {
        let prompt = Some(turn.user_message.clone());
        self.open(turn, prompt);
    }

    /// Opens a turn for what waits to be told.
    pub(super) fn open_turn_without_prompt(&mut self, id: TurnId) {
        let nothing = UserMessage {
            id: self.mint_message(),
            created_at: self.at,
            parts: Vec::new(),
        };
        let turn = Turn {
            id,
            ..Turn::new(nothing)
        };
        self.open(turn, None);
    }

    fn open(&mut self, turn: Turn, prompt: Option<UserMessage>) {
        let id = self.next_effect();
        let model = turn
            .default_model
            .unwrap_or_else(|| self.facts.blueprint.default_model.clone());
        self.effects.push(Effect::PrepareTurn {
            id,
            turn_id: turn.id.clone(),
            model: model.clone(),
            uses: turn.uses,
        });
        self.turn = Some(LiveTurn {
            id: turn.id,
            model,
            answered_by: ReplayMeta::default(),
            prompt,
            subagent_model: turn.subagent_model,
            media: Arc::default(),
            phase: Phase::Preparing(id),
            usage: Usage::default(),
            model_calls: 0,
            empty_answers: 0,
            pauses: 0,
            paused: false,
            guard: RepeatGuard::default(),
            contract: None,
            response_schema: turn.response_schema,
            steers: Vec::new(),
            stop_continuations: 0,
            compacted: false,
            overflow: None,
            told_of_full_context: false,
            told_of_cache: false,
            account: TurnAccount::opened(self.at),
        });
    }

    pub(super) fn prepared(&mut self, id: EffectId, preparation: Result<Preparation, TurnError>) {
        let Some(turn) = &self.turn else { return };
        if !matches!(turn.phase, Phase::Preparing(awaited) if awaited == id) {
            return;
        }
        self.record_turn_started();
        let preparation = match preparation {
            Ok(preparation) => preparation,
            Err(error) => return self.finish_turn(Ending::failed(error)),
        };
        if let Some(tools) = preparation.tools {
            self.facts.tools = tools;
        }
        if let Some(tools) = preparation.late_tools {
            self.late_tools_changed(tools);
        }
        if let Some(hooked) = preparation.hooked {
            self.facts.hooked = hooked;
        }
        if let Some(turn) = &mut self.turn {
            turn.answered_by = preparation.answered_by;
            turn.media = Arc::new(preparation.media);
            if let Some(prompt) = &mut turn.prompt {
                let texts = preparation.prompt.into_iter();
                prompt
                    .parts
                    .extend(texts.map(|text| UserPart::Text { text }));
            }
        }
        let agreed = self.agree_on_answer();
        if let Err(error) = agreed.and_then(|()| self.admit_attachments()) {
            return self.finish_turn(Ending::failed(error));
        }
        for message in preparation.warnings {
            self.record(SessionEventPayload::Warning { message });
        }
        if let Some(loaded) = preparation.resources {
            self.record(SessionEventPayload::ResourcesLoaded(loaded));
        }
        let switched = self.takes_up_model();
        let cut = preparation
            .cache_break
            .or(switched.then_some(CacheBreakReason::ModelChanged));
        if let Some(reason) = cut {
            self.record(SessionEventPayload::CacheBreak {
                reason,
                snapshot_revision: preparation.snapshot_revision,
                tools_revision: None,
            });
        }
        if preparation.tools_revision.is_some() {
            self.record(SessionEventPayload::CacheBreak {
                reason: CacheBreakReason::ToolsReplaced,
                snapshot_revision: None,
                tools_revision: preparation.tools_revision,
            });
        }
        self.announce_schema();
        if let Some((environment, text)) = preparation.environment {
            let message = SystemMessage {
                id: self.mint_message(),
                created_at: self.at,
                text,
                environment: Some(environment),
                instructions: Vec::new(),
                tools: Vec::new(),
            };
            self.record_message(Message::System(message));
        }
        if let Some(note) = preparation.instructions {
            self.record_system(note);
        }
        for note in preparation.uses {
            self.record_system(note);
        }
        self.start_hooks_or_prompt();
    }

    /// Notes what the answer must look like, and says so if the last one had
    /// to look otherwise: services cache it with the prefix.
    fn announce_schema(&mut self) {
        let turn = self.turn.as_ref();
        let schema = turn.and_then(|turn| turn.response_schema.clone());
        let before = std::mem::replace(&mut self.last_schema, schema);
        if before != self.last_schema && !self.state.messages.is_empty() {
            self.record(SessionEventPayload::CacheBreak {
                reason: CacheBreakReason::ResponseSchemaChanged,
                snapshot_revision: None,
                tools_revision: None,
            });
        }
    }

    /// Notes the model of the turn; true if another one was asked before. In
    /// a session taken up from a store, its last answer tells which that was.
    fn takes_up_model(&mut self) -> bool {
        let Some(turn) = &self.turn else { return false };
        let before = self.last_model.replace(turn.model.clone());
        match before {
            Some(before) => before != turn.model,
            None => {
                let mut messages = self.state.messages.iter_newest_first();
                let last =
                    messages.find_map(|message| Some(message.as_assistant()?.replay_meta.clone()));
                last.is_some_and(|last| last.model.is_some() && last != turn.answered_by)
            }
        }
    }

    pub(super) fn record_turn_started(&mut self) {
        if let Some(turn) = &self.turn {
            let turn_id = turn.id.clone();
            let response_schema = turn.response_schema.clone();
            self.record(SessionEventPayload::TurnStarted {
                turn_id,
                response_schema,
            });
        }
    }

    /// Takes up what the last answer must look like.
    fn agree_on_answer(&mut self) -> Result<(), TurnError> {
        let wanted = self
            .turn
            .as_ref()
            .and_then(|turn| turn.response_schema.clone());
        let Some(schema) = wanted else { return Ok(()) };
        if ToolTraits::of(&self.facts.tools, FINAL_TOOL).is_some() {
            let message = format!(
                "a tool is called '{FINAL_TOOL}', the name under which models give structured answers"
            );
            return Err(TurnError::new("tool_name_taken", message).with_hint("rename the tool"));
        }
        let contract = ResponseContract::new(schema)?;
        if let Some(turn) = &mut self.turn {
            turn.contract = Some(contract);
        }
        Ok(())
    }

    fn start_hooks_or_prompt(&mut self) {
        match self.start_source.take() {
            Some(source) if self.has_hooks(HookEventName::SessionStart) => {
                let id = self.run_hooks(HookPoint::SessionStart { source });
                self.set_phase(Phase::SessionStart(id));
            }
            _ => self.subagent_hooks_or_prompt(),
        }
    }

    /// Hooks hear once that a subagent starts.
    pub(super) fn subagent_hooks_or_prompt(&mut self) {
        let blueprint = self.facts.blueprint.clone();
        let due = std::mem::take(&mut self.subagent_start_due);
        let place = blueprint.subagent.as_ref().filter(|_| due);
        match place {
            Some(place) if self.has_hooks(HookEventName::SubagentStart) => {
                let parent = blueprint.parent_session_id.as_ref();
                let id = self.run_hooks(HookPoint::SubagentStart {
                    agent_id: blueprint.session_id.clone(),
                    agent_type: hook_name(place),
                    parent_session_id: parent.unwrap_or(&place.root_session_id).clone(),
                });
                self.set_phase(Phase::SubagentStart(id));
            }
            _ => self.prompt_hooks_or_messages(),
        }
    }

    pub(super) fn prompt_hooks_or_messages(&mut self) {
        let prompt = self.turn.as_ref().and_then(|turn| turn.prompt.clone());
        let hooked = self.has_hooks(HookEventName::UserPromptSubmit);
        let Some(message) = prompt.filter(|_| hooked) else {
            return self.open_with_prompt();
        };
        let id = self.run_hooks(HookPoint::UserPromptSubmit { message });
        self.set_phase(Phase::Prompt(id));
    }

    pub(super) fn open_with_prompt(&mut self) {
        let prompt = self.turn.as_mut().and_then(|turn| turn.prompt.take());
        if let Some(prompt) = prompt {
            self.record_message(Message::User(prompt));
        }
        self.go_on();
    }
}
