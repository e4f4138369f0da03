//! How each effect is carried out.

use super::catalog::event_name;
use super::{Owner, Running};
use crate::engine::{Effect, EffectId, HookOutcome, HookPoint, Input, Preparation};
use crate::prompt::{PromptContext, describe_change};
use crate::services::{Resources, RuntimeServices};
use futures::{FutureExt, StreamExt};
use halter_hooks::{
    HookDispatch, HookObserver, HookPayload, HookVerdict, SessionStartSource, StopHookActive,
    payload::tool_result,
};
use halter_protocol::{
    AssembledPrompt, CacheBreakReason, HookRunSummary, ModelId, PendingEvent, ProviderError,
    ProviderErrorKind, ReplayMeta, ResponseSchema, SessionBlueprint, SessionEvent,
    SessionEventPayload, ToolCall, ToolError, ToolErrorCode, ToolResult, Transcript, TurnError,
    TurnId,
};
use halter_providers::{Provider, ProviderRequest};
use halter_session::{Durability, StoreError};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

impl Owner {
    /// Carries an effect out, or starts to. Returns what the engine should
    /// hear at once.
    pub(super) async fn perform(&mut self, effect: Effect, running: &mut Running) -> Option<Input> {
        match effect {
            Effect::PrepareTurn { id, model, .. } => {
                let preparation = self.prepare(&model).await;
                return Some(Input::Prepared { id, preparation });
            }
            Effect::CallModel {
                id,
                turn_id,
                model,
                messages,
                response_schema,
            } => {
                let asked = Asked {
                    turn_id,
                    messages,
                    response_schema,
                };
                self.call_model(id, &model, asked, running);
            }
            Effect::RunTool { id, call } => return self.run_tool(id, call, running).await,
            Effect::RunHooks { id, point, turn_id } => self.run_hooks(id, point, turn_id, running),
            Effect::CancelModel { id } => {
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
            } => return Some(self.append(id, events, durability, running).await),
            Effect::Publish(payload) => self.hub.publish_best_effort(payload),
            Effect::ArmTimer { id, after } => {
                running.timers.insert(id, after);
            }
            Effect::TurnOver {
                turn_id,
                store_error,
            } => {
                self.hub.turn_over();
                if store_error.is_some()
                    && let Some(error) = &self.store_error
                {
                    self.hub.lose_turn(turn_id, error.clone());
                }
            }
            Effect::Closed => {}
        }
        None
    }

    async fn append(
        &mut self,
        id: EffectId,
        events: Vec<PendingEvent>,
        durability: Durability,
        running: &Running,
    ) -> Input {
        self.hub.announce(&events);
        match self.log.append(events, durability).await {
            Ok(committed) => {
                self.store_error = None;
                self.publish(committed);
                Input::Committed { id }
            }
            Err(error) => {
                tracing::error!(session_id = %self.log.session_id(), %error, "append failed");
                if error.is_conflict() || matches!(error, StoreError::NotFound { .. }) {
                    running.core.overtaken();
                }
                let told = TurnError::new(error.code(), error.to_string());
                self.store_error = Some(error);
                Input::StoreFailed { id, error: told }
            }
        }
    }

    pub(super) fn publish(&self, committed: Vec<Arc<SessionEvent>>) {
        for event in committed {
            self.hub.publish(event);
        }
    }

    /// Says what the trace lacks, while somebody still listens. Later nobody
    /// would know.
    pub(super) async fn tell_of_trace(&mut self) {
        let Some(traces) = &self.services.traces else {
            return;
        };
        traces.flush().await;
        let Some(error) = self.hub.take_trace_error() else {
            return;
        };
        let warning = SessionEventPayload::Warning {
            message: error.to_string(),
        };
        let at = self.services.clock.now();
        let event = PendingEvent::new(self.log.session_id().clone(), at, warning);
        // A store that fails here fails again at the end, which says so.
        let committed = self.log.append(vec![event], Durability::Buffered).await;
        self.publish(committed.unwrap_or_default());
    }

    // --- before a turn ---------------------------------------------------

