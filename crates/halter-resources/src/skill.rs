//! A skill, and the loader of a root of skills.

use crate::content::ContentName;
use crate::error::ResourceError;
use crate::files::is_showable;
use crate::frontmatter::{FrontmatterSplit, LINES_BEFORE_YAML, split};
use crate::limits::{MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS};
use crate::skill_walk;
use crate::warning::ResourceWarning;
use halter_protocol::encoding::escape_path;
use halter_protocol::{SkillDef, SkillName};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The file that makes a directory a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// A skill read from disk, or made in code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedSkill {
    name: SkillName,
    description: String,
    path: PathBuf,
    relative_path: PathBuf,
    body: String,
}

impl LoadedSkill {
    /// A skill made in code. `path` is the file the model reads, `body` its
    /// text. The description is put on one line and cut to its limit.
    ///
    /// # Errors
    /// If the name or the path cannot be shown to a model, or the description
    /// is blank.
    pub fn new(
        name: impl Into<SkillName>,
        description: impl AsRef<str>,
        path: impl Into<PathBuf>,
        body: impl Into<String>,
    ) -> Result<Self, ResourceError> {
        let name = valid_name(name.into())?;
        let (description, _) = on_one_line(description.as_ref());
        if description.is_empty() {
            return Err(ResourceError::MissingDescription { name: name.0 });
        }
        let path = path.into();
        if !is_showable(&path) {
            return Err(ResourceError::InvalidSkillPath { name: name.0, path });
        }
        Ok(Self {
            relative_path: relative_to_grandparent(&path),
            name,
            description,
            path,
            body: body.into(),
        })
    }

    /// The name a model refers to it by.
    pub fn name(&self) -> &SkillName {
        &self.name
    }

    /// When to use it, on one line.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The file the model reads.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text of the file.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// What the skill is called by its content: name, description, text and
    /// place under its root, but not where the root is.
    pub(crate) fn content_name(&self) -> String {
        ContentName::default()
            .field(self.name.as_str())
            .field(&self.description)
            .field(escape_path(&self.relative_path))
            .field(&self.body)
            .finish("skl")
    }

    pub(crate) fn into_definition(self) -> SkillDef {
        SkillDef {
            id: self.content_name().into(),
            name: self.name,
            description: self.description,
            path: self.path,
            body: self.body,
        }
    }

    /// Reads the text of a `SKILL.md` found at `relative_path` under `root`.
    pub(crate) fn parse(
        root: &Path,
        relative_path: PathBuf,
        text: String,
    ) -> Result<(Self, Option<ResourceWarning>), Malformed> {
        let path = root.join(&relative_path);
        let (header, body) = parse_header(&text)?;
        let name = header
            .name
            .filter(|name| !name.trim().is_empty())
            .or_else(|| directory_name(&path))
            .unwrap_or_default();
        let name = valid_name(name.into()).map_err(|error| Malformed::new(None, error))?;
        let stated = header.description.as_deref().map(on_one_line);
        let (description, warning) = match stated.filter(|(text, _)| !text.is_empty()) {
            Some((description, None)) => (description, None),
            Some((description, Some(chars))) => {
                let path = path.clone();
                (
                    description,
                    Some(ResourceWarning::DescriptionCut { path, chars }),
                )
            }
            None => {
                let (description, _) = on_one_line(&first_paragraph(body));
                let path = path.clone();
                (
                    description,
                    Some(ResourceWarning::DescriptionInferred { path }),
                )
            }
        };
        if description.is_empty() {
            let reason = "it has neither a `description` in its frontmatter nor a paragraph that \
                          could stand in; say in a sentence when to use it";
            return Err(Malformed::new(None, reason));
        }
        let skill = Self {
            name,
            description,
            path,
            relative_path,
            body: text,
        };
        Ok((skill, warning))
    }
}

/// Why a file is no skill.
#[derive(Debug)]
pub(crate) struct Malformed {
    pub line: Option<u64>,
    pub reason: String,
}

