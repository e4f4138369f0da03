//! Notices a model that makes the same call with the same result again and
//! again.

use crate::limits::{REPEAT_WINDOW_CALLS, REPEATS_BEFORE_WARNING};
use halter_protocol::{ToolCall, ToolError, ToolResult};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The calls of a turn, as far back as a loop could hide.
#[derive(Debug, Default)]
pub struct RepeatGuard {
    recent: VecDeque<u64>,
    warned: bool,
}

/// What the guard makes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetition {
    /// Nothing unusual.
    Fine,
    /// The model should be told.
    Warn,
    /// The turn should end.
    Stop,
}

impl RepeatGuard {
    /// Takes note of a finished call.
    pub fn observe(
        &mut self,
        call: &ToolCall,
        result: &Result<Arc<ToolResult>, ToolError>,
    ) -> Repetition {
        let key = fingerprint(call, result);
        self.recent.push_back(key);
        if self.recent.len() > REPEAT_WINDOW_CALLS {
            self.recent.pop_front();
        }
        let repeats = self.recent.iter().filter(|seen| **seen == key).count();
        if repeats < REPEATS_BEFORE_WARNING {
            Repetition::Fine
        } else if !self.warned {
            self.warned = true;
            Repetition::Warn
        } else {
            Repetition::Stop
        }
    }
}

fn fingerprint(call: &ToolCall, result: &Result<Arc<ToolResult>, ToolError>) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.name.hash(&mut hasher);
    call.arguments.to_string().hash(&mut hasher);
    match result {
        Ok(result) => {
            match result.as_ref() {
                ToolResult::Text { text } => text.hash(&mut hasher),
                other => other.to_model_text().hash(&mut hasher),
            }
            let media = result.attachments().filter_map(|part| part.media());
            media.for_each(|(_, data)| data.hash(&mut hasher));
        }
        Err(error) => error.message.hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::ContentPart;
    use serde_json::json;

    fn call(path: &str) -> ToolCall {
        ToolCall {
            id: "call".into(),
            name: "read".into(),
            arguments: json!({"path": path}),
        }
    }

    #[test]
    fn the_third_equal_result_warns_and_the_next_stops() {
        let mut guard = RepeatGuard::default();
        let same = Ok(ToolResult::text("x").into());
        let mut observe = || guard.observe(&call("a"), &same);
        for _ in 1..REPEATS_BEFORE_WARNING {
            assert_eq!(observe(), Repetition::Fine);
        }
        assert_eq!([observe(), observe()], [Repetition::Warn, Repetition::Stop]);
    }

    #[test]
    fn another_result_or_argument_is_another_call() {
        let mut guard = RepeatGuard::default();
        for round in 0..10 {
            let result = Ok(ToolResult::text(round.to_string()).into());
            assert_eq!(guard.observe(&call("a"), &result), Repetition::Fine);
            let path = format!("b{round}");
            assert_eq!(
                guard.observe(&call(&path), &Ok(ToolResult::Empty.into())),
                Repetition::Fine
            );
        }
    }

    #[test]
    fn another_image_of_the_same_size_is_another_result() {
        let mut guard = RepeatGuard::default();
        for frame in 0..10 {
            let image = ContentPart::image("image/png", [frame]);
            let result = Ok(ToolResult::parts([image]).into());
            assert_eq!(guard.observe(&call("screen"), &result), Repetition::Fine);
        }
    }

    /// What the guard says to the last of the equal calls, if so many others
    /// lie between the first and the last.
    fn told_after(others: usize) -> Repetition {
        let mut guard = RepeatGuard::default();
        let mut observe = |path: &str| guard.observe(&call(path), &Ok(ToolResult::Empty.into()));
        for _ in 1..REPEATS_BEFORE_WARNING {
            observe("same");
        }
        for other in 0..others {
            observe(&other.to_string());
        }
        observe("same")
    }

    #[test]
    fn equal_calls_far_apart_are_fine() {
        let widest = REPEAT_WINDOW_CALLS - REPEATS_BEFORE_WARNING;
        assert_eq!(told_after(widest), Repetition::Warn);
        assert_eq!(told_after(widest + 1), Repetition::Fine);
    }
}
