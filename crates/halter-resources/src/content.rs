//! Names that follow from content: the same on every machine.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// How many hex digits of a digest a name carries.
const NAME_DIGITS: usize = 32;

/// A digest over fields, each with its length, so that no two lists of fields
/// look the same.
pub(crate) struct ContentName {
    digest: Sha256,
}

impl ContentName {
    pub fn new() -> Self {
        Self {
            digest: Sha256::new(),
        }
    }

    pub fn field(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.digest.update((bytes.len() as u64).to_le_bytes());
        self.digest.update(bytes);
        self
    }

    pub fn finish(self, prefix: &str) -> String {
        let mut name = format!("{prefix}_");
        for byte in self.digest.finalize().iter().take(NAME_DIGITS / 2) {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_run_into_each_other() {
        let ab_c = ContentName::new().field("ab").field("c").finish("x");
        let a_bc = ContentName::new().field("a").field("bc").finish("x");
        assert_ne!(ab_c, a_bc);
        assert_eq!(ab_c.len(), "x_".len() + NAME_DIGITS);
    }
}
