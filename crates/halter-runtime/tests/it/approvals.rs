//! Whether a call may run: judged before it starts, and asked about.

use crate::support::is_kind;
use async_trait::async_trait;
use halter_hooks::{Hook, HookEventName, HookResponse, PermissionDecision};
use halter_protocol::{
    Action, ApprovalAnswer, ApprovalChoice, ApprovalId, ApprovalRequest, Objection, PolicyVerdict,
    SessionEvent, SessionEventPayload, SessionId, ToolErrorCode, ToolResult, Turn,
};
use halter_runtime::limits::{APPROVAL_DIFF_BYTES, TOOL_DEADLINE};
use halter_runtime::{ApprovalHandler, Approvals, HalterError};
use halter_testkit::events::collect_until;
use halter_testkit::{
    EventsExt, Gate, Harness, HarnessBuilder, JudgedBy, Reply, ScriptedTool, collect, render,
    within,
};
use halter_tools::policy::{Destination, NetworkSwitch, RuleStore, RuleStoreError};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Decides after a gate, and keeps what was asked.
struct Person {
    gate: Gate,
    answer: ApprovalAnswer,
    asked: Mutex<Vec<ApprovalRequest>>,
}

impl Person {
    fn new(answer: impl Into<ApprovalAnswer>) -> Arc<Self> {
        Arc::new(Self {
            gate: Gate::new(),
            answer: answer.into(),
            asked: Mutex::default(),
        })
    }

    fn asked(&self) -> Vec<ApprovalRequest> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl ApprovalHandler for Person {
    async fn decide(&self, _session_id: &SessionId, request: &ApprovalRequest) -> ApprovalAnswer {
        self.asked.lock().unwrap().push(request.clone());
        self.gate.pass().await;
        self.answer.clone()
    }
}

/// Everything is asked about, unless the tool's name was approved as a rule.
fn asking() -> Arc<JudgedBy> {
    Arc::new(JudgedBy::new(|judged| {
        let tool = judged.call.name.to_string();
        if judged.session_rules.contains(&tool) {
            return PolicyVerdict::Allow;
        }
        PolicyVerdict::Ask(Objection {
            always: Some(tool.clone()),
            ..Objection::new("risky", format!("{tool} is risky"))
        })
    }))
}

fn calls(tools: &[&str]) -> [Reply; 2] {
    let reply = tools.iter().fold(Reply::new(), |reply, tool| {
        reply.tool_call(*tool, json!({}))
    });
    [reply, "done".into()]
}

fn harness(tools: &[&str], person: &Arc<Person>) -> HarnessBuilder {
    let handler = person.clone();
    Harness::scripted(calls(tools)).services(|services| {
        services.policies = asking();
        services.approvals = Approvals::Handler(handler);
    })
}

/// Whoever reads the events decides.
fn attended(replies: impl IntoIterator<Item = Reply>) -> HarnessBuilder {
    Harness::scripted(replies).services(|services| {
        services.policies = asking();
        services.approvals = Approvals::Attended;
    })
}

fn requested(events: &[SessionEvent]) -> ApprovalId {
    let request = events.iter().rev().find_map(|event| match &event.payload {
        SessionEventPayload::ApprovalRequested(request) => Some(request.approval_id.clone()),
        _ => None,
    });
    request.unwrap()
}

fn code(error: &anyhow::Error) -> &str {
    error.downcast_ref::<HalterError>().unwrap().code()
}

#[tokio::test]
async fn a_custom_tool_is_judged_before_it_starts() {
    let fetch = ScriptedTool::new("fetch")
        .touches(Action::Reach {
            host: "files.example".into(),
        })
        .build();
    let harness = Harness::scripted(calls(&["fetch"]))
        .tool(fetch.clone())
        .services(|services| services.policy.network = NetworkSwitch::On)
        .start();
    let events = harness.ask("get it").await;
    let error = events.only_result().as_ref().unwrap_err().clone();
    assert_eq!(error.code, ToolErrorCode::PolicyDenied);
    assert_eq!(
        error.message,
        "cannot reach 'files.example': policy.network.allowed_hosts does not list it"
    );
    assert!(fetch.calls().is_empty());
    assert!(!events.kinds().contains(&"tool_execution_started"));

    let harness = Harness::scripted(calls(&["fetch"]))
        .tool(fetch.clone())
        .services(|services| {
            services.policy.network = NetworkSwitch::On;
            services.policy.allowed_hosts = vec!["files.example".into()];
        })
        .start();
    harness.ask("get it").await;
    assert_eq!(fetch.calls().len(), 1);
}

#[tokio::test]
async fn what_the_network_policy_refuses_while_a_call_runs_is_in_the_log() {
    let fetch = ScriptedTool::new("fetch")
        .runs(|context, _| async move {
            let host = Destination::parse("10.0.0.1:80").map_err(anyhow::Error::msg)?;
            context.connect(&host).await?;
            Ok(ToolResult::Empty)
        })
        .build();
    let harness = Harness::scripted(calls(&["fetch"]))
        .tool(fetch)
        .services(|services| {
            services.policy.network = NetworkSwitch::On;
            services.policy.allowed_hosts = vec!["*".into()];
        })
        .start();
    let events = harness.ask("get it").await;
    let refused = events.iter().find_map(|event| match &event.payload {
        SessionEventPayload::NetworkRefused { host, rule, .. } => Some((&**host, &**rule)),
        _ => None,
    });
    assert_eq!(refused, Some(("10.0.0.1:80", "network.private")));
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PolicyDenied);
}