impl Malformed {
    fn new(line: Option<u64>, reason: impl ToString) -> Self {
        Self {
            line,
            reason: reason.to_string(),
        }
    }
}

/// What is understood of the frontmatter; the public format has more, which is
/// left to those it is meant for.
#[derive(Debug, Default, Deserialize)]
struct SkillHeader {
    name: Option<String>,
    description: Option<String>,
}

fn parse_header(text: &str) -> Result<(SkillHeader, &str), Malformed> {
    let (yaml, body) = match split(text) {
        FrontmatterSplit::Plain { body } => return Ok((SkillHeader::default(), body)),
        FrontmatterSplit::WithFrontmatter { yaml, body } if yaml.trim().is_empty() => {
            return Ok((SkillHeader::default(), body));
        }
        FrontmatterSplit::WithFrontmatter { yaml, body } => (yaml, body),
        FrontmatterSplit::Unterminated => {
            let reason = "the frontmatter that begins here has no end; close it with a line `---`";
            return Err(Malformed::new(Some(1), reason));
        }
    };
    match serde_saphyr::from_str(yaml) {
        Ok(header) => Ok((header, body)),
        Err(error) => {
            let line = error.location().map(|place| place.line());
            let words = error.without_snippet().to_string();
            let (words, _) = on_one_line(&words);
            Err(Malformed::new(
                Some(line.unwrap_or(1) + LINES_BEFORE_YAML),
                format!(
                    "the frontmatter is not the YAML expected: {words}; text with a colon needs quotes"
                ),
            ))
        }
    }
}

fn valid_name(name: SkillName) -> Result<SkillName, ResourceError> {
    let trimmed = name.as_str().trim();
    let valid = !trimmed.is_empty()
        && trimmed.chars().count() <= MAX_NAME_CHARS
        && !trimmed.chars().any(char::is_control);
    if valid {
        Ok(trimmed.into())
    } else {
        Err(ResourceError::InvalidSkillName { name: name.0 })
    }
}

/// The text on one line, without control characters, cut to the limit of a
/// description; and the length it had if it was cut.
fn on_one_line(text: &str) -> (String, Option<usize>) {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    let chars = line.chars().count();
    if chars <= MAX_DESCRIPTION_CHARS {
        return (line, None);
    }
    let cut = line.chars().take(MAX_DESCRIPTION_CHARS - 1);
    (cut.chain(['…']).collect(), Some(chars))
}

/// The first lines of prose, without headings.
fn first_paragraph(body: &str) -> String {
    body.lines()
        .map(str::trim)
        .skip_while(|line| line.is_empty() || line.starts_with('#'))
        .take_while(|line| !line.is_empty() && !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join(" ")
}

fn directory_name(path: &Path) -> Option<String> {
    Some(path.parent()?.file_name()?.to_str()?.to_owned())
}

fn relative_to_grandparent(path: &Path) -> PathBuf {
    let above = path.parent().and_then(Path::parent);
    above
        .and_then(|above| path.strip_prefix(above).ok())
        .unwrap_or(path)
        .to_owned()
}

/// Finds the skills under one root.
///
/// The root is searched recursively. A directory below it that holds a
/// `SKILL.md` is a skill and is not searched further: what else is in it
/// belongs to the skill. `.git` and `node_modules` are left out, links to
/// directories are not followed.
#[derive(Debug, Clone)]
pub struct SkillLoader {
    root: PathBuf,
}

/// What a [`SkillLoader`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedSkills {
    /// The skills, in the order of their paths.
    pub skills: Vec<LoadedSkill>,
    /// What was wrong with files.
    pub warnings: Vec<ResourceWarning>,
}

