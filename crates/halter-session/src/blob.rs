//! Content that is stored once, under its hash.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The BLAKE3 hash of a blob's bytes, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash([u8; 32]);

impl BlobHash {
    /// The hash of `bytes`.
    ///
    /// ```
    /// use halter_session::BlobHash;
    ///
    /// let hash = BlobHash::of(b"hello");
    /// assert_eq!(hash.to_string().parse::<BlobHash>().unwrap(), hash);
    /// ```
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The raw hash.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for BlobHash {
    fn from(raw: [u8; 32]) -> Self {
        Self(raw)
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobHash({self})")
    }
}

/// A text is not 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a blob hash: expected 64 hexadecimal digits")]
pub struct InvalidBlobHash(String);

impl FromStr for BlobHash {
    type Err = InvalidBlobHash;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        blake3::Hash::from_hex(text)
            .map(|hash| Self(*hash.as_bytes()))
            .map_err(|_| InvalidBlobHash(text.to_owned()))
    }
}

impl Serialize for BlobHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BlobHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Bytes and their hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The hash of the bytes.
    pub hash: BlobHash,
    /// The content.
    pub bytes: Bytes,
}

impl Blob {
    /// Hashes `bytes`.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self {
            hash: BlobHash::of(&bytes),
            bytes,
        }
    }
}

impl From<(BlobHash, Bytes)> for Blob {
    /// Takes the hash on trust.
    fn from((hash, bytes): (BlobHash, Bytes)) -> Self {
        Self { hash, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_64_hexadecimal_digits() {
        let text = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(BlobHash::of(b"").to_string(), text);
        assert_eq!(text.parse(), Ok(BlobHash::of(b"")));
        for bad in [
            "",
            "af13",
            &text[1..],
            &format!("{text}0"),
            &text.replace('a', "z"),
        ] {
            assert!(bad.parse::<BlobHash>().is_err(), "{bad}");
        }
    }
}
