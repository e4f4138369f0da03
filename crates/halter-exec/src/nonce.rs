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

/// What short names are written in: nothing that means something to a shell.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._";

/// 48 random bits in eight letters: a name that lives for one command. A shell
/// reads it byte by byte, so it is no longer than it has to be.
pub(crate) fn short() -> Result<String, ExecError> {
    let mut bytes = [0_u8; 8];
    draw(&mut bytes)?;
    let letter = |byte: u8| LETTERS.get(usize::from(byte & 63)).copied();
    let letters = bytes.into_iter().filter_map(letter);
    Ok(letters.map(char::from).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn short_names_are_words_and_differ() {
        let made: Vec<String> = (0..1000).map(|_| short().unwrap()).collect();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._".contains(&byte);
        for name in &made {
            assert!(name.len() == 8 && name.bytes().all(plain), "{name}");
        }
        let different: HashSet<&String> = made.iter().collect();
        assert_eq!(different.len(), made.len());
        // All letters are used: every bit counts.
        let letters: HashSet<u8> = made.iter().flat_map(|name| name.bytes()).collect();
        assert_eq!(letters.len(), LETTERS.len());
    }
}
