//! Names nobody can guess.

use std::fmt::Write as _;

use crate::error::ExecError;
use crate::sys;

/// 128 random bits in hexadecimal.
pub(crate) fn random() -> Result<String, ExecError> {
    let mut bytes = [0_u8; 16];
    draw(&mut bytes)?;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

fn draw(bytes: &mut [u8]) -> Result<(), ExecError> {
    sys::fill_random(bytes).map_err(|source| ExecError::io("drawing random bytes", source))
}

/// Random bytes drawn at a time.
const DRAWN: usize = 252;

/// Random bytes in a short name.
const SHORT: usize = 6;

/// What short names are written in: nothing that means something to a shell.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._";

/// Makes names that live for a moment: 48 random bits in eight letters, none
/// of which tells anything about another.
#[derive(Default)]
pub(crate) struct ShortNames {
    drawn: Vec<u8>,
}

/// Shows no name before it is used.
impl std::fmt::Debug for ShortNames {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ShortNames").finish_non_exhaustive()
    }
}

impl ShortNames {
    pub(crate) fn next(&mut self) -> Result<String, ExecError> {
        if self.drawn.len() < SHORT {
            self.drawn.resize(DRAWN, 0);
            if let Err(error) = draw(&mut self.drawn) {
                self.drawn.clear();
                return Err(error);
            }
        }
        let rest = self.drawn.len() - SHORT;
        let bits = self
            .drawn
            .drain(rest..)
            .fold(0_u64, |bits, byte| (bits << 8) | u64::from(byte));
        let letter = |place: usize| {
            let index = usize::try_from((bits >> (6 * place)) & 63).unwrap_or(0);
            char::from(LETTERS.get(index).copied().unwrap_or(b'A'))
        };
        Ok((0..8 * SHORT / 6).map(letter).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn short_names_are_words_and_differ() {
        let mut names = ShortNames::default();
        let made: Vec<String> = (0..1000).map(|_| names.next().unwrap()).collect();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._".contains(&byte);
        for name in &made {
            assert!(name.len() == 8 && name.bytes().all(plain), "{name}");
        }
        let different: HashSet<&String> = made.iter().collect();
        assert_eq!(different.len(), made.len());
        // All letters are used: every bit counts.
        let letters: HashSet<u8> = made.iter().flat_map(|name| name.bytes()).collect();
        assert_eq!(letters.len(), LETTERS.len());
        assert_eq!(DRAWN % SHORT, 0);
    }
}
