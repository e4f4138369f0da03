//! Approvals of tools of servers, which hold for what was approved.

use async_trait::async_trait;
use halter_protocol::limits::DEFINITION_DIGITS;
use halter_protocol::{
    ApprovalAnswer, ApprovalChoice, ApprovalRequest, RuleEffect, RuleSource, ServedDefinition,
    SessionEvent, SessionEventPayload, SessionId, ToolCapabilities, ToolResult, ToolSpec, Turn,
};
use halter_runtime::{ApprovalHandler, Approvals};
use halter_testkit::events::{collect, collect_until};
use halter_testkit::{Harness, HarnessBuilder, Reply, ScriptedTool};
use halter_tools::policy::SourcedRule;
use halter_tools::{LateTools, Tool, ToolContext};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

const TOOL: &str = "mcp__x__echo";

/// A tool as a server defines it.
struct Served {
    tool: Arc<ScriptedTool>,
    definition: ServedDefinition,
}

#[async_trait]
impl Tool for Served {
    fn spec(&self) -> ToolSpec {
        let mut spec = self.tool.spec();
        spec.description = format!("Defined as {}.", self.definition.digest);
        spec.capabilities = ToolCapabilities {
            mutating: true,
            requires_approval: true,
            ..ToolCapabilities::default()
        };
        spec
    }

    fn served_definition(&self) -> Option<ServedDefinition> {
        Some(self.definition.clone())
    }

    async fn execute(&self, context: ToolContext, input: Value) -> anyhow::Result<ToolResult> {
        self.tool.execute(context, input).await
    }
}

fn digest(version: u8) -> String {
    char::from(version).to_string().repeat(DEFINITION_DIGITS)
}

fn served(name: &str, version: u8) -> Arc<dyn Tool> {
    Arc::new(Served {
        tool: ScriptedTool::new(name).build(),
        definition: ServedDefinition {
            digest: digest(version),
            destructive: false,
        },
    })
}

/// Says yes for the session, and keeps what was asked.
#[derive(Default)]
struct Person(Mutex<Vec<ApprovalRequest>>);

#[async_trait]
impl ApprovalHandler for Person {
    async fn decide(&self, _session_id: &SessionId, request: &ApprovalRequest) -> ApprovalAnswer {
        self.0.lock().unwrap().push(request.clone());
        ApprovalChoice::Session.into()
    }
}

impl Person {
    fn asked(&self) -> Vec<ApprovalRequest> {
        self.0.lock().unwrap().clone()
    }
}

fn call(tool: &str) -> [Reply; 2] {
    [Reply::new().tool_call(tool, json!({})), "done".into()]
}

fn harness(turns: usize, person: &Arc<Person>, late: &Arc<LateTools>) -> HarnessBuilder {
    let load = Reply::new().tool_call("tool_search", json!({"query": format!("select:{TOOL}")}));
    let replies = (0..turns).flat_map(|_| call(TOOL));
    let (person, late) = (person.clone(), late.clone());
    Harness::scripted([load].into_iter().chain(replies)).services(|services| {
        services.late_tools = Some(late);
        services.approvals = Approvals::Handler(person);
    })
}

fn warnings(events: &[SessionEvent]) -> Vec<String> {
    let told = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::Warning { message, .. } => Some(message.clone()),
        _ => None,
    });
    told.filter(|it| it.contains("approval")).collect()
}

#[tokio::test]
async fn a_server_that_changes_a_tool_loses_its_approval_and_the_user_is_told() {
    let (person, late) = (Arc::new(Person::default()), Arc::new(LateTools::new()));
    late.set("x", vec![served(TOOL, b'1'), served("mcp__x__other", b'1')]);
    let harness = harness(5, &person, &late).start();
    let session = harness.session().await;
    harness.run(&session, "call it").await;
    harness.run(&session, "again").await;
    assert_eq!(person.asked().len(), 1, "approved for the session");
    assert_eq!(
        person.asked()[0].rule(),
        Some(format!("{TOOL}@{}", digest(b'1')).as_str())
    );

    late.set("x", vec![served(TOOL, b'2'), served("mcp__x__other", b'1')]);
    let events = harness.run(&session, "once more").await;
    let told = format!(
        "the approval of the tool '{TOOL}' does not count any more: its server has changed it"
    );
    assert_eq!(warnings(&events), [told]);
    let asked = person.asked();
    assert_eq!(asked.len(), 2, "asked again");
    let why = &asked[1].objection.message;
    assert!(
        why.starts_with("the server has changed the tool 'mcp__x__echo' since"),
        "{why}"
    );

    // Another name: nothing was approved under it.
    late.set("x", vec![served("mcp__x__echo2", b'2')]);
    let events = harness.run(&session, "renamed").await;
    assert_eq!(warnings(&events).len(), 1, "{:?}", warnings(&events));
    assert!(warnings(&events)[0].contains("gives it another name"));

    // As it was approved, it is approved.
    late.set("x", vec![served(TOOL, b'2')]);
    harness.run(&session, "back").await;
    assert_eq!(person.asked().len(), 2);
}

