//! Looking at what processes do, by samples.

use crate::limits::{PROFILE_DEPTH, PROFILE_NAME_CHARS, PROFILE_STACKS};
use async_trait::async_trait;
use std::collections::HashMap;

/// Samples that are being taken. Dropping it ends that.
#[async_trait]
pub trait RunningSampling: Send {
    /// Waits until there is nothing left to sample.
    async fn over(&mut self);

    /// Ends it and returns what was seen.
    ///
    /// # Errors
    /// If what was seen cannot be read.
    async fn finish(self: Box<Self>) -> anyhow::Result<StackSamples>;
}

/// What processes were seen doing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StackSamples {
    /// What took them: `perf`, or `proc`.
    pub method: &'static str,
    /// How often each stack was seen, outermost function first.
    stacks: HashMap<Vec<String>, u64>,
    /// Samples of further stacks, which are not told apart.
    pub merged: u64,
    /// What a reader should know about them.
    pub note: Option<String>,
}

impl StackSamples {
    /// No samples yet.
    #[must_use]
    pub fn new(method: &'static str) -> Self {
        Self {
            method,
            ..Self::default()
        }
    }

    /// Takes a sample, innermost function first. What is deeper or longer than
    /// the limits is cut.
    pub fn add(&mut self, innermost_first: Vec<String>) {
        let mut stack: Vec<String> = innermost_first;
        stack.reverse();
        stack.truncate(PROFILE_DEPTH);
        for name in &mut stack {
            if let Some((end, _)) = name.char_indices().nth(PROFILE_NAME_CHARS) {
                name.truncate(end);
            }
        }
        if let Some(count) = self.stacks.get_mut(&stack) {
            *count += 1;
        } else if self.stacks.len() < PROFILE_STACKS {
            self.stacks.insert(stack, 1);
        } else {
            self.merged += 1;
        }
    }

    /// Each stack, outermost function first, and how often it was seen; in the
    /// order of the names.
    #[must_use]
    pub fn stacks(&self) -> Vec<(&[String], u64)> {
        let all = self.stacks.iter();
        let mut all: Vec<_> = all.map(|(stack, seen)| (stack.as_slice(), *seen)).collect();
        all.sort_unstable();
        all
    }

    /// How many samples there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.stacks.values().sum::<u64>() + self.merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_told_apart_up_to_a_number_and_cut_at_their_depth() {
        let mut samples = StackSamples::new("perf");
        for number in 0..=PROFILE_STACKS {
            samples.add(vec![format!("f{number}"), "main".to_owned()]);
        }
        samples.add(vec!["f0".to_owned(), "main".to_owned()]);
        assert_eq!(samples.stacks().len(), PROFILE_STACKS);
        assert_eq!(samples.merged, 1);
        assert_eq!(samples.count(), PROFILE_STACKS as u64 + 2);
        let (first, seen) = samples.stacks()[0];
        assert_eq!(
            (first, seen),
            (&["main".to_owned(), "f0".to_owned()][..], 2)
        );

        let mut samples = StackSamples::new("perf");
        let name = "x".repeat(PROFILE_NAME_CHARS);
        let deep = std::iter::repeat_n(format!("{name}y"), PROFILE_DEPTH + 1);
        samples.add(deep.collect());
        let (stack, _) = samples.stacks()[0];
        assert_eq!(stack, vec![name; PROFILE_DEPTH]);
    }
}
