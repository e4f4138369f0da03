//! How each effect is carried out.

use super::asking::SessionAsker;
use super::compaction;
use super::final_tools::FinalTools;
use super::hooks::HookedAt;
use super::marked_text::FinishedText;
use super::toolbox::{RefusalSink, Surroundings};
use super::uses::UsedText;
use super::{Append, Owner, Running};
use crate::engine::{Effect, EffectId, Input, Preparation};
use crate::error::HalterError;
use crate::prompt::{PromptContext, describe_change, look_around};
use crate::runtime::model_outside;
use crate::services::{Resources, RuntimeServices};
use crate::subagents::AgentTypes;
use crate::toolset::Toolset;
use futures::{FutureExt, StreamExt};
use halter_protocol::{
    AssembledPrompt, CacheBreakReason, ModelId, ProviderError, ProviderErrorKind, ReplayMeta,
    ResourceUse, ResponseSchema, SessionBlueprint, ToolCall, ToolError, ToolErrorCode, ToolName,
    ToolSpec, Transcript, TurnError, TurnId,
};
use halter_providers::{Provider, ProviderRequest, RequestPurpose};
use halter_tools::ToolContext;
use halter_tools::network::HostQuestions;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

impl Owner {
    /// Carries an effect out, or starts to. Returns what the engine should
    /// hear at once.
    pub(super) async fn perform(&mut self, effect: Effect, running: &mut Running) -> Option<Input> {
        match effect {
            Effect::PrepareTurn {
                id, model, uses, ..
            } => {
                return self.prepare_turn(id, &model, &uses, running).await;
            }
            Effect::PlanContext { id, model } => {
                let too_large = self.is_context_too_large(&model);
                return Some(Input::ContextPlanned { id, too_large });
            }
            Effect::Compact {
                id,
                turn_id,
                model,
                reason,
                instructions,
                message_id,
            } => {
                let asked = compaction::AskedCompaction {
                    turn_id,
                    model,
                    reason,
                    instructions,
                    message_id,
                };
                return self.compact(id, asked, running);
            }
            Effect::CompactionOver {
                compaction,
                problem,
            } => {
                let outcome = problem.map_or(Ok(compaction), |it| Err(HalterError::from(it)));
                for waiter in self.compaction_waiters.drain(..) {
                    let _ = waiter.send(outcome.clone());
                }
            }
            Effect::ReserveModelCall {
                id,
                turn_id,
                model,
                unbilled,
            } => return Some(self.reserve_model_call(id, &turn_id, &model, unbilled)),
            Effect::ReserveToolCall {
                id,
                turn_id,
                unbilled,
            } => return Some(self.reserve_tool_call(id, &turn_id, unbilled)),
            Effect::Charge {
                reservation,
                turn_id,
                charge,
            } => self.charge(reservation, turn_id.as_ref(), charge),
            Effect::SetBudget(budget) => self.seat.set_budget(budget),
            Effect::CallModel {
                id,
                turn_id,
                model,
                messages,
                response_schema,
                output_limit,
            } => {
                let asked = AskedModel {
                    turn_id,
                    messages,
                    response_schema,
                    output_limit,
                };
                self.call_model(id, &model, asked, running);
            }
            Effect::RunTool { id, call } => return self.run_tool(id, call, running).await,
            Effect::CheckCall { id, call } => {
                let (check, remembered) = self.check_call(&call);
                return Some(Input::CallChecked {
                    id,
                    check,
                    remembered,
                });
            }
            Effect::Judge { id, call } => {
                let (verdict, diff) = self.judge(&call, running).await;
                return Some(Input::Judged { id, verdict, diff });
            }
            Effect::Ask { id, request } => return self.ask(id, request, running),
            Effect::Reply { answer, by } => self.waiting_tools.reply(answer, by),
            Effect::RunHooks {
                id,
                point,
                turn_id,
                model,
            } => {
                let at = HookedAt {
                    point,
                    turn_id,
                    model,
                };
                self.run_hooks(id, at, running);
            }
            Effect::CancelModel { id }
            | Effect::CancelPreparation { id }
            | Effect::Withdraw { id } => {
                if let Some(cancel) = running.cancels.remove(&id) {
                    cancel.cancel();
                }
            }
            Effect::CancelTool { id } | Effect::CancelHooks { id } => {
                if let Some(cancel) = running.cancels.get(&id) {
                    cancel.cancel();
                }
            }
            Effect::AbandonTool { id } => {
                if let Some(cancel) = running.cancels.remove(&id) {
                    cancel.cancel();
                }
                if let Some(task) = running.aborts.remove(&id) {
                    task.abort();
                }
            }
            Effect::Append {
                id,
                events,
                durability,
            } => self.appends.add(Append {
                id,
                events,
                durability,
            }),
            Effect::Publish(payload) => self.hub.publish_best_effort(payload),
            Effect::ArmTimer { id, after } => {
                running.timers.insert(id, after);
            }
            Effect::TurnOver {
                turn_id,
                store_error,
            } => {
                self.seat.turn_over(&turn_id);
                self.judged_definitions.clear();
                self.hub.turn_over();
                if store_error.is_some()
                    && let Some(error) = &self.appends.error
                {
                    self.hub.lose_turn(&turn_id, error.clone());
                }
            }
            // Counted when it was said.
            Effect::TurnOpened { .. } => {}
            Effect::SaveRule { rule } => return self.save_rule(rule).await,
            Effect::Closed => {}
        }
        None
    }

