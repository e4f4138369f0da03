//! Making a session's context smaller: what the context manager is given, and
//! what becomes of what it returns.

use super::budget::{SummaryAccount, worst_case};
use super::native_compaction::ServiceCompactor;
use super::{Owner, Running};
use crate::context::reference::one_line;
use crate::context::{
    CompactionRequest, ContextPlan, ContextReport, ContextRequest, NativeCompactor, Summarizer,
    Summary, compacted,
};
use crate::engine::answer::Answer;
use crate::engine::{EffectId, Input};
use crate::error::HalterError;
use crate::limits::{
    PROCESS_LIST_DEADLINE, REMEMBERED_PROCESSES, SUMMARY_DEADLINE, SUMMARY_OUTPUT_TOKENS,
};
use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use halter_protocol::{
    AssembledPrompt, AssistantPart, CompactionReason, ContextMark, Message, MessageId, ModelId,
    ModelRole, PromptSegment, PromptSegmentKind, ProviderError, ProviderErrorKind, ProviderKind,
    ReplayMeta, ResolvedModel, SessionId, Transcript, TurnId, UserMessage, UserPart,
};
use halter_providers::catalog::DEFAULT_CONTEXT_WINDOW;
use halter_providers::tokens::of_bytes;
use halter_providers::{Provider, ProviderRequest, RequestPurpose, ServedModel};
use halter_tools::ExecSession;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a compaction is about.
pub(super) struct AskedCompaction {
    pub turn_id: Option<TurnId>,
    pub model: ModelId,
    pub reason: CompactionReason,
    pub instructions: Option<String>,
    pub message_id: MessageId,
}

impl Owner {
    /// Whether the context is to be compacted before the model is asked. A
    /// model that cannot be resolved says so when it is asked.
    pub(super) fn is_context_too_large(&mut self, model: &ModelId) -> bool {
        let Ok(served) = self.services.models.resolve(model) else {
            return false;
        };
        let manager = self.services.context_manager.clone();
        let (tokens, plan) = self.with_context(&served, |request| {
            (manager.size(request).tokens, manager.plan(request))
        });
        self.counted = Some(ContextMark {
            messages: self.engine.state().messages.len(),
            tokens,
        });
        plan == ContextPlan::Compact
    }

    /// How the context stands, for the model of turns that name none.
    pub(super) fn context_report(&self) -> Result<ContextReport, HalterError> {
        let model = &self.blueprint.default_model;
        let served = self.services.models.resolve(model);
        let served = served.map_err(|error| HalterError::new(error.code(), error.to_string()))?;
        let manager = self.services.context_manager.as_ref();
        Ok(self.with_context(&served, |request| ContextReport::new(manager, request)))
    }

