//! A session as its users hold it.

use crate::context::ContextReport;
use crate::driver::live::{Owner, SessionCommand, command_queue, session_closed};
use crate::engine::media::check_attachments;
use crate::engine::structured::check_response_schema;
use crate::error::{HalterError, store_failure};
use crate::hub::SessionEvents;
use crate::init::OwnTools;
use crate::limits::BUSY_RETRY;
use crate::runtime::Registry;
use crate::services::RuntimeServices;
use crate::streams::{SessionStream, TurnStream};
use crate::subagents::{Children, Lineage, RoutedRequest, RunProgress, Totals, Tree};
use futures::FutureExt;
use halter_protocol::{
    ApprovalAnswer, ApprovalId, ContextCompaction, MediaLimits, NotificationItem, QuestionId,
    QuestionResponse, SessionBlueprint, SessionBudget, SessionEvent, SessionId, SubagentReport,
    SubagentStatus, Turn, TurnId, UserMessage,
};
use halter_session::{StoreError, export_session_trace};
use halter_tools::SubagentControl;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;

/// A session. Clones are handles of the same session; dropping all of them
/// lets a running turn finish and ends nothing. [`shutdown`](Self::shutdown)
/// does.
#[derive(Clone)]
pub struct SessionHandle {
    core: Arc<SessionCore>,
}

/// What all handles of a session share.
pub(crate) struct SessionCore {
    blueprint: Arc<SessionBlueprint>,
    services: Arc<RuntimeServices>,
    registry: Arc<Registry>,
    hub: Arc<SessionEvents>,
    children: Arc<Children>,
    /// The sessions above it, if it is a subagent of one that lives here.
    lineage: Option<Lineage>,
    tree: Arc<Tree>,
    slot: Mutex<Slot>,
    rested: Notify,
}

/// Where the owner of a session is.
enum Slot {
    /// Put away; nothing happens.
    Idle(Box<Owner>),
    /// Running as a task.
    Busy {
        commands: mpsc::Sender<SessionCommand>,
        task: AbortHandle,
    },
    /// Gone: the session has shut down.
    Closed,
}

impl SessionCore {
    pub fn new(
        owner: Owner,
        services: Arc<RuntimeServices>,
        registry: Arc<Registry>,
        hub: Arc<SessionEvents>,
        lineage: Option<Lineage>,
    ) -> Self {
        let tree = lineage.as_ref().map(|it| it.tree.clone());
        Self {
            children: Arc::new(Children::of(owner.state())),
            lineage,
            tree: tree.unwrap_or_default(),
            blueprint: owner.blueprint().clone(),
            services,
            registry,
            hub,
            slot: Mutex::new(Slot::Idle(Box::new(owner))),
            rested: Notify::new(),
        }
    }

