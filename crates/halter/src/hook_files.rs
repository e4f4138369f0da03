//! Where hook files are found, and which of them count.
//!
//! | file | counts |
//! |---|---|
//! | `hooks.json` beside the user's configuration, `~/.claude/settings.json`, and what the user's `hooks.files` names | always |
//! | `.halter/hooks.json`, `.claude/settings.json` and `.claude/settings.local.json` of the project, and what the project's `hooks.files` names | once the user trusts their content |
//! | those of plugins | with their plugin |

use anyhow::Context as _;
use halter_config::{
    ConfigError, Environment, HarnessConfig, LoadedConfig, Origin, ProjectFile, TrustStore,
    find_project_file,
};
use halter_hooks::file::{HookOrigin, ParsedHooks, parse_text, parse_value};
use halter_hooks::{HookWarning, Hooks};
use halter_protocol::ContentHash;
use halter_protocol::encoding::escape_path;
use halter_resources::{TrustedContent, hooks_in, project_holding, project_top};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The user's hooks, beside their configuration.
const USER_FILE: &str = "hooks.json";

/// The user's settings for harnesses of the public format, in their home.
const PUBLIC_USER_FILE: &str = ".claude/settings.json";

/// Files of a project that may hold hooks.
pub const PROJECT_HOOK_FILES: [&str; 3] = [
    ".halter/hooks.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
];

/// Folders in which a project keeps such files.
const PROJECT_FOLDERS: [&str; 2] = [".halter", ".claude"];

/// Where a project keeps what its hooks run, beside the file that names it.
const SCRIPTS: &str = "hooks";

/// The hook files that count in a directory.
///
/// ```no_run
/// # async fn example(loaded: halter_config::LoadedConfig) -> anyhow::Result<()> {
/// use halter::{Halter, HookFiles};
/// use halter_config::{Environment, TrustStore};
///
/// let environment = Environment::capture();
/// let trust = TrustStore::of(&environment);
/// let files = HookFiles::find(&loaded, &environment, ".".as_ref(), &trust).await;
/// let harness = Halter::builder().with_config(loaded.config).with_hook_files(files);
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
#[must_use = "hooks run once a harness has them"]
pub struct HookFiles {
    /// What the files hold.
    pub parsed: Vec<ParsedHooks>,
    /// Files that do not count, and why.
    pub warnings: Vec<HookWarning>,
    /// Files of the project that count once they are trusted.
    pub untrusted: Vec<PathBuf>,
    /// Names what counts, by its content.
    pub revision: String,
    /// All files that were read, the user's even if they are not there yet (what
    /// a tool wrote there would be the user's word), and where a trusted project
    /// keeps what its hooks run: tools are kept away from them.
    pub read: Vec<PathBuf>,
    /// Which of what they hold counts by the place of its file alone.
    by_place: Vec<(usize, PathBuf)>,
}

impl HookFiles {
    /// The user's files and those of the project around a directory. A file
    /// that cannot be read is a warning.
    pub async fn find(
        loaded: &LoadedConfig,
        environment: &Environment,
        directory: &Path,
        trust: &TrustStore,
    ) -> Self {
        let mut found = Self::default();
        let config = &loaded.config;
        let usual = environment.user_config_path();
        let usual = usual.map(|file| file.with_file_name(USER_FILE));
        let home = environment.home();
        let public = home.map(|home| home.join(PUBLIC_USER_FILE));
        for path in usual.into_iter().chain(public) {
            match path.symlink_metadata().is_ok() {
                true => found.user(&path, config).await,
                false => found.read.push(path),
            }
        }
        for (index, file) in config.hooks.files.iter().enumerate() {
            match loaded.origin(&format!("hooks.files[{index}]")) {
                Origin::Project(_) => found.project(file, trust, config).await,
                _ => found.user(file, config).await,
            }
        }
        let home = home.and_then(|home| std::fs::canonicalize(home).ok());
        for name in PROJECT_HOOK_FILES {
            let Some(path) = find_project_file(directory, name) else {
                found.read.extend(home.iter().map(|home| home.join(name)));
                continue;
            };
            // What lies in the home directory is the user's own.
            match Some(project_of(&path)) == home {
                true => found.user(&path, config).await,
                false => found.project(&path, trust, config).await,
            }
        }
        found
    }

