//! Hook files through the whole binary: every event, every kind of handler,
//! every outcome, and hooks that mean harm.

use crate::place::{Place, Ran, processes_with};
use halter_mock::{MockService, Scenario, ServeOptions, Step, serve};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

fn user_file(place: &Place, file: &Value) {
    let directory = place.home().join(".config/halter");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("hooks.json"), file.to_string()).unwrap();
}

fn on(event: &str, handler: &Value) -> Value {
    json!({"hooks": {event: [{"hooks": [handler]}]}})
}

fn command(line: &str) -> Value {
    json!({"type": "command", "command": line, "timeout": 300})
}

/// A payload as a public file would write it.
fn payload(event: &str) -> Value {
    match event {
        "PreToolUse" | "PermissionRequest" | "PermissionDenied" | "PostToolUse"
        | "PostToolUseFailure" => json!({
            "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "c1",
            "tool_response": {"stdout": "x"}, "error": {"code": "tool_failed", "message": "no"},
            "reason": "because",
        }),
        "UserPromptSubmit" => json!({"prompt": "hello"}),
        "SessionStart" => json!({"source": "startup"}),
        "SessionEnd" => json!({"reason": "done"}),
        "Notification" => json!({"notification_type": "idle", "message": "waiting"}),
        "PreCompact" | "PostCompact" => json!({"trigger": "manual"}),
        "SubagentStart" | "SubagentStop" => json!({"agent_id": "a", "agent_type": "reviewer"}),
        _ => json!({"stop_hook_active": false, "last_assistant_message": "done"}),
    }
}

fn test(place: &Place, event: &str) -> Ran {
    place.halter([
        "hooks",
        "test",
        event,
        &payload(event).to_string(),
        "--json",
    ])
}

