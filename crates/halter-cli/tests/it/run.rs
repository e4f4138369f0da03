use crate::place::{Place, Ran, finish};
use halter_protocol::{AssistantMessage, SessionEvent, SessionEventPayload};
use std::io::{self, BufRead};
use std::process::Stdio;

#[test]
fn text_has_the_answer_on_stdout_and_the_steps_on_stderr() {
    let place = Place::new();
    place.write("notes.txt", "the meeting is at noon\n");
    let ran = place.halter(["run", "--text", "read notes.txt"]);
    ran.expect(0);
    assert!(ran.stdout.contains("the meeting is at noon"));
    assert!(ran.stdout.contains("offline model"));
    assert!(ran.stdout.ends_with('\n'));
    assert!(!ran.stdout.contains('✓'));
    assert!(ran.stderr.contains("✓ read notes.txt"), "{}", ran.stderr);
}

#[test]
fn a_pipe_gets_the_last_assistant_message_on_one_line() {
    let place = Place::new();
    place.write("notes.txt", "the meeting is at noon\n");
    for arguments in [
        &["run", "read notes.txt"][..],
        &["run", "--json-result", "read notes.txt"],
    ] {
        let ran = place.halter(arguments);
        ran.expect(0);
        assert_eq!(ran.stdout.lines().count(), 1);
        assert!(ran.json().get("role").is_none());
        let answer: AssistantMessage = serde_json::from_str(&ran.stdout).unwrap();
        assert!(answer.plain_text().contains("the meeting is at noon"));
    }
}

/// What the documentation of the protocol crate shows: every line is an event.
fn consume(stdout: impl io::Read) -> Vec<SessionEvent> {
    let lines = io::BufReader::new(stdout).lines();
    lines
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect()
}