    /// The slot is consistent whenever the lock is free, so a panic elsewhere
    /// does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn session_id(&self) -> &SessionId {
        &self.blueprint.session_id
    }

    /// The session has shut down.
    pub fn close_slot(&self) {
        *self.lock() = Slot::Closed;
        self.registry.forget(self);
        self.rested.notify_waiters();
    }

    /// Another writer has the session: this one can no longer write, and
    /// resuming opens it anew.
    pub fn overtaken(&self) {
        self.registry.forget(self);
    }

    /// Puts the owner away, unless a command came in the last moment.
    pub fn put_away(
        &self,
        owner: Box<Owner>,
        commands: &mut mpsc::Receiver<SessionCommand>,
    ) -> Option<(Box<Owner>, SessionCommand)> {
        let mut slot = self.lock();
        if let Ok(command) = commands.try_recv() {
            return Some((owner, command));
        }
        *slot = Slot::Idle(owner);
        drop(slot);
        self.rested.notify_waiters();
        None
    }

    /// How many turns were accepted and are not over.
    pub fn unfinished_turns(&self) -> usize {
        self.hub.unfinished_turns()
    }

    /// Waits until nothing happens in the session.
    pub async fn idle(&self) {
        loop {
            let rested = self.rested.notified();
            tokio::pin!(rested);
            rested.as_mut().enable();
            if !self.is_busy() {
                return;
            }
            rested.await;
        }
    }

    pub fn is_busy(&self) -> bool {
        matches!(*self.lock(), Slot::Busy { .. })
    }

    pub fn blueprint(&self) -> &Arc<SessionBlueprint> {
        &self.blueprint
    }

    pub fn services(&self) -> &Arc<RuntimeServices> {
        &self.services
    }

    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    pub fn children(&self) -> &Arc<Children> {
        &self.children
    }

    pub fn lineage(&self) -> Option<&Lineage> {
        self.lineage.as_ref()
    }

    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    pub fn hub(&self) -> &Arc<SessionEvents> {
        &self.hub
    }

    /// How many sessions are above it.
    pub fn depth(&self) -> u32 {
        self.blueprint.subagent.as_ref().map_or(0, |it| it.depth)
    }

    /// Waits until no turn runs or waits and no subagent runs, or the session
    /// has ended.
    pub async fn settled(&self) {
        loop {
            let rested = self.rested.notified();
            tokio::pin!(rested);
            rested.as_mut().enable();
            self.children.none_runs().await;
            let closed = matches!(*self.lock(), Slot::Closed);
            // What a subagent reported last is taken up before it counts as
            // reported.
            if closed || (self.hub.unfinished_turns() == 0 && self.children.running() == 0) {
                return;
            }
            rested.await;
        }
    }

    /// The work of a subagent begins: what it said before belongs to an earlier
    /// report.
    pub fn begin_run(&self) {
        self.hub.begin_run();
    }

    pub fn progress(&self) -> RunProgress {
        self.hub.progress()
    }

    /// What the session and all below it have used.
    pub async fn totals(self: &Arc<Self>) -> Result<Totals, HalterError> {
        self.ask(|reply| SessionCommand::Totals { reply }).await
    }

    /// A subagent is about to start; returns when the log says so.
    pub async fn subagent_starts(
        self: &Arc<Self>,
        subagent: Arc<SubagentStatus>,
    ) -> Result<Result<(), StoreError>, HalterError> {
        self.ask(|reply| SessionCommand::SubagentStarts { subagent, reply })
            .await
    }

    /// A subagent has reported; returns when that is taken up.
    pub async fn subagent_reports(
        self: &Arc<Self>,
        report: SubagentReport,
    ) -> Result<(), HalterError> {
        loop {
            let report = Box::new(report.clone());
            let told = self.ask(|reply| SessionCommand::SubagentReports { report, reply });
            match told.await {
                Err(error) if error.code() == "session_busy" => {
                    tokio::time::sleep(BUSY_RETRY).await;
                }
                told => return told,
            }
        }
    }

    pub fn subagent_asks(self: &Arc<Self>, asked: RoutedRequest) -> Result<(), HalterError> {
        self.send(SessionCommand::SubagentAsks(asked))
    }

    pub fn subagent_withdraws(self: &Arc<Self>, approval_id: ApprovalId) {
        // A session that has ended has withdrawn everything.
        let _ = self.send(SessionCommand::SubagentWithdraws { approval_id });
    }

    /// Ends the session without its own doing: what hangs is dropped, and with
    /// it everything the tools keep alive.
    pub fn give_up(&self) {
        let slot = std::mem::replace(&mut *self.lock(), Slot::Closed);
        if let Slot::Busy { task, .. } = slot {
            task.abort();
            self.fail("it did not end in time when the runtime was shut down");
        }
    }

    /// Tells whoever waits for events that there will be no more.
    fn fail(&self, reason: &str) {
        self.hub.close(Some(StoreError::Poisoned {
            session_id: self.session_id().clone(),
            reason: reason.into(),
        }));
        self.close_slot();
    }

    /// Hands a command to the owner, waking it if need be.
    fn send(self: &Arc<Self>, command: SessionCommand) -> Result<(), HalterError> {
        let mut slot = self.lock();
        match std::mem::replace(&mut *slot, Slot::Closed) {
            Slot::Closed => Err(session_closed()),
            Slot::Busy { commands, task } => {
                let sent = commands.try_send(command).map_err(|_| busy());
                *slot = Slot::Busy { commands, task };
                sent
            }
            Slot::Idle(owner) => {
                let (commands, queue) = command_queue();
                let sent = commands.try_send(command).map_err(|_| busy());
                let task = tokio::spawn(self.clone().run(owner, queue)).abort_handle();
                *slot = Slot::Busy { commands, task };
                sent
            }
        }
    }

    /// Hands a command to the owner if it runs, and nothing otherwise. Works
    /// outside of a tokio runtime too.
    pub fn send_if_busy(&self, command: SessionCommand) {
        if let Slot::Busy { commands, .. } = &*self.lock() {
            let _ = commands.try_send(command);
        }
    }

    /// Lets the owner run. If a replaced part panics in it, whoever waits for
    /// events is told instead of waiting for ever.
    async fn run(self: Arc<Self>, owner: Box<Owner>, commands: mpsc::Receiver<SessionCommand>) {
        let running = owner.run(self.clone(), commands);
        if AssertUnwindSafe(running).catch_unwind().await.is_err() {
            self.fail("a part of the harness panicked while it ran");
        }
    }

    async fn ask<T>(
        self: &Arc<Self>,
        command: impl FnOnce(oneshot::Sender<T>) -> SessionCommand,
    ) -> Result<T, HalterError> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply))?;
        answer.await.map_err(|_| session_closed())
    }
}

