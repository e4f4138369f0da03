//! Questions of running calls to a person.

use crate::support::code;
use async_trait::async_trait;
use futures::StreamExt;
use halter_protocol::{
    ApprovalAnswer, ApprovalChoice, ApprovalRequest, Question, QuestionOption, QuestionRequest,
    QuestionResponse, ResolvedBy, SessionEvent, SessionEventPayload, SessionId, ToolResult, Turn,
};
use halter_runtime::limits::TOOL_DEADLINE;
use halter_runtime::{ApprovalHandler, Approvals, SessionHandle};
use halter_testkit::{EventsExt, Harness, HarnessBuilder, Reply, ScriptedTool};
use serde_json::json;
use std::sync::Arc;

fn questions() -> Vec<Question> {
    let option = |id: &str| QuestionOption {
        id: id.to_owned(),
        text: id.to_uppercase(),
    };
    vec![
        Question {
            question: "Which?".to_owned(),
            options: vec![option("a"), option("b")],
            is_multi_select: false,
        },
        Question {
            question: "Why?".to_owned(),
            options: Vec::new(),
            is_multi_select: false,
        },
    ]
}

/// A tool that asks and returns what it heard.
fn curious(name: &str) -> ScriptedTool {
    ScriptedTool::new(name).runs(|context, _| async move {
        let answers = context.ask(questions()).await?;
        let heard = json!({"responses": answers.responses, "by": answers.by});
        Ok(ToolResult::json(heard))
    })
}

fn asking(approvals: Approvals) -> HarnessBuilder {
    let replies = [Reply::new().tool_call("curious", json!({})), "done".into()];
    Harness::scripted(replies)
        .tool(curious("curious").cancellable().build())
        .services(|services| services.approvals = approvals)
}

fn answers() -> Vec<QuestionResponse> {
    vec![
        QuestionResponse::selected("b"),
        QuestionResponse::text("because"),
    ]
}

/// Submits a turn and answers what it asks.
async fn answered(
    session: &SessionHandle,
    answer: impl AsyncFn(&SessionHandle, &QuestionRequest),
) -> Vec<SessionEvent> {
    let mut events = session.submit_turn(Turn::user("go on")).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        seen.push(event.clone());
        if let SessionEventPayload::QuestionsAsked(request) = &event.payload {
            answer(session, request).await;
        }
    }
    seen
}

fn resolutions(events: &[SessionEvent]) -> Vec<(ResolvedBy, Vec<QuestionResponse>)> {
    let resolved = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::QuestionsAnswered { responses, by, .. } => {
            Some((by.clone(), responses.clone()))
        }
        _ => None,
    });
    resolved.collect()
}

fn skipped() -> Vec<QuestionResponse> {
    vec![QuestionResponse::skipped(), QuestionResponse::skipped()]
}

#[tokio::test]
async fn whoever_reads_the_events_answers_through_the_session() {
    let harness = asking(Approvals::Attended).start();
    let session = harness.session().await;
    let events = answered(&session, async |session, request| {
        let id = &request.question_id;
        let unfit = session.answer_questions(id, skipped()[..1].to_vec()).await;
        assert_eq!(code(&unfit.unwrap_err()), "answer_not_fitting");
        session.answer_questions(id, answers()).await.unwrap();
        let late = session.answer_questions(id, answers()).await;
        assert_eq!(code(&late.unwrap_err()), "question_not_open");
    })
    .await;
    assert_eq!(resolutions(&events), [(ResolvedBy::User, answers())]);
    let result = events.only_result().as_ref().unwrap().to_model_text();
    assert!(
        result.contains("\"selected_option_ids\":[\"b\"]"),
        "{result}"
    );
    assert!(result.contains("\"by\":\"user\""), "{result}");
}

struct Oracle(Vec<QuestionResponse>);

#[async_trait]
impl ApprovalHandler for Oracle {
    async fn decide(&self, _: &SessionId, _: &ApprovalRequest) -> ApprovalAnswer {
        ApprovalChoice::Deny.into()
    }

    async fn answer(&self, _: &SessionId, _: &QuestionRequest) -> Vec<QuestionResponse> {
        self.0.clone()
    }
}

#[tokio::test]
async fn a_handler_answers_and_what_does_not_fit_counts_as_skipped() {
    for (given, taken) in [(answers(), answers()), (Vec::new(), skipped())] {
        let handler = Approvals::Handler(Arc::new(Oracle(given)));
        let harness = asking(handler).start();
        let events = harness.ask("go on").await;
        assert_eq!(resolutions(&events), [(ResolvedBy::Handler, taken)]);
    }
}

#[tokio::test]
async fn where_nobody_can_be_asked_questions_are_skipped() {
    let harness = asking(Approvals::Unattended).start();
    let events = harness.ask("go on").await;
    assert_eq!(resolutions(&events), [(ResolvedBy::Unattended, skipped())]);
    events.only_result().as_ref().unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_deadline_runs_while_a_person_thinks() {
    let harness = asking(Approvals::Attended).start();
    let session = harness.session().await;
    let events = answered(&session, async |session, request| {
        tokio::time::sleep(TOOL_DEADLINE * 3).await;
        let id = &request.question_id;
        session.answer_questions(id, answers()).await.unwrap();
    })
    .await;
    assert_eq!(resolutions(&events), [(ResolvedBy::User, answers())]);
    events.only_result().as_ref().unwrap();
}

#[tokio::test]
async fn a_cancel_withdraws_what_is_asked() {
    let harness = asking(Approvals::Attended).start();
    let session = harness.session().await;
    let events = answered(&session, async |session, _| {
        session.cancel().await.unwrap();
    })
    .await;
    assert_eq!(resolutions(&events), [(ResolvedBy::Withdrawn, skipped())]);
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code.as_str(), "cancelled");
}

#[tokio::test]
async fn calls_side_by_side_ask_one_after_the_other() {
    let both = Reply::new()
        .tool_call("one", json!({}))
        .tool_call("two", json!({}));
    let harness = Harness::scripted([both, "done".into()])
        .tool(curious("one").read_only().build())
        .tool(curious("two").read_only().build())
        .services(|services| services.approvals = Approvals::Attended)
        .start();
    let session = harness.session().await;
    let events = answered(&session, async |session, request| {
        let id = &request.question_id;
        session.answer_questions(id, answers()).await.unwrap();
    })
    .await;
    let kinds = events.iter().filter_map(|event| {
        let kind = event.payload.kind();
        kind.strip_prefix("questions_")
    });
    let kinds: Vec<&str> = kinds.collect();
    assert_eq!(kinds, ["asked", "answered", "asked", "answered"]);
}

#[tokio::test]
async fn a_question_open_at_a_crash_is_skipped() {
    let harness = asking(Approvals::Attended).start();
    let session = harness.session().await;
    let mut events = session.submit_turn(Turn::user("go on")).await.unwrap();
    while let Some(event) = events.next().await {
        if let SessionEventPayload::QuestionsAsked(_) = event.unwrap().payload {
            break;
        }
    }
    // Another process takes the session over.
    let next = harness.another_process(["after"]).start();
    let resumed = next.resume(&session).await;
    let log = resumed.replay().await.unwrap();
    assert_eq!(resolutions(&log), [(ResolvedBy::Interrupted, skipped())]);
    let events = next.run(&resumed, "go on").await;
    assert_eq!(events.streamed_text(), "after");
}
