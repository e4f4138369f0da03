//! What sessions ask a person, approvals and questions: shown, and answered by what
//! is typed or by lines of JSON.

mod lines;
mod question;
mod questions;

pub use lines::AnswerLines;

use crate::args::ApprovalSource;
use crate::context::Context;
use crate::failure::{Failure, usage};
use crate::typing::Typing;
use crate::view::View;
use halter::{Approvals, HalterError, HalterSession};
use halter_protocol::{
    ApprovalAnswer, ApprovalChoice, ApprovalRequest, QuestionRequest, SessionEventPayload,
};
use questions::OpenQuestions;
use std::sync::Arc;

/// Who decides.
pub enum Approver {
    /// Nobody is asked: the session denies by itself.
    Nobody,
    /// Whoever sits at the terminal.
    Person(Person),
    /// Whatever program writes to standard input.
    Program(AnswerLines),
}

/// Whoever sits at the terminal.
#[derive(Default)]
pub struct Person {
    /// What they are asked.
    asked: Option<PersonAsked>,
    /// The keyboard, where nothing else listens to it.
    keyboard: Option<Typing>,
}

/// Something that a person is asked.
#[derive(Clone)]
pub enum AskedOfPerson {
    /// Whether a call may run.
    Approval(Arc<ApprovalRequest>),
    /// What a running call wants to know.
    Questions(Arc<QuestionRequest>),
}

impl AskedOfPerson {
    /// What an event asks, if it does.
    pub fn of(payload: &SessionEventPayload) -> Option<Self> {
        match payload {
            SessionEventPayload::ApprovalRequested(request) => {
                Some(Self::Approval(request.clone()))
            }
            SessionEventPayload::QuestionsAsked(request) => Some(Self::Questions(request.clone())),
            _ => None,
        }
    }

    /// True if an event says what became of it.
    pub fn is_ended_by(&self, payload: &SessionEventPayload) -> bool {
        match (self, payload) {
            (
                Self::Approval(request),
                SessionEventPayload::ApprovalResolved { approval_id, .. },
            ) => request.approval_id == *approval_id,
            (
                Self::Questions(request),
                SessionEventPayload::QuestionsAnswered { question_id, .. },
            ) => request.question_id == *question_id,
            _ => false,
        }
    }

    /// Says no, and skips every question.
    async fn refuse(&self, session: &HalterSession, answer: ApprovalAnswer) {
        // Whoever was faster has decided.
        let _ = match self {
            Self::Approval(request) => session.resolve_approval(&request.approval_id, answer).await,
            Self::Questions(request) => {
                let skipped = request.all_skipped();
                session
                    .answer_questions(&request.question_id, skipped)
                    .await
            }
        };
    }
}

/// What a person is asked, with what they have answered so far.
enum PersonAsked {
    Approval(Arc<ApprovalRequest>),
    Questions(OpenQuestions),
}

impl PersonAsked {
    fn text(&self) -> String {
        match self {
            Self::Approval(request) => question::text(request),
            Self::Questions(open) => open.text(),
        }
    }
}

impl Approver {
    /// The approver that the user wants.
    pub fn wanted(
        context: &Context,
        source: ApprovalSource,
        reads_events: bool,
    ) -> Result<Self, Failure> {
        match source {
            ApprovalSource::Auto if context.can_ask() => Ok(Self::Person(Person::default())),
            ApprovalSource::Auto | ApprovalSource::Deny => Ok(Self::Nobody),
            ApprovalSource::Stdin if reads_events => Ok(Self::Program(AnswerLines::read())),
            ApprovalSource::Stdin => Err(usage(
                "--approvals stdin needs the events that ask",
                "add --streaming-json",
            )),
        }
    }

    /// Somebody at the terminal, where something else reads the keyboard.
    pub fn person() -> Self {
        Self::Person(Person::default())
    }

    /// What the harness needs to know.
    pub fn approvals(&self) -> Approvals {
        match self {
            Self::Nobody => Approvals::Unattended,
            Self::Person(_) | Self::Program(_) => Approvals::Attended,
        }
    }

    /// True if what is typed is an answer.
    pub fn is_asking(&self) -> bool {
        matches!(self, Self::Person(Person { asked: Some(_), .. }))
    }