    /// Says what the trace lacks, while somebody still listens. Later nobody
    /// would know.
    pub(super) async fn tell_of_trace(&mut self, running: &mut Running) {
        let Some(traces) = &self.services.traces else {
            return;
        };
        traces.flush().await;
        if let Some(error) = self.hub.take_trace_error() {
            let message = error.to_string();
            self.feed(Input::Warn { message }, running).await;
        }
    }

    // --- before a turn ---------------------------------------------------

    /// Prepares a turn. What the texts of its skills and commands have run goes
    /// on beside the owner, which stays free to cancel it.
    async fn prepare_turn(
        &mut self,
        id: EffectId,
        model: &ModelId,
        uses: &[ResourceUse],
        running: &mut Running,
    ) -> Option<Input> {
        let cancel = CancellationToken::new();
        let sender = running.outcome_sender.clone();
        let (mut preparation, texts) = match self.prepare(model, uses, &sender, &cancel).await {
            Ok(prepared) => prepared,
            Err(error) => {
                let preparation = Err(error);
                return Some(Input::Prepared { id, preparation });
            }
        };
        let tools = self.tools.clone();
        let finish = async move {
            for text in texts {
                match text.finish(&tools).await {
                    Some(FinishedText::Note(note)) => preparation.uses.push(note),
                    Some(FinishedText::Prompt(text)) => preparation.prompt.push(text),
                    None => {}
                }
            }
            let preparation = Ok(preparation);
            Input::Prepared { id, preparation }
        };
        let mut finish = Box::pin(finish);
        if let Some(prepared) = finish.as_mut().now_or_never() {
            return Some(prepared);
        }
        running.cancels.insert(id, cancel);
        running.tasks.spawn(async move {
            let _ = sender.send(finish.await);
        });
        None
    }