#[test]
fn a_consumer_parses_every_line_of_the_stream() {
    let place = Place::new();
    place.write("notes.txt", "the meeting is at noon\n");
    let mut child = place
        .command(["run", "--streaming-json", "read notes.txt"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let events = consume(child.stdout.take().unwrap());
    assert_eq!(child.wait().unwrap().code(), Some(0));

    assert_eq!(events[0].schema_version, Some(1));
    assert!(
        events[1..]
            .iter()
            .all(|event| event.schema_version.is_none())
    );
    assert_eq!(events[0].payload.kind(), "session_started");
    let last = events.last().unwrap();
    assert_eq!(last.payload.kind(), "session_shutdown_complete");
    let known = |event: &SessionEvent| !matches!(event.payload, SessionEventPayload::Unknown(_));
    assert!(events.iter().all(known));

    let lossless = events
        .iter()
        .filter(|event| event.delivery == halter_protocol::Delivery::Lossless);
    let sequences: Vec<u64> = lossless.map(SessionEvent::sequence).collect();
    let expected: Vec<u64> = (1..=sequences.len() as u64).collect();
    assert_eq!(sequences, expected);
    let kinds: Vec<&str> = events.iter().map(|event| event.payload.kind()).collect();
    for kind in [
        "turn_started",
        "delta_item",
        "tool_execution_completed",
        "turn_completed",
    ] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
}

#[test]
fn the_task_comes_from_stdin_or_a_file() {
    let place = Place::new();
    place.write("notes.txt", "the meeting is at noon\n");
    let file = place.write("task.md", "read notes.txt\n");
    let file = file.to_str().unwrap();
    let from_pipe = place.halter_with_stdin(["run", "--text"], "read notes.txt\n");
    let from_dash = place.halter_with_stdin(["run", "--text", "-"], "read notes.txt\n");
    let from_file = place.halter(["run", "--text", "--prompt-file", file]);
    let from_variable = place
        .command(["run", "--text"])
        .env("HALTER_PROMPT_FILE", file)
        .spawn();
    for ran in [
        from_pipe,
        from_dash,
        from_file,
        finish(from_variable.unwrap()),
    ] {
        ran.expect(0);
        assert!(ran.stdout.contains("the meeting is at noon"));
    }
}

#[test]
fn a_task_must_be_given_and_only_once() {
    let place = Place::new();
    let none = place.halter(["run", "--text"]);
    none.expect(2);
    assert!(none.stderr.contains("the task is empty"), "{}", none.stderr);
    let two = place.halter(["run", "--prompt-file", "x", "do it"]);
    two.expect(2);
    assert!(two.stderr.contains("two tasks"), "{}", two.stderr);
    let missing = place.halter(["run", "--prompt-file", "x.md"]);
    missing.expect(2);
    assert!(missing.stderr.contains("could not read x.md"));
    assert_eq!(missing.json()["error"]["code"], "usage");
}

#[test]
fn without_configuration_the_offline_model_answers_and_says_why() {
    let place = Place::new();
    let ran = place.halter(["run", "--text", "hello"]);
    ran.expect(0);
    assert!(
        ran.stderr.contains("no model is configured"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("[models.default]"));
    let quiet = place.halter(["run", "-q", "--text", "hello"]);
    quiet.expect(0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn there_is_no_colour_and_no_progress_without_a_terminal() {
    let place = Place::new();
    let plain = place.halter(["run", "--text", "hello"]);
    assert!(!plain.stderr.contains('\x1b'));
    let forced = place.halter(["run", "--color", "always", "--text", "hello"]);
    assert!(forced.stderr.contains('\x1b'));
    assert!(!forced.stderr.contains('\r'));
    let variable = place
        .command(["run", "--text", "hello"])
        .env("CLICOLOR_FORCE", "1")
        .spawn();
    assert!(finish(variable.unwrap()).stderr.contains('\x1b'));
}

#[test]
fn data_goes_to_a_file_when_asked() {
    let place = Place::new();
    let ran = place.halter(["--output-file", "out.json", "run", "hello"]);
    ran.expect(0);
    assert_eq!(ran.stdout, "");
    let written = std::fs::read_to_string(place.work().join("out.json")).unwrap();
    assert!(serde_json::from_str::<AssistantMessage>(&written).is_ok());
    let refused = place.halter(["--output-file", "no/such/dir", "run", "hello"]);
    refused.expect(2);
    assert!(refused.stderr.contains("no/such/dir"));
}

#[test]
fn a_turn_that_fails_has_a_typed_error_in_every_mode() {
    let place = Place::new();
    place.write("notes.txt", "x\n");
    let run = |mode| place.halter(["run", mode, "--max-turns", "1", "read notes.txt"]);

    let text = run("--text");
    text.expect(1);
    assert!(
        text.stderr.contains("error[max_turns_reached]: "),
        "{}",
        text.stderr
    );
    assert!(text.stderr.contains("hint: "), "{}", text.stderr);

    let json = run("--json-result");
    json.expect(1);
    assert_eq!(json.stdout.lines().count(), 1);
    assert_eq!(json.json()["error"]["code"], "max_turns_reached");
    assert!(json.json()["error"]["hint"].is_string());

    let stream = run("--streaming-json");
    stream.expect(1);
    let events = consume(stream.stdout.as_bytes());
    let failed = events
        .iter()
        .find(|event| event.payload.kind() == "turn_failed");
    assert!(failed.is_some());
    let last = events.last().unwrap();
    assert_eq!(last.payload.kind(), "session_shutdown_complete");
}

#[test]
fn time_can_run_out() {
    let place = Place::new();
    let config = place.write(
        "sleepy.toml",
        "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
         [policy.shell]\nallow = [\"sleep\"]\ntimeout_secs = 600\n",
    );
    let config = config.to_str().unwrap();
    let ran = place.halter(["--config", config, "run", "--timeout", "1", "run sleep 600"]);
    ran.expect(124);
    assert_eq!(ran.json()["error"]["code"], "timed_out");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let place = Place::new();
    for arguments in [
        &["run", "--streaming-json", "hello"][..],
        &["run", "--text", "hello"],
        &["sessions", "list"],
        &["config", "schema"],
        &["help", "exit-codes"],
    ] {
        let mut child = place.command(arguments).spawn().unwrap();
        drop(child.stdout.take());
        let ran = finish(child);
        ran.expect(0);
        assert!(!ran.stderr.contains("error"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
}

#[test]
fn an_unknown_model_names_the_known_ones() {
    let place = Place::new();
    let ran = place.halter(["run", "--model", "huge", "hello"]);
    ran.expect(2);
    assert_eq!(ran.json()["error"]["code"], "config_unknown_model");
    assert!(ran.stderr.contains("default"), "{}", ran.stderr);
}

#[test]
fn control_characters_reach_programs_as_they_are() {
    let place = Place::new();
    place.write("notes.txt", "red \u{1b}[31m text\n");
    let ran = place.halter(["run", "--text", "read notes.txt"]);
    assert!(ran.stdout.contains("red \u{1b}[31m text"));
}

#[test]
fn variables_stand_in_for_flags_and_flags_win() {
    let place = Place::new();
    place.write("below/notes.txt", "the meeting is at noon\n");
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = place.command(arguments);
        command.envs(variables.iter().copied());
        let ran = finish(command.spawn().unwrap());
        ran.expect(0);
        ran
    };
    let mode = [("HALTER_OUTPUT", "streaming-json")];
    assert!(run(&["run", "hello"], &mode).stdout.lines().count() > 1);
    let text = run(&["run", "--text", "hello"], &mode);
    assert!(text.stdout.starts_with("Hello"), "{}", text.stdout);

    let quiet = run(&["run", "hello"], &[("HALTER_QUIET", "1")]);
    assert_eq!(quiet.stderr, "");
    let loud = run(&["run", "hello"], &[("HALTER_QUIET", "0")]);
    assert_ne!(loud.stderr, "");
    let verbose = run(
        &["run", "--text", "read notes.txt"],
        &[("HALTER_VERBOSE", "1"), ("HALTER_CWD", "below")],
    );
    assert!(verbose.stdout.contains("the meeting is at noon"));
    assert!(
        verbose.stderr.contains("I take a look before"),
        "{}",
        verbose.stderr
    );
}

#[test]
fn logs_are_json_when_data_goes_to_a_file() {
    let place = Place::new();
    let mut command = place.command(["-q", "--output-file", "out.json", "run", "hello"]);
    command.env("HALTER_LOG", "trace");
    let ran = finish(command.spawn().unwrap());
    ran.expect(0);
    assert!(ran.stderr.lines().count() > 0);
    for line in ran.stderr.lines() {
        assert!(
            serde_json::from_str::<serde_json::Value>(line).is_ok(),
            "{line}"
        );
    }
}

/// The text of the message that was sent.
fn message(ran: &Ran) -> String {
    let lines = ran.lines();
    let sent = lines
        .iter()
        .find(|line| line["payload"]["message"]["role"] == "user");
    let parts = sent.unwrap()["payload"]["message"]["parts"].clone();
    let texts = parts.as_array().unwrap().iter();
    texts
        .map(|part| part["text"].as_str().unwrap())
        .collect::<Vec<_>>()
        .join("|")
}

#[test]
fn what_is_piped_in_follows_the_task() {
    let place = Place::new();
    let arguments = ["run", "--streaming-json", "What can you do?"];
    let ran = place.halter_with_stdin(arguments, "alpha\nbeta\n");
    ran.expect(0);
    assert_eq!(
        message(&ran),
        "What can you do?|<standard_input>\nalpha\nbeta\n</standard_input>"
    );
    let empty = place.halter_with_stdin(arguments, "");
    assert_eq!(message(empty.expect(0)), "What can you do?");
    assert!(!empty.stderr.contains("standard input"), "{}", empty.stderr);
}

#[test]
fn a_pipe_without_a_byte_is_left_with_a_notice() {
    let place = Place::new();
    let mut command = place.command(["run", "--streaming-json", "What can you do?"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let open = child.stdin.take().unwrap();
    let ran = finish(child);
    drop(open);
    assert_eq!(message(ran.expect(0)), "What can you do?");
    assert!(
        ran.stderr.contains("standard input gave nothing for 3 s"),
        "{}",
        ran.stderr
    );
}
