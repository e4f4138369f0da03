//! Hooks in the frontmatter of skills and agent files: when they hold.

use crate::subagents::{last_word, spawn, task};
use halter_protocol::SessionEventPayload::HookCompleted;
use halter_protocol::{
    AgentDef, HookRunStatus, ResourceSnapshot, SessionEvent, SessionEventPayload, SkillDef,
};
use halter_providers::{ProviderRequest, Reply};
use halter_runtime::{ResourceCell, Resources};
use halter_testkit::{Harness, HarnessBuilder, ScriptedTool};
use serde_json::{Value, json};
use std::sync::Arc;

/// A hook that refuses every call of `peek`.
fn guard() -> Value {
    let refuse = json!({"type": "command", "command": "cat > /dev/null; echo $CLAUDE_SKILL_DIR no peeking >&2; exit 2"});
    json!({"PreToolUse": [{"matcher": "peek", "hooks": [refuse]}]})
}

fn skill(name: &str, hooks: Value) -> SkillDef {
    let path = format!("/skills/{name}/SKILL.md");
    SkillDef {
        hooks: Some(hooks),
        ..SkillDef::new(format!("skl_{name}"), name, "How to.", path, "Do it well.")
    }
}

fn with(harness: HarnessBuilder, skills: Vec<SkillDef>, agents: Vec<AgentDef>) -> Harness {
    let mut snapshot = ResourceSnapshot::empty();
    snapshot.revision = "scoped".into();
    for skill in skills {
        snapshot.skills.insert(skill.name.clone(), skill);
    }
    for agent in agents {
        snapshot.agents.insert(agent.name.clone(), agent);
    }
    harness
        .subagents()
        .tools(halter_tools::builtin_tools())
        .tool(ScriptedTool::new("peek").build())
        .services(|services| {
            services.resources = ResourceCell::new(Resources {
                snapshot: Arc::new(snapshot),
                ..Resources::default()
            });
        })
        .start()
}

fn use_skill(name: &str) -> Reply {
    Reply::new().tool_call("skill", json!({"skill": name}))
}

fn peek() -> Reply {
    Reply::new().tool_call("peek", json!({}))
}

/// The ids of hooks that ran, with how they ended.
fn runs(events: &[SessionEvent]) -> Vec<(String, HookRunStatus)> {
    let runs = events.iter().filter_map(|event| match &event.payload {
        HookCompleted { run } => Some((run.hook_id.clone(), run.status.clone())),
        _ => None,
    });
    runs.collect()
}

/// What became of the calls of `peek`.
fn peeks(events: &[SessionEvent]) -> Vec<Result<(), String>> {
    let ends = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::ToolExecutionCompleted { outcome } => Some(outcome),
        _ => None,
    });
    let ends = ends.filter(|end| end.call.name.as_str() == "peek");
    ends.map(|end| match &end.result {
        Ok(_) => Ok(()),
        Err(error) => Err(error.message.clone()),
    })
    .collect()
}

#[tokio::test]
async fn hooks_of_a_skill_hold_once_it_is_used_and_after_a_resume() {
    let script = [peek(), use_skill("careful"), peek(), "done".into()];
    let harness = with(
        Harness::scripted(script),
        vec![skill("careful", guard())],
        Vec::new(),
    );
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    let peeks = peeks(&events);
    assert_eq!(peeks[0], Ok(()), "not in use yet");
    let refused = peeks[1].as_ref().unwrap_err();
    assert!(refused.contains("/skills/careful no peeking"), "{refused}");
    let blocked = (
        "skill:careful/PreToolUse/0".to_owned(),
        HookRunStatus::Blocked,
    );
    assert_eq!(runs(&events), std::slice::from_ref(&blocked));
    session.shutdown("bye").await.unwrap();

    let later = harness.another_process([peek(), "done".into()]).start();
    let resumed = later.resume(&session).await;
    assert_eq!(runs(&later.run(&resumed, "again").await), [blocked]);
}

#[tokio::test]
async fn hooks_that_run_once_do_so_in_a_session_however_often_its_skill_is_used() {
    let note = json!({"type": "command", "command": "cat > /dev/null", "once": true});
    let hooks = json!({"PostToolUse": [{"matcher": "peek", "hooks": [note]}]});
    let script = [
        use_skill("noting"),
        peek(),
        peek(),
        use_skill("noting"),
        peek(),
        "done".into(),
    ];
    let harness = with(
        Harness::scripted(script),
        vec![skill("noting", hooks)],
        Vec::new(),
    );
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    assert_eq!(peeks(&events).len(), 3);
    assert_eq!(
        runs(&events),
        [(
            "skill:noting/PostToolUse/0".to_owned(),
            HookRunStatus::Completed
        )]
    );
}

