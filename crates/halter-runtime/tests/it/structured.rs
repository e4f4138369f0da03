//! Turns that ask for an answer of a given form.

use crate::support::{code, text_of};
use halter_protocol::{
    CacheBreakReason, FINAL_TOOL, Message, SessionEvent, SessionEventPayload, StopReason,
    ToolErrorCode, Turn,
};
use halter_runtime::SessionHandle;
use halter_runtime::limits::STRUCTURED_OUTPUT_REPAIRS;
use halter_testkit::{EventsExt, Harness, Reply, ScriptedTool, collect, render};
use serde_json::{Value, json};

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"files": {"type": "integer"}},
        "required": ["files"],
        "additionalProperties": false,
    })
}

async fn ask(session: &SessionHandle, schema: Value) -> Vec<SessionEvent> {
    let turn = Turn::user("how many files?").with_response_schema(schema);
    collect(session.submit_turn(turn).await.unwrap()).await
}

fn output(events: &[SessionEvent]) -> Value {
    match &events.last().unwrap().payload {
        SessionEventPayload::TurnCompleted {
            structured_output, ..
        } => structured_output.clone().expect("the turn has an output"),
        _ => panic!("{}", render(events)),
    }
}

fn failure(events: &[SessionEvent]) -> &str {
    &events.turn_error().code
}

fn final_call(answer: Value) -> Reply {
    Reply::new().tool_call(FINAL_TOOL, answer)
}

#[tokio::test]
async fn a_text_that_fits_is_the_output() {
    let harness = Harness::scripted(["{\"files\": 3}"]).start();
    let events = ask(&harness.session().await, schema()).await;
    assert_eq!(output(&events), json!({"files": 3}));
    assert_eq!(events.streamed_text(), "{\"files\": 3}");
}

#[tokio::test]
async fn a_call_of_the_final_tool_is_the_output_and_ends_the_turn() {
    let look = ScriptedTool::new("look").returns("a b c").build();
    let replies = [
        Reply::new().tool_call("look", json!({})),
        final_call(json!({"files": 3})),
    ];
    let harness = Harness::scripted(replies).tool(look.clone()).start();
    let session = harness.session().await;
    let events = ask(&session, schema()).await;
    assert_eq!(output(&events), json!({"files": 3}));
    assert_eq!(look.calls().len(), 1, "tools work in the same turn");
    let requests = harness.requests();
    let offered: Vec<&str> = requests[0].tools.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(offered, ["look", FINAL_TOOL]);
    assert_eq!(requests[0].tools[1].input_schema, schema());
    assert!(
        std::sync::Arc::ptr_eq(&requests[0].tools, &requests[1].tools),
        "requests go on sharing the tools"
    );
}

/// The call pairs with a result, so the session goes on.
#[tokio::test]
async fn the_session_goes_on_after_a_final_call() {
    let replies = [final_call(json!({"files": 3})), "hello".into()];
    let harness = Harness::scripted(replies).start();
    let session = harness.session().await;
    ask(&session, schema()).await;
    let events = harness.run(&session, "thanks").await;
    assert_eq!(events.streamed_text(), "hello");
    assert!(harness.requests()[1].tools.is_empty());
}

#[tokio::test]
async fn other_calls_of_the_same_answer_still_run() {
    let note = ScriptedTool::new("note").build();
    let reply = Reply::new()
        .tool_call("note", json!({}))
        .tool_call(FINAL_TOOL, json!({"files": 1}));
    let harness = Harness::scripted([reply]).tool(note.clone()).start();
    let events = ask(&harness.session().await, schema()).await;
    assert_eq!(output(&events), json!({"files": 1}));
    assert_eq!(note.calls().len(), 1);
}

#[tokio::test]
async fn a_text_that_does_not_fit_is_asked_for_again_with_what_is_wrong() {
    let harness = Harness::scripted(["{\"files\": \"many\"}", "{\"files\": 4}"]).start();
    let events = ask(&harness.session().await, schema()).await;
    assert_eq!(output(&events), json!({"files": 4}));
    let told = harness.requests()[1].messages.clone();
    let told = text_of(told.last().unwrap());
    assert!(told.contains("`files`: "), "{told}");
}

