//! Whether an answer was read from the prompt cache as far as the one before
//! promised.

use super::Engine;
use crate::limits::{CACHE_PROMISE_TOKENS, PROMPT_CACHE_LIFE};
use halter_protocol::{AssistantMessage, SessionEventPayload, Timestamp, Usage};

impl Engine {
    /// Says so, once a turn, if a service read afresh what it said to have
    /// cached, and no cut was announced since.
    pub(super) fn check_cache(&mut self, usage: Option<&Usage>) {
        if std::mem::take(&mut self.cut_announced) {
            return;
        }
        let Some(usage) = usage.filter(|it| it.input_tokens > 0 && !it.incomplete) else {
            return;
        };
        let Some(turn) = &self.turn else { return };
        let miss = {
            let mut messages = self.state.messages.iter_newest_first();
            let last = messages.find_map(|message| message.as_assistant());
            last.filter(|last| last.replay_meta == turn.answered_by && !turn.told_of_cache)
                .and_then(|last| missed(last, usage, self.at))
        };
        if let Some(message) = miss {
            if let Some(turn) = &mut self.turn {
                turn.told_of_cache = true;
            }
            self.record(SessionEventPayload::Warning { message });
        }
    }
}

/// What to say of an answer that read less than half of what the last one left
/// in the cache.
fn missed(last: &AssistantMessage, usage: &Usage, at: Timestamp) -> Option<String> {
    let left = last.usage?.buckets;
    let promised = left.cache_read.saturating_add(left.cache_write);
    let read = usage.buckets.cache_read;
    if promised < CACHE_PROMISE_TOKENS || read.saturating_mul(2) >= promised {
        return None;
    }
    let idle = at.duration_since(last.created_at);
    let life = PROMPT_CACHE_LIFE.as_secs();
    let cause = match u64::try_from(idle.as_secs()) {
        Ok(seconds) if seconds > life => format!(
            "{} minutes passed since the last answer, and services keep prompts for about {}",
            seconds / 60,
            life / 60
        ),
        _ => "nothing was changed here, so the service has dropped it".to_owned(),
    };
    Some(format!(
        "of {promised} tokens in the prompt cache {read} were read, the others paid again: {cause}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::{ReplayMeta, UsageBuckets};
    use std::time::Duration;

    fn said(usage: UsageBuckets) -> AssistantMessage {
        AssistantMessage {
            id: "msg_1".into(),
            created_at: Timestamp::UNIX_EPOCH,
            parts: Vec::new(),
            stop_reason: None,
            usage: Some(usage.into()),
            replay_meta: ReplayMeta::default(),
        }
    }

    fn read(cache_read: u64) -> Usage {
        Usage::from(UsageBuckets {
            uncached_input: 5_000,
            cache_read,
            ..UsageBuckets::default()
        })
    }

    #[test]
    fn a_miss_is_told_with_its_likely_cause() {
        let last = said(UsageBuckets {
            cache_read: 3_000,
            cache_write: 1_000,
            ..UsageBuckets::default()
        });
        let after = |idle: Duration| Timestamp::UNIX_EPOCH + idle;
        let soon = after(PROMPT_CACHE_LIFE);
        assert_eq!(missed(&last, &read(2_000), soon), None);
        let told = missed(&last, &read(1_999), soon).unwrap();
        assert!(
            told.starts_with("of 4000 tokens in the prompt cache 1999 were read"),
            "{told}"
        );
        assert!(told.ends_with("the service has dropped it"), "{told}");
        let late = after(PROMPT_CACHE_LIFE + Duration::from_secs(1));
        let told = missed(&last, &read(0), late).unwrap();
        assert!(told.ends_with(
            "5 minutes passed since the last answer, and services keep prompts for about 5"
        ));
    }

    #[test]
    fn little_or_nothing_promises_nothing() {
        let cached = |cache_read| {
            said(UsageBuckets {
                cache_read,
                ..UsageBuckets::default()
            })
        };
        let at = Timestamp::UNIX_EPOCH;
        assert_eq!(
            missed(&cached(CACHE_PROMISE_TOKENS - 1), &read(0), at),
            None
        );
        assert!(missed(&cached(CACHE_PROMISE_TOKENS), &read(0), at).is_some());
    }
}