    async fn prepare(
        &mut self,
        model: &ModelId,
        uses: &[ResourceUse],
        sender: &mpsc::UnboundedSender<Input>,
        cancel: &CancellationToken,
    ) -> Result<(Preparation, Vec<UsedText>), TurnError> {
        self.check_late_sources()?;
        let mut preparation = Preparation::default();
        let models = self.blueprint.bounds.models.as_ref();
        if models.is_some_and(|models| !models.contains(model)) {
            let error = model_outside(model);
            let told = TurnError::new(error.code(), error.to_string());
            return Err(told.with_hint(error.hint().unwrap_or_default()));
        }
        let served = self
            .services
            .models
            .resolve(model)
            .map_err(|error| TurnError::new(error.code(), error.to_string()))?;
        self.check_price(&served).map_err(|error| {
            let told = TurnError::new(error.code(), error.to_string());
            told.with_hint(error.hint().unwrap_or_default())
        })?;
        let (resolved, provider) = served;
        preparation.answered_by = ReplayMeta {
            provider_name: Some(resolved.provider.clone()),
            model: Some(resolved.model.clone()),
        };
        preparation.media = provider.model_capabilities(&resolved).media;
        if std::mem::take(&mut self.cut) {
            preparation.cache_break = Some(CacheBreakReason::ResourcesReplaced);
        }
        self.take_up_resources(&mut preparation);
        if preparation.cache_break.is_some() {
            preparation.snapshot_revision = Some(self.resources.snapshot.revision.clone());
        }
        self.take_up_tools(&mut preparation);
        if let Some(Input::LateTools { tools }) = self.take_up_late_tools(sender) {
            preparation.late_tools = Some(tools);
        }
        let texts = self.take_up_uses(uses, cancel).await?;
        let trace_error = self.hub.take_trace_error();
        preparation
            .warnings
            .extend(trace_error.map(|error| error.to_string()));
        self.look_around(&mut preparation).await;
        self.look_at_instructions(&mut preparation).await;
        self.note_resources(&mut preparation);
        Ok((preparation, texts))
    }

    /// Takes up tools that were replaced since the last turn.
    fn take_up_tools(&mut self, preparation: &mut Preparation) {
        if let Some(own) = self.own_tools.take() {
            let bounds = &self.blueprint.bounds;
            let tools = Toolset::of_session(&self.services.toolset(), bounds, &own.0);
            let types = AgentTypes::of(&self.resources.snapshot).lines();
            let tools = tools.with_agent_types(&types);
            self.other_tools |= tools.revision != self.tools.revision;
            self.tools = tools;
            self.late_revision = 0;
            self.final_tools = FinalTools::default();
        }
        if std::mem::take(&mut self.other_tools) {
            preparation.tools_revision = Some(self.tools.revision.clone());
            preparation.tools = Some(self.tools.callable.clone());
        }
    }

    /// Refuses a turn while a source has failed that the session needs.
    fn check_late_sources(&self) -> Result<(), TurnError> {
        let late = self.services.late_tools.as_ref().map(|it| it.current());
        match late.as_ref().and_then(|late| late.failure()) {
            None => Ok(()),
            Some(message) => Err(TurnError::new("required_source_failed", message).with_hint(
                "repair it and start again, or configure it so that it is not required",
            )),
        }
    }

    /// Takes up tools that joined since this was last asked.
    pub(super) fn take_up_late_tools(
        &mut self,
        sender: &mpsc::UnboundedSender<Input>,
    ) -> Option<Input> {
        let late = self.services.late_tools.as_ref()?.current();
        if late.revision() == self.late_revision {
            return None;
        }
        self.late_revision = late.revision();
        // The root says it for those below it.
        let is_root = self.blueprint.parent_session_id.is_none();
        let told = self.late_problems_told;
        for message in late.problems_since(told).filter(|_| is_root) {
            let message = message.to_owned();
            let _ = sender.send(Input::Warn { message });
        }
        self.late_problems_told = late.revision();
        let own = self.tools.without_late();
        let (tools, warnings) = own.with_late(&late, &self.blueprint.bounds);
        for message in warnings {
            let _ = sender.send(Input::Warn { message });
        }
        for message in self.lost_approvals(&tools) {
            let _ = sender.send(Input::Warn { message });
        }
        self.tools = Arc::new(tools);
        let tools = self.tools.late.clone();
        Some(Input::LateTools { tools })
    }

    /// The deferred tools that requests hold.
    pub(super) fn loaded_tools(&self) -> Arc<[Arc<ToolSpec>]> {
        let loaded = self.engine.state().memory.loaded_tools.iter();
        let is_sent = |name: &ToolName| self.tools.specs.iter().any(|spec| spec.name == *name);
        let loaded = loaded.filter(|tool| !is_sent(&tool.spec.name));
        loaded.map(|tool| tool.spec.clone()).collect()
    }

