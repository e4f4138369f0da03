//! What an instruction file says, and which files it imports.
//!
//! `@path` imports a file where it starts a line or follows white space, outside
//! of code. Comments that start a line are for people and are left out.

use halter_protocol::limits::INSTRUCTION_FILES;

/// The text of an instruction file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InstructionText {
    /// The text without comments and without white space around it.
    pub text: String,
    /// The paths it imports, as written, each once, in order.
    pub imports: Vec<String>,
}

impl InstructionText {
    pub fn parse(source: &str) -> Self {
        let source = source.strip_prefix('\u{feff}').unwrap_or(source);
        let mut text = String::new();
        let mut imports = Vec::new();
        let mut fence: Option<Fence> = None;
        let mut rest = source;
        while !rest.is_empty() {
            if fence.is_none()
                && let Some(after) = after_comment(rest)
            {
                rest = after;
                continue;
            }
            let (line, after) = split_line(rest);
            rest = after;
            text.push_str(line);
            match (&fence, Fence::of(line)) {
                (None, Some(opened)) => fence = Some(opened),
                (Some(open), Some(found)) if found.closes(open) => fence = None,
                (None, None) => imports_of(line, &mut imports),
                _ => {}
            }
        }
        Self {
            text: text.trim().to_owned(),
            imports,
        }
    }
}

/// The first line, its newline included, and the rest.
fn split_line(text: &str) -> (&str, &str) {
    let end = text.find('\n').map_or(text.len(), |newline| newline + 1);
    text.split_at(end)
}

/// What follows a comment that starts here. One that does not end is text.
fn after_comment(text: &str) -> Option<&str> {
    let comment = text.trim_start_matches([' ', '\t']).strip_prefix("<!--")?;
    let (_, after) = comment.split_once("-->")?;
    let (line, next) = split_line(after);
    Some(if line.trim().is_empty() { next } else { after })
}

/// A line that opens or closes a block of code.
struct Fence {
    mark: char,
    length: usize,
    bare: bool,
}

impl Fence {
    fn of(line: &str) -> Option<Self> {
        let line = line.trim();
        let mark = line.chars().next().filter(|it| matches!(it, '`' | '~'))?;
        let after = line.trim_start_matches(mark);
        // The marks have one byte each.
        let length = line.len() - after.len();
        // A line such as "```x```" is code within a text.
        let inline = mark == '`' && after.contains('`');
        (length >= 3 && !inline).then_some(Self {
            mark,
            length,
            bare: after.is_empty(),
        })
    }

    fn closes(&self, open: &Self) -> bool {
        self.bare && self.mark == open.mark && self.length >= open.length
    }
}

fn imports_of(line: &str, imports: &mut Vec<String>) {
    let mut rest = line;
    let mut at_start = true;
    while let Some(character) = rest.chars().next() {
        if character == '`' {
            rest = after_code(rest);
            at_start = false;
        } else if character == '@' && at_start {
            let (path, after) = import(rest.strip_prefix('@').unwrap_or(rest));
            // One more than are loaded, so that the limit is noticed.
            let room = imports.len() <= INSTRUCTION_FILES;
            if room && !path.is_empty() && !imports.contains(&path) {
                imports.push(path);
            }
            rest = after;
            at_start = false;
        } else {
            at_start = character.is_whitespace();
            rest = rest.get(character.len_utf8()..).unwrap_or_default();
        }
    }
}

/// What follows code between marks, or the marks if nothing closes it.
fn after_code(text: &str) -> &str {
    let after = text.trim_start_matches('`');
    let marks = text.len() - after.len();
    let mut rest = after;
    while let Some(at) = rest.find('`') {
        let found = rest.get(at..).unwrap_or_default();
        let next = found.trim_start_matches('`');
        if found.len() - next.len() == marks {
            return next;
        }
        rest = next;
    }
    after
}

/// The path that starts here, and what follows it. Empty if this is a mention,
/// such as of a person, and no path.
fn import(text: &str) -> (String, &str) {
    let mut path = String::new();
    let mut characters = text.chars();
    loop {
        let rest = characters.as_str();
        match characters.next() {
            Some('\\') if characters.as_str().starts_with(' ') => {
                characters.next();
                path.push(' ');
            }
            Some(character) if !character.is_whitespace() && character != '`' => {
                path.push(character);
            }
            _ => return (spelled_path(&path), rest),
        }
    }
}

/// The path without the punctuation of the sentence it stands in.
fn spelled_path(word: &str) -> String {
    let path = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '"', '\'', '*']);
    match path.contains(['/', '.']) {
        true => path.to_owned(),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn imports(text: &str) -> Vec<String> {
        InstructionText::parse(text).imports
    }

    #[test]
    fn paths_are_imported_where_a_word_starts() {
        let text = "@README.md and @docs/style.md, @./a.md.\n- @~/notes.md\n(@no.md) a@b.example\n\
                    @my\\ notes.md @docs/style.md @../up.txt: @.env";
        assert_eq!(
            imports(text),
            [
                "README.md",
                "docs/style.md",
                "./a.md",
                "~/notes.md",
                "my notes.md",
                "../up.txt",
                ".env"
            ]
        );
    }

    #[test]
    fn mentions_are_no_imports() {
        assert_eq!(imports("ask @ada, use @Override and @ alone @@x"), [""; 0]);
    }

    #[test]
    fn code_imports_nothing() {
        let text = "`@a.md` ``x ` @b.md`` @c.md\n```sh\n@d.md\n~~~\n@e.md\n```\n@f.md\n\
                    ~~~~\n@g.md\n~~~\n@h.md\n~~~~\n@i.md ``` @j.md\n";
        assert_eq!(imports(text), ["c.md", "f.md", "i.md", "j.md"]);
    }

    #[test]
    fn comments_are_for_people() {
        let text = "one\n<!-- @a.md\nsecret -->\ntwo <!-- kept -->\n<!-- b --> three\n\
                    ```\n<!-- code -->\n```\n<!-- open @b.md\n";
        assert_eq!(
            InstructionText::parse(text),
            InstructionText {
                text: "one\ntwo <!-- kept -->\n three\n```\n<!-- code -->\n```\n<!-- open @b.md"
                    .into(),
                imports: vec!["b.md".into()],
            }
        );
    }

    #[test]
    fn a_byte_order_mark_and_blank_lines_say_nothing() {
        assert_eq!(InstructionText::parse("\u{feff}\n \n").text, "");
        assert_eq!(InstructionText::parse("\u{feff}x\r\n").text, "x");
    }

    proptest! {
        /// Nothing is invented, and no path holds a line break.
        #[test]
        fn any_text_is_read(text in "([a-z@./`~<>!\\- \n\\\\é\u{feff}]|<!--|-->|```|~~~){0,60}") {
            let read = InstructionText::parse(&text);
            prop_assert!(read.text.len() <= text.len());
            for path in &read.imports {
                prop_assert!(!path.is_empty() && !path.contains('\n'));
            }
        }
    }
}
