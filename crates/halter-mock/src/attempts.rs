//! The attempts of each request: the only memory of the service that shows in
//! its answers, and only where a scenario says `fail_first`.

use crate::limits::MAX_COUNTED_REQUESTS;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Counts attempts by a digest of the request.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    counts: Mutex<HashMap<String, u32>>,
}

impl Attempts {
    /// Counts an attempt. Returns whether it is among the first `times`.
    pub(crate) fn is_among_first(&self, request: String, times: u32) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MAX_COUNTED_REQUESTS && !counts.contains_key(&request) {
            counts.clear();
        }
        let seen = counts.entry(request).or_insert(0);
        let first = *seen < times;
        *seen = seen.saturating_add(1);
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_its_own_count() {
        let attempts = Attempts::default();
        let seen: Vec<_> = ["a", "b", "a", "a", "b"]
            .map(|name| attempts.is_among_first(name.to_owned(), 2))
            .to_vec();
        assert_eq!(seen, [true, true, true, false, true]);
    }

    #[test]
    fn counts_start_anew_beyond_the_limit() {
        let attempts = Attempts::default();
        for number in 0..MAX_COUNTED_REQUESTS {
            attempts.is_among_first(number.to_string(), 1);
        }
        assert!(!attempts.is_among_first("0".to_owned(), 1));
        assert!(attempts.is_among_first("one more".to_owned(), 1));
        assert!(attempts.is_among_first("0".to_owned(), 1));
    }
}
