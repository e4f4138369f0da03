//! The Chat Completions wire: what is sent, what is understood.

mod decode;
mod encode;
mod errors;
mod prefix;

use crate::wire_kit;
use halter_protocol::{ProviderKind, ResolvedModel};
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
