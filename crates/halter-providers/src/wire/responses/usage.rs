//! Usage in disjoint buckets: the service's input count includes what came
//! from its cache, its output count includes reasoning.

use super::events::ResponseUsage;
use halter_protocol::{Usage, UsageBuckets};

pub(super) fn usage(counted: &ResponseUsage) -> Usage {
    let input = counted.input_tokens_details.as_ref();
    let cache_read = input.and_then(|input| input.cached_tokens).unwrap_or(0);
    let cache_write = input
        .and_then(|input| input.cache_write_tokens)
        .unwrap_or(0);
    let reasoning = counted
        .output_tokens_details
        .as_ref()
        .and_then(|output| output.reasoning_tokens)
        .unwrap_or(0);
    Usage::from(UsageBuckets {
        uncached_input: counted
            .input_tokens
            .saturating_sub(cache_read)
            .saturating_sub(cache_write),
        cache_read,
        cache_write,
        output: counted.output_tokens.saturating_sub(reasoning),
        reasoning,
    })
}
