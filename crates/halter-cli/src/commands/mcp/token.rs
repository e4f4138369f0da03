//! The file with the token that hosts over HTTP send.

use crate::context::Context;
use crate::failure::{Failure, file_problem, usage};
use halter_mcp::server::HttpGuard;
use secrecy::{ExposeSecret, SecretString};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The name of the file, below the state directory.
const FILE: &str = "mcp-serve.token";
/// The longest token, in bytes.
const TOKEN_BYTES: u64 = 4 * 1024;
/// The shortest one that is no guess, in bytes.
const SHORTEST_TOKEN_BYTES: usize = 16;

/// The file: the one that is named, or the usual one.
pub fn file(context: &Context, named: Option<&Path>) -> Result<PathBuf, Failure> {
    match (named, context.environment.state_dir()) {
        (Some(named), _) => Ok(named.to_owned()),
        (None, Some(state)) => Ok(state.join(FILE)),
        (None, None) => Err(usage(
            "there is no place for the token",
            "name a file with --token-file, or set HOME",
        )),
    }
}

/// The token in the file. A file that is not there is made, with a new one.
pub fn read_or_make(file: &Path) -> Result<SecretString, Failure> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)
            .map_err(|error| file_problem("make the directory of", file, &error))?;
    }
    let mut options = std::fs::OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(file);
    match made {
        Ok(mut made) => {
            let token = HttpGuard::new_token();
            let written = writeln!(made, "{}", token.expose_secret());
            written.map_err(|error| file_problem("write", file, &error))?;
            Ok(token)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read(file),
        Err(error) => Err(file_problem("write", file, &error)),
    }
}

fn read(file: &Path) -> Result<SecretString, Failure> {
    let problem = |error: std::io::Error| file_problem("read", file, &error);
    let opened = std::fs::File::open(file).map_err(problem)?;
    let mode = opened.metadata().map_err(problem)?.permissions().mode();
    let shown = file.display();
    if mode & 0o077 != 0 {
        return Err(usage(
            format!("others can read the token in {shown}"),
            format!("chmod 600 {shown}"),
        ));
    }
    let mut text = String::new();
    let read = opened.take(TOKEN_BYTES).read_to_string(&mut text);
    read.map_err(problem)?;
    let token = text.trim();
    if token.len() < SHORTEST_TOKEN_BYTES {
        return Err(usage(
            format!("the token in {shown} is shorter than {SHORTEST_TOKEN_BYTES} bytes"),
            "remove the file to have a new one made",
        ));
    }
    Ok(token.to_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_only_its_owner_reads_it() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("state/token");
        let made = read_or_make(&file).unwrap();
        assert_eq!(made.expose_secret().len(), 64);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = read_or_make(&file).unwrap();
        assert_eq!(again.expose_secret(), made.expose_secret());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read_or_make(&file).is_err());
        let short = place.path().join("short");
        std::fs::write(&short, "x").unwrap();
        std::fs::set_permissions(&short, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read_or_make(&short).is_err());
    }
}
