//! A skill, and the loader of a root of skills.

use crate::agent::model;
use crate::command::hint;
use crate::content::ContentName;
use crate::error::ResourceError;
use crate::files::{Unread, is_showable, whole_text};
use crate::header::{Document, Malformed, UnreadKeys, WordList, first_paragraph, one_line};
use crate::limits::{MAX_DESCRIPTION_CHARS, MAX_LISTED_CHARS, MAX_SKILL_BYTES};
use crate::name::{is_public_name, usable_name};
use crate::render::has_commands;
use crate::skill_walk;
use crate::warning::ResourceWarning;
use halter_protocol::encoding::escape_path;
use halter_protocol::{
    PermissionRule, ResourceKind, ResourceOrigin, RuleEffect, SkillDef, SkillFork, SkillName,
};
use serde::Deserialize;
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The file that makes a directory a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// A skill read from disk, or made in code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedSkill {
    definition: SkillDef,
    relative_path: PathBuf,
}

impl LoadedSkill {
    /// A skill made in code. `path` is its file, `body` the text of that. The
    /// description is put on one line and cut to its limit.
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
        let name: SkillName = name.into();
        let name =
            usable_name(name.as_str()).map_err(|reason| ResourceError::InvalidSkillName {
                name: name.0.clone(),
                reason,
            })?;
        let (description, _) = one_line(description.as_ref(), MAX_DESCRIPTION_CHARS);
        if description.is_empty() {
            return Err(ResourceError::MissingDescription { name });
        }
        let path = path.into();
        if !is_showable(&path) {
            return Err(ResourceError::InvalidSkillPath { name, path });
        }
        Ok(Self {
            relative_path: relative_to_grandparent(&path),
            definition: SkillDef {
                origin: ResourceOrigin::Program,
                ..SkillDef::new("", name, description, path, body)
            },
        })
    }

    /// The name a model refers to it by.
    pub fn name(&self) -> &SkillName {
        &self.definition.name
    }

    /// When to use it, on one line.
    pub fn description(&self) -> &str {
        &self.definition.description
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.definition.path
    }

    /// The text of the file.
    pub fn body(&self) -> &str {
        &self.definition.body
    }

    /// What its file says, without the id that a compiler gives it.
    pub fn definition(&self) -> &SkillDef {
        &self.definition
    }

    /// What the skill is called by its content: name, description, text and
    /// place under its root, but not where the root is.
    pub(crate) fn content_name(&self) -> String {
        ContentName::default()
            .field(self.name().as_str())
            .field(self.description())
            .field(escape_path(&self.relative_path))
            .field(self.body())
            .field([u8::from(self.can_run_code())])
            .finish("skl")
    }

    pub(crate) fn into_definition(self) -> SkillDef {
        SkillDef {
            id: self.content_name().into(),
            ..self.definition
        }
    }

    /// Whether using it can run programs that its file names, or spare a
    /// question.
    pub(crate) fn can_run_code(&self) -> bool {
        let SkillDef {
            hooks,
            allowed_tools,
            runs_commands,
            ..
        } = &self.definition;
        hooks.is_some() || !allowed_tools.is_empty() || *runs_commands
    }

    /// Takes that away.
    pub(crate) fn disarm(&mut self) {
        self.definition.hooks = None;
        self.definition.allowed_tools.clear();
        self.definition.runs_commands = false;
    }

    /// Puts the name of its plugin before its own.
    pub(crate) fn of_plugin(mut self, full_name: String) -> Self {
        self.definition.name = full_name.into();
        self
    }

    /// Reads the open `SKILL.md` of a project, with the checks of a
    /// [`SkillLoader`].
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(
        path: &Path,
        file: impl Read,
    ) -> Result<(Self, Vec<ResourceWarning>), ResourceWarning> {
        if !is_showable(path) {
            let path = path.to_owned();
            return Err(ResourceWarning::PathNotText { path });
        }
        let relative_path = relative_to_grandparent(path);
        let root = path.parent().and_then(Path::parent);
        let text = whole_text(file, MAX_SKILL_BYTES);
        let origin = ResourceOrigin::Project;
        Self::of_text(root.unwrap_or(path), relative_path, &origin, text)
    }

    /// Reads what was found at `relative_path` under `root`.
    pub(crate) fn of_text(
        root: &Path,
        relative_path: PathBuf,
        origin: &ResourceOrigin,
        text: Result<String, Unread>,
    ) -> Result<(Self, Vec<ResourceWarning>), ResourceWarning> {
        let path = root.join(&relative_path);
        let unread = |unread: Unread| (unread.line(), unread.reason(MAX_SKILL_BYTES));
        let parsed = text.map_err(unread).and_then(|text| {
            Self::parse(root, relative_path, origin, text)
                .map_err(|malformed| (malformed.line, malformed.reason))
        });
        parsed.map_err(|(line, reason)| ResourceWarning::Skipped {
            kind: ResourceKind::Skill,
            path,
            line,
            reason,
        })
    }

    /// Reads the text of a `SKILL.md` found at `relative_path` under `root`.
    pub(crate) fn parse(
        root: &Path,
        relative_path: PathBuf,
        origin: &ResourceOrigin,
        text: String,
    ) -> Result<(Self, Vec<ResourceWarning>), Malformed> {
        let path = root.join(&relative_path);
        let Document { header, body, keys } = Document::<SkillHeader>::parse(&text)?;
        let unread = UnreadKeys::of(&keys, KEYS);
        let header = header.unwrap_or_default();
        let mut warnings = Vec::new();
        let name = header
            .name
            .clone()
            .filter(|name| !name.trim().is_empty())
            .or_else(|| directory_name(&path))
            .unwrap_or_default();
        let name = usable_name(&name).map_err(Malformed::new)?;
        if !is_public_name(&name) {
            warnings.push(ResourceWarning::NameNotPublic {
                path: path.clone(),
                name: name.clone(),
            });
        }
        let kind = ResourceKind::Skill;
        let limit = MAX_DESCRIPTION_CHARS;
        let stated = header.description.as_deref();
        let stated = stated.map(|text| one_line(text, limit));
        let description = match stated.filter(|(text, _)| !text.is_empty()) {
            Some((description, cut)) => {
                warnings.extend(cut.map(|chars| ResourceWarning::DescriptionCut {
                    path: path.clone(),
                    chars,
                }));
                description
            }
            None => {
                let path = path.clone();
                warnings.push(ResourceWarning::DescriptionInferred { kind, path });
                one_line(&first_paragraph(body), limit).0
            }
        };
        if description.is_empty() {
            let reason = "it has neither a `description` in its frontmatter nor a paragraph that \
                          could stand in; say in a sentence when to use it";
            return Err(Malformed::new(reason));
        }
        let mut keys = header.unused();
        let rules = header.allowed_tools.as_ref();
        let allowed_tools = allow_rules(rules, path.as_path(), kind, &mut warnings);
        let fork = match header.context.as_deref() {
            Some("fork") => Some(SkillFork {
                agent: header.agent.clone(),
                background: header.background.unwrap_or_default(),
            }),
            Some(_) => {
                keys.push("context".to_owned());
                None
            }
            None => None,
        };
        unread.report(keys, kind, &path, &mut warnings);
        let description = match &header.when_to_use {
            Some(when) => one_line(&format!("{description} {when}"), MAX_LISTED_CHARS).0,
            None => description,
        };
        let definition = SkillDef {
            origin: origin.clone(),
            always: header.is_always(),
            user_only: header.disable_model_invocation.unwrap_or_default(),
            model_only: header.user_invocable == Some(false),
            argument_hint: hint(header.argument_hint),
            arguments: header.arguments.unwrap_or_default().0,
            paths: header.paths.unwrap_or_default().0,
            model: model(header.model),
            hooks: header.hooks.filter(|hooks| !hooks.is_null()),
            allowed_tools,
            disallowed_tools: header.disallowed_tools.unwrap_or_default().0,
            fork,
            runs_commands: has_commands(body),
            ..SkillDef::new("", name, description, path, "")
        };
        let skill = Self {
            definition: SkillDef {
                body: text,
                ..definition
            },
            relative_path,
        };
        Ok((skill, warnings))
    }
}

