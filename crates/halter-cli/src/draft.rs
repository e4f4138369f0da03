//! A line of text from the bytes of a keyboard.

use crate::limits::MAX_DRAFT_BYTES;

/// What has been typed and not sent yet.
#[derive(Debug, Default)]
pub struct Draft {
    text: String,
    /// The start of a character of several bytes.
    partial: Vec<u8>,
    escape: Escape,
    /// The last key was a carriage return: a line feed after it ends no other line.
    after_return: bool,
}

/// Where in a key's escape sequence the bytes are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Escape {
    #[default]
    Outside,
    /// Behind the escape character.
    Begun,
    /// Behind the bracket, before the final byte.
    Inside,
    /// One byte is left.
    LastByte,
}

impl Draft {
    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text, to be edited elsewhere.
    pub fn into_text(self) -> String {
        self.text
    }

    /// Takes keys in and returns the lines they complete.
    pub fn type_in(&mut self, keys: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for byte in keys {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            if self.is_in_escape(*byte) {
                continue;
            }
            match byte {
                b'\n' if after_return => {}
                b'\r' | b'\n' => lines.push(std::mem::take(&mut self.text)),
                0x08 | 0x7f => {
                    self.text.pop();
                }
                // Ctrl-U and Ctrl-W, as at a prompt.
                0x15 => self.text.clear(),
                0x17 => self.delete_word(),
                b'\t' => self.push(' '),
                0x00..=0x1f => {}
                byte => self.push_byte(*byte),
            }
        }
        lines
    }

    fn push_byte(&mut self, byte: u8) {
        self.partial.push(byte);
        match std::str::from_utf8(&self.partial) {
            Ok(text) => {
                let characters: Vec<char> = text.chars().collect();
                self.partial.clear();
                characters.into_iter().for_each(|one| self.push(one));
            }
            Err(error) if error.error_len().is_some() => self.partial.clear(),
            Err(_) => {}
        }
    }

    fn push(&mut self, character: char) {
        if self.text.len() + character.len_utf8() <= MAX_DRAFT_BYTES {
            self.text.push(character);
        }
    }

    fn delete_word(&mut self) {
        let rest = self.text.trim_end();
        let kept = rest.rfind(char::is_whitespace).map_or(0, |end| end + 1);
        self.text.truncate(kept);
    }

    /// True if the byte belongs to a key such as an arrow.
    fn is_in_escape(&mut self, byte: u8) -> bool {
        let before = self.escape;
        self.escape = match (before, byte) {
            (Escape::Outside, 0x1b) => Escape::Begun,
            (Escape::Outside, _) => Escape::Outside,
            (Escape::Begun, b'[') => Escape::Inside,
            (Escape::Begun, b'O') => Escape::LastByte,
            (Escape::Begun, 0x1b) => Escape::Begun,
            (Escape::Begun | Escape::LastByte, _) => Escape::Outside,
            (Escape::Inside, 0x40..=0x7e) => Escape::Outside,
            (Escape::Inside, _) => Escape::Inside,
        };
        before != Escape::Outside || self.escape != Escape::Outside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[u8]) -> (Vec<String>, String) {
        let mut draft = Draft::default();
        // One by one, as slow fingers would.
        let lines = keys.iter().flat_map(|key| draft.type_in(&[*key])).collect();
        (lines, draft.into_text())
    }

    #[test]
    fn keys_become_lines() {
        let (lines, rest) = typed("first\r\nsécond\rthi".as_bytes());
        assert_eq!(lines, ["first", "sécond"]);
        assert_eq!(rest, "thi");
        assert_eq!(typed(b"\r\r\n\na\n").0, ["", "", "", "a"]);
    }

    #[test]
    fn editing_keys_edit() {
        assert_eq!(typed("caf\u{e9}\x7f\x7f!".as_bytes()).1, "ca!");
        assert_eq!(typed(b"one two\x17three").1, "one three");
        assert_eq!(typed(b"gone\x15kept").1, "kept");
    }

    #[test]
    fn other_keys_leave_no_trace() {
        let arrows = b"a\x1b[Ab\x1bOPc\x1b[1;5Cd\x1bxe\x04\x00f";
        assert_eq!(typed(arrows).1, "abcdef");
        assert_eq!(typed(b"a\xff\xfeb").1, "ab");
    }

    #[test]
    fn a_draft_is_bounded() {
        let mut draft = Draft::default();
        draft.type_in(&vec![b'x'; MAX_DRAFT_BYTES + 10]);
        assert_eq!(draft.text().len(), MAX_DRAFT_BYTES);
    }
}