/// The outcome of a handler at an event, and the status of its run.
#[track_caller]
fn outcome(place: &Place, event: &str, handler: &Value) -> (String, String, Value) {
    user_file(place, &on(event, handler));
    let ran = test(place, event);
    let trial = ran.json();
    let outcome = trial["outcome"].as_str().unwrap().to_owned();
    let stands_in_the_way = matches!(outcome.as_str(), "block" | "ask" | "stop");
    ran.expect(if stands_in_the_way { 3 } else { 0 });
    let runs = trial["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "{event} {handler} {}", ran.stderr);
    let status = runs[0]["status"].as_str().unwrap().to_owned();
    (outcome, status, trial)
}

pub const EVENTS: [&str; 14] = [
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PermissionDenied",
    "PostToolUse",
    "PostToolUseFailure",
    "Notification",
    "PreCompact",
    "PostCompact",
    "Stop",
    "SubagentStart",
    "SubagentStop",
];

/// Events at which a hook that fails denies.
const BLOCKING: [&str; 3] = ["UserPromptSubmit", "PreToolUse", "PermissionRequest"];

/// Events at which a block has nothing to act on.
const WITHOUT_BLOCK: [&str; 6] = [
    "SessionStart",
    "SessionEnd",
    "PermissionDenied",
    "Notification",
    "PostCompact",
    "SubagentStart",
];

#[test]
fn commands_decide_by_status_at_every_event() {
    let place = Place::new();
    let mut cases = 0;
    for event in EVENTS {
        let can_block = !WITHOUT_BLOCK.contains(&event);
        let denies = BLOCKING.contains(&event);
        let (passed, blocked) = (("pass", "completed"), ("block", "blocked"));
        let without_effect = ("pass", "completed");
        let failed = (if denies { "block" } else { "pass" }, "failed");
        for (line, (expected, expected_status)) in [
            ("cat > /dev/null", passed),
            (
                "echo no >&2; exit 2",
                if can_block { blocked } else { without_effect },
            ),
            ("exit 1", failed),
            ("echo '{'", failed),
        ] {
            let (said, status, trial) = outcome(&place, event, &command(line));
            assert_eq!(
                (said.as_str(), status.as_str()),
                (expected, expected_status),
                "{event} {line} {trial}"
            );
            let entries = trial["runs"][0]["entries"].to_string();
            if line.ends_with("exit 2") {
                let part = if can_block { "no" } else { "has no effect" };
                assert!(entries.contains(part), "{event} {entries}");
            }
            cases += 1;
        }
    }
    assert!(cases >= 56, "{cases}");
}

#[test]
fn answers_in_json_decide_as_they_say() {
    let place = Place::new();
    let specific = |fields: Value| json!({"hookSpecificOutput": fields});
    for (event, answer, expected) in [
        ("PreToolUse", json!({}), "pass"),
        (
            "PreToolUse",
            specific(json!({"permissionDecision": "allow"})),
            "allow",
        ),
        (
            "PreToolUse",
            specific(json!({"permissionDecision": "ask"})),
            "ask",
        ),
        (
            "PreToolUse",
            specific(json!({"permissionDecision": "deny"})),
            "block",
        ),
        (
            "PreToolUse",
            specific(json!({"permissionDecision": "defer"})),
            "ask",
        ),
        ("PreToolUse", json!({"decision": "approve"}), "allow"),
        (
            "PreToolUse",
            json!({"decision": "block", "reason": "r"}),
            "block",
        ),
        (
            "PreToolUse",
            json!({"continue": false, "stopReason": "s"}),
            "stop",
        ),
        (
            "PreToolUse",
            specific(json!({"hookEventName": "Stop"})),
            "block",
        ),
        (
            "PermissionRequest",
            specific(json!({"decision": {"behavior": "allow"}})),
            "allow",
        ),
        (
            "PermissionRequest",
            specific(json!({"decision": {"behavior": "deny", "message": "m"}})),
            "block",
        ),
        (
            "PostToolUse",
            json!({"decision": "block", "reason": "r"}),
            "block",
        ),
        (
            "Stop",
            json!({"decision": "block", "reason": "go on"}),
            "block",
        ),
        (
            "SubagentStop",
            json!({"decision": "block", "reason": "go on"}),
            "block",
        ),
        ("Stop", json!({"continue": false}), "stop"),
        ("Notification", json!({"continue": false}), "pass"),
        (
            "UserPromptSubmit",
            json!({"decision": "block", "reason": "r"}),
            "block",
        ),
        (
            "PreCompact",
            json!({"decision": "block", "reason": "r"}),
            "block",
        ),
        (
            "SessionStart",
            json!({"decision": "block", "reason": "r"}),
            "pass",
        ),
    ] {
        let line = format!("cat > /dev/null; echo '{answer}'");
        let (said, _, trial) = outcome(&place, event, &command(&line));
        assert_eq!(said, expected, "{event} {answer} {trial}");
    }
    let rewrite = specific(json!({"updatedInput": {"command": "ls -l", "timeout": 9}}));
    let (_, _, trial) = outcome(&place, "PreToolUse", &command(&format!("echo '{rewrite}'")));
    assert_eq!(
        trial["updated_input"],
        json!({"command": "ls -l", "timeout_ms": 9})
    );
    for (event, answer) in [
        ("UserPromptSubmit", "plain words".to_owned()),
        ("SessionStart", "plain words".to_owned()),
        (
            "PostToolUse",
            specific(json!({"additionalContext": "plain words"})).to_string(),
        ),
    ] {
        let (_, _, trial) = outcome(&place, event, &command(&format!("echo '{answer}'")));
        assert_eq!(trial["context"], json!(["plain words"]), "{event}");
    }
}

/// Answers each request with the next of these.
fn serve_answers(answers: Vec<(u16, String)>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/hook", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut seen = Vec::new();
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut request, mut piece) = (Vec::new(), [0; 4096]);
            loop {
                let text = String::from_utf8_lossy(&request).into_owned();
                let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                    let head = head.to_ascii_lowercase();
                    let length = head.split("content-length: ").nth(1).unwrap();
                    body.len() >= length.lines().next().unwrap().parse().unwrap()
                });
                if whole {
                    seen.push(text);
                    break;
                }
                let read = stream.read(&mut piece).unwrap();
                request.extend_from_slice(&piece[..read]);
            }
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status} x\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: {length}\r\n\r\n{body}"
            )
            .unwrap();
        }
        seen
    });
    (address, server)
}

