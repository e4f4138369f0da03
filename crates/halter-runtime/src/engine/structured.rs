//! The structured answer of a turn: found in what the model said, checked, and
//! asked for again a few times.
//!
//! An answer comes as text, where a service keeps models to a schema, or as a
//! call of [`FINAL_TOOL`]. Both are taken whenever a turn has a schema, so it
//! does not matter here which way a provider went. The call is no tool: no
//! hook sees it and nothing runs.

use super::Engine;
use super::turn::Ending;
use crate::limits::STRUCTURED_OUTPUT_REPAIRS;
use halter_protocol::{
    FINAL_TOOL, ResponseSchema, ToolCall, ToolError, ToolErrorCode, ToolResult, TurnError,
};
use halter_tools::SchemaCheck;
use serde_json::Value;

/// What the last answer of a turn must look like, and what came of it.
#[derive(Debug)]
pub(super) struct ResponseContract {
    schema: ResponseSchema,
    check: SchemaCheck,
    repairs: u32,
    verdict: Option<Verdict>,
}

/// What came of the last answer.
#[derive(Debug)]
enum Verdict {
    Accepted(Value),
    /// It does not fit and was asked for often enough.
    GivenUp(String),
}

/// Checks that a schema is one.
///
/// # Errors
/// If it is not valid JSON Schema.
pub fn check_response_schema(schema: &ResponseSchema) -> Result<(), TurnError> {
    ResponseContract::new(schema.clone()).map(|_| ())
}

impl ResponseContract {
    pub fn new(schema: ResponseSchema) -> Result<Self, TurnError> {
        let check = SchemaCheck::new(schema.value().clone()).map_err(|error| {
            let message = format!("the response schema cannot be used: {error}");
            TurnError::new("invalid_response_schema", message)
                .with_hint("correct the schema; references to other documents are not followed")
        })?;
        Ok(Self {
            schema,
            check,
            repairs: 0,
            verdict: None,
        })
    }

    pub fn schema(&self) -> &ResponseSchema {
        &self.schema
    }

    /// The model is asked again: an earlier answer counts no longer.
    pub fn ask_again(&mut self) {
        self.verdict = None;
    }

    pub fn output(&mut self) -> Option<Value> {
        match self.verdict.take() {
            Some(Verdict::Accepted(value)) => Some(value),
            _ => None,
        }
    }

    /// Takes an answer; says what is wrong with it.
    fn take(&mut self, answer: Result<Value, String>) -> Result<(), String> {
        let checked = answer.and_then(|answer| {
            let answer = self.schema.unwrapped(answer);
            match self.check.problems(&answer) {
                problems if problems.is_empty() => Ok(answer),
                problems => Err(problems.join("; ")),
            }
        });
        match checked {
            Ok(answer) => {
                self.verdict = Some(Verdict::Accepted(answer));
                Ok(())
            }
            Err(problem) => {
                if self.repairs >= STRUCTURED_OUTPUT_REPAIRS && self.verdict.is_none() {
                    self.verdict = Some(Verdict::GivenUp(problem.clone()));
                }
                self.repairs += 1;
                Err(problem)
            }
        }
    }
}

impl Engine {
    /// True if the call is how a model gives the answer that the turn asks
    /// for.
    pub(super) fn is_final_call(&self, call: &ToolCall) -> bool {
        call.name.as_str() == FINAL_TOOL
            && self
                .turn
                .as_ref()
                .is_some_and(|turn| turn.contract.is_some())
    }

    /// Takes the answer out of a call of the final tool: what the model hears
    /// of it.
    pub(super) fn final_call(
        &mut self,
        call: &ToolCall,
        malformed: Option<&str>,
    ) -> Result<ToolResult, ToolError> {
        let answer = match malformed {
            Some(_) => Err("the arguments are not a JSON object".to_owned()),
            None => Ok(call.arguments.clone()),
        };
        match self.take_answer(answer) {
            Ok(()) => Ok(ToolResult::text("accepted")),
            Err(problem) => {
                let message = format!(
                    "the answer does not fit the schema: {problem}. Correct it and call `{FINAL_TOOL}` again."
                );
                Err(ToolError::new(ToolErrorCode::InvalidArguments, message))
            }
        }
    }

