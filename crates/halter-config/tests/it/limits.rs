//! Numbers at the edge of what a file may say.

use halter_config::limits::{MAX_INTEGER, MAX_RETRY_ATTEMPTS, MAX_TIMEOUT_SECS};

use crate::support::{OFFLINE, error_of, load_text};

#[tokio::test]
async fn numbers_hold_at_their_edge() {
    for (table, key, most) in [
        ("policy.shell", "timeout_secs", MAX_TIMEOUT_SECS),
        ("resilience.timeouts", "connect_secs", MAX_TIMEOUT_SECS),
        ("resilience.timeouts", "request_secs", MAX_TIMEOUT_SECS),
        ("resilience.timeouts", "stream_idle_secs", MAX_TIMEOUT_SECS),
        (
            "resilience.request_retry",
            "deadline_secs",
            MAX_TIMEOUT_SECS,
        ),
        (
            "resilience.request_retry",
            "base_backoff_ms",
            MAX_TIMEOUT_SECS * 1000,
        ),
        (
            "resilience.request_retry",
            "max_attempts",
            MAX_RETRY_ATTEMPTS,
        ),
        ("policy", "max_read_bytes", MAX_INTEGER),
    ] {
        let file = |number: u64| format!("{OFFLINE}[{table}]\n{key} = {number}\n");
        load_text(file(most)).await.unwrap();
        let error = error_of(file(most + 1)).await;
        let location = error.location().unwrap();
        assert_eq!(location.line, 6, "{error}");
        assert_eq!(error.code(), "config_invalid_value", "{error}");
    }
}
