//! The Gemini wire: what is sent, what is understood.

mod decode;
mod encode;
mod errors;
mod prefix;

use crate::wire_kit;
use halter_protocol::{ProviderKind, ResolvedModel};
use halter_providers::wire::gemini::GeminiWire;

const WIRE: &str = "gemini";

fn wire() -> GeminiWire {
    GeminiWire
}

fn model() -> ResolvedModel {
    wire_kit::model("gemini", ProviderKind::Custom, "gemini-3-flash-preview")
}

fn check(body: &str) -> Result<(), String> {
    wire_kit::check(halter_mock::MockWire::Gemini, body)
}
