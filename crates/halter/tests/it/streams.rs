//! Streams of real sessions, held against the schema that consumers rely on.
//!
//! With `HALTER_RECORD_STREAMS` set to a directory, each stream is also written
//! there: that is how the golden streams of `halter-protocol` were made.

mod approvals;
mod budget;
mod compaction;
mod hook_files;
mod instructions;
mod jobs;
mod late_tools;
mod questions;
mod resources;
mod scenarios;
mod subagents;

use halter::prelude::*;
use halter_protocol::{Delivery, SCHEMA_VERSION};
use serde_json::Value;
use std::path::Path;

/// Names a directory to write the streams to.
const RECORD: &str = "HALTER_RECORD_STREAMS";

/// A stream as a consumer gets it, and where its session worked.
struct Recorded {
    events: Vec<SessionEvent>,
    directory: std::path::PathBuf,
}

impl Recorded {
    /// One JSON object a line, the temporary directory called `/project`.
    fn lines(&self) -> Vec<String> {
        let directory = self.directory.to_str().unwrap();
        let lines = self.events.iter().map(|event| {
            let line = serde_json::to_string(event).unwrap();
            line.replace(directory, "/project")
        });
        lines.collect()
    }
}

/// Checks what every consumer may rely on, and records the stream if asked to.
fn check(name: &str, recorded: &Recorded) {
    let schema: Value = serde_json::from_str(include_str!(
        "../../../halter-protocol/schema/event.schema.json"
    ))
    .unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let mut head = 0;
    let lines = recorded.lines();
    for (index, line) in lines.iter().enumerate() {
        let value: Value = serde_json::from_str(line).unwrap();
        let errors: Vec<String> = schema.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{line}\n{errors:?}");
        let event: SessionEvent = serde_json::from_str(line).unwrap();
        let unknown = matches!(event.payload, SessionEventPayload::Unknown(_));
        assert!(!unknown, "this version reads what it writes: {line}");
        assert_eq!(serde_json::to_value(&event).unwrap(), value, "{line}");
        let version = (index == 0).then_some(SCHEMA_VERSION);
        assert_eq!(event.schema_version, version, "{line}");
        if event.delivery == Delivery::Lossless {
            head += 1;
        }
        assert_eq!(event.sequence(), head, "{line}");
    }
    if let Some(directory) = std::env::var_os(RECORD) {
        let file = Path::new(&directory).join(format!("{name}.jsonl"));
        std::fs::write(file, lines.join("\n") + "\n").unwrap();
    }
}

macro_rules! streams {
    ($($name:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $name() {
                check(stringify!($name), &scenarios::$name().await);
            }
        )+
    };
}

streams!(
    plain_turn,
    tools,
    pictures,
    thinking,
    hooks,
    cancel,
    deadlines,
    resume_after_crash,
    changes,
    failures,
    lagged,
    offline_model,
    structured_output,
    resume_with_changes,
    answer_ends,
    out_of_descriptors,
    network_refused,
);

#[tokio::test]
async fn resources_loaded() {
    check("resources_loaded", &resources::resources_loaded().await);
}

#[tokio::test]
async fn budget_stream() {
    check("budget", &budget::budget().await);
}

#[tokio::test]
async fn native_compaction_stream() {
    check("native_compaction", &compaction::native_compaction().await);
}

#[tokio::test]
async fn compaction_stream() {
    check("compaction", &compaction::compaction().await);
}

#[tokio::test]
async fn approval_choices() {
    check("approval_choices", &approvals::choices().await);
}

#[tokio::test]
async fn background_jobs() {
    check("jobs", &jobs::jobs().await);
}

#[tokio::test]
async fn late_tools() {
    check("late_tools", &late_tools::late_tools().await);
}

#[tokio::test]
async fn subagents_stream() {
    check("subagents", &subagents::subagents().await);
}

#[tokio::test]
async fn forked_child_stream() {
    check("forked_child", &subagents::forked_child().await);
}

#[tokio::test]
async fn questions() {
    check("questions", &questions::questions().await);
}

#[tokio::test]
async fn leaves_sandbox() {
    check("leaves_sandbox", &approvals::leaves_sandbox().await);
}

#[tokio::test]
async fn asked_hosts() {
    check("asked_hosts", &approvals::asked_hosts().await);
}

#[tokio::test]
async fn instruction_files() {
    let recorded = instructions::instruction_files().await;
    check("instruction_files", &recorded);
}

#[tokio::test]
async fn hook_files_stream() {
    check("hook_files", &hook_files::hook_files().await);
}
