//! Hooks around children, and agents that files define.

use super::{ended, last_word, spawn, task};
use crate::support::Diary;
use halter_hooks::{Hook, HookEventName, HookResponse};
use halter_protocol::{AgentDef, PermissionMode, ResourceSnapshot, SkillDef, SubagentState};
use halter_providers::Reply;
use halter_runtime::{ResourceCell, Resources};
use halter_testkit::Harness;
use serde_json::json;
use std::sync::Arc;

fn noting(event: HookEventName, diary: &Diary) -> Hook {
    let diary = diary.clone();
    Hook::callback(event, move |input| {
        let name = input.string_field("agent_type").unwrap_or("-").to_owned();
        let kind = input.event_name.to_string();
        diary.note(format!("{kind} {name}"));
        let first = diary
            .entries()
            .iter()
            .filter(|it| it.starts_with("SubagentStop"))
            .count()
            == 1;
        async move {
            match kind.as_str() {
                "SubagentStart" => HookResponse::passthrough().with_system_message("mind the step"),
                "SubagentStop" if first => HookResponse::block("look again"),
                _ => HookResponse::passthrough(),
            }
        }
    })
}

#[tokio::test]
async fn hooks_hear_of_a_childs_start_and_end_and_of_its_calls() {
    let diary = Diary::default();
    let harness = Harness::answering(|request| match task(request).as_str() {
        "work" if last_word(request) == "look again" => Reply::from("looked again"),
        "work" if request.messages.len() < 4 => Reply::new().tool_call("peek", json!({})),
        "work" => Reply::from("looked"),
        _ if last_word(request) == "go" => {
            spawn(json!({"message": "work", "agent_type": "general", "wait": true}))
        }
        _ => Reply::from("done"),
    })
    .subagents()
    .tool(halter_testkit::ScriptedTool::new("peek").build())
    .hook(noting(HookEventName::SubagentStart, &diary))
    .hook(noting(HookEventName::SubagentStop, &diary))
    .hook(noting(HookEventName::Stop, &diary))
    .hook(noting(HookEventName::PreToolUse, &diary))
    .start();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    let report = ended(&events).remove(0);
    assert_eq!(report.last_message.as_deref(), Some("looked again"));
    let heard = diary.entries();
    assert_eq!(
        heard
            .iter()
            .filter(|it| *it == "SubagentStart general")
            .count(),
        1
    );
    assert_eq!(
        heard
            .iter()
            .filter(|it| *it == "SubagentStop general")
            .count(),
        2
    );
    // The child's own call, and the parent's.
    assert_eq!(
        heard
            .iter()
            .filter(|it| it.starts_with("PreToolUse"))
            .count(),
        2
    );
    assert_eq!(heard.iter().filter(|it| it.starts_with("Stop")).count(), 1);
    let of_child = harness
        .requests()
        .into_iter()
        .find(|it| task(it) == "work")
        .unwrap();
    assert!(format!("{:?}", of_child.messages).contains("mind the step"));
}

#[tokio::test]
async fn an_agent_file_is_a_type_with_its_tools_and_its_words() {
    let mut agent = AgentDef::new(
        "reviewer",
        "reviews changes",
        "You review what others wrote.",
    );
    agent.tools = Some(vec!["Read".into(), "Bash(git diff:*)".into()]);
    agent.disallowed_tools = vec!["Bash".into()];
    agent.permission_mode = Some(PermissionMode::ReadOnly);
    let mut snapshot = ResourceSnapshot::empty();
    snapshot.revision = "agents".into();
    snapshot.agents.insert("reviewer".into(), agent);
    let harness = Harness::answering(|request| match task(request).as_str() {
        "work" => Reply::from("reviewed"),
        _ if last_word(request) == "go" => {
            spawn(json!({"message": "work", "agent_type": "reviewer", "wait": true}))
        }
        _ => Reply::from("done"),
    })
    .subagents()
    .tools(halter_tools::builtin_tools())
    .services(|services| {
        services.resources = ResourceCell::new(Resources {
            snapshot: Arc::new(snapshot),
            ..Resources::default()
        });
    })
    .start();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    assert_eq!(ended(&events)[0].state, SubagentState::Completed);
    let requests = harness.requests();
    let spec = requests[0]
        .tools
        .iter()
        .find(|it| it.name.as_str() == "spawn_agent")
        .unwrap();
    assert!(
        spec.description.contains("\nreviewer: reviews changes"),
        "{}",
        spec.description
    );
    let of_child = requests.iter().find(|it| task(it) == "work").unwrap();
    let names: Vec<&str> = of_child.tools.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["read"]);
    assert!(
        of_child
            .prompt
            .text()
            .contains("You review what others wrote.")
    );
}

#[tokio::test]
async fn an_agent_file_says_which_model_works_how_freely_how_long_and_with_which_skills() {
    let mut agent = AgentDef::new("careful", "works with care", "You take care.");
    agent.model = Some("thorough".into());
    agent.permission_mode = Some(PermissionMode::ReadOnly);
    agent.max_turns = Some(2);
    agent.skills = vec!["style".into(), "absent".into()];
    let style = SkillDef::new(
        "skl_1",
        "style",
        "How to write.",
        "/s/SKILL.md",
        "Plain words.",
    );
    let mut snapshot = ResourceSnapshot::empty();
    snapshot.revision = "agents".into();
    snapshot.agents.insert("careful".into(), agent);
    snapshot.skills.insert("style".into(), style);
    let harness = Harness::answering(|request| match task(request).as_str() {
        "work" => Reply::new().tool_call("write", json!({"path": "new.txt", "content": "x"})),
        _ if last_word(request) == "go" => {
            spawn(json!({"message": "work", "agent_type": "careful", "wait": true}))
        }
        _ => Reply::from("done"),
    })
    .subagents()
    .tools(halter_tools::builtin_tools())
    .model("thorough")
    .services(|services| {
        services.resources = ResourceCell::new(Resources {
            snapshot: Arc::new(snapshot),
            ..Resources::default()
        });
    })
    .start();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    let report = ended(&events).remove(0);
    assert_eq!(report.error.unwrap().code, "max_turns_reached");
    let requests = harness.requests();
    let of_child: Vec<_> = requests.iter().filter(|it| task(it) == "work").collect();
    assert_eq!(of_child.len(), 2, "maxTurns");
    assert_eq!(of_child[0].model.id.as_str(), "thorough");
    let prompt = of_child[0].prompt.text();
    assert!(prompt.contains("# Skill style\n\nPlain words."), "{prompt}");
    let refused = last_word(of_child[1]);
    assert!(refused.contains("read_only"), "{refused}");
    assert!(!harness.workspace().path().join("new.txt").exists());
}