    async fn prepare(&mut self, model: &ModelId) -> Result<Preparation, TurnError> {
        let mut preparation = Preparation::default();
        let (resolved, _) = self
            .services
            .models
            .resolve(model)
            .map_err(|error| TurnError::new(error.code(), error.to_string()))?;
        preparation.answered_by = ReplayMeta {
            provider_name: Some(resolved.provider.clone()),
            model: Some(resolved.model.clone()),
        };
        if std::mem::take(&mut self.cut) {
            preparation.cache_break = Some(CacheBreakReason::ResourcesReplaced);
        }
        self.take_up_resources(&mut preparation);
        if preparation.cache_break.is_some() {
            preparation.snapshot_revision = Some(self.resources.snapshot.revision.clone());
        }
        preparation.tools_revision = self.other_tools.take();
        let trace_error = self.hub.take_trace_error();
        preparation
            .warnings
            .extend(trace_error.map(|error| error.to_string()));
        self.look_around(&mut preparation).await;
        Ok(preparation)
    }

    /// Takes up resources that were replaced since the last turn.
    fn take_up_resources(&mut self, preparation: &mut Preparation) {
        let current = self.services.resources.get();
        if Arc::ptr_eq(&current, &self.resources) {
            return;
        }
        preparation.warnings = current.warnings.clone();
        self.catalog.take_up(current.clone());
        self.resources = current;
        let prompt = assemble(&self.services, self.log.blueprint(), &self.resources);
        if prompt != self.prompt {
            self.prompt = prompt;
            preparation.cache_break = Some(CacheBreakReason::ResourcesReplaced);
        }
    }

    async fn look_around(&self, preparation: &mut Preparation) {
        let blueprint = self.log.blueprint().clone();
        let (services, at) = (self.services.clone(), self.services.clock.now());
        let directory = blueprint.working_dir.clone();
        let probed = tokio::task::spawn_blocking(move || services.probe.look(&directory, at)).await;
        let known = self.engine.state().environment.as_ref();
        let known = known.unwrap_or(&blueprint.environment);
        if let Ok(now) = probed
            && now != *known
        {
            let text = describe_change(known, &now);
            preparation.environment = Some((now, text));
        }
    }

    // --- the model -------------------------------------------------------

