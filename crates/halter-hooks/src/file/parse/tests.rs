use super::*;
use serde_json::json;

fn parse(events: Value) -> ParsedHooks {
    parse_value(&json!({"hooks": events}), &HookOrigin::user("hooks.json"))
}

fn one(event: &str, handler: Value) -> ParsedHooks {
    parse(json!({event: [{"hooks": [handler]}]}))
}

fn warnings(parsed: &ParsedHooks) -> Vec<String> {
    parsed.warnings.iter().map(ToString::to_string).collect()
}

fn action(parsed: &ParsedHooks) -> HandlerAction {
    let [hook] = parsed.hooks.as_slice() else {
        panic!("{:?}", warnings(parsed));
    };
    hook.file().unwrap().action.clone()
}

#[test]
fn a_settings_file_loads_as_it_is() {
    let text = r#"{
        "permissions": {"allow": ["Bash(ls)"]},
        "hooks": {
            "PreToolUse": [{
                "matcher": "Edit|Write",
                "hooks": [
                    {"type": "command", "command": "./a.sh", "timeout": 5, "statusMessage": "a"},
                    {"type": "command", "command": "node", "args": ["b.js"], "once": true}
                ]
            }],
            "Stop": [{"hooks": [{"type": "prompt", "prompt": "Is it done? $ARGUMENTS"}]}],
            "SessionStart": [{"matcher": "startup", "hooks": [
                {"type": "http", "url": "http://localhost:9/x", "headers": {"A": "b"}}]}],
            "SubagentStop": [{"hooks": [{"type": "agent", "prompt": "look"}]}]
        }
    }"#;
    let parsed = parse_text(text, &HookOrigin::user("settings.json"));
    assert_eq!(warnings(&parsed), [""; 0]);
    let mut hooks = crate::registry::Hooks::new();
    assert_eq!(hooks.add_file(parsed), []);
    let ids: Vec<&str> = hooks.ids().collect();
    assert_eq!(
        ids,
        [
            "user/PreToolUse/0",
            "user/PreToolUse/1",
            "user/Stop/0",
            "user/SessionStart/0",
            "user/SubagentStop/0",
        ]
    );
    let first = hooks.listings().next().unwrap();
    assert_eq!(first.matcher.as_deref(), Some("Edit|Write"));
    assert_eq!(first.timeout, Duration::from_secs(5));
    assert_eq!(first.runs.as_deref(), Some("./a.sh"));
}

