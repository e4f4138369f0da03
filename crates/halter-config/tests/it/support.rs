//! A temporary home with a user file, a project and a state directory.

use std::fs;
use std::path::{Path, PathBuf};

use halter_config::{
    ConfigError, Environment, LayeredConfigPaths, LoadedConfig, ProjectFile, TrustStore,
    find_project_config, load_layered,
};
use tempfile::TempDir;

/// A file that loads and selects the offline model.
pub const OFFLINE: &str =
    "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n";

pub struct World {
    pub root: TempDir,
    pub variables: Vec<(String, String)>,
}

impl World {
    pub fn new() -> Self {
        let root = TempDir::new().unwrap();
        fs::create_dir_all(root.path().join("project/.git")).unwrap();
        fs::create_dir_all(root.path().join("home/.config/halter")).unwrap();
        Self {
            root,
            variables: Vec::new(),
        }
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    pub fn write(&self, relative: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub fn user(self, text: &str) -> Self {
        self.write("home/.config/halter/halter.toml", text);
        self
    }

    pub fn project(self, text: &str) -> Self {
        self.write("project/halter.toml", text);
        self
    }

    pub fn explicit(self, text: &str) -> Self {
        self.write("explicit/halter.toml", text);
        self
    }

    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn environment(&self) -> Environment {
        let home = self.path("home").to_str().unwrap().to_owned();
        Environment::from_iter(
            self.variables
                .iter()
                .cloned()
                .chain([("HOME".to_owned(), home)]),
        )
        .with_current_dir(self.path("current"))
    }

    pub fn paths(&self) -> LayeredConfigPaths {
        let explicit = self.path("explicit/halter.toml");
        LayeredConfigPaths {
            user_config: self.environment().user_config_path(),
            project_config: find_project_config(&self.path("project")),
            explicit_config: explicit.exists().then_some(explicit),
        }
    }

    pub fn trust_store(&self) -> TrustStore {
        TrustStore::open(self.path("home/.local/state/halter"))
    }

    pub async fn trust_project(&self) {
        let file = ProjectFile::read(self.path("project/halter.toml"))
            .await
            .unwrap();
        self.trust_store().trust(&file).unwrap();
    }

    pub async fn load(&self) -> Result<LoadedConfig, ConfigError> {
        load_layered(self.paths(), &self.environment(), &self.trust_store()).await
    }

    pub async fn loaded(&self) -> LoadedConfig {
        self.load().await.unwrap()
    }
}

/// Loads one text as the named file, in an environment with only a home.
pub async fn load_text(text: impl AsRef<[u8]>) -> Result<LoadedConfig, ConfigError> {
    let world = World::new();
    world.write("explicit/halter.toml", text);
    world.load().await
}

pub async fn error_of(text: impl AsRef<[u8]>) -> ConfigError {
    load_text(text).await.unwrap_err()
}

/// The line and column of an error.
pub fn place(error: &ConfigError) -> (usize, usize) {
    let location = error.location().expect("the error has a place");
    assert!(location.file.ends_with("explicit/halter.toml"));
    (location.line, location.column)
}

pub fn strings(paths: &[PathBuf]) -> Vec<&str> {
    paths.iter().map(|path| path.to_str().unwrap()).collect()
}

pub fn below(root: &Path, relative: &str) -> PathBuf {
    root.join(relative)
}
