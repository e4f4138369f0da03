//! Keys by name, as the browser wants to hear of them.

use anyhow::bail;
use serde_json::{Value, json};

/// Names of keys, their codes, and what they type.
const KEYS: [(&str, u32, &str); 15] = [
    ("Enter", 13, "\r"),
    ("Tab", 9, ""),
    ("Escape", 27, ""),
    ("Backspace", 8, ""),
    ("Delete", 46, ""),
    ("Space", 32, " "),
    ("ArrowLeft", 37, ""),
    ("ArrowUp", 38, ""),
    ("ArrowRight", 39, ""),
    ("ArrowDown", 40, ""),
    ("PageUp", 33, ""),
    ("PageDown", 34, ""),
    ("End", 35, ""),
    ("Home", 36, ""),
    ("F5", 116, ""),
];

const MODIFIERS: [(&str, u32); 4] = [("Alt", 1), ("Control", 2), ("Meta", 4), ("Shift", 8)];

/// The events of pressing and releasing a key such as `Enter`, `a` or
/// `Control+a`.
pub(super) fn events(key: &str) -> anyhow::Result<[Value; 2]> {
    let mut modifiers = 0;
    let mut rest = key;
    while let Some((first, after)) = rest.split_once('+').filter(|(_, after)| !after.is_empty()) {
        let Some((_, bit)) = MODIFIERS.iter().find(|(name, _)| *name == first) else {
            bail!("'{first}' is not a modifier; use Alt, Control, Meta or Shift");
        };
        modifiers |= bit;
        rest = after;
    }
    let (name, code, typed) = match KEYS.iter().find(|(name, ..)| *name == rest) {
        Some((name, code, typed)) => {
            let name = if *name == "Space" { " " } else { *name };
            (name, *code, (*typed).to_owned())
        }
        None => {
            let mut characters = rest.chars();
            let (Some(character), None) = (characters.next(), characters.next()) else {
                let names: Vec<&str> = KEYS.iter().map(|(name, ..)| *name).collect();
                bail!(
                    "'{rest}' is not a key; use one character, or one of {}",
                    names.join(", ")
                );
            };
            (
                rest,
                u32::from(character.to_ascii_uppercase()),
                rest.to_owned(),
            )
        }
    };
    let event = |kind: &str| {
        json!({
            "type": kind,
            "key": name,
            "windowsVirtualKeyCode": code,
            "modifiers": modifiers,
        })
    };
    let mut down = event("rawKeyDown");
    // A character with Control or Alt is a command and types nothing.
    if let Some(fields) = down.as_object_mut()
        && !typed.is_empty()
        && modifiers & 7 == 0
    {
        fields.insert("type".into(), "keyDown".into());
        fields.insert("text".into(), typed.into());
    }
    if let Some(fields) = down.as_object_mut()
        && modifiers == 2
        && rest == "a"
    {
        fields.insert("commands".into(), json!(["selectAll"]));
    }
    Ok([down, event("keyUp")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_name() {
        let [down, up] = events("Enter").unwrap();
        assert_eq!(
            (&down["type"], &down["text"]),
            (&json!("keyDown"), &json!("\r"))
        );
        assert_eq!(up["type"], "keyUp");
        let [down, _] = events("Control+a").unwrap();
        assert_eq!(
            (&down["modifiers"], &down["type"]),
            (&json!(2), &json!("rawKeyDown"))
        );
        let [plus, _] = events("+").unwrap();
        assert_eq!(plus["text"], "+");
        for wrong in ["Enterr", "", "Hyper+a"] {
            assert!(events(wrong).is_err(), "{wrong}");
        }
    }
}