#[tokio::test]
async fn a_tool_that_panics_when_asked_what_it_would_do_is_not_run() {
    struct Broken(Arc<ScriptedTool>);
    #[async_trait]
    impl halter_tools::Tool for Broken {
        fn spec(&self) -> halter_protocol::ToolSpec {
            self.0.spec()
        }
        async fn execute(
            &self,
            context: halter_tools::ToolContext,
            input: serde_json::Value,
        ) -> anyhow::Result<ToolResult> {
            self.0.execute(context, input).await
        }
        fn actions(&self, _: &serde_json::Value) -> Vec<Action> {
            panic!("no idea")
        }
    }
    let inner = ScriptedTool::new("broken").build();
    let harness = Harness::scripted(calls(&["broken"]))
        .tool(Arc::new(Broken(inner.clone())))
        .start();
    let events = harness.ask("go").await;
    let error = events.only_result().as_ref().unwrap_err().clone();
    assert!(error.message.contains("no idea"), "{error}");
    assert!(inner.calls().is_empty());
}

/// A read would start while the model speaks; asked about, it waits for the
/// answer to be whole and for the person.
#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_person_as_long_as_it_takes() {
    let speaking = Gate::new();
    let person = Person::new(ApprovalChoice::Once);
    let look = ScriptedTool::new("look").read_only().build();
    let reply = Reply::new()
        .tool_call("look", json!({}))
        .gate(&speaking)
        .text("and more");
    let answerer = person.clone();
    let harness = Harness::scripted([reply, "done".into()])
        .tool(look.clone())
        .services(|services| {
            services.policies = asking();
            services.approvals = Approvals::Handler(answerer);
        })
        .start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the call", speaking.reached()).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(person.asked().is_empty(), "the model still speaks");
    speaking.open();
    within("the question", person.gate.reached()).await;
    tokio::time::advance(TOOL_DEADLINE + Duration::from_secs(3600)).await;
    assert!(look.calls().is_empty());
    person.gate.open();
    let events = collect(turn).await;
    assert_eq!(look.calls().len(), 1);
    assert!(
        render(&events)
            .contains("approval_requested c1 risky\napproval_resolved once by handler\n")
    );
    assert!(events.only_result().is_ok());
}

