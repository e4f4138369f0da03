//! Whether a call may run: judged before it starts, and asked about.

use crate::support::is_kind;
use async_trait::async_trait;
use halter_hooks::{Hook, HookEventName, HookResponse, PermissionDecision};
use halter_protocol::{
    Action, Answer, Objection, PolicyVerdict, Question, QuestionSubject, SessionId, ToolErrorCode,
    ToolResult, Turn,
};
use halter_runtime::Answerer;
use halter_runtime::limits::TOOL_DEADLINE;
use halter_testkit::events::collect_until;
use halter_testkit::{
    EventsExt, Gate, Harness, HarnessBuilder, JudgedBy, Reply, ScriptedTool, collect, render,
    within,
};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Answers after a gate, and keeps what was asked.
struct Person {
    gate: Gate,
    answer: Answer,
    asked: Mutex<Vec<Question>>,
}

impl Person {
    fn new(answer: Answer) -> Arc<Self> {
        Arc::new(Self {
            gate: Gate::new(),
            answer,
            asked: Mutex::default(),
        })
    }

    fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Answerer for Person {
    async fn answer(&self, _session_id: &SessionId, question: &Question) -> Answer {
        self.asked.lock().unwrap().push(question.clone());
        self.gate.pass().await;
        self.answer.clone()
    }
}

/// Everything is asked about.
fn asking() -> Arc<JudgedBy> {
    Arc::new(JudgedBy::new(|call, _| {
        PolicyVerdict::Ask(Objection::new("risky", format!("{} is risky", call.name)))
    }))
}

fn calls(tools: &[&str]) -> [Reply; 2] {
    let reply = tools.iter().fold(Reply::new(), |reply, tool| {
        reply.tool_call(*tool, json!({}))
    });
    [reply, "done".into()]
}

fn harness(tools: &[&str], person: &Arc<Person>) -> HarnessBuilder {
    let answerer = person.clone();
    Harness::scripted(calls(tools)).services(|services| {
        services.policies = asking();
        services.answerer = answerer;
    })
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
        .start();
    let events = harness.ask("get it").await;
    let error = events.only_result().as_ref().unwrap_err().clone();
    assert_eq!(error.code, ToolErrorCode::PolicyDenied);
    assert_eq!(
        error.message,
        "cannot reach 'files.example': it is not among the allowed hosts (there are none)"
    );
    assert!(fetch.calls().is_empty());
    assert!(!events.kinds().contains(&"tool_execution_started"));

    let harness = Harness::scripted(calls(&["fetch"]))
        .tool(fetch.clone())
        .services(|services| services.policy.allowed_hosts = vec!["files.example".into()])
        .start();
    harness.ask("get it").await;
    assert_eq!(fetch.calls().len(), 1);
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
    let person = Person::new(Answer::Allow);
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
            services.answerer = answerer;
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
    assert!(render(&events).contains("question_asked c1 risky\nquestion_answered allow\n"));
    assert!(events.only_result().is_ok());
}

#[tokio::test]
async fn a_denial_reaches_the_model_in_words() {
    let person = Person::new(Answer::Deny {
        reason: "it was denied".into(),
    });
    person.gate.open();
    let send = ScriptedTool::new("send").mutating().build();
    let harness = harness(&["send"], &person).tool(send.clone()).start();
    let events = harness.ask("go").await;
    let error = events.only_result().as_ref().unwrap_err().clone();
    assert_eq!(error.code, ToolErrorCode::PolicyDenied);
    assert_eq!(
        error.message,
        "a person has to approve this, and it was denied: send is risky"
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
        "a hook blocked this call: a hook wants a person to approve this, \
         and approvals are not available yet: production"
    );
    assert!(events.kinds().contains(&"question_asked"));
    assert!(send.calls().is_empty());
}

#[tokio::test]
async fn a_denial_by_policy_outranks_a_hook_that_asks() {
    let hook = Hook::callback(HookEventName::PreToolUse, |_| async {
        HookResponse::passthrough().with_permission(PermissionDecision::Ask, None::<String>)
    });
    let person = Person::new(Answer::Allow);
    let deny = JudgedBy::new(|_, _| PolicyVerdict::Deny(Objection::new("never", "never")));
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
    let person = Person::new(Answer::Allow);
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
        .map(|question| match &question.subject {
            QuestionSubject::Approval { call, .. } => call.name.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(asked, ["first", "second"]);
}

#[tokio::test]
async fn a_cancel_withdraws_the_question() {
    let person = Person::new(Answer::Allow);
    let send = ScriptedTool::new("send").mutating().build();
    let harness = harness(&["send"], &person).tool(send.clone()).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    collect_until(&mut turn, is_kind("question_asked")).await;
    within("the question", person.gate.reached()).await;
    assert!(session.cancel().await.unwrap());
    let events = collect(turn).await;
    let told = "question_answered deny: the turn ended before it was answered\n";
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
    let person = Person::new(Answer::Allow);
    let send = ScriptedTool::new("send").mutating().build();
    let harness = harness(&["send"], &person).tool(send.clone()).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    collect_until(&mut turn, is_kind("question_asked")).await;

    let next = harness.another_process(["fine"]).start();
    let resumed = next.resume(&session).await;
    let log = resumed.replay().await.unwrap();
    let told = "question_answered deny: the process ended before it was answered\n";
    assert!(render(&log).contains(told), "{}", render(&log));
    let events = next.run(&resumed, "go on").await;
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
    assert!(send.calls().is_empty());
}
