//! Reads an event stream from standard input and shows it as it comes.
//!
//! `halter run --streaming-json "…" | cargo run -p halter --example event_consumer`

#![allow(clippy::print_stdout, clippy::print_stderr)]

use halter_protocol::{SCHEMA_VERSION, SessionEvent, SessionEventPayload};
use std::io::{BufRead, Write};

fn main() -> anyhow::Result<()> {
    for line in std::io::stdin().lock().lines() {
        let event: SessionEvent = serde_json::from_str(&line?)?;
        if let Some(version) = event
            .schema_version
            .filter(|version| *version > SCHEMA_VERSION)
        {
            eprintln!("the stream has version {version}: what is new shows as unknown");
        }
        show(event)?;
    }
    Ok(())
}

fn show(event: SessionEvent) -> anyhow::Result<()> {
    match event.payload {
        SessionEventPayload::DeltaItem { delta } => {
            print!("{}", delta.text);
            std::io::stdout().flush()?;
        }
        SessionEventPayload::ToolExecutionStarted { call } => {
            println!("\n> {} {}", call.name, call.arguments);
        }
        SessionEventPayload::ToolExecutionCompleted { outcome } => match outcome.result {
            Ok(_) => println!("< {}", outcome.call.name),
            Err(error) => println!("< {} failed ({}): {error}", outcome.call.name, error.code),
        },
        SessionEventPayload::Warning { message } => eprintln!("warning: {message}"),
        SessionEventPayload::Lagged { dropped_events } => {
            eprintln!(
                "{dropped_events} events missed: read again after {}",
                event.sequence()
            );
        }
        SessionEventPayload::TurnCompleted { usage, .. } => {
            println!(
                "\n{} tokens in, {} out",
                usage.input_tokens, usage.output_tokens
            );
        }
        SessionEventPayload::TurnFailed { error, .. } => {
            println!("\nfailed ({}): {error}", error.code);
        }
        SessionEventPayload::Unknown(unknown) => {
            eprintln!("unknown event {}: {}", unknown.kind(), unknown.raw());
        }
        _ => {}
    }
    Ok(())
}
