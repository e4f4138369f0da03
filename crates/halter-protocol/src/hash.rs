//! The one hash that names content: SHA-256.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io;

/// The SHA-256 of content that comes in pieces.
///
/// ```
/// use halter_protocol::ContentHash;
///
/// let mut hash = ContentHash::default();
/// hash.update(b"hello ");
/// hash.update(b"world");
/// assert_eq!(hash.hex(), ContentHash::hex_of(b"hello world"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct ContentHash(Sha256);

impl ContentHash {
    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all pieces.
    pub fn raw(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    /// The hash of all pieces, in lower-case hexadecimal.
    pub fn hex(self) -> String {
        let mut text = String::with_capacity(64);
        for byte in self.raw() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// The hash of `bytes`, in lower-case hexadecimal.
    pub fn hex_of(bytes: &[u8]) -> String {
        let mut hash = Self::default();
        hash.update(bytes);
        hash.hex()
    }
}

impl io::Write for ContentHash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_sha_256() {
        assert_eq!(
            ContentHash::hex_of(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
