//! The chunks of a response, as far as they are read. Each is a whole
//! `GenerateContentResponse`; members that are not listed are skipped.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub candidates: Option<Vec<Candidate<'a>>>,
    #[serde(default)]
    pub prompt_feedback: Option<PromptFeedback>,
    #[serde(default)]
    pub usage_metadata: Option<UsageMetadata>,
    #[serde(default)]
    pub response_id: Option<String>,
    #[serde(default)]
    pub error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default)]
    pub index: u64,
    #[serde(borrow, default)]
    pub content: Option<CandidateContent<'a>>,
    #[serde(default)]
    pub finish_reason: Option<String>,
    #[serde(default)]
    pub finish_message: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct CandidateContent<'a> {
    #[serde(borrow, default)]
    pub parts: Option<Vec<&'a RawValue>>,
}

/// A part, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChunkPart<'a> {
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub thought: Option<bool>,
    #[serde(default)]
    pub thought_signature: Option<IgnoredAny>,
    #[serde(borrow, default)]
    pub function_call: Option<Call<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Call<'a> {
    #[serde(default)]
    pub id: Option<String>,
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub args: Option<&'a RawValue>,
    #[serde(default)]
    pub will_continue: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptFeedback {
    #[serde(default)]
    pub block_reason: Option<String>,
    #[serde(default)]
    pub block_reason_message: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct UsageMetadata {
    pub prompt_token_count: Option<u64>,
    pub cached_content_token_count: Option<u64>,
    pub candidates_token_count: Option<u64>,
    pub thoughts_token_count: Option<u64>,
    pub tool_use_prompt_token_count: Option<u64>,
}

/// A call as it was kept.
pub(super) struct KeptCall {
    pub id: Option<String>,
    pub name: String,
}

/// The calls among kept parts; none if the text is no array of parts.
pub(super) fn kept_calls(parts: &str) -> Option<Vec<KeptCall>> {
    let parts: Vec<ChunkPart<'_>> = serde_json::from_str(parts).ok()?;
    let calls = parts.into_iter().filter_map(|part| part.function_call);
    Some(
        calls
            .map(|call| KeptCall {
                id: call.id,
                name: call.name.into_owned(),
            })
            .collect(),
    )
}
