//! How servers of Chat Completions differ.

use super::stage::{Played, Stage};

/// Two calls whose fragments come in an odd way, and what they run.
fn assert_both_ran(stage: &Stage, scenario: &str) {
    stage.place.write("a.txt", "a\n");
    let played = stage.play(scenario);
    assert_eq!(played.completed(), "Both ran.");
    let calls = played.all("tool_execution_started");
    let mut asked: Vec<_> = calls
        .iter()
        .map(|event| event["call"]["arguments"].to_string())
        .collect();
    asked.sort();
    assert_eq!(asked, [r#"{"path":"a.txt"}"#, r#"{"pattern":"*.rs"}"#]);
    let ok = |tool: &str| (tool.to_owned(), "ok".to_owned());
    assert_eq!(played.tools(), [ok("read"), ok("glob")]);
    stage.requests(scenario, &[0, 1]);
}

fn assert_says(stage: &Stage, scenario: &str, text: &str) -> Played {
    let played = stage.play(scenario);
    assert_eq!(played.completed(), text);
    stage.requests(scenario, &[0]);
    stage.assert_untouched();
    played
}

/// Thinking is told from text, wherever a server puts it.
fn assert_thinks(stage: &Stage, scenario: &str) {
    let played = assert_says(stage, scenario, "Seen.");
    let thoughts = played.all("thinking_delta");
    let thoughts = thoughts
        .iter()
        .filter_map(|event| event["delta"]["text"].as_str());
    assert_eq!(thoughts.collect::<String>(), "Let me see.");
}

/// The service refuses a call that comes back without its thought.
fn assert_thought_returns(stage: &Stage, scenario: &str, text: &str) {
    stage.place.write("a.txt", "a\n");
    let played = stage.play(scenario);
    assert_eq!(played.completed(), text);
    assert_eq!(played.tools().len(), 1);
    let bodies = stage.requests(scenario, &[0, 1]);
    assert!(bodies[1].to_string().contains("I should read the file."));
}

pub fn chat_missing_index(stage: &Stage) {
    assert_both_ran(stage, "chat_missing_index");
}

pub fn chat_repeated_id(stage: &Stage) {
    assert_both_ran(stage, "chat_repeated_id");
}

pub fn chat_empty_id(stage: &Stage) {
    assert_both_ran(stage, "chat_empty_id");
}

pub fn chat_whole_call(stage: &Stage) {
    assert_both_ran(stage, "chat_whole_call");
}

pub fn chat_split_name(stage: &Stage) {
    assert_both_ran(stage, "chat_split_name");
}

pub fn chat_arguments_object(stage: &Stage) {
    assert_both_ran(stage, "chat_arguments_object");
}

pub fn chat_shared_index(stage: &Stage) {
    assert_both_ran(stage, "chat_shared_index");
}

pub fn chat_stop_with_calls(stage: &Stage) {
    assert_both_ran(stage, "chat_stop_with_calls");
}

/// Empty arguments are an empty object, which this tool does not take.
pub fn chat_empty_arguments(stage: &Stage) {
    stage.configure("[tools]\ndeferred = \"off\"\n");
    let played = stage.play("chat_empty_arguments");
    assert_eq!(played.completed(), "It ran.");
    let refused = ("task".to_owned(), "invalid_arguments".to_owned());
    assert_eq!(played.tools(), [refused]);
    stage.requests("chat_empty_arguments", &[0, 1]);
}

pub fn chat_usage_on_choice(stage: &Stage) {
    let played = assert_says(stage, "chat_usage_on_choice", "Counted early.");
    let usage = &played.one("turn_completed")["usage"]["buckets"];
    assert_eq!(usage["uncached_input"], 12, "{usage}");
    assert_eq!(usage["cache_read"], 3, "{usage}");
    assert_eq!(usage["output"], 4, "{usage}");
}

pub fn chat_no_usage(stage: &Stage) {
    let played = assert_says(stage, "chat_no_usage", "Who counts?");
    assert_eq!(played.one("turn_completed")["usage"]["input_tokens"], 0);
}

pub fn chat_missing_done(stage: &Stage) {
    assert_says(stage, "chat_missing_done", "Done without saying so.");
}

pub fn chat_processing_comments(stage: &Stage) {
    assert_says(stage, "chat_processing_comments", "Processed.");
}

pub fn chat_reasoning(stage: &Stage) {
    assert_thinks(stage, "chat_reasoning");
}

pub fn chat_reasoning_text(stage: &Stage) {
    assert_thinks(stage, "chat_reasoning_text");
}

/// Only some servers leave the tags in the text.
pub fn chat_think_tags(stage: &Stage) {
    stage.configure("dialect = \"lmstudio\"\n");
    assert_thinks(stage, "chat_think_tags");
}

pub fn chat_reasoning_content(stage: &Stage) {
    assert_thought_returns(stage, "chat_reasoning_content", "Echoed.");
}

pub fn chat_reasoning_details(stage: &Stage) {
    assert_thought_returns(stage, "chat_reasoning_details", "Returned.");
}

pub fn chat_error_chunk(stage: &Stage) {
    let played = stage.play("chat_error_chunk");
    played.failed(6, "provider_unavailable");
    assert_eq!(played.streamed(), "Some ");
    stage.requests("chat_error_chunk", &[0]);
}
