//! Services that fail, and what becomes of the turn.

use super::stage::Stage;

pub fn overloaded(stage: &Stage) {
    let played = stage.play("overloaded");
    played.failed(6, "provider_unavailable");
    assert_eq!(played.all("warning").len(), 1);
    stage.requests("overloaded", &[0, 0]);
}

pub fn overloaded_once(stage: &Stage) {
    let played = stage.play("overloaded_once");
    assert_eq!(played.completed(), "Back again.");
    let warning = played.one("warning")["message"].as_str().unwrap();
    assert!(warning.contains("529"), "{warning}");
    let bodies = stage.requests("overloaded_once", &[0, 0]);
    assert_eq!(bodies[0], bodies[1]);
}

pub fn rate_limited(stage: &Stage) {
    let played = stage.play("rate_limited");
    played.failed(6, "provider_rate_limited");
    stage.requests("rate_limited", &[0, 0]);
}

pub fn rate_limited_twice(stage: &Stage) {
    stage.configure("[resilience.request_retry]\nmax_attempts = 3\nbase_backoff_ms = 1\n");
    let played = stage.play("rate_limited_twice");
    assert_eq!(played.completed(), "Let in at last.");
    assert_eq!(played.all("warning").len(), 2);
    stage.requests("rate_limited_twice", &[0, 0, 0]);
}

/// No retry helps, so there is none.
pub fn spend_cap(stage: &Stage) {
    let played = stage.play("spend_cap");
    played.failed(1, "provider_failed");
    assert!(played.all("warning").is_empty());
    stage.requests("spend_cap", &[0]);
}

pub fn unauthorized(stage: &Stage) {
    stage
        .play("unauthorized")
        .failed(4, "provider_authentication");
    stage.requests("unauthorized", &[0]);
}

/// The tool does not run again when only the request after it failed.
pub fn server_error_in_turn(stage: &Stage) {
    let played = stage.play("server_error_in_turn");
    assert_eq!(played.completed(), "Survived.");
    assert_eq!(played.tools().len(), 1);
    stage.requests("server_error_in_turn", &[0, 1, 1]);
}

/// After the first content a request is not repeated: text would come twice.
fn assert_cut(stage: &Stage, scenario: &str) {
    let played = stage.play(scenario);
    played.failed(6, "provider_unavailable");
    assert_eq!(played.streamed(), "Half a ");
    assert_eq!(played.answer(), "Half a ");
    stage.requests(scenario, &[0]);
}

pub fn truncate(stage: &Stage) {
    assert_cut(stage, "truncate");
}

/// Half a call is not run.
pub fn truncate_in_call(stage: &Stage) {
    let played = stage.play("truncate_in_call");
    played.failed(6, "provider_unavailable");
    assert!(played.all("tool_execution_started").is_empty());
    stage.requests("truncate_in_call", &[0]);
    stage.assert_untouched();
}

pub fn reset(stage: &Stage) {
    assert_cut(stage, "reset");
}

pub fn reset_at_start(stage: &Stage) {
    let played = stage.play("reset_at_start");
    assert_eq!(played.completed(), "Second time lucky.");
    played.one("warning");
    stage.requests("reset_at_start", &[0, 0]);
}

pub fn stall(stage: &Stage) {
    stage.configure("[resilience.timeouts]\nstream_idle_secs = 1\n");
    assert_cut(stage, "stall");
}

/// A call that the output limit cut off is not run.
pub fn max_tokens_in_call(stage: &Stage) {
    let played = stage.play("max_tokens_in_call");
    played.failed(1, "output_limit_reached");
    assert_eq!(played.answer(), "Writing.");
    assert!(played.all("tool_execution_started").is_empty());
    stage.requests("max_tokens_in_call", &[0]);
    stage.assert_untouched();
}

pub fn late_first_byte(stage: &Stage) {
    let played = stage.play("late_first_byte");
    assert_eq!(played.completed(), "Late.");
    stage.requests("late_first_byte", &[0]);
}

pub fn hang(stage: &Stage) {
    stage.configure(
        "[resilience.timeouts]\nrequest_secs = 1\n\
         [resilience.request_retry]\nmax_attempts = 2\nbase_backoff_ms = 1\n",
    );
    let played = stage.play("hang");
    played.failed(6, "provider_unavailable");
    let warning = played.one("warning")["message"].as_str().unwrap();
    assert!(warning.contains("did not begin to answer"), "{warning}");
    stage.requests("hang", &[0, 0]);
}

/// Silence before any content costs nothing to try again.
pub fn stall_at_start(stage: &Stage) {
    stage.configure(
        "[resilience.timeouts]\nstream_idle_secs = 1\n\
         [resilience.request_retry]\nmax_attempts = 2\nbase_backoff_ms = 1\n",
    );
    let played = stage.play("stall_at_start");
    played.failed(6, "provider_unavailable");
    played.one("warning");
    assert_eq!(played.streamed(), "");
    stage.requests("stall_at_start", &[0, 0]);
}

pub fn stall_with_pings(stage: &Stage) {
    stage.configure("[resilience.timeouts]\nstream_idle_secs = 1\n");
    let played = stage.play("stall_with_pings");
    played.failed(6, "provider_unavailable");
    assert_eq!(played.answer(), "One two ");
    stage.requests("stall_with_pings", &[0]);
}

/// A failure that no retry mends is not retried, status 200 or not.
pub fn invalid_after_ok(stage: &Stage) {
    let played = stage.play("invalid_after_ok");
    played.failed(1, "provider_failed");
    assert!(played.all("warning").is_empty());
    stage.requests("invalid_after_ok", &[0]);
}

pub fn garbage(stage: &Stage) {
    let played = stage.play("garbage");
    played.failed(6, "provider_unavailable");
    assert_eq!(played.answer(), "Before ");
    stage.requests("garbage", &[0]);
}

pub fn rate_limited_once(stage: &Stage) {
    let played = stage.play("rate_limited_once");
    assert_eq!(played.completed(), "Let in.");
    let warning = played.one("warning")["message"].as_str().unwrap();
    assert!(warning.contains("429"), "{warning}");
    stage.requests("rate_limited_once", &[0, 0]);
}

/// Nobody waits until the next century.
pub fn retry_after_date(stage: &Stage) {
    let played = stage.play("retry_after_date");
    played.failed(6, "provider_rate_limited");
    stage.requests("retry_after_date", &[0]);
}

pub fn rate_headers(stage: &Stage) {
    let played = stage.play("rate_headers");
    assert_eq!(played.completed(), "Nearly spent.");
    stage.requests("rate_headers", &[0]);
}

pub fn server_error(stage: &Stage) {
    let played = stage.play("server_error");
    played.failed(6, "provider_unavailable");
    played.one("warning");
    stage.requests("server_error", &[0, 0]);
}

pub fn forbidden(stage: &Stage) {
    stage.play("forbidden").failed(4, "provider_authentication");
    stage.requests("forbidden", &[0]);
}

pub fn no_credit(stage: &Stage) {
    stage.play("no_credit").failed(1, "provider_failed");
    stage.requests("no_credit", &[0]);
}

pub fn context_exceeded(stage: &Stage) {
    let played = stage.play("context_exceeded");
    played.failed(1, "context_overflow");
    assert!(played.all("warning").is_empty());
    stage.requests("context_exceeded", &[0]);
}
