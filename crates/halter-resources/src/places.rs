//! Where resources are looked for.

use halter_protocol::ResourceOrigin;
use std::path::{Path, PathBuf};

/// A directory that is searched for one kind of resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRoot {
    /// The directory.
    pub path: PathBuf,
    /// Who named it.
    pub origin: ResourceOrigin,
}

impl ResourceRoot {
    /// A root that the configuration, a variable or a flag names.
    pub fn named(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            origin: ResourceOrigin::Named,
        }
    }
}

/// The directories of each kind, in the order in which names are given out: the
/// first of a name wins, and those of a project come after all others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourcePlaces {
    /// Searched for skills.
    pub skills: Vec<ResourceRoot>,
    /// Searched for agents.
    pub agents: Vec<ResourceRoot>,
    /// Searched for commands.
    pub commands: Vec<ResourceRoot>,
    /// Searched for output styles.
    pub output_styles: Vec<ResourceRoot>,
    /// Searched for plugins.
    pub plugins: Vec<ResourceRoot>,
}

/// Where a user and a project keep resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsualPlaces {
    /// The directory that is worked in, and those above it up to the top of the
    /// project, innermost first.
    pub project: Vec<PathBuf>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The directory of the user's configuration of Halter.
    pub config_dir: Option<PathBuf>,
}

/// Folders of a project or a home directory that hold folders of resources.
const OWN_FOLDERS: [&str; 2] = [".halter", ".claude"];

/// The folder that several harnesses share.
const SHARED_FOLDER: &str = ".agents";

/// Where it holds skills.
const SHARED_SKILLS: &str = ".agents/skills";

/// Where a directory of a project keeps skills.
pub const SKILL_FOLDERS: [&str; 3] = [".halter/skills", ".claude/skills", SHARED_SKILLS];

/// The top of the checkout that a directory lies in, or the directory itself.
pub fn project_top(directory: &Path) -> &Path {
    directory
        .ancestors()
        .find(|directory| directory.join(".git").exists())
        .unwrap_or(directory)
}

/// The directory of the project that something in one of a project's own folders
/// belongs to, such as `.claude/agents/reviewer.md`.
pub fn project_holding(path: &Path) -> &Path {
    let own = |folder: &&Path| {
        let name = folder.file_name().unwrap_or_default();
        name == SHARED_FOLDER || OWN_FOLDERS.iter().any(|own| name == *own)
    };
    let folder = path.ancestors().skip(1).find(own);
    let directory = path.parent().unwrap_or(path);
    folder
        .and_then(Path::parent)
        .unwrap_or_else(|| project_top(directory))
}

impl UsualPlaces {
    /// The places of a working directory: those up to the top of the checkout
    /// it lies in, or itself.
    pub fn of(working_dir: &Path, home: Option<&Path>, config_dir: Option<&Path>) -> Self {
        let top = project_top(working_dir);
        let inside = |directory: &&Path| directory.starts_with(top);
        let project = working_dir.ancestors().take_while(inside);
        // Either may be spelled by a link.
        let place = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let own = home.map(place);
        Self {
            project: project
                // What lies in the home directory is the user's own.
                .filter(|directory| Some(place(directory)) != own)
                .map(Path::to_owned)
                .collect(),
            home: home.map(Path::to_owned),
            config_dir: config_dir.map(Path::to_owned),
        }
    }

    /// The folders that are there: those of the project, then the user's.
    pub fn find(&self) -> ResourcePlaces {
        let mut places = ResourcePlaces::default();
        for directory in &self.project {
            for folder in OWN_FOLDERS {
                places.add(&directory.join(folder), &ResourceOrigin::Project);
            }
            let shared = directory.join(SHARED_SKILLS);
            add(&mut places.skills, shared, &ResourceOrigin::Project);
            let plugins = directory.join(".halter/plugins");
            add(&mut places.plugins, plugins, &ResourceOrigin::Project);
        }
        if let Some(directory) = &self.config_dir {
            places.add(directory, &ResourceOrigin::User);
        }
        if let Some(home) = &self.home {
            places.add(&home.join(".claude"), &ResourceOrigin::User);
            let shared = home.join(SHARED_SKILLS);
            add(&mut places.skills, shared, &ResourceOrigin::User);
        }
        places
    }
}

impl ResourcePlaces {
    /// These places, then others.
    #[must_use]
    pub fn then(mut self, others: Self) -> Self {
        self.skills.extend(others.skills);
        self.agents.extend(others.agents);
        self.commands.extend(others.commands);
        self.output_styles.extend(others.output_styles);
        self.plugins.extend(others.plugins);
        self
    }

    /// Adds the folders of a directory that are there.
    fn add(&mut self, directory: &Path, origin: &ResourceOrigin) {
        add(&mut self.skills, directory.join("skills"), origin);
        add(&mut self.agents, directory.join("agents"), origin);
        add(&mut self.commands, directory.join("commands"), origin);
        add(
            &mut self.output_styles,
            directory.join("output-styles"),
            origin,
        );
    }
}

fn add(roots: &mut Vec<ResourceRoot>, path: PathBuf, origin: &ResourceOrigin) {
    if path.is_dir() {
        let origin = origin.clone();
        roots.push(ResourceRoot { path, origin });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_that_is_a_link_is_no_project() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().join("real");
        std::fs::create_dir_all(real.join(".claude/skills")).unwrap();
        let real = real.canonicalize().unwrap();
        let link = directory.path().join("home");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        for (working_dir, home) in [(&real, &link), (&link, &real), (&real, &real)] {
            let places = UsualPlaces::of(working_dir, Some(home), None);
            assert_eq!(places.project, Vec::<PathBuf>::new());
            let skills = places.find().skills;
            let origins: Vec<_> = skills.iter().map(|root| &root.origin).collect();
            assert_eq!(origins, [&ResourceOrigin::User]);
        }
    }
}