#[tokio::test]
async fn a_resumed_session_asks_again_about_a_tool_that_has_changed_meanwhile() {
    let (person, late) = (Arc::new(Person::default()), Arc::new(LateTools::new()));
    late.set("x", vec![served(TOOL, b'1')]);
    let harness = harness(1, &person, &late).start();
    let session = harness.session().await;
    harness.run(&session, "call it").await;
    for (version, asked) in [(b'1', 1), (b'2', 2)] {
        let late = Arc::new(LateTools::new());
        late.set("x", vec![served(TOOL, version)]);
        let handler = person.clone();
        let next = harness
            .another_process(call(TOOL))
            .services(|services| {
                services.late_tools = Some(late);
                services.approvals = Approvals::Handler(handler);
            })
            .start();
        let resumed = next.resume(&session).await;
        next.run(&resumed, "call it").await;
        assert_eq!(person.asked().len(), asked);
        resumed.shutdown("done").await.unwrap();
    }
}

#[tokio::test]
async fn a_saved_rule_holds_for_the_definition_it_names() {
    for (version, asked) in [(b'1', 0), (b'2', 1)] {
        let (person, late) = (Arc::new(Person::default()), Arc::new(LateTools::new()));
        late.set("x", vec![served(TOOL, version)]);
        let rule = format!("{TOOL}@{}", digest(b'1'));
        let rule = SourcedRule::new(RuleEffect::Allow, &rule, RuleSource::User).unwrap();
        let harness = harness(1, &person, &late)
            .services(|services| services.policy.permissions.rules.push(rule))
            .start();
        harness.ask("call it").await;
        assert_eq!(person.asked().len(), asked);
    }
}

/// Says yes once the test lets it.
#[derive(Default)]
struct SlowPerson(Notify);

#[async_trait]
impl ApprovalHandler for SlowPerson {
    async fn decide(&self, _session_id: &SessionId, _request: &ApprovalRequest) -> ApprovalAnswer {
        self.0.notified().await;
        ApprovalChoice::Once.into()
    }
}

#[tokio::test]
async fn a_tool_that_changes_while_a_person_reads_the_question_is_not_run() {
    let late = Arc::new(LateTools::new());
    late.set("x", vec![served(TOOL, b'1')]);
    let person = Arc::new(SlowPerson::default());
    let handler = person.clone();
    let harness = harness(2, &Arc::default(), &late)
        .services(|services| services.approvals = Approvals::Handler(handler))
        .start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("call it")).await.unwrap();
    let mut events = Box::pin(turn);
    collect_until(&mut events, |event| {
        matches!(event, SessionEventPayload::ApprovalRequested(_))
    })
    .await;
    late.set("x", vec![served(TOOL, b'2')]);
    collect_until(&mut events, |event| {
        matches!(event, SessionEventPayload::ToolsChanged { .. })
    })
    .await;
    person.0.notify_one();
    let told = outcome_of_call(&collect(events).await);
    assert!(told.contains("since the call was approved"), "{told}");
    assert!(told.contains("PolicyDenied"), "{told}");

    // As it is now, it can be approved.
    person.0.notify_one();
    let told = outcome_of_call(&harness.run(&session, "again").await);
    assert!(told.contains("Ok"), "{told}");
}

/// How the call of a turn ended.
fn outcome_of_call(events: &[SessionEvent]) -> String {
    let mut ends = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::ToolExecutionCompleted { outcome } => Some(format!("{outcome:?}")),
        _ => None,
    });
    ends.next_back().unwrap()
}

/// A service may give an id again that an earlier call of the turn had.
#[tokio::test]
async fn a_tool_of_ours_is_not_taken_for_one_that_a_server_has_changed() {
    let (person, late) = (Arc::new(Person::default()), Arc::new(LateTools::new()));
    late.set("x", vec![served(TOOL, b'1')]);
    let load = Reply::new().tool_call("tool_search", json!({"query": format!("select:{TOOL}")}));
    let same = |tool: &str| Reply::new().tool_call_with_id("same", tool, json!({}));
    let harness = Harness::scripted([load, same(TOOL), same("plain"), "done".into()])
        .tool(ScriptedTool::new("plain").build())
        .services(|services| {
            services.late_tools = Some(late);
            services.approvals = Approvals::Handler(person);
        })
        .start();
    let session = harness.session().await;
    let events = harness.run(&session, "call both").await;
    let ended = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::ToolExecutionCompleted { outcome } => Some(outcome.result.is_ok()),
        _ => None,
    });
    assert_eq!(ended.collect::<Vec<_>>(), [true; 3]);
}