fn busy() -> HalterError {
    HalterError::new("session_busy", "too many commands wait for this session")
        .with_hint("wait for the session to catch up")
}

impl SessionHandle {
    pub(crate) fn new(core: Arc<SessionCore>) -> Self {
        Self { core }
    }

    pub(crate) fn core(&self) -> &Arc<SessionCore> {
        &self.core
    }

    pub(crate) fn services(&self) -> &Arc<RuntimeServices> {
        &self.core.services
    }

    /// The session's id.
    pub fn session_id(&self) -> &SessionId {
        self.core.session_id()
    }

    /// What was fixed when the session started.
    pub fn blueprint(&self) -> &SessionBlueprint {
        &self.core.blueprint
    }

    /// Submits a turn and returns its events, from `turn_started` to its
    /// terminal event. A turn submitted while another runs waits its turn. One
    /// whose response schema is not valid JSON Schema, or which has an
    /// image or document that model services do not take, is refused.
    pub async fn submit_turn(&self, turn: Turn) -> anyhow::Result<TurnStream> {
        if self.core.registry.is_shutting_down() {
            return Err(shutting_down().into());
        }
        if let Some(schema) = &turn.response_schema {
            check_response_schema(schema).map_err(HalterError::from)?;
        }
        let media = self.media_limits(&turn);
        check_attachments(&turn.user_message, &media).map_err(HalterError::from)?;
        let turn_id = turn.id.clone();
        let subscription = self.core.hub.subscribe_turn(turn_id.clone());
        let turn = Box::new(turn);
        self.core
            .ask(|reply| SessionCommand::Submit { turn, reply })
            .await??;
        Ok(TurnStream::new(self.clone(), turn_id, subscription))
    }

    /// What the model of a turn takes. Of one that cannot be resolved, the turn
    /// says so itself.
    fn media_limits(&self, turn: &Turn) -> MediaLimits {
        let model = turn.default_model.as_ref();
        let model = model.unwrap_or(&self.core.blueprint.default_model);
        let resolved = self.core.services.models.resolve(model);
        resolved.map_or_else(
            |_| MediaLimits::default(),
            |(model, provider)| provider.model_capabilities(&model).media,
        )
    }

    /// Adds to the live turn: the message joins at the next point where the
    /// model can see it. Fails if no turn is running.
    pub async fn steer(&self, text: impl Into<String>) -> anyhow::Result<()> {
        let message = UserMessage::text(text);
        self.core
            .ask(|reply| SessionCommand::Steer { message, reply })
            .await??;
        Ok(())
    }

    /// Cancels the live turn: the model's stream and the tools stop at once,
    /// every call keeps a result, and the session stays usable. Returns whether
    /// a turn was running.
    pub async fn cancel(&self) -> anyhow::Result<bool> {
        self.cancel_with(None, "cancel() was called").await
    }

    /// Cancels one turn, running or waiting, saying why. Returns whether there
    /// was such a turn.
    pub async fn cancel_turn(&self, turn_id: &TurnId, reason: &str) -> anyhow::Result<bool> {
        self.cancel_with(Some(turn_id.clone()), reason).await
    }

    pub(crate) async fn cancel_with(
        &self,
        turn_id: Option<TurnId>,
        reason: &str,
    ) -> anyhow::Result<bool> {
        let reason = reason.to_owned();
        Ok(self
            .core
            .ask(|reply| SessionCommand::Cancel {
                turn_id,
                reason,
                reply,
            })
            .await?)
    }

