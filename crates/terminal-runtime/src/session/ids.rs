//! Names of sessions: `s-` and eight hexadecimal digits.

use std::fmt;

use uuid::Uuid;

/// The name of a session, such as `s-a1b2c3d4`. Four bytes in memory, since
/// ten thousand idle sessions are nothing unusual.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u32);

impl SessionId {
    /// A name that is hard to guess. Whoever uses it makes sure that no other
    /// session has it.
    #[must_use]
    pub fn random() -> Self {
        let (number, ..) = Uuid::new_v4().as_fields();
        Self(number)
    }

    /// The session with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// The number behind the name.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }

    /// Reads a name; `None` if it is not the name of any session.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let digits = name.strip_prefix("s-")?;
        let lower_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != 8 || !digits.bytes().all(lower_hex) {
            return None;
        }
        u32::from_str_radix(digits, 16).ok().map(Self)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "s-{:08x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::SessionId;

    #[test]
    fn a_name_reads_back_and_others_do_not() {
        let id = SessionId::from_number(0xa1b2_c3d4);
        assert_eq!(id.to_string(), "s-a1b2c3d4");
        assert_eq!(SessionId::parse("s-a1b2c3d4"), Some(id));
        for wrong in [
            "",
            "s-",
            "s-a1b2c3d",
            "s-a1b2c3d45",
            "s-A1B2C3D4",
            "s-+1b2c3d",
            "t-a1b2c3d4",
        ] {
            assert_eq!(SessionId::parse(wrong), None, "{wrong}");
        }
    }
}
