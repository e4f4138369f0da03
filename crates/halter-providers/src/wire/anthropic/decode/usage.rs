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
    /// What compactions used, which is in none of the others: input, cache
    /// reads, cache writes, output.
    compactions: [u64; 4],
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
        if let Some(iterations) = update.get("iterations").and_then(Value::as_array) {
            said_anything = true;
            self.compactions = compactions(iterations);
        }
        said_anything.then(|| self.usage())
    }

    fn usage(&self) -> Usage {
        // Output contains the reasoning.
        let reasoning = self.thinking.min(self.output);
        let [input, cache_read, cache_write, output] = self.compactions;
        Usage::from(UsageBuckets {
            uncached_input: self.input.saturating_add(input),
            cache_read: self.cache_read.saturating_add(cache_read),
            cache_write: self.cache_write.saturating_add(cache_write),
            output: (self.output - reasoning).saturating_add(output),
            reasoning,
        })
    }
}

fn compactions(iterations: &[Value]) -> [u64; 4] {
    let names = [
        "input_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "output_tokens",
    ];
    let compactions = || {
        let kind = |it: &&Value| it.get("type").is_some_and(|kind| kind == "compaction");
        iterations.iter().filter(kind)
    };
    names.map(|name| {
        let counts = compactions().filter_map(|it| it.get(name).and_then(Value::as_u64));
        counts.fold(0, u64::saturating_add)
    })
}
