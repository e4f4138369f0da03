//! Randomness that follows from a seed.

use super::world;
use crate::engine::Preparation;
use halter_protocol::{CacheBreakReason, EnvironmentSnapshot, TurnError};

/// A small deterministic generator (SplitMix64).
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x9E37_79B9_7F4A_7C15)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    /// A number below `limit`, or zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next().checked_rem(limit).unwrap_or(0)
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn preparation(&mut self) -> Result<Preparation, TurnError> {
        if self.chance(4) {
            return Err(TurnError::new("unknown_model", "no such model"));
        }
        Ok(Preparation {
            environment: self
                .chance(10)
                .then(|| (EnvironmentSnapshot::default(), "it is tomorrow".to_owned())),
            instructions: world::note(self),
            cache_break: self
                .chance(10)
                .then_some(CacheBreakReason::ResourcesReplaced),
            ..Preparation::default()
        })
    }
}
