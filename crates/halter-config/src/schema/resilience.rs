//! `[resilience]`: timeouts and retries of model requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{MAX_RETRY_ATTEMPTS, MAX_TIMEOUT_SECS};

/// Timeouts and retries of model requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResilienceConfig {
    /// How long to wait for what.
    pub timeouts: TimeoutsConfig,
    /// When a failed request is sent again.
    pub request_retry: RequestRetryConfig,
}

/// How long to wait for what, in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TimeoutsConfig {
    /// Until a connection stands.
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub connect_secs: u64,
    /// From sending a request to the head of its answer.
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub request_secs: u64,
    /// Between two events of a streamed answer.
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub stream_idle_secs: u64,
}

impl Default for TimeoutsConfig {
    fn default() -> Self {
        Self {
            connect_secs: 10,
            request_secs: 60,
            stream_idle_secs: 60,
        }
    }
}

/// When a failed request is sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RequestRetryConfig {
    /// How often a request is sent, the first time included.
    #[schemars(range(min = 1, max = MAX_RETRY_ATTEMPTS))]
    pub max_attempts: u32,
    /// No attempt starts later than this after the first, in seconds.
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub deadline_secs: u64,
    /// Pause before the second attempt, in milliseconds; it doubles each time.
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS * 1000))]
    pub base_backoff_ms: u64,
    /// The longest pause, in seconds.
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub max_backoff_secs: u64,
    /// By how much a pause may vary at random, in percent.
    #[schemars(range(max = 100))]
    pub jitter_pct: u8,
}

impl Default for RequestRetryConfig {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            deadline_secs: 60,
            base_backoff_ms: 500,
            max_backoff_secs: 30,
            jitter_pct: 25,
        }
    }
}

/// What one provider does otherwise than `[resilience]` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResilienceOverride {
    /// How long to wait for what.
    pub timeouts: TimeoutsOverride,
    /// When a failed request is sent again.
    pub request_retry: RequestRetryOverride,
}

/// Timeouts that differ from `[resilience.timeouts]`, in seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TimeoutsOverride {
    /// Until a connection stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub connect_secs: Option<u64>,
    /// From sending a request to the head of its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub request_secs: Option<u64>,
    /// Between two events of a streamed answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub stream_idle_secs: Option<u64>,
}

/// Retries that differ from `[resilience.request_retry]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RequestRetryOverride {
    /// How often a request is sent, the first time included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_RETRY_ATTEMPTS))]
    pub max_attempts: Option<u32>,
    /// No attempt starts later than this after the first, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub deadline_secs: Option<u64>,
    /// Pause before the second attempt, in milliseconds; it doubles each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS * 1000))]
    pub base_backoff_ms: Option<u64>,
    /// The longest pause, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub max_backoff_secs: Option<u64>,
    /// By how much a pause may vary at random, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub jitter_pct: Option<u8>,
}

impl ResilienceConfig {
    /// These settings with what one provider does otherwise.
    pub fn overridden_by(&self, other: &ResilienceOverride) -> Self {
        let (timeouts, retry) = (&other.timeouts, &other.request_retry);
        Self {
            timeouts: TimeoutsConfig {
                connect_secs: timeouts.connect_secs.unwrap_or(self.timeouts.connect_secs),
                request_secs: timeouts.request_secs.unwrap_or(self.timeouts.request_secs),
                stream_idle_secs: timeouts
                    .stream_idle_secs
                    .unwrap_or(self.timeouts.stream_idle_secs),
            },
            request_retry: RequestRetryConfig {
                max_attempts: retry
                    .max_attempts
                    .unwrap_or(self.request_retry.max_attempts),
                deadline_secs: retry
                    .deadline_secs
                    .unwrap_or(self.request_retry.deadline_secs),
                base_backoff_ms: retry
                    .base_backoff_ms
                    .unwrap_or(self.request_retry.base_backoff_ms),
                max_backoff_secs: retry
                    .max_backoff_secs
                    .unwrap_or(self.request_retry.max_backoff_secs),
                jitter_pct: retry.jitter_pct.unwrap_or(self.request_retry.jitter_pct),
            },
        }
    }
}
