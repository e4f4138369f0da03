//! Signatures and encrypted content without a memory.
//!
//! What the service issues carries a digest of what it covers, so any
//! later request can be checked alone: changed reasoning no longer matches its
//! signature, and a call whose reasoning was dropped still says, in its id, that
//! there was some. This detects mistakes, not attackers: there is no secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// Marks what this service sealed.
const MARK: &str = "halter-mock/1:";

/// In an id, stands for "no reasoning came before this call".
const NO_REASONING: &str = "00000000";

/// A digest of texts, as 64 hex digits. The order and the borders count.
pub(crate) fn digest(texts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update(text.len().to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn prefix(text: &str, characters: usize) -> &str {
    text.get(..characters).unwrap_or(text)
}

/// A signature over texts, for a model.
pub(crate) fn sign(model: &str, texts: &[&str]) -> String {
    let inner = digest(texts);
    let seal = digest(&[model, &inner]);
    STANDARD.encode(format!("{MARK}{}", prefix(&seal, 40)))
}

/// Whether a signature is this service's, for this model, over these texts.
pub(crate) fn is_signed(signature: &str, model: &str, texts: &[&str]) -> bool {
    signature == sign(model, texts)
}

/// Opaque data with a digest of itself.
pub(crate) fn opaque(model: &str, payload: &str) -> String {
    let seal = digest(&[model, payload]);
    STANDARD.encode(format!("{MARK}{}:{payload}", prefix(&seal, 40)))
}

/// Whether opaque data is this service's, for this model, and unmodified.
pub(crate) fn is_opaque(data: &str, model: &str) -> bool {
    let Some(text) = STANDARD
        .decode(data)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
    else {
        return false;
    };
    let Some((_, payload)) = text
        .strip_prefix(MARK)
        .and_then(|sealed| sealed.split_once(':'))
    else {
        return false;
    };
    data == opaque(model, payload)
}

/// The id of a call: unique in its conversation, the same when the request is
/// repeated, and telling which model made it after which reasoning.
pub(crate) fn call_id(
    vendor: &str,
    model: &str,
    thought: Option<&str>,
    request: &str,
    number: usize,
) -> String {
    let model = digest(&[model]);
    let thought = thought.map_or_else(|| NO_REASONING.to_owned(), |thought| digest(&[thought]));
    format!(
        "{vendor}mock{}{}{}{number:02x}",
        prefix(&model, 4),
        prefix(&thought, 8),
        prefix(request, 8)
    )
}

/// Whether the reasoning that the call's id asks for is missing: the service made
/// the call, for this very model, after other reasoning than this.
pub(crate) fn lacks_reasoning(id: &str, model: &str, thought: Option<&str>) -> bool {
    let Some((_, rest)) = id.split_once("mock") else {
        return false;
    };
    let (Some(of_model), Some(of_thought)) = (rest.get(..4), rest.get(4..12)) else {
        return false;
    };
    if of_model != prefix(&digest(&[model]), 4) || of_thought == NO_REASONING {
        return false;
    }
    thought.is_none_or(|thought| of_thought != prefix(&digest(&[thought]), 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_model_and_text_only() {
        let signature = sign("m", &["a", "b"]);
        assert!(is_signed(&signature, "m", &["a", "b"]));
        assert!(!is_signed(&signature, "n", &["a", "b"]));
        assert!(!is_signed(&signature, "m", &["ab"]));
        assert!(!is_signed("anything", "m", &["a", "b"]));
    }

    #[test]
    fn opaque_data_must_come_back_as_it_was() {
        let data = opaque("m", "a:b");
        assert!(is_opaque(&data, "m"));
        assert!(!is_opaque(&data, "n"));
        assert!(!is_opaque(&data.replace('a', "b"), "m"));
        assert!(!is_opaque("", "m"));
    }

    #[test]
    fn an_id_names_its_reasoning() {
        let id = call_id("toolu_", "m", Some("hm"), "0123456789", 1);
        assert!(!lacks_reasoning(&id, "m", Some("hm")));
        assert!(lacks_reasoning(&id, "m", Some("hmm")));
        assert!(lacks_reasoning(&id, "m", None));
        assert!(!lacks_reasoning(&id, "another model", None));
        let thoughtless = call_id("toolu_", "m", None, "0123456789", 1);
        assert!(!lacks_reasoning(&thoughtless, "m", None));
        assert!(!lacks_reasoning("toolu_of_someone_else", "m", None));
        assert!(!lacks_reasoning("mock", "m", None));
    }
}
