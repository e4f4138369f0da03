//! Child sessions: what they have, what they report, and what ends them.

mod asks;
mod ends;
mod hooked;
mod limits;
mod many;
mod reports;
mod types;
mod worktrees;

use halter_protocol::{
    Message, SessionEvent, SessionEventPayload, SubagentState, SubagentStatus, UserPart,
};
use halter_providers::{ProviderRequest, Reply};
use serde_json::{Value, json};

/// What the model was told last, by whoever told it.
pub fn last_word(request: &ProviderRequest) -> String {
    request
        .messages
        .last()
        .map_or(String::new(), |message| match &**message {
            Message::System(system) => system.text.clone(),
            Message::User(user) => {
                let texts = user.parts.iter().filter_map(|part| match part {
                    UserPart::Text { text } => Some(text.as_str()),
                    _ => None,
                });
                texts.collect()
            }
            Message::Tool(tool) => tool.to_model_text(),
            _ => String::new(),
        })
}

/// The first thing a user said.
pub fn task(request: &ProviderRequest) -> String {
    let mut users = request
        .messages
        .iter()
        .filter_map(|message| match &**message {
            Message::User(user) => Some(user.plain_text()),
            _ => None,
        });
    users.next().unwrap_or_default()
}

pub fn spawn(input: Value) -> Reply {
    Reply::new().tool_call("spawn_agent", input)
}

fn spawn_and_wait(message: &str) -> Reply {
    spawn(json!({"message": message, "wait": true}))
}

/// The reports in a log, in order.
pub fn ended(events: &[SessionEvent]) -> Vec<SubagentStatus> {
    let ended = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::SubagentEnded { subagent, .. } => {
            Some(SubagentStatus::clone(subagent))
        }
        _ => None,
    });
    ended.collect()
}

fn states(events: &[SessionEvent]) -> Vec<SubagentState> {
    ended(events).into_iter().map(|it| it.state).collect()
}