    /// The files that a configuration names, and no others. Whoever gives the
    /// configuration answers for them.
    pub async fn of_config(config: &HarnessConfig) -> Self {
        let mut found = Self::default();
        for file in &config.hooks.files {
            found.user(file, config).await;
        }
        found
    }

    fn knows(&self, path: &Path) -> bool {
        let same = |one: &PathBuf| {
            let ends = (std::fs::canonicalize(one), std::fs::canonicalize(path));
            one == path || matches!(ends, (Ok(one), Ok(other)) if one == other)
        };
        self.read.iter().chain(&self.untrusted).any(same)
    }

    async fn user(&mut self, path: &Path, config: &HarnessConfig) {
        if self.knows(path) {
            return;
        }
        let origin = HookOrigin::user(escape_path(path));
        match ProjectFile::read(path).await {
            Ok(file) => {
                let counted = (self.parsed.len(), file.path().to_owned());
                self.by_place.push(counted);
                self.parse(&file, origin, config);
            }
            Err(error) => {
                self.read.push(path.to_owned());
                self.refuse(path, error.to_string());
            }
        }
    }

    async fn project(&mut self, path: &Path, trust: &TrustStore, config: &HarnessConfig) {
        if self.knows(path) {
            return;
        }
        let file = match ProjectFile::read(path).await {
            Ok(file) => file,
            Err(error) => return self.refuse(path, error.to_string()),
        };
        let origin = HookOrigin::project(escape_path(path), project_of(path));
        let holds = parse_file(&file, &origin);
        if holds.hooks.is_empty() && holds.warnings.is_empty() && !holds.switches_off {
            return;
        }
        match hooks_are_trusted(&file, trust) {
            Ok(true) => {
                self.read.extend(named_scripts(&file));
                // Trust is about the file: what it runs must not be the
                // agent's to change.
                if is_in_project_folder(path) {
                    self.read.push(path.with_file_name(SCRIPTS));
                }
                self.parse(&file, origin, config);
            }
            Ok(false) => {
                let shown = escape_path(path);
                self.untrusted.push(path.to_owned());
                let reason = match holds.switches_off {
                    // Else a tool could write it, and be rid of the project's guards.
                    true => format!(
                        "its `disableAllHooks` counts once the file is trusted; read it, then run \
                         `halter trust {shown}`"
                    ),
                    false => format!(
                        "the project's hooks are not trusted, and they would run commands as \
                         you; read the file and what its commands name, then run `halter trust {shown}`"
                    ),
                };
                self.refuse(path, reason);
            }
            Err(error) => self.refuse(path, error.to_string()),
        }
    }

    fn parse(&mut self, file: &ProjectFile, mut origin: HookOrigin, config: &HarnessConfig) {
        if let Some(hosts) = &config.hooks.allowed_http_hosts {
            origin = origin.with_allowed_http_hosts(hosts.clone());
        }
        let mut revision = ContentHash::default();
        let path = file.path().as_os_str().as_encoded_bytes();
        for part in [self.revision.as_bytes(), path, file.content()] {
            revision.update(&(part.len() as u64).to_le_bytes());
            revision.update(part);
        }
        self.revision = revision.hex();
        self.parsed.push(parse_file(file, &origin));
        self.read.push(file.path().to_owned());
    }

    /// Leaves out files that count by their place and came to a running program
    /// where its tools might have written them.
    pub(crate) fn leave_out(&mut self, is_new: impl Fn(&Path) -> bool) {
        let by_place = std::mem::take(&mut self.by_place);
        let late = by_place.into_iter().rev().filter(|(_, path)| is_new(path));
        // From the last, so that the places of the others stay.
        for (index, path) in late {
            drop(self.parsed.remove(index));
            self.read.retain(|read| *read != path);
            let reason = "it came to a running program, whose tools could have written it; \
                          look at it and start again";
            self.refuse(&path, reason.to_owned());
        }
    }

