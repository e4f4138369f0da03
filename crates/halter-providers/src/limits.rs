//! Every bound of this crate, named, with its unit.

/// Requests that a [`FakeProvider`](crate::FakeProvider) keeps for
/// [`requests`](crate::FakeProvider::requests); the oldest are let go first.
pub const RECORDED_REQUESTS: usize = 4_096;
