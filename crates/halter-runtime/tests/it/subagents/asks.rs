//! Approvals of children, answered at the root.

use super::{ended, last_word, spawn, spawn_and_wait, task};
use crate::support::{code, replayed};
use futures::StreamExt;
use halter_protocol::{
    ApprovalChoice, ApprovalRequest, PermissionMode, ResolvedBy, SessionEventPayload,
    SubagentState, Turn,
};
use halter_providers::Reply;
use halter_runtime::{Approvals, SessionHandle};
use halter_testkit::{EventsExt, Harness, ScriptedTool, collect, within};
use serde_json::json;
use std::sync::Arc;

/// A parent, a child and a grandchild that calls a tool which asks.
fn asking(approvals: Approvals) -> (Harness, Arc<ScriptedTool>) {
    let tool = ScriptedTool::new("send")
        .requires_approval()
        .mutating()
        .build();
    let harness = Harness::answering(|request| match task(request).as_str() {
        "deepest" if last_word(request) == "deepest" => Reply::new().tool_call("send", json!({})),
        "deep" if last_word(request) == "deep" => spawn_and_wait("deepest"),
        "go" if last_word(request) == "go" => spawn_and_wait("deep"),
        _ => Reply::from(last_word(request)),
    })
    .subagents()
    .tool(tool.clone())
    .services(|services| services.approvals = approvals)
    .start();
    (harness, tool)
}

async fn request(session: &SessionHandle) -> Arc<ApprovalRequest> {
    let mut events = session.subscribe();
    loop {
        let event = within("an event", events.next()).await.unwrap().unwrap();
        if let SessionEventPayload::ApprovalRequested(request) = event.payload {
            return request;
        }
    }
}

fn resolutions(events: &[halter_protocol::SessionEvent]) -> Vec<(ApprovalChoice, ResolvedBy)> {
    let resolved = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::ApprovalResolved { choice, by, .. } => {
            Some((choice.clone(), by.clone()))
        }
        _ => None,
    });
    resolved.collect()
}

#[tokio::test]
async fn the_request_of_a_grandchild_is_answered_at_the_root() {
    for (choice, ran) in [(ApprovalChoice::Once, 1), (ApprovalChoice::Deny, 0)] {
        let (harness, tool) = asking(Approvals::Attended);
        let session = harness.session().await;
        let turn = session.submit_turn(Turn::user("go")).await.unwrap();
        let request = request(&session).await;
        let origin = request.origin.clone().unwrap();
        assert_eq!(origin.agent_id.as_str(), "agent_1");
        let asker = harness
            .runtime()
            .read_session(&origin.session_id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(asker.blueprint().subagent.as_ref().unwrap().depth, 2);
        session
            .resolve_approval(&request.approval_id, choice.clone())
            .await
            .unwrap();
        let again = session
            .resolve_approval(&request.approval_id, choice.clone())
            .await;
        assert_eq!(code(&again.unwrap_err()), "approval_not_open");
        let events = collect(turn).await;
        assert_eq!(tool.calls().len(), ran);
        assert_eq!(resolutions(&events), [(choice.clone(), ResolvedBy::User)]);
        // The one who asked has it in its log, too.
        let below =
            halter_session::read_events(harness.store().as_ref(), &origin.session_id, 0, 1_000);
        assert_eq!(
            resolutions(&below.await.unwrap()),
            [(choice, ResolvedBy::User)]
        );
    }
}

#[tokio::test]
async fn a_parent_that_is_cancelled_while_a_child_asks_withdraws_the_question() {
    let (harness, tool) = asking(Approvals::Attended);
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    let request = request(&session).await;
    session.cancel().await.unwrap();
    let events = collect(turn).await;
    assert!(events.turn_error().code == "cancelled");
    within("the session settles", session.settled()).await;
    assert!(tool.calls().is_empty());
    let late = session
        .resolve_approval(&request.approval_id, ApprovalChoice::Once)
        .await;
    assert_eq!(code(&late.unwrap_err()), "approval_not_open");
    let all = replayed(&session).await;
    assert_eq!(
        resolutions(&all),
        [(ApprovalChoice::Deny, ResolvedBy::Withdrawn)]
    );
    assert_eq!(ended(&all)[0].state, SubagentState::Cancelled);
}

#[tokio::test]
async fn where_nobody_is_asked_above_nobody_is_asked_below() {
    let tool = ScriptedTool::new("send")
        .requires_approval()
        .mutating()
        .build();
    let harness = Harness::answering(|request| match task(request).as_str() {
        "work" if last_word(request) == "work" => Reply::new().tool_call("send", json!({})),
        "go" if last_word(request) == "go" => spawn(json!({"message": "work", "wait": true})),
        _ => Reply::from(last_word(request)),
    })
    .subagents()
    .tool(tool.clone())
    .services(|services| {
        services.approvals = Approvals::Attended;
        services.policy.permissions.mode = PermissionMode::Allow;
        let ask = halter_protocol::RuleEffect::Ask;
        let source = halter_protocol::RuleSource::User;
        let rule = halter_tools::policy::SourcedRule::new(ask, "send", source).unwrap();
        services.policy.permissions.rules.push(rule);
    })
    .start();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    assert!(tool.calls().is_empty());
    assert!(events.of_kind("approval_requested").is_empty());
}