    /// What the files hold as hooks, and all that is amiss with them.
    pub(crate) fn hooks(self) -> (Hooks, Vec<HookWarning>) {
        let mut hooks = Hooks::new();
        let mut warnings = self.warnings;
        for parsed in self.parsed {
            warnings.extend(hooks.add_file(parsed));
        }
        (hooks, warnings)
    }

    fn refuse(&mut self, path: &Path, reason: String) {
        self.warnings.push(HookWarning::FileRefused {
            place: escape_path(path),
            reason,
        });
    }
}

/// Whether the user trusts the hooks of a project's file: its text, and the
/// files of the project that its commands name.
///
/// # Errors
/// If the record of what is trusted cannot be read.
pub fn hooks_are_trusted(file: &ProjectFile, trust: &TrustStore) -> Result<bool, ConfigError> {
    if !trust.is_trusted(file)? {
        return Ok(false);
    }
    for script in named_scripts(file) {
        // One that cannot be looked at cannot have been.
        let trusted = match TrustedContent::of(&script) {
            Ok(content) => trust.is_content_trusted(&content.path, &content.digest)?,
            Err(_) => false,
        };
        if !trusted {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Records that the user trusts the hooks of a project's file, as
/// [`hooks_are_trusted`] asks.
///
/// # Errors
/// If the record cannot be written, or a file that a command names cannot be
/// read.
pub fn trust_hooks(file: &ProjectFile, trust: &TrustStore) -> anyhow::Result<()> {
    for script in named_scripts(file) {
        let content = TrustedContent::of(&script)
            .with_context(|| format!("could not look at {}", escape_path(&script)))?;
        trust.trust_content(&content.path, &content.digest)?;
    }
    Ok(trust.trust(file)?)
}

/// The directory of the project that a hook file belongs to, in which its
/// commands run.
pub fn project_of(file: &Path) -> PathBuf {
    // The file may be a link to elsewhere: it counts where it was found.
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().unwrap_or(Path::new("/"));
    let top = match is_in_project_folder(&file) {
        true => folder.parent().unwrap_or(folder),
        false => project_top(folder),
    };
    std::fs::canonicalize(top).unwrap_or_else(|_| top.to_owned())
}

fn is_in_project_folder(file: &Path) -> bool {
    let folder = file.parent().and_then(Path::file_name);
    PROJECT_FOLDERS.iter().any(|it| folder == Some(it.as_ref()))
}

/// The files of the project that commands of its hooks name by a path from the
/// project's directory.
pub fn named_scripts(file: &ProjectFile) -> Vec<PathBuf> {
    let root = project_of(file.path());
    let mut hooks = Hooks::new();
    let origin = HookOrigin::project(escape_path(file.path()), &root);
    let parsed = parse_file(file, &origin);
    // What is wrong with the file is told by who uses it.
    let _ = hooks.add_file(parsed);
    let named = hooks.named_files(&root, &root).into_iter();
    named.filter(|path| path.starts_with(&root)).collect()
}

/// The files of the project that hooks in a folder or file of resources name
/// besides those of that folder: a user who trusts it trusts them, too.
pub fn files_named_in(content: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for hooks in hooks_in(content) {
        files.extend(files_named_besides(&hooks, content));
    }
    files.sort_unstable();
    files.dedup();
    files
}

pub(crate) fn files_named_besides(hooks: &Value, content: &Path) -> Vec<PathBuf> {
    let content = std::fs::canonicalize(content).unwrap_or_else(|_| content.to_owned());
    let project = project_holding(&content);
    let folder = match content.is_dir() {
        true => content.as_path(),
        false => content.parent().unwrap_or(project),
    };
    let origin = HookOrigin::plugin("project".into(), folder, escape_path(&content));
    let origin = origin.with_skill_dir(folder).in_project(project);
    let mut read = Hooks::new();
    // What is wrong with them is told by who uses them.
    let _ = read.add_file(parse_value(hooks, &origin));
    let named = read.named_files(project, project).into_iter();
    let named = named.filter(|path| path.starts_with(project) && !path.starts_with(&content));
    named.collect()
}

fn parse_file(file: &ProjectFile, origin: &HookOrigin) -> ParsedHooks {
    parse_text(&String::from_utf8_lossy(file.content()), origin)
}