#[test]
fn the_events_may_stand_alone() {
    let events = json!({"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]});
    let parsed = parse_value(&events, &HookOrigin::project("SKILL.md", "/p"));
    assert_eq!((parsed.hooks.len(), parsed.warnings.len()), (1, 0));
    let nothing = parse_value(
        &json!({"permissions": {}}),
        &HookOrigin::user("settings.json"),
    );
    assert_eq!((nothing.hooks.len(), nothing.warnings.len()), (0, 0));
}

#[test]
fn a_matcher_for_what_never_comes_is_told_of() {
    let group = |matcher: &str| json!([{"matcher": matcher, "hooks": [{"type": "command", "command": "x"}]}]);
    for (event, matcher, told) in [
        ("SessionStart", "startup|resume|compact", 0),
        ("SessionStart", "startup|clear", 1),
        ("SessionStart", "clear|fork", 2),
        ("SessionStart", "sta.*", 0),
        ("PreCompact", "manual|auto", 0),
        ("PreToolUse", "Anything", 0),
    ] {
        let parsed = parse_value(&json!({event: group(matcher)}), &HookOrigin::user("h"));
        assert_eq!(parsed.hooks.len(), 1);
        assert_eq!(parsed.warnings.len(), told, "{event} {matcher}");
    }
}

#[test]
fn a_file_that_is_none_is_refused_with_a_place() {
    for (text, reason) in [
        ("", "not JSON"),
        ("{\n\"hooks\": }", "line 2"),
        ("[]", "not a JSON object"),
        ("{\"hooks\": []}", "not an object of events"),
    ] {
        let parsed = parse_text(text, &HookOrigin::user("hooks.json"));
        let warnings = warnings(&parsed);
        assert_eq!(warnings.len(), 1, "{text}");
        assert!(warnings[0].contains(reason), "{warnings:?}");
        assert_eq!(parsed.warnings[0].code(), "hook_file_refused");
    }
    let largest = |bytes: usize| " ".repeat(bytes - 2) + "{}";
    let origin = HookOrigin::user("hooks.json");
    assert!(
        parse_text(&largest(MAX_FILE_BYTES), &origin)
            .warnings
            .is_empty()
    );
    assert!(
        !parse_text(&largest(MAX_FILE_BYTES + 1), &origin)
            .warnings
            .is_empty()
    );
}

#[test]
fn events_that_are_not_dispatched_are_quarantined_and_the_rest_loads() {
    let command = json!([{"hooks": [{"type": "command", "command": "x"}]}]);
    let parsed = parse(json!({
        "Elicitation": command, "Invented": command, "Stop": command, "stop": command,
        "PreToolUse": {"not": "a list"},
    }));
    assert_eq!(parsed.hooks.len(), 1);
    let warnings = warnings(&parsed).join("\n");
    for part in [
        "`Elicitation` do not run: the event is not dispatched here",
        "no hook event is called `Invented`",
        "names the same event",
        "`PreToolUse` do not run: its value is not a list",
    ] {
        assert!(warnings.contains(part), "{part}\n{warnings}");
    }
    for (event, _) in NOT_DISPATCHED {
        assert!(event.parse::<HookEventName>().is_err(), "{event}");
    }
}

#[test]
fn handlers_that_cannot_run_are_quarantined_with_a_reason() {
    for (handler, reason) in [
        (json!("x"), "not an object"),
        (json!({}), "no `type`"),
        (json!({"type": "command"}), "no `command`"),
        (json!({"type": "command", "command": " "}), "no `command`"),
        (json!({"type": "command", "command": 7}), "not a text"),
        (
            json!({"type": "command", "command": "x", "args": "y"}),
            "`args`",
        ),
        (
            json!({"type": "command", "command": "x", "shell": "powershell"}),
            "powershell",
        ),
        (
            json!({"type": "command", "command": "x", "env": {"A": 1}}),
            "`env`",
        ),
        (
            json!({"type": "command", "command": "x", "timeout": 0}),
            "timeout",
        ),
        (
            json!({"type": "command", "command": "x", "timeout": "5"}),
            "timeout",
        ),
        (
            json!({"type": "command", "command": "x", "once": "yes"}),
            "`once`",
        ),
        (
            json!({"type": "command", "command": "x", "if": "Bash("}),
            "`if`",
        ),
        (
            json!({"type": "command", "command": "x", "onFailure": "maybe"}),
            "onFailure",
        ),
        (
            json!({"type": "command", "command": "x", "allowedEnvVars": "A"}),
            "allowedEnvVars",
        ),
        (json!({"type": "http"}), "no `url`"),
        (json!({"type": "http", "url": "ftp://x"}), "ftp"),
        (
            json!({"type": "http", "url": "http://x", "headers": []}),
            "headers",
        ),
        (
            json!({"type": "http", "url": "http://x", "async": true}),
            "async",
        ),
        (json!({"type": "prompt"}), "no `prompt`"),
        (
            json!({"type": "agent", "prompt": "x", "maxTurns": 0}),
            "maxTurns",
        ),
        (json!({"type": "mcp_tool", "server": "s"}), "mcp_tool"),
        (json!({"type": "callback"}), "registered by a program"),
        (json!({"type": "telepathy"}), "no handler of the type"),
    ] {
        let parsed = one("PreToolUse", handler.clone());
        assert!(parsed.hooks.is_empty(), "{handler}");
        let warnings = warnings(&parsed);
        assert!(warnings[0].contains(reason), "{handler}: {warnings:?}");
        assert!(
            warnings[0].contains("PreToolUse[0].hooks[0]"),
            "{warnings:?}"
        );
    }
    let parsed = one(
        "Stop",
        json!({"type": "command", "command": "x", "if": "Bash"}),
    );
    assert!(warnings(&parsed)[0].contains("Stop is not"), "{parsed:?}");
    let parsed = parse(json!({"PreToolUse": [{"matcher": "(", "hooks": []}, 7, {}]}));
    assert_eq!(parsed.warnings.len(), 3);
}

#[test]
fn what_is_written_otherwise_is_said() {
    for (event, handler, reason) in [
        (
            "Stop",
            json!({"type": "command", "command": "x", "colour": 1}),
            "`colour`",
        ),
        (
            "Stop",
            json!({"type": "command", "command": "x", "timeout": 9e9}),
            "cut to 3600 s",
        ),
        (
            "SessionEnd",
            json!({"type": "command", "command": "x", "timeout": 90}),
            "cut to 60 s",
        ),
        (
            "Stop",
            json!({"type": "command", "command": "x", "asyncRewake": true}),
            "asyncRewake",
        ),
        (
            "PreToolUse",
            json!({"type": "command", "command": "x", "if": "Write(*.md)"}),
            "Edit(*.md)",
        ),
        (
            "Stop",
            json!({"type": "agent", "prompt": "x", "allowedTools": []}),
            "allowedTools",
        ),
    ] {
        let parsed = one(event, handler);
        assert_eq!(parsed.hooks.len(), 1, "{reason}");
        let warnings = warnings(&parsed);
        assert!(warnings[0].contains(reason), "{warnings:?}");
    }
    let parsed = parse(json!({"Stop": [
        {"matcher": "x", "hooks": [{"type": "command", "command": "y"}]}]}));
    assert_eq!(parsed.hooks.len(), 1);
    assert!(warnings(&parsed)[0].contains("nothing to match"));
}

#[test]
fn timeouts_are_the_public_ones() {
    for (event, handler, seconds) in [
        (
            "PreToolUse",
            json!({"type": "command", "command": "x"}),
            600.0,
        ),
        (
            "PreToolUse",
            json!({"type": "http", "url": "http://x"}),
            600.0,
        ),
        ("PreToolUse", json!({"type": "prompt", "prompt": "x"}), 30.0),
        ("PreToolUse", json!({"type": "agent", "prompt": "x"}), 60.0),
        (
            "UserPromptSubmit",
            json!({"type": "command", "command": "x"}),
            30.0,
        ),
        (
            "SessionEnd",
            json!({"type": "command", "command": "x"}),
            1.5,
        ),
        (
            "SessionEnd",
            json!({"type": "command", "command": "x", "timeout": 20}),
            20.0,
        ),
        (
            "Stop",
            json!({"type": "command", "command": "x", "timeout": 0.5}),
            0.5,
        ),
        (
            "Stop",
            json!({"type": "command", "command": "x", "timeoutSec": 7}),
            7.0,
        ),
    ] {
        let parsed = one(event, handler);
        let timeout = parsed.hooks[0].timeout.as_secs_f64();
        assert!((timeout - seconds).abs() < 1e-9, "{event} {timeout}");
    }
}

#[test]
fn hosts_outside_of_the_lists_are_refused() {
    let handler = json!({"type": "http", "url": "https://b.example/x"});
    let file = json!({
        "allowedHttpHosts": ["b.example"],
        "hooks": {"Stop": [{"hooks": [handler]}]},
    });
    let free = HookOrigin::user("f");
    assert_eq!(parse_value(&file, &free).hooks.len(), 1);
    let bound = free.with_allowed_http_hosts(vec!["a.example".to_owned()]);
    let refused = parse_value(&file, &bound);
    assert!(refused.hooks.is_empty());
    assert!(warnings(&refused)[0].contains("allowedHttpHosts"));
    let file = json!({"allowedHttpHosts": "all", "hooks": {"Stop": [{"hooks": [handler]}]}});
    assert!(parse_value(&file, &HookOrigin::user("f")).hooks.is_empty());
}

#[test]
fn a_file_holds_so_many_handlers_and_no_more() {
    let handlers = vec![json!({"type": "command", "command": "x"}); MAX_FILE_HANDLERS + 1];
    let parsed = parse(json!({"Stop": [{"hooks": handlers}]}));
    assert_eq!(parsed.hooks.len(), MAX_FILE_HANDLERS);
    assert!(warnings(&parsed)[0].contains("256 handlers at most"));
}

#[test]
fn a_command_is_a_line_or_a_program_with_arguments() {
    let line = one("Stop", json!({"command": "a | b", "env": {"X": "y"}}));
    let env = BTreeMap::from([("X".to_owned(), "y".to_owned())]);
    let expected = HandlerAction::Shell {
        line: "a | b".into(),
        env,
    };
    assert_eq!(action(&line), expected);
    let program = one(
        "Stop",
        json!({"type": "command", "command": "a", "args": ["b c"]}),
    );
    let expected = HandlerAction::Program {
        program: "a".into(),
        args: vec!["b c".into()],
        env: BTreeMap::new(),
    };
    assert_eq!(action(&program), expected);
}
