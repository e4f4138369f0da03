//! What a person would see in a terminal.

use super::line_drawing::LineDrawing;
use crate::exec::TerminalSize;
use crate::limits::{PTY_HIGHLIGHTED, PTY_TITLE_CHARS};
use serde_json::{Map, Value, json};
use std::num::NonZeroU16;
use std::panic::AssertUnwindSafe;
use vt100::{Callbacks, Parser, Screen};

/// The screen of one terminal.
pub(super) struct TerminalScreen {
    parser: Parser<TerminalReports>,
    lines: LineDrawing,
}

/// What a program asks its terminal, and tells it.
#[derive(Default)]
struct TerminalReports {
    /// Answers that the program is owed.
    answers: Vec<u8>,
    title: String,
}

impl Callbacks for TerminalReports {
    fn set_window_title(&mut self, _: &mut Screen, title: &[u8]) {
        let title = String::from_utf8_lossy(title);
        self.title = title.chars().take(PTY_TITLE_CHARS).collect();
    }

    /// Programs wait for these answers; those who get none may hang.
    fn unhandled_csi(
        &mut self,
        screen: &mut Screen,
        first: Option<u8>,
        _: Option<u8>,
        parameters: &[&[u16]],
        kind: char,
    ) {
        let number = parameters.first().and_then(|it| it.first()).copied();
        match (first, kind, number) {
            // Which kind of terminal is this? A VT100 with advanced video.
            (None, 'c', None | Some(0)) => self.answers.extend(b"\x1b[?1;2c"),
            // Is all well?
            (None, 'n', Some(5)) => self.answers.extend(b"\x1b[0n"),
            // Where is the cursor?
            (None, 'n', Some(6)) => {
                let (row, column) = screen.cursor_position();
                let place = format!("\x1b[{};{}R", row + 1, column + 1);
                self.answers.extend(place.as_bytes());
            }
            _ => {}
        }
    }
}

impl TerminalScreen {
    pub(super) fn new(size: TerminalSize) -> Self {
        let (rows, columns) = cells(size);
        Self {
            parser: Parser::new_with_callbacks(rows, columns, 0, TerminalReports::default()),
            lines: LineDrawing::default(),
        }
    }

    /// Shows output. Returns what the terminal answers to it.
    pub(super) fn show(&mut self, output: &[u8]) -> Vec<u8> {
        let output = self.lines.translate(output);
        let parser = AssertUnwindSafe(&mut self.parser);
        let shown = std::panic::catch_unwind(|| {
            let AssertUnwindSafe(parser) = { parser };
            parser.process(&output);
        });
        if shown.is_err() {
            // A defect of the screen model must not end the terminal.
            tracing::warn!("the screen of a terminal was lost");
            let size = self.size();
            *self = Self::new(size);
        }
        std::mem::take(&mut self.parser.callbacks_mut().answers)
    }

    pub(super) fn resize(&mut self, size: TerminalSize) {
        let (rows, columns) = cells(size);
        self.parser.set_size(rows, columns);
    }

    pub(super) fn size(&self) -> TerminalSize {
        let (rows, columns) = self.parser.screen().size();
        TerminalSize {
            columns: columns.get(),
            rows: rows.get(),
        }
    }

    /// Whether a program has asked for the application mode of cursor keys.
    pub(super) fn application_cursor(&self) -> bool {
        self.parser.screen().application_cursor()
    }

    /// The lines, without blanks at their ends and at the end of the screen.
    pub(super) fn text(&self) -> String {
        let screen = self.parser.screen();
        let (_, columns) = screen.size();
        let rows = screen.rows(0, columns.get());
        let lines: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
        lines.join("\n").trim_end().to_owned()
    }

    /// What a result says of the screen.
    pub(super) fn describe(&self, answer: &mut Map<String, Value>) {
        let screen = self.parser.screen();
        let (row, column) = screen.cursor_position();
        answer.insert("screen".into(), self.text().into());
        answer.insert(
            "cursor".into(),
            json!({"row": row + 1, "column": column + 1}),
        );
        let highlighted = self.highlighted();
        if !highlighted.is_empty() {
            answer.insert("highlighted".into(), highlighted.into());
        }
        let title = &self.parser.callbacks().title;
        if !title.is_empty() {
            answer.insert("title".into(), title.clone().into());
        }
    }

