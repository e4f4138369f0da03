//! What tokens cost.

use halter_protocol::{Cost, Usage};

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
            ..Cost::default()
        }
    }
}