#[test]
fn servers_decide_by_their_answers() {
    let place = Place::new();
    let cases = [
        ("PreToolUse", 200, "", "pass", "completed"),
        (
            "PreToolUse",
            200,
            "{\"decision\":\"block\",\"reason\":\"r\"}",
            "block",
            "blocked",
        ),
        (
            "PreToolUse",
            500,
            "{\"decision\":\"approve\"}",
            "block",
            "failed",
        ),
        ("PreToolUse", 302, "", "block", "failed"),
        ("PreToolUse", 200, "{", "block", "failed"),
        ("PostToolUse", 500, "", "pass", "failed"),
        (
            "Stop",
            200,
            "{\"decision\":\"block\",\"reason\":\"r\"}",
            "block",
            "blocked",
        ),
        ("UserPromptSubmit", 200, "words", "pass", "completed"),
    ];
    let answers = cases.map(|(_, status, body, _, _)| (status, body.to_owned()));
    let (url, server) = serve_answers(answers.to_vec());
    for (event, status, body, expected, expected_status) in cases {
        let handler = json!({"type": "http", "url": url, "timeout": 300,
            "headers": {"Authorization": "Bearer $HOME"}, "allowedEnvVars": ["HOME"]});
        let (said, run, trial) = outcome(&place, event, &handler);
        assert_eq!(
            (said.as_str(), run.as_str()),
            (expected, expected_status),
            "{event} {status} {body} {trial}"
        );
    }
    let seen = server.join().unwrap();
    assert!(seen[0].starts_with("POST /hook HTTP/1.1"), "{}", seen[0]);
    let home = place.home().display().to_string();
    assert!(
        seen[0].to_lowercase().contains("authorization: bearer"),
        "{}",
        seen[0]
    );
    assert!(seen[0].contains(&home), "{}", seen[0]);
    assert!(seen[0].contains("\"tool_name\":\"Bash\""), "{}", seen[0]);
    let handler = json!({"type": "http", "url": "http://127.0.0.1:1/none", "timeout": 300});
    let (said, status, _) = outcome(&place, "PreToolUse", &handler);
    assert_eq!((said.as_str(), status.as_str()), ("block", "failed"));
}

#[test]
fn a_host_that_is_allowed_is_asked() {
    let place = Place::new();
    let block = "{\"decision\":\"block\",\"reason\":\"r\"}";
    let (url, server) = serve_answers(vec![(200, block.to_owned())]);
    let mut file = on(
        "PreToolUse",
        &json!({"type": "http", "url": url, "timeout": 300}),
    );
    file["allowedHttpHosts"] = json!(["127.0.0.1"]);
    user_file(&place, &file);
    let trial = test(&place, "PreToolUse").expect(3).json();
    assert_eq!(trial["outcome"], "block", "{trial}");
    assert_eq!(server.join().unwrap().len(), 1);
}

#[test]
fn a_command_sees_the_variables_it_may_and_no_other_secrets() {
    let place = Place::new();
    for (allowed, seen) in [(json!([]), ""), (json!(["DEPLOY_TOKEN"]), "t0ken")] {
        let mut handler = command("echo \"[$DEPLOY_TOKEN][$OTHER_TOKEN]\" >&2; exit 2");
        handler["allowedEnvVars"] = allowed;
        user_file(&place, &on("PreToolUse", &handler));
        let call = payload("PreToolUse").to_string();
        let mut command = place.command(["hooks", "test", "PreToolUse", &call, "--json"]);
        command
            .env("DEPLOY_TOKEN", "t0ken")
            .env("OTHER_TOKEN", "0ther");
        let ran = crate::place::finish(command.spawn().unwrap());
        let trial = ran.expect(3).json();
        assert_eq!(trial["reason"], format!("[{seen}][]"), "{trial}");
    }
}

#[test]
fn a_host_that_is_not_allowed_is_never_asked() {
    let place = Place::new();
    let handler = json!({"type": "http", "url": "http://127.0.0.1:1/x"});
    let mut file = on("PreToolUse", &handler);
    file["allowedHttpHosts"] = json!(["hooks.example.com"]);
    user_file(&place, &file);
    let ran = test(&place, "PreToolUse");
    assert_eq!(ran.expect(0).json()["runs"], json!([]));
    let listed = place.halter(["hooks", "list"]);
    assert!(
        listed.expect(0).stderr.contains("allowedHttpHosts"),
        "{}",
        listed.stderr
    );
}

