//! The text of a skill or a command as it is used: places for arguments are
//! filled, in one pass, so that nothing an argument says is filled again.
//!
//! What the text itself marks as a command (`` !`git status` ``, a fence whose
//! first line ends in `!`) or as a file (`@src/main.rs`) comes out as a piece of
//! its own. Nothing is run or read here: a session does, where its policy lets
//! it, and leaves to the model what remains.

use crate::command_line::CommandLine;
use crate::frontmatter::{FrontmatterSplit, split};
use crate::places::project_top;
use halter_protocol::encoding::escape_path;
use halter_protocol::{CommandDef, ResourceOrigin, ResourceSnapshot, SkillDef};
use std::path::{Path, PathBuf};

/// What is said of a command in the text of a skill.
const NOT_RUN: &str = "(not run yet: run it with the `shell` tool where you need its output)";

/// Where a text is used.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum SkillScope<'a> {
    /// In every session: what belongs to one stays as it is written.
    Any,
    /// In every session that has these resources.
    Resources(&'a ResourceSnapshot),
    /// In a session.
    Session {
        /// Its id.
        session_id: &'a str,
        /// Its directory.
        working_dir: &'a Path,
        /// The resources it has, to find the roots of plugins.
        resources: &'a ResourceSnapshot,
    },
}

/// A text that was filled.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenderedText {
    /// The text, with its commands left to the model.
    pub text: String,
    /// Its pieces, in order.
    pub pieces: Vec<TextPiece>,
    /// Whether it had a place for arguments.
    pub takes_arguments: bool,
}

/// A piece of a filled text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextPiece {
    /// What stays as it is.
    Text(String),
    /// A command, for whose output it stands.
    Command(TextCommand),
    /// A file that a command refers to, as written after the `@`.
    File(String),
}

/// A command that a text marks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextCommand {
    /// What a shell shall run. Arguments are quoted, so that each is a word and
    /// nothing else.
    pub line: String,
    /// Why it must not run: an argument stands where it cannot be quoted.
    pub problem: Option<String>,
    /// The first line of its fence, if it has one.
    fence: Option<String>,
}

impl TextCommand {
    /// The command as text, with a note to it.
    pub fn as_text(&self, note: &str) -> String {
        match &self.fence {
            Some(fence) => {
                let ticks: String = fence.chars().take_while(|it| *it == '`').collect();
                format!("{note}\n{fence}\n{}\n{ticks}", self.line)
            }
            None => format!("`{}` {note}", self.line),
        }
    }
}

impl RenderedText {
    fn new(pieces: Vec<TextPiece>, takes_arguments: bool) -> Self {
        let text = pieces.iter().map(|piece| match piece {
            TextPiece::Text(text) => text.clone(),
            TextPiece::Command(command) => command.as_text(NOT_RUN),
            TextPiece::File(path) => format!("@{path}"),
        });
        Self {
            text: text.collect(),
            pieces,
            takes_arguments,
        }
    }

    /// With arguments behind it, if it had no place for them.
    fn with_arguments(mut self, arguments: &str) -> Self {
        if !self.takes_arguments && !arguments.trim().is_empty() {
            let more = format!("\n\nARGUMENTS: {}", arguments.trim());
            self.text.push_str(&more);
            self.pieces.push(TextPiece::Text(more));
        }
        self
    }

    /// With all commands left to the model.
    fn without_commands(mut self) -> Self {
        for piece in &mut self.pieces {
            if let TextPiece::Command(command) = piece {
                *piece = TextPiece::Text(command.as_text(NOT_RUN));
            }
        }
        self
    }

    /// Whether a session has to run or read something for it.
    pub fn has_marks(&self) -> bool {
        let is_mark = |piece: &TextPiece| !matches!(piece, TextPiece::Text(_));
        self.pieces.iter().any(is_mark)
    }
}

