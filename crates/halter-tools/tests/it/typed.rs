//! Tools whose input is a struct.

use crate::support::Workspace;
use async_trait::async_trait;
use halter_protocol::{ToolErrorCode, ToolResult};
use halter_tools::{ToolContext, TypedTool, typed};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Move a piece. The board is
/// not shown.
#[derive(Deserialize, JsonSchema)]
struct Move {
    /// The square it leaves.
    from: Square,
    /// The squares it
    /// passes.
    #[serde(default)]
    #[schemars(length(max = 3))]
    via: Vec<Square>,
    /// How fast.
    speed: Option<Speed>,
    /// Must be even, which no schema says.
    #[serde(default, deserialize_with = "even")]
    weight: u8,
}

#[derive(Deserialize, JsonSchema)]
struct Square {
    /// The column.
    #[schemars(range(min = 1, max = 8))]
    column: u8,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Speed {
    Slow,
    Fast,
}

fn even<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    let number = u8::deserialize(deserializer)?;
    match number % 2 {
        0 => Ok(number),
        _ => Err(serde::de::Error::custom("an even number is needed")),
    }
}

struct Mover;

#[async_trait]
impl TypedTool for Mover {
    type Input = Move;
    const NAME: &'static str = "move";

    async fn run(&self, _: ToolContext, input: Move) -> anyhow::Result<ToolResult> {
        let fast = matches!(input.speed, Some(Speed::Fast));
        let columns: Vec<_> = input.via.iter().map(|square| square.column).collect();
        Ok(ToolResult::json(
            json!({"from": input.from.column, "via": columns, "fast": fast, "weight": input.weight}),
        ))
    }
}

fn board() -> Workspace {
    let mut workspace = Workspace::new();
    workspace.tools.register(typed(Mover));
    workspace
}

#[test]
fn doc_comments_become_the_schema() {
    let workspace = board();
    let spec = workspace.tools.spec("move").unwrap();
    assert_eq!(spec.description, "Move a piece. The board is not shown.");
    let square = json!({
        "type": "object",
        "properties": {
            "column": {
                "type": "integer",
                "description": "The column.",
                "minimum": 1,
                "maximum": 8,
            }
        },
        "required": ["column"],
    });
    let mut from = square.clone();
    from["description"] = "The square it leaves.".into();
    assert_eq!(
        spec.input_schema,
        json!({
            "type": "object",
            "properties": {
                "from": from,
                "via": {
                    "description": "The squares it passes.",
                    "type": "array",
                    "items": square,
                    "maxItems": 3,
                },
                "speed": {
                    "description": "How fast.",
                    "type": ["string", "null"],
                    "enum": ["slow", "fast", null],
                },
                "weight": {
                    "description": "Must be even, which no schema says.",
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 255,
                    "default": 0,
                },
            },
            "required": ["from"],
            "additionalProperties": false,
        })
    );
}

#[tokio::test]
async fn the_input_is_decoded() {
    let arguments = json!({"from": {"column": 1}, "via": [{"column": 2}], "speed": "fast"});
    assert_eq!(
        board().ok("move", arguments).await,
        json!({"from": 1, "via": [2], "fast": true, "weight": 0})
    );
}

#[tokio::test]
async fn bad_input_is_refused_before_it_runs() {
    let workspace = board();
    for (arguments, expected) in [
        (
            json!({"from": {"column": 9}}),
            "`from.column`: 9 is greater than the maximum of 8",
        ),
        (
            json!({"from": {"column": 1}, "to": 3}),
            "`to` is not a parameter",
        ),
        (
            json!({"from": {"column": 1}, "via": [{"column": 1}, {}]}),
            "`column` is required in `via[1]` and missing",
        ),
        (
            json!({"from": {"column": 1}, "weight": 3}),
            "the arguments of 'move' cannot be used: an even number is needed",
        ),
    ] {
        let message = workspace
            .error("move", arguments, ToolErrorCode::InvalidArguments)
            .await;
        assert!(message.contains(expected), "{message}");
    }
}
