//! The command line that a text marks, with its arguments filled in.
//!
//! An argument is data: whatever it says, it is a word of the command and never
//! a command. Where that cannot be had by quoting it, the line is not for
//! running.

use crate::render::{Place, Values, placeholder};

/// A command line that was filled.
pub(crate) struct CommandLine {
    pub line: String,
    /// Why it must not run.
    pub problem: Option<String>,
    pub takes_arguments: bool,
}

/// Where in a command line something stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Single,
    Double,
}

impl CommandLine {
    pub fn fill(written: &str, values: &Values<'_>) -> Self {
        let mut filled = Self {
            line: String::with_capacity(written.len()),
            problem: None,
            takes_arguments: false,
        };
        let nested = has_nested_quoting(written);
        let mut quotes = Quotes::None;
        let mut rest = written;
        while let Some(character) = rest.chars().next() {
            let place = match character {
                '$' => placeholder(rest, values),
                _ => None,
            };
            let length = match place {
                Some(place) => {
                    filled.takes_arguments |= place.argument;
                    filled.put(&place, values, quotes, nested);
                    place.length
                }
                None => {
                    let mut length = character.len_utf8();
                    match (quotes, character) {
                        (Quotes::None, '\'') => quotes = Quotes::Single,
                        (Quotes::None, '"') => quotes = Quotes::Double,
                        (Quotes::Single, '\'') | (Quotes::Double, '"') => quotes = Quotes::None,
                        (Quotes::None | Quotes::Double, '\\') => {
                            let next = rest.get(1..).and_then(|it| it.chars().next());
                            length += next.map_or(0, char::len_utf8);
                        }
                        _ => {}
                    }
                    filled.line.push_str(rest.get(..length).unwrap_or_default());
                    length
                }
            };
            rest = rest.get(length..).unwrap_or_default();
        }
        filled
    }

    fn put(&mut self, place: &Place, values: &Values<'_>, quotes: Quotes, nested: bool) {
        let is_plain = |value: &str| value.chars().all(is_plain);
        if quotes == Quotes::None && !nested && !place.value.chars().any(char::is_control) {
            let words: Vec<String> = match place.all {
                true => values.words.iter().map(|word| quoted(word)).collect(),
                false if place.value.is_empty() => Vec::new(),
                false => vec![quoted(&place.value)],
            };
            return self.line.push_str(&words.join(" "));
        }
        let may_have_spaces = quotes != Quotes::None && !nested;
        let fits = match may_have_spaces {
            true => place.value.split(' ').all(is_plain),
            false => is_plain(&place.value),
        };
        if !fits {
            self.problem = Some(
                "an argument has characters that mean something to a shell, and stands where \
                 it cannot be quoted"
                    .to_owned(),
            );
        }
        self.line.push_str(&place.value);
    }
}

/// Whether quotes at a place do not tell how a shell reads what stands there.
fn has_nested_quoting(written: &str) -> bool {
    // Variables of ours are filled in and take no quoting.
    let ours = ["${CLAUDE_", "${PLUGIN_ROOT}"];
    let others = written
        .match_indices("${")
        .filter_map(|(at, _)| written.get(at..));
    let mut others = others.filter(|rest| !ours.iter().any(|name| rest.starts_with(name)));
    let marks = ["$(", "`", "<<", "((", "$'", "$\"", "#"];
    others.next().is_some() || marks.iter().any(|mark| written.contains(mark))
}

/// Characters without a meaning to a shell, wherever they stand.
fn is_plain(character: char) -> bool {
    character.is_alphanumeric() || "_./:@%+=,-".contains(character)
}

fn quoted(word: &str) -> String {
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use crate::render::{SkillScope, TextPiece, skill_text};
    use halter_protocol::SkillDef;

    /// The line, or none if it must not run.
    fn line(written: &str, arguments: &str) -> Option<String> {
        let body = format!("```!\n{written}\n```");
        let skill = SkillDef {
            runs_commands: true,
            ..SkillDef::new("skl_1", "s", "d", "/my skills/s/SKILL.md", body)
        };
        let pieces = skill_text(&skill, arguments, SkillScope::Any).pieces;
        // Arguments without a place for them follow.
        let [TextPiece::Command(command), ..] = pieces.as_slice() else {
            panic!("{pieces:?}");
        };
        command.problem.is_none().then(|| command.line.clone())
    }

    #[test]
    fn an_argument_is_a_word_and_no_command() {
        for (written, arguments, expected) in [
            (
                "deploy $ARGUMENTS",
                "'; touch x'",
                Some("deploy '; touch x'"),
            ),
            ("deploy $ARGUMENTS", "; touch x", Some("deploy ';' touch x")),
            ("deploy $0", "it's", Some("deploy its")),
            ("deploy $0", "\"it's\"", Some(r"deploy 'it'\''s'")),
            ("deploy $0 $1", "a", Some("deploy a ")),
            (
                "git log $ARGUMENTS",
                "-n 3 src/a.rs",
                Some("git log -n 3 src/a.rs"),
            ),
            (
                "git commit -m \"$ARGUMENTS\"",
                "fix it",
                Some("git commit -m \"fix it\""),
            ),
            ("echo \"$0\"", "'$(touch x)'", None),
            ("echo '$0'", "\"'; touch x; '\"", None),
            ("echo '$0'", "a;b", None),
            ("sh -c \"echo $0\"", "';id'", None),
            ("echo $(basename $0)", "a/b", Some("echo $(basename a/b)")),
            ("echo $(basename $0)", "';id'", None),
            ("echo \"$(basename $0)\"", "'a b'", None),
            ("# don't\necho $0", "';id'", None),
            ("cat <<E\n$0\nE", "'$(id)'", None),
            ("echo ${X:-$0}", "'}; id'", None),
            ("echo \\' $0", "';id'", Some("echo \\' ';id'")),
            ("echo \\$0", "';id'", Some("echo \\$0")),
            ("echo $0", "\"a\nb\"", None),
            (
                "${CLAUDE_SKILL_DIR}/x.sh $0",
                "';id'",
                Some("'/my skills/s'/x.sh ';id'"),
            ),
            (
                "\"${CLAUDE_SKILL_DIR}/x.sh\"",
                "",
                Some("\"/my skills/s/x.sh\""),
            ),
        ] {
            let filled = line(written, arguments);
            assert_eq!(filled.as_deref(), expected, "{written} / {arguments}");
        }
    }
}