/// The text of a skill, without its frontmatter. Arguments without a place for
/// them follow it.
pub fn skill_text(skill: &SkillDef, arguments: &str, scope: SkillScope<'_>) -> RenderedText {
    let body = match split(&skill.body) {
        FrontmatterSplit::Plain { body } | FrontmatterSplit::WithFrontmatter { body, .. } => body,
        FrontmatterSplit::Unterminated => skill.body.as_str(),
    };
    let directory = skill.root().map(Path::to_owned);
    let values = Values::new(arguments, &skill.arguments, directory, &skill.origin, scope);
    let rendered = fill(body.trim(), &values, FileMarks::Text).with_arguments(arguments);
    match skill.runs_commands {
        true => rendered,
        false => rendered.without_commands(),
    }
}

/// The prompt of a command. Arguments without a place for them follow it.
pub fn command_text(command: &CommandDef, arguments: &str, scope: SkillScope<'_>) -> RenderedText {
    let directory = command.path.parent().map(Path::to_owned);
    let origin = &command.origin;
    let values = Values::new(arguments, &command.arguments, directory, origin, scope);
    let rendered = fill(&command.prompt, &values, FileMarks::Files).with_arguments(arguments);
    match command.runs_commands {
        true => rendered,
        false => rendered.without_commands(),
    }
}

/// Whether a text marks commands to run.
pub(crate) fn has_commands(body: &str) -> bool {
    let nothing = Values {
        arguments: "",
        words: Vec::new(),
        names: &[],
        variables: Vec::new(),
    };
    let rendered = fill(body, &nothing, FileMarks::Text);
    let mut pieces = rendered.pieces.iter();
    pieces.any(|piece| matches!(piece, TextPiece::Command(_)))
}

pub(crate) struct Values<'a> {
    arguments: &'a str,
    pub(crate) words: Vec<String>,
    names: &'a [String],
    variables: Vec<(&'static str, String)>,
}

impl<'a> Values<'a> {
    fn new(
        arguments: &'a str,
        names: &'a [String],
        directory: Option<PathBuf>,
        origin: &ResourceOrigin,
        scope: SkillScope<'_>,
    ) -> Self {
        let mut variables = Vec::new();
        if let Some(directory) = directory {
            variables.push(("CLAUDE_SKILL_DIR", escape_path(&directory)));
        }
        if let SkillScope::Session {
            session_id,
            working_dir,
            ..
        } = scope
        {
            variables.push(("CLAUDE_SESSION_ID", session_id.to_owned()));
            let project = project_top(working_dir);
            variables.push(("CLAUDE_PROJECT_DIR", escape_path(project)));
        }
        let resources = match scope {
            SkillScope::Any => None,
            SkillScope::Resources(resources) | SkillScope::Session { resources, .. } => {
                Some(resources)
            }
        };
        if let ResourceOrigin::Plugin { plugin_id } = origin
            && let Some(plugin) = resources.and_then(|it| it.plugins.get(plugin_id))
        {
            for name in ["CLAUDE_PLUGIN_ROOT", "PLUGIN_ROOT"] {
                variables.push((name, escape_path(&plugin.root)));
            }
            for (name, data) in ["CLAUDE_PLUGIN_DATA", "PLUGIN_DATA"]
                .into_iter()
                .zip(std::iter::repeat(plugin.data.as_deref()))
            {
                variables.extend(data.map(|data| (name, escape_path(data))));
            }
        }
        Self {
            arguments: arguments.trim(),
            words: words(arguments),
            names,
            variables,
        }
    }

