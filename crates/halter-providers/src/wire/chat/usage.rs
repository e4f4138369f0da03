//! Token counts of the wire in disjoint buckets.

use halter_protocol::{Cost, Usage, UsageBuckets};
use serde_json::Value;

/// The usage of a chunk. `prompt_tokens` includes what was cached and
/// `completion_tokens` what was reasoned; each token is counted once here.
pub(super) fn normalize(usage: &Value) -> Option<Usage> {
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    let prompt = count("/prompt_tokens");
    let completion = count("/completion_tokens");
    if prompt.is_none() && completion.is_none() {
        return None;
    }
    let prompt = prompt.unwrap_or(0);
    let completion = completion.unwrap_or(0);
    // DeepSeek has the cached tokens beside the others.
    let cache_read = count("/prompt_tokens_details/cached_tokens")
        .or_else(|| count("/prompt_cache_hit_tokens"))
        .unwrap_or(0)
        .min(prompt);
    let cache_write = count("/prompt_tokens_details/cache_write_tokens")
        .unwrap_or(0)
        .min(prompt - cache_read);
    let reasoning = count("/completion_tokens_details/reasoning_tokens")
        .unwrap_or(0)
        .min(completion);
    let mut usage_of_call = Usage::from(UsageBuckets {
        uncached_input: prompt - cache_read - cache_write,
        cache_read,
        cache_write,
        output: completion - reasoning,
        reasoning,
    });
    usage_of_call.cost = usage.get("cost").and_then(Value::as_f64).and_then(charged);
    Some(usage_of_call)
}

/// What OpenRouter says a call cost, in dollars and without buckets.
fn charged(dollars: f64) -> Option<Cost> {
    const NANODOLLARS: f64 = 1e9;
    (dollars.is_finite() && dollars >= 0.0).then(|| Cost {
        unattributed: (dollars * NANODOLLARS).round() as u64,
        price_from_provider: true,
        ..Cost::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_token_is_counted_once() {
        let usage = normalize(&json!({
            "prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
            "completion_tokens_details": {"reasoning_tokens": 25}
        }))
        .unwrap();
        assert_eq!(
            usage.buckets,
            UsageBuckets {
                uncached_input: 30,
                cache_read: 60,
                cache_write: 10,
                output: 5,
                reasoning: 25
            }
        );
        assert_eq!((usage.input_tokens, usage.output_tokens), (100, 30));
    }

    #[test]
    fn a_cost_that_the_service_names_is_kept() {
        let cost = |usage: Value| normalize(&usage).unwrap().cost;
        let named = cost(json!({"prompt_tokens": 5, "cost": 0.0012})).unwrap();
        assert_eq!(named.total(), 1_200_000);
        assert!(named.price_from_provider);
        assert_eq!(cost(json!({"prompt_tokens": 5})), None);
        assert_eq!(cost(json!({"prompt_tokens": 5, "cost": -1})), None);
    }

    #[test]
    fn counts_that_contradict_each_other_do_not_overflow() {
        let usage = normalize(&json!({
            "prompt_tokens": 5, "completion_tokens": 1,
            "prompt_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 9},
            "completion_tokens_details": {"reasoning_tokens": 7}
        }))
        .unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (5, 1));
        assert_eq!(normalize(&json!({"total_tokens": 3})), None);
        assert_eq!(normalize(&json!(null)), None);
    }
}
