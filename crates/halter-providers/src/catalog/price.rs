//! What tokens cost.

use halter_protocol::Usage;

/// Prices in billionths of a US dollar per token, which is thousandths of a
/// dollar per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prices {
    /// Input that is read afresh.
    pub input: u64,
    /// Input answered from the prompt cache.
    pub cache_read: u64,
    /// Input written to the prompt cache.
    pub cache_write: u64,
    /// Output, reasoning included.
    pub output: u64,
}

/// What a call cost, in billionths of a US dollar, each token in one bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// For input that was read afresh.
    pub uncached_input: u64,
    /// For input answered from the prompt cache.
    pub cache_read: u64,
    /// For input written to the prompt cache.
    pub cache_write: u64,
    /// For visible output.
    pub output: u64,
    /// For reasoning.
    pub reasoning: u64,
}

impl Prices {
    /// What a usage costs.
    ///
    /// ```
    /// use halter_protocol::{Usage, UsageBuckets};
    /// use halter_providers::catalog::Prices;
    ///
    /// let prices = Prices { input: 3_000, cache_read: 300, cache_write: 3_750, output: 15_000 };
    /// let usage = Usage::from(UsageBuckets {
    ///     uncached_input: 1_000, cache_read: 10_000, output: 100, reasoning: 100,
    ///     ..UsageBuckets::default()
    /// });
    /// assert_eq!(prices.cost(&usage).dollars(), 0.009);
    /// ```
    pub fn cost(&self, usage: &Usage) -> Cost {
        let buckets = &usage.buckets;
        Cost {
            uncached_input: buckets.uncached_input.saturating_mul(self.input),
            cache_read: buckets.cache_read.saturating_mul(self.cache_read),
            cache_write: buckets.cache_write.saturating_mul(self.cache_write),
            output: buckets.output.saturating_mul(self.output),
            reasoning: buckets.reasoning.saturating_mul(self.output),
        }
    }
}

impl Cost {
    /// The sum of all buckets.
    pub fn total(&self) -> u64 {
        [
            self.uncached_input,
            self.cache_read,
            self.cache_write,
            self.output,
            self.reasoning,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// The sum in dollars, to show.
    pub fn dollars(&self) -> f64 {
        self.total() as f64 / 1e9
    }

    /// Adds another cost bucket by bucket, never overflowing.
    pub fn saturating_accumulate(&mut self, other: &Cost) {
        for (ours, theirs) in [
            (&mut self.uncached_input, other.uncached_input),
            (&mut self.cache_read, other.cache_read),
            (&mut self.cache_write, other.cache_write),
            (&mut self.output, other.output),
            (&mut self.reasoning, other.reasoning),
        ] {
            *ours = ours.saturating_add(theirs);
        }
    }
}
