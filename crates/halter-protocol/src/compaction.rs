//! How a session's context was made smaller.

use crate::message::{Message, ReplayMeta};
use crate::open_enum::open_enum;
use crate::transcript::Transcript;
use crate::usage::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the model sees from here on, and what became of the rest. The log
/// keeps everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextCompaction {
    /// How it was done.
    pub tier: CompactionTier,
    /// Why.
    pub reason: CompactionReason,
    /// Messages that the model no longer sees.
    pub messages_cut: u64,
    /// Tool outputs and other long texts of which it sees a reference only.
    pub outputs_cut: u64,
    /// Tokens of the next request without the compaction, as far as known.
    pub tokens_before: u64,
    /// Tokens of the next request with it, estimated.
    pub tokens_after: u64,
    /// The transcript from here on, oldest first.
    pub window: Vec<WindowPart>,
    /// What was used to write the summary.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
    /// Who wrote it: what was used is charged to that model.
    #[serde(default, skip_serializing_if = "ReplayMeta::is_unknown")]
    pub answered_by: ReplayMeta,
    /// Why no model wrote the summary that one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_error: Option<String>,
}

open_enum! {
    /// How a context was made smaller.
    pub enum CompactionTier {
        /// Older tool outputs became references.
        Outputs = "outputs",
        /// Older messages became a summary.
        Summary = "summary",
        /// The model's service compacted older messages into a form of its own.
        Native = "native",
        /// The way of the embedding program.
        Custom = "custom",
    }
}

open_enum! {
    /// Why a context was made smaller.
    pub enum CompactionReason {
        /// It reached the size at which that is done.
        Threshold = "threshold",
        /// The model service refused it as too long.
        Overflow = "overflow",
        /// Somebody asked for it.
        Requested = "requested",
    }
}

/// A piece of the transcript after a compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum WindowPart {
    /// Messages of the transcript before, as they were.
    Kept {
        /// The place of the first, counted from 0.
        first: usize,
        /// How many.
        count: usize,
    },
    /// A message that is new, or was changed.
    Message {
        /// The message.
        message: Arc<Message>,
    },
}

impl ContextCompaction {
    /// The parts that make `after` of `before`.
    pub fn window_between(before: &Transcript, after: &Transcript) -> Vec<WindowPart> {
        let mut parts: Vec<WindowPart> = Vec::new();
        let mut old = before.iter().enumerate();
        // Messages keep their order, so each is looked for behind the last.
        let ids: std::collections::HashSet<_> = before.iter().map(Arc::as_ptr).collect();
        for message in after.iter() {
            let known = ids.contains(&Arc::as_ptr(message));
            let place = known
                .then(|| old.by_ref().find(|(_, it)| Arc::ptr_eq(it, message)))
                .flatten();
            match (place, parts.last_mut()) {
                (Some((place, _)), Some(WindowPart::Kept { first, count }))
                    if *first + *count == place =>
                {
                    *count += 1;
                }
                (Some((place, _)), _) => parts.push(WindowPart::Kept {
                    first: place,
                    count: 1,
                }),
                (None, _) => parts.push(WindowPart::Message {
                    message: message.clone(),
                }),
            }
        }
        parts
    }

    /// The transcript after the compaction. What it keeps of messages that
    /// `before` lacks is left out.
    pub fn apply(&self, before: &Transcript) -> Transcript {
        let old: Vec<&Arc<Message>> = before.iter().collect();
        let mut after = Transcript::default();
        for part in &self.window {
            match part {
                WindowPart::Kept { first, count } => {
                    let kept = old.iter().skip(*first).take(*count);
                    kept.for_each(|message| after.push((*message).clone()));
                }
                WindowPart::Message { message } => after.push(message.clone()),
            }
        }
        after
    }

    /// The compaction as stream consumers see it: without opaque provider data.
    pub fn without_opaque(&self) -> Self {
        let mut shown = self.clone();
        for part in &mut shown.window {
            if let WindowPart::Message { message } = part
                && let Message::Assistant(assistant) = message.as_ref()
                && assistant.has_opaque()
            {
                *message = Arc::new(Message::Assistant(assistant.without_opaque()));
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserMessage;
    use proptest::prelude::*;

    fn messages(count: usize) -> Vec<Arc<Message>> {
        let said = |number: usize| Message::User(UserMessage::text(number.to_string()));
        (0..count).map(|number| Arc::new(said(number))).collect()
    }

    fn compaction(window: Vec<WindowPart>) -> ContextCompaction {
        ContextCompaction {
            tier: CompactionTier::Custom,
            reason: CompactionReason::Requested,
            messages_cut: 0,
            outputs_cut: 0,
            tokens_before: 0,
            tokens_after: 0,
            window,
            usage: Usage::default(),
            answered_by: ReplayMeta::default(),
            summary_error: None,
        }
    }

    proptest! {
        /// Whatever is kept, dropped, replaced or reordered: the parts lead
        /// from the one transcript to the other.
        #[test]
        fn parts_lead_from_one_transcript_to_the_other(
            count in 0usize..80,
            picks in proptest::collection::vec(0usize..120, 0..120),
            sorted: bool,
        ) {
            let before = messages(count);
            let mut picks = picks;
            if sorted {
                picks.sort_unstable();
            }
            let after: Transcript = picks
                .iter()
                .map(|pick| match before.get(*pick) {
                    Some(kept) => kept.clone(),
                    None => Arc::new(Message::User(UserMessage::text("new"))),
                })
                .collect();
            let before: Transcript = before.into_iter().collect();
            let window = ContextCompaction::window_between(&before, &after);
            prop_assert_eq!(compaction(window).apply(&before), after);
        }
    }

    #[test]
    fn neighbours_are_one_part_and_changes_stand_alone() {
        let old = messages(6);
        let new = messages(1).remove(0);
        let [a, _, c, d, e, f] = old.clone().try_into().unwrap();
        let after: Transcript = [a, new.clone(), c, d, e, f].into_iter().collect();
        let window = ContextCompaction::window_between(&old.into_iter().collect(), &after);
        assert_eq!(
            window,
            [
                WindowPart::Kept { first: 0, count: 1 },
                WindowPart::Message { message: new },
                WindowPart::Kept { first: 2, count: 4 },
            ]
        );
    }

    #[test]
    fn a_part_beyond_the_transcript_is_left_out() {
        let before: Transcript = messages(2).into_iter().collect();
        let beyond = compaction(vec![WindowPart::Kept { first: 1, count: 9 }]);
        assert_eq!(beyond.apply(&before).len(), 1);
    }
}