/// A model service whose scenarios are what judges say.
fn judges() -> (tokio::runtime::Runtime, MockService) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut options = ServeOptions::default();
    for (name, said) in [
        ("judge_yes", "{\"ok\": true}"),
        (
            "judge_no",
            "Well. {\"ok\": false, \"reason\": \"not tested\"}",
        ),
        ("judge_words", "I would rather not say."),
    ] {
        let scenario = Scenario::new("Judges.", vec![Step::text(said)]);
        options.scenarios.add(name, scenario).unwrap();
    }
    let service = runtime.block_on(serve(options)).unwrap();
    (runtime, service)
}

#[test]
fn models_decide_by_what_they_say() {
    let place = Place::new();
    let (runtime, service) = judges();
    let base_url = format!("{}/anthropic", service.base_url());
    let config = format!(
        "version = 1\n[models.default]\nprovider = \"anthropic\"\nmodel = \"claude-sonnet-4-5\"\n\
         [providers.anthropic]\nbase_url = \"{base_url}\"\napi_key = \"k\"\n"
    );
    let directory = place.home().join(".config/halter");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("halter.toml"), config).unwrap();
    for (event, kind, judge, expected, expected_status) in [
        ("PreToolUse", "prompt", "judge_yes", "pass", "completed"),
        ("PreToolUse", "prompt", "judge_no", "block", "blocked"),
        ("PreToolUse", "prompt", "judge_words", "block", "failed"),
        ("Stop", "prompt", "judge_no", "block", "blocked"),
        ("Stop", "prompt", "judge_words", "pass", "failed"),
        ("PreToolUse", "agent", "judge_yes", "pass", "completed"),
        ("PreToolUse", "agent", "judge_no", "block", "blocked"),
        ("Stop", "agent", "judge_no", "block", "blocked"),
    ] {
        let handler = json!({"type": kind, "prompt": format!("mock:{judge} $ARGUMENTS")});
        let (said, status, trial) = outcome(&place, event, &handler);
        assert_eq!(
            (said.as_str(), status.as_str()),
            (expected, expected_status),
            "{event} {kind} {judge} {trial}"
        );
    }
    // A prompt has no tools; an agent has those that only read.
    let tools = |body: &Value| -> Vec<String> {
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        let names = tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned());
        names.collect()
    };
    let asked: Vec<Value> = service.requests().iter().map(|one| one.json()).collect();
    assert_eq!(tools(&asked[0]), [""; 0]);
    let mut looking = tools(&asked[5]);
    looking.sort();
    assert_eq!(looking, ["glob", "grep", "list", "read"]);
    runtime.block_on(service.stop());
}

#[test]
fn hostile_hooks_neither_hang_nor_pass() {
    let place = Place::new();
    let mark = format!("900.{}", std::process::id());
    let flood = format!("head -c {} /dev/zero | tr '\\0' x", 1024 * 1024);
    let away = format!("(setsid sleep {mark} > /dev/null 2>&1 < /dev/null &) ; exit 0");
    for (line, timeout, expected, part) in [
        (flood.as_str(), 300.0, "pass", ""),
        ("yes", 300.0, "block", "wrote more than"),
        ("exec <&-; exit 2", 300.0, "block", "blocked"),
        ("sleep 600", 0.3, "block", "within 300ms"),
        ("kill -9 0", 300.0, "block", "signal 9"),
        (away.as_str(), 300.0, "pass", ""),
    ] {
        let handler = json!({"type": "command", "command": line, "timeout": timeout});
        let started = Instant::now();
        let (said, _, trial) = outcome(&place, "PreToolUse", &handler);
        assert_eq!(said, expected, "{line} {trial}");
        assert!(trial.to_string().contains(part), "{line} {trial}");
        assert!(started.elapsed() < Duration::from_secs(200), "{line}");
    }
    let gone = || processes_with(&mark).is_empty();
    crate::place::eventually("the end of what forked away", || gone().then_some(()));
}

#[test]
fn a_hook_that_deletes_itself_decides_and_is_missed_from_then_on() {
    let place = Place::new();
    let script = place.write("gone.sh", "rm -f \"$0\"; echo done >&2; exit 2");
    let guard = command("exec bash gone.sh");
    let (said, status, trial) = outcome(&place, "PreToolUse", &guard);
    assert_eq!((said.as_str(), status.as_str()), ("block", "blocked"));
    assert!(trial.to_string().contains("done"), "{trial}");
    assert!(!script.exists());
    let (said, status, trial) = outcome(&place, "PreToolUse", &guard);
    assert_eq!((said.as_str(), status.as_str()), ("block", "failed"));
    assert!(trial.to_string().contains("gone.sh"), "{trial}");
}

