//! Conversations that become too long for the model.

use super::stage::{Played, Stage};
use serde_json::Value;

/// A file whose content is no small part of a conversation.
fn long_file(stage: &Stage) {
    let lines: String = (0..1_500).map(|line| format!("line {line}\n")).collect();
    stage.place.write("long.txt", &lines);
}

fn go_on(stage: &Stage, session: &str, prompt: &str) -> Played {
    let mut arguments = stage.arguments("", "--streaming-json", &["--session", session]);
    arguments.pop();
    arguments.push(prompt.to_owned());
    Played::new(stage.place.halter(arguments))
}

pub fn auto_compact_triggered(stage: &Stage) {
    long_file(stage);
    let first = stage.play("read_file_roundtrip path=long.txt");
    first.expect(0);
    let session = first.session();
    let played = go_on(stage, &session, "please mock:auto_compact_triggered");
    assert_eq!(played.completed(), "Finished after compaction.");
    let compacted = played.one("context_compacted");
    assert_eq!(compacted["reason"], "threshold");
    assert_eq!(compacted["tier"], "summary");
    assert!(compacted["tokens_before"].as_u64().unwrap() > 990_000);
    assert_eq!(played.one("cache_break")["reason"], "context_compacted");
    let asked = stage.asked();
    let scenarios: Vec<&str> = asked
        .iter()
        .map(|(scenario, _)| scenario.as_str())
        .collect();
    assert_eq!(
        scenarios,
        [
            "read_file_roundtrip",
            "read_file_roundtrip",
            "auto_compact_triggered",
            "compaction_summary",
            "auto_compact_triggered"
        ]
    );
    let bodies: Vec<String> = asked.iter().map(|(_, body)| body.to_string()).collect();
    assert!(bodies[2].contains("line 400"));
    assert!(!bodies[4].contains("line 400"), "{}", bodies[4]);
    assert!(bodies[4].contains("blob:"), "{}", bodies[4]);
}

/// A session of two turns, and a third for which its context is too large.
fn summarised(stage: &Stage) -> (Played, Vec<(String, Value)>) {
    long_file(stage);
    let first = stage.play("read_file_roundtrip path=long.txt");
    first.expect(0);
    stage.configure("[context]\ncompaction_threshold = 1000\n");
    let played = go_on(stage, &first.session(), "go on, please");
    (played, stage.asked())
}

pub fn compaction_summary(stage: &Stage) {
    let (played, asked) = summarised(stage);
    let compacted = played.one("context_compacted");
    assert_eq!(compacted["tier"], "summary");
    assert_eq!(compacted["usage"]["output_tokens"], 40);
    let (scenario, body) = &asked[2];
    assert_eq!(scenario, "compaction_summary");
    let body = body.to_string();
    assert!(body.contains("Summarize the conversation below"), "{body}");
    assert!(body.contains("call: read"), "{body}");
    assert!(!body.contains("\"tools\""), "no tools are offered: {body}");
}

pub fn after_compaction(stage: &Stage) {
    let (played, asked) = summarised(stage);
    assert_eq!(played.completed(), "Going on from the summary.");
    let (scenario, body) = &asked[3];
    assert_eq!(scenario, "after_compaction");
    let body = body.to_string();
    assert!(body.contains("the user wants the work finished"), "{body}");
    assert!(body.contains("go on, please"), "{body}");
    assert!(!body.contains("line 400"), "{body}");
}

pub fn context_overflow(stage: &Stage) {
    let prompt = format!(
        "please mock:context_overflow {}",
        "some words ".repeat(1_300)
    );
    let first = stage.play("context_overflow");
    let session = first.session();
    let mut compacted = 0;
    for _ in 0..6 {
        let played = go_on(stage, &session, &prompt);
        assert_eq!(played.completed(), "It fits.");
        for event in played.all("context_compacted") {
            assert_eq!(event["reason"], "overflow");
            compacted += 1;
        }
    }
    assert!((1..=3).contains(&compacted), "{compacted}");
}
