//! Notices a model that makes the same call with the same result again and
//! again.

use crate::limits::{REPEAT_WINDOW_CALLS, REPEATS_BEFORE_WARNING};
use halter_protocol::{ToolCall, ToolError, ToolResult};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

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
        result: &Result<ToolResult, ToolError>,
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

fn fingerprint(call: &ToolCall, result: &Result<ToolResult, ToolError>) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.name.hash(&mut hasher);
    call.arguments.to_string().hash(&mut hasher);
    match result {
        Ok(result) => result.to_model_text().hash(&mut hasher),
        Err(error) => error.message.hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let same = Ok(ToolResult::text("x"));
        let seen: Vec<_> = (0..4).map(|_| guard.observe(&call("a"), &same)).collect();
        assert_eq!(
            seen,
            [
                Repetition::Fine,
                Repetition::Fine,
                Repetition::Warn,
                Repetition::Stop
            ]
        );
    }

    #[test]
    fn another_result_or_argument_is_another_call() {
        let mut guard = RepeatGuard::default();
        for round in 0..10 {
            let result = Ok(ToolResult::text(round.to_string()));
            assert_eq!(guard.observe(&call("a"), &result), Repetition::Fine);
            let path = format!("b{round}");
            assert_eq!(
                guard.observe(&call(&path), &Ok(ToolResult::Empty)),
                Repetition::Fine
            );
        }
    }

    #[test]
    fn equal_calls_far_apart_are_fine() {
        let mut guard = RepeatGuard::default();
        for round in 0..100 {
            let path = if round % 10 == 0 {
                "same".to_owned()
            } else {
                round.to_string()
            };
            assert_eq!(
                guard.observe(&call(&path), &Ok(ToolResult::Empty)),
                Repetition::Fine
            );
        }
    }
}
