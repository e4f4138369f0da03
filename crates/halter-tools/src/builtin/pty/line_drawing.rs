//! The character set in which programs draw lines and boxes: terminals show it
//! for letters, and the screen model does not know it.

/// What the characters from `` ` `` to `~` are in that set.
const LINES: [char; 31] = [
    '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼',
    '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
];

/// Writes letters that stand for lines as what they stand for.
#[derive(Default)]
pub(super) struct LineDrawing {
    /// Whether each of the two sets that a program switches between is that of
    /// lines.
    sets: [bool; 2],
    /// Whether the second one is in use.
    is_shifted: bool,
    place: Place,
}

/// What the next byte is part of.
#[derive(Default, Clone, Copy)]
enum Place {
    #[default]
    Text,
    /// After the byte that begins a sequence.
    Escape,
    /// A sequence that says which set is the first, or the second.
    Set(usize),
    /// A sequence that ends with any character but those of punctuation.
    Short,
    /// A sequence with parameters.
    Control,
    /// Words to the terminal, such as a title.
    Words,
}

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;
const SHIFT_OUT: u8 = 0x0e;
const SHIFT_IN: u8 = 0x0f;
const CANCEL: [u8; 2] = [0x18, 0x1a];

impl LineDrawing {
    /// The output with lines for letters where the terminal would show them.
    pub(super) fn translate(&mut self, output: &[u8]) -> Vec<u8> {
        let mut shown = Vec::with_capacity(output.len());
        for byte in output {
            match self.line(*byte) {
                Some(line) => shown.extend(line.encode_utf8(&mut [0; 4]).bytes()),
                None => shown.push(*byte),
            }
            self.place = self.next(*byte);
        }
        shown
    }

    fn line(&self, byte: u8) -> Option<char> {
        let [first, second] = self.sets;
        let draws = if self.is_shifted { second } else { first };
        match self.place {
            Place::Text if draws => LINES.get(usize::from(byte.checked_sub(b'`')?)).copied(),
            _ => None,
        }
    }

    fn next(&mut self, byte: u8) -> Place {
        if byte == ESCAPE {
            return Place::Escape;
        }
        if CANCEL.contains(&byte) {
            return Place::Text;
        }
        match (self.place, byte) {
            (Place::Text, SHIFT_OUT | SHIFT_IN) => {
                self.is_shifted = byte == SHIFT_OUT;
                Place::Text
            }
            (Place::Escape, b'(') => Place::Set(0),
            (Place::Escape, b')') => Place::Set(1),
            (Place::Escape, b'[') => Place::Control,
            (Place::Escape, b']' | b'P' | b'X' | b'^' | b'_') => Place::Words,
            (Place::Escape | Place::Set(_) | Place::Short, b' '..=b'/') => Place::Short,
            (Place::Escape, b'c') => {
                *self = Self::default();
                Place::Text
            }
            (Place::Set(which), _) => {
                if let Some(set) = self.sets.get_mut(which) {
                    *set = byte == b'0';
                }
                Place::Text
            }
            (Place::Words, BELL) | (Place::Control, b'@'..=b'~') => Place::Text,
            (Place::Words | Place::Control, _) => self.place,
            _ => Place::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of output that comes in pieces of any size.
    fn shown(output: &str) -> String {
        let mut whole = LineDrawing::default();
        let expected = whole.translate(output.as_bytes());
        let mut single = LineDrawing::default();
        let bytes = output.as_bytes().iter();
        let pieces: Vec<u8> = bytes.flat_map(|byte| single.translate(&[*byte])).collect();
        assert_eq!(pieces, expected);
        String::from_utf8(expected).unwrap()
    }

    #[test]
    fn letters_are_lines_only_where_a_terminal_shows_them_so() {
        for (output, expected) in [
            ("lqk", "lqk"),
            ("\x1b(0lqk\x1b(Blqk", "\x1b(0┌─┐\x1b(Blqk"),
            // By the second set.
            ("\x1b)0x\x0ex\x0fx", "\x1b)0x\x0e│\x0fx"),
            // Sequences within are no text.
            ("\x1b(0\x1b[1;31mx\x1b[m", "\x1b(0\x1b[1;31m│\x1b[m"),
            ("\x1b(0\x1b]2;title\x07x", "\x1b(0\x1b]2;title\x07│"),
            ("\x1b(0\x1b]2;title\x1b\\x", "\x1b(0\x1b]2;title\x1b\\│"),
            ("\x1b(0\x1b#8x\x1b7x", "\x1b(0\x1b#8│\x1b7│"),
            // Signs and letters outside of the set stay.
            ("\x1b(0A1é~", "\x1b(0A1é·"),
            // All is as at first.
            ("\x1b(0\x1bcx", "\x1b(0\x1bcx"),
            ("\x1b(Ax", "\x1b(Ax"),
        ] {
            assert_eq!(shown(output), expected, "{output:?}");
        }
    }
}
