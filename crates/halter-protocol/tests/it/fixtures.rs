//! The golden streams, read from their directory.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// One golden stream.
pub struct Stream {
    pub name: String,
    pub path: PathBuf,
    pub lines: Vec<String>,
}

impl Stream {
    /// The state it folds to, where that is checked in.
    pub fn state_file(&self) -> PathBuf {
        self.path.with_extension("state.json")
    }
}

/// Every golden stream of every schema version.
pub fn streams() -> Vec<Stream> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let versions = std::fs::read_dir(fixtures).unwrap();
    let mut streams: Vec<Stream> = versions
        .map(|version| version.unwrap().path())
        .filter(|version| version.is_dir())
        .flat_map(|version| std::fs::read_dir(version).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .map(|path| Stream {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            lines: lines(&path),
            path,
        })
        .collect();
    streams.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(streams.len() >= 12, "golden streams are never deleted");
    streams
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'), "{} is whole", path.display());
    text.lines().map(str::to_owned).collect()
}

/// The checked-in schema.
pub fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/event.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