#[tokio::test]
async fn a_call_that_does_not_fit_hears_what_is_wrong() {
    let replies = [
        final_call(json!({"file": 4})),
        final_call(json!({"files": 4})),
    ];
    let harness = Harness::scripted(replies).start();
    let events = ask(&harness.session().await, schema()).await;
    assert_eq!(output(&events), json!({"files": 4}));
    let told = harness.requests()[1].messages.clone();
    let Message::Tool(result) = told.last().unwrap().as_ref() else {
        panic!("the result of the call comes last");
    };
    let error = result.error.as_ref().unwrap();
    assert_eq!(error.code, ToolErrorCode::InvalidArguments);
    assert!(error.message.contains("`files` is required"), "{error}");
}

#[tokio::test]
async fn after_the_last_repair_the_turn_fails() {
    for bad in [final_call(json!({})), "I count four.".into()] {
        let harness = Harness::answering(move |_| bad.clone()).start();
        let session = harness.session().await;
        let events = ask(&session, schema()).await;
        assert_eq!(failure(&events), "structured_output_invalid");
        let asked = STRUCTURED_OUTPUT_REPAIRS as usize + 1;
        assert_eq!(harness.requests().len(), asked);
        assert!(events.turn_error().hint.is_some());
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_off_or_declined_is_not_asked_for_again() {
    for (reason, expected) in [
        (StopReason::MaxTokens, "output_limit_reached"),
        (StopReason::Refusal, "model_refused"),
    ] {
        let reply = Reply::new().text("{\"files\": 3}").stop(reason);
        let harness = Harness::scripted([reply]).start();
        let events = ask(&harness.session().await, schema()).await;
        assert_eq!(failure(&events), expected);
    }
}

#[tokio::test]
async fn what_is_no_schema_is_refused_before_any_call() {
    let harness = Harness::scripted(["{}"]).start();
    let session = harness.session().await;
    let turn = Turn::user("go").with_response_schema(json!({"type": "sometimes"}));
    let error = session.submit_turn(turn).await.err().unwrap();
    assert_eq!(code(&error), "invalid_response_schema");
    assert!(harness.requests().is_empty());
    assert_eq!(harness.run(&session, "go").await.streamed_text(), "{}");
}

#[tokio::test]
async fn a_tool_of_the_same_name_is_in_the_way() {
    let tool = ScriptedTool::new(FINAL_TOOL).build();
    let harness = Harness::scripted(["{}"]).tool(tool).start();
    let session = harness.session().await;
    let events = ask(&session, schema()).await;
    assert_eq!(failure(&events), "tool_name_taken");
    assert!(harness.requests().is_empty());
}

/// Without a schema the name means nothing.
#[tokio::test]
async fn the_final_tool_exists_only_where_it_was_asked_for() {
    let replies = [final_call(json!({"files": 3})), "sorry".into()];
    let harness = Harness::scripted(replies).start();
    let events = harness.ask("how many?").await;
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::UnknownTool);
}

#[tokio::test]
async fn a_schema_of_no_object_is_wrapped_and_unwrapped() {
    let list = json!({"type": "array", "items": {"type": "string"}});
    for reply in [
        final_call(json!({"output": ["a"]})),
        "[\"a\"]".into(),
        "{\"output\":[\"a\"]}".into(),
    ] {
        let harness = Harness::scripted([reply]).start();
        let events = ask(&harness.session().await, list.clone()).await;
        assert_eq!(output(&events), json!(["a"]));
    }
}

#[tokio::test]
async fn another_schema_is_another_prefix() {
    let harness = Harness::scripted(["{\"files\":1}", "{\"files\":2}", "plain"]).start();
    let session = harness.session().await;
    let breaks = |events: &[SessionEvent]| -> Vec<CacheBreakReason> {
        let found = events.iter().filter_map(|event| match &event.payload {
            SessionEventPayload::CacheBreak { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        found.collect()
    };
    assert_eq!(breaks(&ask(&session, schema()).await), []);
    assert_eq!(breaks(&ask(&session, schema()).await), []);
    let plain = harness.run(&session, "and now?").await;
    assert_eq!(breaks(&plain), [CacheBreakReason::ResponseSchemaChanged]);
}

/// A process that takes the session up knows the last turn's schema.
#[tokio::test]
async fn another_schema_is_another_prefix_after_a_resume() {
    let harness = Harness::scripted(["{\"files\":1}"]).start();
    let session = harness.session().await;
    ask(&session, schema()).await;
    let next = harness.another_process(["plain"]).start();
    let resumed = next.resume(&session).await;
    let events = next.run(&resumed, "and now?").await;
    assert!(render(&events).contains("cache_break response_schema_changed"));
}
