//! Keys by name, as a terminal sends them.

use anyhow::bail;

/// A key whose sequence takes modifiers.
enum SpecialKey {
    /// `CSI` or, in application mode, `SS3`, and this letter.
    Cursor(char),
    /// `SS3` and this letter; `CSI` with modifiers.
    Function(char),
    /// `CSI`, this number and a tilde.
    Numbered(u8),
}

/// The modifiers of a key, as xterm adds them up.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Modifiers {
    shift: bool,
    alt: bool,
    control: bool,
}

impl Modifiers {
    fn number(self) -> u8 {
        1 + u8::from(self.shift) + 2 * u8::from(self.alt) + 4 * u8::from(self.control)
    }
}

/// What a terminal sends for a key: `Enter`, `Ctrl-C`, `Alt-Left`, `x`. After
/// a program has asked for the application mode of the cursor keys, they send
/// something else.
pub(super) fn encode(name: &str, application_mode: bool) -> anyhow::Result<Vec<u8>> {
    let (modifiers, key) = split(name);
    let plain = modifiers == Modifiers::default();
    if let Some(special) = special(key) {
        return Ok(sequence(&special, modifiers, application_mode).into_bytes());
    }
    let mut bytes = match simple(key) {
        Some("\t") if modifiers.shift => b"\x1b[Z".to_vec(),
        Some(text) if modifiers.control => match text {
            " " => vec![0],
            "\x7f" => vec![8],
            _ => bail!(unknown(name)),
        },
        Some(text) => text.as_bytes().to_vec(),
        None => {
            let mut characters = key.chars();
            let (Some(character), None) = (characters.next(), characters.next()) else {
                bail!(unknown(name));
            };
            match (plain, modifiers.control) {
                (_, true) => match control(character) {
                    Some(byte) => vec![byte],
                    None => bail!(unknown(name)),
                },
                (false, _) if modifiers.shift => character.to_uppercase().to_string().into_bytes(),
                _ => character.to_string().into_bytes(),
            }
        }
    };
    if modifiers.alt {
        bytes.insert(0, 0x1b);
    }
    Ok(bytes)
}

fn unknown(name: &str) -> String {
    format!(
        "there is no key '{}': use one character, Enter, Tab, Escape, Backspace, Space, Up, Down, \
         Left, Right, Home, End, PageUp, PageDown, Insert, Delete or F1 to F12, maybe after \
         Ctrl-, Alt- or Shift-; text goes into `input`",
        crate::suggest::shortened(name)
    )
}

/// The modifiers before a key, and the key.
fn split(name: &str) -> (Modifiers, &str) {
    let mut modifiers = Modifiers::default();
    let mut key = name;
    while let Some((first, rest)) = key.split_once(['-', '+'])
        && !rest.is_empty()
    {
        match first.to_ascii_lowercase().as_str() {
            "ctrl" | "control" | "c" => modifiers.control = true,
            "alt" | "meta" | "m" => modifiers.alt = true,
            "shift" | "s" => modifiers.shift = true,
            _ => break,
        }
        key = rest;
    }
    (modifiers, key)
}

fn simple(key: &str) -> Option<&'static str> {
    Some(match key.to_ascii_lowercase().as_str() {
        "enter" | "return" => "\r",
        "tab" => "\t",
        "escape" | "esc" => "\x1b",
        "backspace" => "\x7f",
        "space" => " ",
        _ => return None,
    })
}

fn special(key: &str) -> Option<SpecialKey> {
    use SpecialKey::{Cursor, Function, Numbered};
    Some(match key.to_ascii_lowercase().as_str() {
        "up" => Cursor('A'),
        "down" => Cursor('B'),
        "right" => Cursor('C'),
        "left" => Cursor('D'),
        "home" => Cursor('H'),
        "end" => Cursor('F'),
        "insert" => Numbered(2),
        "delete" => Numbered(3),
        "pageup" => Numbered(5),
        "pagedown" => Numbered(6),
        "f1" => Function('P'),
        "f2" => Function('Q'),
        "f3" => Function('R'),
        "f4" => Function('S'),
        "f5" => Numbered(15),
        "f6" => Numbered(17),
        "f7" => Numbered(18),
        "f8" => Numbered(19),
        "f9" => Numbered(20),
        "f10" => Numbered(21),
        "f11" => Numbered(23),
        "f12" => Numbered(24),
        _ => return None,
    })
}

fn sequence(key: &SpecialKey, modifiers: Modifiers, application_mode: bool) -> String {
    let number = modifiers.number();
    match (key, number) {
        (SpecialKey::Cursor(letter), 1) if application_mode => format!("\x1bO{letter}"),
        (SpecialKey::Cursor(letter), 1) => format!("\x1b[{letter}"),
        (SpecialKey::Function(letter), 1) => format!("\x1bO{letter}"),
        (SpecialKey::Cursor(letter) | SpecialKey::Function(letter), _) => {
            format!("\x1b[1;{number}{letter}")
        }
        (SpecialKey::Numbered(key), 1) => format!("\x1b[{key}~"),
        (SpecialKey::Numbered(key), _) => format!("\x1b[{key};{number}~"),
    }
}

/// What a character is with the control key.
fn control(character: char) -> Option<u8> {
    let upper = character.to_ascii_uppercase();
    match upper {
        '@'..='_' => u8::try_from(upper).ok().map(|byte| byte & 0x1f),
        '?' => Some(0x7f),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_send_what_a_terminal_sends() {
        for (name, expected) in [
            ("Enter", "\r"),
            ("return", "\r"),
            ("Escape", "\x1b"),
            ("Backspace", "\x7f"),
            ("Tab", "\t"),
            ("Shift-Tab", "\x1b[Z"),
            ("Space", " "),
            ("Ctrl-Space", "\0"),
            ("Ctrl-C", "\x03"),
            ("ctrl+d", "\x04"),
            ("C-[", "\x1b"),
            ("Ctrl-\\", "\x1c"),
            ("Alt-b", "\x1bb"),
            ("Alt-Enter", "\x1b\r"),
            ("Ctrl-Alt-A", "\x1b\x01"),
            ("Up", "\x1b[A"),
            ("Ctrl-Right", "\x1b[1;5C"),
            ("Shift-Alt-Up", "\x1b[1;4A"),
            ("PageDown", "\x1b[6~"),
            ("Ctrl-Delete", "\x1b[3;5~"),
            ("F1", "\x1bOP"),
            ("F12", "\x1b[24~"),
            ("Shift-F1", "\x1b[1;2P"),
            ("q", "q"),
            ("Shift-q", "Q"),
            ("-", "-"),
            ("Ctrl-_", "\x1f"),
            ("é", "é"),
        ] {
            let sent = encode(name, false).unwrap();
            assert_eq!(sent, expected.as_bytes(), "{name}");
        }
        assert_eq!(encode("Up", true).unwrap(), b"\x1bOA");
        assert_eq!(encode("Ctrl-Up", true).unwrap(), b"\x1b[1;5A");
    }

    #[test]
    fn what_is_no_key_is_refused_with_those_there_are() {
        for name in [
            "",
            "Entr",
            "Ctrl-",
            "Ctrl-Enter",
            "Hyper-x",
            "F13",
            "ab",
            "Ctrl-é",
        ] {
            let message = encode(name, false).unwrap_err().to_string();
            assert!(message.contains("PageDown"), "{name}: {message}");
        }
    }
}
