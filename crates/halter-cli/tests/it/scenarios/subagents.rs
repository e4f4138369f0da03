//! Children of a session, through the binary.

use super::stage::{KEY, Stage};
use serde_json::Value;

/// The model calls the tools without looking for them first.
const AT_HAND: &str = "[tools]\ndeferred = \"off\"\n";

pub fn subagent(stage: &Stage) {
    stage.configure(AT_HAND);
    let played = stage.play("subagent");
    played.expect(0);
    assert!(
        played.answer().contains("The child looked around."),
        "{}",
        played.answer()
    );
    let started = played.one("subagent_started");
    assert_eq!(started["subagent"]["state"], "running");
    let ended = played.one("subagent_ended");
    assert_eq!(ended["subagent"]["state"], "completed");
    assert_eq!(
        ended["subagent"]["last_message"],
        "The child looked around."
    );
    let asked = stage.asked();
    let of_child: Vec<_> = asked
        .iter()
        .filter(|(name, _)| name == "subagent_child")
        .collect();
    assert_eq!(of_child.len(), 2);
    // What the child found stays with the child.
    let (_, last) = asked.iter().rfind(|(name, _)| name == "subagent").unwrap();
    assert!(!last.to_string().contains("fixture.txt"), "{last}");
    stage.assert_untouched();
}

pub fn subagent_child(stage: &Stage) {
    let played = stage.play("subagent_child");
    assert_eq!(played.completed(), "The child looked around.");
    stage.requests("subagent_child", &[0, 1]);
}

/// A run ends when no child runs: the report of one that took longer than the
/// turn brings another turn.
pub fn subagent_background(stage: &Stage) {
    stage.configure(AT_HAND);
    let running = stage.play_until("subagent_background", "\"turn_completed\"");
    stage.open_gate("subagent_slow");
    let played = stage.ended(running);
    played.expect(0);
    let kinds: Vec<_> = played.events.iter().map(|it| &it["kind"]).collect();
    let place = |kind: &str| kinds.iter().position(|it| *it == kind).unwrap();
    assert!(place("subagent_started") < place("turn_completed"));
    assert!(place("turn_completed") < place("subagent_ended"));
    let ended = played.one("subagent_ended");
    assert_eq!(ended["subagent"]["state"], "completed");
    assert_eq!(played.all("turn_completed").len(), 2);
    assert_eq!(played.answer(), "The report is there.");
    // The model was told, once.
    let (name, last) = stage.asked().pop().unwrap();
    assert_eq!(name, "subagent_background");
    assert_eq!(last.to_string().matches("I took my time.").count(), 1);
    stage.assert_untouched();
}

pub fn subagent_slow(stage: &Stage) {
    let running = stage.play_until("subagent_slow", "\"I took \"");
    stage.open_gate("subagent_slow");
    assert_eq!(stage.ended(running).completed(), "I took my time.");
    stage.requests("subagent_slow", &[0]);
}

pub fn subagent_deep(stage: &Stage) {
    stage.configure(AT_HAND);
    let played = stage.play("subagent_deep");
    assert!(played.completed().contains("The child looked around."));
    let shown = stage.place.halter(["sessions", "show", &played.session()]);
    let text = &shown.expect(0).stdout;
    let tree: Vec<&str> = text.lines().skip_while(|it| *it != "subagents").collect();
    assert!(tree.len() >= 3, "{text}");
    let middle = "  agent_1 general completed  ses_";
    assert!(tree[1].starts_with(middle), "{text}");
    assert!(tree[1].contains("mock:subagent_middle go on"), "{text}");
    assert!(tree[2].starts_with(&format!("  {middle}")), "{text}");
    assert!(
        tree[2].contains("mock:subagent_child look around"),
        "{text}"
    );
    stage.assert_untouched();
}

pub fn subagent_middle(stage: &Stage) {
    stage.configure(AT_HAND);
    let played = stage.play("subagent_middle");
    assert!(played.completed().contains("The child looked around."));
    played.one("subagent_ended");
}

pub fn subagent_asks(stage: &Stage) {
    stage.configure(AT_HAND);
    let played = stage.play("subagent_asks");
    // Nobody is there to say yes.
    let denied = ("shell".to_owned(), "policy_denied".to_owned());
    assert_eq!(played.tools(), [denied.clone(), denied]);
    assert!(played.completed().contains("nobody can be asked"));
    stage.assert_untouched();
}

/// One file for a tree of sessions: what each does as it does it, and a header
/// before the first line of each.
pub fn one_trace(stage: &Stage) {
    let traces = stage.place.root().join("traces");
    stage.configure(&format!("{AT_HAND}[runtime]\ntraces_dir = {traces:?}\n"));
    let played = stage.play("subagent_deep");
    played.completed();
    let root = played.session();

    let files = std::fs::read_dir(&traces).unwrap();
    let files: Vec<_> = files.map(|it| it.unwrap().path()).collect();
    assert_eq!(files, [traces.join(format!("{root}.txt"))]);
    let text = std::fs::read_to_string(&files[0]).unwrap();
    assert!(!text.contains(KEY));
    let lines = text.lines().map(|it| serde_json::from_str(it).unwrap());
    let lines: Vec<Value> = lines.collect();
    let place = |wanted: &dyn Fn(&Value) -> bool| lines.iter().position(wanted).unwrap();

    assert_eq!(lines[0]["kind"], "trace_header");
    assert_eq!(lines[0]["session_id"], *root);
    let headers = lines.iter().filter(|it| it["kind"] == "subagent_header");
    let headers: Vec<&Value> = headers.collect();
    assert_eq!(headers.len(), 2, "{headers:?}");
    let (child, grandchild) = (&headers[0]["session_id"], &headers[1]["session_id"]);
    assert_eq!(headers[0]["parent_session_id"], *root);
    assert_eq!(headers[1]["parent_session_id"], *child);
    assert_eq!(headers[1]["blueprint"]["subagent"]["depth"], 2);

    for session in [&Value::from(root), child, grandchild] {
        let of_session = |it: &&Value| it["session_id"] == *session;
        let own: Vec<&Value> = lines.iter().filter(of_session).collect();
        assert!(own[0]["blueprint"].is_object(), "{:?}", own[0]);
        assert_eq!(own[1]["kind"], "pending_event");
        assert_eq!(own[1]["payload"]["kind"], "session_started");
        let committed = own.iter().filter(|it| it["kind"].is_null());
        let committed: Vec<&Value> = committed.map(|it| &it["payload"]["kind"]).collect();
        assert_eq!(committed[0], "session_started");
        assert_eq!(*committed.last().unwrap(), "session_shutdown_complete");
        assert!(committed.iter().any(|it| *it == "turn_completed"));
    }
    // They are written while the ones above them work.
    let done = |session: &Value| {
        let session = session.clone();
        place(&move |it| {
            let completed = it["payload"]["kind"] == "turn_completed";
            it["session_id"] == session && it["kind"].is_null() && completed
        })
    };
    let (last, middle) = (done(grandchild), done(child));
    assert!(last < middle && middle < done(&lines[0]["session_id"]));
}
