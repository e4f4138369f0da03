//! Calls that a person decides about, in every way that can end.

use super::Recorded;
use super::scenarios::{harness, recorded, say, session, turn};
use async_trait::async_trait;
use futures::StreamExt;
use halter::prelude::*;
use halter_hooks::{Hook, HookEventName, HookResponse, PermissionDecision};
use halter_protocol::{
    Action, ApprovalAnswer, ApprovalChoice, ApprovalRequest, MemoryChange, Objection,
    PolicyVerdict, SeededIds, Task, TaskStatus, ToolResult, UserPart,
};
use halter_runtime::{ApprovalHandler, Approvals};
use halter_testkit::{Harness, HarnessBuilder, JudgedBy, Reply, ScriptedTool};
use halter_tools::policy::{Destination, RuleStore, RuleStoreError};
use serde_json::json;
use std::sync::Arc;

fn task(id: u64, status: TaskStatus) -> MemoryChange {
    MemoryChange::Task {
        task: Task {
            id,
            subject: "deploy".into(),
            description: Some("to the test system".into()),
            status,
        },
    }
}

/// A tool that would touch everything, and shows what it would change.
fn deploy() -> Arc<ScriptedTool> {
    let path = || "notes.txt".into();
    let touched = [
        Action::Run {
            command: "make deploy && git push".into(),
            directory: Some("deploy".into()),
        },
        Action::Read { path: path() },
        Action::Write { path: path() },
        Action::Reach {
            host: "test.example".into(),
        },
        Action::Ask,
        Action::Other { mutating: true },
    ];
    let tool = ScriptedTool::new("deploy").mutating();
    let tool = touched.into_iter().fold(tool, ScriptedTool::touches);
    tool.shows("--- notes.txt\n+++ notes.txt\n@@ -1 +1 @@\n-todo\n+done\n")
        .runs(|context, _| async move {
            context.remember(task(1, TaskStatus::Pending));
            context.remember(MemoryChange::FileSeen {
                path: "/project/notes.txt".into(),
                sha256: "0".repeat(64),
            });
            Ok(ToolResult::text("deployed"))
        })
        .build()
}

fn finish() -> Arc<ScriptedTool> {
    ScriptedTool::new("finish")
        .runs(|context, _| async move {
            context.remember(task(1, TaskStatus::Completed));
            Ok(ToolResult::Empty)
        })
        .build()
}

/// Deploys are asked about until they are approved for the session.
fn policy() -> Arc<JudgedBy> {
    Arc::new(JudgedBy::new(|judged| {
        let rule = "Bash(make deploy)".to_owned();
        match judged.call.name.as_str() {
            "deploy" if !judged.session_rules.contains(&rule) => PolicyVerdict::Ask(Objection {
                rule: "deploys".into(),
                message: "it changes another system".into(),
                fragment: Some("make deploy".into()),
                remedy: Some("permissions.allow".into()),
                parts: vec!["make deploy".into(), "git push".into()],
                always: Some(rule),
            }),
            "publish" => PolicyVerdict::Ask(Objection {
                always: Some("publish".into()),
                ..Objection::new("requires_approval", "the tool wants a person to approve it")
            }),
            _ => PolicyVerdict::Allow,
        }
    }))
}

/// A hook that asks about the end of the work.
fn hook() -> Hook {
    Hook::callback(HookEventName::PreToolUse, |input| async move {
        match input.tool_name() {
            Some("finish") => HookResponse::passthrough()
                .with_permission(PermissionDecision::Ask, Some("is it done?")),
            _ => HookResponse::passthrough(),
        }
    })
}

fn with_tools(builder: HarnessBuilder, approvals: Approvals) -> HarnessBuilder {
    builder
        .tool(deploy())
        .tool(finish())
        .tool(ScriptedTool::new("publish").requires_approval().build())
        .hook(hook())
        .services(|services| {
            services.policies = policy();
            services.approvals = approvals;
        })
}

fn call(tool: &str) -> Reply {
    Reply::new().tool_call(tool, json!({}))
}

/// Says something and resolves what is asked, in this order; the turn is
/// cancelled when there are no more answers.
async fn decide(
    harness: &Harness,
    session: &HalterSession,
    number: u32,
    answers: Vec<ApprovalAnswer>,
) {
    let parts = vec![UserPart::Text {
        text: "deploy it".to_owned(),
    }];
    let mut answers = answers.into_iter();
    let events = session.submit_turn(turn(harness, number, parts)).await;
    let mut events = events.unwrap();
    while let Some(event) = events.next().await {
        if let SessionEventPayload::ApprovalRequested(request) = event.unwrap().payload {
            match answers.next() {
                Some(answer) => {
                    let id = &request.approval_id;
                    session.resolve_approval(id, answer).await.unwrap();
                }
                None => drop(session.cancel().await.unwrap()),
            }
        }
    }
}

