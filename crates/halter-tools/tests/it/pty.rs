//! `pty`: programs in a terminal, as a person would use them.

use crate::support::{Workspace, eventually};
use halter_protocol::{ToolCall, ToolErrorCode};
use halter_tools::PolicySettings;
use halter_tools::limits::{
    PTY_COLUMNS, PTY_KEYS, PTY_MAX_WAIT_MS, PTY_RAW_BYTES, PTY_ROWS, PTY_TERMINALS,
};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Long enough for any machine: whatever is awaited ends the wait.
const PATIENCE: u64 = 60_000;

/// Whether the programs are where commands of these tests look for them.
fn installed(programs: &[&str]) -> bool {
    let is_there = |program: &&str| {
        let mut places = ["/usr/local/bin", "/usr/bin", "/bin"].iter();
        places.any(|place| Path::new(place).join(program).exists())
    };
    let missing: Vec<&&str> = programs.iter().filter(|it| !is_there(it)).collect();
    for program in &missing {
        crate::support::skipped(program);
    }
    missing.is_empty()
}

/// Starts a command and waits for a text.
async fn start(workspace: &Workspace, command: &str, text: &str) -> Value {
    let call = json!({
        "action": "start", "command": command, "cols": 80, "rows": 24,
        "wait_for": text, "timeout_ms": PATIENCE,
    });
    found(workspace.ok("pty", call).await)
}

/// Types and waits for a text.
async fn write(workspace: &Workspace, input: &str, keys: &[&str], text: &str) -> Value {
    let call = json!({
        "action": "write", "input": input, "keys": keys,
        "wait_for": text, "timeout_ms": PATIENCE,
    });
    found(workspace.ok("pty", call).await)
}

fn found(answer: Value) -> Value {
    assert_eq!(answer["found"], true, "{answer:#}");
    answer
}

/// Types what ends the program, and waits for that.
async fn leave(workspace: &Workspace, input: &str, keys: &[&str]) -> Value {
    let call = json!({
        "action": "write", "input": input, "keys": keys,
        "wait_for": "never to be seen", "timeout_ms": PATIENCE,
    });
    let answer = workspace.ok("pty", call).await;
    assert_eq!(answer["state"], "ended", "{answer:#}");
    answer
}

/// Presses keys, then looks until the screen is as wanted.
async fn press_until(workspace: &Workspace, keys: &[&str], wanted: impl Fn(&Value) -> bool) {
    let call = json!({"action": "write", "keys": keys});
    let mut answer = workspace.ok("pty", call).await;
    let deadline = Instant::now() + Duration::from_millis(PATIENCE);
    while !wanted(&answer) {
        assert!(Instant::now() < deadline, "{answer:#}");
        answer = workspace.ok("pty", json!({"action": "read"})).await;
    }
}

fn screen(answer: &Value) -> &str {
    answer["screen"].as_str().unwrap()
}

#[tokio::test]
async fn vim_writes_a_file() {
    if !installed(&["vim"]) {
        return;
    }
    let workspace = Workspace::with_open_shell();
    workspace.put("poem", "roses\nviolets\n");
    let opened = start(&workspace, "vim -u NONE -N -i NONE poem", "violets").await;
    assert!(
        screen(&opened).starts_with("roses\nviolets\n~\n~"),
        "{opened:#}"
    );
    assert_eq!(opened["cursor"], json!({"row": 1, "column": 1}));
    press_until(&workspace, &["Down"], |answer| answer["cursor"]["row"] == 2).await;
    let typed = write(&workspace, "ired and ", &["Escape"], "red and violets").await;
    assert_eq!(typed["state"], "running");
    let end = leave(&workspace, ":wq", &["Enter"]).await;
    assert_eq!(end["exit_code"], 0);
    assert_eq!(workspace.get("poem"), "roses\nred and violets\n");
    workspace.store.close().await;
}

