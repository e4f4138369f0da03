//! Commands and files that the texts of skills and commands mark, through the
//! whole binary: run by the model's call of `skill`, and by what a user types.

use crate::place::{Place, Ran};
use crate::tool_turn::tool_turn;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A file of the user: what it says counts without further trust.
fn own(place: &Place, name: &str, text: &str) {
    let path = place.home().join(".config/halter").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn skill(place: &Place, name: &str, keys: &str, body: &str) {
    let text = format!("---\nname: {name}\ndescription: Does it.\n{keys}---\n{body}\n");
    own(place, &format!("skills/{name}/SKILL.md"), &text);
}

const ALLOWED: &str =
    "[policy.shell]\nallow = [\"echo\", \"cat\", \"sleep\", \"head\", \"sh\", \"ls\"]\n";

/// What a model is told after it has used a skill.
#[track_caller]
fn used(place: &Place, settings: &str, input: &Value) -> String {
    tool_turn(place, settings, "skill", input).told
}

/// All messages of a run that a user starts with a line.
fn typed(place: &Place, settings: &str, line: &str) -> (Ran, String) {
    own(place, "halter.toml", &format!("version = 1\n{settings}"));
    let ran = place.halter(["run", "--streaming-json", line]);
    let said = ran.lines().into_iter().filter(|event| {
        let kind = event["payload"]["kind"].as_str().unwrap_or_default();
        matches!(
            kind,
            "message_added" | "message" | "user_message" | "system_message"
        ) || !event["payload"]["message"].is_null()
    });
    let said = said.map(|event| event["payload"].to_string());
    let said = said.collect::<Vec<_>>().join("\n");
    (ran, said)
}

#[test]
fn a_skills_commands_run_when_a_model_uses_it() {
    let place = Place::new();
    let body = "Here: !`echo one $0`.\n```!\necho two\ncat absent.txt\n```\nEnd.";
    skill(&place, "look", "", body);
    let told = used(
        &place,
        ALLOWED,
        &json!({"skill": "look", "args": "'a; touch x'"}),
    );
    assert!(told.contains("Here: one a; touch x.\\n"), "{told}");
    assert!(
        told.contains("two\\n[failed with exit status 1]\\ncat: absent.txt: "),
        "{told}"
    );
    assert!(!place.work().join("x").exists());
}

#[test]
fn a_command_that_is_refused_or_not_approved_stops_the_call() {
    let place = Place::new();
    skill(&place, "make", "", "Made: !`touch made.txt`");
    // Nobody is there to be asked.
    let told = used(&place, "", &json!({"skill": "make"}));
    assert!(!place.work().join("made.txt").exists());
    assert!(!told.contains("The skill 'make' is in use"), "{told}");
    let denied = "[permissions]\ndeny = [\"Bash(touch *)\"]\n";
    let told = used(&place, denied, &json!({"skill": "make"}));
    assert!(told.contains("touch"), "{told}");
    assert!(!place.work().join("made.txt").exists());
    // What it says itself that it needs is not asked about.
    skill(
        &place,
        "make",
        "allowed-tools: Bash(touch made.txt)\n",
        "Made: !`touch made.txt`",
    );
    let told = used(&place, "", &json!({"skill": "make"}));
    assert!(told.contains("Made: "), "{told}");
    assert!(place.work().join("made.txt").exists());
    std::fs::remove_file(place.work().join("made.txt")).unwrap();
    used(&place, denied, &json!({"skill": "make"}));
    assert!(
        !place.work().join("made.txt").exists(),
        "a rule that denies wins"
    );
}

#[test]
fn commands_that_flood_or_hang_are_bounded() {
    let place = Place::new();
    let body = "A !`head -c 3000000 /dev/zero` B !`sleep 600` C !`echo last`";
    skill(&place, "bad", "", body);
    let settings = format!("{ALLOWED}timeout_secs = 1\n");
    let started = Instant::now();
    let told = used(&place, &settings, &json!({"skill": "bad"}));
    assert!(started.elapsed() < Duration::from_secs(50));
    assert!(told.contains("[cut after"), "{}", told.len());
    assert!(told.len() < 200_000, "{}", told.len());
    assert!(
        told.contains("B [stopped: it took too long] C last"),
        "{told}"
    );
}

#[test]
fn a_user_starts_a_skill_and_a_command_and_their_commands_run() {
    let place = Place::new();
    place.write("notes.txt", "at noon\n");
    skill(&place, "look", "", "Here: !`echo one $ARGUMENTS`.");
    own(
        &place,
        "commands/fix.md",
        "Now: !`echo two $0`, see @notes.txt and @absent.txt and $ARGUMENTS.",
    );
    let (ran, said) = typed(&place, ALLOWED, "/look '; touch x'");
    assert!(
        said.contains("Here: one ; touch x."),
        "{said}\n{}",
        ran.stderr
    );
    let (ran, said) = typed(&place, ALLOWED, "/fix !`echo@notes.txt` @notes.txt");
    for part in [
        "/fix !`echo@notes.txt`",
        "Now: two !`echo@notes.txt`, see @notes.txt and @absent.txt and ",
        "<file path=\\\"notes.txt\\\">\\nat noon\\n</file>",
    ] {
        assert!(said.contains(part), "no {part} in {said}\n{}", ran.stderr);
    }
    assert_eq!(said.matches("<file path").count(), 1, "{said}");
    assert!(!place.work().join("x").exists());
    for (settings, part) in [
        (
            "",
            "`touch made.txt` (not run: it has to be approved, rule ",
        ),
        (
            "[permissions]\ndeny = [\"Bash(touch *)\"]\n",
            "`touch made.txt` (not run: refused by rule ",
        ),
        (
            "[permissions]\nmode = \"read_only\"\n",
            "`touch made.txt` (not run: ",
        ),
    ] {
        own(&place, "commands/make.md", "Made: !`touch made.txt`");
        let (ran, said) = typed(&place, settings, "/make");
        assert!(said.contains(part), "no {part} in {said}\n{}", ran.stderr);
        assert!(!place.work().join("made.txt").exists());
    }
    // A hook that looks at commands is not passed by.
    let hook = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
        {"type": "command", "command": "exit 2"}]}]}});
    own(&place, "hooks.json", &hook.to_string());
    let (_, said) = typed(&place, ALLOWED, "/look at");
    assert!(
        said.contains("`echo one at` (not run: hooks want to see"),
        "{said}"
    );
}

#[test]
fn a_project_runs_no_command_of_a_text_until_it_is_trusted() {
    let place = Place::new();
    let file = ".claude/commands/look.md";
    place.write(file, "Here: !`echo from the project`");
    let (ran, said) = typed(&place, ALLOWED, "/look");
    assert!(
        said.contains("`echo from the project` (not run yet"),
        "{said}"
    );
    assert!(ran.stderr.contains("not trusted"), "{}", ran.stderr);
    let listed = place.halter(["resources", "--json"]).expect(0).json();
    let warnings = listed["warnings"].to_string();
    assert!(
        warnings.contains("its text names can run programs"),
        "{warnings}"
    );
    place.halter(["trust", "--yes", file]).expect(0);
    let (_, said) = typed(&place, ALLOWED, "/look");
    assert!(said.contains("Here: from the project"), "{said}");
    place.write(file, "Here: !`echo changed`");
    let (_, said) = typed(&place, ALLOWED, "/look");
    assert!(said.contains("`echo changed` (not run yet"), "{said}");
}