/// The log of the only subagent.
async fn log_of_child(harness: &Harness, events: &[SessionEvent]) -> Vec<SessionEvent> {
    let child = events.iter().find_map(|event| match &event.payload {
        SessionEventPayload::SubagentStarted { subagent } => Some(subagent.session_id.clone()),
        _ => None,
    });
    let reader = harness.runtime().read_session(&child.unwrap()).await;
    reader.unwrap().unwrap().replay().await.unwrap()
}

fn has_peeked(request: &ProviderRequest) -> bool {
    format!("{:?}", request.messages).contains("no peeking")
}

/// The parent hands `work` on, the child peeks and reports.
fn working(agent_type: &'static str) -> HarnessBuilder {
    Harness::answering(move |request| match task(request).as_str() {
        "work" if last_word(request) == "look again" => Reply::from("looked again"),
        "work" if !has_peeked(request) => peek(),
        "work" => Reply::from("looked"),
        _ if last_word(request) == "go" => {
            spawn(json!({"message": "work", "agent_type": agent_type, "wait": true}))
        }
        _ => Reply::from("done"),
    })
}

#[tokio::test]
async fn hooks_of_an_agent_hold_while_it_works_and_its_stop_is_that_of_a_subagent() {
    let mut hooks = guard();
    let stop = json!({"type": "command", "once": true,
        "command": "grep -q SubagentStop || exit 0; echo look again >&2; exit 2"});
    hooks["Stop"] = json!([{"hooks": [stop]}]);
    let agent = AgentDef {
        hooks: Some(hooks),
        ..AgentDef::new("demo:reviewer", "Reviews.", "You review.")
    };
    // A bare name works where it is unique.
    let harness = with(working("reviewer"), Vec::new(), vec![agent]);
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    assert_eq!(runs(&events), [], "the parent has none of them");
    let below = log_of_child(&harness, &events).await;
    assert!(peeks(&below)[0].is_err());
    assert_eq!(
        runs(&below),
        [
            (
                "agent:demo:reviewer/PreToolUse/0".to_owned(),
                HookRunStatus::Blocked
            ),
            (
                "agent:demo:reviewer/SubagentStop/0".to_owned(),
                HookRunStatus::Blocked
            ),
        ]
    );
}

#[tokio::test]
async fn what_guards_calls_above_guards_those_of_subagents() {
    let mut hooks = guard();
    let noting = json!({"type": "command", "command": "cat > /dev/null"});
    hooks["Stop"] = json!([{"hooks": [noting]}]);
    let harness = with(
        Harness::answering(move |request| match task(request).as_str() {
            "work" if !has_peeked(request) => peek(),
            "work" => Reply::from("looked"),
            _ if last_word(request) == "go" => use_skill("careful"),
            _ if !format!("{:?}", request.messages).contains("looked") => {
                spawn(json!({"message": "work", "agent_type": "general", "wait": true}))
            }
            _ => Reply::from("done"),
        }),
        vec![skill("careful", hooks)],
        Vec::new(),
    );
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    assert_eq!(
        runs(&events),
        [("skill:careful/Stop/0".to_owned(), HookRunStatus::Completed)]
    );
    let below = log_of_child(&harness, &events).await;
    assert_eq!(
        runs(&below),
        [(
            "skill:careful/PreToolUse/0".to_owned(),
            HookRunStatus::Blocked
        )],
        "its calls are guarded, and its end is its own"
    );
}

#[tokio::test]
async fn other_hooks_of_a_skill_hold_once_resources_are_replaced() {
    let script = [use_skill("careful"), "done".into(), peek(), "done".into()];
    let harness = with(
        Harness::scripted(script),
        vec![skill("careful", guard())],
        Vec::new(),
    );
    let session = harness.session().await;
    harness.run(&session, "go").await;
    let mut snapshot = ResourceSnapshot::empty();
    snapshot.revision = "later".into();
    let open =
        json!({"PostToolUse": [{"hooks": [{"type": "command", "command": "cat > /dev/null"}]}]});
    let replaced = skill("careful", open);
    snapshot.skills.insert(replaced.name.clone(), replaced);
    harness.runtime().replace_resources(Resources {
        snapshot: Arc::new(snapshot),
        ..Resources::default()
    });
    let events = harness.run(&session, "again").await;
    assert_eq!(peeks(&events), [Ok(())]);
    assert_eq!(
        runs(&events),
        [(
            "skill:careful/PostToolUse/0".to_owned(),
            HookRunStatus::Completed
        )]
    );
}
