//! What only happens at a terminal.

use crate::place::{Place, eventually, processes_with};
use crate::scenarios::stage::{Stage, WIRES};
use crate::screen::Screen;
use std::time::Duration;

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const ENTER: &str = "\r";

fn sleepy(place: &Place) {
    place.write(
        "sleepy.toml",
        "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
         [policy.shell]\nallow = [\"sleep\"]\ntimeout_secs = 600\n",
    );
}

#[test]
fn text_is_the_default_and_made_safe() {
    let place = Place::new();
    place.write("notes.txt", "red \u{1b}[31m bell \u{7} end\n");
    let screen = Screen::open(&place, &["run", "read notes.txt"]);
    let (status, shown) = screen.end();
    assert_eq!(status.code(), Some(0));
    assert!(
        shown.contains("red \u{241b}[31m bell \u{2407} end"),
        "{shown:?}"
    );
    assert!(!shown.contains('\u{7}'), "{shown:?}");
    assert!(shown.contains("offline model"), "{shown:?}");
}

#[test]
fn waiting_is_shown_and_ctrl_c_ends_it() {
    let place = Place::new();
    sleepy(&place);
    let command = format!("sleep 3701.{}", std::process::id());
    let task = format!("run {command}");
    let mut screen = Screen::open(&place, &["--config", "sleepy.toml", "run", &task]);
    screen.wait_for(&format!("shell {command}"));
    screen.wait_for("tokens in");
    screen.send(CTRL_C);
    let (status, shown) = screen.end();
    assert_eq!(status.code(), Some(130));
    assert!(shown.contains("error[cancelled]"), "{shown:?}");
    assert_eq!(processes_with(&command), Vec::<i32>::new());
    // The line that showed progress is wiped.
    let wiped = shown.rfind("\r\u{1b}[K").unwrap();
    assert!(!shown[wiped..].contains(" · "), "{shown:?}");
}

/// Somebody can be asked: by a tool that is called by its name, as by a model.
#[test]
fn a_tool_that_asks_is_offered_and_can_be_called() {
    let place = Place::new();
    let (status, shown) = Screen::open(&place, &["tools", "list"]).end();
    assert_eq!(status.code(), Some(0), "{shown}");
    let line = shown.lines().find(|line| line.starts_with("ask_user"));
    assert!(
        line.is_some_and(|line| line.contains("[deferred]")),
        "{shown}"
    );
    let input = r#"{"questions":[{"question":"Which one?"},{"question":"Which other?"}]}"#;
    let mut screen = Screen::open(&place, &["tools", "call", "ask_user", input]);
    screen.wait_for("1 of 2: Which one?");
    // Nothing skips it.
    screen.send("\r");
    screen.wait_for("2 of 2: Which other?");
    screen.send("the blue one\r");
    let (status, shown) = screen.end();
    assert_eq!(status.code(), Some(0), "{shown}");
    assert!(shown.contains("\"the blue one\""), "{shown}");
    assert!(shown.contains("skipped"), "{shown}");

    for (input, more, code) in [
        (r#"{"no_such_parameter":1}"#, &[][..], "invalid_arguments"),
        (input, &["--deny", "ask_user"], "unknown_tool"),
    ] {
        let arguments = ["tools", "call", "ask_user", input];
        let arguments: Vec<&str> = arguments.iter().chain(more).copied().collect();
        let (status, shown) = Screen::open(&place, &arguments).end();
        assert_eq!(status.code(), Some(1), "{shown}");
        assert!(shown.contains(code), "{shown}");
    }
}

/// The first answer says that next to nothing is left; the second request is
/// held back, and the line that shows progress says so.
#[test]
fn a_wait_for_a_rate_is_shown_and_ctrl_c_ends_it() {
    let stage = Stage::new(&WIRES[1]);
    let config = stage.place.root().join("service.toml");
    let arguments = ["--config", config.to_str().unwrap(), "chat"];
    let mut screen = Screen::open(&stage.place, &arguments);
    screen.wait_for_prompt(1);
    screen.send(&format!("please mock:rate_headers{ENTER}"));
    screen.wait_for("Nearly spent.");
    screen.wait_for_prompt(2);
    screen.send(&format!("{}{ENTER}", "more than is left ".repeat(20)));
    // A status begins with the time that the turn has taken.
    screen.wait_for("s · waiting about ");
    screen.wait_for("s to stay within the rate of 'gpt-5'");
    screen.send(CTRL_C);
    screen.wait_for("cancelled; press Ctrl-C again to leave");
    screen.wait_for_prompt(3);
    screen.send(CTRL_D);
    assert_eq!(screen.end().0.code(), Some(0));
    assert_eq!(stage.bodies().len(), 1, "the second was never sent");
    stage.close();
}

#[test]
fn a_style_that_is_chosen_in_a_chat_goes_with_the_next_message() {
    let stage = Stage::new(&WIRES[0]);
    let style = "---\nname: Terse\ndescription: Few words.\n---\nThree words at most.\n";
    stage.place.write(".claude/output-styles/terse.md", style);
    let config = stage.place.root().join("service.toml");
    let arguments = ["--config", config.to_str().unwrap(), "chat"];
    let mut screen = Screen::open(&stage.place, &arguments);
    screen.wait_for_prompt(1);
    for (prompt, line, answer) in [
        (2, "/output-style", "Terse  Few words."),
        (3, "/output-style Loud", "there is no output style 'Loud'"),
        (4, "/output-style Terse", "from the next message on: Terse"),
    ] {
        screen.send(&format!("{line}{ENTER}"));
        screen.wait_for(answer);
        screen.wait_for_prompt(prompt);
    }
    for prompt in [5, 6] {
        screen.send(&format!("please mock:streaming_text{ENTER}"));
        screen.wait_for_prompt(prompt);
    }
    screen.send(CTRL_D);
    assert_eq!(screen.end().0.code(), Some(0));
    let bodies = stage.bodies();
    assert_eq!(bodies.len(), 2);
    // It is said once, in the conversation: the prompt stays as it was.
    for body in &bodies {
        let told = body.to_string().matches("Three words at most.").count();
        assert_eq!(told, 1, "{body}");
    }
    assert_eq!(bodies[0]["system"], bodies[1]["system"]);
    stage.close();
}

#[test]
fn a_chat_tells_what_it_used_and_what_the_cache_saved() {
    let stage = Stage::new(&WIRES[0]);
    let config = stage.place.root().join("service.toml");
    let arguments = ["--config", config.to_str().unwrap(), "chat"];
    let mut screen = Screen::open(&stage.place, &arguments);
    screen.wait_for_prompt(1);
    screen.send(&format!("/cost{ENTER}"));
    screen.wait_for("nothing was used yet");
    screen.wait_for_prompt(2);
    screen.send(&format!("please mock:cached{ENTER}"));
    screen.wait_for_prompt(3);
    screen.send(&format!("/cost{ENTER}"));
    screen.wait_for("used       2.3k tokens in, 11 out, $");
    screen.wait_for("cached     85 % of the input, $0.0054 saved");
    screen.wait_for_prompt(4);
    screen.send(CTRL_D);
    assert_eq!(screen.end().0.code(), Some(0));
    stage.close();
}

#[test]
fn progress_can_be_turned_off() {
    let place = Place::new();
    sleepy(&place);
    let run = ["--config", "sleepy.toml", "run", "run sleep 0.5"];
    let flags: [&[&str]; 2] = [&["--no-progress"], &["-q"]];
    for flag in flags {
        let (status, shown) = Screen::open(&place, &[flag, &run].concat()).end();
        assert_eq!(status.code(), Some(0));
        assert!(!shown.contains(" · "), "{shown:?}");
    }
    let dumb = Screen::open_with(&place, &run, |command| {
        command.env("TERM", "dumb");
    });
    let (_, shown) = dumb.end();
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn a_chat_answers_remembers_and_is_left() {
    let place = Place::new();
    place.write("notes.txt", "the meeting is at noon\n");
    let mut screen = Screen::open(&place, &["chat"]);
    screen.wait_for_prompt(1);
    screen.send("read notes.txt");
    screen.send(ENTER);
    screen.wait_for("the meeting is at noon");
    screen.wait_for_prompt(2);
    screen.send("/session");
    screen.send(ENTER);
    screen.wait_for("halter sessions resume ses_");
    screen.wait_for_prompt(3);
    screen.send(CTRL_D);
    let (status, _) = screen.end();
    assert_eq!(status.code(), Some(0));

    let history = place.home().join(".local/state/halter/history");
    let history = std::fs::read_to_string(history).unwrap();
    assert!(history.contains("read notes.txt"), "{history}");
    let listed = place.halter(["sessions", "list", "--json"]).json();
    assert_eq!(listed["sessions"][0]["title"], "read notes.txt");
}

#[test]
fn ctrl_c_in_a_chat_cancels_the_turn_and_the_next_one_leaves() {
    let place = Place::new();
    sleepy(&place);
    let command = format!("sleep 3702.{}", std::process::id());
    let mut screen = Screen::open(&place, &["--config", "sleepy.toml", "chat"]);
    screen.wait_for_prompt(1);
    screen.send(&format!("run {command}"));
    screen.send(ENTER);
    eventually("the command", || {
        (!processes_with(&command).is_empty()).then_some(())
    });
    screen.send(CTRL_C);
    screen.wait_for("cancelled; press Ctrl-C again to leave");
    assert_eq!(processes_with(&command), Vec::<i32>::new());
    screen.wait_for_prompt(2);
    screen.send("/help");
    screen.send(ENTER);
    screen.wait_for("this text");
    screen.wait_for_prompt(3);
    screen.send(CTRL_C);
    screen.wait_for_prompt(4);
    screen.send(CTRL_C);
    let (status, _) = screen.end();
    assert_eq!(status.code(), Some(130));
}

#[test]
fn a_chat_without_a_word_leaves_no_session() {
    let place = Place::new();
    let mut screen = Screen::open(&place, &["chat"]);
    screen.wait_for_prompt(1);
    screen.send(CTRL_D);
    assert_eq!(screen.end().0.code(), Some(0));
    let listed = place.halter(["sessions", "list", "--json"]).json();
    assert_eq!(listed["sessions"], serde_json::json!([]));
}

#[test]
fn an_untrusted_file_is_shown_and_asked_about_once() {
    let place = Place::new();
    place.write(
        "halter.toml",
        "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
         [policy.shell]\nallow = [\"*\"]\n",
    );
    let mut screen = Screen::open(&place, &["run", "hello"]);
    screen.wait_for("Trust this file? [y/N]");
    assert!(screen.shown().contains("policy.shell.allow"));
    screen.send("n\n");
    let (status, shown) = screen.end();
    assert_eq!(status.code(), Some(0));
    assert!(shown.contains("is not trusted"), "{shown}");

    let (_, shown) = Screen::open(&place, &["run", "hello"]).end();
    assert!(!shown.contains("[y/N]"), "{shown}");
    assert!(shown.contains("is not trusted"), "{shown}");

    let mut screen = Screen::open(&place, &["trust"]);
    screen.wait_for("[y/N]");
    screen.send("y\n");
    assert_eq!(screen.end().0.code(), Some(0));
    let (_, shown) = Screen::open(&place, &["run", "hello"]).end();
    assert!(!shown.contains("not trusted"), "{shown}");
}

#[test]
fn deleting_asks_first() {
    let place = Place::new();
    let id = place.session("hello");
    let mut screen = Screen::open(&place, &["sessions", "delete", &id]);
    screen.wait_for("[y/N]");
    screen.send("\n");
    assert_eq!(screen.end().0.code(), Some(1));
    place.halter(["sessions", "show", &id]).expect(0);
}

#[test]
fn what_is_typed_while_a_turn_runs_joins_it_or_waits() {
    let place = Place::new();
    sleepy(&place);
    place.write("notes.txt", "the meeting is at noon\n");
    let command = format!("sleep 1.5{}", std::process::id());
    let mut screen = Screen::open(&place, &["--config", "sleepy.toml", "chat"]);
    screen.wait_for_prompt(1);
    screen.send(&format!("run {command}"));
    screen.send(ENTER);
    eventually("the command", || {
        (!processes_with(&command).is_empty()).then_some(())
    });
    screen.send("read notes.txt");
    screen.wait_for("· › read notes.txt");
    screen.send(ENTER);
    screen.send("/exi");
    screen.wait_for_prompt(2);
    assert!(screen.shown().contains("the meeting is at noon"));
    screen.send("t");
    screen.send(ENTER);
    assert_eq!(screen.end().0.code(), Some(0));
}

/// A chat in the midst of a turn, between two looks at the terminal's modes.
struct Modes {
    place: Place,
    screen: Screen,
    chat: String,
}

fn modes(seconds: u32) -> Modes {
    let place = Place::new();
    sleepy(&place);
    let work = place.work().display().to_string();
    let chat = format!(
        "{} -C {work} --config sleepy.toml chat",
        env!("CARGO_BIN_EXE_halter")
    );
    place.write(
        "script",
        &format!("trap : INT; stty -a > before; {chat}; stty -a > after"),
    );
    let mut screen = Screen::open_program(&place, "sh", &["script"]);
    screen.wait_for_prompt(1);
    let command = format!("sleep {seconds}.{}", std::process::id());
    screen.send(&format!("run {command}"));
    screen.send(ENTER);
    eventually("the command", || {
        (!processes_with(&command).is_empty()).then_some(())
    });
    Modes {
        place,
        screen,
        chat,
    }
}

fn assert_as_before(place: &Place) {
    let read = |name| std::fs::read_to_string(place.work().join(name)).unwrap();
    assert_eq!(read("before"), read("after"));
}

#[test]
fn the_terminal_is_as_before_when_a_chat_is_left() {
    let mut modes = modes(3703);
    modes.screen.send(CTRL_C);
    modes.screen.wait_for_prompt(2);
    modes.screen.send(CTRL_D);
    modes.screen.end();
    assert_as_before(&modes.place);
}

#[test]
fn the_terminal_is_as_before_when_a_chat_is_ended_at_once() {
    let modes = modes(3704);
    eventually("the end", || {
        let chats = processes_with(&modes.chat);
        for pid in &chats {
            let pid = rustix::process::Pid::from_raw(*pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        chats.is_empty().then_some(())
    });
    modes.screen.end();
    assert_as_before(&modes.place);
}

/// Less than a turn may go on after SIGHUP, with room for a loaded machine: a
/// chat that nobody sees ends within two seconds.
const HANGUP_PATIENCE: Duration = Duration::from_secs(6);

#[test]
fn a_chat_ends_with_its_terminal_at_the_prompt() {
    let place = Place::new();
    let screen = Screen::open(&place, &["chat"]);
    screen.wait_for_prompt(1);
    let (status, took) = screen.hang_up();
    assert_eq!(status.code(), Some(129));
    assert!(took < HANGUP_PATIENCE, "{took:?}");
}

#[test]
fn a_chat_ends_with_its_terminal_while_a_tool_runs() {
    let place = Place::new();
    sleepy(&place);
    let command = format!("sleep 3706.{}", std::process::id());
    let mut screen = Screen::open(&place, &["--config", "sleepy.toml", "chat"]);
    screen.wait_for_prompt(1);
    screen.send(&format!("run {command}{ENTER}"));
    eventually("the command", || {
        (!processes_with(&command).is_empty()).then_some(())
    });
    let (status, took) = screen.hang_up();
    assert_eq!(status.code(), Some(129));
    assert!(took < HANGUP_PATIENCE, "{took:?}");
    eventually("the end of the command", || {
        processes_with(&command).is_empty().then_some(())
    });
}

#[test]
fn a_chat_ends_with_its_terminal_while_the_model_talks() {
    let stage = Stage::new(&WIRES[0]);
    let config = stage.place.root().join("service.toml");
    let arguments = ["--config", config.to_str().unwrap(), "chat"];
    let mut screen = Screen::open(&stage.place, &arguments);
    screen.wait_for_prompt(1);
    screen.send(&format!("please mock:gated{ENTER}"));
    screen.wait_for("Before");
    let (status, took) = screen.hang_up();
    assert_eq!(status.code(), Some(129));
    assert!(took < HANGUP_PATIENCE, "{took:?}");
    stage.close();
}

/// Nobody is told of a closed terminal who ignores SIGHUP.
#[test]
fn a_chat_that_ignores_hangups_ends_with_its_terminal_too() {
    let place = Place::new();
    let halter = env!("CARGO_BIN_EXE_halter");
    let line = format!("trap '' HUP; exec {halter} chat");
    let screen = Screen::open_program(&place, "sh", &["-c", &line]);
    screen.wait_for_prompt(1);
    let (status, took) = screen.hang_up();
    assert_eq!(status.code(), Some(129));
    assert!(took < HANGUP_PATIENCE, "{took:?}");
}
