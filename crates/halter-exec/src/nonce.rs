//! Names nobody can guess.

use std::fmt::Write as _;

use crate::error::ExecError;
use crate::sys;

/// 128 random bits in hexadecimal.
pub(crate) fn random() -> Result<String, ExecError> {
    hexadecimal([0_u8; 16])
}

/// 64 random bits in hexadecimal, for names that live for a moment.
pub(crate) fn short() -> Result<String, ExecError> {
    hexadecimal([0_u8; 8])
}

fn hexadecimal<const BYTES: usize>(mut bytes: [u8; BYTES]) -> Result<String, ExecError> {
    sys::fill_random(&mut bytes).map_err(|source| ExecError::io("drawing random bytes", source))?;
    let mut text = String::with_capacity(2 * BYTES);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
