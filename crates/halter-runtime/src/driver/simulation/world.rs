//! The models, tools and hooks of the simulated world.

use super::dice::Dice;
use super::{LONGEST_TOOL_RUN, budget};
use crate::engine::{CallFacts, EffectId, Input, PersonRequest, SessionFacts, SystemNote};
use halter_hooks::{HookEventName, HookPoint, HookVerdict, PermissionDecision};
use halter_protocol::{
    Action, ApprovalAnswer, ApprovalChoice, ApprovalId, ApprovalRequest, AskedBy, CallToJudge,
    ContentPart, FINAL_TOOL, HookHandlerType, HookRunStatus, HookRunSummary, InstructionFile,
    MemoryChange, ModelId, Objection, PolicyVerdict, ProviderError, ProviderErrorKind,
    ProviderKind, Question, QuestionId, QuestionRequest, QuestionResponse, ResolvedModel,
    SessionBlueprint, StopReason, StreamEvent, Timestamp, ToolCall, ToolCapabilities,
    ToolConcurrency, ToolError, ToolErrorCode, ToolResult, ToolSpec, Usage, UsageBuckets,
};
use serde_json::json;
use std::sync::Arc;

/// Tools of every kind: `(name, concurrency, mutating, cancellable, long)`.
const TOOLS: [(&str, ToolConcurrency, bool, bool, bool); 6] = [
    ("look", ToolConcurrency::ReadOnly, false, true, false),
    ("count", ToolConcurrency::ParallelSafe, false, true, false),
    ("send", ToolConcurrency::ParallelSafe, true, true, false),
    ("write", ToolConcurrency::Exclusive, true, true, false),
    ("stubborn", ToolConcurrency::Exclusive, true, false, false),
    ("build", ToolConcurrency::Exclusive, true, true, true),
];

/// What a process knows of the session: the same tools in all of them, hooks
/// or none.
pub(super) fn facts(dice: &mut Dice) -> SessionFacts {
    let hooked = dice.chance(50);
    let events = HookEventName::ALL.into_iter();
    SessionFacts {
        blueprint: Arc::new(blueprint(dice)),
        tools: TOOLS.iter().map(spec).collect(),
        late_tools: Arc::default(),
        hooked: events.filter(|_| hooked && dice.chance(50)).collect(),
        saves_rules: dice.chance(50),
        budget: budget::harness(dice),
        id_seed: dice.below(u64::MAX),
    }
}

pub(super) fn blueprint(dice: &mut Dice) -> SessionBlueprint {
    SessionBlueprint {
        session_id: "ses_sim".into(),
        parent_session_id: None,
        created_at: Timestamp::UNIX_EPOCH,
        working_dir: "/".into(),
        default_model: "default".into(),
        system_prompt: Vec::new(),
        environment: Default::default(),
        instructions: Vec::new(),
        snapshot_revision: "sim".into(),
        tools_revision: None,
        max_turns: dice.chance(50).then(|| 1 + dice.below(6) as u32),
        bounds: Default::default(),
        budget: Default::default(),
        subagent_model: None,
        subagent_event_forwarding: Default::default(),
        subagent: None,
    }
}

pub(super) fn model(id: ModelId) -> ResolvedModel {
    ResolvedModel {
        id,
        provider: "sim".into(),
        provider_kind: ProviderKind::Custom,
        model: "sim".to_owned(),
        max_input_tokens: None,
        max_output_tokens: None,
        reasoning: None,
        tokens_per_minute: None,
    }
}

fn spec(
    &(name, concurrency, mutating, cancellable, long_running): &(
        &str,
        ToolConcurrency,
        bool,
        bool,
        bool,
    ),
) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: String::new(),
        input_schema: json!({}),
        concurrency,
        capabilities: ToolCapabilities {
            mutating,
            requires_approval: false,
            cancellable,
            long_running,
        },
        provider_aliases: Default::default(),
    }
}