#[tokio::test]
async fn a_denial_reaches_the_model_in_words() {
    let person = Person::new(ApprovalAnswer::deny("use the staging server"));
    person.gate.open();
    let send = ScriptedTool::new("send").mutating().build();
    let harness = harness(&["send"], &person).tool(send.clone()).start();
    let events = harness.ask("go").await;
    let error = events.only_result().as_ref().unwrap_err().clone();
    assert_eq!(error.code, ToolErrorCode::PolicyDenied);
    assert_eq!(
        error.message,
        "not run: denied: use the staging server (asked because: send is risky)"
    );
    assert!(send.calls().is_empty());
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
}

#[tokio::test]
async fn with_nobody_to_ask_a_hooks_question_is_a_denial() {
    let hook = Hook::callback(HookEventName::PreToolUse, |_| async {
        HookResponse::passthrough().with_permission(PermissionDecision::Ask, Some("production"))
    });
    let send = ScriptedTool::new("send").mutating().build();
    let harness = Harness::scripted(calls(&["send"]))
        .tool(send.clone())
        .hook(hook)
        .start();
    let events = harness.ask("go").await;
    let error = events.only_result().as_ref().unwrap_err().clone();
    assert_eq!(error.code, ToolErrorCode::HookBlocked);
    assert_eq!(
        error.message,
        "not run: a person has to approve this, and nobody can be asked: production"
    );
    assert!(events.kinds().contains(&"approval_requested"));
    assert!(send.calls().is_empty());
}

#[tokio::test]
async fn a_denial_by_policy_outranks_a_hook_that_asks() {
    let hook = Hook::callback(HookEventName::PreToolUse, |_| async {
        HookResponse::passthrough().with_permission(PermissionDecision::Ask, None::<String>)
    });
    let person = Person::new(ApprovalChoice::Once);
    let deny = JudgedBy::new(|_| PolicyVerdict::Deny(Objection::new("never", "never")));
    let harness = harness(&["send"], &person)
        .tool(ScriptedTool::new("send").build())
        .hook(hook)
        .services(|services| services.policies = Arc::new(deny))
        .start();
    let events = harness.ask("go").await;
    assert_eq!(events.only_result().as_ref().unwrap_err().message, "never");
    assert!(person.asked().is_empty());
}

#[tokio::test]
async fn questions_are_asked_one_at_a_time_in_call_order() {
    let person = Person::new(ApprovalChoice::Once);
    let [first, second] = ["first", "second"].map(|it| ScriptedTool::new(it).read_only().build());
    let harness = harness(&["first", "second"], &person)
        .tool(first)
        .tool(second)
        .start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the first question", person.gate.reached()).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(person.asked().len(), 1);
    person.gate.open();
    collect(turn).await;
    let asked: Vec<String> = person
        .asked()
        .iter()
        .map(|request| request.call.name.to_string())
        .collect();
    assert_eq!(asked, ["first", "second"]);
}

#[tokio::test]
async fn a_cancel_withdraws_the_question() {
    let person = Person::new(ApprovalChoice::Once);
    let send = ScriptedTool::new("send").mutating().build();
    let harness = harness(&["send"], &person).tool(send.clone()).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    collect_until(&mut turn, is_kind("approval_requested")).await;
    within("the question", person.gate.reached()).await;
    assert!(session.cancel().await.unwrap());
    let events = collect(turn).await;
    let told = "approval_resolved deny by withdrawn: the turn ended before it was answered\n";
    assert!(render(&events).contains(told), "{}", render(&events));
    assert_eq!(events.turn_error().code, "cancelled");
    // Too late.
    person.gate.open();
    assert!(send.calls().is_empty());
    assert_eq!(
        harness.run(&session, "again").await.kinds().last(),
        Some(&"turn_completed")
    );
}

