//! What servers want a model to say, asked of a model of the session of the
//! call that it is for.
#![expect(
    deprecated,
    reason = "older servers ask for samples, and must be answered"
)]

use crate::limits::{SAMPLE_BYTES, SAMPLE_MESSAGES};
use crate::result::media;
use crate::text::plain;
use halter_protocol::{
    AssistantMessage, AssistantPart, ContentPart, Message, MessageId, Timestamp, UserMessage,
};
use halter_tools::{ModelQuestion, ToolContext};
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, Role, SamplingMessage,
    SamplingMessageContentBlock,
};

/// Has a model answer what a server asks.
///
/// # Errors
/// Why it does not, in words for the server.
pub(crate) async fn sample(
    params: CreateMessageRequestParams,
    context: &ToolContext,
) -> Result<CreateMessageResult, String> {
    let models = context.models.as_ref();
    let models = models.ok_or("there is no model to ask")?;
    let stops = params.stop_sequences.clone().unwrap_or_default();
    let reply = models.ask(question(params)?).await;
    let reply = reply.map_err(|error| error.to_string())?;
    let cut = stops.iter().filter(|stop| !stop.is_empty());
    let cut = cut.filter_map(|stop| reply.text.find(stop.as_str())).min();
    let text = cut
        .and_then(|end| reply.text.get(..end))
        .unwrap_or(&reply.text);
    let reason = match (cut, reply.cut_off) {
        (Some(_), _) => CreateMessageResult::STOP_REASON_END_SEQUENCE,
        (None, true) => CreateMessageResult::STOP_REASON_END_MAX_TOKEN,
        (None, false) => CreateMessageResult::STOP_REASON_END_TURN,
    };
    let message = SamplingMessage::assistant_text(text);
    Ok(CreateMessageResult::new(message, reply.model).with_stop_reason(reason))
}

/// The conversation that a server wants continued.
fn question(params: CreateMessageRequestParams) -> Result<ModelQuestion, String> {
    if params.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
        return Err("samples are taken without tools here".to_owned());
    }
    let count = params.messages.len();
    if count == 0 || count > SAMPLE_MESSAGES {
        return Err(format!("send 1 to {SAMPLE_MESSAGES} messages, not {count}"));
    }
    let bytes = serde_json::to_vec(&params).map_err(|error| error.to_string())?;
    if bytes.len() > SAMPLE_BYTES {
        return Err(format!(
            "the request has {} bytes, more than {SAMPLE_BYTES}",
            bytes.len()
        ));
    }
    let mut messages: Vec<Message> = Vec::new();
    for message in params.messages {
        let role = message.role.clone();
        let parts: Vec<ContentPart> = message
            .content
            .into_vec()
            .into_iter()
            .map(part)
            .collect::<Result<_, _>>()?;
        match (role, messages.last_mut()) {
            // Services want them in turns.
            (Role::User, Some(Message::User(last))) => last.parts.extend(parts),
            (Role::Assistant, Some(Message::Assistant(last))) => last.parts.extend(said(parts)),
            (Role::User, _) => messages.push(Message::User(UserMessage {
                id: MessageId::new(),
                created_at: Timestamp::now(),
                parts,
            })),
            (Role::Assistant, _) => messages.push(Message::Assistant(AssistantMessage {
                id: MessageId::new(),
                created_at: Timestamp::now(),
                parts: said(parts),
                stop_reason: None,
                usage: None,
                replay_meta: Default::default(),
            })),
        }
    }
    if !matches!(messages.last(), Some(Message::User(_))) {
        return Err("the last message must be the user's".to_owned());
    }
    Ok(ModelQuestion {
        system: plain(params.system_prompt.as_deref().unwrap_or_default()),
        messages,
        output_tokens: params.max_tokens.max(1),
    })
}

fn part(block: SamplingMessageContentBlock) -> Result<ContentPart, String> {
    match block {
        SamplingMessageContentBlock::Text(text) => Ok(ContentPart::text(text.text)),
        SamplingMessageContentBlock::Image(image) => {
            Ok(media(&image.mime_type, &image.data, "image"))
        }
        _ => Err("samples are taken from texts and images".to_owned()),
    }
}

/// What a model said earlier: words.
fn said(parts: Vec<ContentPart>) -> Vec<AssistantPart> {
    let words = parts.into_iter().map(|part| AssistantPart::Text {
        text: part.describe(),
        opaque: None,
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn asked(params: Value) -> Result<ModelQuestion, String> {
        question(serde_json::from_value(params).unwrap())
    }

    fn text(role: &str, text: &str) -> Value {
        json!({"role": role, "content": {"type": "text", "text": text}})
    }

    #[test]
    fn messages_come_in_turns_and_the_last_is_the_users() {
        let question = asked(json!({
            "messages": [text("user", "a"), text("user", "b"), text("assistant", "c"),
                text("user", "d")],
            "systemPrompt": "Be\u{1b} short.", "maxTokens": 7,
        }))
        .unwrap();
        assert_eq!(question.system, "Be short.");
        assert_eq!(question.output_tokens, 7);
        let [
            Message::User(first),
            Message::Assistant(said),
            Message::User(last),
        ] = question.messages.as_slice()
        else {
            panic!("{question:?}");
        };
        assert_eq!(first.plain_text(), "a\nb");
        assert_eq!(said.plain_text(), "c");
        assert_eq!(last.plain_text(), "d");
        let wrong = asked(json!({"messages": [text("assistant", "c")], "maxTokens": 7}));
        assert!(wrong.unwrap_err().contains("last message"));
    }

    #[test]
    fn requests_are_so_large_and_no_larger() {
        let many = |count: usize| {
            asked(json!({"messages": vec![text("user", "a"); count], "maxTokens": 1}))
        };
        assert!(many(SAMPLE_MESSAGES).is_ok());
        assert!(many(SAMPLE_MESSAGES + 1).is_err());
        assert!(many(0).is_err());
        let long = |bytes: usize| {
            let params =
                |text_of: &str| json!({"messages": [text("user", text_of)], "maxTokens": 1});
            let empty: CreateMessageRequestParams = serde_json::from_value(params("")).unwrap();
            let empty = serde_json::to_vec(&empty).unwrap().len();
            asked(params(&"a".repeat(bytes - empty)))
        };
        assert!(long(SAMPLE_BYTES).is_ok());
        assert!(long(SAMPLE_BYTES + 1).is_err());
    }

    #[test]
    fn tools_and_recordings_are_refused() {
        let tools = json!([{"name": "t", "inputSchema": {}}]);
        let with = json!({"messages": [text("user", "a")], "maxTokens": 1, "tools": tools});
        assert!(asked(with).unwrap_err().contains("without tools"));
        let audio = json!({"role": "user", "content":
            {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}});
        let heard = asked(json!({"messages": [audio], "maxTokens": 1}));
        assert!(heard.unwrap_err().contains("texts and images"));
    }
}
