//! Calls that a person decides about: at a terminal, and by lines of JSON.

use crate::place::Place;
use crate::scenarios::stage::{ANTHROPIC, Stage};
use crate::screen::Screen;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

const CTRL_C: &str = "\x03";
const ENTER: &str = "\r";

/// `touch` is not among the programs that run without a question.
const TOUCH: &str = "run touch made.txt";

fn exists(place: &Place, name: &str) -> bool {
    place.work().join(name).exists()
}

fn user_config(place: &Place) -> String {
    let file = place.home().join(".config/halter/halter.toml");
    std::fs::read_to_string(file).unwrap_or_default()
}

/// Answers the one question of a run at a terminal.
fn asked(place: &Place, task: &str, answer: &str) -> (Option<i32>, String) {
    let mut screen = Screen::open(place, &["run", task]);
    screen.wait_for("tells the model why");
    screen.send(answer);
    screen.send(ENTER);
    let (status, shown) = screen.end();
    (status.code(), shown)
}

#[test]
fn a_person_is_shown_the_call_and_says_yes() {
    let place = Place::new();
    let (code, shown) = asked(&place, TOUCH, "y");
    assert_eq!(code, Some(0), "{shown}");
    for part in [
        "May shell run?",
        "command: touch made.txt",
        "Asked because: ",
        "y  yes, this once",
        "for this session",
        "saved as a rule",
        "✓",
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    assert!(exists(&place, "made.txt"));
    assert_eq!(user_config(&place), "", "nothing is saved");
}

#[test]
fn a_person_says_no_and_why() {
    let place = Place::new();
    let (_, shown) = asked(&place, TOUCH, "n not in this directory");
    assert!(!exists(&place, "made.txt"));
    let told = "denied by the user: not in this directory";
    assert!(shown.contains(told), "{shown}");
}

#[test]
fn always_saves_the_rule_that_was_typed_and_the_next_run_does_not_ask() {
    let place = Place::new();
    let mut screen = Screen::open(&place, &["run", TOUCH]);
    screen.wait_for("tells the model why");
    screen.send("maybe");
    screen.send(ENTER);
    // What is no answer is asked again.
    screen.wait_for_times("tells the model why", 2);
    screen.send("a Bash(touch");
    screen.send(ENTER);
    screen.wait_for("error[rule_invalid]");
    screen.send("a Bash(touch made.txt)");
    screen.send(ENTER);
    let (status, shown) = screen.end();
    assert_eq!(status.code(), Some(0), "{shown}");
    let config = user_config(&place);
    assert!(config.contains("Bash(touch made.txt)"), "{config}");

    std::fs::remove_file(place.work().join("made.txt")).unwrap();
    place.halter(["run", TOUCH]).expect(0);
    assert!(exists(&place, "made.txt"));
}

#[test]
fn ctrl_c_while_asked_runs_nothing() {
    let place = Place::new();
    let mut screen = Screen::open(&place, &["run", TOUCH]);
    screen.wait_for("tells the model why");
    screen.send(CTRL_C);
    let (status, shown) = screen.end();
    assert_eq!(status.code(), Some(130), "{shown}");
    assert!(!exists(&place, "made.txt"));
}

#[test]
fn in_a_chat_an_answer_is_no_message() {
    let place = Place::new();
    let mut screen = Screen::open(&place, &["chat"]);
    screen.wait_for_prompt(1);
    screen.send(TOUCH);
    screen.send(ENTER);
    screen.wait_for("tells the model why");
    screen.send("s");
    screen.send(ENTER);
    screen.wait_for_prompt(2);
    assert!(exists(&place, "made.txt"));
    std::fs::remove_file(place.work().join("made.txt")).unwrap();
    // For the session: the second one is not asked about.
    screen.send(TOUCH);
    screen.send(ENTER);
    screen.wait_for_prompt(3);
    assert!(exists(&place, "made.txt"));
    assert_eq!(screen.shown().matches("May shell run?").count(), 1);
    screen.send("/exit");
    screen.send(ENTER);
    assert_eq!(screen.end().0.code(), Some(0));
}

#[test]
fn a_change_is_shown_as_a_diff() {
    let stage = Stage::new(&ANTHROPIC[0]);
    stage.configure("[permissions]\nmode = \"prompt\"\n");
    let arguments = stage.arguments("edit_roundtrip", "--text", &[]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut screen = Screen::open(&stage.place, &arguments);
    screen.wait_for("tells the model why");
    screen.send("y");
    screen.send(ENTER);
    let (_, shown) = screen.end();
    assert!(shown.contains("--- "), "{shown}");
    assert!(shown.contains("@@ -1 +1 @@"), "{shown}");
    stage.close();
}

#[test]
fn a_person_is_shown_which_subagent_asks() {
    let stage = stage_with_subagents();
    let arguments = stage.arguments(ASKING_BELOW, "--text", &[]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut screen = Screen::open(&stage.place, &arguments);
    for (times, answer) in [(1, "y"), (2, "n")] {
        screen.wait_for_times("tells the model why", times);
        screen.send(answer);
        screen.send(ENTER);
    }
    let (status, shown) = screen.end();
    assert_eq!(status.code(), Some(0), "{shown}");
    let question = "May shell run for the subagent agent_1 (general)?";
    assert_eq!(shown.matches(question).count(), 2, "{shown}");
    assert!(shown.contains("First: 0. Then: "), "{shown}");
    assert!(exists(&stage.place, "asked.txt"));
    stage.close();
}

// --- lines of JSON ---------------------------------------------------------

/// A run that is answered by lines.
pub struct Talk {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Talk {
    fn start(place: &Place, task: &str) -> Self {
        Self::start_with(
            place,
            &["run", "--streaming-json", "--approvals", "stdin", task],
        )
    }

    pub fn start_with<A: AsRef<OsStr>>(place: &Place, arguments: &[A]) -> Self {
        let mut child = place
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    pub fn send(&mut self, line: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
    }

    /// Reads on to an event of a kind, or an error.
    #[track_caller]
    pub fn until(&mut self, kind: &str) -> Value {
        for line in self.lines.by_ref() {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if line["payload"]["kind"] == kind {
                return line["payload"].clone();
            }
            if kind == "error" && !line["error"].is_null() {
                return line["error"].clone();
            }
        }
        panic!("no {kind}");
    }

    /// The next line.
    pub fn next_event(&mut self) -> Value {
        let line = self.lines.next().unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.lines.by_ref().for_each(drop);
        self.child.wait().unwrap().code()
    }
}

#[test]
fn a_program_answers_with_lines() {
    let place = Place::new();
    let mut talk = Talk::start(&place, TOUCH);
    let request = talk.until("approval_requested");
    assert_eq!(request["call"]["name"], "shell");
    assert_eq!(request["call"]["arguments"]["command"], "touch made.txt");
    assert_eq!(
        request["choices"],
        json!(["once", "session", "always", "deny"])
    );
    let id = &request["approval_id"];

    talk.send(&json!({"approval_id": "apr_none", "choice": "once"}));
    assert_eq!(talk.until("error")["code"], "approval_not_open");
    talk.send(&json!("yes"));
    assert_eq!(talk.until("error")["code"], "answer_invalid");
    talk.send(&json!({"approval_id": id, "choice": "perhaps"}));
    assert_eq!(talk.until("error")["code"], "choice_not_offered");
    assert!(!exists(&place, "made.txt"));

    talk.send(&json!({"approval_id": id, "choice": "once"}));
    talk.send(&json!({"approval_id": id, "choice": "deny"}));
    assert_eq!(talk.until("error")["code"], "approval_not_open");
    talk.until("turn_completed");
    assert_eq!(talk.end(), Some(0));
    assert!(exists(&place, "made.txt"));
}

#[test]
fn a_program_chooses_the_rule_that_is_saved() {
    let place = Place::new();
    let mut talk = Talk::start(&place, TOUCH);
    let request = talk.until("approval_requested");
    let id = &request["approval_id"];
    let rule = "Bash(touch made.txt)";
    talk.send(&json!({"approval_id": id, "choice": "always", "rule": rule}));
    let resolved = talk.until("approval_resolved");
    assert_eq!(resolved["choice"], "always");
    assert_eq!(resolved["by"], "user");
    assert_eq!(resolved["rule"], rule);
    assert_eq!(talk.end(), Some(0));
    assert!(user_config(&place).contains(rule));
}

/// A child of a child asks, twice for the same.
const ASKING_BELOW: &str = "subagent_deep leaf=subagent_asks";

fn stage_with_subagents() -> Stage {
    let stage = Stage::new(&ANTHROPIC[0]);
    stage.configure("[tools]\ndeferred = \"off\"\n");
    stage
}

#[test]
fn a_program_answers_a_grandchild_at_the_root() {
    let stage = stage_with_subagents();
    let lines = ["--approvals", "stdin"];
    let arguments = stage.arguments(ASKING_BELOW, "--streaming-json", &lines);
    let mut talk = Talk::start_with(&stage.place, &arguments);
    let request = talk.until("approval_requested");
    assert_eq!(request["call"]["arguments"]["command"], "touch asked.txt");
    let asker = request["origin"].clone();
    assert_eq!(asker["agent_id"], "agent_1");
    assert!(!exists(&stage.place, "asked.txt"));
    talk.send(&json!({"approval_id": request["approval_id"], "choice": "once"}));
    let resolved = talk.until("approval_resolved");
    assert_eq!(
        (&resolved["choice"], &resolved["by"]),
        (&json!("once"), &json!("user"))
    );

    // It was for that call: the same one is asked about again.
    let again = talk.until("approval_requested");
    assert_eq!(again["origin"], asker);
    assert_ne!(again["approval_id"], request["approval_id"]);
    assert!(exists(&stage.place, "asked.txt"));
    let reason = "once is enough";
    let id = &again["approval_id"];
    talk.send(&json!({"approval_id": id, "choice": "deny", "reason": reason}));
    let report = talk.until("subagent_ended")["subagent"].clone();
    assert_eq!(report["state"], "completed");
    let said = report["last_message"].as_str().unwrap();
    assert!(said.contains("First: 0. Then: "), "{said}");
    assert!(
        said.contains("denied by the user: once is enough"),
        "{said}"
    );
    // The one that asked is below the one that reports.
    assert_ne!(report["session_id"], asker["session_id"]);
    talk.until("turn_completed");
    assert_eq!(talk.end(), Some(0));
    let id = asker["session_id"].as_str().unwrap();
    let above = report["session_id"].as_str().unwrap();
    let shown = stage.place.halter(["sessions", "show", above]);
    assert!(shown.expect(0).stdout.contains(id), "{}", shown.stdout);
    stage.close();
}

#[test]
fn a_file_beyond_roots_that_nobody_set_is_asked_about_and_then_read() {
    let place = Place::new();
    let file = place.root().join("elsewhere.txt");
    std::fs::write(&file, "from elsewhere\n").unwrap();
    let task = format!("read {}", file.display());
    let mut talk = Talk::start(&place, &task);
    let request = talk.until("approval_requested");
    assert_eq!(request["objection"]["rule"], "not_in_root");
    let rule = format!("Read(/{})", file.display());
    assert_eq!(request["objection"]["always"], rule);
    talk.send(&json!({"approval_id": request["approval_id"], "choice": "once"}));
    let done = talk.until("tool_execution_completed");
    assert!(done.to_string().contains("from elsewhere"), "{done}");
    assert_eq!(talk.end(), Some(0));

    // Roots that are set are a wall.
    let config = place.root().join("set.toml");
    std::fs::write(
        &config,
        "version = 1\n[policy]\nallowed_read_roots = [\".\"]\n",
    )
    .unwrap();
    let input = json!({"path": file}).to_string();
    let arguments = [
        "--config",
        config.to_str().unwrap(),
        "tools",
        "call",
        "read",
        &input,
    ];
    let refused = place.halter(arguments);
    let message = &refused.expect(3).json()["error"]["message"];
    let message = message.as_str().unwrap();
    assert!(!message.contains("nobody can be asked"), "{message}");
}

#[test]
fn when_the_input_ends_the_answer_is_no() {
    let place = Place::new();
    let mut talk = Talk::start(&place, TOUCH);
    talk.until("approval_requested");
    drop(talk.stdin.take());
    let resolved = talk.until("approval_resolved");
    assert_eq!(resolved["choice"], "deny");
    let reason = "standard input ended before it was answered";
    assert_eq!(resolved["reason"], reason);
    assert_eq!(talk.end(), Some(0));
    assert!(!exists(&place, "made.txt"));
}

#[test]
fn with_nobody_to_ask_the_call_is_denied_and_the_model_told_what_it_takes() {
    let place = Place::new();
    let ran = place.halter(["run", "--streaming-json", TOUCH]);
    let events = ran.expect(0).lines();
    let kind = |event: &Value| event["payload"]["kind"].clone();
    let resolved = events
        .iter()
        .find(|event| kind(event) == "approval_resolved")
        .unwrap();
    assert_eq!(resolved["payload"]["by"], "unattended");
    let outcome = events
        .iter()
        .find(|event| kind(event) == "tool_execution_completed")
        .unwrap();
    let message = &outcome["payload"]["outcome"]["result"]["error"]["message"];
    let message = message.as_str().unwrap();
    assert!(message.contains("nobody can be asked"), "{message}");
    assert!(message.contains("permission rule `Bash(touch"), "{message}");
    assert!(!exists(&place, "made.txt"));
}

#[test]
fn lines_need_their_events_and_a_task_from_elsewhere() {
    let place = Place::new();
    let stdin = ["--approvals", "stdin"];
    for (arguments, hint) in [
        (vec!["run", "--text", TOUCH], "--streaming-json"),
        (vec!["run", "--streaming-json"], "--prompt-file"),
        (vec!["run", "--streaming-json", "-"], "--prompt-file"),
    ] {
        let ran = place.halter_with_stdin([&arguments[..], &stdin].concat(), "");
        ran.expect(2);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains(hint), "{said}");
    }
}