    /// Asks. `typing` is true if something else reads the keyboard.
    pub async fn ask(
        &mut self,
        session: &HalterSession,
        request: AskedOfPerson,
        typing: bool,
        view: &mut dyn View,
    ) {
        match self {
            Self::Nobody => {}
            Self::Program(lines) => lines.asked(session, request).await,
            Self::Person(person) => {
                let asked = match request.clone() {
                    AskedOfPerson::Approval(request) => PersonAsked::Approval(request),
                    AskedOfPerson::Questions(request) => {
                        PersonAsked::Questions(OpenQuestions::new(request))
                    }
                };
                view.activity().question(&asked.text());
                if !typing {
                    match Typing::start() {
                        Ok(keyboard) => person.keyboard = Some(keyboard),
                        Err(error) => {
                            let no = format!("the keyboard cannot be read: {error}");
                            return request.refuse(session, ApprovalAnswer::deny(no)).await;
                        }
                    }
                }
                person.asked = Some(asked);
            }
        }
    }

    /// Nothing is asked any more.
    pub fn resolved(&mut self) {
        match self {
            Self::Nobody => {}
            Self::Person(person) => *person = Person::default(),
            Self::Program(lines) => lines.resolved(),
        }
    }

    /// The next thing that somebody says about what is asked. For ever where
    /// nobody does.
    pub async fn next(&mut self) -> Said {
        match self {
            Self::Program(lines) => Said::Line(lines.next().await),
            Self::Person(Person {
                keyboard: Some(keyboard),
                ..
            }) => match keyboard.next().await {
                Some(line) => Said::Typed(line),
                None => Said::Nothing,
            },
            _ => std::future::pending().await,
        }
    }

    /// What is typed and not sent.
    pub fn draft(&self) -> &str {
        match self {
            Self::Person(Person {
                keyboard: Some(keyboard),
                ..
            }) => keyboard.draft(),
            _ => "",
        }
    }

    /// Takes what somebody said.
    pub async fn hear(
        &mut self,
        session: &HalterSession,
        said: Said,
        view: &mut dyn View,
    ) -> Result<(), Failure> {
        match (self, said) {
            (Self::Program(lines), Said::Line(line)) => {
                if let Err(error) = lines.take(session, line).await {
                    view.refuse(&error)?;
                }
            }
            (Self::Person(person), Said::Typed(line)) => {
                person.typed(session, &line, view).await;
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes a line that somebody typed while they were asked.
    pub async fn typed(&mut self, session: &HalterSession, line: &str, view: &mut dyn View) {
        if let Self::Person(person) = self {
            person.typed(session, line, view).await;
        }
    }
}

/// Something that somebody said about what is asked.
pub enum Said {
    /// Keys that complete no line.
    Nothing,
    /// A line at the terminal.
    Typed(String),
    /// A line of standard input, or its end.
    Line(Option<Result<String, HalterError>>),
}

impl Person {
    async fn typed(&mut self, session: &HalterSession, line: &str, view: &mut dyn View) {
        let Some(asked) = &mut self.asked else { return };
        let taken = match asked {
            PersonAsked::Approval(_) if line.trim().is_empty() => return,
            PersonAsked::Approval(request) => {
                let Some(answer) = question::answer(line) else {
                    return view.activity().question(&question::choices(request));
                };
                session.resolve_approval(&request.approval_id, answer).await
            }
            PersonAsked::Questions(open) => match open.take(line) {
                Ok(Some(answers)) => {
                    let id = &open.request.question_id;
                    session.answer_questions(id, answers).await
                }
                Ok(None) => return view.activity().question(&open.text()),
                Err(problem) => {
                    let again = format!("{problem}\n{}", open.text());
                    return view.activity().question(&again);
                }
            },
        };
        if let Err(error) = taken {
            let told = match error.downcast_ref::<HalterError>() {
                Some(known) => known.clone(),
                None => HalterError::new("failed", error.to_string()),
            };
            view.activity().problem(&told);
        }
    }
}

/// No, because nobody is left who could say yes.
fn nobody_left(reason: &str) -> ApprovalAnswer {
    ApprovalAnswer {
        reason: Some(reason.to_owned()),
        ..ApprovalChoice::Deny.into()
    }
}