    fn word(&self, index: usize) -> String {
        self.words.get(index).cloned().unwrap_or_default()
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let mut variables = self.variables.iter();
        let found = variables.find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Words as a shell would split them, quotes taken off.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for character in text.chars() {
        match (quote, character) {
            (Some(open), closing) if open == closing => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, space) if space.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// What a place stands for, how many bytes it takes, and whether it is one for
/// arguments.
pub(crate) struct Place {
    pub(crate) value: String,
    pub(crate) length: usize,
    pub(crate) argument: bool,
    /// Whether it stands for all arguments.
    pub(crate) all: bool,
}

/// What `@path` is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileMarks {
    Text,
    Files,
}

/// A mark of the text itself, and how many bytes it takes.
struct Mark {
    piece: TextPiece,
    length: usize,
    takes_arguments: bool,
}

fn fill(text: &str, values: &Values<'_>, files: FileMarks) -> RenderedText {
    let mut pieces = Vec::new();
    let mut filled = String::with_capacity(text.len());
    let mut takes_arguments = false;
    let mut rest = text;
    // What stands before is what the file says, never what an argument says.
    let mut before: Option<char> = None;
    while let Some(character) = rest.chars().next() {
        let at_word_start = before.is_none_or(char::is_whitespace);
        let at_line_start = before.is_none_or(|it| it == '\n');
        let mark = match character {
            '!' if at_word_start => command_to_run(rest, values),
            '`' if at_line_start => fence_to_run(rest, values),
            '@' if at_word_start && files == FileMarks::Files => file_to_read(rest, values),
            _ => None,
        };
        let place = match character {
            '$' => placeholder(rest, values),
            _ => None,
        };
        let length = match (mark, place) {
            (Some(mark), _) => {
                if !filled.is_empty() {
                    pieces.push(TextPiece::Text(std::mem::take(&mut filled)));
                }
                pieces.push(mark.piece);
                takes_arguments |= mark.takes_arguments;
                mark.length
            }
            (None, Some(place)) => {
                filled.push_str(&place.value);
                takes_arguments |= place.argument;
                place.length
            }
            (None, None) => {
                filled.push(character);
                character.len_utf8()
            }
        };
        let (done, remaining) = rest.split_at_checked(length).unwrap_or((rest, ""));
        before = done.chars().next_back();
        rest = remaining;
    }
    if !filled.is_empty() {
        pieces.push(TextPiece::Text(filled));
    }
    RenderedText::new(pieces, takes_arguments)
}

/// `rest` begins with `$`.
pub(crate) fn placeholder(rest: &str, values: &Values<'_>) -> Option<Place> {
    let after = rest.get(1..)?;
    if let Some(braced) = after.strip_prefix('{') {
        let name = braced.split_once('}')?.0;
        return Some(Place {
            value: values.variable(name)?.to_owned(),
            length: name.len() + 3,
            argument: false,
            all: false,
        });
    }
    let argument = |value: String, length: usize| {
        let argument = true;
        Some(Place {
            value,
            length,
            argument,
            all: false,
        })
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let number = digits(after);
    if number > 0 {
        let index = after.get(..number)?.parse().unwrap_or(usize::MAX);
        return argument(values.word(index), 1 + number);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = after.split(|c| !is_name(c)).next().unwrap_or_default();
    if name == "ARGUMENTS" {
        let whole = "$ARGUMENTS".len();
        let index = rest.get(whole..).and_then(|it| it.strip_prefix('['));
        if let Some((index, _)) = index.and_then(|it| it.split_once(']'))
            && let Ok(number) = index.parse()
        {
            return argument(values.word(number), whole + index.len() + 2);
        }
        return argument(values.arguments.to_owned(), whole)
            .map(|place| Place { all: true, ..place });
    }
    let position = values.names.iter().position(|known| known == name)?;
    argument(values.word(position), 1 + name.len())
}

/// `` !`command` ``: `rest` begins with `!`.
fn command_to_run(rest: &str, values: &Values<'_>) -> Option<Mark> {
    let (command, _) = rest.strip_prefix("!`")?.split_once('`')?;
    let one_line = !command.trim().is_empty() && !command.contains('\n');
    one_line.then(|| command_mark(command, None, command.len() + 3, values))
}

/// A fence whose first line ends in `!` holds commands to run, up to its end.
fn fence_to_run(rest: &str, values: &Values<'_>) -> Option<Mark> {
    let ticks = rest.bytes().take_while(|byte| *byte == b'`').count();
    let fence = rest.get(..ticks).filter(|_| ticks >= 3)?;
    let (first, below) = rest.split_once('\n')?;
    let opening = first.trim_end().strip_suffix('!')?.trim_end();
    if opening.get(ticks..)?.contains('`') {
        return None;
    }
    let mut length = 0;
    for line in below.split_inclusive('\n') {
        if line.trim() == fence {
            let script = below.get(..length)?.trim_end();
            let whole = first.len() + 1 + length + line.trim_end().len();
            let opening = Some(opening.to_owned());
            return (!script.trim().is_empty())
                .then(|| command_mark(script, opening, whole, values));
        }
        length += line.len();
    }
    None
}

fn command_mark(written: &str, fence: Option<String>, length: usize, values: &Values<'_>) -> Mark {
    let CommandLine {
        line,
        problem,
        takes_arguments,
    } = CommandLine::fill(written, values);
    Mark {
        piece: TextPiece::Command(TextCommand {
            line,
            problem,
            fence,
        }),
        length,
        takes_arguments,
    }
}

/// `@src/main.rs`, up to the next space: `rest` begins with `@`. A name with a
/// colon is one of an MCP server.
fn file_to_read(rest: &str, values: &Values<'_>) -> Option<Mark> {
    let word = rest.get(1..)?.split(char::is_whitespace).next()?;
    let word = word.trim_end_matches(['.', ',', ';', '!', '?', ')', '`', '"', '\'']);
    let mut path = String::new();
    let mut takes_arguments = false;
    let mut left = word;
    while let Some(character) = left.chars().next() {
        let place = match character {
            '$' => placeholder(left, values),
            _ => None,
        };
        let length = match place {
            Some(place) => {
                path.push_str(&place.value);
                takes_arguments |= place.argument;
                place.length
            }
            None => {
                path.push(character);
                character.len_utf8()
            }
        };
        left = left.get(length..).unwrap_or_default();
    }
    let is_path = !path.is_empty() && !path.contains([':', '\0', '\n']);
    is_path.then(|| Mark {
        piece: TextPiece::File(path),
        length: 1 + word.len(),
        takes_arguments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn skill(body: &str, names: &[&str]) -> SkillDef {
        SkillDef {
            arguments: names.iter().map(|it| (*it).to_owned()).collect(),
            ..SkillDef::new("skl_1", "s", "d", "/skills/s/SKILL.md", body)
        }
    }

    fn text(body: &str, arguments: &str) -> String {
        skill_text(&skill(body, &["file", "mode"]), arguments, SkillScope::Any).text
    }

    #[test]
    fn places_for_arguments_are_filled() {
        for (body, arguments, expected) in [
            ("Fix $ARGUMENTS.", " a b ", "Fix a b."),
            ("$0 then $1, not $2!", "a \"b c\"", "a then b c, not !"),
            ("$ARGUMENTS[1]/$ARGUMENTS[0]", "a b", "b/a"),
            (
                "$file in $mode; $filename",
                "x.rs fast",
                "x.rs in fast; $filename",
            ),
            ("costs $5 or 5$", "", "costs  or 5$"),
            (
                "${CLAUDE_SKILL_DIR}/x ${HOME} $HOME",
                "",
                "/skills/s/x ${HOME} $HOME",
            ),
            (
                "$ARGUMENTS",
                "$0 !`rm x` ${CLAUDE_SKILL_DIR}",
                "$0 !`rm x` ${CLAUDE_SKILL_DIR}",
            ),
            ("---\nname: s\n---\n\nBody $", "", "Body $"),
        ] {
            assert_eq!(text(body, arguments), expected, "{body}");
        }
        assert!(skill_text(&skill("$0", &[]), "", SkillScope::Any).takes_arguments);
        // Where there is no place for them, they follow.
        assert_eq!(
            text("Review.", "the diff"),
            "Review.\n\nARGUMENTS: the diff"
        );
        assert_eq!(text("Review $0.", "it"), "Review it.");
        assert_eq!(text("Review.", " "), "Review.");
        assert!(!skill_text(&skill("${X}", &[]), "", SkillScope::Any).takes_arguments);
    }

    #[test]
    fn commands_in_a_text_are_left_to_the_model() {
        let body = "Status: !`git status -s`\nwow!`x`\n```!\ndate\n```\n```sh !\nls\n```\n";
        assert_eq!(
            text(body, ""),
            format!(
                "Status: `git status -s` {NOT_RUN}\nwow!`x`\n{NOT_RUN}\n```\ndate\n```\n{NOT_RUN}\n```sh\nls\n```"
            )
        );
    }

    #[test]
    fn commands_are_found_in_the_text_and_never_in_arguments() {
        let marked = |body: &str, arguments: &str| {
            let skill = SkillDef {
                runs_commands: true,
                ..skill(body, &["file"])
            };
            let pieces = skill_text(&skill, arguments, SkillScope::Any).pieces;
            let commands = pieces.into_iter().filter_map(|piece| match piece {
                TextPiece::Command(command) => Some(command.line),
                _ => None,
            });
            commands.collect::<Vec<String>>()
        };
        for (body, arguments, expected) in [
            ("Now: !`date`, in !`pwd`", "", vec!["date", "pwd"]),
            ("Log: !`git log $file`", "a.rs", vec!["git log a.rs"]),
            ("```!\ndate\nls $0\n```\nx", "a", vec!["date\nls a"]),
            ("````sh !\n```\n````", "", vec!["```"]),
            ("$ARGUMENTS", "!`rm x`", vec![]),
            ("! $ARGUMENTS", "`rm x`", vec![]),
            ("!$ARGUMENTS", "`rm x`", vec![]),
            ("$0$1", "! `rm\u{a0}x`", vec![]),
            ("$ARGUMENTS", "\n```!\nrm x\n```", vec![]),
            ("```$0\nrm x\n```", "!", vec![]),
            ("```!\nno end", "", vec![]),
            ("wow!`x` ``!`y``", "", vec![]),
            ("!`two\nlines`", "", vec![]),
            ("!` `", "", vec![]),
            ("```sh\nls\n```", "", vec![]),
        ] {
            assert_eq!(marked(body, arguments), expected, "{body} / {arguments}");
            assert_eq!(
                has_commands(body),
                !marked(body, "").is_empty(),
                "{body} / {arguments}"
            );
        }
    }

    #[test]
    fn files_are_found_in_the_text_of_commands() {
        let command = |prompt: &str, arguments: &str| {
            let command: CommandDef = serde_json::from_value(serde_json::json!({
                "name": "go", "description": "d", "path": "/c/go.md", "prompt": prompt,
            }))
            .unwrap();
            let pieces = command_text(&command, arguments, SkillScope::Any).pieces;
            let files = pieces.into_iter().filter_map(|piece| match piece {
                TextPiece::File(path) => Some(path),
                _ => None,
            });
            files.collect::<Vec<String>>()
        };
        for (prompt, arguments, expected) in [
            ("See @src/a.rs, then @b.", "", vec!["src/a.rs", "b"]),
            ("See @src/$0", "x.rs", vec!["src/x.rs"]),
            ("See $ARGUMENTS", "@secret", vec![]),
            ("Mail a@b.c, @files:uri, @", "", vec![]),
        ] {
            assert_eq!(command(prompt, arguments), expected, "{prompt}");
        }
        let skill = skill("See @src/a.rs", &[]);
        assert!(!skill_text(&skill, "", SkillScope::Any).has_marks());
    }

    #[test]
    fn a_text_knows_its_session_and_its_plugin() {
        let mut resources = ResourceSnapshot::empty();
        let plugin = serde_json::from_value(serde_json::json!({"name": "p", "root": "/plugins/p"}));
        resources.plugins.insert("p".into(), plugin.unwrap());
        let scope = SkillScope::Session {
            session_id: "ses_1",
            working_dir: Path::new("/work"),
            resources: &resources,
        };
        let mut command: CommandDef = serde_json::from_value(serde_json::json!({
            "name": "p:go", "description": "d", "path": "/plugins/p/commands/go.md",
            "prompt": "${CLAUDE_SESSION_ID} ${CLAUDE_PROJECT_DIR} ${CLAUDE_PLUGIN_ROOT}",
        }))
        .unwrap();
        command.origin = ResourceOrigin::Plugin {
            plugin_id: "p".into(),
        };
        assert_eq!(
            command_text(&command, "now", scope).text,
            "ses_1 /work /plugins/p\n\nARGUMENTS: now"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_can_be_filled(body in "[ -~\n`!$é]{0,60}", arguments in "[ -~\"'é]{0,20}") {
            let _ = text(&body, &arguments);
        }

        #[test]
        fn a_text_without_places_stays(body in "[a-z \n.,#]{0,60}") {
            prop_assert_eq!(text(&body, ""), body.trim());
            prop_assert_eq!(text(&body, "x"), format!("{}\n\nARGUMENTS: x", body.trim()));
        }
    }
}
