//! Text of servers, made fit to be shown.

/// At most `limit` bytes of a text, with a note where the rest is left out.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let kept = text.get(..text.floor_char_boundary(limit)).unwrap_or("");
    format!("{kept}\n[{} bytes left out]", text.len() - kept.len())
}

/// A text without control characters, which could move a terminal's cursor
/// or hide what follows, and without those that have no width.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .filter(|c| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(*c)))
        .collect()
}

/// Characters that nobody sees and a model reads: tags, zero widths, changes
/// of direction.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("aéb", 2), "a\n[3 bytes left out]");
    }

    #[test]
    fn what_nobody_sees_is_taken_out() {
        assert_eq!(
            plain("a\u{1b}[2Jb\u{200b}\u{e0041}\u{202e}c\nd"),
            "a[2Jbc\nd"
        );
    }
}
