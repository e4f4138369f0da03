//! Questions of tools, one after the other, as a person reads them and types
//! answers.

use halter_protocol::{Question, QuestionRequest, QuestionResponse};
use std::sync::Arc;

/// Questions that are being answered.
pub struct OpenQuestions {
    pub request: Arc<QuestionRequest>,
    answers: Vec<QuestionResponse>,
}

impl OpenQuestions {
    pub fn new(request: Arc<QuestionRequest>) -> Self {
        Self {
            request,
            answers: Vec::new(),
        }
    }

    /// The question that is to be answered next, with what to type.
    pub fn text(&self) -> String {
        let Some(question) = self.request.questions.get(self.answers.len()) else {
            return String::new();
        };
        let all = self.request.questions.len();
        let mut lines = vec![match all {
            1 => question.question.clone(),
            _ => format!("{} of {all}: {}", self.answers.len() + 1, question.question),
        }];
        for (index, option) in question.options.iter().enumerate() {
            lines.push(format!("  {}  {}", index + 1, option.text));
        }
        lines.push(hint(question).to_owned());
        lines.join("\n")
    }

    /// Takes a line. Returns all answers once there is one to each question.
    ///
    /// # Errors
    /// The line is no answer, and why.
    pub fn take(&mut self, line: &str) -> Result<Option<Vec<QuestionResponse>>, String> {
        let Some(question) = self.request.questions.get(self.answers.len()) else {
            return Ok(None);
        };
        self.answers.push(answer(question, line)?);
        let is_complete = self.answers.len() == self.request.questions.len();
        Ok(is_complete.then(|| std::mem::take(&mut self.answers)))
    }
}

fn hint(question: &Question) -> &'static str {
    match (question.options.is_empty(), question.is_multi_select) {
        (true, _) => "  Type an answer, or nothing to skip it.",
        (false, true) => {
            "  Type numbers, such as 1,2, or words of your own, or nothing to skip it."
        }
        (false, false) => "  Type a number, or words of your own, or nothing to skip it.",
    }
}

/// What a line says to a question: numbers and ids of options choose them.
fn answer(question: &Question, line: &str) -> Result<QuestionResponse, String> {
    let line = line.trim();
    if line.is_empty() {
        return Ok(QuestionResponse::skipped());
    }
    let option = |word: &str| {
        let by_number = word.parse::<usize>().ok().and_then(|it| it.checked_sub(1));
        let numbered = by_number.and_then(|index| question.options.get(index));
        let named = question.options.iter().find(|option| option.id == word);
        named.or(numbered).map(|option| option.id.clone())
    };
    let words: Vec<&str> = line.split([',', ' ']).filter(|it| !it.is_empty()).collect();
    let chosen: Option<Vec<String>> = words.iter().map(|word| option(word)).collect();
    match chosen {
        Some(chosen) if chosen.len() > 1 && !question.is_multi_select => {
            Err("choose one".to_owned())
        }
        Some(chosen) => Ok(QuestionResponse {
            selected_option_ids: Some(chosen),
            ..QuestionResponse::default()
        }),
        None if !question.options.is_empty()
            && words.iter().all(|it| it.parse::<u32>().is_ok()) =>
        {
            Err(format!("there are {} options", question.options.len()))
        }
        None => Ok(QuestionResponse::text(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked() -> OpenQuestions {
        let request: QuestionRequest = serde_json::from_value(json!({
            "question_id": "ask_1", "call_id": "call_1", "tool_name": "ask_user",
            "questions": [
                {"question": "Which database?", "options": [
                    {"id": "sqlite", "text": "SQLite"}, {"id": "pg", "text": "Postgres"},
                ]},
                {"question": "Which tests?", "is_multi_select": true, "options": [
                    {"id": "unit", "text": "Unit"}, {"id": "e2e", "text": "End to end"},
                ]},
                {"question": "Anything else?"},
            ],
        }))
        .unwrap();
        OpenQuestions::new(Arc::new(request))
    }

    #[test]
    fn a_person_answers_one_after_the_other() {
        let mut asked = asked();
        assert_eq!(
            asked.text(),
            "1 of 3: Which database?\n  1  SQLite\n  2  Postgres\n  \
             Type a number, or words of your own, or nothing to skip it."
        );
        assert_eq!(asked.take("1 2"), Err("choose one".to_owned()));
        assert_eq!(asked.take("3"), Err("there are 2 options".to_owned()));
        assert_eq!(asked.take(" 2 "), Ok(None));
        assert!(asked.text().contains("Type numbers, such as 1,2"));
        assert_eq!(asked.take("unit, 2"), Ok(None));
        assert!(
            asked
                .text()
                .ends_with("Type an answer, or nothing to skip it.")
        );
        let all = asked.take("").unwrap().unwrap();
        assert_eq!(all[0], QuestionResponse::selected("pg"));
        let both = vec!["unit".to_owned(), "e2e".to_owned()];
        assert_eq!(all[1].selected_option_ids, Some(both));
        assert_eq!(all[2], QuestionResponse::skipped());
    }

    #[test]
    fn words_of_ones_own_are_an_answer() {
        let mut asked = asked();
        asked.take("neither, use files").unwrap();
        assert_eq!(
            asked.answers[0],
            QuestionResponse::text("neither, use files")
        );
    }
}
