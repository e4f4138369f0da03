//! Healthy answers that arrive oddly, and answers that end for another reason
//! than being complete.

use super::stage::Stage;

fn assert_text(stage: &Stage, scenario: &str, text: &str) {
    let played = stage.play(scenario);
    assert_eq!(played.completed(), text);
    assert_eq!(played.streamed(), text);
    stage.requests(scenario, &[0]);
    stage.assert_untouched();
}

pub fn unicode(stage: &Stage) {
    let text = "Grüße, 世界! Привет — مرحبا 👩‍👩‍👧‍👦🇪🇺";
    assert_text(stage, "unicode", text);
}

pub fn crlf(stage: &Stage) {
    assert_text(stage, "crlf", "Two-byte line ends: ü");
}

pub fn split_bytes(stage: &Stage) {
    assert_text(stage, "split_bytes", "ä€😀 one byte at a time");
}

pub fn comments(stage: &Stage) {
    assert_text(stage, "comments", "Between the lines.");
}

/// Some Chat servers leave out the line that ends a stream.
pub fn missing_terminator(stage: &Stage) {
    assert_text(stage, "missing_terminator", "Complete, but impolite.");
}

pub fn slow(stage: &Stage) {
    assert_text(stage, "slow", "Slow but steady.");
}

pub fn unknown_everything(stage: &Stage) {
    let played = stage.play("unknown_everything");
    assert_eq!(played.completed(), "And it went well.");
    assert_eq!(played.tools().len(), 1);
    stage.requests("unknown_everything", &[0, 1]);
    stage.assert_untouched();
}

pub fn max_tokens(stage: &Stage) {
    let played = stage.play("max_tokens");
    played.failed(1, "output_limit_reached");
    assert_eq!(played.answer(), "This sentence has no");
    stage.requests("max_tokens", &[0]);
}

pub fn error_after_ok(stage: &Stage) {
    let played = stage.play("error_after_ok");
    played.failed(6, "provider_unavailable");
    assert_eq!(played.streamed(), "Some ");
    stage.requests("error_after_ok", &[0]);
}

pub fn error_before_content(stage: &Stage) {
    let played = stage.play("error_before_content");
    assert_eq!(played.completed(), "Recovered.");
    played.one("warning");
    stage.requests("error_before_content", &[0, 0]);
}

/// All words but no end: never taken for a complete answer.
pub fn truncate_at_end(stage: &Stage) {
    let played = stage.play("truncate_at_end");
    played.failed(6, "provider_unavailable");
    assert_eq!(played.answer(), "All words, no end.");
    stage.requests("truncate_at_end", &[0]);
}

pub fn unavailable(stage: &Stage) {
    let played = stage.play("unavailable");
    played.failed(6, "provider_unavailable");
    stage.requests("unavailable", &[0, 0]);
}

pub fn cr(stage: &Stage) {
    assert_text(stage, "cr", "One-byte line ends.");
}

pub fn many_deltas(stage: &Stage) {
    let text = ["The quick brown fox jumps over the lazy dog."; 6].join(" ");
    assert_text(stage, "many_deltas", &text);
}

pub fn huge_line(stage: &Stage) {
    let played = stage.play("huge_line");
    let answer = played.completed();
    assert!(answer.ends_with("The end."));
    assert_eq!(answer.len(), 4_000_000 + "The end.".len());
    stage.requests("huge_line", &[0]);
}

/// The call was whole when the answer was cut off: it is run.
pub fn max_tokens_after_call(stage: &Stage) {
    let played = stage.play("max_tokens_after_call");
    assert_eq!(played.completed(), "Going on.");
    assert_eq!(played.tools().len(), 1);
    stage.requests("max_tokens_after_call", &[0, 1]);
}

/// What the model said is kept, and that it declined is told.
pub fn refusal(stage: &Stage) {
    let played = stage.play("refusal");
    played.failed(1, "model_refused");
    assert_eq!(played.answer(), "I would rather not.");
    stage.requests("refusal", &[0]);
    stage.assert_untouched();
}

/// Nothing was said, and why not is told.
pub fn content_filter(stage: &Stage) {
    let played = stage.play("content_filter");
    played.failed(1, "model_refused");
    stage.requests("content_filter", &[0]);
}

/// A full window cuts the answer off: that is no end.
pub fn context_window(stage: &Stage) {
    let played = stage.play("context_window");
    played.failed(1, "context_overflow");
    assert_eq!(played.answer(), "No room for");
    stage.requests("context_window", &[0]);
}

/// The answer goes back as it was, and the model goes on.
pub fn pause(stage: &Stage) {
    let played = stage.play("pause");
    assert_eq!(played.completed(), "There we are.");
    assert_eq!(played.streamed(), "One moment.There we are.");
    let bodies = stage.requests("pause", &[0, 1]);
    let last = bodies[1]["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["role"], "assistant");
    assert_eq!(last["content"][1]["type"], "server_tool_use");
}

pub fn unknown_stop(stage: &Stage) {
    let played = stage.play("unknown_stop");
    assert_eq!(played.completed(), "Stopped by the tide.");
    let said = played.all("message_item");
    assert_eq!(said.last().unwrap()["message"]["stop_reason"], "high_tide");
    stage.requests("unknown_stop", &[0]);
}