/// The keys that are known here; the last three say something to people.
const KEYS: &[&str] = &[
    "name",
    "description",
    "when_to_use",
    "when-to-use",
    "argument-hint",
    "arguments",
    "paths",
    "model",
    "always",
    "disable-model-invocation",
    "user-invocable",
    "hooks",
    "allowed-tools",
    "disallowed-tools",
    "effort",
    "context",
    "agent",
    "background",
    "metadata",
    "license",
    "compatibility",
];

/// What is understood of the frontmatter; the public format has more, which is
/// left to those it is meant for.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SkillHeader {
    name: Option<String>,
    description: Option<String>,
    #[serde(rename = "when_to_use", alias = "when-to-use")]
    when_to_use: Option<String>,
    argument_hint: Option<Value>,
    arguments: Option<WordList>,
    paths: Option<WordList>,
    model: Option<String>,
    always: Option<bool>,
    metadata: Option<Value>,
    disable_model_invocation: Option<bool>,
    user_invocable: Option<bool>,
    hooks: Option<Value>,
    allowed_tools: Option<WordList>,
    disallowed_tools: Option<WordList>,
    effort: Option<Value>,
    context: Option<String>,
    agent: Option<String>,
    background: Option<bool>,
}

impl SkillHeader {
    /// `always: true`, or the same under `metadata`, which the public format
    /// leaves open.
    fn is_always(&self) -> bool {
        let metadata = self.metadata.as_ref().and_then(|it| it.get("always"));
        let said = metadata.is_some_and(|it| it == &Value::Bool(true) || it == "true");
        self.always.unwrap_or(said)
    }

