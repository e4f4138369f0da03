//! Bytes of a message: small numbers in few bytes, byte strings with their
//! length in front. A reader never allocates more than it was given.

use thiserror::Error;

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The bytes end in the middle of something.
    #[error("the message ends in the middle of {what}; it was cut or damaged")]
    Short {
        /// What was being read.
        what: &'static str,
    },
    /// A value that nothing has.
    #[error("{what} has the unknown value {value}; both programs must be of one version")]
    Unknown {
        /// What was being read.
        what: &'static str,
        /// What was found.
        value: u64,
    },
    /// There are bytes behind the end.
    #[error("{count} bytes follow the end of the message; it was damaged")]
    TooLong {
        /// How many.
        count: usize,
    },
}

impl CodecError {
    /// A stable name of the kind of error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Short { .. } => "message_short",
            Self::Unknown { .. } => "message_unknown",
            Self::TooLong { .. } => "message_too_long",
        }
    }
}

/// Builds a message.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

/// Most messages fit into so many bytes.
const ROOM: usize = 128;

impl Writer {
    /// An empty message.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for so many bytes, and some more.
    pub fn reserve(&mut self, bytes: usize) {
        self.0.reserve(bytes + ROOM);
    }

    /// The message.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    /// One byte.
    pub fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    /// A number, seven bits to a byte, the lowest first.
    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A signed number: the sign is the lowest bit, so that small negative
    /// numbers are short too.
    pub fn signed(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)) as u64);
    }

    /// Bytes with their length.
    pub fn bytes(&mut self, value: &[u8]) {
        self.number(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// A number that may be missing.
    pub fn optional(&mut self, value: Option<i64>) {
        match value {
            None => self.byte(0),
            Some(value) => {
                self.byte(1);
                self.signed(value);
            }
        }
    }
}

/// Takes a message apart.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// From the beginning.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// One byte.
    ///
    /// # Errors
    /// If the message is at its end.
    pub fn byte(&mut self, what: &'static str) -> Result<u8, CodecError> {
        let (first, rest) = self.0.split_first().ok_or(CodecError::Short { what })?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number.
    ///
    /// # Errors
    /// If the message ends in it, or it has more than 64 bits.
    pub fn number(&mut self, what: &'static str) -> Result<u64, CodecError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(CodecError::Unknown {
            what,
            value: u64::MAX,
        })
    }

    /// A signed number.
    ///
    /// # Errors
    /// As for [`number`](Self::number).
    pub fn signed(&mut self, what: &'static str) -> Result<i64, CodecError> {
        let value = self.number(what)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Bytes with their length.
    ///
    /// # Errors
    /// If there are fewer than announced.
    pub fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], CodecError> {
        let length = usize::try_from(self.number(what)?).unwrap_or(usize::MAX);
        let (found, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(CodecError::Short { what })?;
        self.0 = rest;
        Ok(found)
    }

    /// A number that may be missing.
    ///
    /// # Errors
    /// As for [`number`](Self::number).
    pub fn optional(&mut self, what: &'static str) -> Result<Option<i64>, CodecError> {
        match self.byte(what)? {
            0 => Ok(None),
            1 => self.signed(what).map(Some),
            other => Err(CodecError::Unknown {
                what,
                value: other.into(),
            }),
        }
    }

    /// How many things follow. Each takes at least a byte, so a number beyond
    /// the rest of the message is a lie that must cost nothing.
    ///
    /// # Errors
    /// If there are fewer bytes than things.
    pub fn count(&mut self, what: &'static str) -> Result<usize, CodecError> {
        let count = usize::try_from(self.number(what)?).unwrap_or(usize::MAX);
        if count > self.0.len() {
            return Err(CodecError::Short { what });
        }
        Ok(count)
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// The end of the message.
    ///
    /// # Errors
    /// If something is left.
    pub fn finish(self) -> Result<(), CodecError> {
        match self.0.len() {
            0 => Ok(()),
            count => Err(CodecError::TooLong { count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(number: u64, signed: i64, bytes: Vec<u8>, optional: Option<i64>) {
            let mut writer = Writer::new();
            writer.number(number);
            writer.signed(signed);
            writer.bytes(&bytes);
            writer.optional(optional);
            let message = writer.finish();
            let mut reader = Reader::new(&message);
            prop_assert_eq!(reader.number("number").unwrap(), number);
            prop_assert_eq!(reader.signed("signed").unwrap(), signed);
            prop_assert_eq!(reader.bytes("bytes").unwrap(), &bytes);
            prop_assert_eq!(reader.optional("optional").unwrap(), optional);
            reader.finish().unwrap();
        }
    }

    #[test]
    fn a_number_beyond_64_bits_is_refused() {
        let mut largest = Writer::new();
        largest.number(u64::MAX);
        let mut bytes = largest.finish();
        assert_eq!(Reader::new(&bytes).number("n").unwrap(), u64::MAX);
        *bytes.last_mut().unwrap() = 2;
        assert_eq!(
            Reader::new(&bytes).number("n").unwrap_err().code(),
            "message_unknown"
        );
    }

    #[test]
    fn a_count_beyond_the_message_costs_nothing() {
        let mut writer = Writer::new();
        writer.number(u64::MAX / 2);
        let bytes = writer.finish();
        assert_eq!(
            Reader::new(&bytes).count("things").unwrap_err().code(),
            "message_short"
        );
    }
}
