//! Ended commands that nobody has told the core to forget.

use std::collections::VecDeque;
use std::time::Instant;

use super::order::ExecId;
use crate::limits::{KEPT_RESULT_TIME, KEPT_RESULTS};

/// The names of ended commands, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Kept {
    ended: VecDeque<(Instant, ExecId)>,
}

impl Kept {
    pub(super) fn add(&mut self, name: ExecId, now: Instant) {
        self.ended.push_back((now, name));
    }

    pub(super) fn remove(&mut self, name: &ExecId) {
        self.ended.retain(|(_, kept)| kept != name);
    }

    /// Takes the oldest if it is too old, or if there are too many.
    pub(super) fn take_old(&mut self, now: Instant) -> Option<ExecId> {
        let too_many = self.ended.len() > KEPT_RESULTS;
        let old = |since: &Instant| now.saturating_duration_since(*since) >= KEPT_RESULT_TIME;
        self.ended
            .pop_front_if(|(since, _)| too_many || old(since))
            .map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits::{EXEC_RETENTION, MAX_KEPT_EXECS};

    fn name(number: usize) -> ExecId {
        ExecId::parse(&format!("n-{number}")).unwrap()
    }

    #[test]
    fn ended_commands_are_kept_so_many_and_so_long() {
        assert_eq!(KEPT_RESULTS, 512);
        assert_eq!(KEPT_RESULT_TIME, Duration::from_secs(1800));
        let begun = Instant::now();
        let mut kept = Kept::default();
        for number in 0..KEPT_RESULTS {
            kept.add(name(number), begun);
        }
        assert_eq!(kept.take_old(begun), None);
        kept.add(name(KEPT_RESULTS), begun);
        assert_eq!(kept.take_old(begun), Some(name(0)));
        assert_eq!(kept.take_old(begun), None);
        kept.remove(&name(1));
        let almost = begun + KEPT_RESULT_TIME - Duration::from_millis(1);
        assert_eq!(kept.take_old(almost), None);
        let old = begun + KEPT_RESULT_TIME;
        for number in 2..=KEPT_RESULTS {
            assert_eq!(kept.take_old(old), Some(name(number)));
        }
        assert_eq!(kept.take_old(old), None);
    }

    /// The service decides what is forgotten; this is behind it.
    #[test]
    fn the_core_keeps_more_than_the_service() {
        const { assert!(KEPT_RESULTS > MAX_KEPT_EXECS) }
        assert!(KEPT_RESULT_TIME > EXEC_RETENTION);
    }
}