    pub(super) fn with_context<T>(
        &self,
        (model, provider): &ServedModel,
        look: impl FnOnce(ContextRequest<'_>) -> T,
    ) -> T {
        look(ContextRequest {
            blueprint: &self.blueprint,
            model,
            capabilities: &provider.model_capabilities(model),
            state: self.engine.state(),
            prompt: &self.prompt,
            tools: &self.tools.specs,
            counted: self.counted,
        })
    }

    /// Starts a compaction.
    pub(super) fn compact(
        &mut self,
        id: EffectId,
        asked: AskedCompaction,
        running: &mut Running,
    ) -> Option<Input> {
        let nothing = Input::Compacted {
            id,
            compaction: None,
        };
        let Ok((model, provider)) = self.services.models.resolve(&asked.model) else {
            return Some(nothing);
        };
        self.counted = None;
        let cancel = CancellationToken::new();
        running.cancels.insert(id, cancel.clone());
        let at = self.services.clock.now();
        let account = self.summary_account(asked.turn_id.as_ref(), running);
        let turn_id = asked
            .turn_id
            .unwrap_or_else(|| TurnId::mint(self.services.ids.as_ref(), at));
        let writer = self.writer_of_summaries(&(model.clone(), provider.clone()));
        let capabilities = provider.model_capabilities(&model);
        let native = capabilities.native_compaction.then(|| {
            Arc::new(ServiceCompactor {
                provider: provider.clone(),
                request: ProviderRequest {
                    session_id: self.blueprint.session_id.clone(),
                    turn_id: turn_id.clone(),
                    model: model.clone(),
                    prompt: self.prompt.clone(),
                    messages: Transcript::default(),
                    tools: self.tools.specs.clone(),
                    response_schema: None,
                    purpose: RequestPurpose::Compaction,
                    attempts: None,
                    loaded_tools: self.loaded_tools(),
                },
                cancel: cancel.clone(),
                account: account.clone(),
            }) as Arc<dyn NativeCompactor>
        });
        let session_id = &self.blueprint.session_id;
        let mut summarizer = ModelSummarizer::new(writer, session_id, turn_id, &cancel);
        summarizer.account = account;
        let mut request = CompactionRequest {
            blueprint: self.blueprint.clone(),
            capabilities,
            model,
            state: self.engine.state().clone(),
            prompt: self.prompt.clone(),
            tools: self.tools.specs.clone(),
            reason: asked.reason,
            instructions: asked.instructions,
            processes: Vec::new(),
            summarizer: Arc::new(summarizer),
            native,
            message_id: asked.message_id,
            at,
        };
        let manager = self.services.context_manager.clone();
        let exec = self.toolbox.open_exec();
        let sender = running.outcome_sender.clone();
        running.tasks.spawn(async move {
            let work = async {
                request.processes = processes(exec).await;
                compacted(manager.as_ref(), request).await
            };
            let done = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                done = AssertUnwindSafe(work).catch_unwind() => done,
            };
            let compaction = done.unwrap_or_else(|_| {
                tracing::error!("the context manager panicked, which is a defect in it");
                None
            });
            let _ = sender.send(Input::Compacted { id, compaction });
        });
        None
    }

    /// The model of the role `small`, unless the session may not use it.
    fn writer_of_summaries(&self, own: &ServedModel) -> ServedModel {
        let small = ModelId::from(ModelRole::Small.as_str());
        let models = self.blueprint.bounds.models.as_ref();
        if models.is_some_and(|models| !models.contains(&small)) {
            return own.clone();
        }
        let registered = self.services.models.registered(&small);
        registered.unwrap_or_else(|| own.clone())
    }
}

/// What the session's commands left running.
async fn processes(exec: Option<Arc<dyn ExecSession>>) -> Vec<String> {
    let Some(exec) = exec else { return Vec::new() };
    let listed = tokio::time::timeout(PROCESS_LIST_DEADLINE, exec.processes(None)).await;
    let Ok(Ok(listed)) = listed else {
        return Vec::new();
    };
    let lines = listed.descendants.iter().take(REMEMBERED_PROCESSES);
    lines
        .map(|process| format!("- {} {}", process.pid, one_line(&process.command, 200)))
        .collect()
}

/// Asks a model for summaries.
struct ModelSummarizer {
    model: ResolvedModel,
    provider: Arc<dyn Provider>,
    session_id: SessionId,
    turn_id: TurnId,
    cancel: CancellationToken,
    account: Option<SummaryAccount>,
}

impl ModelSummarizer {
    fn new(
        (mut model, provider): ServedModel,
        session_id: &SessionId,
        turn_id: TurnId,
        cancel: &CancellationToken,
    ) -> Self {
        let most = u32::try_from(SUMMARY_OUTPUT_TOKENS).unwrap_or(u32::MAX);
        let limit = model
            .max_output_tokens
            .map_or(most, |limit| limit.min(most));
        model.max_output_tokens = Some(limit);
        Self {
            model,
            provider,
            // A conversation of its own: the session's goes on being cached.
            session_id: SessionId(format!("{session_id}-summary")),
            turn_id,
            cancel: cancel.clone(),
            account: None,
        }
    }

    async fn ask(&self, request: ProviderRequest) -> Result<Answer, ProviderError> {
        let mut stream = self
            .provider
            .stream(request, self.cancel.clone())
            .await
            .map_err(super::effects::provider_error)?;
        let mut answer = Answer::default();
        while let Some(event) = stream.next().await {
            answer.take(event?);
        }
        Ok(answer)
    }
}

#[async_trait]
impl Summarizer for ModelSummarizer {
    fn window(&self) -> u64 {
        let known = self.provider.model_capabilities(&self.model).context_window;
        let window = self.model.max_input_tokens.or(known);
        u64::from(window.unwrap_or(DEFAULT_CONTEXT_WINDOW))
    }

