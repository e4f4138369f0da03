//! What a tool returns, cut where it would flood a session.

use crate::builtin::text_head;
use crate::limits::TOOL_RESULT_BYTES;
use halter_protocol::{ContentPart, ToolError, ToolResult};
use std::io;

/// A result with at most [`TOOL_RESULT_BYTES`] of text. How many images and
/// documents a session takes is decided where its model is known.
pub(crate) fn bounded(result: ToolResult) -> ToolResult {
    match result {
        ToolResult::Text { mut text } => {
            cut(&mut text, &mut { TOOL_RESULT_BYTES });
            ToolResult::Text { text }
        }
        ToolResult::Json { value } if !fits(&value) => {
            let mut text = value.to_string();
            cut(&mut text, &mut { TOOL_RESULT_BYTES });
            ToolResult::Text { text }
        }
        ToolResult::Parts { mut parts } => {
            let mut room = TOOL_RESULT_BYTES;
            for part in &mut parts {
                if let ContentPart::Text { text } = part {
                    cut(text, &mut room);
                }
            }
            ToolResult::Parts { parts }
        }
        other => other,
    }
}

/// An error whose message is cut like a result.
pub(crate) fn bounded_error(mut error: ToolError) -> ToolError {
    cut(&mut error.message, &mut { TOOL_RESULT_BYTES });
    error
}

/// Takes a text out of the room that is left, and says what it lacks.
fn cut(text: &mut String, room: &mut usize) {
    if text.len() > *room {
        let left_out = text.len() - text_head(text, *room).len();
        text.truncate(text.len() - left_out);
        // What a flood took is given back.
        text.shrink_to_fit();
        text.push_str(&format!(
            "\n[{left_out} more bytes are left out: a result has {TOOL_RESULT_BYTES} at most; \
             ask for less at once]"
        ));
    }
    *room = room.saturating_sub(text.len());
}

/// Whether the value has room as text, found out without writing it.
fn fits(value: &serde_json::Value) -> bool {
    struct Room(usize);

    impl io::Write for Room {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    serde_json::to_writer(Room(TOOL_RESULT_BYTES), value).is_ok()
}