    /// Ends the turn if the step brought its answer, or one time too often a
    /// bad one. Returns whether it did.
    pub(super) fn settle_structured(&mut self) -> bool {
        let Some(contract) = self.turn.as_ref().and_then(|turn| turn.contract.as_ref()) else {
            return false;
        };
        match &contract.verdict {
            None => return false,
            Some(Verdict::Accepted(answer)) => {
                let answer = answer.to_string();
                self.stop_or_go_on(answer);
            }
            Some(Verdict::GivenUp(problem)) => {
                let error = unfit(problem);
                self.finish_turn(Ending::failed(error));
            }
        }
        true
    }

    /// Takes the answer out of a text, or asks for it again.
    pub(super) fn structured_text(&mut self, text: &str) {
        let Err(problem) = self.take_answer(parse(text)) else {
            self.settle_structured();
            return;
        };
        if !self.settle_structured() {
            // A service that ignores tools has never shown the schema to the model.
            let contract = self.turn.as_ref().and_then(|turn| turn.contract.as_ref());
            let schema = contract.map(|contract| contract.schema().as_object_schema().to_string());
            self.record_system(format!(
                "Your answer does not fit the JSON Schema that was asked for: {problem}. \
                 Answer again, with nothing but JSON that fits this schema: {}. \
                 If you have a tool called `{FINAL_TOOL}`, call it with your answer.",
                schema.unwrap_or_default()
            ));
            self.go_on();
        }
    }

    fn take_answer(&mut self, answer: Result<Value, String>) -> Result<(), String> {
        let contract = self.turn.as_mut().and_then(|turn| turn.contract.as_mut());
        contract.map_or(Ok(()), |contract| contract.take(answer))
    }
}

/// The value that a text is, fenced as code or not.
fn parse(text: &str) -> Result<Value, String> {
    let text = text.trim();
    let inside = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .map(|fenced| fenced.trim_start_matches(|c: char| c.is_ascii_alphanumeric()))
        .unwrap_or(text);
    serde_json::from_str(inside).map_err(|error| format!("it is not JSON ({error})"))
}

fn unfit(problem: &str) -> TurnError {
    TurnError::new(
        "structured_output_invalid",
        format!(
            "the model's answer does not fit the response schema, \
             after {STRUCTURED_OUTPUT_REPAIRS} corrections: {problem}"
        ),
    )
    .with_hint("make the schema simpler, say in the prompt what is wanted, or use another model")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn contract() -> ResponseContract {
        ResponseContract::new(ResponseSchema::new(json!({
            "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        })))
        .unwrap()
    }

    #[test]
    fn text_is_json_with_or_without_a_fence() {
        for text in [
            "{\"n\":1}",
            " {\"n\": 1}\n",
            "```json\n{\"n\":1}\n```",
            "```{\"n\":1}```",
        ] {
            assert_eq!(parse(text), Ok(json!({"n": 1})), "{text}");
        }
        for text in ["", "The answer is 1.", "{\"n\":", "{\"n\":1} and more"] {
            assert!(parse(text).unwrap_err().contains("not JSON"), "{text}");
        }
    }

    #[test]
    fn a_bad_answer_is_given_up_after_the_last_repair() {
        let mut contract = contract();
        for _ in 0..STRUCTURED_OUTPUT_REPAIRS {
            let problem = contract.take(Ok(json!({}))).unwrap_err();
            assert_eq!(problem, "`n` is required and missing");
            assert!(contract.verdict.is_none(), "it is asked for again");
        }
        contract.take(Ok(json!({"n": "1"}))).unwrap_err();
        assert!(matches!(&contract.verdict, Some(Verdict::GivenUp(_))));
        assert_eq!(contract.output(), None);
    }

    #[test]
    fn a_good_answer_counts_until_the_model_is_asked_again() {
        let mut contract = contract();
        contract.take(Ok(json!({"n": 1}))).unwrap();
        contract.ask_again();
        assert_eq!(contract.output(), None);
        contract.take(Ok(json!({"n": 2}))).unwrap();
        assert_eq!(contract.output(), Some(json!({"n": 2})));
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for schema in [
            json!({"type": "sometimes"}),
            json!({"$ref": "https://example.com/x"}),
            json!(7),
        ] {
            let error = check_response_schema(&ResponseSchema::new(schema)).unwrap_err();
            assert_eq!(error.code, "invalid_response_schema");
        }
    }
}