#[tokio::test]
async fn less_turns_pages() {
    if !installed(&["less"]) {
        return;
    }
    let workspace = Workspace::with_open_shell();
    let lines: Vec<String> = (1..=500).map(|line| format!("line {line}.")).collect();
    workspace.put("long", lines.join("\n") + "\n");
    let first = start(&workspace, "less long", "line 23.").await;
    assert!(screen(&first).starts_with("line 1.\n"), "{first:#}");
    let next = write(&workspace, "", &["Space"], "line 46.").await;
    assert!(screen(&next).starts_with("line 24.\n"), "{next:#}");
    write(&workspace, "/line 321.", &["Enter"], "line 321.").await;
    write(&workspace, "G", &[], "line 500.").await;
    let end = leave(&workspace, "q", &[]).await;
    assert_eq!(end["exit_code"], 0);
    workspace.store.close().await;
}

#[tokio::test]
async fn python_is_talked_to() {
    if !installed(&["python3"]) {
        return;
    }
    let workspace = Workspace::with_open_shell();
    start(&workspace, "python3 -q", ">>>").await;
    write(&workspace, "print(6 * 7)\n", &[], "42").await;
    // What would run forever is stopped as at a keyboard.
    let endless = "import time, sys; print('go' + 'es'); time.sleep(10000)\n";
    write(&workspace, endless, &[], "goes").await;
    let prompted = |answer: &Value| screen(answer).ends_with("KeyboardInterrupt\n>>>");
    press_until(&workspace, &["Ctrl-C"], prompted).await;
    leave(&workspace, "", &["Ctrl-D"]).await;
    workspace.store.close().await;
}

#[tokio::test]
async fn top_redraws_its_screen() {
    if !installed(&["top"]) {
        return;
    }
    let workspace = Workspace::with_open_shell();
    let shown = start(&workspace, "top", "PID").await;
    assert!(screen(&shown).contains("COMMAND"), "{shown:#}");
    let header = shown["highlighted"].as_array().unwrap();
    assert!(header.iter().any(|it| it.as_str().unwrap().contains("PID")));
    write(&workspace, "", &["h"], "Help for Interactive Commands").await;
    write(&workspace, "", &["Escape"], "PID").await;
    let end = leave(&workspace, "q", &[]).await;
    assert_eq!(end["exit_code"], 0);
    workspace.store.close().await;
}

/// Takes the whole screen, as an editor does: draws in wide characters, in the
/// character set of lines and in a part that scrolls, draws anew when it is
/// resized, and leaves what was there before.
const WHOLE_SCREEN: &str = r#"
at() { printf '\033[%s;1H' "$1"; }
resized() { printf '\033[2J'; at 1; stty size; at 3; printf 'x%.0s' {1..45}; }
trap resized WINCH
echo before
printf '\033[?1049h\033[2J'
at 1; printf '漢字|é'
at 2; printf '\033(0lqwqk\033(B'
at 3; printf '\033(0x\033(Ba\033(0x\033(Bb\033(0x\033(B'
printf '\033[5;8r'; at 5; printf '%s\r\n' 1 2 3 4 5; printf 6
printf '\033[r'; at 10; printf '\033[7mready\033[m'
while read -rs -n 1 -t 1 key; [ "$key" != q ]; do :; done
printf '\033[?1049l'
echo after
"#;

#[tokio::test]
async fn a_program_of_the_whole_screen_is_seen_as_by_a_person() {
    let workspace = Workspace::with_open_shell();
    workspace.put("whole.sh", WHOLE_SCREEN);
    let drawn = start(&workspace, "bash whole.sh", "ready").await;
    assert_eq!(
        screen(&drawn),
        "漢字|é\n┌─┬─┐\n│a│b│\n\n3\n4\n5\n6\n\nready"
    );
    assert_eq!(drawn["cursor"], json!({"row": 10, "column": 6}));
    assert_eq!(drawn["highlighted"], json!(["ready"]));
    let call = json!({
        "action": "resize", "columns": 40, "rows": 12,
        "wait_for": "xxxxx", "timeout_ms": PATIENCE,
    });
    let mut resized = found(workspace.ok("pty", call).await);
    // The text may have been found before all of it was there.
    let whole = format!("12 40\n\n{}\nxxxxx", "x".repeat(40));
    let deadline = Instant::now() + Duration::from_millis(PATIENCE);
    while screen(&resized) != whole {
        assert!(Instant::now() < deadline, "{resized:#}");
        resized = workspace.ok("pty", json!({"action": "read"})).await;
    }
    assert_eq!(resized["cursor"], json!({"row": 4, "column": 6}));
    let end = leave(&workspace, "q", &[]).await;
    assert_eq!(screen(&end), "before\nafter");
    workspace.store.close().await;
}

