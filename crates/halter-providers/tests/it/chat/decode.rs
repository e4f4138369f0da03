//! Example streams and what they mean.

use super::{WIRE, model, wire_of};
use crate::wire_kit::{body, decode, message_of, result, split_body, stream};
use halter_protocol::{
    AssistantPart, Message, ProviderError, ProviderErrorKind, StreamEvent, ToolResult,
};

fn decoded(name: &str) -> (Vec<StreamEvent>, Option<ProviderError>) {
    decode(&wire_of(name), &stream(WIRE, name))
}

fn parts(name: &str) -> Vec<AssistantPart> {
    match message_of(&decoded(name).0, &model()) {
        Message::Assistant(answer) => answer.parts,
        _ => panic!("not an answer"),
    }
}

/// The calls of an answer as `id name arguments`.
fn calls(name: &str) -> Vec<String> {
    let calls = parts(name).into_iter().filter_map(|part| match part {
        AssistantPart::ToolCall {
            id,
            name,
            arguments,
            ..
        } => Some(format!("{id} {name} {arguments}")),
        _ => None,
    });
    calls.collect()
}

#[test]
fn what_went_wrong_has_its_kind() {
    for (name, kind) in [
        ("openai_cut", ProviderErrorKind::Transient),
        ("openai_cut_in_line", ProviderErrorKind::Transient),
        ("openai_done_without_finish", ProviderErrorKind::Transient),
        ("openai_error_after_text", ProviderErrorKind::Transient),
        ("openai_error_first", ProviderErrorKind::Fatal),
        ("openrouter_error_in_chunk", ProviderErrorKind::Transient),
        ("openrouter_finish_error", ProviderErrorKind::Transient),
        (
            "generic_vllm_error_object",
            ProviderErrorKind::ContextOverflow,
        ),
        ("generic_not_json", ProviderErrorKind::Transient),
    ] {
        assert_eq!(decoded(name).1.unwrap().kind, kind, "{name}");
    }
    let disconnected = decoded("openrouter_error_in_chunk").1.unwrap();
    assert_eq!(disconnected.status, Some(502));
    assert_eq!(
        disconnected.message,
        "the model service broke off its answer: Provider disconnected (X)"
    );
}

#[test]
fn odd_fragments_give_the_calls_that_were_meant() {
    let one = ["c1 read {\"path\":\"a\"}"];
    for name in [
        "generic_repeated_id_and_name",
        "generic_split_name",
        "generic_extra_members",
        "generic_copilot_reasoning",
    ] {
        assert_eq!(calls(name), one, "{name}");
    }
    for name in ["generic_missing_index", "generic_shared_index"] {
        assert_eq!(
            calls(name),
            ["c1 read {\"path\":\"a\"}", "c2 read {\"path\":\"b\"}"],
            "{name}"
        );
    }
    assert_eq!(
        calls("generic_object_arguments"),
        ["c1 read {\"path\":\"a\",\"n\":1}"]
    );
    assert_eq!(calls("generic_empty_arguments"), ["c1 list {}"]);
    assert_eq!(
        calls("openai_interleaved_tools"),
        [
            "call_a read {\"path\":\"a\"}",
            "call_b read {\"path\":\"b\"}"
        ]
    );
    assert_eq!(
        calls("ollama_whole_call"),
        [
            "call_x1 read {\"path\":\"a\"}",
            "call_x2 read {\"path\":\"b\"}"
        ]
    );
}

#[test]
fn calls_without_an_id_of_their_own_get_one() {
    for name in ["generic_empty_ids", "generic_duplicate_ids"] {
        let calls = calls(name);
        assert_eq!(calls.len(), 2, "{name}");
        let ids: Vec<&str> = calls
            .iter()
            .map(|call| call.split(' ').next().unwrap())
            .collect();
        assert!(!ids[0].is_empty() && ids[0] != ids[1], "{name}: {ids:?}");
    }
}

#[test]
fn a_call_cut_by_the_output_limit_never_ends() {
    assert_eq!(
        calls("openai_length_in_call"),
        ["call_a read {\"path\":\"done\"}"]
    );
    let warned = decoded("openai_length_in_call")
        .0
        .iter()
        .any(|event| matches!(event, StreamEvent::ProviderWarning { .. }));
    assert!(warned);
}

#[test]
fn a_complete_call_ends_before_the_next_begins() {
    let (events, _) = decoded("openai_parallel_tools");
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::ToolCallStart { .. } => Some("start"),
            StreamEvent::ToolCallEnd { .. } => Some("end"),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["start", "end", "start", "end"]);
}

