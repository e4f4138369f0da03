//! The Chat Completions wire: what is sent, what is understood.

mod decode;
mod encode;
mod errors;
mod fuzz;
mod prefix;

use crate::wire_kit;
use halter_protocol::{ProviderError, ProviderKind, ResolvedModel, StreamEvent};
use halter_providers::wire::chat::{Chat, Dialect};

const WIRE: &str = "chat";

/// The wire in the dialect that the name of a stream begins with.
fn wire_of(stream: &str) -> Chat {
    let dialect = stream.split('_').next().unwrap();
    Chat::new(Dialect::named(dialect).unwrap())
}

fn model() -> ResolvedModel {
    wire_kit::model("acme", ProviderKind::Custom, "m-1")
}

/// Decodes bytes, cut into pieces of a size.
fn decode(wire: &Chat, stream: &[u8], piece: usize) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let mut events = Vec::new();
    for item in halter_providers::decode::decode(wire, stream.chunks(piece.max(1))) {
        match item {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}
