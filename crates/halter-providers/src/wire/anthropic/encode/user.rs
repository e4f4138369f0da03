//! What stands in user messages: words, notes, files and tool results.

use super::log::{MessageLog, Role, put, put_text_block};
use crate::wire::attachment::{Blob, Carried, Intake, parts_of};
use crate::wire::body::{Warnings, write_json};
use halter_protocol::{ContentPart, ToolMessage, UserMessage};
use std::borrow::Cow;

/// What a conversation begins with if its first message is the model's: the
/// service wants the user to speak first.
pub(super) const OPENING: &str = "(The beginning of this conversation is not shown.)";

/// Appends what a user said.
pub(super) fn push(
    log: &mut MessageLog,
    message: &UserMessage,
    intake: &Intake,
    warnings: &mut Warnings,
) {
    for part in blocks(&message.parts, intake, warnings) {
        log.append(Role::User, true, |out| put_block(out, &part));
    }
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
pub(super) fn push_result(
    log: &mut MessageLog,
    call: &str,
    result: &ToolMessage,
    intake: &Intake,
    warnings: &mut Warnings,
) {
    log.append(Role::User, true, |out| {
        put(out, "{\"type\":\"tool_result\",\"tool_use_id\":");
        write_json(out, call);
        match parts_of(result) {
            Some(parts) => put_blocks(out, &blocks(parts, intake, warnings)),
            None => {
                let text = result.to_model_text();
                if !text.is_empty() {
                    put(out, ",\"content\":");
                    write_json(out, &text);
                }
            }
        }
        if result.error.is_some() {
            put(out, ",\"is_error\":true");
        }
        put(out, "}");
    });
}

/// Appends the result of a call that loaded tools: references to them and
/// nothing else, as the service wants it.
pub(super) fn push_references<'a>(
    log: &mut MessageLog,
    call: &str,
    names: impl Iterator<Item = Cow<'a, str>>,
) {
    log.append(Role::User, true, |out| {
        put(out, "{\"type\":\"tool_result\",\"tool_use_id\":");
        write_json(out, call);
        put(out, ",\"content\":");
        for (place, name) in names.enumerate() {
            put(out, if place == 0 { "[" } else { "," });
            put(out, "{\"type\":\"tool_reference\",\"tool_name\":");
            write_json(out, &name);
            put(out, "}");
        }
        put(out, "]}");
    });
}

/// The parts that become blocks: the service refuses blank ones.
fn blocks<'a>(
    parts: &'a [ContentPart],
    intake: &Intake,
    warnings: &mut Warnings,
) -> Vec<Carried<'a>> {
    parts
        .iter()
        .filter_map(|part| intake.carry(part, warnings))
        .filter(|part| match part {
            Carried::Text(text) => !text.trim().is_empty(),
            Carried::TextDocument(text) => !text.trim().is_empty(),
            Carried::Image(_) | Carried::Pdf(_) => true,
        })
        .collect()
}

/// Writes the content of a result, if there is any.
fn put_blocks(out: &mut Vec<u8>, blocks: &[Carried<'_>]) {
    for (place, block) in blocks.iter().enumerate() {
        put(out, if place == 0 { ",\"content\":[" } else { "," });
        put_block(out, block);
    }
    if !blocks.is_empty() {
        put(out, "]");
    }
}

fn put_block(out: &mut Vec<u8>, part: &Carried<'_>) {
    match part {
        Carried::Text(text) => put_text_block(out, text),
        Carried::TextDocument(text) => {
            put(
                out,
                "{\"type\":\"document\",\"source\":{\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":",
            );
            write_json(out, *text);
            put(out, "}}");
        }
        Carried::Image(blob) => put_base64(out, "image", blob),
        Carried::Pdf(blob) => put_base64(out, "document", blob),
    }
}

fn put_base64(out: &mut Vec<u8>, kind: &str, blob: &Blob<'_>) {
    put(out, "{\"type\":\"");
    put(out, kind);
    put(out, "\",\"source\":{\"type\":\"base64\",\"media_type\":\"");
    put(out, &blob.media_type);
    put(out, "\",\"data\":\"");
    put(out, &blob.base64());
    put(out, "\"}}");
}