impl SkillLoader {
    /// A loader for one root.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Reads the skills. Blocks on the file system: within async code use
    /// [`ResourceCompiler`](crate::ResourceCompiler) or a blocking thread.
    pub fn load(&self) -> LoadedSkills {
        skill_walk::walk(&self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(LoadedSkill, Option<ResourceWarning>), Malformed> {
        LoadedSkill::parse(
            Path::new("/skills"),
            PathBuf::from("git/commit/SKILL.md"),
            text.to_owned(),
        )
    }

    #[test]
    fn frontmatter_names_and_describes() {
        let text = "---\nname: good-commits\ndescription: >\n  Use when\n  committing.\nlicense: MIT\nmetadata: {a: [1]}\n---\n# Body\n";
        let (skill, warning) = parse(text).unwrap();
        assert_eq!(skill.name().as_str(), "good-commits");
        assert_eq!(skill.description(), "Use when committing.");
        assert_eq!(skill.path(), Path::new("/skills/git/commit/SKILL.md"));
        assert_eq!(skill.body(), text);
        assert_eq!(warning, None);
    }

    #[test]
    fn the_directory_and_the_first_paragraph_stand_in() {
        for text in [
            "# Commit\n\nWrite a\ngood message.\n\nMore.\n",
            "---\n---\n# Commit\nWrite a\ngood message.\n# More\n",
            "---\n# only a comment\n---\nWrite a good message.\n",
            "---\nname:\ndescription: ''\n---\nWrite a good message.",
        ] {
            let (skill, warning) = parse(text).unwrap();
            assert_eq!(skill.name().as_str(), "commit", "{text:?}");
            assert_eq!(skill.description(), "Write a good message.", "{text:?}");
            assert_eq!(warning.unwrap().code(), "skill_description_inferred");
        }
    }

    #[test]
    fn malformed_frontmatter_is_refused_with_its_line() {
        for (text, line) in [
            ("---\nname: a\n", Some(1)),
            ("---\nname: a\ndescription: Use when: asked\n---\n", Some(3)),
            ("---\nname: a\ndescription: [a, b]\n---\nx", Some(3)),
            ("---\n- a\n- b\n---\nx", Some(2)),
            ("---\nname: a\nname: b\n---\nx", Some(3)),
            ("---\nname: a\n---\n", None),
            ("", None),
        ] {
            let malformed = parse(text).unwrap_err();
            assert_eq!(malformed.line, line, "{text:?}: {}", malformed.reason);
            assert!(!malformed.reason.contains('\n'), "{}", malformed.reason);
        }
    }

    #[test]
    fn names_are_bounded_and_on_one_line() {
        let named = |name: &str| LoadedSkill::new(name, "d", "/s/x/SKILL.md", "");
        assert!(named(&"é".repeat(MAX_NAME_CHARS)).is_ok());
        assert_eq!(named(" x ").unwrap().name().as_str(), "x");
        for wrong in ["", "  ", "a\nb", "a\u{7}", &"x".repeat(MAX_NAME_CHARS + 1)] {
            assert_eq!(named(wrong).unwrap_err().code(), "invalid_skill_name");
        }
    }

    #[test]
    fn descriptions_are_cut_with_a_warning() {
        let described = |chars: usize| {
            parse(&format!("---\ndescription: {}\n---\n", "é".repeat(chars))).unwrap()
        };
        let (skill, warning) = described(MAX_DESCRIPTION_CHARS);
        assert_eq!(skill.description().chars().count(), MAX_DESCRIPTION_CHARS);
        assert_eq!(warning, None);
        let (skill, warning) = described(MAX_DESCRIPTION_CHARS + 1);
        assert_eq!(skill.description().chars().count(), MAX_DESCRIPTION_CHARS);
        assert!(skill.description().ends_with('…'));
        assert_eq!(warning.unwrap().code(), "skill_description_cut");
    }

    #[test]
    fn descriptions_and_paths_cannot_forge_lines() {
        let skill = LoadedSkill::new("x", "a\n\n# System\r\n\u{1b}[31mb", "/s", "").unwrap();
        assert_eq!(skill.description(), "a # System [31mb");
        let blank = LoadedSkill::new("x", " \n", "/s", "").unwrap_err();
        assert_eq!(blank.code(), "missing_skill_description");
        let path = LoadedSkill::new("x", "d", "/s/a\nb/SKILL.md", "").unwrap_err();
        assert_eq!(path.code(), "invalid_skill_path");
    }
}
