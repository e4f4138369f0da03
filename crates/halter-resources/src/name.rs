//! Names that models call and people type.

use crate::limits::MAX_NAME_CHARS;

/// The name without spaces around it, if it can be shown, typed and told apart
/// from a path, a plugin's part and a placeholder.
pub(crate) fn usable_name(name: &str) -> Result<String, String> {
    let name = name.trim();
    let chars = name.chars().count();
    if chars == 0 || chars > MAX_NAME_CHARS {
        return Err(format!(
            "a name has 1 to {MAX_NAME_CHARS} characters, and this one {chars}"
        ));
    }
    let hostile = |character: char| {
        character.is_control() || "/\\:<>`$\"'{}".contains(character) || is_invisible(character)
    };
    match name.chars().find(|character| hostile(*character)) {
        Some(character) => Err(format!(
            "the name `{}` has the character `{}`; use letters, digits and hyphens",
            name.escape_debug(),
            character.escape_debug()
        )),
        None if name.starts_with(['.', '-']) => Err(format!(
            "the name `{name}` begins with `{}`; begin with a letter or a digit",
            name.chars().next().unwrap_or_default()
        )),
        None => Ok(name.to_owned()),
    }
}

/// Characters that change how text looks without being seen.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// True for a name as the public format of skills wants it: lower-case letters,
/// digits and single hyphens between them.
pub(crate) fn is_public_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    !name.is_empty()
        && name
            .split('-')
            .all(|part| !part.is_empty() && part.chars().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused() {
        for name in [
            "",
            "  ",
            "a\nb",
            "a\u{7}",
            "../x",
            "a/b",
            "a\\b",
            "a:b",
            "..",
            ".",
            "-rf",
            "a`b`",
            "$HOME",
            "<x>",
            "a\u{202e}b",
            "{x}",
        ] {
            assert!(usable_name(name).is_err(), "{name:?}");
        }
        let longest = "é".repeat(MAX_NAME_CHARS);
        assert_eq!(usable_name(&longest).as_ref(), Ok(&longest));
        assert!(usable_name(&format!("{longest}x")).is_err());
        assert_eq!(usable_name(" My Skill ").unwrap(), "My Skill");
    }

    #[test]
    fn the_public_rule_is_known() {
        for name in ["a", "pdf-processing", "x2", "2fa-codes"] {
            assert!(is_public_name(name), "{name}");
        }
        for name in ["", "PDF", "-a", "a-", "a--b", "a_b", "a b", "é"] {
            assert!(!is_public_name(name), "{name}");
        }
    }
}
