//! The instruction files of a session: those it starts with are part of its
//! system prompt; what changes later, and what lies in directories that its
//! tools reach, is told in messages, with the skills that lie there. The prompt
//! itself never changes.

mod door;
mod skills;

use crate::engine::SystemNote;
use crate::prompt::describe_instructions;
use crate::services::RuntimeServices;
use door::SessionDoor;
use halter_protocol::encoding::unescape_path;
use halter_protocol::{InstructionFile, SessionBlueprint, SessionBounds, SessionState};
use halter_resources::instructions::{
    FoundInstructions, INSTRUCTION_NAMES, InstructionPlaces, LoadedInstructions, directory_of,
    is_instruction_file, load_instructions,
};
use halter_resources::limits::MAX_WARNINGS;
use indexmap::IndexMap;
use skills::{NestedSkill, describe_skills, directory_of_skill, has_skills, load_skills};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use skills::skill_file;

/// Directories of other people's texts, which instruct nobody.
const NOT_INSTRUCTING: [&str; 2] = [".git", "node_modules"];

/// Which instruction files sessions have, besides those of their directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstructionSettings {
    /// Files of the user, which hold in every project.
    pub user_files: Vec<PathBuf>,
    /// Whether skills of directories below a session's join when files there
    /// are used.
    pub nested_skills: bool,
}

/// Where a session works, as far as instructions depend on it.
#[derive(Debug, Clone)]
pub(crate) struct InstructionScope {
    pub working_dir: PathBuf,
    /// The top of the checkout that the directory lies in, or the directory.
    pub project: PathBuf,
    pub bounds: SessionBounds,
}

/// What a model was told: the hash of each file that is in force, by its
/// escaped path, and of each nested skill by its key.
pub(crate) type Told = IndexMap<String, String>;

/// Finds the instruction files of a session. All of it blocks.
pub(crate) struct SessionInstructions {
    settings: InstructionSettings,
    home: Option<PathBuf>,
    scope: InstructionScope,
    door: SessionDoor,
    progress: Mutex<InstructionProgress>,
}

#[derive(Default)]
struct InstructionProgress {
    /// What the model was told, or will be with what this turn has found.
    told: Told,
    /// Directories that were looked at in this turn.
    looked: HashSet<PathBuf>,
    /// Warnings that were said.
    said: HashSet<String>,
}

/// What has changed.
#[derive(Debug, Default)]
pub(crate) struct InstructionUpdate {
    pub note: Option<SystemNote>,
    /// What the user should know and was not told.
    pub warnings: Vec<String>,
}

impl SessionInstructions {
    /// None if sessions have no instruction files.
    pub fn of(services: &Arc<RuntimeServices>, blueprint: &SessionBlueprint) -> Option<Self> {
        let git = blueprint.environment.git.as_ref();
        let project = git.map_or(&blueprint.working_dir, |git| &git.root);
        let scope = InstructionScope {
            working_dir: blueprint.working_dir.clone(),
            project: project.clone(),
            bounds: blueprint.bounds.clone(),
        };
        Self::new(services, scope)
    }

    /// The same for a session that is not there yet.
    pub fn new(services: &Arc<RuntimeServices>, scope: InstructionScope) -> Option<Self> {
        Some(Self {
            settings: services.instructions.clone()?,
            home: services.policy.permissions.home.clone(),
            door: SessionDoor::new(services, &scope),
            scope,
            progress: Mutex::default(),
        })
    }

    /// The files a session starts with.
    pub fn initial(&self) -> FoundInstructions {
        self.load(self.usual_directories())
    }

    /// Looks at everything again before a turn.
    pub fn begin_turn(&self, told: Told) -> InstructionUpdate {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.told = told;
        progress.looked.clear();
        self.update(&mut progress, Vec::new())
    }

    /// Looks at the directories on the way to paths that a tool has used.
    pub fn reached(&self, paths: &[PathBuf]) -> InstructionUpdate {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = Vec::new();
        for directory in paths.iter().flat_map(|path| self.directories_to(path)) {
            if progress.looked.insert(directory.clone()) {
                new.push(directory);
            }
        }
        // Elsewhere, opening them is looking.
        new.retain(|directory| {
            let skills = self.may_have_skills(directory) && has_skills(directory);
            self.door.is_elsewhere() || skills || has_instructions(directory)
        });
        if new.is_empty() {
            return InstructionUpdate::default();
        }
        self.update(&mut progress, new)
    }

