//! Which messages stay as they are when a context is made smaller.

use halter_protocol::{Message, Transcript};
use halter_providers::tokens::of_message;
use std::sync::Arc;

/// A transcript that is to be cut: what comes before the tail is old.
pub(super) struct Cut {
    pub old: Vec<Arc<Message>>,
    pub tail: Vec<Arc<Message>>,
}

impl Cut {
    /// Cuts so that the tail has at most `keep` estimated tokens, but for the
    /// last step, which always stays. Never between a call and its result; at
    /// the start of a turn if one lies in the tail.
    pub fn new(messages: &Transcript, keep: u64) -> Self {
        let mut old: Vec<Arc<Message>> = messages.iter().cloned().collect();
        let tail = old.split_off(place(&old, keep));
        Self { old, tail }
    }
}

fn place(messages: &[Arc<Message>], keep: u64) -> usize {
    let mut place = messages.len();
    let mut kept = 0;
    for (index, message) in messages.iter().enumerate().rev() {
        kept += of_message(message);
        let is_last_step = place == messages.len();
        if kept > keep && !is_last_step {
            break;
        }
        if !matches!(message.as_ref(), Message::Tool(_)) {
            place = index;
        }
    }
    let turn = messages
        .iter()
        .skip(place)
        .position(|message| matches!(message.as_ref(), Message::User(_)));
    place + turn.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::standard::samples::{call, result, said, user};

    fn lengths(messages: &[Arc<Message>], keep: u64) -> (usize, usize) {
        let cut = Cut::new(&messages.iter().cloned().collect(), keep);
        (cut.old.len(), cut.tail.len())
    }

    #[test]
    fn a_call_stays_with_its_results() {
        let messages = [
            user("go"),
            call(&["a", "b"]),
            result("a", 400),
            result("b", 400),
            call(&["c"]),
            result("c", 400),
        ];
        assert_eq!(lengths(&messages, 0), (4, 2), "the last step stays");
        assert_eq!(lengths(&messages, 250), (4, 2), "no half of a step");
        assert_eq!(lengths(&messages, 1_000), (0, 6));
    }

    #[test]
    fn a_turn_that_fits_stays_whole() {
        let messages = [
            user("one"),
            said("answer"),
            user("two"),
            call(&["a"]),
            result("a", 400),
        ];
        assert_eq!(lengths(&messages, 102), (2, 3));
        assert_eq!(
            lengths(&messages, 0),
            (3, 2),
            "its prompt is retained elsewhere"
        );
        assert_eq!(lengths(&[], 9), (0, 0));
    }
}