pub(super) fn check(dice: &mut Dice, id: EffectId, call: &ToolCall) -> Input {
    // Now and then a tool has to be loaded first.
    let unloaded = dice.chance(4).then(|| Arc::new(spec(&TOOLS[0])));
    let check = match &unloaded {
        Some(_) => Err(ToolError::new(ToolErrorCode::NotLoaded, "not loaded")),
        None => facts_of(call),
    };
    let remembered = unloaded.map(|spec| MemoryChange::ToolLoaded { spec });
    Input::CallChecked {
        id,
        check,
        remembered: remembered.into_iter().collect(),
    }
}

fn facts_of(call: &ToolCall) -> Result<CallFacts, ToolError> {
    if tool_named(call.name.as_str()) == "unknown" {
        return Err(ToolError::new(ToolErrorCode::UnknownTool, "no such tool"));
    }
    if call.arguments.get("bad").is_some() {
        return Err(ToolError::new(ToolErrorCode::InvalidArguments, "bad"));
    }
    Ok(CallFacts {
        actions: vec![Action::Other { mutating: true }],
        polling: call.name.as_str() == "count",
    })
}

/// What the policy says to a call.
pub(super) fn judge(dice: &mut Dice, judged: &CallToJudge) -> PolicyVerdict {
    let tool = judged.call.name.as_str();
    let objection = Objection::new("sim", format!("{tool} is risky"));
    let roll = dice.below(20);
    match roll {
        0 => PolicyVerdict::Deny(objection),
        1 => PolicyVerdict::Ask(objection),
        2..6 if !judged.session_rules.iter().any(|rule| rule == tool) => {
            PolicyVerdict::Ask(Objection {
                always: Some(tool.to_owned()),
                ..objection
            })
        }
        _ => PolicyVerdict::Allow,
    }
}

/// When a person answers, and what; none for one who never does.
pub(super) fn answer_to(dice: &mut Dice) -> Option<(u64, ApprovalAnswer)> {
    let delay = match dice.below(10) {
        0 => return None,
        1 => dice.below(1_000_000),
        _ => dice.below(300),
    };
    let answer = match dice.below(6) {
        0 => ApprovalAnswer::deny("not today"),
        1 => ApprovalChoice::Deny.into(),
        2 => ApprovalChoice::Session.into(),
        3 => ApprovalChoice::Always.into(),
        _ => ApprovalChoice::Once.into(),
    };
    Some((delay, answer))
}

/// What a tool wants remembered.
pub(super) fn remembered(dice: &mut Dice) -> Vec<MemoryChange> {
    let change = |number| MemoryChange::FileSeen {
        path: format!("/{number}"),
        sha256: "hash".to_owned(),
    };
    (0..dice.below(2)).map(change).collect()
}

/// Instruction files that a driver found, now and then.
pub(super) fn note(dice: &mut Dice) -> Option<SystemNote> {
    let path = format!("/{}/AGENTS.md", dice.below(4));
    let sha256 = dice.chance(80).then(|| dice.below(4).to_string());
    dice.chance(10).then(|| SystemNote {
        tools: Vec::new(),
        text: "instructions".to_owned(),
        instructions: vec![InstructionFile { path, sha256 }],
    })
}

/// What a model is like for the length of a schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mood {
    /// It does anything.
    Free,
    /// It makes the same call again and again.
    Stuck,
}

