//! The text of a skill or a command as it is used: places for arguments are
//! filled, in one pass, so that nothing an argument says is filled again.
//!
//! A command that the text would have run (`` !`git status` ``) is not run here:
//! the model is told to run it, so that it passes hooks, policy and approvals as
//! any other does.

use crate::frontmatter::{FrontmatterSplit, split};
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
    /// The text.
    pub text: String,
    /// Whether it had a place for arguments.
    pub takes_arguments: bool,
}

/// The text of a skill, without its frontmatter.
pub fn skill_text(skill: &SkillDef, arguments: &str, scope: SkillScope<'_>) -> RenderedText {
    let body = match split(&skill.body) {
        FrontmatterSplit::Plain { body } | FrontmatterSplit::WithFrontmatter { body, .. } => body,
        FrontmatterSplit::Unterminated => skill.body.as_str(),
    };
    let directory = skill.root().map(Path::to_owned);
    let values = Values::new(arguments, &skill.arguments, directory, &skill.origin, scope);
    fill(body.trim(), &values)
}

/// The prompt of a command. Arguments without a place for them follow it.
pub fn command_text(command: &CommandDef, arguments: &str, scope: SkillScope<'_>) -> String {
    let directory = command.path.parent().map(Path::to_owned);
    let origin = &command.origin;
    let values = Values::new(arguments, &command.arguments, directory, origin, scope);
    let mut rendered = fill(&command.prompt, &values);
    if !rendered.takes_arguments && !arguments.trim().is_empty() {
        rendered.text.push_str("\n\nARGUMENTS: ");
        rendered.text.push_str(arguments.trim());
    }
    rendered.text
}

struct Values<'a> {
    arguments: &'a str,
    words: Vec<String>,
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
            resources,
        } = scope
        {
            variables.push(("CLAUDE_SESSION_ID", session_id.to_owned()));
            variables.push(("CLAUDE_PROJECT_DIR", escape_path(working_dir)));
            if let ResourceOrigin::Plugin { plugin_id } = origin
                && let Some(plugin) = resources.plugins.get(plugin_id)
            {
                for name in ["CLAUDE_PLUGIN_ROOT", "PLUGIN_ROOT"] {
                    variables.push((name, escape_path(&plugin.root)));
                }
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
struct Place {
    value: String,
    length: usize,
    argument: bool,
}

fn fill(text: &str, values: &Values<'_>) -> RenderedText {
    let mut filled = String::with_capacity(text.len());
    let mut takes_arguments = false;
    let mut rest = text;
    let mut at_word_start = true;
    while let Some(character) = rest.chars().next() {
        let place = match character {
            '$' => placeholder(rest, values),
            '!' if at_word_start => command_to_run(rest),
            '`' if rest.starts_with("```") && is_line_start(&filled) => fence_to_run(rest),
            _ => None,
        };
        let length = match place {
            Some(place) => {
                filled.push_str(&place.value);
                takes_arguments |= place.argument;
                place.length
            }
            None => {
                filled.push(character);
                character.len_utf8()
            }
        };
        at_word_start = character.is_whitespace();
        rest = rest.get(length..).unwrap_or_default();
    }
    RenderedText {
        text: filled,
        takes_arguments,
    }
}

fn is_line_start(text: &str) -> bool {
    text.is_empty() || text.ends_with('\n')
}

/// `rest` begins with `$`.
fn placeholder(rest: &str, values: &Values<'_>) -> Option<Place> {
    let after = rest.get(1..)?;
    if let Some(braced) = after.strip_prefix('{') {
        let name = braced.split_once('}')?.0;
        return Some(Place {
            value: values.variable(name)?.to_owned(),
            length: name.len() + 3,
            argument: false,
        });
    }
    let argument = |value: String, length: usize| {
        let argument = true;
        Some(Place {
            value,
            length,
            argument,
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
        return argument(values.arguments.to_owned(), whole);
    }
    let position = values.names.iter().position(|known| known == name)?;
    argument(values.word(position), 1 + name.len())
}

/// `` !`command` ``: `rest` begins with `!`.
fn command_to_run(rest: &str) -> Option<Place> {
    let (command, _) = rest.strip_prefix("!`")?.split_once('`')?;
    let one_line = !command.is_empty() && !command.contains('\n');
    one_line.then(|| Place {
        value: format!("`{command}` {NOT_RUN}"),
        length: command.len() + 3,
        argument: false,
    })
}

/// A fence whose first line ends in `!` holds commands to run.
fn fence_to_run(rest: &str) -> Option<Place> {
    let line = rest.lines().next()?;
    let language = line.trim_end().strip_suffix('!')?;
    let plain = language.trim_start_matches('`');
    (!plain.contains('`')).then(|| Place {
        value: format!("{NOT_RUN}\n{}", language.trim_end()),
        length: line.len(),
        argument: false,
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
            command_text(&command, "now", scope),
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
            prop_assert_eq!(text(&body, "x"), body.trim());
        }
    }
}
