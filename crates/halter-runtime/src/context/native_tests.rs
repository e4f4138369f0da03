//! What becomes of a context that the model's service compacts.

use super::*;
use crate::context::{NativeCompactor, NativeContext};
use halter_protocol::OpaquePart;

/// A service that compacts, or does not.
struct Service(Option<&'static str>);

#[async_trait]
impl NativeCompactor for Service {
    async fn compact(&self, _: Transcript) -> Result<NativeContext, ProviderError> {
        let Some(text) = self.0 else {
            return Err(ProviderError::new("no", ProviderErrorKind::Fatal));
        };
        let part = |data: &str| OpaquePart {
            wire: "w".to_owned(),
            data: data.into(),
        };
        Ok(NativeContext {
            parts: vec![part("1"), part("2")],
            text: text.to_owned(),
            usage: Usage::default(),
            answered_by: ReplayMeta::default(),
        })
    }
}

fn with_service(service: Service, writer: &Arc<Writer>) -> CompactionRequest {
    let messages = [
        user("the goal"),
        said(&"x".repeat(40_000)),
        user("go on"),
        said("short"),
        user("and now?"),
    ];
    let request = request(messages.into_iter().collect(), 10_000, writer);
    CompactionRequest {
        native: Some(Arc::new(service)),
        ..request
    }
}

#[tokio::test]
async fn a_services_own_form_comes_first_and_state_last() {
    let writer = Writer::new(Ok("a summary"));
    let compaction = compact(with_service(Service(Some("its summary")), &writer)).await;
    let compaction = compaction.unwrap();
    assert_eq!(compaction.tier, CompactionTier::Native);
    let messages: Vec<Arc<Message>> = compaction.messages.iter().cloned().collect();
    let stands_in = messages[0].as_assistant().unwrap();
    let opaque = stands_in.parts.iter().map(|part| part.opaque().unwrap());
    assert_eq!(
        opaque.map(|it| it.data.as_ref()).collect::<Vec<_>>(),
        ["1", "2"]
    );
    let words = stands_in.plain_text();
    assert!(
        words.contains("its summary") && words.contains("find the bug"),
        "{words}"
    );
    let Message::System(note) = messages.last().unwrap().as_ref() else {
        panic!("{messages:?}");
    };
    assert!(note.text.contains("find the bug") && note.text.contains("npm run dev"));
    assert!(!note.text.contains("its summary"));
}

#[tokio::test]
async fn words_are_found_for_what_only_the_service_reads() {
    let writer = Writer::new(Ok("a summary"));
    let compaction = compact(with_service(Service(Some("")), &writer))
        .await
        .unwrap();
    let first = compaction.messages.iter().next().unwrap();
    let words = first.as_assistant().unwrap().plain_text();
    assert!(words.contains("the goal"), "{words}");
}

#[tokio::test]
async fn a_service_that_fails_or_hears_no_wishes_is_done_without() {
    let writer = Writer::new(Ok("a summary"));
    let failed = compact(with_service(Service(None), &writer)).await.unwrap();
    assert_eq!(failed.tier, CompactionTier::Summary);
    let wish = CompactionRequest {
        instructions: Some("keep the names".to_owned()),
        reason: CompactionReason::Requested,
        ..with_service(Service(Some("its summary")), &writer)
    };
    assert_eq!(compact(wish).await.unwrap().tier, CompactionTier::Summary);
}
