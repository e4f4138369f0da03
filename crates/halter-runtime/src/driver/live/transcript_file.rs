//! The conversation as a file that hooks of the public format read.
//!
//! It lies in a directory of its own, which tools of the session may not change,
//! and goes with the session. Each run of hooks adds what was committed since:
//! an answer that is about to be is in the payload alone, as the public format
//! has it.

use halter_protocol::public_tools::{public_input, public_tool_name};
use halter_protocol::{Message, MessageId, SessionBlueprint, SessionState};
use halter_tools::ScratchDir;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The name of the file.
const FILE_NAME: &str = "transcript.jsonl";

/// A session's transcript on disk.
pub(super) struct TranscriptFile {
    /// One writer at a time, so that lines stay in order.
    directory: Arc<Mutex<ScratchDir>>,
    /// The newest message that was handed over.
    newest: Option<MessageId>,
}

/// Messages that the file lacks, as lines.
pub(super) struct MissingLines {
    directory: Arc<Mutex<ScratchDir>>,
    lines: String,
}

impl TranscriptFile {
    pub fn new(root: PathBuf) -> Self {
        Self {
            directory: Arc::new(Mutex::new(ScratchDir::new(root))),
            newest: None,
        }
    }

    /// What is new since this was last asked.
    pub fn missing(&mut self, state: &SessionState, blueprint: &SessionBlueprint) -> MissingLines {
        let newest_first = state.messages.iter_newest_first();
        let new = newest_first.take_while(|it| Some(it.id()) != self.newest.as_ref());
        let mut lines: Vec<String> = new.map(|it| line(it, blueprint)).collect();
        lines.reverse();
        let newest = state.messages.iter_newest_first().next();
        self.newest = newest.map(|it| it.id().clone());
        MissingLines {
            directory: self.directory.clone(),
            lines: lines.concat(),
        }
    }
}

impl MissingLines {
    /// Adds them, and returns where the file is. Blocks on the disk.
    pub fn write(self) -> io::Result<PathBuf> {
        let directory = self.directory.lock();
        let directory = directory.unwrap_or_else(PoisonError::into_inner);
        let path = directory.create()?.join(FILE_NAME);
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        file.write_all(self.lines.as_bytes())?;
        Ok(path)
    }
}

/// A message as public transcripts write it.
fn line(message: &Message, blueprint: &SessionBlueprint) -> String {
    let (kind, content): (&str, Value) = match message {
        Message::User(user) => ("user", user.plain_text().into()),
        Message::System(system) => ("system", system.text.clone().into()),
        Message::Tool(tool) => (
            "user",
            json!([{
                "type": "tool_result", "tool_use_id": tool.call_id,
                "content": tool.to_model_text(), "is_error": tool.error.is_some(),
            }]),
        ),
        Message::Assistant(assistant) => {
            let text = assistant.plain_text();
            let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
            let cwd = &blueprint.working_dir;
            let calls = assistant.tool_calls().map(|call| {
                let (name, input) = (call.name.as_str(), &call.arguments);
                json!({
                    "type": "tool_use", "id": call.id, "name": public_tool_name(name),
                    "input": public_input(name, input, cwd),
                })
            });
            ("assistant", text.into_iter().chain(calls).collect())
        }
        // One of a later version.
        _ => ("system", Value::Null),
    };
    let line = json!({
        "type": kind,
        "uuid": message.id(),
        "sessionId": blueprint.session_id,
        "message": {"role": kind, "content": content},
    });
    format!("{line}\n")
}
