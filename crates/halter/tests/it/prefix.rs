//! Long sessions over every wire: each request begins with the elements of the
//! one before, byte for byte, except where an event announces a cut.

mod session;

use halter_providers::wire::Wire;
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use session::{Recorded, play, serialized_again};
use std::sync::Arc;

/// A wire, what it calls a model, and where the service speaks it.
struct Service {
    wire: Arc<dyn Wire>,
    model: &'static str,
    other_model: &'static str,
    prefix: &'static str,
    /// What closes the lists of a body.
    closing: &'static str,
}

/// The mark of an element that a service caches; it moves on.
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// Plays a session and holds every pair of neighbouring requests to the rule.
async fn two_hundred_turns(service: Service) {
    let recorded = play(&service).await;
    let requests = &recorded.requests;
    assert!(requests.len() >= 400, "{} requests", requests.len());
    let mut cuts = Vec::new();
    for pair in requests.windows(2) {
        let [before, after] = pair else { continue };
        let begins = service.begins_with(&after.body, &before.body);
        match &after.cut {
            None => assert!(begins, "{:?}\nthen\n{:?}", before.body, after.body),
            Some(reason) => {
                assert!(!begins, "{reason} cut nothing: {:?}", after.body);
                cuts.push(reason.as_str());
            }
        }
    }
    let expected = [
        "resources_replaced",
        "context_compacted",
        "model_changed",
        "model_changed",
        "resources_replaced",
        "context_compacted",
    ];
    assert_eq!(cuts, expected);
    assert_serialized_alike(&service, &recorded).await;
}

impl Service {
    /// True if a request has every element of an earlier one, as it was
    /// written and in its place. The conversation stands last in a body, so
    /// the earlier one, less what closes its lists, is how the later begins.
    fn begins_with(&self, later: &[u8], earlier: &[u8]) -> bool {
        let [later, earlier] = [later, earlier].map(|body| {
            let body = std::str::from_utf8(body).unwrap();
            body.replace(MARK, "")
        });
        let elements = earlier.strip_suffix(self.closing).unwrap();
        assert!(elements.ends_with('}'), "an element ends: {elements}");
        later.starts_with(elements)
    }
}

/// What was sent piece by piece is what an encoder writes that sees it for the
/// first time.
async fn assert_serialized_alike(service: &Service, recorded: &Recorded) {
    let requests = &recorded.requests;
    let again = serialized_again(service, requests).await;
    assert_eq!(again.len(), requests.len());
    for (number, (one, other)) in requests.iter().zip(&again).enumerate() {
        assert!(one.body == *other, "request {number} has other bytes");
    }
    for one in requests.iter().rev().step_by(97) {
        let alone = serialized_again(service, std::slice::from_ref(one)).await;
        assert!(one.body == alone[0], "made at once it has other bytes");
    }
}

#[tokio::test]
async fn two_hundred_turns_of_anthropic() {
    two_hundred_turns(Service {
        wire: Arc::new(Anthropic::new()),
        model: "claude-opus-4-8",
        other_model: "claude-haiku-4-5",
        prefix: "/anthropic",
        // Messages of one role in a row are one: its blocks are the elements.
        closing: "]}]}",
    })
    .await;
}

#[tokio::test]
async fn two_hundred_turns_of_responses() {
    two_hundred_turns(Service {
        wire: Arc::new(ResponsesWire),
        model: "gpt-5.2",
        other_model: "gpt-5-mini",
        prefix: "/openai",
        closing: "]}",
    })
    .await;
}

#[tokio::test]
async fn two_hundred_turns_of_chat() {
    two_hundred_turns(Service {
        wire: Arc::new(Chat::new(Dialect::OPENROUTER)),
        model: "some/model",
        other_model: "some/other",
        prefix: "/openrouter",
        closing: "]}",
    })
    .await;
}

#[tokio::test]
async fn two_hundred_turns_of_gemini() {
    two_hundred_turns(Service {
        wire: Arc::new(GeminiWire),
        model: "gemini-3-pro-preview",
        // It takes pictures of tools only beside their results.
        other_model: "gemini-2.5-flash",
        prefix: "/gemini",
        closing: "]}",
    })
    .await;
}
