//! Keys of skills that change what a turn may do, and skills that subagents
//! follow.

use crate::subagents::{ended, last_word, task};
use halter_protocol::{
    CommandDef, PermissionMode, ResourceSnapshot, SessionEvent, SessionEventPayload, SkillDef,
    SkillFork, Turn,
};
use halter_providers::Reply;
use halter_runtime::{ResourceCell, Resources};
use halter_testkit::{Harness, HarnessBuilder, collect};
use serde_json::json;
use std::sync::Arc;

fn skill(name: &str) -> SkillDef {
    let path = format!("/skills/{name}/SKILL.md");
    let body = "---\nname: x\n---\nDo $ARGUMENTS well.";
    SkillDef::new(format!("skl_{name}"), name, "How to.", path, body)
}

fn with(harness: HarnessBuilder, skill: SkillDef) -> Harness {
    let mut snapshot = ResourceSnapshot::empty();
    snapshot.revision = "keys".into();
    snapshot.skills.insert(skill.name.clone(), skill);
    harness
        .subagents()
        .tools(halter_tools::builtin_tools())
        .services(|services| {
            services.policy.permissions.mode = PermissionMode::Prompt;
            services.resources = ResourceCell::new(Resources {
                snapshot: Arc::new(snapshot),
                ..Resources::default()
            });
        })
        .start()
}

fn write() -> Reply {
    Reply::new().tool_call("write", json!({"path": "a.txt", "content": "a"}))
}

/// How calls of `write` ended.
fn writes(events: &[SessionEvent]) -> Vec<Result<(), String>> {
    let ends = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::ToolExecutionCompleted { outcome } => Some(outcome),
        _ => None,
    });
    let ends = ends.filter(|end| end.call.name.as_str() == "write");
    ends.map(|end| {
        end.result
            .as_ref()
            .map(drop)
            .map_err(|it| it.message.clone())
    })
    .collect()
}

#[tokio::test]
async fn what_a_skill_allows_is_not_asked_about_in_the_turn_that_uses_it() {
    let use_it = Reply::new().tool_call("skill", json!({"skill": "edit"}));
    let script = [
        write(),
        use_it,
        write(),
        "done".into(),
        write(),
        "done".into(),
    ];
    let skill = SkillDef {
        allowed_tools: vec!["Write".into()],
        ..skill("edit")
    };
    let harness = with(Harness::scripted(script), skill);
    let session = harness.session().await;
    // Nobody is there to ask, so what would be asked is refused.
    let first = writes(&harness.run(&session, "go").await);
    assert!(first[0].is_err(), "before its use: {first:?}");
    assert_eq!(first[1], Ok(()), "while it is in use");
    let next = writes(&harness.run(&session, "again").await);
    assert!(next[0].is_err(), "in the next turn: {next:?}");
}

#[tokio::test]
async fn what_a_skill_works_without_is_refused_in_the_turn_that_uses_it() {
    let use_it = Reply::new().tool_call("skill", json!({"skill": "look"}));
    let script = [use_it, write(), "done".into(), write(), "done".into()];
    let skill = SkillDef {
        disallowed_tools: vec!["Write".into()],
        ..skill("look")
    };
    let harness = with(Harness::scripted(Vec::<Reply>::new()), skill)
        .another_process(script)
        .services(|services| services.policy.permissions.mode = PermissionMode::FullAccess)
        .start();
    let session = harness.session().await;
    let first = writes(&harness.run(&session, "go").await);
    let why = first[0].as_ref().unwrap_err();
    assert!(why.contains("the skill 'look'"), "{why}");
    assert_eq!(writes(&harness.run(&session, "again").await), [Ok(())]);
}

#[tokio::test]
async fn what_a_command_works_without_is_refused_in_its_turn_alone() {
    for prompt in ["Look at it.", "Look at it: !`true`"] {
        let script = [write(), "done".into(), write(), "done".into()];
        let command = json!({"name": "look", "description": "Looks.", "prompt": prompt,
            "path": "/c/look.md", "disallowed_tools": ["Write(src/**)"], "runs_commands": true});
        let command: CommandDef = serde_json::from_value(command).unwrap();
        let harness = with(Harness::scripted(script), skill("other"));
        let services = harness.runtime().services();
        let resources = services.resources.get();
        let mut snapshot = ResourceSnapshot::clone(&resources.snapshot);
        snapshot.revision = "commands".into();
        snapshot.commands.insert("look".into(), command);
        harness.runtime().replace_resources(Resources {
            snapshot: Arc::new(snapshot),
            ..Resources::default()
        });
        let session = harness.session().await;
        let turn: Turn = session.invocation("/look").unwrap().unwrap();
        let first = writes(&collect(session.submit_turn(turn).await.unwrap()).await);
        let why = first[0].as_ref().unwrap_err();
        assert!(why.contains("the command 'look'"), "{why}");
        let next = writes(&harness.run(&session, "again").await);
        let why = next[0].as_ref().unwrap_err();
        assert!(!why.contains("the command"), "asked about as before: {why}");
    }
}

/// A skill that a subagent of the type `explore` follows.
fn forking() -> Harness {
    let skill = SkillDef {
        fork: Some(SkillFork {
            agent: Some("Explore".into()),
            background: false,
        }),
        ..skill("survey")
    };
    let answering = Harness::answering(|request| match task(request).as_str() {
        "Follow the skill 'survey': the roofs" => {
            let told = format!("{:?}", request.messages);
            assert!(told.contains("Do the roofs well."), "{told}");
            assert!(!request.tools.iter().any(|it| it.name.as_str() == "write"));
            Reply::from("three roofs")
        }
        _ if last_word(request).contains("three roofs") => Reply::from("done"),
        _ => Reply::new().tool_call("skill", json!({"skill": "survey", "args": "the roofs"})),
    });
    with(answering, skill)
}

#[tokio::test]
async fn a_skill_that_forks_is_followed_by_a_subagent_of_its_type() {
    let harness = forking();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    let report = ended(&events).remove(0);
    assert_eq!(report.last_message.as_deref(), Some("three roofs"));
    assert_eq!(report.agent_type.as_deref(), Some("Explore"));
    let told = format!("{:?}", harness.requests().last().unwrap().messages);
    assert!(!told.contains("Do the roofs well."), "its text stays below");
}

#[tokio::test]
async fn a_user_starts_a_skill_that_forks_through_the_same_tool() {
    let harness = forking();
    let session = harness.session().await;
    let turn: Turn = session.invocation("/survey the roofs").unwrap().unwrap();
    assert!(turn.uses.is_empty());
    let events = collect(session.submit_turn(turn).await.unwrap()).await;
    assert_eq!(ended(&events).len(), 1);
    let told = format!("{:?}", harness.requests()[0].messages);
    assert!(told.contains("call the tool `skill`"), "{told}");
}