#[tokio::test]
async fn a_terminal_is_resized_read_raw_and_ended() {
    let workspace = Workspace::with_open_shell();
    let command = "trap 'stty size' WINCH; echo \"$TERM $PAGER $LESSSECURE\"; stty size; \
                   while :; do read -r -t 1 line && echo \"<$line>\"; done";
    let started = start(&workspace, command, "24 80").await;
    assert_eq!(started["terminal_id"], "pty_1");
    assert!(
        screen(&started).contains("xterm-256color cat 1"),
        "{started:#}"
    );
    let call = json!({
        "action": "resize", "columns": 100, "rows": 30,
        "wait_for": "30 100", "timeout_ms": PATIENCE,
    });
    found(workspace.ok("pty", call).await);
    write(&workspace, "tea\n", &[], "<tea>").await;
    let call = json!({"action": "read", "raw_offset": 0});
    let raw = workspace.ok("pty", call).await;
    assert_eq!(raw["offset"], 0);
    let text = raw["raw"].as_str().unwrap();
    assert!(
        text.starts_with("xterm-256color cat 1\r\n24 80\r\n"),
        "{text:?}"
    );
    assert_eq!(raw["next_offset"], text.len());

    let killed = workspace.ok("pty", json!({"action": "kill"})).await;
    assert_eq!(killed["state"], "ended");
    // What it showed last can still be read, and nothing typed.
    let last = workspace.ok("pty", json!({"action": "read"})).await;
    assert!(screen(&last).contains("<tea>"), "{last:#}");
    let late = workspace
        .failure("pty", json!({"action": "write", "input": "x"}))
        .await;
    assert!(late.contains("takes no more"), "{late}");
    workspace.store.close().await;
}

#[tokio::test]
async fn questions_of_programs_to_their_terminal_are_answered() {
    let workspace = Workspace::with_open_shell();
    let command = "stty -echo -icanon min 1; printf '\\033[6n'; \
                   IFS= read -r -d R place; printf 'at %s' \"${place#?}\"";
    let answered = start(&workspace, command, "at [1;1").await;
    assert_eq!(answered["terminal_id"], "pty_1");
    workspace.store.close().await;
}

#[tokio::test]
async fn so_many_terminals_are_open_and_they_end_with_the_session() {
    let workspace = Workspace::with_open_shell();
    let mut pids = Vec::new();
    for _ in 0..PTY_TERMINALS {
        let started = start(&workspace, "echo \"pid $$.\"; exec sleep 1000", ".").await;
        let text = screen(&started).trim_start_matches("pid ");
        pids.push(text.trim_end_matches('.').parse::<i32>().unwrap());
    }
    let call = json!({"action": "start", "command": "true"});
    let refused = workspace.failure("pty", call.clone()).await;
    assert!(refused.contains("8 terminals are in use"), "{refused}");
    assert!(refused.contains("pty_1, pty_2"), "{refused}");
    let unnamed = workspace.failure("pty", json!({"action": "read"})).await;
    assert!(unnamed.contains("`terminal_id` is missing"), "{unnamed}");
    let wrong = json!({"action": "read", "terminal_id": "pty_77"});
    let wrong = workspace.failure("pty", wrong).await;
    assert!(
        wrong.contains("there is no terminal 'pty_77': there are pty_1"),
        "{wrong}"
    );

    let kill = json!({"action": "kill", "terminal_id": "pty_2"});
    workspace.ok("pty", kill).await;
    let next = workspace.ok("pty", call).await;
    assert_eq!(next["terminal_id"], "pty_9");
    workspace.store.close().await;
    let directory = workspace.dir();
    for pid in pids {
        let is_running = || crate::place::is_running(pid, &directory);
        eventually("the program ends", || !is_running()).await;
    }
}

