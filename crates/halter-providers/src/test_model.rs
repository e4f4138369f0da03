//! A model for tests of this crate.

use halter_protocol::{ProviderKind, ResolvedModel};

/// A model of nobody in particular.
pub(crate) fn model(name: &str) -> ResolvedModel {
    ResolvedModel {
        id: "default".into(),
        provider: "acme".into(),
        provider_kind: ProviderKind::Custom,
        model: name.to_owned(),
        max_input_tokens: None,
        max_output_tokens: None,
        reasoning: None,
        tokens_per_minute: None,
    }
}
