//! Reasoning that a model writes in `<think>` tags at the start of its text.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Tells reasoning from text while it arrives in pieces.
#[derive(Debug)]
pub(super) struct ThinkTags {
    state: State,
    /// The end of what came, where it may be the beginning of a tag.
    held: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Only white space and perhaps a part of the tag has come.
    Start,
    Inside,
    /// The tag has just closed: white space before the text is not part of it.
    Closed,
    Text,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TaggedText {
    Thinking(String),
    Text(String),
}

impl ThinkTags {
    /// At the start of an answer. Without tags in the dialect all is text.
    pub fn new(tags: bool) -> Self {
        Self {
            state: if tags { State::Start } else { State::Text },
            held: String::new(),
        }
    }

    /// Takes the next piece of the text.
    pub fn take(&mut self, piece: &str, texts: &mut Vec<TaggedText>) {
        let mut rest = std::mem::take(&mut self.held);
        rest.push_str(piece);
        loop {
            rest = match self.state {
                State::Text => {
                    if !rest.is_empty() {
                        texts.push(TaggedText::Text(rest));
                    }
                    return;
                }
                State::Start => {
                    let trimmed = rest.trim_start();
                    if let Some(inside) = trimmed.strip_prefix(OPEN) {
                        self.state = State::Inside;
                        inside.to_owned()
                    } else if OPEN.starts_with(trimmed) {
                        self.held = rest;
                        return;
                    } else {
                        self.state = State::Text;
                        rest
                    }
                }
                State::Inside => match rest.split_once(CLOSE) {
                    Some((inside, after)) => {
                        push_thinking(inside, texts);
                        self.state = State::Closed;
                        after.to_owned()
                    }
                    None => {
                        self.held = rest.split_off(rest.len() - tag_begun(&rest));
                        push_thinking(&rest, texts);
                        return;
                    }
                },
                State::Closed => {
                    let text = rest.trim_start();
                    if text.is_empty() {
                        return;
                    }
                    self.state = State::Text;
                    text.to_owned()
                }
            };
        }
    }

    /// The answer has ended: what was held back is what it looks like.
    pub fn finish(&mut self, texts: &mut Vec<TaggedText>) {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Inside => push_thinking(&held, texts),
            _ if held.trim().is_empty() => {}
            _ => texts.push(TaggedText::Text(held)),
        }
    }
}

fn push_thinking(text: &str, texts: &mut Vec<TaggedText>) {
    if !text.is_empty() {
        texts.push(TaggedText::Thinking(text.to_owned()));
    }
}

/// How many bytes at the end of the text may begin the closing tag.
fn tag_begun(text: &str) -> usize {
    (1..CLOSE.len())
        .rev()
        .find(|length| {
            CLOSE
                .get(..*length)
                .is_some_and(|begun| text.ends_with(begun))
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&str]) -> (String, String) {
        let mut tags = ThinkTags::new(true);
        let mut texts = Vec::new();
        for piece in pieces {
            tags.take(piece, &mut texts);
        }
        tags.finish(&mut texts);
        let mut joined = (String::new(), String::new());
        for piece in texts {
            match piece {
                TaggedText::Thinking(text) => joined.0.push_str(&text),
                TaggedText::Text(text) => joined.1.push_str(&text),
            }
        }
        joined
    }

    #[test]
    fn tags_at_the_start_are_reasoning_however_they_are_cut() {
        let text = "\n<think>\nhm <b> é</think>\n\nAnswer </think> <think>";
        let expected = (
            "\nhm <b> é".to_owned(),
            "Answer </think> <think>".to_owned(),
        );
        assert_eq!(all(&[text]), expected);
        let characters: Vec<String> = text.chars().map(String::from).collect();
        let pieces: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(all(&pieces), expected);
    }

    #[test]
    fn text_that_only_begins_like_a_tag_is_text() {
        assert_eq!(all(&["<thi", "s>"]).1, "<this>");
        assert_eq!(all(&["  x"]).1, "  x");
        assert_eq!(all(&["<thi"]).1, "<thi");
        assert_eq!(all(&["a <think>b</think>"]).1, "a <think>b</think>");
    }

    #[test]
    fn reasoning_that_never_closes_stays_reasoning() {
        assert_eq!(
            all(&["<think>a</thi"]),
            ("a</thi".to_owned(), String::new())
        );
    }

    #[test]
    fn a_dialect_without_tags_has_only_text() {
        let mut texts = Vec::new();
        ThinkTags::new(false).take("<think>a", &mut texts);
        assert_eq!(texts, [TaggedText::Text("<think>a".to_owned())]);
    }
}
