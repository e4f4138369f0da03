//! One turn from its submission to its end.

use crate::approvals::{Approver, AskedOfPerson};
use crate::exit::{Exit, StopSignal};
use crate::failure::Failure;
use crate::limits::IDLE_NOTICE;
use crate::live::in_shutdown_time;
use crate::typing::Typing;
use crate::view::View;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use halter::{Halter, HalterSession};
use halter_hooks::HookEventName;
use halter_protocol::public_tools::public_tool_name;
use halter_protocol::{SessionEventPayload, Turn, TurnError};
use halter_runtime::SessionStream;
use std::collections::VecDeque;
use std::time::Duration;

/// How often the line that shows progress is drawn.
const TICK: Duration = Duration::from_millis(100);

/// How a turn ended.
#[derive(Debug)]
pub enum TurnEnd {
    /// Well.
    Completed,
    /// Otherwise.
    Failed {
        /// Why.
        error: TurnError,
        /// True if the time given ran out.
        timed_out: bool,
    },
}

impl TurnEnd {
    /// How the program ends after it.
    pub fn into_exit(self, asked: Option<StopSignal>) -> Result<Exit, Failure> {
        match self {
            Self::Completed => Ok(asked.map_or(Exit::Success, Exit::Signal)),
            Self::Failed { error, timed_out } => {
                let mut error = error;
                if timed_out {
                    error.code = "timed_out".to_owned();
                }
                let exit = asked.map_or(Exit::for_error(&error.code), Exit::Signal);
                Err(Failure::Error(error.into(), exit))
            }
        }
    }
}

/// How a turn is watched.
pub struct Watch<'a> {
    /// Shows what happens.
    pub view: &'a mut dyn View,
    /// How long the turn may take.
    pub time_limit: Option<Duration>,
    /// What a person types meanwhile joins the turn.
    pub typing: Option<&'a mut Typing>,
    /// Decides about calls that need approval.
    pub approver: &'a mut Approver,
    /// Hooks want to know when somebody is waited for.
    pub notifies: bool,
}

/// The notification by which hooks hear that a person is asked to approve a call.
const PERMISSION_PROMPT: &str = "permission_prompt";

/// The notification by which hooks hear that nobody has typed for a while.
const IDLE_PROMPT: &str = "idle_prompt";

/// True if a notification says what is on the screen already.
pub fn is_on_screen(notification_type: &str) -> bool {
    [PERMISSION_PROMPT, IDLE_PROMPT].contains(&notification_type)
}

/// Whether hooks of the harness listen to notifications.
pub fn hooks_hear(harness: &Halter) -> bool {
    let hooks = harness.hooks();
    hooks
        .iter()
        .any(|hook| hook.event == HookEventName::Notification)
}

/// Waits for a line that is typed; `idle` runs once if that takes long.
pub async fn or_idle<T>(read: impl Future<Output = T>, idle: impl Future<Output = ()>) -> T {
    tokio::pin!(read);
    tokio::select! {
        biased;
        done = &mut read => return done,
        () = tokio::time::sleep(IDLE_NOTICE) => {}
    }
    tokio::pin!(idle);
    tokio::select! {
        biased;
        done = &mut read => return done,
        () = &mut idle => {}
    }
    read.await
}

/// Tells hooks that nobody has typed for a while.
pub async fn tell_of_idleness(session: &HalterSession) {
    let told = session.notify(IDLE_PROMPT, "Halter is waiting for your input");
    if let Err(error) = told.await {
        tracing::debug!(%error, "hooks did not hear");
    }
}

/// Tells hooks that a person is asked about a call.
async fn told_of(session: &HalterSession, request: AskedOfPerson) {
    let AskedOfPerson::Approval(request) = request else {
        return;
    };
    let tool = public_tool_name(request.call.name.as_str());
    let message = format!("Halter needs your permission to use {tool}");
    if let Err(error) = session.notify(PERMISSION_PROMPT, message).await {
        tracing::debug!(%error, "hooks did not hear");
    }
}

