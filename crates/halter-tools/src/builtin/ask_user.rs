//! `ask_user`: questions to the person in front of the session.

use crate::availability::HarnessFacts;
use crate::context::ToolContext;
use crate::limits::{OPTION_CHARS, OPTION_ID_CHARS, QUESTION_CHARS, QUESTION_OPTIONS, QUESTIONS};
use crate::typed::TypedTool;
use async_trait::async_trait;
use halter_protocol::{Action, Question, QuestionOption, ResolvedBy, ToolCapabilities, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Ask the user, where the answer matters and nothing else tells it. Put all
/// questions of a moment into one call. The user may choose, answer in words, or
/// skip.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct AskUserInput {
    /// The questions.
    #[schemars(length(min = 1, max = QUESTIONS))]
    questions: Vec<AskedQuestion>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct AskedQuestion {
    /// What you want to know.
    #[schemars(length(min = 1, max = QUESTION_CHARS))]
    question: String,
    /// Answers to choose from, the one you would take first; none for an answer in words.
    #[serde(default)]
    #[schemars(length(max = QUESTION_OPTIONS))]
    options: Vec<AskedOption>,
    /// Let the user choose several.
    #[serde(default)]
    is_multi_select: bool,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct AskedOption {
    /// A short name that the answer comes back with.
    #[schemars(length(min = 1, max = OPTION_ID_CHARS))]
    id: String,
    /// What the user reads.
    #[schemars(length(min = 1, max = OPTION_CHARS))]
    text: String,
}

pub(crate) struct AskUserTool;

#[async_trait]
impl TypedTool for AskUserTool {
    type Input = AskUserInput;
    const NAME: &'static str = "ask_user";
    const SUMMARY: Option<&'static str> = Some("ask the user questions");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        ToolCapabilities {
            cancellable: true,
            long_running: true,
            ..ToolCapabilities::default()
        }
    }

    fn actions(&self, _: &Value) -> Vec<Action> {
        vec![Action::Ask]
    }

    fn unavailable(&self, harness: &HarnessFacts<'_>) -> Option<String> {
        (!harness.attended).then(|| {
            "nobody can be asked here; decide yourself, and say in your answer what you assumed"
                .to_owned()
        })
    }

    async fn run(&self, context: ToolContext, input: AskUserInput) -> anyhow::Result<ToolResult> {
        let questions = input.questions.into_iter().map(|asked| Question {
            question: asked.question,
            options: asked
                .options
                .into_iter()
                .map(|option| QuestionOption {
                    id: option.id,
                    text: option.text,
                })
                .collect(),
            is_multi_select: asked.is_multi_select,
        });
        let answers = context.ask(questions.collect()).await?;
        let responses = &answers.responses;
        let note = match answers.by {
            _ if !responses.iter().all(|response| response.skipped) => {
                return Ok(ToolResult::json(json!({ "responses": responses })));
            }
            ResolvedBy::User | ResolvedBy::Handler => "The user did not want to answer.",
            _ => "Nobody could be asked.",
        };
        let note = format!("{note} Go on with what is most likely wanted, and say so.");
        Ok(ToolResult::json(
            json!({ "responses": responses, "note": note }),
        ))
    }
}