    fn update(
        &self,
        progress: &mut InstructionProgress,
        further: Vec<PathBuf>,
    ) -> InstructionUpdate {
        let mut directories = self.usual_directories();
        let known = progress.told.keys().filter_map(|path| self.nested(path));
        for directory in known.chain(further) {
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        progress.looked.extend(directories.iter().cloned());
        let mut below = directories.clone();
        below.retain(|directory| self.may_have_skills(directory));
        let mut found = self.load(directories);
        let skills = load_skills(&below, &self.door, &mut found.warnings);
        // Rather say something twice than remember without end.
        if progress.said.len() > MAX_WARNINGS {
            progress.said.clear();
        }
        let warnings = found.warnings.iter().map(ToString::to_string);
        let warnings = warnings.filter(|text| progress.said.insert(text.clone()));
        InstructionUpdate {
            warnings: warnings.collect(),
            note: note(&mut progress.told, &found.files, &skills),
        }
    }

    /// True for directories below the session's: the skills of those above it
    /// are resources of the harness.
    fn may_have_skills(&self, directory: &Path) -> bool {
        let below = directory.strip_prefix(&self.scope.working_dir);
        let is_below = below.is_ok_and(|below| below.components().next().is_some());
        self.settings.nested_skills && is_below
    }

    fn load(&self, directories: Vec<PathBuf>) -> FoundInstructions {
        let places = InstructionPlaces {
            user_files: self.settings.user_files.clone(),
            directories,
            home: self.home.clone(),
        };
        load_instructions(&places, &self.door)
    }

    /// From the top of the project down to the session's directory.
    fn usual_directories(&self) -> Vec<PathBuf> {
        let InstructionScope {
            working_dir,
            project,
            ..
        } = &self.scope;
        let inside = |it: &&Path| it.starts_with(project);
        let ancestors = working_dir.ancestors().take_while(inside);
        let mut directories: Vec<_> = ancestors.map(Path::to_owned).collect();
        directories.reverse();
        directories
    }

    /// The directory of a file the model was told of, if it lies in the project.
    fn nested(&self, escaped: &str) -> Option<PathBuf> {
        if skill_file(escaped).is_some() {
            let directory = directory_of_skill(escaped);
            return directory.filter(|it| it.starts_with(&self.scope.project));
        }
        let path = unescape_path(escaped).ok()?;
        let directory = directory_of(&path).filter(|it| it.starts_with(&self.scope.project));
        directory
            .filter(|_| is_instruction_file(&path))
            .map(Path::to_owned)
    }

    /// The directories of the project on the way to a path, the outermost
    /// first.
    fn directories_to(&self, path: &Path) -> Vec<PathBuf> {
        let project = &self.scope.project;
        let path = self.scope.working_dir.join(path);
        let plain = |it: &Path| !it.components().any(|part| part == Component::ParentDir);
        let path = match self.door.is_elsewhere() {
            true if plain(&path) => path,
            true => return Vec::new(),
            false => match std::fs::canonicalize(path) {
                Ok(path) => path,
                Err(_) => return Vec::new(),
            },
        };
        let inside = |it: &&Path| it.starts_with(project);
        let mut directories: Vec<PathBuf> = path
            .ancestors()
            .skip(usize::from(self.door.is_elsewhere() || !path.is_dir()))
            .take_while(inside)
            .filter(|it| !is_foreign(it.strip_prefix(project).unwrap_or(it)))
            .map(Path::to_owned)
            .collect();
        directories.reverse();
        directories
    }
}

fn is_foreign(below_project: &Path) -> bool {
    let foreign = |name: &OsStr| NOT_INSTRUCTING.iter().any(|it| name == *it);
    below_project.iter().any(foreign)
}

/// Whether there is anything to load, before a door is opened for it.
fn has_instructions(directory: &Path) -> bool {
    let mut names = INSTRUCTION_NAMES.iter();
    names.any(|name| std::fs::symlink_metadata(directory.join(name)).is_ok())
}

/// What a session's model was told: at the start, and since.
pub(crate) fn told(blueprint: &SessionBlueprint, state: &SessionState) -> Told {
    let mut told = Told::new();
    let start = blueprint.instructions.iter();
    let start = start.map(|file| (&file.path, &file.sha256));
    let since = state.instructions.iter();
    let since = since.map(|(path, told)| (path, &told.sha256));
    // What is neither stands for other texts that hold, such as skills in use.
    let is_file = |path: &str| path.starts_with('/') || skill_file(path).is_some();
    let files = start.chain(since).filter(|(path, _)| is_file(path));
    for (path, sha256) in files {
        match sha256 {
            Some(sha256) => told.insert(path.clone(), sha256.clone()),
            None => told.shift_remove(path),
        };
    }
    told
}

/// What to tell of the files that are there now; from then on it is told.
fn note(told: &mut Told, now: &[LoadedInstructions], skills: &[NestedSkill]) -> Option<SystemNote> {
    let mut files: Vec<InstructionFile> = Vec::new();
    let mut current = Told::new();
    let mut is_new = |file: InstructionFile| {
        let sha256 = file.sha256.clone().unwrap_or_default();
        let is_new = told.get(&file.path) != Some(&sha256);
        current.insert(file.path.clone(), sha256);
        files.extend(is_new.then_some(file));
        is_new
    };
    let new: Vec<_> = now.iter().filter(|it| is_new(it.as_told())).collect();
    let new_skills: Vec<_> = skills.iter().filter(|it| is_new(it.as_told())).collect();
    let before = std::mem::replace(told, current);
    let gone = before.into_keys().filter(|path| !told.contains_key(path));
    let (gone_skills, gone): (Vec<_>, Vec<_>) = gone.partition(|it| skill_file(it).is_some());
    files.extend(gone.iter().chain(&gone_skills).map(|path| InstructionFile {
        path: path.clone(),
        sha256: None,
    }));
    let gone_skills: Vec<_> = gone_skills.iter().filter_map(|it| skill_file(it)).collect();
    let mut texts = vec![
        describe_instructions(&new, &gone),
        describe_skills(&new_skills, &gone_skills),
    ];
    texts.retain(|text| !text.is_empty());
    (!files.is_empty()).then(|| SystemNote {
        tools: Vec::new(),
        text: texts.join("\n\n"),
        instructions: files,
    })
}