#[tokio::test]
async fn a_question_open_at_a_crash_is_denied() {
    let person = Person::new(ApprovalChoice::Once);
    let send = ScriptedTool::new("send").mutating().build();
    let harness = harness(&["send"], &person).tool(send.clone()).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    collect_until(&mut turn, is_kind("approval_requested")).await;

    let next = harness.another_process(["fine"]).start();
    let resumed = next.resume(&session).await;
    let log = resumed.replay().await.unwrap();
    let told = "approval_resolved deny by interrupted: the process ended before it was answered\n";
    assert!(render(&log).contains(told), "{}", render(&log));
    let events = next.run(&resumed, "go on").await;
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
    assert!(send.calls().is_empty());
}

#[tokio::test]
async fn whoever_reads_the_events_decides_and_only_once() {
    let send = ScriptedTool::new("send").mutating().build();
    let harness = attended(calls(&["send"])).tool(send.clone()).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    let events = collect_until(&mut turn, is_kind("approval_requested")).await;
    let id = requested(&events);

    let other = ApprovalId::from("apr_none");
    let unknown = session.resolve_approval(&other, ApprovalChoice::Once);
    assert_eq!(code(&unknown.await.unwrap_err()), "approval_not_open");
    // Nothing keeps rules here.
    let always = session.resolve_approval(&id, ApprovalChoice::Always);
    assert_eq!(code(&always.await.unwrap_err()), "choice_not_offered");
    assert!(send.calls().is_empty());

    session
        .resolve_approval(&id, ApprovalChoice::Once)
        .await
        .unwrap();
    let again = session.resolve_approval(&id, ApprovalChoice::Deny);
    assert_eq!(code(&again.await.unwrap_err()), "approval_not_open");
    let events = collect(turn).await;
    assert!(render(&events).contains("approval_resolved once by user\n"));
    assert_eq!(send.calls().len(), 1);
}

#[tokio::test]
async fn a_denial_is_told_with_its_reason() {
    let send = ScriptedTool::new("send").mutating().build();
    let harness = attended(calls(&["send"])).tool(send.clone()).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    let id = requested(&collect_until(&mut turn, is_kind("approval_requested")).await);
    let no = ApprovalAnswer::deny("not on a Friday");
    session.resolve_approval(&id, no).await.unwrap();
    let events = collect(turn).await;
    assert_eq!(
        events.only_result().as_ref().unwrap_err().message,
        "not run: denied by the user: not on a Friday (asked because: send is risky)"
    );
    assert!(send.calls().is_empty());
}

/// The second call of the answer, the next turn and the next process are
/// covered by what was approved for the session.
#[tokio::test]
async fn what_is_approved_for_the_session_is_not_asked_again() {
    let send = ScriptedTool::new("send").read_only().build();
    let replies = [calls(&["send", "send"]), calls(&["send"])].concat();
    let harness = attended(replies).tool(send.clone()).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    let id = requested(&collect_until(&mut turn, is_kind("approval_requested")).await);
    let session_rule = ApprovalChoice::Session;
    session.resolve_approval(&id, session_rule).await.unwrap();
    let events = collect(turn).await;
    assert!(render(&events).contains("approval_resolved session by user send\n"));
    assert!(!events.kinds().contains(&"approval_requested"));
    let events = harness.run(&session, "again").await;
    assert!(!events.kinds().contains(&"approval_requested"));
    assert_eq!(send.calls().len(), 3);
    session.shutdown("done").await.unwrap();

    let next = harness.another_process(calls(&["send"]));
    let next = next
        .tool(send.clone())
        .services(|services| services.policies = asking())
        .start();
    let resumed = next.resume(&session).await;
    let events = next.run(&resumed, "and again").await;
    assert!(!events.kinds().contains(&"approval_requested"));
    assert_eq!(send.calls().len(), 4);
}

#[tokio::test]
async fn a_rule_that_cannot_be_used_is_said_once() {
    let answer = ApprovalAnswer::from(ApprovalChoice::Session).with_rule("no rule");
    let person = Person::new(answer);
    person.gate.open();
    let send = ScriptedTool::new("send").build();
    let tools = ["send", "send", "send"];
    let harness = harness(&tools, &person).tool(send.clone()).start();
    let events = harness.ask("go").await;
    let warnings = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::Warning { message } => Some(message.as_str()),
        _ => None,
    });
    let warnings: Vec<&str> = warnings.collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("the rule `no rule`, approved for this session, cannot"));
    assert_eq!(person.asked().len(), tools.len());
}

