//! Models that answer for running calls, beside the conversation.

use halter_protocol::{
    Budget, Message, SessionEvent, SessionEventPayload, Spending, ToolErrorCode, ToolResult, Usage,
    UsageBuckets, UserMessage,
};
use halter_runtime::SessionInit;
use halter_runtime::limits::{CALL_MODEL_DEADLINE, CALL_MODEL_OUTPUT_TOKENS};
use halter_testkit::{EventsExt, Gate, Harness, HarnessBuilder, Reply, ScriptedTool};
use halter_tools::ModelQuestion;
use serde_json::json;

/// A tool that has a model say something.
fn asking(output_tokens: u32) -> ScriptedTool {
    ScriptedTool::new("ask_model")
        .long_running()
        .runs(move |context, _| async move {
            let models = context.models.clone().unwrap();
            let question = ModelQuestion {
                system: "Be short.".to_owned(),
                messages: vec![Message::User(UserMessage::text("What is it?"))],
                output_tokens,
            };
            let reply = models.ask(question).await?;
            Ok(ToolResult::text(format!(
                "{} ({})",
                reply.text, reply.model
            )))
        })
}

fn usage(input: u64, output: u64) -> Usage {
    Usage::from(UsageBuckets {
        uncached_input: input,
        output,
        ..UsageBuckets::default()
    })
}

fn harness(output_tokens: u32, answer: Reply) -> HarnessBuilder {
    let replies = [
        Reply::new().tool_call("ask_model", json!({})),
        answer,
        "done".into(),
    ];
    Harness::scripted(replies).tool(asking(output_tokens).build())
}

fn charged(events: &[SessionEvent]) -> Spending {
    let charges = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::BudgetCharged { charge, .. } => Some(*charge),
        _ => None,
    });
    charges.fold(Spending::default(), Spending::plus)
}

#[tokio::test]
async fn a_call_has_a_model_answer_and_the_session_pays() {
    let harness = harness(70, Reply::from("a cat").usage(usage(500, 40))).start();
    let budget = Budget {
        model_calls: Some(10),
        ..Budget::default()
    };
    let init = SessionInit::default().with_budget(budget);
    let session = harness.session_with(init).await;
    let events = harness.run(&session, "look").await;
    let result = events.only_result().as_ref().unwrap().to_model_text();
    assert!(result.starts_with("a cat ("), "{result}");
    let requests = harness.requests();
    let [first, asked, last] = requests.as_slice() else {
        panic!("{} requests", requests.len());
    };
    assert!(asked.tools.is_empty() && asked.messages.len() == 1);
    assert_eq!(asked.model.max_output_tokens, Some(70));
    assert_ne!(asked.session_id, first.session_id);
    assert_eq!(last.session_id, first.session_id);
    let charged = charged(&events);
    assert_eq!(charged.model_calls, 3);
    assert!(charged.tokens >= 540, "{charged:?}");
}

#[tokio::test]
async fn an_answer_for_a_call_is_so_long_and_no_longer() {
    let harness = harness(CALL_MODEL_OUTPUT_TOKENS + 1, "a cat".into()).start();
    harness.ask("look").await;
    let limit = harness.requests()[1].model.max_output_tokens;
    assert_eq!(limit, Some(CALL_MODEL_OUTPUT_TOKENS));
}

#[tokio::test]
async fn what_the_budget_does_not_cover_is_not_asked() {
    let harness = harness(70, "a cat".into()).start();
    let budget = Budget {
        model_calls: Some(1),
        ..Budget::default()
    };
    let init = SessionInit::default().with_budget(budget);
    let session = harness.session_with(init).await;
    let events = harness.run(&session, "look").await;
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Failed);
    assert_eq!(harness.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_does_not_answer_for_a_call_is_given_up() {
    let gate = Gate::new();
    let harness = harness(70, Reply::new().gate(&gate).text("a cat")).start();
    let before = tokio::time::Instant::now();
    let events = harness.ask("look").await;
    let error = events.only_result().as_ref().unwrap_err();
    assert!(error.message.contains("did not answer within"), "{error}");
    assert!(before.elapsed() >= CALL_MODEL_DEADLINE);
}
