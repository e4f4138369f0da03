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
