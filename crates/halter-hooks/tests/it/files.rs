//! Handlers of hook files, run: what they are told, what their answers do, and
//! what hostile ones cannot do.

use crate::support::{World, call};
use async_trait::async_trait;
use halter_hooks::file::{
    AgentQuestion, HookOrigin, HookOutside, HttpAnswer, HttpCall, PromptQuestion, parse_value,
};
use halter_hooks::limits::{
    AGENT_TURNS, COMMAND_GRACE, MAX_OUTPUT_BYTES, SIDE_BY_SIDE, TIMEOUT_SLACK,
};
use halter_hooks::{
    Hook, HookEventName, HookResponse, Hooks, PermissionDecision, RegisteredHookPriority,
};
use halter_protocol::{HookHandlerType, HookRunStatus};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Answers as it was told, and remembers what it was asked.
#[derive(Default)]
struct Outside {
    http: Mutex<Vec<HttpCall>>,
    prompts: Mutex<Vec<PromptQuestion>>,
    agents: Mutex<Vec<AgentQuestion>>,
    answer: String,
    status: u16,
}

#[async_trait]
impl HookOutside for Outside {
    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        BTreeMap::from([("PATH".into(), path), ("SEEN".into(), "yes".into())])
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        (name == "DEPLOY_TOKEN").then(|| "t0ken".into())
    }

    async fn send(&self, call: HttpCall) -> Result<HttpAnswer, String> {
        self.http.lock().unwrap().push(call);
        Ok(HttpAnswer {
            status: self.status,
            body: self.answer.clone().into_bytes(),
        })
    }

    async fn ask(&self, question: PromptQuestion) -> Result<String, String> {
        self.prompts.lock().unwrap().push(question);
        Ok(self.answer.clone())
    }

    async fn look(&self, question: AgentQuestion) -> Result<String, String> {
        self.agents.lock().unwrap().push(question);
        Ok(self.answer.clone())
    }
}

fn world(directory: &Path) -> (World, Arc<Outside>) {
    answering(directory, 200, "")
}

fn answering(directory: &Path, status: u16, answer: &str) -> (World, Arc<Outside>) {
    let outside = Arc::new(Outside {
        answer: answer.to_owned(),
        status,
        ..Outside::default()
    });
    let mut world = World::new();
    world.cwd = directory.to_owned();
    world.project_dir = directory.to_owned();
    world.outside = outside.clone();
    (world, outside)
}

fn files(origin: &HookOrigin, events: Value) -> Hooks {
    let mut hooks = Hooks::new();
    let warnings = hooks.add_file(parse_value(&json!({"hooks": events}), origin));
    assert_eq!(warnings, []);
    hooks
}

fn on(event: &str, handlers: Value) -> Hooks {
    files(
        &HookOrigin::user("hooks.json"),
        json!({event: [{"hooks": handlers}]}),
    )
}

fn guard(command: &str) -> Hooks {
    on(
        "PreToolUse",
        json!([{"type": "command", "command": command}]),
    )
}

#[tokio::test]
async fn a_command_reads_public_names_and_sees_a_scrubbed_environment() {
    let directory = tempfile::tempdir().unwrap();
    let (world, _) = world(directory.path());
    let command = "cat > seen.json; env > env.txt";
    let handler = json!([{"type": "command", "command": command,
        "allowedEnvVars": ["DEPLOY_TOKEN", "NOT_SET"], "env": {"OWN": "${CLAUDE_PROJECT_DIR}/x"}}]);
    let hooks = files(
        &HookOrigin::plugin("demo".into(), "/plugins/demo", "hooks.json").with_data("/data/demo"),
        json!({"PreToolUse": [{"matcher": "Bash", "hooks": handler}]}),
    );
    let verdict = world.pre_tool_use(&hooks).await;
    assert_eq!(verdict.denial(), None);
    let seen = std::fs::read_to_string(directory.path().join("seen.json")).unwrap();
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["tool_name"], "Bash");
    assert_eq!(seen["tool_input"], json!({"command": "ls"}));
    assert_eq!(seen["plugin_id"], "demo");
    let variables = std::fs::read_to_string(directory.path().join("env.txt")).unwrap();
    let own = format!("OWN={}/x", directory.path().display());
    for line in [
        "SEEN=yes",
        "DEPLOY_TOKEN=t0ken",
        "CLAUDE_PLUGIN_ROOT=/plugins/demo",
        "CLAUDE_PLUGIN_DATA=/data/demo",
        own.as_str(),
    ] {
        assert!(
            variables.lines().any(|it| it == line),
            "{line}\n{variables}"
        );
    }
    assert!(!variables.contains("HOME="), "{variables}");
    assert!(!variables.contains("CARGO"), "{variables}");
    let runs = world.seen.completed();
    assert_eq!(runs[0].handler_type, HookHandlerType::Command);
    assert_eq!(runs[0].hook_id, "demo/PreToolUse/0");
}

