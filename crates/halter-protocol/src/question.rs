//! What a tool asks a person, and what they answer.

use crate::ids::{QuestionId, ToolCallId, ToolName};
use crate::limits::FREE_ANSWER_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Questions of a running call, which a person answers together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionRequest {
    /// Pairs the questions with their answers.
    pub question_id: QuestionId,
    /// The call.
    pub call_id: ToolCallId,
    /// Its tool.
    pub tool_name: ToolName,
    /// The questions, in order.
    pub questions: Vec<Question>,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// What is asked.
    pub question: String,
    /// What may be chosen; an answer in words is always possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<QuestionOption>,
    /// Several may be chosen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_multi_select: bool,
}

/// Something that may be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionOption {
    /// What an answer names it by.
    pub id: String,
    /// What a person reads.
    pub text: String,
}

/// The answer to one question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionResponse {
    /// The ids of the options that were chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_option_ids: Option<Vec<String>>,
    /// An answer in words, beside what was chosen or instead of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub freeform_response: String,
    /// True if the person did not want to answer, or nobody could.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

impl QuestionResponse {
    /// No answer.
    pub fn skipped() -> Self {
        Self {
            skipped: true,
            ..Self::default()
        }
    }

    /// One option.
    pub fn selected(id: impl Into<String>) -> Self {
        Self {
            selected_option_ids: Some(vec![id.into()]),
            ..Self::default()
        }
    }

    /// An answer in words.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            freeform_response: text.into(),
            ..Self::default()
        }
    }
}

impl QuestionRequest {
    /// No answer to any of the questions.
    pub fn all_skipped(&self) -> Vec<QuestionResponse> {
        let skipped = self.questions.iter().map(|_| QuestionResponse::skipped());
        skipped.collect()
    }

    /// What is wrong with answers to the questions, if anything.
    pub fn problem(&self, responses: &[QuestionResponse]) -> Option<String> {
        let (asked, given) = (self.questions.len(), responses.len());
        if asked != given {
            return Some(format!("there are {asked} questions and {given} answers"));
        }
        let pairs = self.questions.iter().zip(responses).enumerate();
        let mut problems = pairs.filter_map(|(index, (question, response))| {
            let problem = question.problem(response)?;
            Some(format!("answer {}: {problem}", index + 1))
        });
        problems.next()
    }
}

impl Question {
    fn problem(&self, response: &QuestionResponse) -> Option<String> {
        let chosen = response.selected_option_ids.as_deref().unwrap_or_default();
        let is_option = |id: &&String| self.options.iter().any(|option| option.id == **id);
        if let Some(unknown) = chosen.iter().find(|id| !is_option(id)) {
            return Some(format!("there is no option '{unknown}'"));
        }
        if chosen.len() > 1 && !self.is_multi_select {
            return Some("one option may be chosen".to_owned());
        }
        let words = response.freeform_response.len();
        if words > FREE_ANSWER_BYTES {
            return Some(format!("it is longer than {FREE_ANSWER_BYTES} bytes"));
        }
        let is_empty = chosen.is_empty() && response.freeform_response.trim().is_empty();
        match (response.skipped, is_empty) {
            (true, false) => Some("it is skipped and has an answer".to_owned()),
            (false, true) => Some("it is empty and not skipped".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request() -> QuestionRequest {
        serde_json::from_value(json!({
            "question_id": "ask_1", "call_id": "call_1", "tool_name": "ask_user",
            "questions": [
                {"question": "Which?", "options": [{"id": "a", "text": "A"}, {"id": "b", "text": "B"}]},
                {"question": "Why?"},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn answers_fit_their_questions_or_it_is_said_why_not() {
        let request = request();
        let because = || QuestionResponse::text("because");
        let problem = |first: QuestionResponse| request.problem(&[first, because()]);
        assert_eq!(problem(QuestionResponse::selected("b")), None);
        assert_eq!(problem(QuestionResponse::skipped()), None);
        assert_eq!(problem(QuestionResponse::text("neither")), None);
        let told = |first| problem(first).unwrap();
        assert_eq!(
            told(QuestionResponse::selected("c")),
            "answer 1: there is no option 'c'"
        );
        let both = QuestionResponse {
            selected_option_ids: Some(vec!["a".into(), "b".into()]),
            ..QuestionResponse::default()
        };
        assert_eq!(told(both.clone()), "answer 1: one option may be chosen");
        assert!(told(QuestionResponse::default()).contains("empty"));
        let torn = QuestionResponse {
            skipped: true,
            ..QuestionResponse::text("well")
        };
        assert!(told(torn).contains("skipped and has an answer"));
        let long = |bytes: usize| QuestionResponse::text("x".repeat(bytes));
        assert_eq!(problem(long(FREE_ANSWER_BYTES)), None);
        assert!(told(long(FREE_ANSWER_BYTES + 1)).contains("longer than"));
        let few = request.problem(&[because()]).unwrap();
        assert_eq!(few, "there are 2 questions and 1 answers");
        let mut several = request.clone();
        several.questions[0].is_multi_select = true;
        assert_eq!(several.problem(&[both, because()]), None);
    }

    #[test]
    fn an_answer_of_nothing_decodes() {
        let response: QuestionResponse = serde_json::from_value(json!({})).unwrap();
        assert_eq!(response, QuestionResponse::default());
    }
}
