//! Where hook files are found, and which of them count.
//!
//! | file | counts |
//! |---|---|
//! | `hooks.json` beside the user's configuration, and what `hooks.files` names | always |
//! | `.halter/hooks.json` and `.claude/settings.json` of the project | once the user trusts their content |
//! | those of plugins | with their plugin |

use anyhow::Context as _;
use halter_config::{
    ConfigError, Environment, HarnessConfig, ProjectFile, TrustStore, find_project_file,
};
use halter_hooks::file::{HookOrigin, ParsedHooks, parse_text};
use halter_hooks::{HookWarning, Hooks};
use halter_protocol::HookHandlerType;
use halter_protocol::encoding::escape_path;
use halter_resources::TrustedContent;
use std::path::{Path, PathBuf};

/// The user's hooks, beside their configuration.
const USER_FILE: &str = "hooks.json";

/// Files of a project that may hold hooks.
const PROJECT_FILES: [&str; 2] = [".halter/hooks.json", ".claude/settings.json"];

/// Where a project keeps what its hooks run, beside the file that names it.
const SCRIPTS: &str = "hooks";

/// The hook files that count in a directory.
///
/// ```no_run
/// # async fn example(config: halter::prelude::HarnessConfig) -> anyhow::Result<()> {
/// use halter::{Halter, HookFiles};
/// use halter_config::{Environment, TrustStore};
///
/// let environment = Environment::capture();
/// let trust = TrustStore::of(&environment);
/// let files = HookFiles::find(&config, &environment, ".".as_ref(), &trust).await;
/// let harness = Halter::builder().with_config(config).with_hook_files(files);
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
    /// All files that were read, and where a trusted project keeps what its
    /// hooks run: tools are kept away from them.
    pub read: Vec<PathBuf>,
}

impl HookFiles {
    /// The user's files and those of the project around a directory. A file
    /// that cannot be read is a warning.
    pub async fn find(
        config: &HarnessConfig,
        environment: &Environment,
        directory: &Path,
        trust: &TrustStore,
    ) -> Self {
        let mut found = Self::default();
        let usual = environment.user_config_path();
        let usual = usual.map(|file| file.with_file_name(USER_FILE));
        if let Some(usual) = usual.filter(|it| it.symlink_metadata().is_ok()) {
            found.user(&usual, config).await;
        }
        found.named_by(config).await;
        for name in PROJECT_FILES {
            if let Some(path) = find_project_file(directory, name) {
                found.project(&path, trust, config).await;
            }
        }
        found
    }

    /// The files that a configuration names, and no others.
    pub async fn of_config(config: &HarnessConfig) -> Self {
        let mut found = Self::default();
        found.named_by(config).await;
        found
    }

    async fn named_by(&mut self, config: &HarnessConfig) {
        for file in &config.hooks.files {
            self.user(file, config).await;
        }
    }

    async fn user(&mut self, path: &Path, config: &HarnessConfig) {
        if self.read.iter().any(|it| it == path) {
            return;
        }
        let origin = HookOrigin::user(escape_path(path));
        match ProjectFile::read(path).await {
            Ok(file) => self.parse(&file, origin, config),
            Err(error) => self.refuse(path, error.to_string()),
        }
    }

    async fn project(&mut self, path: &Path, trust: &TrustStore, config: &HarnessConfig) {
        let file = match ProjectFile::read(path).await {
            Ok(file) => file,
            Err(error) => return self.refuse(path, error.to_string()),
        };
        let origin = HookOrigin::project(escape_path(path));
        let holds = parse_file(&file, &origin);
        if holds.hooks.is_empty() && holds.warnings.is_empty() {
            return;
        }
        match hooks_are_trusted(&file, trust) {
            Ok(true) => {
                self.read.extend(named_scripts(&file));
                // Trust is about the file: what it runs must not be the
                // agent's to change.
                self.read.push(path.with_file_name(SCRIPTS));
                self.parse(&file, origin, config);
            }
            Ok(false) => {
                let shown = escape_path(path);
                self.untrusted.push(path.to_owned());
                self.refuse(
                    path,
                    format!(
                        "the project's hooks are not trusted, and they would run commands as \
                         you; read the file and what its commands name, then run `halter trust {shown}`"
                    ),
                );
            }
            Err(error) => self.refuse(path, error.to_string()),
        }
    }

    fn parse(&mut self, file: &ProjectFile, mut origin: HookOrigin, config: &HarnessConfig) {
        if let Some(hosts) = &config.hooks.allowed_http_hosts {
            origin = origin.with_allowed_http_hosts(hosts.clone());
        }
        self.parsed.push(parse_file(file, &origin));
        self.read.push(file.path().to_owned());
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

/// The files of the project that commands of its hooks name by a path from the
/// project's directory.
pub fn named_scripts(file: &ProjectFile) -> Vec<PathBuf> {
    let Some(root) = file.path().parent().and_then(Path::parent) else {
        return Vec::new();
    };
    let Ok(root) = std::fs::canonicalize(root) else {
        return Vec::new();
    };
    let mut hooks = Hooks::new();
    let parsed = parse_file(file, &HookOrigin::project(escape_path(file.path())));
    // What is wrong with the file is told by who uses it.
    let _ = hooks.add_file(parsed);
    let commands = hooks.listings();
    let commands = commands.filter(|hook| hook.handler_type == HookHandlerType::Command);
    let mut scripts: Vec<PathBuf> = Vec::new();
    for line in commands.filter_map(|hook| hook.runs) {
        let line = line.replace(['"', '\''], "");
        let line = line.replace("${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR");
        let line = line.replace("$CLAUDE_PROJECT_DIR/", "");
        let is_end = |c: char| c.is_whitespace() || ";&|()<>`=".contains(c);
        for word in line.split(is_end).filter(|word| !word.is_empty()) {
            let Ok(path) = std::fs::canonicalize(root.join(word)) else {
                continue;
            };
            if path.is_file() && path.starts_with(&root) && !scripts.contains(&path) {
                scripts.push(path);
            }
        }
    }
    scripts
}

fn parse_file(file: &ProjectFile, origin: &HookOrigin) -> ParsedHooks {
    parse_text(&String::from_utf8_lossy(file.content()), origin)
}
