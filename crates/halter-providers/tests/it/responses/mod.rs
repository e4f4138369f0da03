//! The OpenAI Responses wire: what is sent, what is understood.

mod checker;
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