/// Submits a turn and shows what happens until it has ended and no subagent
/// runs any more. What the last turn came to counts: a report may have brought
/// another one.
pub async fn run_turn(
    session: &HalterSession,
    events: &mut SessionStream,
    turn: Turn,
    watch: Watch<'_>,
) -> Result<TurnEnd, Failure> {
    let Watch {
        view,
        time_limit,
        mut typing,
        approver,
        notifies,
    } = watch;
    // Beside the question, which nothing delays.
    let mut told = FuturesUnordered::new();
    let turn_id = turn.id.clone();
    let shown = session.submit_turn(turn).await?;
    // A turn that the store lost has no terminal event, only an error here.
    let mut faults = shown.filter_map(async |item| item.err()).boxed().fuse();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let deadline = tokio::time::sleep(time_limit.unwrap_or(Duration::ZERO));
    tokio::pin!(deadline);
    let mut timed_out = false;
    let mut questions = Questions::default();
    let mut ended: Option<TurnEnd> = None;
    let mut seen = 0;
    let settled = session.settled();
    tokio::pin!(settled);
    let mut is_settled = false;
    loop {
        if is_settled && seen >= session.head() {
            return Ok(ended.unwrap_or_else(|| lost(timed_out)));
        }
        tokio::select! {
            biased;
            event = events.next() => {
                let Some(event) = event.transpose()? else {
                    return Ok(ended.unwrap_or_else(|| lost(timed_out)));
                };
                if event.session_id != *session.session_id() {
                    view.subagent_event(event)?;
                    continue;
                }
                seen = event.sequence();
                if let Some(end) = terminal(&event.payload, timed_out) {
                    let own = event.payload.ends_turn() == Some(&turn_id);
                    if own || ended.is_some() {
                        ended = Some(end);
                    }
                }
                let asks = questions.observe(&event.payload, approver);
                view.event(event)?;
                if let Some(request) = asks {
                    approver
                        .ask(session, request.clone(), typing.is_some(), view)
                        .await;
                    if notifies {
                        told.push(told_of(session, request));
                    }
                }
            }
            Some(()) = told.next() => {}
            () = &mut settled, if ended.is_some() && !is_settled => is_settled = true,
            Some(error) = faults.next() => return Err(error.into()),
            () = &mut deadline, if time_limit.is_some() && !timed_out => {
                timed_out = true;
                let seconds = time_limit.unwrap_or_default().as_secs();
                let reason = format!("it took longer than the {seconds} s given with --timeout");
                if !session.cancel_turn(&turn_id, &reason).await? {
                    session.cancel().await?;
                }
            }
            line = typed(&mut typing) => {
                if let (Some(line), Some(typing)) = (line, typing.as_deref_mut()) {
                    match approver.is_asking() {
                        true => approver.typed(session, &line, view).await,
                        false if line.trim().is_empty() => {}
                        false => join(session, line, typing, view).await,
                    }
                }
                view.tick(draft_of(&typing));
            }
            said = approver.next() => {
                approver.hear(session, said, view).await?;
                view.tick(approver.draft());
            }
            _ = ticks.tick() => match approver.draft() {
                "" => view.tick(draft_of(&typing)),
                draft => view.tick(draft),
            },
        }
    }
}

/// Waits for a line that somebody types; for ever where nobody does.
async fn typed(typing: &mut Option<&mut Typing>) -> Option<String> {
    match typing {
        Some(typing) => typing.next().await,
        None => std::future::pending().await,
    }
}

fn draft_of<'a>(typing: &'a Option<&mut Typing>) -> &'a str {
    typing.as_ref().map_or("", |typing| typing.draft())
}

/// Adds what somebody typed to the turn. A turn that ends at this moment leaves
/// it to the next prompt.
async fn join(session: &HalterSession, line: String, typing: &mut Typing, view: &mut dyn View) {
    let mut joined = session.steer(line.clone()).await;
    if joined.is_err() && session.running_subagents() > 0 {
        joined = session
            .submit_turn(Turn::user(line.clone()))
            .await
            .map(drop);
    }
    match joined {
        Ok(()) => view.joined(&line),
        Err(error) => {
            tracing::debug!(%error, "not joined");
            typing.take_back(line);
        }
    }
}

/// Ends the session and shows what is left to show.
pub async fn end_session(
    session: &HalterSession,
    events: &mut SessionStream,
    view: &mut dyn View,
    reason: &str,
) -> Result<(), Failure> {
    let ended = in_shutdown_time("the session", async {
        session.shutdown(reason).await?;
        while let Some(event) = events.next().await {
            view.event(event?)?;
        }
        Ok::<(), Failure>(())
    });
    let ended = ended.await;
    view.end();
    ended.unwrap_or(Ok(()))
}

/// Requests for approval, one shown at a time: subagents ask while others do.
#[derive(Default)]
struct Questions(VecDeque<AskedOfPerson>);

impl Questions {
    /// Takes an event in. Returns what to ask now.
    fn observe(
        &mut self,
        payload: &SessionEventPayload,
        approver: &mut Approver,
    ) -> Option<AskedOfPerson> {
        if let Some(asked) = AskedOfPerson::of(payload) {
            self.0.push_back(asked.clone());
            return (self.0.len() == 1).then_some(asked);
        }
        let place = self.0.iter().position(|it| it.is_ended_by(payload))?;
        self.0.remove(place);
        if place > 0 {
            return None;
        }
        approver.resolved();
        self.0.front().cloned()
    }
}

fn terminal(payload: &SessionEventPayload, timed_out: bool) -> Option<TurnEnd> {
    payload.ends_turn()?;
    Some(match payload {
        SessionEventPayload::TurnFailed { error, .. } => TurnEnd::Failed {
            error: error.clone(),
            timed_out,
        },
        _ => TurnEnd::Completed,
    })
}

fn lost(timed_out: bool) -> TurnEnd {
    TurnEnd::Failed {
        error: TurnError::new("cancelled", "the session ended before the turn did"),
        timed_out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test(start_paused = true)]
    async fn hooks_hear_once_that_nobody_types_for_a_minute() {
        assert_eq!(IDLE_NOTICE, Duration::from_secs(60));
        let told = Cell::new(0);
        let idle = || async { told.set(told.get() + 1) };
        let read = |after: Duration| async move {
            tokio::time::sleep(after).await;
            "line"
        };
        let just_before = IDLE_NOTICE - Duration::from_millis(1);
        assert_eq!(or_idle(read(just_before), idle()).await, "line");
        assert_eq!(told.get(), 0);
        assert_eq!(or_idle(read(IDLE_NOTICE * 3), idle()).await, "line");
        assert_eq!(told.get(), 1);
        // A hook that does not end holds up no line.
        let endless = std::future::pending();
        assert_eq!(or_idle(read(IDLE_NOTICE * 2), endless).await, "line");
    }
}
