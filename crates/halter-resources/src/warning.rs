//! Problems with resources that are not fatal.

use crate::limits::MAX_WARNINGS;
use halter_protocol::encoding::escape_path;
use halter_protocol::{PluginId, ResourceKind};
use std::fmt;
use std::path::{Path, PathBuf};

/// Something a user should know about the resources that were looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceWarning {
    /// A root that does not exist or cannot be read.
    RootUnusable {
        /// The root.
        root: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A directory under a root cannot be read.
    DirectoryUnreadable {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A path that could not be shown to a model as it is.
    PathNotText {
        /// The path.
        path: PathBuf,
    },
    /// A link that leads out of its root, or nowhere.
    LinkNotFollowed {
        /// The link.
        path: PathBuf,
    },
    /// A plugin that is not in force unless somebody enables it.
    NotEnabled {
        /// Its folder.
        path: PathBuf,
    },
    /// A limit was reached and something left out.
    LimitReached {
        /// Where.
        path: PathBuf,
        /// Which one, and what was left out.
        reason: String,
    },
    /// A file or folder that cannot be used.
    Skipped {
        /// What it was meant to be.
        kind: ResourceKind,
        /// The file or folder.
        path: PathBuf,
        /// The line, counted from one.
        line: Option<u64>,
        /// What is wrong with it.
        reason: String,
    },
    /// A definition without a description: its first paragraph stands in.
    DescriptionInferred {
        /// What it is.
        kind: ResourceKind,
        /// Its file.
        path: PathBuf,
    },
    /// A description that was too long.
    DescriptionCut {
        /// The skill's file.
        path: PathBuf,
        /// How many characters it had.
        chars: usize,
    },
    /// Two of one name: the first root wins, and within a root the path that
    /// sorts first.
    Shadowed {
        /// What they are.
        kind: ResourceKind,
        /// The name.
        name: String,
        /// The one that is used.
        kept: PathBuf,
        /// The one that is not.
        dropped: PathBuf,
    },
    /// Something of a project that has the name of what is the user's own.
    NameIsTheUsers {
        /// What they are.
        kind: ResourceKind,
        /// The name.
        name: String,
        /// What is the user's, and is used.
        kept: PathBuf,
        /// What is the project's, and is not.
        dropped: PathBuf,
    },
    /// The name of a skill that other harnesses may not take.
    NameNotPublic {
        /// Its file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// Keys that have no effect here.
    KeysUnused {
        /// What they were said of.
        kind: ResourceKind,
        /// The file.
        path: PathBuf,
        /// The keys.
        keys: Vec<String>,
    },
    /// A key that has no effect because it is spelled in another way than the
    /// one that has.
    KeyMisspelt {
        /// What it was said of.
        kind: ResourceKind,
        /// The file.
        path: PathBuf,
        /// The key, as written.
        key: String,
        /// The key that is read.
        meant: String,
    },
    /// A skill that an agent file wants and that it does not have.
    SkillNotPreloaded {
        /// The file.
        path: PathBuf,
        /// The skill, as written.
        skill: String,
        /// Why not.
        reason: String,
    },
    /// Tools of which an agent file wants a part only.
    ToolsNotGranted {
        /// The file.
        path: PathBuf,
        /// What it asks for.
        entries: Vec<String>,
    },
    /// MCP servers that an agent file describes itself.
    ServersNotStarted {
        /// The file.
        path: PathBuf,
        /// Their names.
        described: Vec<String>,
    },
    /// A permission rule that cannot be used.
    RuleUnused {
        /// What it was said of.
        kind: ResourceKind,
        /// The file.
        path: PathBuf,
        /// The rule.
        rule: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A plugin that does not say its version.
    VersionMissing {
        /// The plugin.
        plugin_id: PluginId,
        /// Its manifest.
        path: PathBuf,
    },
    /// Something of a project that can run programs and is not trusted.
    Untrusted {
        /// What it belongs to.
        kind: ResourceKind,
        /// The file or folder to trust.
        path: PathBuf,
        /// What is withheld until then.
        withheld: String,
    },
    /// An instruction file that cannot be used.
    InstructionsSkipped {
        /// The file.
        path: PathBuf,
        /// The line, counted from one.
        line: Option<u64>,
        /// What is wrong with it.
        reason: String,
    },
    /// An instruction file that was too long.
    InstructionsCut {
        /// The file.
        path: PathBuf,
        /// How many bytes are left of it.
        bytes: usize,
    },
    /// A file that an instruction file imports and that is not loaded.
    ImportSkipped {
        /// The importing file.
        path: PathBuf,
        /// What it imports, as written.
        import: String,
        /// Why it is not loaded.
        reason: String,
    },
    /// There were more warnings than are kept.
    More {
        /// How many.
        count: usize,
    },
}

impl ResourceWarning {
    /// Stable, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::RootUnusable { .. } => "resource_root_unusable",
            Self::DirectoryUnreadable { .. } => "resource_directory_unreadable",
            Self::PathNotText { .. } => "resource_path_not_text",
            Self::LinkNotFollowed { .. } => "resource_link_not_followed",
            Self::NotEnabled { .. } => "plugin_not_enabled",
            Self::LimitReached { .. } => "resource_limit_reached",
            Self::Skipped { kind, .. } => match kind {
                ResourceKind::Skill => "skill_skipped",
                ResourceKind::Agent => "agent_skipped",
                ResourceKind::Command => "command_skipped",
                ResourceKind::OutputStyle => "output_style_skipped",
                _ => "plugin_skipped",
            },
            Self::DescriptionInferred { kind, .. } => match kind {
                ResourceKind::Skill => "skill_description_inferred",
                _ => "description_inferred",
            },
            Self::DescriptionCut { .. } => "skill_description_cut",
            Self::Shadowed { kind, .. } => match kind {
                ResourceKind::Skill => "skill_shadowed",
                ResourceKind::Agent => "agent_shadowed",
                ResourceKind::Command => "command_shadowed",
                ResourceKind::OutputStyle => "output_style_shadowed",
                _ => "plugin_shadowed",
            },
            Self::NameIsTheUsers { .. } => "resource_name_is_the_users",
            Self::NameNotPublic { .. } => "skill_name_not_public",
            Self::KeysUnused { .. } => "resource_keys_unused",
            Self::KeyMisspelt { .. } => "resource_key_misspelt",
            Self::SkillNotPreloaded { .. } => "agent_skill_not_preloaded",
            Self::ToolsNotGranted { .. } => "agent_tools_not_granted",
            Self::ServersNotStarted { .. } => "agent_servers_not_started",
            Self::RuleUnused { .. } => "resource_rule_unused",
            Self::VersionMissing { .. } => "plugin_version_missing",
            Self::Untrusted { .. } => "resource_untrusted",
            Self::InstructionsSkipped { .. } => "instructions_skipped",
            Self::InstructionsCut { .. } => "instructions_cut",
            Self::ImportSkipped { .. } => "import_skipped",
            Self::More { .. } => "more_resource_warnings",
        }
    }

    /// True if everything works as its author would expect here, and only those
    /// who look closely want to know.
    pub fn is_note(&self) -> bool {
        matches!(self, Self::NameNotPublic { .. } | Self::KeysUnused { .. })
    }
}

impl fmt::Display for ResourceWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RootUnusable { root, reason } => {
                write!(f, "resource root {}: {reason}", shown(root))
            }
            Self::DirectoryUnreadable { path, reason } => {
                write!(f, "{}: {reason}; what is in it is left out", shown(path))
            }
            Self::PathNotText { path } => write!(
                f,
                "{}: the name is not printable UTF-8, so a model could not spell it; rename it",
                shown(path)
            ),
            Self::LinkNotFollowed { path } => write!(
                f,
                "{}: the link leads out of the root or nowhere and is not followed; \
                 add its target as a root",
                shown(path)
            ),
            Self::NotEnabled { path } => write!(
                f,
                "{}: its manifest says `defaultEnabled: false`, so it is not in force; \
                 install it with `halter plugin install` and enable it",
                shown(path)
            ),
            Self::LimitReached { path, reason } => write!(f, "{}: {reason}", shown(path)),
            Self::Skipped {
                kind,
                path,
                line,
                reason,
            } => write!(
                f,
                "{kind} {}{}: skipped: {reason}",
                shown(path),
                LineNumber(*line)
            ),
            Self::DescriptionInferred { kind, path } => write!(
                f,
                "{kind} {}: no `description` in the frontmatter, so the first paragraph stands \
                 in; add one that says when to use the {kind}",
                shown(path)
            ),
            Self::DescriptionCut { path, chars } => write!(
                f,
                "skill {}: the description has {chars} characters and was cut; shorten it",
                shown(path)
            ),
            Self::Shadowed {
                kind,
                name,
                kept,
                dropped,
            } => write!(
                f,
                "{kind} `{name}`: {} is not used because {} has the same name and comes first; \
                 rename one",
                shown(dropped),
                shown(kept)
            ),
            Self::NameIsTheUsers {
                kind,
                name,
                kept,
                dropped,
            } => write!(
                f,
                "{kind} `{name}`: {} is not used: it is the project's, and {}, which is yours, \
                 has the same name; rename one",
                shown(dropped),
                shown(kept)
            ),
            Self::NameNotPublic { path, name } => write!(
                f,
                "skill {}: other harnesses take names of lower-case letters, digits and hyphens, \
                 and this one is `{name}`",
                shown(path)
            ),
            Self::ToolsNotGranted { path, entries } => write!(
                f,
                "agent {}: it does not have {}: an agent has a tool as a whole or not at all; \
                 name the tool alone, and say by permission rules what it may do",
                shown(path),
                entries.join(", ")
            ),
            Self::KeysUnused { kind, path, keys } => write!(
                f,
                "{kind} {}: without effect here: {}",
                shown(path),
                keys.join(", ").escape_debug()
            ),
            Self::KeyMisspelt {
                kind,
                path,
                key,
                meant,
            } => write!(
                f,
                "{kind} {}: nothing reads `{}`; write `{meant}`",
                shown(path),
                key.escape_debug()
            ),
            Self::SkillNotPreloaded {
                path,
                skill,
                reason,
            } => write!(
                f,
                "agent {}: it works without the skill `{}`: {reason}",
                shown(path),
                skill.escape_debug()
            ),
            Self::ServersNotStarted { path, described } => write!(
                f,
                "agent {}: the servers that it describes itself ({}) are not started; describe \
                 them in `.mcp.json` or the settings, and the agent gets their tools by name",
                shown(path),
                described.join(", ").escape_debug()
            ),
            Self::RuleUnused {
                kind,
                path,
                rule,
                reason,
            } => write!(
                f,
                "{kind} {}: the rule `{}` of `allowed-tools` allows nothing: {reason}",
                shown(path),
                rule.escape_debug()
            ),
            Self::VersionMissing { plugin_id, path } => write!(
                f,
                "plugin `{plugin_id}`: no `version` in {}; add one, so that changes can be told",
                shown(path)
            ),
            Self::Untrusted {
                kind,
                path,
                withheld,
            } => write!(
                f,
                "{kind} {}: {withheld} can run programs and the project is not trusted with \
                 that; look at it, then run `halter trust {}`",
                shown(path),
                shown(path)
            ),
            Self::InstructionsSkipped { path, line, reason } => write!(
                f,
                "instructions {}{}: skipped: {reason}",
                shown(path),
                LineNumber(*line)
            ),
            Self::InstructionsCut { path, bytes } => write!(
                f,
                "instructions {}: cut after {bytes} bytes; move what is not always needed into \
                 other files",
                shown(path)
            ),
            Self::ImportSkipped {
                path,
                import,
                reason,
            } => write!(
                f,
                "instructions {}: `@{}` is not loaded: {reason}",
                shown(path),
                shown(Path::new(import))
            ),
            Self::More { count } => write!(f, "{count} more warnings about resources"),
        }
    }
}

