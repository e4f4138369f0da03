//! Children of a session, through the binary.

use super::stage::Stage;

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