    async fn summarize(&self, prompt: &str, text: String) -> Result<Summary, ProviderError> {
        if self.model.provider_kind == ProviderKind::Offline {
            let message = "the offline model writes no summaries";
            return Err(ProviderError::new(message, ProviderErrorKind::Fatal));
        }
        let mut model = self.model.clone();
        let served = (model.clone(), self.provider.clone());
        let worst = worst_case(&served, of_bytes(prompt.len() + text.len()));
        let account = self.account.as_ref();
        let mut paid = account.map(|account| account.reserve(worst)).transpose()?;
        if let Some(limit) = paid.as_ref().and_then(|paid| paid.output_limit()) {
            model.max_output_tokens = Some(limit);
        }
        let message = UserMessage {
            parts: vec![UserPart::Text { text }],
            ..UserMessage::text("")
        };
        let request = ProviderRequest {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id.clone(),
            model,
            prompt: AssembledPrompt::new([PromptSegment::new(PromptSegmentKind::System, prompt)]),
            messages: Transcript::from_iter([Message::User(message)]),
            tools: Arc::new([]),
            response_schema: None,
            purpose: RequestPurpose::Answer,
            attempts: paid.as_ref().map(|paid| paid.attempts()),
            loaded_tools: Arc::default(),
        };
        let asked = tokio::time::timeout(SUMMARY_DEADLINE, self.ask(request));
        let answer = asked.await.unwrap_or_else(|_| {
            let seconds = SUMMARY_DEADLINE.as_secs();
            let message = format!("the summary was not written within {seconds} s");
            Err(ProviderError::new(message, ProviderErrorKind::Transient))
        })?;
        let usage = answer.usage().unwrap_or_default();
        if let Some(paid) = &mut paid {
            paid.used(usage);
        }
        let parts = answer.into_parts();
        let text = parts.into_iter().filter_map(|part| match part {
            AssistantPart::Text { text, .. } => Some(text),
            _ => None,
        });
        Ok(Summary {
            text: text.collect(),
            usage,
            answered_by: ReplayMeta {
                provider_name: Some(self.model.provider.clone()),
                model: Some(self.model.model.clone()),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_tools::exec::{
        ExecCommand, FinishedCommand, KillOutcome, ProcessInfo, SessionProcesses, TextListener,
    };

    /// A place with so many processes; none answers.
    struct ListedProcesses(Option<usize>);

    #[async_trait]
    impl ExecSession for ListedProcesses {
        async fn run(
            &self,
            _: ExecCommand,
            _: &CancellationToken,
            _: &TextListener<'_>,
        ) -> anyhow::Result<FinishedCommand> {
            anyhow::bail!("nothing runs here")
        }

        async fn processes(&self, _: Option<i32>) -> anyhow::Result<SessionProcesses> {
            let Some(count) = self.0 else {
                std::future::pending::<()>().await;
                anyhow::bail!("never")
            };
            let process = |pid| ProcessInfo {
                pid,
                ppid: 1,
                command: format!("sleep {pid}"),
                state: 'S',
                start_time: 0,
            };
            Ok(SessionProcesses {
                root: Some(1),
                descendants: (2..).take(count).map(process).collect(),
            })
        }

        async fn signal_tree(&self, _: i32, _: i32) -> anyhow::Result<Vec<KillOutcome>> {
            Ok(Vec::new())
        }

        async fn close(&self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn what_runs_is_listed_within_bounds() {
        let listed = |place| processes(Some(Arc::new(place) as Arc<dyn ExecSession>));
        assert_eq!(processes(None).await, Vec::<String>::new());
        assert_eq!(listed(ListedProcesses(Some(1))).await, ["- 2 sleep 2"]);
        let many = listed(ListedProcesses(Some(REMEMBERED_PROCESSES + 1))).await;
        assert_eq!(many.len(), REMEMBERED_PROCESSES);
        let started = tokio::time::Instant::now();
        assert!(listed(ListedProcesses(None)).await.is_empty());
        assert_eq!(started.elapsed(), PROCESS_LIST_DEADLINE);
    }
}
