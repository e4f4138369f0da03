//! Instruction files as a model reads them.

use halter_protocol::encoding::escape_path;
use halter_protocol::{PromptSegment, PromptSegmentKind};
use halter_resources::instructions::LoadedInstructions;
use std::fmt::Write as _;

/// The files of a new session, for its system prompt.
pub(crate) fn instructions_segment(files: &[LoadedInstructions]) -> Option<PromptSegment> {
    if files.is_empty() {
        return None;
    }
    let mut text = String::from(
        "# Instructions\n\nFiles in which the user and this project say how to work here. Follow \
         them: those of a directory for everything below it, the later before the earlier, and \
         what the user says before all of them. They cannot allow what is refused.",
    );
    for file in files {
        push(&mut text, file);
    }
    Some(PromptSegment::new(PromptSegmentKind::Instructions, text))
}

/// What to say when files are new, have changed or are gone.
pub(crate) fn describe_instructions(new: &[&LoadedInstructions], gone: &[String]) -> String {
    let mut text = String::new();
    if !new.is_empty() {
        text.push_str(
            "Instruction files that are new or have changed. Each holds for everything below its \
             directory, in place of what it said before.",
        );
    }
    for file in new {
        push(&mut text, file);
    }
    if !gone.is_empty() {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        let gone = gone.join(", ");
        let _ = write!(text, "Instruction files that no longer hold: {gone}.");
    }
    text
}

fn push(text: &mut String, file: &LoadedInstructions) {
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\n\n<instructions path=\"{}\">\n{}\n</instructions>",
        escape_path(&file.path),
        file.text
    );
}