    /// Texts in reverse video, as chosen entries of a menu are.
    fn highlighted(&self) -> Vec<String> {
        let screen = self.parser.screen();
        let TerminalSize { columns, rows } = self.size();
        let mut found = Vec::new();
        for row in 0..rows {
            let mut text = String::new();
            for column in 0..=columns {
                match screen.cell(row, column).filter(|cell| cell.inverse()) {
                    Some(cell) if cell.has_contents() => text.push_str(cell.contents()),
                    Some(_) => text.push(' '),
                    None => {
                        let whole = std::mem::take(&mut text);
                        let whole = whole.trim();
                        if !whole.is_empty() {
                            found.push(whole.to_owned());
                        }
                    }
                }
            }
            if found.len() >= PTY_HIGHLIGHTED {
                found.truncate(PTY_HIGHLIGHTED);
                break;
            }
        }
        found
    }
}

fn cells(size: TerminalSize) -> (NonZeroU16, NonZeroU16) {
    let count = |cells: u16| NonZeroU16::new(cells).unwrap_or(NonZeroU16::MIN);
    (count(size.rows), count(size.columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(output: &str) -> TerminalScreen {
        let mut screen = TerminalScreen::new(TerminalSize {
            columns: 20,
            rows: 4,
        });
        screen.show(output.as_bytes());
        screen
    }

    #[test]
    fn the_screen_is_what_a_person_sees() {
        let screen = screen("gone\x1b[2J\x1b[Hone  \r\n\x1b[7m two \x1b[m\x1b]2;a title\x07");
        let mut answer = Map::new();
        screen.describe(&mut answer);
        assert_eq!(
            Value::Object(answer),
            json!({
                "screen": "one\n two",
                "cursor": {"row": 2, "column": 6},
                "highlighted": ["two"],
                "title": "a title",
            })
        );
    }

    #[test]
    fn the_title_and_the_list_of_what_is_highlighted_have_their_bounds() {
        let title = "é".repeat(PTY_TITLE_CHARS);
        for more in ["", "x"] {
            let screen = screen(&format!("\x1b]2;{title}{more}\x07"));
            assert_eq!(screen.parser.callbacks().title, title);
        }
        let chosen = "\x1b[7ma\x1b[m ";
        for (there, listed) in [
            (PTY_HIGHLIGHTED - 1, PTY_HIGHLIGHTED - 1),
            (PTY_HIGHLIGHTED, PTY_HIGHLIGHTED),
            (PTY_HIGHLIGHTED + 1, PTY_HIGHLIGHTED),
        ] {
            let screen = screen(&chosen.repeat(there));
            assert_eq!(screen.highlighted().len(), listed, "{there}");
        }
    }

    #[test]
    fn questions_to_the_terminal_are_answered_once() {
        let mut screen = screen("ab");
        assert_eq!(
            screen.show(b"\x1b[6n\x1b[c\x1b[5n"),
            b"\x1b[1;3R\x1b[?1;2c\x1b[0n"
        );
        assert_eq!(screen.show(b"x"), b"");
    }

    proptest::proptest! {
        #[test]
        fn no_output_and_no_size_breaks_the_screen(
            output in proptest::collection::vec(
                proptest::prop_oneof![
                    "\\PC{0,8}".prop_map(String::into_bytes),
                    "\x1b\\[[0-9;?]{0,6}[@-~]".prop_map(String::into_bytes),
                    "[\x07-\x0f世]{0,4}".prop_map(String::into_bytes),
                    proptest::collection::vec(proptest::num::u8::ANY, 0..8),
                ],
                0..40,
            ),
            columns in 1_u16..30,
            rows in 1_u16..10,
        ) {
            let mut screen = screen("");
            for piece in &output {
                screen.show(piece);
            }
            screen.resize(TerminalSize { columns, rows });
            for piece in &output {
                screen.show(piece);
            }
            let mut answer = Map::new();
            screen.describe(&mut answer);
            proptest::prop_assert_eq!(screen.size(), TerminalSize { columns, rows });
        }
    }

    use proptest::strategy::Strategy as _;
}
