//! Directories of files, written and removed by the test.

use halter_resources::{CompiledResources, ResourceCompiler, ResourceWarning};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub struct Root {
    dir: TempDir,
}

impl Root {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub fn with(files: &[(&str, &str)]) -> Self {
        let root = Self::new();
        for (path, text) in files {
            root.write(path, text);
        }
        root
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub fn link(&self, name: &str, target: impl AsRef<Path>) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, &path).unwrap();
        path
    }

    /// Canonical, as it appears in results.
    pub fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }
}

pub fn skill(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n# {name}\n")
}

pub async fn skills_of(roots: &[&Root]) -> CompiledResources {
    ResourceCompiler::new()
        .with_skill_roots(roots.iter().map(|root| root.path()).collect())
        .compile()
        .await
        .unwrap()
}

pub async fn plugins_of(root: &Root) -> CompiledResources {
    ResourceCompiler::new()
        .with_plugin_roots(vec![root.path()])
        .compile()
        .await
        .unwrap()
}

pub fn names(compiled: &CompiledResources) -> Vec<&str> {
    let skills = compiled.snapshot.skills.keys();
    skills.map(|name| name.as_str()).collect()
}

pub fn codes(compiled: &CompiledResources) -> Vec<&str> {
    compiled
        .warnings
        .iter()
        .map(ResourceWarning::code)
        .collect()
}
