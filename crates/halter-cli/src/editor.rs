//! The prompt of a chat: line editing, history, pasting of several lines.

use crate::failure::Failure;
use crate::limits::HISTORY_LINES;
use halter::HalterError;
use reedline::{
    EditCommand, Emacs, FileBackedHistory, KeyCode, KeyModifiers, Prompt, PromptEditMode,
    PromptHistorySearch, Reedline, ReedlineEvent, Signal, default_emacs_keybindings,
};
use std::borrow::Cow;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Reads what a person types.
pub struct Editor {
    line_editor: Reedline,
}

/// What a person did.
#[derive(Debug)]
pub enum Input {
    /// Sent a text.
    Line(String),
    /// Pressed Ctrl-C.
    Interrupt,
    /// Pressed Ctrl-D, or has been asked to stop.
    End,
}

impl Editor {
    /// An editor with the history of earlier chats. It gives up when `ending`
    /// becomes true.
    pub fn new(state_dir: Option<PathBuf>, color: bool, ending: Arc<AtomicBool>) -> Self {
        let mut keys = default_emacs_keybindings();
        for modifier in [KeyModifiers::ALT, KeyModifiers::SHIFT] {
            let newline = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
            keys.add_binding(modifier, KeyCode::Enter, newline);
        }
        let mut line_editor = Reedline::create()
            .with_edit_mode(Box::new(Emacs::new(keys)))
            .with_ansi_colors(color)
            .use_bracketed_paste(true)
            .with_break_signal(ending);
        if let Some(history) = state_dir.and_then(history) {
            line_editor = line_editor.with_history(Box::new(history));
        }
        Self { line_editor }
    }

    /// Waits for the next input, which begins with `draft`, on a thread that
    /// may wait for keys.
    pub async fn read(mut self, draft: String) -> Result<(Self, Input), Failure> {
        if !draft.is_empty() {
            let insert = EditCommand::InsertString(draft);
            self.line_editor.run_edit_commands(&[insert]);
        }
        let read = tokio::task::spawn_blocking(move || {
            let signal = self.line_editor.read_line(&ChatPrompt);
            (self, signal)
        });
        let failed = |error: String| HalterError::new("terminal_failed", error);
        let (editor, signal) = read.await.map_err(|error| failed(error.to_string()))?;
        let input = match signal.map_err(|error| failed(error.to_string()))? {
            Signal::Success(line) => Input::Line(line),
            Signal::CtrlC => Input::Interrupt,
            _ => Input::End,
        };
        Ok((editor, input))
    }
}

/// What was typed before; only its owner can read it.
fn history(state_dir: PathBuf) -> Option<FileBackedHistory> {
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&state_dir);
    let opened = made.map_err(|error| error.to_string()).and_then(|()| {
        FileBackedHistory::with_file(HISTORY_LINES, state_dir.join("history"))
            .map_err(|error| error.to_string())
    });
    opened
        .inspect_err(|error| tracing::debug!(%error, "no history"))
        .ok()
}

struct ChatPrompt;

impl Prompt for ChatPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("› ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("· ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("search {}: ", search.term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reedline::{History, HistoryItem};

    #[test]
    fn so_many_lines_are_remembered_and_no_more() {
        let state = tempfile::tempdir().unwrap();
        let mut lines = history(state.path().to_owned()).unwrap();
        for number in 0..=HISTORY_LINES {
            let item = HistoryItem::from_command_line(number.to_string());
            lines.save(item).unwrap();
        }
        lines.sync().unwrap();
        let text = std::fs::read_to_string(state.path().join("history")).unwrap();
        let kept: Vec<String> = (1..=HISTORY_LINES).map(|n| n.to_string()).collect();
        assert_eq!(text.lines().collect::<Vec<_>>(), kept);
    }
}
