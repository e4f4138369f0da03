//! A context that fills up, as a user sees it.

use crate::place::Place;
use crate::screen::Screen;

const ENTER: &str = "\r";

/// The offline model with a window that a few answers fill.
fn small_window(place: &Place) {
    place.write(
        "small.toml",
        "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
         max_input_tokens = 10000\n[sessions]\nbackend = \"sqlite\"\n",
    );
    let lines: String = (0..900).map(|line| format!("the line {line}\n")).collect();
    place.write("long.txt", &lines);
}

#[test]
fn a_user_sees_what_was_cut_and_what_fills_the_context() {
    let place = Place::new();
    small_window(&place);
    let mut screen = Screen::open(&place, &["--config", "small.toml", "chat"]);
    let say = |screen: &mut Screen, prompt: usize, text: &str| {
        screen.wait_for_prompt(prompt);
        screen.send(text);
        screen.send(ENTER);
    };
    for prompt in 1..=4 {
        say(&mut screen, prompt, "read long.txt");
    }
    screen.wait_for("context compacted,");
    say(&mut screen, 5, "/context");
    screen.wait_for("compacted at");
    screen.wait_for("tool results");
    screen.wait_for("free");
    say(&mut screen, 6, "/compact the numbers");
    screen.wait_for_prompt(7);
    say(&mut screen, 7, "/exit");
    let (status, shown) = screen.end();
    assert_eq!(status.code(), Some(0), "{shown}");
    assert!(shown.contains('█') && shown.contains('░'), "{shown}");

    let listed = place.halter(["--config", "small.toml", "sessions", "list", "--json"]);
    let id = listed.expect(0).json()["sessions"][0]["session_id"].clone();
    let id = id.as_str().unwrap();
    let ran = place.halter(["--config", "small.toml", "sessions", "context", id]);
    assert!(
        ran.expect(0).stdout.contains("of 10.0k tokens"),
        "{}",
        ran.stdout
    );
    let ran = place.halter([
        "--config",
        "small.toml",
        "sessions",
        "context",
        id,
        "--json",
    ]);
    let report = ran.expect(0).json();
    assert_eq!(report["window"], 10_000);
    assert!(report["tokens"].as_u64().unwrap() > 0);
    let ran = place.halter(["--config", "small.toml", "sessions", "show", id]);
    assert!(
        ran.expect(0).stdout.contains("[context compacted,"),
        "{}",
        ran.stdout
    );
}
