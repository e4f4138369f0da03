//! Splitting a file into its frontmatter and its body.

/// A file that may begin with frontmatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrontmatterSplit<'a> {
    /// The first line is not `---`: all of it is body.
    Plain {
        /// The text, without a byte order mark.
        body: &'a str,
    },
    /// Frontmatter between two lines of `---`, then the body.
    WithFrontmatter {
        /// What lies between the lines.
        yaml: &'a str,
        /// What follows the second line.
        body: &'a str,
    },
    /// The first line is `---` and no second one follows.
    Unterminated,
}

/// Lines before the frontmatter's own first line.
pub const LINES_BEFORE_YAML: u64 = 1;

/// Splits at the lines of `---`, which may end in spaces and in `\n` or
/// `\r\n`. A byte order mark before the first line is ignored.
///
/// ```
/// use halter_resources::frontmatter::{FrontmatterSplit, split};
///
/// let document = split("---\nname: commit\n---\nWrite a good message.\n");
/// assert_eq!(
///     document,
///     FrontmatterSplit::WithFrontmatter { yaml: "name: commit\n", body: "Write a good message.\n" }
/// );
/// ```
pub fn split(text: &str) -> FrontmatterSplit<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| is_fence(line)) else {
        return FrontmatterSplit::Plain { body: text };
    };
    let mut at = first.len();
    for line in lines {
        let after = at + line.len();
        if is_fence(line) {
            return FrontmatterSplit::WithFrontmatter {
                yaml: text.get(first.len()..at).unwrap_or_default(),
                body: text.get(after..).unwrap_or_default(),
            };
        }
        at = after;
    }
    FrontmatterSplit::Unterminated
}

fn is_fence(line: &str) -> bool {
    line.trim_end_matches([' ', '\t', '\r', '\n']) == "---"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cases() {
        let with = |yaml, body| FrontmatterSplit::WithFrontmatter { yaml, body };
        let plain = |body| FrontmatterSplit::Plain { body };
        for (text, expected) in [
            ("", plain("")),
            ("# Title\n---\n", plain("# Title\n---\n")),
            (" ---\na: 1\n---\n", plain(" ---\na: 1\n---\n")),
            ("----\na: 1\n---\n", plain("----\na: 1\n---\n")),
            ("---\n---\n", with("", "")),
            ("---\n---", with("", "")),
            ("\u{feff}---\na: 1\n---\nx", with("a: 1\n", "x")),
            ("---\r\na: 1\r\n---\r\nx\r\n", with("a: 1\r\n", "x\r\n")),
            (
                "---  \na: 1\n--- \t\nx\n---\ny",
                with("a: 1\n", "x\n---\ny"),
            ),
            ("---\na: |\n  ---\n---\nx", with("a: |\n  ---\n", "x")),
            ("---\na: 1\n", FrontmatterSplit::Unterminated),
            ("---", FrontmatterSplit::Unterminated),
        ] {
            assert_eq!(split(text), expected, "{text:?}");
        }
    }

    fn text() -> impl Strategy<Value = String> {
        proptest::collection::vec(
            prop_oneof![
                Just("---".to_owned()),
                Just("\n".to_owned()),
                Just("\r\n".to_owned()),
                Just("\u{feff}".to_owned()),
                "[ -~é漢]{0,6}",
            ],
            0..12,
        )
        .prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_of_the_file_is_lost(text in text()) {
            let whole = text.strip_prefix('\u{feff}').unwrap_or(&text);
            match split(&text) {
                FrontmatterSplit::Plain { body } => prop_assert_eq!(body, whole),
                FrontmatterSplit::WithFrontmatter { yaml, body } => {
                    let first = whole.split_inclusive('\n').next().unwrap();
                    let fence = whole.len() - first.len() - yaml.len() - body.len();
                    prop_assert!(whole.starts_with(first) && whole.ends_with(body));
                    let second = &whole[first.len() + yaml.len()..][..fence];
                    prop_assert!(is_fence(first) && is_fence(second));
                    prop_assert!(!yaml.split_inclusive('\n').any(is_fence));
                }
                FrontmatterSplit::Unterminated => {
                    let mut lines = whole.split_inclusive('\n');
                    prop_assert!(lines.next().is_some_and(is_fence));
                    prop_assert!(!lines.any(is_fence));
                }
            }
        }

        #[test]
        fn what_was_put_together_comes_apart(
            yaml in "([a-z]{1,5}: [a-z ]{0,9}\n){0,4}",
            body in "[ -~\n]{0,40}",
            end in prop_oneof![Just("\n"), Just("\r\n"), Just("  \n")],
        ) {
            let text = format!("---{end}{yaml}---{end}{body}");
            prop_assert_eq!(
                split(&text),
                FrontmatterSplit::WithFrontmatter { yaml: &yaml, body: &body }
            );
        }
    }
}