#[tokio::test]
async fn a_program_gets_its_arguments_without_a_shell() {
    let directory = tempfile::tempdir().unwrap();
    let (world, _) = world(directory.path());
    let handler = json!([{"type": "command", "command": "sh",
        "args": ["-c", "printf %s \"$1\" > out", "sh", "${CLAUDE_PLUGIN_ROOT}/a b; c"]}]);
    let hooks = files(
        &HookOrigin::plugin("demo".into(), "/r", "hooks.json"),
        json!({"PreToolUse": [{"hooks": handler}]}),
    );
    assert_eq!(world.pre_tool_use(&hooks).await.denial(), None);
    let out = std::fs::read_to_string(directory.path().join("out")).unwrap();
    assert_eq!(out, "/r/a b; c");
}

#[tokio::test]
async fn statuses_and_answers_of_commands_decide() {
    let directory = tempfile::tempdir().unwrap();
    for (command, denial) in [
        ("true", None),
        ("echo words", None),
        ("echo no >&2; exit 2", Some("no")),
        ("exit 3", Some("status 3")),
        ("kill -9 $$", Some("signal 9")),
        ("no-such-program-here", Some("status 127")),
        (
            "echo '{\"decision\":\"block\",\"reason\":\"r\"}'",
            Some("r"),
        ),
        ("echo '{\"decision\":\"approve\"}'", None),
        ("echo '{'", Some("JSON that cannot be read")),
        ("printf '{\\377'", Some("no text")),
    ] {
        let (world, _) = world(directory.path());
        let verdict = world.pre_tool_use(&guard(command)).await;
        let said = verdict.denial();
        match denial {
            None => assert_eq!(said, None, "{command}"),
            Some(part) => assert!(said.clone().unwrap().contains(part), "{command}: {said:?}"),
        }
    }
}

#[tokio::test]
async fn what_a_failure_means_can_be_said() {
    let directory = tempfile::tempdir().unwrap();
    let failing = |event: &str, on_failure: &str| {
        on(
            event,
            json!([{"type": "command", "command": "exit 1", "onFailure": on_failure}]),
        )
    };
    let (world, _) = world(directory.path());
    let lenient = world.pre_tool_use(&failing("PreToolUse", "continue")).await;
    assert_eq!(lenient.denial(), None);
    let strict = failing("Stop", "block");
    let verdict = world
        .dispatch(&strict, HookEventName::Stop, json!({}))
        .await;
    assert!(verdict.block.unwrap().contains("status 1"));
    let usual = on("Stop", json!([{"type": "command", "command": "exit 1"}]));
    let verdict = world.dispatch(&usual, HookEventName::Stop, json!({})).await;
    assert_eq!(verdict.block, None);
    assert_eq!(
        world.seen.statuses().last().unwrap().1,
        HookRunStatus::Failed
    );
}

#[tokio::test]
async fn rewrites_are_mapped_back_and_later_layers_see_them() {
    let directory = tempfile::tempdir().unwrap();
    let (world, _) = world(directory.path());
    let rewrite = "echo '{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\
        \"updatedInput\":{\"command\":\"ls -l\",\"timeout\":5,\"description\":\"x\"}}}'";
    let plugin = HookOrigin::plugin("demo".into(), "/r", "p");
    let group = |command: &str| {
        json!({"PreToolUse": [{"hooks": [
        {"type": "command", "command": command}]}]})
    };
    let mut hooks = files(&HookOrigin::user("u"), group("cat > user.json"));
    hooks = hooks.merged(&files(&plugin, group(rewrite))).unwrap();
    let verdict = world.pre_tool_use(&hooks).await;
    let expected = json!({"command": "ls -l", "timeout_ms": 5});
    assert_eq!(verdict.updated_input, Some(expected));
    let seen = std::fs::read_to_string(directory.path().join("user.json")).unwrap();
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(
        seen["tool_input"],
        json!({"command": "ls -l", "timeout": 5})
    );
}