#[tokio::test]
async fn endless_output_is_bounded() {
    let workspace = Workspace::with_open_shell();
    start(&workspace, "yes 'flooding the terminal'", "flooding").await;
    let deadline = Instant::now() + Duration::from_millis(PATIENCE);
    // More than is kept has come once the middle is gone.
    loop {
        let middle = PTY_RAW_BYTES / 2;
        let call = json!({"action": "read", "raw_offset": middle, "timeout_ms": 1});
        let raw = workspace.ok("pty", call).await;
        if raw["offset"].as_u64().unwrap() > middle as u64 {
            assert!(raw["note"].as_str().unwrap().contains("no longer kept"));
            break;
        }
        assert!(Instant::now() < deadline, "{raw}");
    }
    workspace.store.close().await;
}

#[tokio::test]
async fn a_command_is_judged_as_that_of_a_shell() {
    let workspace = Workspace::with_settings(PolicySettings {
        allowed_shell_commands: vec!["ls".to_owned()].into(),
        ..PolicySettings::default()
    });
    let call = json!({"action": "start", "command": "curl x"});
    let denied = workspace.error("pty", call.clone(), ToolErrorCode::PolicyDenied);
    let shell = json!({"command": "curl x"});
    let by_shell = workspace.error("shell", shell.clone(), ToolErrorCode::PolicyDenied);
    assert_eq!(denied.await, by_shell.await);
    let tool = |name| workspace.tools.get(name).unwrap();
    assert_eq!(tool("pty").actions(&call), tool("shell").actions(&shell));
    assert!(tool("pty").is_polling(&json!({"action": "read"})));
    let missing = workspace.failure("pty", json!({"action": "start"})).await;
    assert!(missing.contains("needs `command`"), "{missing}");
    let none = workspace.failure("pty", json!({"action": "read"})).await;
    assert!(none.contains("none is open"), "{none}");
}

#[tokio::test]
async fn what_cannot_be_typed_is_refused() {
    let workspace = Workspace::with_open_shell();
    start(&workspace, "echo up; sleep 1000", "up").await;
    let call = json!({"action": "write", "keys": ["Entr"]});
    let message = workspace.failure("pty", call).await;
    assert!(message.contains("there is no key 'Entr'"), "{message}");
    let nothing = workspace.failure("pty", json!({"action": "write"})).await;
    assert!(nothing.contains("needs `input` or `keys`"), "{nothing}");
    let half = json!({"action": "resize", "rows": 3});
    let half = workspace.failure("pty", half).await;
    assert!(half.contains("needs `cols` and `rows`"), "{half}");
    workspace.store.close().await;
}

#[tokio::test]
async fn waiting_for_a_screen_can_be_cancelled() {
    let workspace = Workspace::with_open_shell();
    let call = json!({
        "action": "start", "command": "sleep 1000",
        "wait_for": "never", "timeout_ms": PATIENCE,
    });
    let waiting = workspace.error("pty", call, ToolErrorCode::Cancelled);
    let (_, ()) = tokio::join!(waiting, async { workspace.cancel.cancel() });
    workspace.store.close().await;
}

#[tokio::test]
async fn a_terminal_is_in_the_sandbox_of_its_session() {
    let Some(workspace) = crate::sandbox::open_shell() else {
        return;
    };
    let command = "python3 -c 'open(\"/etc/halter-escaped\", \"w\")'";
    start(&workspace, command, "Read-only file system").await;
    workspace.store.close().await;
}

#[test]
fn sizes_keys_and_waits_have_their_bounds() {
    let tools = Workspace::new().tools;
    let fits = |name: &str, value: Value| {
        let call = ToolCall {
            id: "call".into(),
            name: "pty".into(),
            arguments: json!({"action": "read", name: value}),
        };
        tools.validate(&call).is_ok()
    };
    for (name, most) in [
        ("cols", u64::from(PTY_COLUMNS)),
        ("columns", u64::from(PTY_COLUMNS)),
        ("rows", u64::from(PTY_ROWS)),
        ("timeout_ms", PTY_MAX_WAIT_MS),
    ] {
        assert!(fits(name, json!(most)), "{name}");
        assert!(!fits(name, json!(most + 1)), "{name}");
    }
    assert!(fits("keys", json!(vec!["Up"; PTY_KEYS])));
    assert!(!fits("keys", json!(vec!["Up"; PTY_KEYS + 1])));
}
