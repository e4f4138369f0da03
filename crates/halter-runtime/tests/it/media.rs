//! Images and documents in turns and results.

use halter_hooks::{Hook, HookEventName, HookResponse};
use halter_protocol::limits::{ATTACHMENTS, ATTACHMENTS_BYTES, DOCUMENT_BYTES};
use halter_protocol::{
    ContentPart, MediaLimits, Message, ProviderCapabilities, SessionEvent, SessionEventPayload,
    ToolErrorCode, ToolResult, Turn, UserMessage,
};
use halter_providers::{FakeProvider, Provider};
use halter_testkit::{EventsExt, Harness, Reply, ScriptedTool, collect, pdf, png, render};
use serde_json::json;
use std::sync::Arc;

/// Tokens of a window that so many images do not fill.
const WIDE: u32 = 10_000_000;

fn camera(result: impl Fn() -> ToolResult + Send + Sync + 'static) -> Arc<ScriptedTool> {
    ScriptedTool::new("camera")
        .runs(move |_, _| {
            let result = result();
            async { Ok(result) }
        })
        .build()
}

fn looks() -> [Reply; 2] {
    [Reply::new().tool_call("camera", json!({})), "seen".into()]
}

fn picture() -> ToolResult {
    ToolResult::parts([
        ContentPart::text("the door"),
        ContentPart::image("image/png", png(3, 2)),
    ])
}

/// The results of tools in a transcript.
fn results<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> Vec<ToolResult> {
    let results = messages
        .into_iter()
        .filter_map(|message| match message.as_ref() {
            Message::Tool(tool) => Some(ToolResult::clone(&tool.content)),
            _ => None,
        });
    results.collect()
}

fn failure(events: &[SessionEvent]) -> (String, String) {
    let failed = events.iter().find_map(|event| match &event.payload {
        SessionEventPayload::TurnFailed { error, .. } => Some(error),
        _ => None,
    });
    let error = failed.unwrap();
    (error.code.clone(), error.message.clone())
}

#[tokio::test]
async fn a_model_is_asked_with_the_image_a_tool_returned() {
    let harness = Harness::scripted(looks()).tool(camera(picture)).start();
    let events = harness.ask("who is there?").await;
    assert_eq!(events.only_result(), &Ok(picture().into()));
    let requests = harness.requests();
    assert_eq!(results(requests[1].messages.iter()), [picture()]);
    let told = render(&events);
    assert!(told.contains("ok [\"the door\", image/png of "), "{told}");
}

#[tokio::test]
async fn another_process_goes_on_with_the_same_image() {
    let first = Harness::scripted(looks()).tool(camera(picture)).start();
    let session = first.session().await;
    first.run(&session, "who is there?").await;
    let before = first.requests().pop().unwrap();

    let second = first.another_process(["still there"]).start();
    let resumed = second.resume(&session).await;
    second.run(&resumed, "and now?").await;
    let after = second.requests().pop().unwrap();
    let shown: Vec<_> = after.messages.iter().take(before.messages.len()).collect();
    assert!(before.messages.iter().eq(shown));
    assert_eq!(results(after.messages.iter()), [picture()]);
}

#[tokio::test]
async fn what_no_service_takes_becomes_a_note_and_the_session_goes_on() {
    let result = || {
        ToolResult::parts([
            ContentPart::image("image/png", png(9_000, 1)),
            ContentPart::image("image/gif", png(1, 1)),
        ])
    };
    let harness = Harness::scripted(looks()).tool(camera(result)).start();
    let events = harness.ask("go").await;
    let Ok(ToolResult::Parts { parts }) = events.only_result().as_deref() else {
        panic!("{events:?}");
    };
    let note = parts[0].as_text().unwrap();
    assert!(note.contains("9000x1 pixels"), "{note}");
    assert_eq!(parts[1], ContentPart::image("image/png", png(1, 1)));
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
    let requests = harness.requests();
    assert_eq!(
        results(requests[1].messages.iter()),
        [ToolResult::clone(events.only_result().as_ref().unwrap())]
    );
}

#[tokio::test]
async fn a_bad_attachment_is_refused_before_the_turn() {
    let harness = Harness::scripted(["unheard"]).start();
    let session = harness.session().await;
    let message = UserMessage::text("look").with_image("image/png", *b"nothing");
    let error = session.submit_turn(Turn::new(message)).await.err().unwrap();
    assert!(error.to_string().contains("attachment 1"), "{error}");
    assert!(harness.requests().is_empty());
}

#[tokio::test]
async fn a_session_that_is_full_of_documents_refuses_more_and_goes_on() {
    let harness = Harness::scripted(["read", "still here"])
        .window(WIDE)
        .start();
    let session = harness.session().await;
    let mut large = pdf();
    large.resize(DOCUMENT_BYTES, b'\n');
    let mut message = UserMessage::text("read these");
    for _ in 0..ATTACHMENTS_BYTES / DOCUMENT_BYTES {
        message = message.with_document("application/pdf", large.clone());
    }
    let turn = session.submit_turn(Turn::new(message)).await.unwrap();
    assert_eq!(collect(turn).await.kinds().last(), Some(&"turn_completed"));

    let more = UserMessage::text("and this").with_document("application/pdf", pdf());
    let turn = session.submit_turn(Turn::new(more)).await.unwrap();
    let (code, message) = failure(&collect(turn).await);
    assert_eq!(code, "attachment_refused");
    assert!(message.contains("20971520 bytes together"), "{message}");

    let events = harness.run(&session, "so?").await;
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
    let asked = harness.requests().pop().unwrap();
    assert!(!format!("{:?}", asked.messages).contains("and this"));
}

