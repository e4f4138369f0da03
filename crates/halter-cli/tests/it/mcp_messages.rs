//! What a user's message brings from servers, and what approvals remember.

use crate::mcp::with_fixture;
use crate::place::{Place, Ran};
use crate::screen::Screen;
use halter_mcp::limits::MENTIONS_PER_MESSAGE;
use serde_json::Value;

/// The parts of the user's message of a run, as JSON.
fn said(ran: &Ran) -> Vec<Value> {
    let lines = ran.lines();
    let mut messages = lines.iter().map(|event| &event["payload"]["message"]);
    let message = messages.find(|message| message["role"] == "user").unwrap();
    message["parts"].as_array().unwrap().clone()
}

fn texts(ran: &Ran) -> Vec<String> {
    let parts = said(ran);
    let texts = parts.iter().filter_map(|part| part["text"].as_str());
    texts.map(str::to_owned).collect()
}

fn run(place: &Place, task: &str) -> Ran {
    place.halter(["run", "--streaming-json", task])
}

#[test]
fn a_mentioned_resource_goes_with_the_message() {
    let place = with_fixture("resources");
    let task = "What is in @x:note://one, and in (@x:note://by-day/monday)? Not a@x:note://one, \
        not @y:note://one, and @x:note://one only once.";
    let ran = run(&place, task);
    ran.expect(0);
    assert_eq!(
        texts(&ran),
        [
            task,
            "[the resource note://one of the MCP server `x`, as mentioned:]",
            "[resource note://one]\nthe first note",
            "[the resource note://by-day/monday of the MCP server `x`, as mentioned:]",
            "[resource note://by-day/monday]\nwhat happened on monday",
        ]
    );
    let missing = run(&place, "Read @x:note://no");
    let told = format!("{}{}", missing.stdout, missing.stderr);
    assert_ne!(missing.code, Some(0));
    assert!(told.contains("@x:note://no could not be read"), "{told}");
    assert!(told.contains("there is no note://no"), "{told}");
    for (count, fits) in [
        (MENTIONS_PER_MESSAGE, true),
        (MENTIONS_PER_MESSAGE + 1, false),
    ] {
        let many = (0..count).map(|day| format!("@x:note://by-day/{day}"));
        let ran = run(&place, &many.collect::<Vec<_>>().join(" "));
        assert_eq!(ran.code == Some(0), fits, "{count}: {}", ran.stderr);
    }
}

#[test]
fn a_prompt_of_a_server_is_a_command() {
    let place = with_fixture("resources");
    let ran = run(&place, "/mcp__x__review a.rs short");
    ran.expect(0);
    assert_eq!(
        texts(&ran),
        [
            "/mcp__x__review a.rs short",
            "Review \"a.rs\" in style \"short\".",
            "[as the assistant's earlier answer]",
            "Which part?",
            "All of it.",
        ]
    );
    for (task, why) in [
        ("/mcp__x__review", "lacks the argument `path`"),
        ("/mcp__x__nothing", "has no prompt /mcp__x__nothing"),
    ] {
        let refused = run(&place, task);
        assert_ne!(refused.code, Some(0));
        let told = format!("{}{}", refused.stdout, refused.stderr);
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_chat_lists_and_starts_prompts_and_takes_mentions() {
    let place = with_fixture("resources");
    let mut screen = Screen::open(&place, &["chat"]);
    screen.wait_for_prompt(1);
    screen.send("/commands\r");
    screen.wait_for("/mcp__x__review <path> [style]  Review a file.");
    screen.wait_for_prompt(2);
    screen.send("/mcp__x__review\r");
    screen.wait_for("lacks the argument");
    // The line is there to be corrected.
    screen.wait_for_prompt(3);
    screen.send("\u{15}/mcp__x__long\r");
    screen.wait_for_prompt(4);
    screen.send("read @x:note://no\r");
    screen.wait_for("@x:note://no could not be read");
    screen.wait_for_prompt(5);
    screen.send("\u{15}What is @x:note://one\r");
    screen.wait_for_prompt(6);
    screen.send("\u{4}");
    let (status, shown) = screen.end();
    assert!(!shown.contains("waiting for your answer"), "{shown}");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn an_approval_names_what_was_approved() {
    let place = with_fixture("plain");
    let tools = place
        .halter(["mcp", "tools", "x", "--json"])
        .expect(0)
        .json();
    let tools = tools.as_array().unwrap();
    let echo = tools
        .iter()
        .find(|tool| tool["own_name"] == "echo")
        .unwrap();
    let digest = echo["definition"].as_str().unwrap();
    let other = "0".repeat(digest.len());
    let input = "{\"text\":\"hello\"}";
    for (definition, code) in [(digest, 0), (other.as_str(), 3)] {
        let rule = format!("mcp__x__echo@{definition}");
        let called = place.halter(["tools", "call", "mcp__x__echo", input, "--allow", &rule]);
        let called = called.expect(code);
        let told = format!("{}{}", called.stdout, called.stderr);
        let changed = told.contains("has changed the tool 'mcp__x__echo' since it was approved");
        assert_eq!(changed, code != 0, "{told}");
    }
}

#[test]
fn models_are_asked_about_resources_as_about_tools() {
    let place = with_fixture("resources");
    let call = |more: &[&str]| {
        let input = "{\"server\":\"x\",\"uri\":\"note://one\"}";
        let mut line = vec!["tools", "call", "read_mcp_resource", input];
        line.extend(more);
        place.halter(line)
    };
    call(&[]).expect(3);
    let allowed = call(&["--allow", "read_mcp_resource"]);
    assert!(allowed.expect(0).stdout.contains("the first note"));
    call(&["--permission-mode", "read_only"]).expect(3);
}