#[test]
fn hooks_of_a_project_run_once_it_is_trusted_and_not_when_it_changed() {
    let place = Place::new();
    let file = on("PreToolUse", &command("echo from the project >&2; exit 2"));
    place.write(".halter/hooks.json", &file.to_string());
    let call = || place.halter(["tools", "call", "read", "{\"path\":\"a.txt\"}"]);
    place.write("a.txt", "x");
    let untrusted = call();
    assert!(
        untrusted.expect(0).stderr.contains("not trusted"),
        "{}",
        untrusted.stderr
    );
    let trusted = place.halter(["trust", "--yes", ".halter/hooks.json"]);
    assert!(
        trusted.expect(0).stderr.contains("from the project"),
        "{}",
        trusted.stderr
    );
    assert!(call().expect(3).stdout.contains("from the project"));
    let listed = place.halter(["hooks", "list", "--json"]);
    assert_eq!(listed.expect(0).json()["hooks"][0]["layer"], "project");
    // What the hooks run is not the agent's to change.
    place.write(".halter/hooks/guard.sh", "exit 2");
    let pass = on("PreToolUse", &command("sh .halter/hooks/guard.sh || true"));
    place.write(".halter/hooks.json", &pass.to_string());
    place
        .halter(["trust", "--yes", ".halter/hooks.json"])
        .expect(0);
    let script = json!({"path": ".halter/hooks/guard.sh", "content": "exit 0"}).to_string();
    place.halter(["tools", "call", "write", &script]).expect(3);
    place.write(
        ".halter/hooks.json",
        &on("Stop", &command("true")).to_string(),
    );
    assert!(call().expect(0).stderr.contains("not trusted"));
}