#[tokio::test]
async fn rewrites_of_one_layer_that_differ_fail_the_call_and_both_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let (world, _) = world(directory.path());
    let rewrite = |to: &str| {
        let output = json!({"hookSpecificOutput": {"updatedInput": {"command": to}}});
        json!({"type": "command", "command": format!("echo '{output}'")})
    };
    let hooks = on("PreToolUse", json!([rewrite("a"), rewrite("b")]));
    let denial = world.pre_tool_use(&hooks).await.denial().unwrap();
    assert!(denial.contains("`user/PreToolUse/0`"), "{denial}");
    assert!(denial.contains("`user/PreToolUse/1`"), "{denial}");
}

#[tokio::test]
async fn the_strongest_answer_wins_and_any_block_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let permission = |decision: &str| {
        let output = json!({"hookSpecificOutput": {"permissionDecision": decision}});
        json!({"type": "command", "command": format!("echo '{output}'")})
    };
    let (world, _) = world(directory.path());
    for (decisions, merged) in [
        (vec!["allow", "ask"], PermissionDecision::Ask),
        (vec!["ask", "deny", "allow"], PermissionDecision::Deny),
        (vec!["allow", "allow"], PermissionDecision::Allow),
    ] {
        let handlers: Vec<Value> = decisions.iter().map(|it| permission(it)).collect();
        let verdict = world.pre_tool_use(&on("PreToolUse", json!(handlers))).await;
        assert_eq!(verdict.permission, merged, "{decisions:?}");
    }
    let handlers = json!([permission("allow"), {"type": "command", "command": "exit 2"}]);
    let verdict = world.pre_tool_use(&on("PreToolUse", handlers)).await;
    assert!(verdict.block.is_some());
}

#[tokio::test]
async fn matcher_if_and_once_choose_the_runs() {
    let directory = tempfile::tempdir().unwrap();
    let (world, _) = world(directory.path());
    let count = json!({"type": "command", "command": "echo x >> ran"});
    let with = |extra: Value| {
        let mut handler = count.clone();
        let extra = extra.as_object().unwrap().clone();
        handler.as_object_mut().unwrap().extend(extra);
        handler
    };
    let ran = |directory: &Path| {
        let text = std::fs::read_to_string(directory.join("ran")).unwrap_or_default();
        let _ = std::fs::remove_file(directory.join("ran"));
        text.lines().count()
    };
    for (group, times) in [
        (json!({"matcher": "Bash", "hooks": [count]}), 2),
        (json!({"matcher": "Read", "hooks": [count]}), 0),
        (json!({"hooks": [with(json!({"if": "Bash(ls *)"}))]}), 2),
        (json!({"hooks": [with(json!({"if": "Bash(rm *)"}))]}), 0),
        (json!({"hooks": [with(json!({"once": true}))]}), 1),
        // The same command twice is one command.
        (json!({"hooks": [count, count]}), 2),
    ] {
        let hooks = files(&HookOrigin::user("u"), json!({"PreToolUse": [group]}));
        world.pre_tool_use(&hooks).await;
        world.pre_tool_use(&hooks).await;
        assert_eq!(ran(directory.path()), times, "{group}");
    }
}

