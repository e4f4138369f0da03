//! How bytes and paths are written in JSON.

/// Bytes as a base64 string. For use with `#[serde(with = "...")]`.
pub mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::sync::Arc;

    /// Writes the bytes as base64.
    pub fn serialize<S: Serializer>(bytes: &Arc<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    /// Reads a base64 string.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[u8]>, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        STANDARD
            .decode(text.as_bytes())
            .map(Arc::from)
            .map_err(serde::de::Error::custom)
    }
}

/// A path as a string that loses nothing: a byte that is not UTF-8 becomes
/// `\xNN` and a backslash becomes `\\`. For use with `#[serde(with = "...")]`.
pub mod escaped_path {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::path::{Path, PathBuf};

    /// Writes the path in its escaped form.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::escape_path(path))
    }

    /// Reads an escaped path.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        super::unescape_path(&text).map_err(serde::de::Error::custom)
    }

    /// The same for a path that may be absent.
    pub mod option {
        use serde::{Deserialize, Deserializer, Serialize, Serializer};
        use std::path::{Path, PathBuf};

        /// Writes the path in its escaped form.
        pub fn serialize<S: Serializer>(
            path: &Option<PathBuf>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            let escaped = path
                .as_deref()
                .map(|path: &Path| super::super::escape_path(path));
            escaped.serialize(serializer)
        }

        /// Reads an escaped path.
        pub fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<PathBuf>, D::Error> {
            let text = Option::<String>::deserialize(deserializer)?;
            text.map(|text| super::super::unescape_path(&text))
                .transpose()
                .map_err(serde::de::Error::custom)
        }
    }
}

/// Paths that may be absent, each as in [`escaped_path`]. For use with
/// `#[serde(default, with = "...")]`.
pub mod escaped_paths {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::path::PathBuf;

    /// Writes the paths in their escaped form.
    pub fn serialize<S: Serializer>(
        paths: &Option<Vec<PathBuf>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let escaped = |paths: &Vec<PathBuf>| -> Vec<String> {
            paths.iter().map(|path| super::escape_path(path)).collect()
        };
        paths.as_ref().map(escaped).serialize(serializer)
    }

    /// Reads escaped paths.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<PathBuf>>, D::Error> {
        let texts = Option::<Vec<String>>::deserialize(deserializer)?;
        let read = |texts: Vec<String>| {
            let paths = texts.iter().map(|text| super::unescape_path(text));
            paths.collect::<Result<Vec<PathBuf>, _>>()
        };
        texts
            .map(read)
            .transpose()
            .map_err(serde::de::Error::custom)
    }
}

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The path as text: see [`escaped_path`].
///
/// ```
/// use halter_protocol::encoding::{escape_path, unescape_path};
/// use std::path::Path;
///
/// assert_eq!(escape_path(Path::new("/tmp/a b")), "/tmp/a b");
/// assert_eq!(unescape_path(r"/tmp/\xff").unwrap(), {
///     use std::os::unix::ffi::OsStrExt;
///     Path::new(std::ffi::OsStr::from_bytes(b"/tmp/\xff"))
/// });
/// ```
pub fn escape_path(path: &Path) -> String {
    let mut text = String::with_capacity(path.as_os_str().len());
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str(r"\\"),
                other => text.push(other),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!(r"\x{byte:02x}"));
        }
    }
    text
}

/// The path an escaped text stands for; the reverse of [`escape_path`].
pub fn unescape_path(text: &str) -> Result<PathBuf, InvalidPathEscape> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        match rest {
            [] => return Ok(PathBuf::from(OsString::from_vec(bytes))),
            [b'\\', b'\\', tail @ ..] => {
                bytes.push(b'\\');
                rest = tail;
            }
            [b'\\', b'x', high, low, tail @ ..] => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
                    return Err(InvalidPathEscape(text.to_owned()));
                };
                bytes.push((high * 16 + low) as u8);
                rest = tail;
            }
            [b'\\', ..] => return Err(InvalidPathEscape(text.to_owned())),
            [byte, tail @ ..] => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
}

/// The path that a model spelled in the input of a call. Results show a name
/// that is not UTF-8 in its escaped form, so that form is taken back; what is no
/// escape is taken as it is. Whoever judges a call reads its paths by this, as
/// the tool does.
///
/// ```
/// use halter_protocol::encoding::spelled_path;
/// use std::path::Path;
///
/// assert_eq!(spelled_path(r"x.\x65nv"), Path::new("x.env"));
/// assert_eq!(spelled_path(r"a\b"), Path::new(r"a\b"));
/// ```
pub fn spelled_path(text: &str) -> PathBuf {
    unescape_path(text).unwrap_or_else(|_| PathBuf::from(text))
}

/// An escaped path holds a backslash that starts no escape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(r"'{0}' is not an escaped path: a backslash must be written `\\`, a raw byte `\xNN`")]
pub struct InvalidPathEscape(String);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_path_survives_escaping(bytes in proptest::collection::vec(1u8.., 0..40)) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            prop_assert_eq!(unescape_path(&escape_path(&path)).unwrap(), path);
        }
    }

    #[test]
    fn a_lone_backslash_is_refused() {
        assert!(unescape_path(r"a\b").is_err());
    }

    #[test]
    fn a_backslash_that_escapes_nothing_is_spelled_as_it_is() {
        assert_eq!(spelled_path(r"a\b"), PathBuf::from(r"a\b"));
        assert_eq!(spelled_path(r"a\\b"), PathBuf::from(r"a\b"));
        assert_eq!(spelled_path(r"x.\x65nv"), PathBuf::from("x.env"));
    }
}
