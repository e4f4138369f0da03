//! Hook files in a turn with a model.

use super::stage::Stage;
use serde_json::{Value, json};

/// The user's hook file, with one handler of PreToolUse.
fn guard(stage: &Stage, matcher: &str, command: &str) {
    let handler = json!({"type": "command", "command": command});
    let file = json!({"hooks": {"PreToolUse": [{"matcher": matcher, "hooks": [handler]}]}});
    let directory = stage.place.home().join(".config/halter");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("hooks.json"), file.to_string()).unwrap();
}

fn answer(fields: Value) -> String {
    let output = json!({"hookSpecificOutput": fields});
    format!("cat > /dev/null; echo '{output}'")
}

fn runs(played: &super::stage::Played) -> Vec<(String, String)> {
    let runs = played.all("hook_completed");
    let text = |run: &Value, field: &str| run["run"][field].as_str().unwrap().to_owned();
    let run = |run: &&Value| (text(run, "handler_type"), text(run, "status"));
    runs.iter().map(run).collect()
}

fn ended(status: &str) -> Vec<(String, String)> {
    vec![("command".to_owned(), status.to_owned())]
}

pub fn hook_allows(stage: &Stage) {
    guard(
        stage,
        "Read",
        &answer(json!({"permissionDecision": "allow"})),
    );
    let played = stage.play("hook_allows");
    let answer = played.completed();
    assert!(answer.contains("parity is kept"), "{answer}");
    assert_eq!(played.tools(), [("read".to_owned(), "ok".to_owned())]);
    assert_eq!(runs(&played), ended("completed"));
    assert_eq!(played.all("hook_started").len(), 1);
    stage.requests("hook_allows", &[0, 1]);
}

pub fn hook_blocks(stage: &Stage) {
    guard(
        stage,
        "Edit|Write",
        "echo 'nothing is written today' >&2; exit 2",
    );
    let played = stage.play("hook_blocks");
    let answer = played.completed();
    assert!(answer.contains("nothing is written today"), "{answer}");
    assert_eq!(
        played.tools(),
        [("write".to_owned(), "hook_blocked".to_owned())]
    );
    assert!(played.all("tool_execution_started").is_empty());
    assert_eq!(runs(&played), ended("blocked"));
    stage.requests("hook_blocks", &[0, 1]);
    stage.assert_untouched();
}

pub fn hook_rewrites(stage: &Stage) {
    // A public file: the hook is told `file_path`, and answers with it.
    let rewrite = "python3 -c '
import json, sys
data = json.load(sys.stdin)
assert data[\"tool_name\"] == \"Write\", data
data[\"tool_input\"][\"content\"] = \"after the hook\\n\"
print(json.dumps({\"hookSpecificOutput\": {\"hookEventName\": \"PreToolUse\",
                  \"updatedInput\": data[\"tool_input\"]}}))'";
    guard(stage, "Write", rewrite);
    let played = stage.play("hook_rewrites");
    played.completed();
    assert_eq!(played.tools(), [("write".to_owned(), "ok".to_owned())]);
    let call = &played.one("tool_execution_started")["call"];
    let expected = json!({"path": "hooked.txt", "content": "after the hook\n"});
    assert_eq!(call["arguments"], expected);
    assert_eq!(stage.read("hooked.txt"), "after the hook\n");
    stage.requests("hook_rewrites", &[0, 1]);
}