/// The path on one line, whatever bytes it has.
fn shown(path: &Path) -> String {
    let mut text = String::new();
    for character in escape_path(path).chars() {
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

struct LineNumber(Option<u64>);

impl fmt::Display for LineNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// Keeps the first [`MAX_WARNINGS`] and counts the rest.
#[derive(Debug, Default)]
pub(crate) struct WarningList {
    kept: Vec<ResourceWarning>,
    more: usize,
}

impl WarningList {
    pub fn push(&mut self, warning: ResourceWarning) {
        match warning {
            ResourceWarning::More { count } => self.more += count,
            warning if self.kept.len() < MAX_WARNINGS => self.kept.push(warning),
            _ => self.more += 1,
        }
    }

    /// Leaves out what is said of links to places that are known otherwise.
    pub fn forget_links_to(&mut self, is_known: impl Fn(&Path) -> bool) {
        self.kept.retain(|warning| match warning {
            ResourceWarning::LinkNotFollowed { path } => {
                !std::fs::canonicalize(path).is_ok_and(|target| is_known(&target))
            }
            _ => true,
        });
    }

    pub fn into_vec(mut self) -> Vec<ResourceWarning> {
        if self.more > 0 {
            self.kept.push(ResourceWarning::More { count: self.more });
        }
        self.kept
    }
}

impl Extend<ResourceWarning> for WarningList {
    fn extend<I: IntoIterator<Item = ResourceWarning>>(&mut self, warnings: I) {
        for warning in warnings {
            self.push(warning);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning() -> ResourceWarning {
        ResourceWarning::LinkNotFollowed {
            path: "/skills/x".into(),
        }
    }

    #[test]
    fn warnings_are_bounded_and_the_rest_counted() {
        let mut warnings = WarningList::default();
        warnings.extend(std::iter::repeat_n(warning(), MAX_WARNINGS));
        assert_eq!(warnings.kept.len(), MAX_WARNINGS);
        assert_eq!(warnings.more, 0);
        warnings.push(warning());
        warnings.push(ResourceWarning::More { count: 4 });
        let all = warnings.into_vec();
        assert_eq!(all.len(), MAX_WARNINGS + 1);
        assert_eq!(all.last(), Some(&ResourceWarning::More { count: 5 }));
    }

    #[test]
    fn a_skipped_skill_is_shown_with_its_line() {
        let warning = ResourceWarning::Skipped {
            kind: ResourceKind::Skill,
            path: "/s/a/SKILL.md".into(),
            line: Some(3),
            reason: "bad".into(),
        };
        assert_eq!(warning.to_string(), "skill /s/a/SKILL.md:3: skipped: bad");
    }

    #[test]
    fn a_path_cannot_break_the_line() {
        let warning = ResourceWarning::PathNotText {
            path: "/s/a\nerror: all is lost".into(),
        };
        assert!(warning.to_string().starts_with(r"/s/a\nerror: all"));
    }
}
