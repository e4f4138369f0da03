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

/// What tokens cost, in billionths of a US dollar, each token in one bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
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
    /// What a service charged without saying for which tokens.
    pub unattributed: u64,
    /// True if some of the tokens have no known price: they cost more than
    /// this.
    pub partial: bool,
    /// Prices came from configuration.
    pub price_from_config: bool,
    /// Prices, or the cost itself, came from the service.
    pub price_from_provider: bool,
    /// Prices came from the table in the program.
    pub price_built_in: bool,
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
            self.unattributed,
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
            (&mut self.unattributed, other.unattributed),
        ] {
            *ours = ours.saturating_add(theirs);
        }
        self.partial |= other.partial;
        self.price_from_config |= other.price_from_config;
        self.price_from_provider |= other.price_from_provider;
        self.price_built_in |= other.price_built_in;
    }
}

/// Prices in billionths of a US dollar per token, which is thousandths of a
/// dollar per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
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
    /// use halter_protocol::{Prices, Usage, UsageBuckets};
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
    /// What it cost; none if no price is known, which is not nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// True if a call did not say what it used: it is more than this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
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
            cost: None,
            incomplete: false,
        }
    }
}

impl<'de> Deserialize<'de> for Usage {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            #[serde(default)]
            buckets: UsageBuckets,
            #[serde(default)]
            cost: Option<Cost>,
            #[serde(default)]
            incomplete: bool,
        }
        let Fields {
            buckets,
            cost,
            incomplete,
        } = Fields::deserialize(deserializer)?;
        Ok(Self {
            cost,
            incomplete,
            ..Self::from(buckets)
        })
    }
}

impl Usage {
    /// The usage of a call that did not say what it used.
    pub fn unknown() -> Self {
        Self {
            incomplete: true,
            ..Self::default()
        }
    }

    /// Tokens that occupy the context window after the call: all of them.
    pub fn context_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// True when nothing was counted, and nothing is known to be missing.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Adds another usage bucket by bucket, never overflowing.
    pub fn saturating_accumulate(&mut self, other: &Usage) {
        let cost = self.cost_with(other);
        let incomplete = self.incomplete || other.incomplete;
        let (a, b) = (&self.buckets, &other.buckets);
        *self = Self::from(UsageBuckets {
            uncached_input: a.uncached_input.saturating_add(b.uncached_input),
            cache_read: a.cache_read.saturating_add(b.cache_read),
            cache_write: a.cache_write.saturating_add(b.cache_write),
            output: a.output.saturating_add(b.output),
            reasoning: a.reasoning.saturating_add(b.reasoning),
        });
        self.cost = cost;
        self.incomplete = incomplete;
    }

    /// What both cost together. Tokens without a price make the sum partial.
    fn cost_with(&self, other: &Usage) -> Option<Cost> {
        let known = |usage: &Usage| match usage.cost {
            None if usage.incomplete || usage.buckets != UsageBuckets::default() => Cost {
                partial: true,
                ..Cost::default()
            },
            cost => cost.unwrap_or_default(),
        };
        if self.cost.is_none() && other.cost.is_none() {
            return None;
        }
        let mut sum = known(self);
        sum.saturating_accumulate(&known(other));
        Some(sum)
    }

    /// What is in this usage and not in `part` of it.
    pub fn saturating_sub(&self, part: &Usage) -> Usage {
        let (a, b) = (&self.buckets, &part.buckets);
        let rest = UsageBuckets {
            uncached_input: a.uncached_input.saturating_sub(b.uncached_input),
            cache_read: a.cache_read.saturating_sub(b.cache_read),
            cache_write: a.cache_write.saturating_sub(b.cache_write),
            output: a.output.saturating_sub(b.output),
            reasoning: a.reasoning.saturating_sub(b.reasoning),
        };
        let mut usage = Usage::from(rest);
        usage.incomplete = self.incomplete && !part.incomplete;
        usage.cost = match (self.cost, part.cost) {
            _ if rest == UsageBuckets::default() => None,
            (Some(all), Some(part)) => Some(Cost {
                uncached_input: all.uncached_input.saturating_sub(part.uncached_input),
                cache_read: all.cache_read.saturating_sub(part.cache_read),
                cache_write: all.cache_write.saturating_sub(part.cache_write),
                output: all.output.saturating_sub(part.output),
                reasoning: all.reasoning.saturating_sub(part.reasoning),
                unattributed: all.unattributed.saturating_sub(part.unattributed),
                ..all
            }),
            (cost, _) => cost,
        };
        usage
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

    fn priced(output: u64, cost: Option<u64>) -> Usage {
        Usage {
            cost: cost.map(|output| Cost {
                output,
                price_built_in: true,
                ..Cost::default()
            }),
            ..Usage::from(UsageBuckets {
                output,
                ..UsageBuckets::default()
            })
        }
    }

    /// What has no price is never taken for free.
    #[test]
    fn costs_add_up_and_say_when_they_are_not_all() {
        let sum = |usages: &[Usage]| {
            let mut total = Usage::default();
            for usage in usages {
                total.saturating_accumulate(usage);
            }
            total.cost.map(|cost| (cost.total(), cost.partial))
        };
        assert_eq!(sum(&[]), None);
        assert_eq!(sum(&[priced(1, None), priced(1, None)]), None);
        assert_eq!(
            sum(&[priced(1, Some(5)), priced(1, Some(6))]),
            Some((11, false))
        );
        assert_eq!(sum(&[priced(1, Some(5)), priced(1, None)]), Some((5, true)));
        assert_eq!(sum(&[priced(1, None), priced(1, Some(5))]), Some((5, true)));
        assert_eq!(
            sum(&[priced(1, Some(5)), Usage::default()]),
            Some((5, false))
        );
    }

    #[test]
    fn the_rest_of_a_usage_is_what_its_part_lacks() {
        let all = priced(5, Some(50));
        let rest = all.saturating_sub(&priced(2, Some(20)));
        assert_eq!(rest, priced(3, Some(30)));
        assert_eq!(all.saturating_sub(&all), Usage::default());
        assert_eq!(all.saturating_sub(&Usage::default()), all);
    }

    #[test]
    fn what_a_call_did_not_say_is_missing_from_every_sum() {
        let mut sum = priced(5, Some(50));
        sum.saturating_accumulate(&Usage::unknown());
        assert!(sum.incomplete && !sum.is_zero() && !Usage::unknown().is_zero());
        assert_eq!(sum.cost.map(|cost| cost.partial), Some(true));
        let json = serde_json::to_value(sum).unwrap();
        assert_eq!(json["incomplete"], true);
        assert_eq!(serde_json::from_value::<Usage>(json).unwrap(), sum);
        let known = serde_json::to_value(priced(5, None)).unwrap();
        assert_eq!(known.get("incomplete"), None);
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
