//! A request as a conversation, the same for every wire: enough to choose a scenario,
//! count its steps and quote from it.

use crate::fields;
use serde_json::Value;

/// The tool that carries calls of tools which only results describe.
pub(crate) const CARRIER: &str = "call_tool";

/// What a request says so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Conversation {
    /// The model asked for.
    pub model: String,
    /// Whether the answer is to be streamed.
    pub streaming: bool,
    /// The turns in order.
    pub turns: Vec<SpokenTurn>,
    /// The names of the tools offered.
    pub tools: Vec<String>,
    /// The names of tools that results describe, for `call_tool` to carry.
    pub described: Vec<String>,
}

/// One turn. Neighbouring items of the assistant are one turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SpokenTurn {
    /// Text and images of the user.
    User { text: String, images: usize },
    /// An answer of the model, and how many calls it makes.
    Assistant { calls: usize },
    /// Results of calls.
    Results(Vec<ToolResult>),
    /// Something the harness says after an answer: the next is another one.
    Note,
}

/// The result of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ToolResult {
    /// Its text, parts joined.
    pub text: String,
    /// Images in it.
    pub images: usize,
}

impl Conversation {
    /// A conversation without turns, of a wire that names the model and
    /// `stream` in the body; `tool_name` finds the name in a tool.
    pub(crate) fn of_body(body: &Value, tool_name: fn(&Value) -> Option<&str>) -> Self {
        let tools = fields::items(body, "tools").iter();
        Self {
            model: fields::text(body, "model").unwrap_or_default().to_owned(),
            streaming: fields::flag(body, "stream"),
            tools: tools.filter_map(tool_name).map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    /// Adds words of the user; parts of one message are one turn.
    pub(crate) fn push_user(&mut self, text: &str, images: usize) {
        if text.is_empty() && images == 0 {
            return;
        }
        self.turns.push(SpokenTurn::User {
            text: text.to_owned(),
            images,
        });
    }

    /// Adds something the model said.
    pub(crate) fn push_assistant(&mut self, more_calls: usize) {
        if let Some(SpokenTurn::Assistant { calls }) = self.turns.last_mut() {
            *calls += more_calls;
        } else {
            self.turns.push(SpokenTurn::Assistant { calls: more_calls });
        }
    }

    /// Adds words of the harness.
    pub(crate) fn push_note(&mut self) {
        if let Some(SpokenTurn::Assistant { .. }) = self.turns.last() {
            self.turns.push(SpokenTurn::Note);
        }
    }

    /// Adds the result of a call.
    pub(crate) fn push_result(&mut self, result: ToolResult) {
        self.described.extend(described(&result.text));
        if let Some(SpokenTurn::Results(results)) = self.turns.last_mut() {
            results.push(result);
        } else {
            self.turns.push(SpokenTurn::Results(vec![result]));
        }
    }

    /// Whether a tool is offered by this name.
    pub(crate) fn offers(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool == name)
    }

    /// Whether the model knows how to call a tool: it is offered, or described
    /// where a tool is offered that carries calls.
    pub(crate) fn was_sent(&self, name: &str) -> bool {
        let is_described = self.described.iter().any(|tool| tool == name);
        self.offers(name) || is_described && self.offers(CARRIER)
    }

    /// The results from this turn on, in order.
    pub(crate) fn results_since(
        &self,
        turn: usize,
    ) -> impl DoubleEndedIterator<Item = &ToolResult> {
        self.turns
            .iter()
            .skip(turn)
            .filter_map(|turn| match turn {
                SpokenTurn::Results(results) => Some(results.iter()),
                _ => None,
            })
            .flatten()
    }

    /// The number of images in all turns.
    pub(crate) fn images(&self) -> usize {
        self.turns
            .iter()
            .map(|turn| match turn {
                SpokenTurn::User { images, .. } => *images,
                SpokenTurn::Results(results) => results.iter().map(|result| result.images).sum(),
                SpokenTurn::Assistant { .. } | SpokenTurn::Note => 0,
            })
            .sum()
    }
}

/// The tools that a text describes: lines that are objects with a name, a
/// description and parameters.
fn described(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.filter_map(|line| {
        let tool: Value = serde_json::from_str(line).ok()?;
        fields::text(&tool, "description")?;
        fields::tool_schema(tool.get("parameters")).ok()?;
        Some(fields::text(&tool, "name")?.to_owned())
    })
}
