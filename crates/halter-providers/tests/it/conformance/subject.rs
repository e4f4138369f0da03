//! The wires under test, and what is special about their example streams.

use crate::fuzz_bodies;
use crate::wire_kit;
use halter_protocol::ProviderErrorKind::{self, ContextOverflow, Fatal, RateLimited, Transient};
use halter_protocol::{ProviderError, StopReason, StreamEvent, UsageBuckets};
use halter_providers::decode::decode;
use halter_providers::wire::Wire;
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use std::sync::Arc;

pub type Items = Vec<Result<StreamEvent, ProviderError>>;

/// A wire and its example streams.
pub struct Subject {
    pub name: &'static str,
    /// The wire that an example stream is of: servers of Chat Completions have
    /// dialects.
    pub wire_of: fn(&str) -> Arc<dyn Wire>,
    /// The body of its fuzz target.
    pub fuzz_body: fn(&[u8]),
    /// A stream of text, and a piece of that text.
    pub text: (&'static str, &'static str),
    /// An event of a kind that nobody has heard of.
    pub unknown_event: &'static str,
    /// What closes the answer formally, if some servers leave it out.
    pub terminator: Option<&'static str>,
    /// Why answers end.
    pub reasons: Vec<(&'static str, StopReason)>,
    /// Streams with whole calls and half ones: how many are whole.
    pub half_calls: &'static [(&'static str, usize)],
    /// Streams that fail after status 200.
    pub errors: Vec<(&'static str, ProviderErrorKind)>,
    /// What answers use.
    pub usage: Vec<(&'static str, UsageBuckets)>,
    /// What example exchanges use.
    pub exchanges: Vec<(&'static str, UsageBuckets)>,
}

impl Subject {
    /// The example streams by name.
    pub fn streams(&self) -> Vec<(String, String)> {
        wire_kit::streams(self.name)
    }

    pub fn stream(&self, name: &str) -> String {
        wire_kit::stream(self.name, name)
    }

    /// What a stream means.
    pub fn items(&self, name: &str, stream: &str) -> Items {
        decode((self.wire_of)(name).as_ref(), [stream.as_bytes()])
    }

    /// What an example stream means.
    pub fn decoded(&self, name: &str) -> Items {
        self.items(name, &self.stream(name))
    }

    /// The streams that end well.
    pub fn good_streams(&self) -> Vec<(String, String)> {
        let mut streams = self.streams();
        streams.retain(|(name, stream)| self.items(name, stream).iter().all(Result::is_ok));
        assert!(streams.len() > 4);
        streams
    }
}

fn unknown(reason: &str) -> StopReason {
    StopReason::Unknown(reason.to_owned())
}

/// Input not from the cache, read from it, written to it; output, reasoning.
fn used(buckets: [u64; 5]) -> UsageBuckets {
    let [uncached_input, cache_read, cache_write, output, reasoning] = buckets;
    UsageBuckets {
        uncached_input,
        cache_read,
        cache_write,
        output,
        reasoning,
    }
}

pub fn anthropic() -> Subject {
    Subject {
        name: "anthropic",
        wire_of: |_| Arc::new(Anthropic::new()),
        fuzz_body: fuzz_bodies::anthropic,
        text: ("text", "wörld"),
        unknown_event: "event: novelty\ndata: {\"type\":\"novelty\",\"index\":7}\n\n",
        terminator: None,
        reasons: vec![
            ("text", StopReason::EndTurn),
            ("parallel_tools", StopReason::ToolUse),
            ("half_call_at_max_tokens", StopReason::MaxTokens),
            ("refusal", StopReason::Refusal),
            ("empty_answer", StopReason::EndTurn),
            ("server_tools_paused", StopReason::Pause),
            ("unknown_things", unknown("daydreaming")),
        ],
        half_calls: &[
            ("half_call_at_max_tokens", 1),
            ("bare_call_at_max_tokens", 0),
            ("open_call_at_the_end", 0),
        ],
        errors: vec![("overloaded", Transient), ("broken_event", Transient)],
        usage: vec![("thinking", used([7, 2_000, 120, 10, 80]))],
        exchanges: vec![
            ("cached_and_thinking", used([11, 2_000, 340, 35, 61])),
            ("document", used([25, 7, 0, 9, 0])),
            ("output_alone_at_the_end", used([30, 0, 0, 2, 0])),
        ],
    }
}

pub fn chat() -> Subject {
    Subject {
        name: "chat",
        wire_of: |stream| {
            let dialect = stream.split('_').next().unwrap_or_default();
            Arc::new(Chat::new(Dialect::named(dialect).unwrap()))
        },
        fuzz_body: fuzz_bodies::chat,
        text: ("openai_text", "ße"),
        unknown_event: "event: novelty\ndata: {\"object\":\"novelty\",\"choices\":[]}\n\n",
        terminator: Some("data: [DONE]\n\n"),
        reasons: vec![
            ("openai_text", StopReason::EndTurn),
            ("openai_parallel_tools", StopReason::ToolUse),
            ("openai_length_in_call", StopReason::MaxTokens),
            ("openai_length_in_text", StopReason::MaxTokens),
            ("openai_refusal", StopReason::Refusal),
            ("openai_content_filter", StopReason::Refusal),
            ("openai_unknown_things", unknown("solar_flare")),
            ("openai_empty_answer", StopReason::EndTurn),
            ("ollama_whole_call", StopReason::ToolUse),
            ("vllm_reasoning", StopReason::EndTurn),
            ("generic_shared_index", StopReason::ToolUse),
            ("generic_no_ids_at_all", StopReason::EndTurn),
            ("generic_no_blank_line_at_the_end", StopReason::EndTurn),
        ],
        half_calls: &[("openai_length_in_call", 1)],
        errors: vec![
            ("openai_error_after_text", Transient),
            ("openai_error_first", Fatal),
            ("openrouter_error_in_chunk", Transient),
            ("openrouter_finish_error", Transient),
            ("generic_vllm_error_object", ContextOverflow),
            ("generic_not_json", Transient),
        ],
        usage: vec![
            ("openai_text", used([176, 1_024, 0, 32, 16])),
            ("openrouter_reasoning_details", used([50, 100, 150, 10, 30])),
            ("vllm_reasoning", used([10, 0, 0, 4, 0])),
        ],
        exchanges: vec![
            ("openai_cached_and_reasoning", used([92, 1_408, 0, 16, 44])),
            ("openrouter_cost", used([132, 512, 256, 12, 8])),
            ("ollama_usage_on_the_choice", used([26, 0, 0, 5, 0])),
            ("generic_document", used([12, 0, 0, 3, 0])),
        ],
    }
}

pub fn gemini() -> Subject {
    Subject {
        name: "gemini",
        wire_of: |_| Arc::new(GeminiWire),
        fuzz_body: fuzz_bodies::gemini,
        text: ("text", "wörld"),
        unknown_event: "event: novelty\ndata: {\"novelty\":[7]}\n\n",
        terminator: None,
        reasons: vec![
            ("text", StopReason::EndTurn),
            ("parallel_tools", StopReason::ToolUse),
            ("max_tokens", StopReason::MaxTokens),
            ("max_tokens_in_thoughts", StopReason::MaxTokens),
            ("safety", StopReason::Refusal),
            ("unknown_finish_reason", unknown("solar_flare")),
            ("empty_stop", StopReason::EndTurn),
            ("second_candidate_is_ignored", StopReason::EndTurn),
        ],
        half_calls: &[("call_in_pieces", 0)],
        errors: vec![
            ("malformed_call", Transient),
            ("unexpected_call", Transient),
            ("blocked_prompt", Fatal),
            ("call_in_pieces", Transient),
            ("error_after_text", Transient),
            ("error_quota", RateLimited),
            ("broken_json", Transient),
        ],
        usage: vec![
            ("parallel_tools", used([388, 512, 0, 31, 20])),
            ("usage_after_the_end", used([10, 30, 0, 3, 6])),
            ("unknown_things", used([12, 0, 0, 3, 0])),
        ],
        exchanges: vec![
            ("cached_and_thoughts", used([952, 2_048, 0, 12, 40])),
            ("server_tool", used([750, 0, 0, 4, 0])),
            ("document", used([8, 0, 0, 2, 0])),
        ],
    }
}

pub fn responses() -> Subject {
    Subject {
        name: "responses",
        wire_of: |_| Arc::new(ResponsesWire),
        fuzz_body: fuzz_bodies::responses,
        text: ("text", "wörld"),
        unknown_event: "event: response.novelty\ndata: {\"type\":\"response.novelty\",\"output_index\":7}\n\n",
        terminator: None,
        reasons: vec![
            ("text", StopReason::EndTurn),
            ("parallel_tools", StopReason::ToolUse),
            ("items_without_deltas", StopReason::ToolUse),
            ("items_only_at_the_end", StopReason::ToolUse),
            ("refusal", StopReason::Refusal),
            ("text_cut_at_max_tokens", StopReason::MaxTokens),
            ("half_call_at_max_tokens", StopReason::MaxTokens),
            ("whole_and_half_call_at_max_tokens", StopReason::MaxTokens),
            ("content_filter", StopReason::Refusal),
            ("unknown_incomplete_reason", StopReason::Interrupted),
            ("empty_answer", StopReason::EndTurn),
        ],
        half_calls: &[
            ("half_call_at_max_tokens", 0),
            ("whole_and_half_call_at_max_tokens", 1),
            ("half_call_in_a_complete_response", 0),
        ],
        errors: vec![
            ("failed_after_text", Transient),
            ("failed_rate_limit", RateLimited),
            ("failed_context_overflow", ContextOverflow),
            ("error_event_nested", Transient),
            ("broken_json", Transient),
        ],
        usage: vec![
            ("reasoning", used([36, 64, 0, 20, 60])),
            ("unknown_things", used([32, 10, 8, 20, 0])),
        ],
        exchanges: vec![
            ("cached_and_reasoning", used([80, 1_920, 300, 22, 128])),
            ("document", used([40, 0, 0, 6, 0])),
        ],
    }
}
