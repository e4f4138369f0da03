//! Making a session's context smaller: what the context manager is given, and
//! what becomes of what it returns.

use super::native_compaction::ServiceCompactor;
use super::side_model::{SideModel, SideQuestion, words};
use super::{Owner, Running};
use crate::context::reference::one_line;
use crate::context::{
    CompactionRequest, ContextPlan, ContextReport, ContextRequest, NativeCompactor, Summarizer,
    Summary, compacted,
};
use crate::engine::{EffectId, Input};
use crate::error::HalterError;
use crate::limits::{
    PROCESS_LIST_DEADLINE, REMEMBERED_PROCESSES, SUMMARY_DEADLINE, SUMMARY_OUTPUT_TOKENS,
};
use async_trait::async_trait;
use futures::FutureExt;
use halter_protocol::{
    CompactionReason, ContextMark, Message, MessageId, ModelId, ProviderError, ProviderErrorKind,
    ProviderKind, ReplayMeta, SessionId, Transcript, TurnId, UserMessage, UserPart,
};
use halter_providers::catalog::DEFAULT_CONTEXT_WINDOW;
use halter_providers::{ProviderRequest, RequestPurpose, ServedModel};
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
        let account = self.side_account(asked.turn_id.as_ref(), running);
        let turn_id = asked
            .turn_id
            .unwrap_or_else(|| TurnId::mint(self.services.ids.as_ref(), at));
        let writer = self.small_model(&(model.clone(), provider.clone()));
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
        let summarizer = ModelSummarizer(SideModel {
            model: writer.0,
            provider: writer.1,
            session_id: SessionId(format!("{}-summary", self.blueprint.session_id)),
            turn_id,
            cancel: cancel.clone(),
            account,
        });
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
struct ModelSummarizer(SideModel);

#[async_trait]
impl Summarizer for ModelSummarizer {
    fn window(&self) -> u64 {
        let Self(SideModel {
            model, provider, ..
        }) = self;
        let known = provider.model_capabilities(model).context_window;
        let window = model.max_input_tokens.or(known);
        u64::from(window.unwrap_or(DEFAULT_CONTEXT_WINDOW))
    }

    async fn summarize(&self, prompt: &str, text: String) -> Result<Summary, ProviderError> {
        let model = &self.0.model;
        if model.provider_kind == ProviderKind::Offline {
            let message = "the offline model writes no summaries";
            return Err(ProviderError::new(message, ProviderErrorKind::Fatal));
        }
        let message = UserMessage {
            parts: vec![UserPart::Text { text }],
            ..UserMessage::text("")
        };
        let question = SideQuestion {
            prompt,
            messages: Transcript::from_iter([Message::User(message)]),
            output_tokens: u32::try_from(SUMMARY_OUTPUT_TOKENS).unwrap_or(u32::MAX),
            deadline: SUMMARY_DEADLINE,
        };
        let answer = self.0.answer(question).await?;
        Ok(Summary {
            usage: answer.usage().unwrap_or_default(),
            text: words(answer),
            answered_by: ReplayMeta {
                provider_name: Some(model.provider.clone()),
                model: Some(model.model.clone()),
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
