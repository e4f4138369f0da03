//! Resources and hooks that change while a chat is open.

use crate::place::{Place, eventually};
use crate::screen::Screen;

const ENTER: &str = "\r";

fn guard(place: &Place, line: &str) {
    let directory = place.home().join(".config/halter");
    std::fs::create_dir_all(&directory).unwrap();
    let file = serde_json::json!({"hooks": {"UserPromptSubmit": [
        {"hooks": [{"type": "command", "command": line}]}]}});
    // In one step, so that no half of it is read.
    let new = directory.join("hooks.new");
    std::fs::write(&new, file.to_string()).unwrap();
    std::fs::rename(new, directory.join("hooks.json")).unwrap();
}

/// Says something until the answer shows that what changed is in force.
fn until(screen: &mut Screen, prompt: &mut usize, text: &str, part: &str) {
    eventually(part, || {
        screen.wait_for_prompt(*prompt);
        screen.send(text);
        screen.send(ENTER);
        *prompt += 1;
        screen.wait_for_prompt(*prompt);
        screen.shown().contains(part).then_some(())
    });
}

#[test]
fn a_chat_takes_up_a_first_skill_and_a_changed_hook() {
    let place = Place::new();
    let config = "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
                  [resources]\nwatch = true\n";
    place.write("watch.toml", config);
    guard(&place, "true");
    let mut screen = Screen::open(&place, &["--config", "watch.toml", "chat"]);
    let mut prompt = 1;
    screen.wait_for_prompt(prompt);
    // There was no such folder when the chat began.
    place.write(
        ".claude/skills/zebra/SKILL.md",
        "---\nname: zebra\ndescription: Came late.\n---\nL.\n",
    );
    until(&mut screen, &mut prompt, "hello", "zebra");
    guard(&place, "echo no more of this >&2; exit 2");
    until(&mut screen, &mut prompt, "hello", "no more of this");
    screen.send("/exit");
    screen.send(ENTER);
    assert_eq!(screen.end().0.code(), Some(0));
}