struct Yes;

#[async_trait]
impl ApprovalHandler for Yes {
    async fn decide(&self, _: &SessionId, _: &ApprovalRequest) -> ApprovalAnswer {
        ApprovalChoice::Once.into()
    }
}

/// Keeps nothing.
#[derive(Debug)]
struct Forgetful;

impl RuleStore for Forgetful {
    fn save_allow(&self, _rule: &str) -> Result<String, RuleStoreError> {
        Ok("nowhere".to_owned())
    }
}

/// Once, no with a reason, withdrawn, unattended, by a handler, interrupted,
/// for the session, for good with a rule of the user's own.
pub async fn choices() -> Recorded {
    let replies = [
        call("deploy"),
        call("finish"),
        "done".into(),
        call("deploy"),
    ];
    let first = harness(with_tools(Harness::scripted(replies), Approvals::Attended));
    let session = session(&first, "approval_choices").await;
    let no = ApprovalAnswer::deny("the tests fail");
    decide(&first, &session, 1, vec![ApprovalChoice::Once.into(), no]).await;
    decide(&first, &session, 2, Vec::new()).await;

    let next = |before: &Harness, replies: Vec<Reply>, approvals, seed| {
        let builder = before.another_process(replies);
        let builder = builder.services(move |services| {
            services.policies = policy();
            services.approvals = approvals;
            services.rule_store = Some(Arc::new(Forgetful));
            services.ids = Arc::new(SeededIds::new(seed));
        });
        builder.start()
    };
    let replies = vec![call("deploy"), "it was not approved".into()];
    let second = next(&first, replies, Approvals::Unattended, 2);
    let resumed = second.resume(&session).await;
    say(&second, &resumed, 3, "go on").await;

    let replies = vec![call("finish"), "done".into()];
    let third = next(&second, replies, Approvals::Handler(Arc::new(Yes)), 3);
    let resumed = third.resume(&session).await;
    say(&third, &resumed, 4, "finish it").await;

    let fourth = next(&third, vec![call("deploy")], Approvals::Attended, 4);
    let dying = fourth.resume(&session).await;
    let parts = vec![UserPart::Text {
        text: "deploy again".to_owned(),
    }];
    let mut events = dying.submit_turn(turn(&fourth, 5, parts)).await.unwrap();
    while let Some(event) = events.next().await {
        if event.unwrap().payload.kind() == "approval_requested" {
            break;
        }
    }

    let replies = vec![
        call("deploy"),
        call("deploy"),
        "done".into(),
        call("publish"),
        "published".into(),
    ];
    let fifth = next(&fourth, replies, Approvals::Attended, 5);
    let resumed = fifth.resume(&session).await;
    let for_session = vec![ApprovalChoice::Session.into()];
    decide(&fifth, &resumed, 6, for_session).await;
    let always = ApprovalAnswer::from(ApprovalChoice::Always).with_rule("publish");
    decide(&fifth, &resumed, 7, vec![always]).await;
    recorded(&fifth, &resumed).await
}

/// A command that would leave the sandbox, which a person lets out.
pub async fn leaves_sandbox() -> Recorded {
    let tool = ScriptedTool::new("shell").mutating();
    let tool = tool.touches(Action::LeaveSandbox);
    let policy = JudgedBy::new(|_| {
        let message = "it would run outside the sandbox";
        PolicyVerdict::Ask(Objection::new("leaves_sandbox", message))
    });
    let builder = Harness::scripted([call("shell"), "done".into()]).tool(tool.build());
    let builder = builder.services(|services| {
        services.policies = Arc::new(policy);
        services.approvals = Approvals::Handler(Arc::new(Yes));
    });
    let harness = harness(builder);
    let session = session(&harness, "leaves_sandbox").await;
    say(&harness, &session, 1, "try it outside").await;
    recorded(&harness, &session).await
}

/// A running call that asks about a host, and is denied it.
pub async fn asked_hosts() -> Recorded {
    let fetch = ScriptedTool::new("fetch").runs(|context, _| async move {
        let host = Destination::parse("files.invalid:443").map_err(anyhow::Error::msg)?;
        let refused = context.connect(&host).await.is_err();
        Ok(ToolResult::json(json!({"reached": !refused})))
    });
    let calls = [call("fetch"), "done".into()];
    let builder = Harness::scripted(calls).tool(fetch.build());
    let builder = builder.services(|services| {
        services.approvals = Approvals::Handler(Arc::new(No));
    });
    let harness = harness(builder);
    let session = session(&harness, "asked_hosts").await;
    say(&harness, &session, 1, "get it").await;
    recorded(&harness, &session).await
}

struct No;

#[async_trait]
impl ApprovalHandler for No {
    async fn decide(&self, _: &SessionId, _: &ApprovalRequest) -> ApprovalAnswer {
        ApprovalAnswer::deny("not that host")
    }
}