    async fn look_around(&self, preparation: &mut Preparation) {
        let (services, at) = (self.services.clone(), self.services.clock.now());
        let directory = self.blueprint.working_dir.clone();
        // Where the files cannot be reached, nothing is known to have changed.
        let Ok(files) = services.exec.files(&directory).await else {
            return;
        };
        let look = move || look_around(&services, &directory, files.as_ref(), at);
        let probed = tokio::task::spawn_blocking(look).await;
        let known = self.engine.state().environment.as_ref();
        let known = known.unwrap_or(&self.blueprint.environment);
        if let Ok(now) = probed
            && now != *known
        {
            let text = describe_change(known, &now);
            preparation.environment = Some((now, text));
        }
    }

    // --- the model -------------------------------------------------------

    fn call_model(
        &mut self,
        id: EffectId,
        model: &ModelId,
        asked: AskedModel,
        running: &mut Running,
    ) {
        let cancel = CancellationToken::new();
        running.cancels.insert(id, cancel.clone());
        let sender = running.model_sender.clone();
        match self.services.models.resolve(model) {
            Ok((mut resolved, provider)) => {
                if let Some(limit) = asked.output_limit {
                    resolved.max_output_tokens = Some(limit);
                }
                let mut request = ProviderRequest {
                    session_id: self.blueprint.session_id.clone(),
                    turn_id: asked.turn_id,
                    model: resolved,
                    prompt: self.prompt.clone(),
                    messages: asked.messages,
                    tools: self.tools.specs.clone(),
                    response_schema: asked.response_schema,
                    purpose: RequestPurpose::Answer,
                    attempts: self.paid_attempts.take().map(|it| Arc::new(it) as _),
                    loaded_tools: self.loaded_tools(),
                };
                if !provider.capabilities().structured_output {
                    self.final_tools.replace_schema(&mut request);
                }
                let provider = provider.clone();
                running.tasks.spawn(async move {
                    let answer = stream_answer(id, provider, request, cancel, sender.clone());
                    if AssertUnwindSafe(answer).catch_unwind().await.is_err() {
                        let error = Some(ProviderError::new(
                            "the provider panicked, which is a defect in it",
                            ProviderErrorKind::Fatal,
                        ));
                        let _ = sender.send(Input::ModelEnded { id, error }).await;
                    }
                });
            }
            Err(error) => {
                let error = ProviderError::new(error.to_string(), ProviderErrorKind::Fatal);
                let _ = running.outcome_sender.send(Input::ModelEnded {
                    id,
                    error: Some(error),
                });
            }
        }
    }

    // --- tools -----------------------------------------------------------

    /// Has a rule hold for good. If that fails it holds for the session, and
    /// the user is told.
    async fn save_rule(&self, rule: String) -> Option<Input> {
        let store = self.services.rule_store.clone()?;
        let saved = tokio::task::spawn_blocking(move || store.save_allow(&rule)).await;
        let problem = match saved {
            Ok(Ok(_)) => return None,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the place where rules are kept panicked".to_owned(),
        };
        let message = format!("{problem}; the rule holds for this session");
        Some(Input::Warn { message })
    }

    pub(super) async fn tool_context(
        &mut self,
        call: &ToolCall,
        cancel: CancellationToken,
    ) -> Result<ToolContext, ToolError> {
        let surroundings = Surroundings {
            blueprint: &self.blueprint,
            resources: &self.resources,
            memory: self.engine.state().memory.clone(),
            tools: &self.tools,
        };
        self.toolbox
            .context(call, surroundings, &self.hub, cancel)
            .await
    }