#[tokio::test]
async fn unattended_the_model_is_told_what_would_have_been_needed() {
    let send = ScriptedTool::new("send").mutating().build();
    let harness = Harness::scripted(calls(&["send"]))
        .tool(send.clone())
        .services(|services| services.policies = asking())
        .start();
    let events = harness.ask("go").await;
    assert_eq!(
        events.only_result().as_ref().unwrap_err().message,
        "not run: a person has to approve this, and nobody can be asked: send is risky; \
         it would run with the permission rule `send`"
    );
    assert!(render(&events).contains("approval_resolved deny by unattended\n"));
    assert!(send.calls().is_empty());
}

/// A tool that requires approval is asked about, unless a hook has no
/// objection.
#[tokio::test]
async fn a_tool_that_requires_approval_is_asked_about() {
    for event in [
        None,
        Some(HookEventName::PreToolUse),
        Some(HookEventName::PermissionRequest),
    ] {
        let deploy = ScriptedTool::new("deploy").requires_approval().build();
        let mut builder = Harness::scripted(calls(&["deploy"])).tool(deploy.clone());
        if let Some(event) = event {
            builder = builder.hook(Hook::callback(event, |_| async {
                HookResponse::passthrough()
                    .with_permission(PermissionDecision::Allow, None::<String>)
            }));
        }
        let events = builder.start().ask("go").await;
        let ran = event.is_some();
        assert_eq!(deploy.calls().len(), usize::from(ran), "{event:?}");
        assert_eq!(!events.kinds().contains(&"approval_requested"), ran);
    }
}

/// A hook's word is not enough where the policy itself asks.
#[tokio::test]
async fn a_hook_cannot_approve_what_the_policy_asks_about() {
    for event in [HookEventName::PreToolUse, HookEventName::PermissionRequest] {
        let hook = Hook::callback(event, |_| async {
            HookResponse::passthrough().with_permission(PermissionDecision::Allow, None::<String>)
        });
        let person = Person::new(ApprovalChoice::Deny);
        person.gate.open();
        let send = ScriptedTool::new("send").build();
        let harness = harness(&["send"], &person).tool(send.clone()).hook(hook);
        harness.start().ask("go").await;
        assert_eq!(person.asked().len(), 1);
        assert!(send.calls().is_empty());
    }
}

#[tokio::test]
async fn a_hook_denies_before_anybody_is_asked() {
    let hook = Hook::callback(HookEventName::PermissionRequest, |input| async move {
        let rule = input.string_field("rule").unwrap_or_default().to_owned();
        HookResponse::passthrough().with_permission(PermissionDecision::Deny, Some(rule))
    });
    let person = Person::new(ApprovalChoice::Once);
    let harness = harness(&["send"], &person)
        .tool(ScriptedTool::new("send").build())
        .hook(hook)
        .start();
    let events = harness.ask("go").await;
    let error = events.only_result().as_ref().unwrap_err().clone();
    assert_eq!(error.code, ToolErrorCode::HookBlocked);
    assert_eq!(error.message, "a hook denied this call: risky");
    assert!(person.asked().is_empty());
}

#[tokio::test]
async fn hooks_hear_of_what_was_refused() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = heard.clone();
    let hook = Hook::callback(HookEventName::PermissionDenied, move |input| {
        let reason = input.string_field("reason").unwrap_or_default().to_owned();
        kept.lock().unwrap().push(reason);
        async { HookResponse::passthrough().with_additional_context("Ask for a deploy key.") }
    });
    let person = Person::new(ApprovalAnswer::deny("no"));
    person.gate.open();
    let harness = harness(&["send"], &person)
        .tool(ScriptedTool::new("send").build())
        .hook(hook)
        .start();
    let events = harness.ask("go").await;
    assert_eq!(
        *heard.lock().unwrap(),
        ["not run: denied: no (asked because: send is risky)"]
    );
    assert!(render(&events).contains("Ask for a deploy key."));
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
}

