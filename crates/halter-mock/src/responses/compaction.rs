//! `/responses/compact`: the user's words stay, an encrypted item stands for
//! the rest.

use crate::codec::{ModelRequest, Problem};
use crate::fields;
use crate::model_answer::CREATED;
use crate::openai::{missing, unknown};
use crate::signing;
use serde_json::{Value, json};

/// The body's fields; those of an answer are not among them.
const FIELDS: &str = "model input previous_response_id instructions prompt_cache_key \
    prompt_cache_options prompt_cache_retention service_tier";

/// Tokens that an encrypted item is said to have.
const COMPACTED_TOKENS: u64 = 120;

pub(super) fn check(request: &ModelRequest<'_>) -> Result<(), Problem> {
    let body = fields::object(request.body)?;
    let is_unknown = |field: &&String| !fields::is_word(field, FIELDS);
    match body.keys().find(is_unknown) {
        Some(field) => Err(unknown(field)),
        None => Ok(()),
    }
}

/// What the service encrypted must come back as it was, to the same model.
pub(super) fn check_item(item: &Value, at: &str, model: &str, strict: bool) -> Result<(), Problem> {
    let encrypted = fields::text(item, "encrypted_content")
        .filter(|encrypted| !encrypted.is_empty())
        .ok_or_else(|| missing(&format!("{at}.encrypted_content")))?;
    if !strict || signing::is_opaque(encrypted, model) {
        return Ok(());
    }
    let id = fields::text(item, "id").unwrap_or_default();
    Err(Problem::invalid(format!(
        "The encrypted content for item {id} could not be verified. Reason: Encrypted content could not be decrypted or parsed."
    ))
    .with_code("invalid_encrypted_content"))
}

pub(super) fn compacted(body: &Value, input_tokens: u64) -> Value {
    let model = fields::text(body, "model").unwrap_or_default();
    let said = fields::items(body, "input");
    let digest = signing::digest(&[&Value::from(said.to_vec()).to_string()]);
    let id = digest.get(..16).unwrap_or_default();
    let is_user = |item: &&Value| fields::text(item, "role") == Some("user");
    let mut output: Vec<Value> = said.iter().filter(is_user).cloned().collect();
    output.push(json!({
        "type": "compaction",
        "id": format!("cmp_{id}"),
        "encrypted_content": signing::opaque(model, &digest),
    }));
    json!({
        "id": format!("resp_{id}"),
        "object": "response.compaction",
        "created_at": CREATED,
        "output": output,
        "usage": {
            "input_tokens": input_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": COMPACTED_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input_tokens.saturating_add(COMPACTED_TOKENS),
        },
    })
}