    async fn run_tool(
        &mut self,
        id: EffectId,
        call: ToolCall,
        running: &mut Running,
    ) -> Option<Input> {
        let cancel = CancellationToken::new();
        running.cancels.insert(id, cancel.clone());
        let models = self.model_of_call(&cancel, running);
        let mut context = match self.judged_context(&call, cancel.clone()).await {
            Ok(context) => context,
            Err(error) => {
                return Some(Input::ToolFinished {
                    id,
                    result: Err(error),
                    remembered: Vec::new(),
                    note: None,
                });
            }
        };
        let remembered = context.remembered.clone();
        let reached = self.reached_by(&call);
        let skill = self.skill_used_by(&call, &cancel).await;
        let tools = self.tools.clone();
        let sender = running.outcome_sender.clone();
        let policy = context.policy.clone();
        context.subagents = Some(self.subagents_under(&running.core, policy));
        context.models = models;
        context.emit = Arc::new(RefusalSink {
            call_id: call.id.clone(),
            sender: sender.clone(),
            output: context.emit,
        });
        context.asker = Arc::new(SessionAsker {
            id,
            call: call.clone(),
            waiting: self.waiting_tools.clone(),
            sender: sender.clone(),
            ids: self.services.ids.clone(),
            at: self.services.clock.now(),
        });
        context.hosts = Some(HostQuestions::new(
            context.asker.clone(),
            context.policy.clone(),
            context.cancel.clone(),
        ));
        // A task of its own: a tool that panics takes nothing with it.
        let tool = tokio::spawn(async move {
            let result = tools.tools.execute(&call, context).await?;
            let text = match skill {
                Some(skill) => skill.finish(&tools).await,
                None => None,
            };
            Ok((result, text))
        });
        running.aborts.insert(id, tool.abort_handle());
        running.tasks.spawn(async move {
            let ended = tool.await.unwrap_or_else(|error| Err(broken_tool(&error)));
            let (result, text) = match ended {
                Ok((result, text)) => (Ok(result), text),
                Err(error) => (Err(error), None),
            };
            let note = match (reached.filter(|_| result.is_ok()), text) {
                (Some(reached), _) => reached.look(&sender).await,
                (None, Some(FinishedText::Note(note))) => Some(note),
                _ => None,
            };
            let _ = sender.send(Input::ToolFinished {
                id,
                result: result.map(Arc::new),
                remembered: remembered.take(),
                note,
            });
        });
        None
    }
}

/// What the model is asked.
pub(super) struct AskedModel {
    turn_id: TurnId,
    messages: Transcript,
    response_schema: Option<ResponseSchema>,
    output_limit: Option<u32>,
}

/// The prompt of a session with some resources.
pub(crate) fn assemble(
    services: &RuntimeServices,
    blueprint: &SessionBlueprint,
    resources: &Resources,
    tools: &Toolset,
) -> AssembledPrompt {
    let styled = resources.style.as_ref().map(|style| SessionBlueprint {
        system_prompt: services.prompts.with_style(&blueprint.system_prompt, style),
        ..blueprint.clone()
    });
    services.prompt_assembler.assemble(PromptContext {
        blueprint: styled.as_ref().unwrap_or(blueprint),
        resources: &resources.snapshot,
        tools: &tools.callable,
    })
}

/// Passes a model's words on as they come, until they end or nobody listens.
async fn stream_answer(
    id: EffectId,
    provider: Arc<dyn Provider>,
    request: ProviderRequest,
    cancel: CancellationToken,
    sender: mpsc::Sender<Input>,
) {
    let opened = tokio::select! {
        biased;
        () = cancel.cancelled() => return,
        opened = provider.stream(request, cancel.clone()) => opened,
    };
    let mut stream = match opened {
        Ok(stream) => stream,
        Err(error) => {
            let error = Some(provider_error(error));
            let _ = sender.send(Input::ModelEnded { id, error }).await;
            return;
        }
    };
    let error = loop {
        let next = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            next = stream.next() => next,
        };
        match next {
            Some(Ok(event)) => {
                if sender.send(Input::Model { id, event }).await.is_err() {
                    return;
                }
            }
            Some(Err(error)) => break Some(error),
            None => break None,
        }
    };
    let _ = sender.send(Input::ModelEnded { id, error }).await;
}

pub(super) fn provider_error(error: anyhow::Error) -> ProviderError {
    match error.downcast::<ProviderError>() {
        Ok(error) => error,
        Err(error) => ProviderError::new(format!("{error:#}"), ProviderErrorKind::Fatal),
    }
}

fn broken_tool(error: &tokio::task::JoinError) -> ToolError {
    let message = if error.is_panic() {
        "the tool panicked; it may or may not have taken effect"
    } else {
        "the tool was given up; it may or may not have taken effect"
    };
    ToolError::new(ToolErrorCode::OutcomeUnknown, message)
}
