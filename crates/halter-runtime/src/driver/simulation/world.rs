//! The models, tools and hooks of the simulated world.

use super::LONGEST_TOOL_RUN;
use super::dice::Dice;
use crate::engine::{Catalog, EffectId, HookOutcome, HookPoint, HookPointKind, Input, ToolTraits};
use halter_protocol::{
    ContentPart, FINAL_TOOL, HookHandlerType, HookRunStatus, HookRunSummary, ProviderError,
    ProviderErrorKind, StopReason, StreamEvent, Timestamp, ToolCall, ToolCapabilities,
    ToolConcurrency, ToolError, ToolErrorCode, ToolResult, Usage, UsageBuckets,
};
use serde_json::json;
use std::collections::HashSet;

/// Tools of every kind: `(name, concurrency, mutating, cancellable, long)`.
const TOOLS: [(&str, ToolConcurrency, bool, bool, bool); 6] = [
    ("look", ToolConcurrency::ReadOnly, false, true, false),
    ("count", ToolConcurrency::ParallelSafe, false, true, false),
    ("send", ToolConcurrency::ParallelSafe, true, true, false),
    ("write", ToolConcurrency::Exclusive, true, true, false),
    ("stubborn", ToolConcurrency::Exclusive, true, false, false),
    ("build", ToolConcurrency::Exclusive, true, true, true),
];

const HOOK_POINTS: [HookPointKind; 8] = [
    HookPointKind::SessionStart,
    HookPointKind::SessionEnd,
    HookPointKind::UserPromptSubmit,
    HookPointKind::PreToolUse,
    HookPointKind::PostToolUse,
    HookPointKind::PostToolUseFailure,
    HookPointKind::Notification,
    HookPointKind::Stop,
];

/// Which tools and hooks a schedule has.
#[derive(Debug)]
pub(super) struct SimulatedCatalog {
    hooks: HashSet<HookPointKind>,
}

impl SimulatedCatalog {
    pub fn drawn(dice: &mut Dice) -> Self {
        let hooked = dice.chance(50);
        let hooks = HOOK_POINTS
            .into_iter()
            .filter(|_| hooked && dice.chance(50))
            .collect();
        Self { hooks }
    }
}

impl Catalog for SimulatedCatalog {
    fn traits_of(&self, tool: &str) -> Option<ToolTraits> {
        TOOLS.iter().find(|known| known.0 == tool).map(
            |&(_, concurrency, mutating, cancellable, long_running)| ToolTraits {
                concurrency,
                capabilities: ToolCapabilities {
                    mutating,
                    requires_approval: false,
                    cancellable,
                    long_running,
                },
            },
        )
    }

    fn validate(&self, call: &ToolCall) -> Result<(), ToolError> {
        if self.traits_of(call.name.as_str()).is_none() {
            return Err(ToolError::new(ToolErrorCode::UnknownTool, "no such tool"));
        }
        match call.arguments.get("bad") {
            Some(_) => Err(ToolError::new(ToolErrorCode::InvalidArguments, "bad")),
            None => Ok(()),
        }
    }

    fn is_polling(&self, call: &ToolCall) -> bool {
        call.name.as_str() == "count"
    }

    fn has_hooks(&self, point: HookPointKind) -> bool {
        self.hooks.contains(&point)
    }
}

/// What a model says, event by event.
pub(super) fn answer(dice: &mut Dice, id: EffectId) -> Vec<Input> {
    let mut events = vec![StreamEvent::MessageStart { id: "msg".into() }];
    if dice.chance(30) {
        events.extend(thinking(dice));
    }
    if dice.chance(70) {
        events.extend(text(dice));
    }
    let calls = if dice.chance(60) { dice.below(5) } else { 0 };
    for number in 0..calls {
        events.extend(call(dice, id, number));
    }
    events.push(StreamEvent::UsageUpdate {
        usage: Usage::from(UsageBuckets {
            uncached_input: dice.below(1000),
            output: dice.below(100),
            ..UsageBuckets::default()
        }),
    });
    let stop_reason = match (calls, dice.below(20)) {
        (_, 0) => StopReason::MaxTokens,
        (0, _) => StopReason::EndTurn,
        _ => StopReason::ToolUse,
    };
    events.push(StreamEvent::MessageEnd {
        id: "msg".into(),
        stop_reason,
    });
    let broken = dice.chance(12);
    if broken {
        events.truncate(dice.below(events.len() as u64) as usize);
    }
    let mut inputs: Vec<Input> = events
        .into_iter()
        .map(|event| Input::Model { id, event })
        .collect();
    let error = (broken && dice.chance(70))
        .then(|| ProviderError::new("the connection broke", ProviderErrorKind::Transient));
    inputs.push(Input::ModelEnded { id, error });
    inputs
}

