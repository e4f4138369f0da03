//! Names of sessions: `s-` and eight hexadecimal digits.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// The name of a session, such as `s-a1b2c3d4`. Four bytes in memory, since
/// ten thousand idle sessions are nothing unusual.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u32);

impl SessionId {
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

/// Makes names that are hard to guess and never come twice: a counter sent
/// through a keyed permutation of all 32-bit numbers.
#[derive(Debug)]
pub struct IdMaker {
    keys: [RandomState; 4],
    counter: u32,
}

impl Default for IdMaker {
    fn default() -> Self {
        Self {
            keys: std::array::from_fn(|_| RandomState::new()),
            counter: 0,
        }
    }
}

impl IdMaker {
    /// The next name. Repeats after four thousand million of them.
    pub fn next_id(&mut self) -> SessionId {
        self.counter = self.counter.wrapping_add(1);
        SessionId(self.permute(self.counter))
    }

    /// A Feistel network: whatever its rounds compute, no two numbers have
    /// the same image.
    fn permute(&self, number: u32) -> u32 {
        let [a, b, c, d] = number.to_be_bytes();
        let (mut left, mut right) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        for key in &self.keys {
            let [.., x, y] = key.hash_one(right).to_be_bytes();
            (left, right) = (right, left ^ u16::from_be_bytes([x, y]));
        }
        (u32::from(left) << 16) | u32::from(right)
    }
}

#[cfg(test)]
mod tests {
    use super::{IdMaker, SessionId};

    #[test]
    fn names_never_come_twice_and_do_not_tell_the_next() {
        let mut maker = IdMaker::default();
        let names: Vec<u32> = (0..300_000).map(|_| maker.next_id().number()).collect();
        let distinct: std::collections::HashSet<u32> = names.iter().copied().collect();
        // At random, some ten of so many 32-bit numbers would be equal.
        assert_eq!(distinct.len(), names.len());
        let steps: std::collections::HashSet<u32> = names
            .windows(2)
            .map(|pair| pair[1].wrapping_sub(pair[0]))
            .collect();
        assert!(steps.len() > 290_000, "{}", steps.len());
    }

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