#[tokio::test]
async fn a_handler_that_panics_denies() {
    struct Broken;
    #[async_trait]
    impl ApprovalHandler for Broken {
        async fn decide(&self, _: &SessionId, _: &ApprovalRequest) -> ApprovalAnswer {
            panic!("no idea")
        }
    }
    let send = ScriptedTool::new("send").build();
    let harness = Harness::scripted(calls(&["send"]))
        .tool(send.clone())
        .services(|services| {
            services.policies = asking();
            services.approvals = Approvals::Handler(Arc::new(Broken));
        })
        .start();
    let events = harness.ask("go").await;
    let error = events.only_result().as_ref().unwrap_err().clone();
    assert!(error.message.contains("the approval handler panicked"));
    assert!(send.calls().is_empty());
}

/// Keeps rules, or fails to.
#[derive(Debug, Default)]
struct Rules {
    saved: Mutex<Vec<String>>,
    broken: bool,
}

impl RuleStore for Rules {
    fn save_allow(&self, rule: &str) -> Result<String, RuleStoreError> {
        if self.broken {
            return Err(RuleStoreError::Unwritable {
                place: "rules.toml".to_owned(),
                reason: "the disk is full".to_owned(),
            });
        }
        self.saved.lock().unwrap().push(rule.to_owned());
        Ok("rules.toml".to_owned())
    }
}

#[tokio::test]
async fn what_is_approved_for_good_is_saved_as_the_rule_that_was_chosen() {
    for broken in [false, true] {
        let rules = Arc::new(Rules {
            broken,
            ..Rules::default()
        });
        let kept = rules.clone();
        let send = ScriptedTool::new("send").build();
        let harness = attended(calls(&["send"]))
            .tool(send.clone())
            .services(|services| services.rule_store = Some(kept))
            .start();
        let session = harness.session().await;
        let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
        let id = requested(&collect_until(&mut turn, is_kind("approval_requested")).await);
        let always = || ApprovalAnswer::from(ApprovalChoice::Always);

        let wrong = session
            .resolve_approval(&id, always().with_rule("send("))
            .await;
        assert_eq!(code(&wrong.unwrap_err()), "rule_invalid");
        let wide = session
            .resolve_approval(&id, always().with_rule("Bash(*)"))
            .await;
        assert_eq!(code(&wide.unwrap_err()), "rule_too_wide");
        let narrow = always().with_rule("Bash(send one)");
        session.resolve_approval(&id, narrow).await.unwrap();
        let events = collect(turn).await;
        let told = render(&events);
        assert!(told.contains("approval_resolved always by user Bash(send one)\n"));
        assert_eq!(send.calls().len(), 1);
        match broken {
            false => assert_eq!(*rules.saved.lock().unwrap(), ["Bash(send one)"]),
            true => assert!(told.contains("the rule holds for this session"), "{told}"),
        }
    }
}

/// A person sees so much of a change, and that there is more.
#[tokio::test]
async fn a_change_is_shown_up_to_a_limit() {
    for (bytes, whole) in [
        (APPROVAL_DIFF_BYTES, true),
        (APPROVAL_DIFF_BYTES + 1, false),
    ] {
        let person = Person::new(ApprovalChoice::Once);
        person.gate.open();
        let send = ScriptedTool::new("send").shows(&"x".repeat(bytes)).build();
        let harness = harness(&["send"], &person).tool(send).start();
        harness.ask("go").await;
        let diff = person.asked()[0].diff.clone().unwrap();
        assert!(diff.starts_with(&"x".repeat(APPROVAL_DIFF_BYTES)));
        assert_eq!(diff.ends_with('x'), whole, "{bytes}");
    }
}