/// What a model says, event by event, in no more than `most` tokens.
pub(super) fn answer(dice: &mut Dice, id: EffectId, mood: Mood, most: Option<u32>) -> Vec<Input> {
    let mut events = vec![StreamEvent::MessageStart { id: "msg".into() }];
    if dice.chance(30) {
        events.extend(thinking(dice));
    }
    if dice.chance(70) {
        events.extend(text(dice));
    }
    let calls = match mood {
        Mood::Stuck => 1,
        Mood::Free if dice.chance(60) => dice.below(5),
        Mood::Free => 0,
    };
    for number in 0..calls {
        let (name, arguments) = match mood {
            Mood::Stuck => ("look", json!({}).to_string()),
            Mood::Free => wish(dice),
        };
        events.extend(call(dice, id, number, (name, arguments)));
    }
    events.push(StreamEvent::UsageUpdate {
        usage: Usage::from(UsageBuckets {
            uncached_input: dice.below(1000),
            output: dice.below(u64::from(most.unwrap_or(100)).min(100)),
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
    if dice.chance(3) {
        let error = ProviderError::new("too long", ProviderErrorKind::ContextOverflow);
        let error = Some(error);
        return vec![Input::ModelEnded { id, error }];
    }
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

fn wish(dice: &mut Dice) -> (&'static str, String) {
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
    (name, arguments)
}

fn call(
    dice: &mut Dice,
    answer: EffectId,
    number: u64,
    (name, arguments): (&str, String),
) -> Vec<StreamEvent> {
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
        4 => Ok(ToolResult::text("a long output ".repeat(200))),
        // What `look` sees does not change: a model that looks again and again
        // repeats itself.
        _ if tool == "look" => Ok(ToolResult::text("the same")),
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
        event_name: point.event().to_string(),
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
    let mut verdict = HookVerdict::default();
    verdict.block = dice.chance(15).then(|| "blocked".to_owned());
    verdict.stop = dice.chance(4).then(|| "stopped".to_owned());
    if dice.chance(10) {
        verdict.permission = PermissionDecision::Ask;
    }
    verdict.updated_input = dice.chance(10).then(|| json!({"n": 9}));
    verdict.updated_output = dice.chance(10).then(|| json!("rewritten"));
    verdict.system_messages = (0..dice.below(2)).map(|_| "a hint".to_owned()).collect();
    vec![
        Input::HookProgress { run, ended: false },
        Input::HookProgress {
            run: ended,
            ended: true,
        },
        Input::HooksFinished { id, verdict },
    ]
}

/// How many times a call asks.
pub(super) fn questions_of_a_call(dice: &mut Dice) -> u64 {
    match dice.chance(15) {
        true => 1 + dice.below(2),
        false => 0,
    }
}

/// What a running call asks: questions, or whether it may do something.
pub(super) fn request_of_a_call(dice: &mut Dice, call: &ToolCall) -> PersonRequest {
    if dice.chance(50) {
        return PersonRequest::Questions(Arc::new(questions(dice, call)));
    }
    let host = format!("{}.test:443", dice.below(3));
    let mut objection = Objection::new("network.off", "nobody has named it");
    objection.always = dice.chance(70).then(|| format!("WebFetch(domain:{host})"));
    PersonRequest::Approval(Arc::new(ApprovalRequest {
        approval_id: ApprovalId(format!("apr_{}", dice.below(u64::MAX))),
        call: call.clone(),
        actions: vec![Action::Reach { host }],
        diff: None,
        asked_by: AskedBy::RunningCall,
        objection,
        choices: Vec::new(),
        origin: None,
    }))
}

fn questions(dice: &mut Dice, call: &ToolCall) -> QuestionRequest {
    let question = Question {
        question: "well?".to_owned(),
        options: Vec::new(),
        is_multi_select: false,
    };
    QuestionRequest {
        question_id: QuestionId(format!("ask_{}", dice.below(u64::MAX))),
        call_id: call.id.clone(),
        tool_name: call.name.clone(),
        questions: vec![question],
    }
}

/// What a person answers, now and then something that does not fit.
pub(super) fn responses(
    dice: &mut Dice,
    request: &QuestionRequest,
) -> Option<(u64, Vec<QuestionResponse>)> {
    let delay = match dice.below(10) {
        0 => return None,
        1 => dice.below(1_000_000),
        _ => dice.below(300),
    };
    let responses = match dice.below(3) {
        0 => request.all_skipped(),
        1 => Vec::new(),
        _ => vec![QuestionResponse::text("so and so")],
    };
    Some((delay, responses))
}
