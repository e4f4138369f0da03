//! Paths as bytes for `serde`: a path need not be UTF-8, and serde's own
//! implementation refuses one that is not.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

fn to_path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

/// For a [`PathBuf`]: `#[serde(with = "path")]`.
pub mod path {
    use super::*;

    /// Writes the bytes of a path.
    ///
    /// # Errors
    /// What the serializer says.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(serializer)
    }

    /// Reads the bytes of a path.
    ///
    /// # Errors
    /// What the deserializer says.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Vec::deserialize(deserializer).map(to_path)
    }
}

/// For an `Option<PathBuf>`.
pub mod optional_path {
    use super::*;

    /// Writes the bytes of a path, if there is one.
    ///
    /// # Errors
    /// What the serializer says.
    pub fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes = path.as_ref().map(|path| path.as_os_str().as_bytes());
        bytes.serialize(serializer)
    }

    /// Reads the bytes of a path, if there is one.
    ///
    /// # Errors
    /// What the deserializer says.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::deserialize(deserializer)?.map(to_path))
    }
}

/// For a `Vec<PathBuf>`.
pub mod paths {
    use super::*;

    /// Writes the bytes of each path.
    ///
    /// # Errors
    /// What the serializer says.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| path.as_os_str().as_bytes()))
    }

    /// Reads the bytes of each path.
    ///
    /// # Errors
    /// What the deserializer says.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let all: Vec<Vec<u8>> = Vec::deserialize(deserializer)?;
        Ok(all.into_iter().map(to_path).collect())
    }
}

/// For an `Option<Vec<PathBuf>>`.
pub mod optional_paths {
    use super::*;

    /// Writes the bytes of each path, if there is a list.
    ///
    /// # Errors
    /// What the serializer says.
    pub fn serialize<S: Serializer>(
        paths: &Option<Vec<PathBuf>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
        let all = paths.as_ref().map(|paths| paths.iter().map(bytes));
        all.map(Iterator::collect::<Vec<_>>).serialize(serializer)
    }

    /// Reads the bytes of each path, if there is a list.
    ///
    /// # Errors
    /// What the deserializer says.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<PathBuf>>, D::Error> {
        let all: Option<Vec<Vec<u8>>> = Option::deserialize(deserializer)?;
        Ok(all.map(|all| all.into_iter().map(to_path).collect()))
    }
}
