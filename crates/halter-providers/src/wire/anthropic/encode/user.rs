//! What stands in user messages: words, notes, files and tool results.

use super::json::{put, put_text_block};
use super::log::{MessageLog, Role};
use crate::wire::attachment::{self, Document, base64, essence};
use crate::wire::body::write_json;
use halter_protocol::{ToolMessage, UserMessage, UserPart};

/// What a conversation begins with if its first message is the model's: the
/// service wants the user to speak first.
pub(super) const OPENING: &str = "(The beginning of this conversation is not shown.)";

const IMAGE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Appends what a user said; says what could not be sent.
pub(super) fn push(log: &mut MessageLog, message: &UserMessage) -> Vec<String> {
    let mut warnings = Vec::new();
    for part in &message.parts {
        match part {
            UserPart::Text { text } => push_text(log, text),
            UserPart::Image { media_type, data } => {
                let kind = essence(media_type);
                if IMAGE_TYPES.contains(&kind.as_str()) {
                    push_base64(log, "image", &kind, data);
                } else {
                    warnings.push(left_out(log, "image", media_type, data));
                }
            }
            UserPart::Document { media_type, data } => match Document::of(media_type, data) {
                Document::Pdf => push_base64(log, "document", "application/pdf", data),
                Document::Text(text) => push_text_document(log, text),
                Document::Other => warnings.push(left_out(log, "document", media_type, data)),
            },
            _ => {}
        }
    }
    warnings
}

/// Appends a text, unless it is blank.
pub(super) fn push_text(log: &mut MessageLog, text: &str) {
    if !text.trim().is_empty() {
        log.append(Role::User, true, |out| put_text_block(out, text));
    }
}

/// Appends words of the harness. They cannot close their own frame.
pub(super) fn push_note(log: &mut MessageLog, text: &str) {
    if !text.trim().is_empty() {
        let text = text.replace("</system-note", "<\\/system-note");
        push_text(log, &format!("<system-note>\n{text}\n</system-note>"));
    }
}

/// Appends the result of a call.
pub(super) fn push_result(log: &mut MessageLog, call: &str, result: &ToolMessage) {
    log.append(Role::User, true, |out| {
        put(out, "{\"type\":\"tool_result\",\"tool_use_id\":");
        write_json(out, call);
        let text = result.to_model_text();
        if !text.is_empty() {
            put(out, ",\"content\":");
            write_json(out, &text);
        }
        if result.error.is_some() {
            put(out, ",\"is_error\":true");
        }
        put(out, "}");
    });
}

fn push_base64(log: &mut MessageLog, kind: &str, media_type: &str, data: &[u8]) {
    log.append(Role::User, true, |out| {
        put(out, "{\"type\":\"");
        put(out, kind);
        put(out, "\",\"source\":{\"type\":\"base64\",\"media_type\":\"");
        put(out, media_type);
        put(out, "\",\"data\":\"");
        put(out, &base64(data));
        put(out, "\"}}");
    });
}

fn push_text_document(log: &mut MessageLog, text: &str) {
    if text.trim().is_empty() {
        return;
    }
    log.append(Role::User, true, |out| {
        put(
            out,
            "{\"type\":\"document\",\"source\":{\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":",
        );
        write_json(out, text);
        put(out, "}}");
    });
}

/// Tells the model, and by the warning the user, of a file that is not sent.
fn left_out(log: &mut MessageLog, what: &str, media_type: &str, data: &[u8]) -> String {
    push_text(log, &attachment::left_out(what, media_type, data));
    attachment::left_out_warning(what, media_type)
}
