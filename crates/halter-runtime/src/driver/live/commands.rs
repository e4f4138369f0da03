//! What handles ask of a session, and what it answers.

use super::{Owner, Running};
use crate::context::ContextReport;
use crate::engine::{Engine, Input, PersonAnswer};
use crate::error::HalterError;
use crate::init::OwnTools;
use crate::limits::{QUEUED_STEERS, QUEUED_TURNS, SESSION_INBOX};
use crate::subagents::{RoutedRequest, Totals, cancel_children, close_children};
use halter_protocol::{
    ApprovalAnswer, ApprovalChoice, ApprovalId, ContextCompaction, NotificationItem,
    PermissionRule, QuestionId, QuestionResponse, ResolvedBy, RuleEffect, SessionBudget,
    SubagentReport, SubagentStatus, Turn, TurnId, UserMessage,
};
use halter_session::StoreError;
use halter_tools::SubagentControl;
use halter_tools::policy::permission::opens_every_command;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Tells whoever asked for a compaction what it came to.
pub(crate) type CompactionReply =
    oneshot::Sender<Result<Option<Arc<ContextCompaction>>, HalterError>>;

/// What a handle asks of a session.
pub(crate) enum SessionCommand {
    Submit {
        turn: Box<Turn>,
        reply: oneshot::Sender<Result<(), HalterError>>,
    },
    Steer {
        message: UserMessage,
        reply: oneshot::Sender<Result<(), HalterError>>,
    },
    Cancel {
        turn_id: Option<TurnId>,
        reason: String,
        reply: oneshot::Sender<bool>,
    },
    Resolve {
        approval_id: ApprovalId,
        answer: ApprovalAnswer,
        reply: oneshot::Sender<Result<(), HalterError>>,
    },
    AnswerQuestions {
        question_id: QuestionId,
        responses: Vec<QuestionResponse>,
        reply: oneshot::Sender<Result<(), HalterError>>,
    },
    Notify {
        notification: NotificationItem,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    Compact {
        instructions: Option<String>,
        reply: CompactionReply,
    },
    Context {
        reply: oneshot::Sender<Result<ContextReport, HalterError>>,
    },
    SetBudget {
        budget: SessionBudget,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    SetOwnTools {
        tools: OwnTools,
    },
    SubagentStarts {
        subagent: Arc<SubagentStatus>,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    SubagentReports {
        report: Box<SubagentReport>,
        reply: oneshot::Sender<()>,
    },
    SubagentAsks(RoutedRequest),
    SubagentWithdraws {
        approval_id: ApprovalId,
    },
    Totals {
        reply: oneshot::Sender<Totals>,
    },
    Subagents {
        reply: oneshot::Sender<Result<Arc<dyn SubagentControl>, HalterError>>,
    },
    Shutdown {
        reason: String,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
}

impl Owner {
    /// Does what a handle asks for.
    pub(super) async fn obey(&mut self, command: SessionCommand, running: &mut Running) {
        match command {
            SessionCommand::Submit { turn, reply } => {
                if self.engine.accepts_turn() {
                    self.hub.turn_accepted();
                    let _ = reply.send(Ok(()));
                    self.feed(Input::Submit(*turn), running).await;
                } else {
                    let _ = reply.send(Err(refused_turn(&self.engine)));
                }
            }
            SessionCommand::Steer { message, reply } => {
                if self.engine.accepts_steer() {
                    let _ = reply.send(Ok(()));
                    self.feed(Input::Steer(message), running).await;
                } else {
                    let _ = reply.send(Err(refused_steer(&self.engine)));
                }
            }
            SessionCommand::Cancel {
                turn_id,
                reason,
                reply,
            } => {
                let found = self.engine.has_turn(turn_id.as_ref());
                let live = self.engine.live_turn();
                if turn_id.is_none() || turn_id.as_ref() == live {
                    cancel_children(&running.core, &reason);
                }
                self.feed(Input::Cancel { turn_id, reason }, running).await;
                let _ = reply.send(found);
            }
            SessionCommand::Resolve {
                approval_id,
                answer,
                reply,
            } => {
                let checked = check_answer(&self.engine, &approval_id, &answer);
                if checked.is_ok() && self.engine.subagent_request(&approval_id).is_some() {
                    let by = ResolvedBy::User;
                    self.answer_subagent(approval_id, answer, by, running).await;
                } else if checked.is_ok() {
                    let by = ResolvedBy::User;
                    let answer = PersonAnswer::Approval {
                        approval_id,
                        answer,
                    };
                    self.feed(Input::Answered { answer, by }, running).await;
                }
                let _ = reply.send(checked);
            }
            SessionCommand::AnswerQuestions {
                question_id,
                responses,
                reply,
            } => {
                let checked = check_responses(&self.engine, &question_id, &responses);
                if checked.is_ok() {
                    let by = ResolvedBy::User;
                    let answer = PersonAnswer::Questions {
                        question_id,
                        responses,
                    };
                    self.feed(Input::Answered { answer, by }, running).await;
                }
                let _ = reply.send(checked);
            }
            SessionCommand::Notify {
                notification,
                reply,
            } => match self.feed(Input::Notify(notification), running).await {
                Some(append) => running.append_waiters.push((append, reply)),
                None => drop(reply.send(Ok(()))),
            },
            SessionCommand::Compact {
                instructions,
                reply,
            } => {
                if self.engine.accepts_compaction() {
                    self.compaction_waiters.push(reply);
                    self.feed(Input::Compact { instructions }, running).await;
                } else {
                    let _ = reply.send(Err(session_closing()));
                }
            }
            SessionCommand::Context { reply } => drop(reply.send(self.context_report())),
            SessionCommand::SetBudget { budget, reply } => {
                match self.feed(Input::SetBudget(budget), running).await {
                    Some(append) => running.append_waiters.push((append, reply)),
                    None => drop(reply.send(Ok(()))),
                }
            }
            SessionCommand::SetOwnTools { tools } => self.own_tools = Some(tools),
            SessionCommand::SubagentStarts { subagent, reply } => {
                let starts = Input::SubagentStarts(subagent);
                match self.feed(starts, running).await {
                    Some(append) => running.append_waiters.push((append, reply)),
                    None => drop(reply.send(Ok(()))),
                }
            }
            SessionCommand::SubagentReports { report, reply } => {
                self.feed(Input::SubagentReports(report), running).await;
                let _ = reply.send(());
            }
            SessionCommand::SubagentAsks(asked) => {
                let request = self.asked_at_root.add(asked);
                self.feed(Input::SubagentAsks(request), running).await;
            }
            SessionCommand::SubagentWithdraws { approval_id } => {
                let answer = ApprovalChoice::Deny.into();
                let by = ResolvedBy::Withdrawn;
                self.answer_subagent(approval_id, answer, by, running).await;
            }
            SessionCommand::Totals { reply } => {
                let _ = reply.send(Totals::of(self.engine.state()));
            }
            SessionCommand::Subagents { reply } => {
                let control = self.subagents(&running.core).await;
                let _ = reply.send(control);
            }
            SessionCommand::Shutdown { reason, reply } => {
                self.shutdown_waiters.push(reply);
                close_children(&running.core, &reason);
                if !self.engine.is_shutting_down() {
                    self.end_runs_beside(running).await;
                    self.tell_of_trace(running).await;
                }
                self.feed(Input::Shutdown { reason }, running).await;
            }
        }
    }
}

impl Owner {
    async fn answer_subagent(
        &mut self,
        approval_id: ApprovalId,
        answer: ApprovalAnswer,
        by: ResolvedBy,
        running: &mut Running,
    ) {
        self.asked_at_root.answer(&approval_id, &answer, &by);
        let answered = Input::SubagentAnswered {
            approval_id,
            answer,
            by,
        };
        self.feed(answered, running).await;
    }
}

fn refused_turn(engine: &Engine) -> HalterError {
    if engine.is_closed() {
        session_closed()
    } else if engine.is_shutting_down() {
        session_closing()
    } else {
        HalterError::new(
            "too_many_turns",
            format!("{QUEUED_TURNS} turns already wait in this session"),
        )
        .with_hint("wait for a turn to end, or use another session")
    }
}

fn refused_steer(engine: &Engine) -> HalterError {
    if engine.is_shutting_down() {
        session_closing()
    } else if engine.steers_are_full() {
        HalterError::new(
            "too_many_steers",
            format!("{QUEUED_STEERS} messages already wait to join the turn"),
        )
        .with_hint("wait until the model has seen them")
    } else {
        HalterError::new(
            "no_live_turn",
            "no turn is running that the message could join",
        )
        .with_hint("submit it as a turn of its own")
    }
}

/// Whether an answer fits a request that is open.
fn check_answer(
    engine: &Engine,
    approval_id: &ApprovalId,
    answer: &ApprovalAnswer,
) -> Result<(), HalterError> {
    let open = engine.open_approval(approval_id);
    let Some(request) = open.or_else(|| engine.subagent_request(approval_id)) else {
        let message = format!("no approval '{approval_id}' is open");
        return Err(HalterError::new("approval_not_open", message)
            .with_hint("it is unknown, or was resolved already; approval_resolved says how"));
    };
    if !request.choices.contains(&answer.choice) {
        let choices: Vec<&str> = request.choices.iter().map(|it| it.as_str()).collect();
        let message = format!("'{}' cannot be chosen for this approval", answer.choice);
        return Err(HalterError::new("choice_not_offered", message)
            .with_hint(format!("choose one of {}", choices.join(", "))));
    }
    if let Some(rule) = &answer.rule {
        let rule = PermissionRule::parse(rule, RuleEffect::Allow).map_err(|error| {
            let message = format!("'{rule}' is no permission rule: {}", error.problem);
            HalterError::new("rule_invalid", message).with_hint(error.hint())
        })?;
        if opens_every_command(&rule) {
            let message = format!("'{}' would allow every command", rule.text());
            let hint = "name a program, or write the rule into `permissions.allow` by hand";
            return Err(HalterError::new("rule_too_wide", message).with_hint(hint));
        }
    }
    Ok(())
}

/// Whether answers fit questions that are open.
fn check_responses(
    engine: &Engine,
    question_id: &QuestionId,
    responses: &[QuestionResponse],
) -> Result<(), HalterError> {
    let Some(request) = engine.open_question(question_id) else {
        let message = format!("no questions '{question_id}' are open");
        return Err(HalterError::new("question_not_open", message)
            .with_hint("they are unknown, or were answered already; questions_answered says how"));
    };
    match request.problem(responses) {
        None => Ok(()),
        Some(problem) => Err(HalterError::new("answer_not_fitting", problem)
            .with_hint("give an answer to each question: option ids, words, or skipped")),
    }
}

fn session_closing() -> HalterError {
    HalterError::new("session_closing", "the session is being shut down")
        .with_hint("resume it when it has ended, or start a new one")
}

pub(crate) fn session_closed() -> HalterError {
    HalterError::new("session_closed", "the session has been shut down")
        .with_hint("resume it, or start a new one")
}

/// How many commands a session takes before it says that it is busy.
pub(crate) fn command_queue() -> (mpsc::Sender<SessionCommand>, mpsc::Receiver<SessionCommand>) {
    mpsc::channel(SESSION_INBOX)
}
