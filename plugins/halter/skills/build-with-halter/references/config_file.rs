//! The smallest harness: a config file, one turn, its events.
//!
//! `HALTER_MODEL=offline cargo run -p halter --example config_file` needs no key.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use futures::StreamExt;
use halter::prelude::*;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let harness = Halter::from_config_file("halter.toml").await?;
    let session = harness.new_session(SessionInit::default()).await?;
    let mut events = session
        .submit_turn(Turn::user("Summarize this repository"))
        .await?;
    while let Some(event) = events.next().await {
        match event?.payload {
            SessionEventPayload::DeltaItem { delta } => print!("{}", delta.text),
            SessionEventPayload::ToolExecutionStarted { call } => {
                eprintln!("[{} {}]", call.name, call.arguments);
            }
            SessionEventPayload::ToolOutput { chunk, .. } => print!("{chunk}"),
            SessionEventPayload::TurnCompleted { usage, .. } => {
                eprintln!(
                    "\nusage: in={} out={}",
                    usage.input_tokens, usage.output_tokens
                );
                break;
            }
            SessionEventPayload::TurnFailed { error, .. } => anyhow::bail!(error),
            _ => {}
        }
    }
    session.shutdown("complete").await?;
    let _ = harness.shutdown(std::time::Duration::from_secs(10)).await;
    Ok(())
}
