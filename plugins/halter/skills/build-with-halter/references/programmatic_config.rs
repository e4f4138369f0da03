//! A configuration made in code, for services that own it.
//!
//! `HALTER_MODEL=offline cargo run -p halter --example programmatic_config`
//! needs no key; without the variable, the configured provider is used.

#![allow(clippy::print_stdout)]

use futures::StreamExt;
use halter::prelude::*;
use halter_config::{
    ConfiguredProvider, ModelConfig, ModelsConfig, PolicyConfig, ShellPolicyConfig, ToolsConfig,
};
use halter_protocol::ReasoningEffort;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config = HarnessConfig {
        models: ModelsConfig {
            default: Some(ModelConfig {
                provider: ConfiguredProvider::OpenAi,
                model: "gpt-5".to_owned(),
                max_input_tokens: Some(200_000),
                max_output_tokens: Some(8_192),
                reasoning: Some(ReasoningEffort::Medium),
                tokens_per_minute: Some(500_000),
            }),
            ..ModelsConfig::default()
        },
        tools: ToolsConfig {
            enabled: vec!["read".to_owned(), "glob".to_owned(), "grep".to_owned()],
            ..ToolsConfig::default()
        },
        policy: PolicyConfig {
            shell: ShellPolicyConfig {
                enabled: false,
                ..ShellPolicyConfig::default()
            },
            ..PolicyConfig::default()
        },
        ..HarnessConfig::default()
    };
    let harness = Halter::from_config(config, ResourceSnapshot::empty()).await?;
    let session = harness.new_session(SessionInit::default()).await?;
    let mut events = session
        .submit_turn(Turn::user("Summarize this repository"))
        .await?;
    while let Some(event) = events.next().await {
        if let SessionEventPayload::DeltaItem { delta } = event?.payload {
            print!("{}", delta.text);
        }
    }
    session.shutdown("complete").await
}
