//! Words of the shell's language.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::error::ExecError;

/// A path as one word of the shell's language; most need no quotes.
pub(super) fn word(path: &Path) -> Cow<'_, OsStr> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    let path = path.as_os_str();
    if path.as_bytes().iter().all(plain) {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(quote(path))
    }
}

/// In single quotes, where only the single quote itself means anything.
pub(super) fn quote(value: &OsStr) -> OsString {
    let mut quoted = Vec::with_capacity(value.len() + 2);
    quoted.push(b'\'');
    for byte in value.as_bytes() {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            other => quoted.push(*other),
        }
    }
    quoted.push(b'\'');
    OsString::from_vec(quoted)
}

/// Refuses what the shell would not take for the name of a variable.
pub(super) fn check_name(name: &OsStr) -> Result<(), ExecError> {
    let bytes = name.as_bytes();
    let letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let fine = bytes.first().is_some_and(letter)
        && bytes
            .iter()
            .all(|byte| letter(byte) || byte.is_ascii_digit());
    if fine {
        Ok(())
    } else {
        Err(ExecError::invalid(
            format!("environment variable `{}`", name.display()),
            "a shell variable's name has only letters, digits and `_`, and starts with no digit",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_leaves_nothing_to_the_shell() {
        assert_eq!(quote(OsStr::new("a'b $c\n`d`")), "'a'\\''b $c\n`d`'");
    }

    #[test]
    fn only_what_needs_quotes_gets_them() {
        assert_eq!(word(Path::new("/proc/7/fd/3")).into_owned(), "/proc/7/fd/3");
        assert_eq!(word(Path::new("/a b")).into_owned(), "'/a b'");
    }

    #[test]
    fn a_name_is_a_name_to_the_shell() {
        for name in ["A", "_", "a1", "PATH"] {
            assert!(check_name(OsStr::new(name)).is_ok(), "{name:?}");
        }
        for name in ["", "1A", "A-B", "A B", "A;reboot", "\u{e4}"] {
            assert!(check_name(OsStr::new(name)).is_err(), "{name:?}");
        }
    }
}