    /// The keys that are known and have no effect here.
    fn unused(&self) -> Vec<String> {
        let forks = self.context.is_some();
        let keys = [
            ("effort", self.effort.is_some()),
            ("agent", self.agent.is_some() && !forks),
            ("background", self.background.is_some() && !forks),
        ];
        let present = keys.into_iter().filter(|(_, is_unused)| *is_unused);
        present.map(|(key, _)| key.to_owned()).collect()
    }
}

/// The rules that can be used; what is wrong with others is said.
pub(crate) fn allow_rules(
    written: Option<&WordList>,
    path: &Path,
    kind: ResourceKind,
    warnings: &mut Vec<ResourceWarning>,
) -> Vec<String> {
    let mut rules = Vec::new();
    for rule in written.into_iter().flat_map(|list| &list.0) {
        match PermissionRule::parse(rule, RuleEffect::Allow) {
            Ok(_) => rules.push(rule.clone()),
            Err(error) => warnings.push(ResourceWarning::RuleUnused {
                kind,
                path: path.to_owned(),
                rule: rule.clone(),
                reason: error.to_string(),
            }),
        }
    }
    rules
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
    origin: ResourceOrigin,
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
        Self {
            root: root.into(),
            origin: ResourceOrigin::Named,
        }
    }

    /// Says where the root comes from.
    #[must_use]
    pub fn with_origin(mut self, origin: ResourceOrigin) -> Self {
        self.origin = origin;
        self
    }

    /// Reads the skills. Blocks on the file system: within async code use
    /// [`ResourceCompiler`](crate::ResourceCompiler) or a blocking thread.
    pub fn load(&self) -> LoadedSkills {
        skill_walk::walk(&self.root, &self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(LoadedSkill, Option<ResourceWarning>), Malformed> {
        let (skill, warnings) = LoadedSkill::parse(
            Path::new("/skills"),
            PathBuf::from("git/commit/SKILL.md"),
            &ResourceOrigin::User,
            text.to_owned(),
        )?;
        assert!(warnings.len() < 2, "{warnings:?}");
        Ok((skill, warnings.into_iter().next()))
    }

    #[test]
    fn keys_that_nothing_reads_are_named_and_those_for_people_are_not() {
        let (_, warning) = parse(
            "---\nname: a\ndescription: d\nlicense: MIT\nmetadata: {author: me}\n\
             compatibility: any\n---\nGo.",
        )
        .unwrap();
        assert_eq!(warning, None);
        let (_, warning) =
            parse("---\nname: a\ndescription: d\neffort: high\ntags: [x]\n---\nGo.").unwrap();
        let said = warning.unwrap().to_string();
        assert!(
            said.ends_with("without effect here: effort, tags"),
            "{said}"
        );
        let (skill, warning) =
            parse("---\nname: a\ndescription: d\nallowedTools: Bash\n---\nGo.").unwrap();
        assert!(skill.definition().allowed_tools.is_empty());
        let said = warning.unwrap();
        assert!(!said.is_note());
        assert!(
            said.to_string()
                .ends_with("nothing reads `allowedTools`; write `allowed-tools`"),
            "{said}"
        );
    }

    #[test]
    fn what_the_public_format_says_is_read() {
        let (skill, warning) = parse(
            "---\nname: deploy\ndescription: Deploys.\nwhen_to_use: When asked to ship.\n\
             argument-hint: \"[target]\"\narguments: target\npaths: \"src/**, docs/**\"\n\
             model: haiku\ndisable-model-invocation: true\nuser-invocable: false\n\
             metadata: {always: \"true\"}\nallowed-tools: Bash(git *), Read\ncontext: fork\n\
             disallowed-tools: [Write]\nagent: Explore\nbackground: true\neffort: high\n\
             hooks: {Stop: []}\n---\nGo.\n",
        )
        .unwrap();
        let said = skill.definition();
        assert_eq!(said.description, "Deploys. When asked to ship.");
        assert_eq!(said.argument_hint.as_deref(), Some("[target]"));
        assert_eq!(
            (&said.arguments[..], &said.paths[..]),
            (
                &["target".to_owned()][..],
                &["src/**".to_owned(), "docs/**".to_owned()][..]
            )
        );
        assert_eq!(said.model.as_deref(), Some("haiku"));
        assert!(said.user_only && said.model_only && said.always && said.hooks.is_some());
        assert_eq!(said.allowed_tools, ["Bash(git *)", "Read"]);
        assert_eq!(said.disallowed_tools, ["Write"]);
        let fork = SkillFork {
            agent: Some("Explore".into()),
            background: true,
        };
        assert_eq!(said.fork, Some(fork));
        let unused = warning.unwrap().to_string();
        assert!(unused.contains("effort"), "{unused}");
    }

    #[test]
    fn a_listed_description_is_bounded() {
        let text = |when: usize| {
            format!(
                "---\ndescription: {}\nwhen_to_use: {}\n---\n",
                "d".repeat(1000),
                "w".repeat(when)
            )
        };
        let fits = MAX_LISTED_CHARS - 1001;
        let (skill, _) = parse(&text(fits)).unwrap();
        assert_eq!(skill.description().len(), MAX_LISTED_CHARS);
        let (skill, _) = parse(&text(fits + 1)).unwrap();
        assert_eq!(skill.description().chars().count(), MAX_LISTED_CHARS);
        assert!(skill.description().ends_with('…'));
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
            ("---\nname: a\ndisallowed-tools: [Write\n---\nx", Some(3)),
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
    fn names_are_checked() {
        let named = |name: &str| LoadedSkill::new(name, "d", "/s/x/SKILL.md", "");
        assert_eq!(named(" x ").unwrap().name().as_str(), "x");
        for wrong in ["", "  ", "a\nb", "a\u{7}", "../x", "a:b"] {
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