#[test]
fn a_script_that_a_projects_hook_names_is_trusted_with_it() {
    let place = Place::new();
    for (line, script) in [
        ("sh tools/guard.sh", "tools/guard.sh"),
        ("\"$CLAUDE_PROJECT_DIR\"/tools/own.sh", "tools/own.sh"),
        (
            "sh ${CLAUDE_PROJECT_DIR}/.claude/x/late.sh 2>&1",
            ".claude/x/late.sh",
        ),
    ] {
        let path = place.write(script, "#!/bin/sh\nexit 2\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).unwrap();
        let file = on("PreToolUse", &command(line));
        place.write(".claude/settings.json", &file.to_string());
        let trust = || place.halter(["trust", "--yes", ".claude/settings.json"]);
        let shown = trust();
        assert!(shown.expect(0).stderr.contains(script), "{}", shown.stderr);
        assert_eq!(
            test(&place, "PreToolUse").expect(3).json()["outcome"],
            "block"
        );
        // The agent cannot change it, and nobody unseen.
        let change = json!({"path": script, "content": "exit 0"}).to_string();
        place.halter(["tools", "call", "write", &change]).expect(3);
        place.write(script, "#!/bin/sh\nexit 0\n");
        let changed = test(&place, "PreToolUse");
        assert!(
            changed.expect(0).stderr.contains("not trusted"),
            "{}",
            changed.stderr
        );
        trust().expect(0);
        let again = test(&place, "PreToolUse");
        assert!(
            !again.expect(0).stderr.contains("not trusted"),
            "{}",
            again.stderr
        );
    }
}

#[test]
fn a_settings_file_of_another_harness_is_read_for_its_hooks() {
    let place = Place::new();
    let settings = json!({
        "permissions": {"allow": ["Bash(ls:*)"]},
        "hooks": {
            "PreToolUse": [{"matcher": "Bash", "hooks": [command("exit 2")]}],
            "WorktreeCreate": [{"hooks": [command("true")]}],
        },
    });
    place.write(".claude/settings.json", &settings.to_string());
    place
        .halter(["trust", "--yes", ".claude/settings.json"])
        .expect(0);
    let ran = test(&place, "PreToolUse");
    assert_eq!(ran.expect(3).json()["outcome"], "block");
    assert!(
        ran.stderr.contains("`WorktreeCreate` do not run"),
        "{}",
        ran.stderr
    );
}

#[test]
fn hooks_of_a_plugin_run_with_it_and_know_where_it_is() {
    let place = Place::new();
    let plugin = place.root().join("plugins/demo");
    std::fs::create_dir_all(plugin.join(".claude-plugin")).unwrap();
    std::fs::create_dir_all(plugin.join("hooks")).unwrap();
    let manifest = json!({"name": "demo", "version": "1.0.0"});
    std::fs::write(
        plugin.join(".claude-plugin/plugin.json"),
        manifest.to_string(),
    )
    .unwrap();
    std::fs::write(plugin.join("guard.sh"), "echo from the plugin >&2; exit 2").unwrap();
    let guard = command(
        "echo kept > \"$CLAUDE_PLUGIN_DATA/notes\"; cat \"$CLAUDE_PLUGIN_DATA/notes\" >&2; \
         sh \"${CLAUDE_PLUGIN_ROOT}/guard.sh\"",
    );
    let file = json!({"description": "d", "hooks": {"PreToolUse": [
        {"matcher": "Read", "hooks": [guard]}]}});
    std::fs::write(plugin.join("hooks/hooks.json"), file.to_string()).unwrap();
    let config = place.root().join("plugins.toml");
    std::fs::write(
        &config,
        "version = 1\n[resources.plugins]\nroots = [\"plugins\"]\n",
    )
    .unwrap();
    let config = config.to_str().unwrap();
    let listed = place.halter(["--config", config, "hooks", "list", "--json"]);
    let hook = &listed.expect(0).json()["hooks"][0];
    assert_eq!(
        (&hook["id"], &hook["layer"]),
        (&json!("demo/PreToolUse/0"), &json!("plugin"))
    );
    place.write("a.txt", "x");
    let input = json!({"path": "a.txt"}).to_string();
    let ran = place.halter(["--config", config, "tools", "call", "read", &input]);
    assert!(
        ran.expect(3).stdout.contains("kept\\nfrom the plugin"),
        "{}",
        ran.stdout
    );
}

#[test]
fn files_that_the_configuration_names_count() {
    let place = Place::new();
    let file = on("PreToolUse", &command("exit 2"));
    std::fs::write(place.root().join("team.json"), file.to_string()).unwrap();
    let config = place.root().join("named.toml");
    std::fs::write(
        &config,
        "version = 1\n[hooks]\nfiles = [\"team.json\", \"gone.json\"]\n",
    )
    .unwrap();
    let event = payload("PreToolUse").to_string();
    let arguments = [
        "--config",
        config.to_str().unwrap(),
        "hooks",
        "test",
        "PreToolUse",
        &event,
    ];
    let ran = place.halter(arguments);
    assert!(ran.expect(3).stdout.contains("block: "), "{}", ran.stdout);
    assert!(ran.stderr.contains("gone.json"), "{}", ran.stderr);
}

#[test]
fn what_is_no_event_or_payload_is_refused() {
    let place = Place::new();
    let unknown = place.halter(["hooks", "test", "Lunch"]);
    assert!(
        unknown.expect(2).stderr.contains("PreToolUse"),
        "{}",
        unknown.stderr
    );
    let broken = place.halter(["hooks", "test", "Stop", "{"]);
    assert!(
        broken.expect(2).stderr.contains("no JSON object"),
        "{}",
        broken.stderr
    );
}

#[test]
fn fifty_commands_that_sleep_run_side_by_side() {
    let place = Place::new();
    // Each ends when all have begun, which never happens one after another.
    let sleeper = |index: usize| {
        command(&format!(
            ": > here.{index}; sleep 0.2; set -- here.*; \
             while test $# -lt 50; do sleep 0.05; set -- here.*; done"
        ))
    };
    let handlers: Vec<Value> = (0..50).map(sleeper).collect();
    user_file(
        &place,
        &json!({"hooks": {"PreToolUse": [{"hooks": handlers}]}}),
    );
    let trial = test(&place, "PreToolUse").expect(0).json();
    let runs = trial["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 50);
    let time = |run: &Value, field: &str| {
        run[field]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    let first = runs
        .iter()
        .map(|run| time(run, "started_at"))
        .min()
        .unwrap();
    let last = runs
        .iter()
        .map(|run| time(run, "completed_at"))
        .max()
        .unwrap();
    let took = last.duration_since(first);
    // On an idle machine little longer than one takes.
    println!("50 command hooks that sleep 200 ms took {took:#}");
}
