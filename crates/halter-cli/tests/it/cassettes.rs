//! Model traffic recorded with the whole binary, and played back without a
//! service.

use crate::place::{Place, finish};
use crate::scenarios::stage::{KEY, Played, Stage, WIRES};
use crate::screen::Screen;
use halter_testkit::png;
use serde_json::Value;
use std::path::PathBuf;

/// The events without what is new in every session.
fn told(played: &Played) -> Vec<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for name in ["id", "turn_id", "created_at", "duration_ms"] {
                    members.remove(name);
                }
                members.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut events = played.events.clone();
    // How a text is cut into pieces follows the network, and so does whether a
    // tool that changes nothing starts before the whole answer is there.
    events.retain(|event| {
        let kind = event["kind"].as_str().unwrap();
        !["delta_item", "thinking_delta", "tool_output"].contains(&kind)
    });
    events.iter_mut().for_each(strip);
    events.sort_by_key(|event| {
        let kind = event["kind"].as_str().unwrap();
        kind.starts_with("tool_execution")
    });
    events
}

fn tape(stage: &Stage) -> PathBuf {
    stage.place.root().join("tape.jsonl")
}

fn without_key(mut arguments: Vec<String>, place: &Place) -> Vec<String> {
    let config = place.root().join("service.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let kept = text.lines().filter(|line| !line.starts_with("api_key"));
    std::fs::write(
        &config,
        kept.map(|line| format!("{line}\n")).collect::<String>(),
    )
    .unwrap();
    for argument in &mut arguments {
        if argument == "--record" {
            *argument = "--replay".to_owned();
        }
    }
    arguments
}

/// Two steps with a tool between them, on every wire; the replay has neither
/// the service nor the key.
#[test]
fn what_was_recorded_plays_without_the_service_and_its_key() {
    for wire in WIRES {
        let stage = Stage::new(wire);
        let tape = tape(&stage);
        let record = ["--record", tape.to_str().unwrap()];
        let recorded = stage.play_with("thinking_tool", &record);
        assert_eq!(recorded.completed(), "Both steps are done.");
        let arguments = stage.arguments("thinking_tool", "--streaming-json", &record);
        let place = stage.close();

        let text = std::fs::read_to_string(&tape).unwrap();
        assert!(!text.contains(KEY), "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");

        let arguments = without_key(arguments, &place);
        let played = Played::new(place.halter(&arguments));
        assert_eq!(told(&played), told(&recorded));
        assert_eq!(played.streamed(), recorded.streamed());
        assert_eq!(played.tools(), recorded.tools());
    }
}

/// A picture that a tool returned is part of what must match.
#[test]
fn a_recorded_picture_plays_back_and_another_one_does_not() {
    let stage = Stage::new(&WIRES[0]);
    let picture = stage.place.work().join("picture.png");
    std::fs::write(&picture, png(64, 48)).unwrap();
    let tape = tape(&stage);
    let record = ["--record", tape.to_str().unwrap()];
    let recorded = stage.play_with("image_result", &record);
    assert_eq!(recorded.completed(), "I see 1 images.");
    let arguments = stage.arguments("image_result", "--streaming-json", &record);
    let place = stage.close();

    let arguments = without_key(arguments, &place);
    let played = Played::new(place.halter(&arguments));
    assert_eq!(told(&played), told(&recorded));
    std::fs::write(&picture, png(48, 64)).unwrap();
    Played::new(place.halter(&arguments)).failed(1, "provider_failed");
}

#[test]
fn another_prompt_fails_and_the_first_difference_is_named() {
    for wire in WIRES {
        let stage = Stage::new(wire);
        let tape = tape(&stage);
        let record = ["--record", tape.to_str().unwrap()];
        stage.play_with("streaming_text", &record).completed();
        let mut arguments = stage.arguments("streaming_text", "--streaming-json", &record);
        let place = stage.close();
        *arguments.last_mut().unwrap() = "please mock:streaming_texts".to_owned();
        let ran = place.halter(without_key(arguments, &place));
        ran.expect(1);
        let said = &ran.stderr;
        assert!(said.contains("has no answer to this request"), "{said}");
        assert!(
            said.contains("the first difference to exchange 1 of 1"),
            "{said}"
        );
        assert!(said.contains("mock:streaming_texts"), "{said}");
        Played::new(ran).failed(1, "provider_failed");
    }
}

/// A key in the prompt, in a file that a tool reads and in a header.
#[test]
fn a_planted_key_is_nowhere_in_the_file() {
    const PLANTED: &str = "sk-planted-0123456789abcdef";
    let stage = Stage::new(&WIRES[0]);
    stage
        .place
        .write("fixture.txt", &format!("parity is kept {PLANTED} {KEY}\n"));
    stage.configure(&format!(
        "[providers.anthropic.headers]\nX-Team = \"{PLANTED}\"\n"
    ));
    let tape = tape(&stage);
    let record = ["--record", tape.to_str().unwrap()];
    let mut arguments = stage.arguments("read_file_roundtrip", "--streaming-json", &record);
    let task = format!("please mock:read_file_roundtrip with {PLANTED} and {KEY}");
    *arguments.last_mut().unwrap() = task;
    stage.place.halter(&arguments).expect(0);
    let text = std::fs::read_to_string(&tape).unwrap();
    assert!(text.contains("parity is kept"), "{text}");
    for secret in [PLANTED, KEY, "Bearer"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    stage.close();
}

#[test]
fn the_variables_do_what_the_flags_do() {
    let stage = Stage::new(&WIRES[1]);
    let tape = tape(&stage);
    let arguments = stage.arguments("streaming_text", "--streaming-json", &[]);
    let run = |place: &Place, variable: &str| {
        let mut command = place.command(&arguments);
        finish(command.env(variable, &tape).spawn().unwrap())
    };
    run(&stage.place, "HALTER_RECORD").expect(0);
    let place = stage.close();
    run(&place, "HALTER_REPLAY").expect(0);
    run(&place, "HALTER_REPLAY").expect(0);
}

/// Two turns of one conversation at a terminal.
#[test]
fn a_chat_is_recorded_and_plays_without_the_service() {
    let stage = Stage::new(&WIRES[0]);
    let tape = tape(&stage);
    let config = stage.place.root().join("service.toml");
    let mut arguments: Vec<String> = ["--config", config.to_str().unwrap(), "chat"]
        .iter()
        .chain(&["--record", tape.to_str().unwrap()])
        .map(|&argument| argument.to_owned())
        .collect();
    let chat = |place: &Place, arguments: &[String]| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut screen = Screen::open(place, &arguments);
        for turn in 1..=2 {
            screen.wait_for_prompt(turn);
            screen.send("please mock:streaming_text\r");
            screen.wait_for_times("Mock streaming says hello.", turn);
        }
        screen.wait_for_prompt(3);
        screen.send("\x04");
        let (status, shown) = screen.end();
        assert_eq!(status.code(), Some(0), "{shown}");
        assert!(!shown.contains(KEY), "{shown}");
    };
    chat(&stage.place, &arguments);
    let place = stage.close();
    let text = std::fs::read_to_string(&tape).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(!text.contains(KEY), "{text}");
    arguments = without_key(arguments, &place);
    chat(&place, &arguments);
}

/// A mistake costs no recording: neither a repeated command nor a failing one.
#[test]
fn a_recording_is_replaced_only_with_force_and_only_by_a_success() {
    let stage = Stage::new(&WIRES[0]);
    let tape = tape(&stage);
    let record = ["--record", tape.to_str().unwrap()];
    let force = [&record[..], &["--force"]].concat();
    stage.play_with("streaming_text", &record).completed();
    let text = || std::fs::read_to_string(&tape).unwrap();
    let first = text();

    let refused = stage.print("streaming_text", "--json-result", &record);
    refused.expect(2);
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "cassette_exists");
    assert!(error["hint"].as_str().unwrap().contains("--force"));
    assert_eq!(text(), first);

    let failed = stage.play_with("unauthorized", &force);
    failed.failed(4, "provider_authentication");
    assert_eq!(text(), first);

    stage.play_with("thinking_tool", &force).completed();
    assert_ne!(text(), first);
    let mut left: Vec<_> = std::fs::read_dir(stage.place.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["home", "service.toml", "tape.jsonl", "work"]);
    stage.close();
}