fn thinking(dice: &mut Dice) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::ThinkingStart { id: "think".into() }];
    for _ in 0..dice.below(3) {
        events.push(StreamEvent::ThinkingDelta {
            id: "think".into(),
            delta: "hm ".into(),
        });
    }
    events.push(StreamEvent::ThinkingEnd {
        id: "think".into(),
        opaque: None,
    });
    events
}

fn text(dice: &mut Dice) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::TextStart { id: "text".into() }];
    for _ in 0..1 + dice.below(5) {
        events.push(StreamEvent::TextDelta {
            id: "text".into(),
            delta: "word ".into(),
        });
    }
    events.push(StreamEvent::TextEnd {
        id: "text".into(),
        opaque: None,
    });
    events
}

fn call(dice: &mut Dice, answer: EffectId, number: u64) -> Vec<StreamEvent> {
    let name = match dice.below(13) {
        0 => "no_such_tool",
        12 => FINAL_TOOL,
        roll => TOOLS
            .get(roll as usize % TOOLS.len())
            .map_or("look", |tool| tool.0),
    };
    let arguments = match dice.below(12) {
        0 => "{broken".to_owned(),
        1 => json!({"bad": true}).to_string(),
        roll => json!({"n": roll % 3}).to_string(),
    };
    let block = format!("call{number}");
    vec![
        StreamEvent::ToolCallStart {
            id: block.as_str().into(),
            // Unique over processes: the answer's number starts over after a
            // crash, a roll of the dice does not repeat.
            tool_call_id: format!("call_{}_{number}_{:x}", answer.0, dice.below(u64::MAX))
                .as_str()
                .into(),
            name: name.into(),
        },
        StreamEvent::ToolArgsDelta {
            id: block.as_str().into(),
            delta: arguments,
        },
        StreamEvent::ToolCallEnd {
            id: block.as_str().into(),
            opaque: None,
        },
    ]
}

pub(super) fn tool_named(name: &str) -> &'static str {
    TOOLS
        .iter()
        .find(|tool| tool.0 == name)
        .map_or("unknown", |tool| tool.0)
}

/// When a tool returns, and what; none if it hangs.
pub(super) fn tool_run(
    dice: &mut Dice,
    tool: &'static str,
) -> Option<(u64, Result<ToolResult, ToolError>)> {
    if tool == "stubborn" && dice.chance(40) {
        return None;
    }
    let longest = u64::try_from(LONGEST_TOOL_RUN.as_millis()).unwrap_or(u64::MAX);
    let delay = if dice.chance(5) {
        dice.below(longest)
    } else {
        dice.below(200)
    };
    let result = match dice.below(6) {
        5 => Ok(ToolResult::parts([
            ContentPart::text("seen"),
            picture(dice),
        ])),
        0 => Err(ToolError::new(ToolErrorCode::Failed, "it did not work")),
        roll => Ok(ToolResult::text(format!("result {}", roll % 2))),
    };
    Some((delay, result))
}

/// An image that fits, or one that is none.
pub(super) fn picture(dice: &mut Dice) -> ContentPart {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0";
    let data = if dice.chance(80) { PNG } else { b"a blank" };
    ContentPart::image("image/png", data)
}

pub(super) fn cancelled() -> ToolError {
    ToolError::new(ToolErrorCode::Cancelled, "stopped")
}

/// What the hooks of a point do.
pub(super) fn hooks(dice: &mut Dice, id: EffectId, point: &HookPoint, at: Timestamp) -> Vec<Input> {
    let run = HookRunSummary {
        run_id: "hrun".into(),
        hook_id: "sim".into(),
        event_name: format!("{:?}", point.kind()),
        handler_type: HookHandlerType::Callback,
        plugin_id: "sim".into(),
        status: HookRunStatus::Running,
        status_message: None,
        started_at: at,
        completed_at: None,
        duration_ms: None,
        entries: Vec::new(),
    };
    let ended = HookRunSummary {
        status: HookRunStatus::Completed,
        ..run.clone()
    };
    let outcome = HookOutcome {
        block: dice.chance(15).then(|| "blocked".to_owned()),
        stop: dice.chance(4).then(|| "stopped".to_owned()),
        updated_input: dice.chance(10).then(|| json!({"n": 9})),
        updated_output: dice.chance(10).then(|| ToolResult::text("rewritten")),
        messages: (0..dice.below(2)).map(|_| "a hint".to_owned()).collect(),
    };
    vec![
        Input::HookProgress { run, ended: false },
        Input::HookProgress {
            run: ended,
            ended: true,
        },
        Input::HooksFinished { id, outcome },
    ]
}
