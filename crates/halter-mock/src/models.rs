//! The models the service lists.

/// A model, as the lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEntry {
    /// Its id.
    pub id: String,
    /// Tokens of input it takes.
    pub input_tokens: u64,
    /// Tokens of output it gives.
    pub output_tokens: u64,
}

impl ModelEntry {
    /// A model with these limits.
    pub fn new(id: impl Into<String>, input_tokens: u64, output_tokens: u64) -> Self {
        Self {
            id: id.into(),
            input_tokens,
            output_tokens,
        }
    }
}

/// What is listed unless the options say otherwise: two made-up models, the
/// same on every wire.
pub(crate) fn built_in() -> Vec<ModelEntry> {
    vec![
        ModelEntry::new("mock-large", 1_000_000, 64_000),
        ModelEntry::new("mock-small", 32_000, 4_000),
    ]
}
