//! The runtime without the facade: a prompt assembler and a store of one's own.
//!
//! `cargo run -p halter --example replaced_services`

#![allow(clippy::print_stdout)]

use futures::StreamExt;
use halter::prelude::*;
use halter::providers::{FakeProvider, ModelRegistry};
use halter::session::{InMemorySessionStore, SessionStore};
use halter_protocol::{AssembledPrompt, ProviderKind, ResolvedModel};
use halter_runtime::{PromptAssembler, PromptContext, RuntimeServices};
use halter_session::PageRequest;
use std::sync::Arc;

/// Says the same to every session, whatever is configured.
struct Pirate;

impl PromptAssembler for Pirate {
    fn assemble(&self, _: PromptContext<'_>) -> AssembledPrompt {
        AssembledPrompt::new([prompts::system_prompt_segment("You are a pirate.")])
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let provider =
        FakeProvider::from_fn(|request| format!("I was told: {}", request.prompt.text()));
    let mut models = ModelRegistry::new();
    models.register_provider("fake", Arc::new(provider));
    models.register_model(ResolvedModel {
        id: "default".into(),
        provider: "fake".into(),
        provider_kind: ProviderKind::Custom,
        model: "fake-1".to_owned(),
        max_input_tokens: None,
        max_output_tokens: None,
        reasoning: None,
        tokens_per_minute: None,
    });
    let store: Arc<dyn SessionStore> = Arc::new(InMemorySessionStore::new());
    let mut services = RuntimeServices::new(models, store.clone(), std::env::temp_dir());
    services.prompt_assembler = Arc::new(Pirate);

    let runtime = SessionRuntime::new(Arc::new(services));
    let session = runtime.new_session(SessionInit::default()).await?;
    let mut events = session.submit_turn(Turn::user("Who are you?")).await?;
    while let Some(event) = events.next().await {
        if let SessionEventPayload::DeltaItem { delta } = event?.payload {
            println!("{}", delta.text);
        }
    }
    session.shutdown("complete").await?;
    let kept = store.list(PageRequest::default()).await?.sessions.len();
    println!("{kept} session kept");
    Ok(())
}
