//! How a running call asks a person.

use crate::context::{ToolContext, cancelled};
use crate::limits::{OPTION_CHARS, OPTION_ID_CHARS, QUESTION_CHARS, QUESTION_OPTIONS, QUESTIONS};
use async_trait::async_trait;
use halter_protocol::{
    Action, ApprovalChoice, Objection, Question, QuestionResponse, ResolvedBy, ToolError,
    ToolErrorCode,
};
use std::collections::HashSet;

/// What came of questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// An answer to each question, in order.
    pub responses: Vec<QuestionResponse>,
    /// Who answered, or why nobody did.
    pub by: ResolvedBy,
}

/// Puts the questions of one call to a person.
#[async_trait]
pub trait QuestionAsker: Send + Sync {
    /// Asks, and waits for the answers. Nobody is asked any more once the future
    /// is dropped and the call has ended.
    async fn ask(&self, questions: Vec<Question>) -> Answers;

    /// Asks whether the call may do something that the policy objects to, and
    /// waits for what is chosen. Where nobody can be asked it may not.
    async fn approve(&self, _actions: Vec<Action>, _objection: Objection) -> ApprovalChoice {
        ApprovalChoice::Deny
    }
}

/// Nobody can be asked: every question is skipped.
#[derive(Debug, Clone, Copy, Default)]
pub struct NobodyToAsk;

#[async_trait]
impl QuestionAsker for NobodyToAsk {
    async fn ask(&self, questions: Vec<Question>) -> Answers {
        let skipped = questions.iter().map(|_| QuestionResponse::skipped());
        Answers {
            responses: skipped.collect(),
            by: ResolvedBy::Unattended,
        }
    }
}

impl ToolContext {
    /// Asks a person, through the session, and waits for the answers: however
    /// long that takes, for no deadline runs meanwhile. Where nobody can be
    /// asked, every question comes back as skipped.
    ///
    /// # Errors
    /// Questions that are too many, too long or ambiguous, and a call that is
    /// cancelled meanwhile.
    pub async fn ask(&self, questions: Vec<Question>) -> Result<Answers, ToolError> {
        if let Some(problem) = problem(&questions) {
            return Err(ToolError::new(ToolErrorCode::InvalidArguments, problem));
        }
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(cancelled()),
            answers = self.asker.ask(questions) => Ok(answers),
        }
    }
}

/// What is wrong with questions, if anything.
fn problem(questions: &[Question]) -> Option<String> {
    if questions.is_empty() || questions.len() > QUESTIONS {
        return Some(format!("ask 1 to {QUESTIONS} questions at once"));
    }
    for (index, question) in questions.iter().enumerate() {
        let number = index + 1;
        let options = &question.options;
        let text = question.question.trim();
        if text.is_empty() || text.chars().count() > QUESTION_CHARS {
            return Some(format!(
                "question {number} must have 1 to {QUESTION_CHARS} characters"
            ));
        }
        if options.len() > QUESTION_OPTIONS {
            return Some(format!(
                "question {number} may have {QUESTION_OPTIONS} options"
            ));
        }
        let is_long = |text: &str, most: usize| text.is_empty() || text.chars().count() > most;
        let wrong = options.iter().find(|option| {
            is_long(&option.id, OPTION_ID_CHARS) || is_long(&option.text, OPTION_CHARS)
        });
        if wrong.is_some() {
            return Some(format!(
                "options of question {number} need an id of 1 to {OPTION_ID_CHARS} characters and \
                 a text of 1 to {OPTION_CHARS}"
            ));
        }
        let ids: HashSet<&str> = options.iter().map(|option| option.id.as_str()).collect();
        if ids.len() < options.len() {
            return Some(format!("options of question {number} share an id"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::QuestionOption;

    fn question(chars: usize) -> Question {
        Question {
            question: "q".repeat(chars),
            options: Vec::new(),
            is_multi_select: false,
        }
    }

    fn with_options(count: usize, id: usize, text: usize) -> Question {
        let option = |number: usize| QuestionOption {
            id: format!("{number:0id$}"),
            text: "t".repeat(text),
        };
        Question {
            options: (0..count).map(option).collect(),
            ..question(1)
        }
    }

    #[test]
    fn questions_and_options_are_so_many_and_so_long_and_no_more() {
        let at = |questions: Vec<Question>| problem(&questions);
        assert_eq!(at(vec![question(QUESTION_CHARS); QUESTIONS]), None);
        assert!(at(vec![question(1); QUESTIONS + 1]).is_some());
        assert!(at(Vec::new()).is_some());
        assert!(at(vec![question(QUESTION_CHARS + 1)]).is_some());
        assert!(at(vec![question(0)]).is_some());
        let edge = with_options(QUESTION_OPTIONS, OPTION_ID_CHARS, OPTION_CHARS);
        assert_eq!(at(vec![edge]), None);
        assert!(at(vec![with_options(QUESTION_OPTIONS + 1, 2, 1)]).is_some());
        assert!(at(vec![with_options(1, OPTION_ID_CHARS + 1, 1)]).is_some());
        assert!(at(vec![with_options(1, 1, OPTION_CHARS + 1)]).is_some());
        let mut same = with_options(2, 1, 1);
        same.options[1].id = same.options[0].id.clone();
        assert_eq!(at(vec![same]).unwrap(), "options of question 1 share an id");
    }
}
