//! Token usage in disjoint buckets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens of one or more model calls, each counted in exactly one bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UsageBuckets {
    /// Input the provider read afresh.
    pub uncached_input: u64,
    /// Input answered from the provider's prompt cache.
    pub cache_read: u64,
    /// Input written to the provider's prompt cache.
    pub cache_write: u64,
    /// Visible output.
    pub output: u64,
    /// Output spent on reasoning.
    pub reasoning: u64,
}

/// What a call, turn or session used.
///
/// `input_tokens` and `output_tokens` are the sums of the buckets, computed in
/// one place: build a `Usage` from [`UsageBuckets`].
///
/// ```
/// use halter_protocol::{Usage, UsageBuckets};
///
/// let usage = Usage::from(UsageBuckets {
///     uncached_input: 10,
///     cache_read: 90,
///     output: 5,
///     reasoning: 2,
///     ..UsageBuckets::default()
/// });
/// assert_eq!((usage.input_tokens, usage.output_tokens), (100, 7));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct Usage {
    /// All input: uncached, cache reads and cache writes.
    pub input_tokens: u64,
    /// All output: visible output and reasoning.
    pub output_tokens: u64,
    /// The buckets the two sums are made of.
    pub buckets: UsageBuckets,
}

impl From<UsageBuckets> for Usage {
    fn from(buckets: UsageBuckets) -> Self {
        Self {
            input_tokens: buckets
                .uncached_input
                .saturating_add(buckets.cache_read)
                .saturating_add(buckets.cache_write),
            output_tokens: buckets.output.saturating_add(buckets.reasoning),
            buckets,
        }
    }
}

impl<'de> Deserialize<'de> for Usage {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            buckets: UsageBuckets,
        }
        Ok(Self::from(Wire::deserialize(deserializer)?.buckets))
    }
}

impl Usage {
    /// Tokens that occupy the context window after the call: all of them.
    pub fn context_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// True when nothing was counted.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Adds another usage bucket by bucket, never overflowing.
    pub fn saturating_accumulate(&mut self, other: &Usage) {
        let (a, b) = (&self.buckets, &other.buckets);
        *self = Self::from(UsageBuckets {
            uncached_input: a.uncached_input.saturating_add(b.uncached_input),
            cache_read: a.cache_read.saturating_add(b.cache_read),
            cache_write: a.cache_write.saturating_add(b.cache_write),
            output: a.output.saturating_add(b.output),
            reasoning: a.reasoning.saturating_add(b.reasoning),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_recomputed_on_reading() {
        let lie =
            r#"{"input_tokens":1,"output_tokens":1,"buckets":{"uncached_input":3,"output":4}}"#;
        let usage: Usage = serde_json::from_str(lie).unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (3, 4));
    }

    #[test]
    fn accumulation_saturates() {
        let mut total = Usage::from(UsageBuckets {
            output: u64::MAX,
            ..UsageBuckets::default()
        });
        total.saturating_accumulate(&total.clone());
        assert_eq!(total.output_tokens, u64::MAX);
    }
}
