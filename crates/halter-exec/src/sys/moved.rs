//! The answer of everything that moves bytes without waiting.

/// What one attempt to move bytes did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It moved this many.
    Bytes(u64),
    /// There is nothing to move now.
    WouldBlock,
    /// Nothing will ever come again.
    End,
}
