//! Content that is stored once, under its hash.

use bytes::Bytes;
use halter_protocol::ContentHash;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The SHA-256 hash of a blob's bytes, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash([u8; 32]);

impl BlobHash {
    /// The hash of `bytes`. Blobs of earlier versions keep the name they were
    /// stored under, which was another hash: a name is looked up, never
    /// computed again.
    ///
    /// ```
    /// use halter_session::BlobHash;
    ///
    /// let hash = BlobHash::of(b"hello");
    /// assert_eq!(hash.to_string().parse::<BlobHash>().unwrap(), hash);
    /// ```
    pub fn of(bytes: &[u8]) -> Self {
        let mut hash = ContentHash::default();
        hash.update(bytes);
        Self(hash.raw())
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
        let invalid = || InvalidBlobHash(text.to_owned());
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(invalid());
        }
        let mut raw = [0; 32];
        for (byte, pair) in raw.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| invalid())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| invalid())?;
        }
        Ok(Self(raw))
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
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
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
