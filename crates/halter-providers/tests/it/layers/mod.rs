//! Layers around a provider.

mod classify;
mod retry;
mod services;
mod trace;

use crate::support::{request, user};
use halter_protocol::{Usage, UsageBuckets};
use halter_providers::ProviderRequest;

fn hello() -> ProviderRequest {
    request([user("hello")])
}

fn tokens(uncached_input: u64, output: u64) -> Usage {
    Usage::from(UsageBuckets {
        uncached_input,
        output,
        ..UsageBuckets::default()
    })
}
