//! What names the directory of a session, so that a recording plays in any
//! other one too.

/// What the harness writes before the directory and the repository of a
/// session when it tells a model of its surroundings.
const BEFORE_DIRECTORY: &str = "- Directory: ";
const BEFORE_REPOSITORY: &str = "\\n- Git: ";

/// What stands in the place of the two when requests are compared.
const SOME_DIRECTORY: &str = "[directory]";
const SOME_REPOSITORY: &str = "[repository]";

/// The directory and the repository that a request names, as JSON spells them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Surroundings {
    directory: String,
    repository: Option<String>,
}

impl Surroundings {
    /// The surroundings that the body of a request tells, if it does.
    pub fn of(body: &str) -> Option<Self> {
        let directory = line_after(body, BEFORE_DIRECTORY)?;
        let repository = line_after(body, BEFORE_REPOSITORY)
            .and_then(|line| line.split_once(" in "))
            .map(|(_, root)| root.to_owned());
        Some(Self {
            directory: directory.to_owned(),
            repository,
        })
    }

    /// The body without what differs from directory to directory.
    pub fn taken_out(&self, body: &str) -> String {
        let told = line_after(body, BEFORE_REPOSITORY);
        let body = match told {
            Some(line) => body.replacen(&format!("{BEFORE_REPOSITORY}{line}"), "", 1),
            None => body.to_owned(),
        };
        let body = replace_path(&body, &self.directory, SOME_DIRECTORY);
        match &self.repository {
            Some(root) => replace_path(&body, root, SOME_REPOSITORY),
            None => body,
        }
    }

    /// A recorded text as it would be in another directory.
    pub fn moved_to(&self, other: &Self, text: &str) -> String {
        match self.directory == other.directory {
            true => text.to_owned(),
            false => replace_path(text, &self.directory, &other.directory),
        }
    }
}

/// What follows a mark up to the end of its line in a JSON string.
fn line_after<'a>(body: &'a str, mark: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(mark)?;
    let end = rest.find("\\n").into_iter().chain(rest.find('"')).min()?;
    rest.get(..end)
}

/// Replaces a path where it stands whole. The root directory names nothing.
fn replace_path(text: &str, path: &str, by: &str) -> String {
    if path.len() < 2 {
        return text.to_owned();
    }
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(path) {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let starts = !before.ends_with(is_part);
        let ends = !after.starts_with(is_part);
        replaced.push_str(before);
        replaced.push_str(if starts && ends { by } else { path });
        rest = after;
    }
    replaced.push_str(rest);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(directory: &str, git: &str, text: &str) -> String {
        format!(
            r##"{{"system":"# Environment\n\n- Directory: {directory}\n- Date: x{git}","messages":["{text}"]}}"##
        )
    }

    #[test]
    fn requests_from_two_directories_are_equal() {
        let one = body("/a/b", "\\n- Git: main in /a", "see /a/b/c.rs and /a/d");
        let other = body("/x", "\\n- Git: fix in /x", "see /x/c.rs and /a/d");
        let taken_out = |body: &str| Surroundings::of(body).unwrap().taken_out(body);
        assert_eq!(
            taken_out(&one),
            body("[directory]", "", "see [directory]/c.rs and [repository]/d")
        );
        assert_eq!(
            taken_out(&other),
            body("[directory]", "", "see [directory]/c.rs and /a/d")
        );
        assert_eq!(Surroundings::of(r#"{"messages":[]}"#), None);
    }

    #[test]
    fn only_whole_paths_are_replaced() {
        for (text, shown) in [
            ("/work/a", "X/a"),
            ("/work", "X"),
            ("/workshop", "/workshop"),
            ("/home/work", "/home/work"),
            ("in /work.", "in X."),
        ] {
            assert_eq!(replace_path(text, "/work", "X"), shown);
        }
        assert_eq!(replace_path("/a/b", "/", "X"), "/a/b");
    }

    #[test]
    fn an_answer_names_the_directory_of_the_replay() {
        let surroundings = |directory: &str| Surroundings::of(&body(directory, "", "")).unwrap();
        let (recorded, now) = (surroundings("/a"), surroundings("/b"));
        assert_eq!(recorded.moved_to(&now, "read /a/x"), "read /b/x");
        assert_eq!(recorded.moved_to(&recorded, "read /a/x"), "read /a/x");
    }
}