#[tokio::test]
async fn the_count_survives_another_process() {
    let result = || {
        let images = (0..ATTACHMENTS).map(|_| ContentPart::image("image/png", png(1, 1)));
        ToolResult::parts(images)
    };
    let first = Harness::scripted(looks()).tool(camera(result));
    let first = first.window(WIDE).start();
    let session = first.session().await;
    let events = first.run(&session, "go").await;
    let taken = events.only_result().as_ref().unwrap();
    assert_eq!(taken.attachments().count(), ATTACHMENTS);

    let second = first.another_process(looks()).tool(camera(picture));
    let second = second.window(WIDE).start();
    let resumed = second.resume(&session).await;
    let events = second.run(&resumed, "again").await;
    let result = events.only_result().as_ref().unwrap();
    assert_eq!(result.attachments().count(), 0, "{result:?}");
}

#[tokio::test]
async fn results_of_one_answer_share_the_room_of_the_session() {
    let result = || {
        let half = ATTACHMENTS / 2 + 1;
        ToolResult::parts((0..half).map(|_| ContentPart::image("image/png", png(1, 1))))
    };
    let replies = [
        Reply::new()
            .tool_call("camera", json!({"n": 1}))
            .tool_call("camera", json!({"n": 2})),
        "seen".into(),
    ];
    let harness = Harness::scripted(replies).tool(camera(result));
    let harness = harness.window(WIDE).start();
    harness.ask("go").await;
    let requests = harness.requests();
    let results = results(requests[1].messages.iter());
    let taken = results.iter().map(|result| result.attachments().count());
    assert_eq!(taken.sum::<usize>(), ATTACHMENTS);
}

#[tokio::test]
async fn a_hook_knows_what_a_prompt_brings() {
    let no_pictures = Hook::callback(HookEventName::UserPromptSubmit, |input| async move {
        match input.field("attachments") {
            Some(attached) => HookResponse::block(attached.to_string()),
            None => HookResponse::passthrough(),
        }
    });
    let harness = Harness::scripted(["fine"]).hook(no_pictures).start();
    let session = harness.session().await;
    let message = UserMessage::text("look").with_document("application/pdf", pdf());
    let turn = session.submit_turn(Turn::new(message)).await.unwrap();
    let (code, told) = failure(&collect(turn).await);
    assert_eq!(code, "hook_blocked");
    assert!(
        told.contains("\"media_type\":\"application/pdf\""),
        "{told}"
    );
    let events = harness.run(&session, "no picture").await;
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
}

fn rewriting(output: serde_json::Value) -> Hook {
    Hook::callback(HookEventName::PostToolUse, move |_| {
        let output = output.clone();
        async { HookResponse::passthrough().with_updated_output(output) }
    })
}

#[tokio::test]
async fn a_hook_that_changes_the_words_keeps_the_picture() {
    let output = json!([{"kind": "text", "text": "a door"}, {"kind": "image", "part": 1}]);
    let harness = Harness::scripted(looks())
        .tool(camera(picture))
        .hook(rewriting(output))
        .start();
    let events = harness.ask("go").await;
    let expected = ToolResult::parts([
        ContentPart::text("a door"),
        ContentPart::image("image/png", png(3, 2)),
    ]);
    assert_eq!(events.only_result(), &Ok(expected.into()));
}

#[tokio::test]
async fn a_hook_that_writes_no_part_withholds_the_result() {
    let harness = Harness::scripted(looks())
        .tool(camera(picture))
        .hook(rewriting(json!([{"kind": "image", "part": 7}])))
        .start();
    let events = harness.ask("go").await;
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::HookBlocked);
    assert!(error.message.contains("no part 7"), "{}", error.message);
}

/// What may join a session are facts of the model that is asked, not rules of
/// the engine.
#[tokio::test]
async fn a_model_that_takes_less_is_sent_less() {
    struct Picky(FakeProvider);
    #[async_trait::async_trait]
    impl Provider for Picky {
        fn capabilities(&self) -> ProviderCapabilities {
            ProviderCapabilities::new().with_media(MediaLimits {
                attachments: 1,
                image_side_pixels: 2,
                ..MediaLimits::default()
            })
        }
        async fn stream(
            &self,
            request: halter_providers::ProviderRequest,
            cancel: tokio_util::sync::CancellationToken,
        ) -> anyhow::Result<halter_providers::EventStream> {
            self.0.stream(request, cancel).await
        }
    }
    let two = || {
        let image = || ContentPart::image("image/png", png(2, 2));
        ToolResult::parts([image(), image()])
    };
    let harness = Harness::echoing()
        .provider(Arc::new(Picky(FakeProvider::scripted(looks()))))
        .tool(camera(two))
        .start();
    let events = harness.ask("look").await;
    let taken = events.only_result().clone().unwrap();
    assert_eq!(taken.attachments().count(), 1);
    assert!(taken.to_model_text().contains("may hold 1 images"));

    let session = harness.session().await;
    let large = UserMessage::text("look").with_image("image/png", png(3, 2));
    let refused = session.submit_turn(Turn::new(large)).await.err().unwrap();
    assert!(refused.to_string().contains("attachment 1"), "{refused}");
}
