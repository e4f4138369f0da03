//! Names that follow from content: the same on every machine.

use halter_protocol::ContentHash;

/// How many hex digits of a hash a name carries.
const NAME_DIGITS: usize = 32;

/// A hash over fields, each with its length, so that no two lists of fields
/// look the same.
#[derive(Default)]
pub(crate) struct ContentName(ContentHash);

impl ContentName {
    pub fn field(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub fn finish(self, prefix: &str) -> String {
        let mut digits = self.0.hex();
        digits.truncate(NAME_DIGITS);
        format!("{prefix}_{digits}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_run_into_each_other() {
        let ab_c = ContentName::default().field("ab").field("c").finish("x");
        let a_bc = ContentName::default().field("a").field("bc").finish("x");
        assert_ne!(ab_c, a_bc);
        assert_eq!(ab_c.len(), "x_".len() + NAME_DIGITS);
    }
}
