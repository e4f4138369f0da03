//! Events as short lines, with ids and times left out.

use halter_protocol::{
    AssistantPart, ContentPart, Message, SessionEvent, SessionEventPayload, ToolCallId, ToolError,
    ToolResult, TurnId,
};

/// A stream as text: one line per event, without times and sequence numbers,
/// with turns and calls named in the order they appear, `t1`, `c1`.
///
/// ```
/// # let events = [];
/// assert_eq!(halter_testkit::render(&events), "");
/// ```
pub fn render(events: &[SessionEvent]) -> String {
    let mut names = Names::default();
    let lines: Vec<String> = events
        .iter()
        .map(|event| line(&event.payload, &mut names))
        .collect();
    lines.join("\n")
}

#[derive(Default)]
struct Names {
    turns: Vec<TurnId>,
    calls: Vec<ToolCallId>,
}

impl Names {
    fn turn(&mut self, id: &TurnId) -> String {
        format!("t{}", place(&mut self.turns, id))
    }

    fn call(&mut self, id: &ToolCallId) -> String {
        format!("c{}", place(&mut self.calls, id))
    }
}

fn place<T: Clone + PartialEq>(known: &mut Vec<T>, id: &T) -> usize {
    match known.iter().position(|known| known == id) {
        Some(index) => index + 1,
        None => {
            known.push(id.clone());
            known.len()
        }
    }
}

fn line(payload: &SessionEventPayload, names: &mut Names) -> String {
    let details = details(payload, names);
    match details.is_empty() {
        true => payload.kind().to_owned(),
        false => format!("{} {details}", payload.kind()),
    }
}

fn details(payload: &SessionEventPayload, names: &mut Names) -> String {
    match payload {
        SessionEventPayload::Warning { message } => message.clone(),
        SessionEventPayload::TurnStarted { turn_id, .. } => names.turn(turn_id),
        SessionEventPayload::MessageItem { message } => message_details(message, names),
        SessionEventPayload::DeltaItem { delta } | SessionEventPayload::ThinkingDelta { delta } => {
            format!("{:?}", delta.text)
        }
        SessionEventPayload::ToolExecutionStarted { call } => {
            let id = names.call(&call.id);
            format!("{id} {} {}", call.name, call.arguments)
        }
        SessionEventPayload::ToolOutput { call_id, chunk, .. } => {
            format!("{} {chunk:?}", names.call(call_id))
        }
        SessionEventPayload::ToolExecutionCompleted { outcome } => {
            let id = names.call(&outcome.call.id);
            match &outcome.result {
                Ok(result) => format!("{id} ok {}", shown(result)),
                Err(error) => format!("{id} error {}", error.code),
            }
        }
        SessionEventPayload::ApprovalRequested(request) => {
            let call = names.call(&request.call.id);
            format!("{call} {}", request.objection.rule)
        }
        SessionEventPayload::ApprovalResolved {
            choice,
            by,
            reason,
            rule,
            ..
        } => {
            let rule = rule.iter().map(|rule| format!(" {rule}"));
            let reason = reason.iter().map(|reason| format!(": {reason}"));
            format!("{choice} by {by}{}", rule.chain(reason).collect::<String>())
        }
        SessionEventPayload::HookStarted { run } => run.hook_id.clone(),
        SessionEventPayload::HookCompleted { run } => format!("{} {}", run.hook_id, run.status),
        SessionEventPayload::Notification { notification } => format!(
            "{}: {}",
            notification.notification_type, notification.message
        ),
        SessionEventPayload::NetworkRefused { host, rule, .. } => format!("{host} {rule}"),
        SessionEventPayload::TurnInterrupted { turn_id, reason } => {
            format!("{}: {reason}", names.turn(turn_id))
        }
        SessionEventPayload::ResourcesLoaded(loaded) => {
            let changes: Vec<String> = loaded.changes.iter().map(ToString::to_string).collect();
            changes.join(", ")
        }
        SessionEventPayload::ContextCompacted(compaction) => {
            format!("{} {}", compaction.reason, compaction.tier)
        }
        SessionEventPayload::CacheBreak { reason, .. } => reason.to_string(),
        SessionEventPayload::TurnCompleted { turn_id, .. } => names.turn(turn_id),
        SessionEventPayload::TurnFailed {
            turn_id,
            error,
            cancelled,
            retryable,
            ..
        } => {
            let flags = [(*cancelled, " cancelled"), (*retryable, " retryable")];
            let flags: String = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
            format!("{} {}{flags}", names.turn(turn_id), error.code)
        }
        SessionEventPayload::Lagged { dropped_events } => dropped_events.to_string(),
        SessionEventPayload::SessionShutdownComplete { reason } => reason.clone(),
        _ => String::new(),
    }
}

fn message_details(message: &Message, names: &mut Names) -> String {
    match message {
        Message::System(system) => format!("system {:?}", system.text),
        Message::User(user) => {
            let attached: String = user.attachments().map(attached).collect();
            format!("user {:?}{attached}", user.plain_text())
        }
        Message::Assistant(assistant) => {
            let parts = assistant.parts.iter().map(|part| part_details(part, names));
            let parts: Vec<String> = parts.collect();
            let stop = assistant.stop_reason.as_ref();
            let stop = stop.map_or("cut off".to_owned(), ToString::to_string);
            format!("assistant [{}] {stop}", parts.join(", "))
        }
        Message::Tool(tool) => {
            let id = names.call(&tool.call_id);
            let error: Option<&ToolError> = tool.error.as_ref();
            match error {
                None => format!("tool {id} {}", shown(&tool.content)),
                Some(error) => format!("tool {id} error {}", error.code),
            }
        }
        _ => String::from("?"),
    }
}

fn part_details(part: &AssistantPart, names: &mut Names) -> String {
    match part {
        AssistantPart::Text { text, .. } => format!("{text:?}"),
        AssistantPart::Thinking { text, .. } => format!("thinking {text:?}"),
        AssistantPart::ToolCall {
            id,
            name,
            arguments,
            ..
        } => format!("{} {name} {arguments}", names.call(id)),
        _ => String::from("?"),
    }
}

fn shown(result: &ToolResult) -> String {
    match result {
        ToolResult::Empty => "empty".to_owned(),
        ToolResult::Text { text } => format!("{text:?}"),
        ToolResult::Json { value } => value.to_string(),
        ToolResult::Parts { parts } => {
            let parts: Vec<String> = parts.iter().map(part_shown).collect();
            format!("[{}]", parts.join(", "))
        }
        _ => String::from("?"),
    }
}

fn part_shown(part: &ContentPart) -> String {
    match part.media() {
        None => format!("{:?}", part.describe()),
        Some((media_type, data)) => format!("{media_type} of {} bytes", data.len()),
    }
}

fn attached(part: &ContentPart) -> String {
    format!(" with {}", part_shown(part))
}
