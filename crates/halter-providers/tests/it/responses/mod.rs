//! The OpenAI Responses wire: what is sent, what is understood.

mod decode;
mod encode;
mod errors;
mod prefix;

use crate::wire_kit;
use halter_protocol::{ProviderKind, ResolvedModel};
use halter_providers::wire::responses::ResponsesWire;

const WIRE: &str = "responses";

fn wire() -> ResponsesWire {
    ResponsesWire
}

fn model() -> ResolvedModel {
    wire_kit::model("openai", ProviderKind::OpenAi, "gpt-5.2")
}

/// Requests keep nothing with the service, and stream.
fn check(body: &str) -> Result<(), String> {
    assert!(body.contains(r#""store":false"#) && body.contains(r#""stream":true"#));
    wire_kit::check(halter_mock::MockWire::Responses, body)
}