/// A tool reads a file, and its result names the directory.
#[test]
fn a_recording_plays_in_any_directory_without_a_key_or_a_model() {
    for wire in WIRES {
        let stage = Stage::new(wire);
        stage.configure("");
        let tape = tape(&stage);
        let record = ["--record", tape.to_str().unwrap()];
        let recorded = stage.play_with("read_file_roundtrip", &record);
        recorded.completed();
        let _place = stage.close();

        let elsewhere = Place::new();
        elsewhere.write("fixture.txt", "parity is kept\n");
        std::fs::create_dir(elsewhere.work().join(".git")).unwrap();
        elsewhere.write(".git/HEAD", "ref: refs/heads/main\n");
        let arguments = [
            "run",
            "--streaming-json",
            "--replay",
            tape.to_str().unwrap(),
        ];
        let mut command = elsewhere.command(arguments);
        command.arg("please mock:read_file_roundtrip");
        let played = Played::new(finish(command.spawn().unwrap()));
        assert_eq!(played.completed(), recorded.completed());
        assert_eq!(played.tools(), recorded.tools());
    }
}

#[test]
fn what_cannot_be_recorded_or_played_is_said() {
    let place = Place::new();
    for (arguments, code) in [
        (["--record", "/no/such/directory/x"], "cassette_write"),
        (["--replay", "missing.jsonl"], "cassette_read"),
    ] {
        let mut all = vec!["run", "--model", "ollama/x", "hello"];
        all.extend(arguments);
        let ran = place.halter(all);
        ran.expect(2);
        assert_eq!(ran.json()["error"]["code"], code);
    }
    // Nobody named a model, so the offline one would answer in silence.
    let ran = place.halter(["run", "--record", "tape.jsonl", "hello"]);
    ran.expect(2);
    let error = &ran.json()["error"];
    assert_eq!(error["code"], "cassette_without_service");
    assert!(
        error["hint"].as_str().unwrap().contains("name the model"),
        "{error}"
    );
    let both = place.halter(["run", "--record", "a", "--replay", "b", "hello"]);
    both.expect(2);
    assert!(both.stderr.contains("--replay"), "{}", both.stderr);
}