#[test]
fn reasoning_is_told_from_text_wherever_it_comes() {
    for (name, thinking, text) in [
        ("vllm_reasoning", "First, read.", "\n\nDone"),
        ("llamacpp_reasoning_content", "I should read", ""),
        ("lmstudio_think_tags", "\nhm, well", "Hello you"),
        ("openrouter_reasoning_details", "Let me look.", "I read it."),
        ("ollama_whole_call", "Hm.", ""),
        ("generic_copilot_reasoning", "hm", ""),
        ("generic_content_parts", "Let me see", "Well"),
    ] {
        let mut said = (String::new(), String::new());
        for part in parts(name) {
            match part {
                AssistantPart::Thinking { text, .. } => said.0.push_str(&text),
                AssistantPart::Text { text, .. } => said.1.push_str(&text),
                _ => {}
            }
        }
        assert_eq!(said, (thinking.to_owned(), text.to_owned()), "{name}");
    }
}

/// The assistant message that an answer becomes in the next request.
fn replayed(name: &str) -> String {
    let said = message_of(&decoded(name).0, &model());
    let Message::Assistant(answer) = &said else {
        panic!("not an answer")
    };
    let calls: Vec<_> = answer.tool_calls().collect();
    let mut messages = vec![said];
    messages.extend(
        calls
            .iter()
            .map(|call| result(call.id.as_str(), call.name.as_str(), ToolResult::text("ok"))),
    );
    let body = body(&wire_of(name), &model(), &messages);
    split_body(&body, "messages").1[1].clone()
}

#[test]
fn an_answer_goes_back_to_its_model_as_it_came() {
    for (name, message) in [
        (
            "openai_parallel_tools",
            r#"{"role":"assistant","content":"","tool_calls":[{"id":"call_a","type":"function","function":{"name":"read","arguments":"{\"path\": \"a.txt\"}"}},{"id":"call_b","type":"function","function":{"name":"read","arguments":"{\"path\":\"b.txt\"}"}}]}"#,
        ),
        (
            "openrouter_reasoning_details",
            r#"{"role":"assistant","content":"I read it.","reasoning_details":[{"type":"reasoning.text","text":"Let me look.","format":"anthropic-claude-v1","index":0,"signature":"c2ln"},{"type":"reasoning.encrypted","data":"b3BhcXVl","id":"toolu_1","format":"google-gemini-v1","index":1}],"tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"read","arguments":"{\"path\": \"a\"}"}}]}"#,
        ),
        (
            "llamacpp_reasoning_content",
            r#"{"role":"assistant","content":"","reasoning_content":"I should read","tool_calls":[{"id":"aB3dE5fG","type":"function","function":{"name":"read","arguments":"{\"path\":\"x\"}"}}]}"#,
        ),
        (
            "vllm_reasoning",
            r#"{"role":"assistant","content":"\n\nDone"}"#,
        ),
        (
            "lmstudio_think_tags",
            r#"{"role":"assistant","content":"Hello you"}"#,
        ),
        (
            "generic_extra_members",
            r#"{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]}"#,
        ),
        (
            "generic_copilot_reasoning",
            r#"{"role":"assistant","content":"","reasoning_opaque":"b3Bh","reasoning_text":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]}"#,
        ),
        (
            "generic_thinking_blocks",
            r#"{"role":"assistant","content":"","thinking_blocks":[{"type":"thinking","thinking":"Let me look.","signature":"c2ln"},{"type":"redacted_thinking","data":"b3Bh"}],"tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"read","arguments":"{\"path\": \"a\"}"}}]}"#,
        ),
        (
            "openai_malformed_arguments",
            r#"{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{}"}}]}"#,
        ),
    ] {
        assert_eq!(replayed(name), message, "{name}");
    }
}

#[test]
fn the_calls_of_an_answer_are_bounded() {
    use halter_providers::limits::ANSWER_TOOL_CALLS;
    let answer = |calls: usize| {
        let mut stream = String::new();
        for call in 0..calls {
            stream.push_str(&format!(
                "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{call},\"id\":\"c{call}\",\"function\":{{\"name\":\"read\",\"arguments\":\"{{}}\"}}}}]}}}}]}}\n\n"
            ));
        }
        stream.push_str("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
        decode(&wire_of("generic"), &stream).1
    };
    assert_eq!(answer(ANSWER_TOOL_CALLS), None);
    assert_eq!(
        answer(ANSWER_TOOL_CALLS + 1).unwrap().kind,
        ProviderErrorKind::Fatal
    );
}
