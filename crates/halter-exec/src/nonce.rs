//! Names nobody can guess.

use std::fmt::Write as _;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::ExecError;

/// 128 random bits in hexadecimal.
pub(crate) fn random() -> Result<String, ExecError> {
    let mut bytes = [0_u8; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|source| ExecError::io("drawing random bytes", source))?;
    let mut text = String::with_capacity(32);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
