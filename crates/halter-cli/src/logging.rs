//! Logs on standard error: `HALTER_LOG`, else `RUST_LOG`, else warnings.

use crate::args::Globals;
use crate::failure::{Failure, usage};
use crate::output::Messages;
use halter_config::Environment;
use std::io::{self, Write};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// A part of a library that logs codes and what comes with tokens: it is never heard.
const SECRET_LOGS: &str = "rmcp::transport::auth=off";

/// Starts logging.
pub fn start(
    globals: &Globals,
    environment: &Environment,
    messages: &Messages,
) -> Result<(), Failure> {
    let filter = filter(globals, environment)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(MessageWriter(messages.clone()));
    let started = match globals.output_file {
        Some(_) => builder.json().try_init(),
        None => builder.try_init(),
    };
    // Only a second call in one process can fail, and then logging runs.
    drop(started);
    Ok(())
}

fn filter(globals: &Globals, environment: &Environment) -> Result<EnvFilter, Failure> {
    let set = |name| {
        let text = environment.text(name)?;
        (!text.trim().is_empty()).then_some((name, text))
    };
    let (name, text) = set("HALTER_LOG")
        .or_else(|| set("RUST_LOG"))
        .unwrap_or(("-v", level(globals)));
    let wrong = |error: &dyn std::fmt::Display| {
        usage(
            format!("{name} is not a log filter: {error}"),
            "set a level such as `info`, or `halter_runtime=debug,warn`",
        )
    };
    let mut filter = EnvFilter::try_new(text).map_err(|error| wrong(&error))?;
    // What goes wrong with a server is said by `halter_mcp`; the library below it says it again.
    let quiet = (!text.contains("rmcp")).then_some("rmcp=off");
    for directive in quiet.into_iter().chain([SECRET_LOGS]) {
        filter = filter.add_directive(directive.parse().map_err(|error| wrong(&error))?);
    }
    Ok(filter)
}

fn level(globals: &Globals) -> &'static str {
    match (globals.quiet, globals.verbose) {
        (true, _) => "error",
        (false, 0 | 1) => "warn",
        (false, 2) => "debug",
        (false, _) => "trace",
    }
}

/// Writes log lines between what else is said.
struct MessageWriter(Messages);

impl<'a> MakeWriter<'a> for MessageWriter {
    type Writer = LogLine;

    fn make_writer(&'a self) -> LogLine {
        LogLine(self.0.clone())
    }
}

struct LogLine(Messages);

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.log(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
