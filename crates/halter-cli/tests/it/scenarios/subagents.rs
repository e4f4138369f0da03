//! Children of a session, through the binary.

use super::stage::Stage;

pub fn subagent(stage: &Stage) {
    stage.configure("[tools]\ndeferred = \"off\"\n");
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