    fn call_model(&mut self, id: EffectId, model: &ModelId, asked: Asked, running: &mut Running) {
        let cancel = CancellationToken::new();
        running.cancels.insert(id, cancel.clone());
        let sender = running.model_sender.clone();
        match self.services.models.resolve(model) {
            Ok((resolved, provider)) => {
                let mut request = ProviderRequest {
                    session_id: self.log.session_id().clone(),
                    turn_id: asked.turn_id,
                    model: resolved.clone(),
                    prompt: self.prompt.clone(),
                    messages: asked.messages,
                    tools: self.tools.clone(),
                    response_schema: asked.response_schema,
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

    async fn run_tool(
        &mut self,
        id: EffectId,
        call: ToolCall,
        running: &mut Running,
    ) -> Option<Input> {
        let cancel = CancellationToken::new();
        running.cancels.insert(id, cancel.clone());
        let blueprint = self.log.blueprint().clone();
        let context = self
            .toolbox
            .context(&call, &blueprint, &self.resources, &self.hub, cancel)
            .await;
        let context = match context {
            Ok(context) => context,
            Err(error) => {
                let result = Err(error);
                return Some(Input::ToolFinished { id, result });
            }
        };
        let services = self.services.clone();
        let sender = running.outcome_sender.clone();
        // A task of its own: a tool that panics takes nothing with it.
        let tool = tokio::spawn(async move { services.tools.execute(&call, context).await });
        running.aborts.insert(id, tool.abort_handle());
        running.tasks.spawn(async move {
            let result = tool.await.unwrap_or_else(|error| Err(broken_tool(&error)));
            let _ = sender.send(Input::ToolFinished { id, result });
        });
        None
    }

    // --- hooks -----------------------------------------------------------

    fn run_hooks(
        &mut self,
        id: EffectId,
        point: HookPoint,
        turn_id: Option<TurnId>,
        running: &mut Running,
    ) {
        let cancel = CancellationToken::new();
        running.cancels.insert(id, cancel.clone());
        running.hooks.insert(id);
        let blueprint = self.log.blueprint().clone();
        let hooks = self.resources.hooks.clone();
        let session = self.hooks.clone();
        let fired = self.engine.state().fired_hook_ids.clone();
        let services = self.services.clone();
        let sender = running.outcome_sender.clone();
        running.tasks.spawn(async move {
            let payload = hook_payload(&point, &blueprint, turn_id.as_ref());
            let observer = Progress(sender.clone());
            let clock = || services.clock.now();
            let context = HookDispatch {
                session: &session,
                fired: &fired,
                ids: services.ids.as_ref(),
                clock: &clock,
                cancel: &cancel,
                observer: &observer,
            };
            let verdict = hooks
                .dispatch(event_name(point.kind()), payload, None, context)
                .await;
            let outcome = hook_outcome(verdict, &point);
            let _ = sender.send(Input::HooksFinished { id, outcome });
        });
    }
}

/// What the model is asked.
pub(super) struct Asked {
    turn_id: TurnId,
    messages: Transcript,
    response_schema: Option<ResponseSchema>,
}

/// The prompt of a session with some resources.
pub(super) fn assemble(
    services: &RuntimeServices,
    blueprint: &SessionBlueprint,
    resources: &Resources,
) -> AssembledPrompt {
    services.prompt_assembler.assemble(PromptContext {
        blueprint,
        resources: &resources.snapshot,
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

fn provider_error(error: anyhow::Error) -> ProviderError {
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

/// Tells the engine of hooks as they start and end.
struct Progress(mpsc::UnboundedSender<Input>);

impl HookObserver for Progress {
    fn started(&self, run: &HookRunSummary) {
        self.tell(run, false);
    }

    fn completed(&self, run: &HookRunSummary) {
        self.tell(run, true);
    }
}

impl Progress {
    fn tell(&self, run: &HookRunSummary, ended: bool) {
        let run = run.clone();
        let _ = self.0.send(Input::HookProgress { run, ended });
    }
}

fn hook_payload(
    point: &HookPoint,
    blueprint: &SessionBlueprint,
    turn_id: Option<&TurnId>,
) -> serde_json::Value {
    let payload = HookPayload {
        session_id: &blueprint.session_id,
        turn_id,
        cwd: &blueprint.working_dir,
        model: &blueprint.default_model,
    };
    match point {
        HookPoint::SessionStart { source } => payload.session_start(match *source {
            "resume" => SessionStartSource::Resume,
            _ => SessionStartSource::Startup,
        }),
        HookPoint::SessionEnd { reason } => payload.session_end(reason),
        HookPoint::UserPromptSubmit { message } => payload.user_prompt_submit(message),
        HookPoint::PreToolUse { call } => payload.pre_tool_use(call),
        HookPoint::PostToolUse { call, result } => payload.post_tool_use(call, result),
        HookPoint::PostToolUseFailure { call, error } => payload.post_tool_use_failure(call, error),
        HookPoint::Notification(notification) => payload.notification(notification),
        HookPoint::Stop {
            active,
            last_assistant_message,
        } => {
            let active = if *active {
                StopHookActive::Yes
            } else {
                StopHookActive::No
            };
            payload.stop(last_assistant_message, active)
        }
    }
}

/// What the hooks' verdict means to the engine: whatever denies, blocks. A stop
/// is told apart from a block, for it ends the turn and hides nothing.
fn hook_outcome(verdict: HookVerdict, point: &HookPoint) -> HookOutcome {
    let conflict = verdict.conflict.as_ref().map(ToString::to_string);
    let denial = match &verdict.stop {
        Some(_) => verdict.block.clone(),
        None => verdict.denial(),
    };
    let rewritten = verdict.updated_output.map(|output| match point {
        HookPoint::PostToolUse { result, .. } => tool_result(output, result),
        _ => tool_result(output, &ToolResult::Empty),
    });
    let (updated_output, unusable) = match rewritten.transpose() {
        Ok(updated_output) => (updated_output, None),
        Err(error) => (None, Some(error.to_string())),
    };
    HookOutcome {
        block: denial.or(conflict).or(unusable),
        stop: verdict.stop,
        updated_input: verdict.updated_input,
        updated_output,
        messages: verdict
            .system_messages
            .into_iter()
            .chain(verdict.additional_context)
            .collect(),
    }
}
