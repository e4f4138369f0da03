//! What holds for any bytes that a service may send. Plain functions: a stable
//! test feeds them example streams and damaged ones, and the targets in
//! `fuzz/` at the root of the repository include this file.

use halter_protocol::{BlockId, ProviderError, StreamEvent};
use halter_providers::decode::{ResponseDecoder, decode};
use halter_providers::http::ResponseHeaders;
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use halter_providers::wire::{ErrorResponse, Wire};
use std::collections::{HashMap, HashSet};

/// Bytes for the decoder of Anthropic Messages.
pub fn anthropic(data: &[u8]) {
    any_bytes(&Anthropic::new(), data);
}

/// Bytes for the decoder of Chat Completions; the first chooses the dialect.
pub fn chat(data: &[u8]) {
    let chosen = usize::from(data.first().copied().unwrap_or(0)) % Dialect::ALL.len();
    any_bytes(&Chat::new(Dialect::ALL[chosen]), data);
}

/// Bytes for the decoder of Gemini.
pub fn gemini(data: &[u8]) {
    any_bytes(&GeminiWire, data);
}

/// Bytes for the decoder of OpenAI Responses.
pub fn responses(data: &[u8]) {
    any_bytes(&ResponsesWire, data);
}

/// The bytes as a stream, as a document and as the body of an error. The first
/// byte says in which pieces the stream arrives.
fn any_bytes(wire: &dyn Wire, data: &[u8]) {
    let (first, stream) = data.split_first().unwrap_or((&0, &[]));
    let whole = decode(wire, [stream]);
    assert_answer(&whole);
    let piece = 1 + usize::from(*first);
    assert_eq!(
        decode(wire, stream.chunks(piece)),
        whole,
        "pieces of {piece}"
    );

    let mut document = ResponseDecoder::document(wire.decoder());
    let mut events = Vec::new();
    let read = document.bytes(stream, &mut events);
    let error = read.and_then(|()| document.end(&mut events)).err();
    assert_grammar(&events, error.as_ref());

    let refused = ErrorResponse {
        status: 400,
        headers: &ResponseHeaders::default(),
        body: stream,
    };
    assert!(!wire.error(&refused).message.is_empty());
    let _ = wire.refused_setting(&refused);
}

/// Checks the grammar of an answer whose last item may be an error.
pub fn assert_answer(items: &[Result<StreamEvent, ProviderError>]) {
    let events: Vec<StreamEvent> = items.iter().filter_map(|item| item.clone().ok()).collect();
    let error = items.last().and_then(|item| item.as_ref().err());
    assert!(items.len() - events.len() <= 1, "nothing follows an error");
    assert_grammar(&events, error);
}

/// Checks the grammar of an answer: begins once, blocks start, grow and end,
/// nothing follows the end. Half calls have no end.
pub fn assert_grammar(events: &[StreamEvent], error: Option<&ProviderError>) {
    let mut open: HashMap<BlockId, &'static str> = HashMap::new();
    let mut seen: HashSet<BlockId> = HashSet::new();
    let mut ended = false;
    let mut start = |open: &mut HashMap<BlockId, &'static str>, id: &BlockId, kind| {
        assert!(seen.insert(id.clone()), "block {id} starts twice");
        open.insert(id.clone(), kind);
    };
    for (position, event) in events.iter().enumerate() {
        assert!(!ended, "{event:?} follows the end");
        let begins = matches!(event, StreamEvent::MessageStart { .. });
        let aside = matches!(event, StreamEvent::UsageUpdate { .. });
        assert!(
            begins == (position == 0) || aside,
            "{event:?} at {position}"
        );
        match event {
            StreamEvent::TextStart { id } => start(&mut open, id, "text"),
            StreamEvent::ThinkingStart { id } => start(&mut open, id, "thinking"),
            StreamEvent::ToolCallStart { id, .. } => start(&mut open, id, "call"),
            StreamEvent::TextDelta { id, .. } => assert_eq!(open.get(id), Some(&"text")),
            StreamEvent::ThinkingDelta { id, .. } => assert_eq!(open.get(id), Some(&"thinking")),
            StreamEvent::ToolArgsDelta { id, .. } => assert_eq!(open.get(id), Some(&"call")),
            StreamEvent::TextEnd { id, .. } => assert_eq!(open.remove(id), Some("text")),
            StreamEvent::ThinkingEnd { id, .. } => assert_eq!(open.remove(id), Some("thinking")),
            StreamEvent::ToolCallEnd { id, .. } => assert_eq!(open.remove(id), Some("call")),
            StreamEvent::MessageEnd { .. } => {
                assert!(open.values().all(|kind| *kind == "call"), "{open:?}");
                ended = true;
            }
            _ => {}
        }
    }
    assert_eq!(ended, error.is_none(), "an answer ends or fails");
}
