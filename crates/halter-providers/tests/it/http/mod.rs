//! A wire over HTTP, against a server on loopback and without a network.

mod cancel;
mod connections;
mod conversations;
mod deadlines;
mod lesser_servers;
mod network;
mod provider;
mod ready_made;
pub mod scripted;
mod server;
mod tls;

use crate::support::{request, user};
use halter_providers::http::{ClientSettings, Endpoint, HttpProvider, NetworkTransport, Transport};
use halter_providers::wire::chat::{Chat, Dialect};
use std::sync::Arc;

/// A whole answer that says `hello`.
pub const HELLO: &str = concat!(
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\n",
    "data: [DONE]\n\n",
);

pub fn chat() -> Arc<Chat> {
    Arc::new(Chat::new(Dialect::OPENAI))
}

pub fn network() -> Arc<dyn Transport> {
    Arc::new(NetworkTransport::new(ClientSettings::default()))
}

pub fn provider(url: &str) -> HttpProvider {
    HttpProvider::new(chat(), Endpoint::new(url), network())
}

pub fn hello() -> halter_providers::ProviderRequest {
    request([user("say hello")])
}