    /// Decides about a call that waits for a person's approval. Fails if no
    /// such approval is open, say because somebody else was faster, or if it
    /// does not offer that choice.
    ///
    /// ```
    /// # async fn example(session: halter_runtime::SessionHandle) -> anyhow::Result<()> {
    /// use futures::StreamExt;
    /// use halter_protocol::{ApprovalChoice, SessionEventPayload};
    ///
    /// let mut events = session.subscribe();
    /// while let Some(event) = events.next().await {
    ///     if let SessionEventPayload::ApprovalRequested(request) = event?.payload {
    ///         let choice = ApprovalChoice::Once;
    ///         session.resolve_approval(&request.approval_id, choice).await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn resolve_approval(
        &self,
        approval_id: &ApprovalId,
        answer: impl Into<ApprovalAnswer>,
    ) -> anyhow::Result<()> {
        let (approval_id, answer) = (approval_id.clone(), answer.into());
        let resolve = |reply| SessionCommand::Resolve {
            approval_id,
            answer,
            reply,
        };
        Ok(self.core.ask(resolve).await??)
    }

    /// Waits until no turn runs or waits in the session and none of its
    /// subagents runs, or until it has ended.
    pub async fn settled(&self) {
        self.core.settled().await;
    }

    /// How many of its subagents run.
    pub fn running_subagents(&self) -> usize {
        self.core.children().running()
    }

    /// What starts and follows subagents of this session, as its tools do.
    pub async fn subagents(&self) -> anyhow::Result<Arc<dyn SubagentControl>> {
        let control = self.core.ask(|reply| SessionCommand::Subagents { reply });
        Ok(control.await??)
    }

    /// Answers questions that a running call asks, one answer to each: options by
    /// id, words, or skipped. The event is `questions_asked`.
    ///
    /// # Errors
    /// `question_not_open` if somebody was faster, `answer_not_fitting` if an
    /// answer does not fit its question.
    pub async fn answer_questions(
        &self,
        question_id: &QuestionId,
        responses: Vec<QuestionResponse>,
    ) -> anyhow::Result<()> {
        let question_id = question_id.clone();
        let answer = |reply| SessionCommand::AnswerQuestions {
            question_id,
            responses,
            reply,
        };
        Ok(self.core.ask(answer).await??)
    }

    /// Tells the session something from outside a turn.
    pub async fn notify(
        &self,
        notification_type: impl Into<String>,
        message: impl Into<String>,
    ) -> anyhow::Result<()> {
        let notification = NotificationItem {
            notification_type: notification_type.into(),
            message: message.into(),
        };
        self.core
            .ask(|reply| SessionCommand::Notify {
                notification,
                reply,
            })
            .await?
            .map_err(store_failure)
    }

    /// What fills the context, and how much more fits.
    pub async fn context(&self) -> anyhow::Result<ContextReport> {
        Ok(self
            .core
            .ask(|reply| SessionCommand::Context { reply })
            .await??)
    }

    /// Gives the session another budget, in place of the one it has. What was
    /// spent stays spent.
    pub async fn set_budget(&self, budget: SessionBudget) -> anyhow::Result<()> {
        self.core
            .ask(|reply| SessionCommand::SetBudget { budget, reply })
            .await?
            .map_err(store_failure)
    }

    /// Makes the context of the session smaller, now or, while a turn runs, at
    /// the next point where that can be done. `instructions` say what a summary
    /// should pay attention to. Returns what it came to; none if there is
    /// nothing to cut.
    pub async fn compact(
        &self,
        instructions: Option<&str>,
    ) -> anyhow::Result<Option<Arc<ContextCompaction>>> {
        let instructions = instructions.map(str::to_owned);
        let compact = |reply| SessionCommand::Compact {
            instructions,
            reply,
        };
        Ok(self.core.ask(compact).await??)
    }

    /// Replaces the tools that the session has of its own, from its next turn
    /// on. If models are told of others than before, a `cache_break` event
    /// names the new revision.
    pub fn set_own_tools(&self, tools: OwnTools) -> anyhow::Result<()> {
        Ok(self.core.send(SessionCommand::SetOwnTools { tools })?)
    }

    /// All events of the session from its start, then the live ones, shutdown
    /// included.
    pub fn subscribe(&self) -> SessionStream {
        self.subscribe_after(0)
    }

    /// The events after a sequence number, then the live ones. A consumer that
    /// lagged or reconnects passes the last sequence it has.
    pub fn subscribe_after(&self, sequence: u64) -> SessionStream {
        SessionStream::new(self.core.hub.subscribe(sequence))
    }

    /// The sequence number of the last committed event.
    pub fn head(&self) -> u64 {
        self.core.hub.head()
    }

    /// All committed events so far.
    pub async fn replay(&self) -> anyhow::Result<Vec<SessionEvent>> {
        crate::reader::replay(self.core.services.store.as_ref(), self.session_id()).await
    }

    /// The session's trace: a header and every committed event, one JSON object
    /// a line.
    pub async fn export_trace(&self) -> anyhow::Result<String> {
        let services = &self.core.services;
        let at = services.clock.now();
        export_session_trace(services.store.as_ref(), self.session_id(), at)
            .await
            .map_err(store_failure)
    }

    /// Ends the session: the live turn is cancelled, waiting ones never start,
    /// SessionEnd hooks run, and everything its tools keep alive is ended.
    /// What is stored stays. If the end itself could not be stored, the session
    /// has ended all the same and the error says why.
    pub async fn shutdown(&self, reason: &str) -> anyhow::Result<()> {
        let reason = reason.to_owned();
        let asked = self
            .core
            .ask(|reply| SessionCommand::Shutdown { reason, reply })
            .await;
        match asked {
            Err(error) if error.code() == "session_closed" => Ok(()),
            other => other?.map_err(store_failure),
        }
    }
}

impl std::fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SessionHandle")
            .field(self.session_id())
            .finish()
    }
}

pub(crate) fn shutting_down() -> HalterError {
    HalterError::new("runtime_shutting_down", "the runtime is shutting down")
        .with_hint("start another one")
}
