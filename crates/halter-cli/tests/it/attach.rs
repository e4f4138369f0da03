//! Files that go with a message.

use crate::place::Place;
use crate::screen::Screen;
use halter_testkit::png;
use serde_json::Value;

const ENTER: &str = "\r";
const CTRL_D: &str = "\x04";

fn picture(place: &Place) {
    std::fs::write(place.work().join("picture.png"), png(64, 48)).unwrap();
}

fn attached(place: &Place, file: &str) -> (String, Value) {
    let ran = place.halter(["run", "--json-result", "--attach", file, "look"]);
    let error = ran.expect(2).json()["error"].clone();
    assert_eq!(error["code"], "usage");
    let message = error["message"].as_str().unwrap().to_owned();
    (message, error["hint"].clone())
}

#[test]
fn a_file_that_cannot_be_sent_is_refused_before_anything_happens() {
    let place = Place::new();
    std::fs::write(place.work().join("a.zip"), b"PK\x03\x04\0\0").unwrap();
    std::fs::write(place.work().join("wide.png"), png(9_000, 1)).unwrap();
    std::fs::write(place.work().join("long.txt"), "x".repeat(2 << 20)).unwrap();
    for (file, why) in [
        ("missing.png", "No such file"),
        (
            "a.zip",
            "it is no image (PNG, JPEG, GIF, WebP), PDF or UTF-8 text",
        ),
        ("wide.png", "it has 9000x1 pixels"),
        ("long.txt", "more than 1048576 bytes"),
        (".", "could not attach ."),
    ] {
        let (message, hint) = attached(&place, file);
        assert!(message.contains(file) && message.contains(why), "{message}");
        assert!(hint.is_string(), "{message}");
    }
    assert!(!place.database().exists(), "no session was made");
}

#[test]
fn a_file_from_anywhere_is_the_users_own_choice() {
    let place = Place::new();
    let outside = place.root().join("outside.png");
    std::fs::write(&outside, png(2, 2)).unwrap();
    let outside = outside.to_str().unwrap();
    let ran = place.halter(["run", "--streaming-json", "--attach", outside, "hello"]);
    let events = ran.expect(0).lines();
    let said = events
        .iter()
        .find(|event| event["payload"]["message"]["role"] == "user");
    let parts = &said.unwrap()["payload"]["message"]["parts"];
    assert_eq!(parts[2]["media_type"], "image/png");
}

#[test]
fn a_tool_call_prints_an_image_for_programs() {
    let place = Place::new();
    picture(&place);
    let ran = place.halter(["tools", "call", "read", r#"{"path":"picture.png"}"#]);
    let parts = ran.expect(0).json();
    assert_eq!(parts[0]["kind"], "text");
    assert_eq!(parts[1]["media_type"], "image/png");
    assert!(
        parts[1]["data"]
            .as_str()
            .unwrap()
            .starts_with("iVBORw0KGgo")
    );
}

#[test]
fn a_terminal_shows_no_bytes_of_an_image() {
    let place = Place::new();
    picture(&place);
    let call = ["tools", "call", "read", r#"{"path":"picture.png"}"#];
    let (status, shown) = Screen::open(&place, &call).end();
    assert_eq!(status.code(), Some(0));
    assert!(shown.contains("\"bytes\""), "{shown:?}");
    assert!(!shown.contains("iVBORw0KGgo"), "{shown:?}");
    let (status, shown) = Screen::open(&place, &["run", "read picture.png"]).end();
    assert_eq!(status.code(), Some(0));
    assert!(
        shown.contains("read picture.png [image/png, 3 KiB]"),
        "{shown:?}"
    );
    assert!(!shown.contains("iVBORw0KGgo"), "{shown:?}");
}

#[test]
fn a_chat_attaches_files_to_the_next_message_only() {
    let place = Place::new();
    picture(&place);
    place.write("plan.md", "# plan\n");
    let mut screen = Screen::open(&place, &["chat", "--attach", "plan.md"]);
    screen.wait_for("with the next message: plan.md [text/markdown, 7 bytes]");
    screen.wait_for_prompt(1);
    for (number, line, answer) in [
        (2, "/detach", "nothing is attached"),
        (3, "/attach missing.png", "could not attach missing.png"),
        (4, "/attach 'picture.png'", "picture.png [image/png, 3 KiB]"),
        (5, "hello", "offline model"),
        (6, "/attach", "nothing is attached"),
    ] {
        screen.send(line);
        screen.send(ENTER);
        screen.wait_for(answer);
        screen.wait_for_prompt(number);
    }
    screen.send(CTRL_D);
    assert_eq!(screen.end().0.code(), Some(0));

    let listed = place.halter(["sessions", "list", "--json"]).json();
    let session = listed["sessions"][0]["session_id"].as_str().unwrap();
    let told = place.halter(["sessions", "show", session]);
    let told = &told.expect(0).stdout;
    assert!(told.contains("> [image/png, 3 KiB]"), "{told}");
    assert!(!told.contains("plan.md"), "{told}");
}