#[tokio::test]
async fn a_server_decides_by_its_answer_and_gets_only_allowed_variables() {
    let directory = tempfile::tempdir().unwrap();
    let handler = json!([{"type": "http", "url": "http://localhost:1/x", "timeout": 3,
        "headers": {"Authorization": "Bearer $DEPLOY_TOKEN", "X": "$PATH"},
        "allowedEnvVars": ["DEPLOY_TOKEN"]}]);
    for (status, answer, denial) in [
        (200, "", None),
        (204, "{}", None),
        (
            200,
            "{\"decision\": \"block\", \"reason\": \"r\"}",
            Some("r"),
        ),
        (200, "{", Some("cannot be read")),
        (500, "{\"decision\": \"approve\"}", Some("status 500")),
        (302, "", Some("status 302")),
    ] {
        let (world, outside) = answering(directory.path(), status, answer);
        let verdict = world.pre_tool_use(&on("PreToolUse", handler.clone())).await;
        let said = verdict.denial();
        assert_eq!(
            said.is_some(),
            denial.is_some(),
            "{status} {answer} {said:?}"
        );
        assert!(
            said.unwrap_or_default()
                .contains(denial.unwrap_or_default())
        );
        let calls = outside.http.lock().unwrap();
        let headers = [("Authorization", "Bearer t0ken"), ("X", "")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(calls[0].headers, headers);
        assert_eq!(calls[0].timeout, Duration::from_secs(3));
        assert_eq!(calls[0].max_answer_bytes, MAX_OUTPUT_BYTES);
        let body: Value = serde_json::from_slice(&calls[0].body).unwrap();
        assert_eq!(body["tool_name"], "Bash");
    }
}

#[tokio::test]
async fn models_are_asked_and_say_yes_or_no() {
    let directory = tempfile::tempdir().unwrap();
    let prompt = json!([{"type": "prompt", "prompt": "Judge: $ARGUMENTS!", "model": "fast"}]);
    let agent = json!([{"type": "agent", "prompt": "Look.", "maxTurns": AGENT_TURNS + 1}]);
    for (answer, denial) in [
        ("{\"ok\": true}", None),
        (
            "{\"ok\": false, \"reason\": \"not tested\"}",
            Some("not tested"),
        ),
        ("Fine by me.", Some("did not answer with")),
    ] {
        for handler in [&prompt, &agent] {
            let (world, outside) = answering(directory.path(), 200, answer);
            let verdict = world.pre_tool_use(&on("PreToolUse", handler.clone())).await;
            let said = verdict.denial();
            assert_eq!(said.is_some(), denial.is_some(), "{answer} {said:?}");
            assert!(
                said.unwrap_or_default()
                    .contains(denial.unwrap_or_default())
            );
            for question in outside.prompts.lock().unwrap().iter() {
                assert!(question.prompt.starts_with("Judge: {"), "{question:?}");
                assert!(question.prompt.ends_with("}!"), "{question:?}");
                assert_eq!(question.model.as_deref(), Some("fast"));
            }
            for question in outside.agents.lock().unwrap().iter() {
                assert!(question.prompt.starts_with("Look.\n\n{"), "{question:?}");
                assert_eq!(question.max_turns, AGENT_TURNS);
            }
        }
    }
}

#[tokio::test]
async fn fifty_commands_run_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let (world, _) = world(directory.path());
    // Each ends when all have begun, which never happens one after another.
    let waiting = |index: usize| {
        let line = format!(
            ": > here.{index}; set -- here.*; \
             while test $# -lt 50; do sleep 0.05; set -- here.*; done"
        );
        json!({"type": "command", "command": line, "timeout": 300})
    };
    let handlers: Vec<Value> = (0..50).map(waiting).collect();
    assert!(handlers.len() <= SIDE_BY_SIDE);
    let verdict = world.pre_tool_use(&on("PreToolUse", json!(handlers))).await;
    assert_eq!(verdict.denial(), None);
    assert_eq!(world.seen.completed().len(), 50);
}

#[tokio::test]
async fn more_handlers_than_run_side_by_side_wait_their_turn() {
    let directory = tempfile::tempdir().unwrap();
    let (world, _) = world(directory.path());
    let handlers: Vec<Value> = (0..=SIDE_BY_SIDE)
        .map(|index| json!({"type": "command", "command": format!("exit 2 # {index}")}))
        .collect();
    let verdict = world.pre_tool_use(&on("PreToolUse", json!(handlers))).await;
    assert_eq!(verdict.block.unwrap().lines().count(), SIDE_BY_SIDE + 1);
}

#[tokio::test]
async fn programs_hooks_run_around_those_of_files() {
    let directory = tempfile::tempdir().unwrap();
    let (world, _) = world(directory.path());
    let mut hooks = guard("true");
    for (owner, priority) in [
        ("after", RegisteredHookPriority::AfterPlugins),
        ("before", RegisteredHookPriority::BeforePlugins),
    ] {
        let hook = Hook::callback(HookEventName::PreToolUse, |_| async {
            HookResponse::passthrough()
        });
        hooks.register(owner.into(), priority, hook).unwrap();
    }
    world.pre_tool_use(&hooks).await;
    let order: Vec<String> = world
        .seen
        .started()
        .into_iter()
        .map(|run| run.hook_id)
        .collect();
    assert_eq!(
        order,
        [
            "before/PreToolUse/0",
            "user/PreToolUse/0",
            "after/PreToolUse/0"
        ]
    );
}

