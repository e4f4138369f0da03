//! Counters of the wire to disjoint buckets.

use halter_protocol::{Usage, UsageBuckets};
use serde_json::Value;

/// The latest value of each counter. An update replaces the counters it has;
/// none is a sum to add.
#[derive(Debug, Default)]
pub(super) struct UsageCounter {
    input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
    thinking: u64,
}

impl UsageCounter {
    /// Takes an update; what has been used so far, if it says anything.
    pub fn take(&mut self, update: &Value) -> Option<Usage> {
        let count = |pointer: &str| update.pointer(pointer).and_then(Value::as_u64);
        let writes = count("/cache_creation_input_tokens").or_else(|| {
            let short = count("/cache_creation/ephemeral_5m_input_tokens");
            let long = count("/cache_creation/ephemeral_1h_input_tokens");
            let sum = short.unwrap_or(0).saturating_add(long.unwrap_or(0));
            short.or(long).map(|_| sum)
        });
        let updates = [
            (&mut self.input, count("/input_tokens")),
            (&mut self.cache_read, count("/cache_read_input_tokens")),
            (&mut self.cache_write, writes),
            (&mut self.output, count("/output_tokens")),
            (
                &mut self.thinking,
                count("/output_tokens_details/thinking_tokens"),
            ),
        ];
        let mut said_anything = false;
        for (counter, value) in updates {
            if let Some(value) = value {
                *counter = value;
                said_anything = true;
            }
        }
        said_anything.then(|| self.usage())
    }

    fn usage(&self) -> Usage {
        // Output contains the reasoning.
        let reasoning = self.thinking.min(self.output);
        Usage::from(UsageBuckets {
            uncached_input: self.input,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            output: self.output - reasoning,
            reasoning,
        })
    }
}
