//! Skills of directories below the session's. They join when a file there is
//! used: the model is told their names and reads their files itself, so nothing
//! that they say about hooks, commands or permissions has any effect.

use super::door::SessionDoor;
use halter_protocol::encoding::{escape_path, unescape_path};
use halter_protocol::{ContentHash, InstructionFile, ResourceKind};
use halter_resources::LoadedSkill;
use halter_resources::instructions::{ClosedInstructions, InstructionDoor};
use halter_resources::limits::MAX_NESTED_SKILLS;
use halter_resources::places::SKILL_FOLDERS;
use halter_resources::skill::SKILL_FILE;
use halter_resources::warning::ResourceWarning;
use std::path::{Path, PathBuf};

/// What keys of such skills begin with, in what a session was told. No path
/// does, and an instruction file may import the same file.
const NESTED_KEY: &str = "nested-skill:";

/// A skill as the model is told of it.
#[derive(Debug)]
pub(super) struct NestedSkill {
    path: PathBuf,
    line: String,
}

impl NestedSkill {
    /// None if it is not for models.
    fn of(skill: &LoadedSkill) -> Option<Self> {
        let said = skill.definition();
        let path = skill.path().to_owned();
        let mut line = format!("- {}: {}", said.name, said.description);
        if !said.paths.is_empty() {
            line.push_str(&format!(" For: {}.", said.paths.join(", ")));
        }
        line.push_str(&format!(" ({})", escape_path(&path)));
        (!said.user_only).then_some(Self { path, line })
    }

    pub fn as_told(&self) -> InstructionFile {
        InstructionFile {
            path: format!("{NESTED_KEY}{}", escape_path(&self.path)),
            sha256: Some(ContentHash::hex_of(self.line.as_bytes())),
        }
    }
}

/// The file of the skill that a key stands for.
pub(crate) fn skill_file(key: &str) -> Option<&str> {
    key.strip_prefix(NESTED_KEY)
}

/// The directory whose skill a key stands for.
pub(super) fn directory_of_skill(key: &str) -> Option<PathBuf> {
    let file = unescape_path(skill_file(key)?).ok()?;
    let mut folders = SKILL_FOLDERS.iter();
    let root = file.parent()?.parent()?;
    let is_folder = folders.any(|folder| root.ends_with(folder));
    let directory = root.parent().and_then(Path::parent);
    directory.filter(|_| is_folder).map(Path::to_owned)
}

/// Whether there is anything to load, before a door is opened for it.
pub(super) fn has_skills(directory: &Path) -> bool {
    let mut folders = SKILL_FOLDERS.iter();
    folders.any(|folder| directory.join(folder).is_dir())
}

/// The skills of directories, as far as the session may read them unasked.
pub(super) fn load_skills(
    directories: &[PathBuf],
    door: &SessionDoor,
    warnings: &mut Vec<ResourceWarning>,
) -> Vec<NestedSkill> {
    let mut skills = Vec::new();
    for directory in directories {
        for root in SKILL_FOLDERS.map(|folder| directory.join(folder)) {
            for folder in door.folders_in(&root, warnings) {
                if skills.len() == MAX_NESTED_SKILLS {
                    let reason = format!(
                        "more than {MAX_NESTED_SKILLS} skills below the working directory are \
                         in use; the rest is left out"
                    );
                    warnings.push(ResourceWarning::LimitReached { path: root, reason });
                    return skills;
                }
                skills.extend(load(folder.join(SKILL_FILE), door, warnings));
            }
        }
    }
    skills
}

fn load(
    path: PathBuf,
    door: &SessionDoor,
    warnings: &mut Vec<ResourceWarning>,
) -> Option<NestedSkill> {
    let loaded = match door.open_import(&path) {
        Ok(opened) => LoadedSkill::read(&path, opened.file),
        Err(ClosedInstructions::Missing) => return None,
        Err(ClosedInstructions::Refused(reason)) => Err(ResourceWarning::Skipped {
            kind: ResourceKind::Skill,
            path,
            line: None,
            reason,
        }),
    };
    match loaded {
        Ok((skill, said)) => {
            warnings.extend(said.into_iter().filter(|warning| !warning.is_note()));
            NestedSkill::of(&skill)
        }
        Err(skipped) => {
            warnings.push(skipped);
            None
        }
    }
}

/// What to say when skills are new, have changed or are gone.
pub(super) fn describe_skills(new: &[&NestedSkill], gone: &[&str]) -> String {
    let mut parts = Vec::new();
    if !new.is_empty() {
        let lines: Vec<_> = new.iter().map(|skill| skill.line.as_str()).collect();
        parts.push(format!(
            "Skills of directories that are worked in now. When one fits the task, read its file \
             with the `read` tool before you start (the `skill` tool does not know it), and \
             follow it. A command in it that is marked by `!` has not run.\n\n{}",
            lines.join("\n")
        ));
    }
    if !gone.is_empty() {
        parts.push(format!("Skills that are gone: {}.", gone.join(", ")));
    }
    parts.join("\n\n")
}