#[tokio::test]
async fn one_that_runs_beside_decides_nothing_and_reports_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let (world, _) = world(directory.path());
    let handler = json!([{"type": "command", "async": true, "command":
        "echo '{\"decision\":\"block\",\"reason\":\"too late\"}'"}]);
    let hooks = on("PostToolUse", handler);
    let verdict = world
        .dispatch(&hooks, HookEventName::PostToolUse, call("shell"))
        .await;
    assert_eq!(verdict.block, None);
    assert_eq!(
        world.seen.words(),
        ["error: a block has no effect: the hook runs beside the turn"]
    );
}

mod hostile {
    use super::*;

    /// What a guard that behaves so says, and how long it took.
    async fn denial(command: &str, timeout: f64) -> (Option<String>, Duration) {
        let directory = tempfile::tempdir().unwrap();
        let (world, _) = world(directory.path());
        let handler = json!([{"type": "command", "command": command, "timeout": timeout}]);
        let started = Instant::now();
        let verdict = world.pre_tool_use(&on("PreToolUse", handler)).await;
        assert_eq!(world.seen.completed().len(), 1);
        (verdict.denial(), started.elapsed())
    }

    #[tokio::test]
    async fn one_that_writes_as_much_as_it_may_is_heard_and_more_is_a_failure() {
        let write = |bytes: usize| format!("head -c {bytes} /dev/zero | tr '\\0' x");
        let (said, _) = denial(&write(MAX_OUTPUT_BYTES), 300.0).await;
        assert_eq!(said, None);
        let (said, _) = denial(&write(MAX_OUTPUT_BYTES + 1), 300.0).await;
        assert!(said.unwrap().contains("wrote more than"));
        // It would write for ever, and is not left to until its time is over.
        let (said, _) = denial("yes", 300.0).await;
        assert!(said.unwrap().contains("wrote more than"));
    }

    #[tokio::test]
    async fn one_that_never_reads_gets_no_hold_on_the_turn() {
        let directory = tempfile::tempdir().unwrap();
        let (world, _) = world(directory.path());
        let mut payload = call("shell");
        payload["tool_input"]["command"] = "x".repeat(4 * 1024 * 1024).into();
        let verdict = world
            .dispatch(
                &guard("exec <&-; exit 2"),
                HookEventName::PreToolUse,
                payload,
            )
            .await;
        assert!(verdict.block.is_some());
    }

    #[tokio::test]
    async fn one_that_sleeps_past_its_timeout_denies_then() {
        let (said, took) = denial("sleep 600", 0.2).await;
        assert!(said.unwrap().contains("within 200ms"));
        assert!(took < Duration::from_secs(300), "{took:?}");
        // One that ignores being told to end is killed: it never ends itself.
        let (said, took) = denial("trap '' TERM; while :; do sleep 0.1; done", 0.2).await;
        assert!(said.unwrap().contains("within 200ms"));
        assert!(took >= COMMAND_GRACE, "{took:?}");
        // That is over before the handler is given up.
        assert!(COMMAND_GRACE < TIMEOUT_SLACK);
    }

    #[tokio::test]
    async fn one_that_kills_its_group_harms_itself_alone() {
        let (said, _) = denial("kill -9 0", 300.0).await;
        assert!(said.unwrap().contains("signal 9"));
    }

    #[tokio::test]
    async fn one_that_forks_away_is_not_waited_for_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (world, _) = world(directory.path());
        let command = "(sh -c 'echo $$ > pid; exec sleep 900' &) ; while [ ! -s pid ]; do :; done";
        let started = Instant::now();
        let verdict = world.pre_tool_use(&guard(command)).await;
        assert_eq!(verdict.denial(), None);
        assert!(started.elapsed() < Duration::from_secs(300));
        let pid = std::fs::read_to_string(directory.path().join("pid")).unwrap();
        let process = Path::new("/proc").join(pid.trim());
        let alive =
            || std::fs::read_to_string(process.join("comm")).is_ok_and(|it| it == "sleep\n");
        let deadline = Instant::now() + Duration::from_secs(60);
        while alive() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!alive());
    }

    #[tokio::test]
    async fn one_that_deletes_itself_denies_from_then_on() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("hook.sh"), "rm hook.sh").unwrap();
        let (world, _) = world(directory.path());
        let hooks = guard("sh hook.sh");
        assert_eq!(world.pre_tool_use(&hooks).await.denial(), None);
        let denial = world.pre_tool_use(&hooks).await.denial().unwrap();
        assert!(denial.contains("hook.sh"), "{denial}");
    }
}
