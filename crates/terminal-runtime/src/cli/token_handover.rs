//! The token of HTTP out of the environment: as long as this program runs, every
//! command of the same user can read what it was started with. The program
//! starts itself anew without it, and hands the token over in a pipe.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};
use terminal_runtime::settings::{TOKEN_VARIABLE, Token};

use super::failure::Failure;

/// The variable with the name of the pipe, below `/dev/fd`.
const PIPE_VARIABLE: &str = "TRL_TOKEN_PIPE";

/// The largest token, in bytes: what a pipe takes at once.
const MAX_TOKEN_BYTES: usize = 4096;

/// The token that this program was started with. Returns only if it is not in
/// the environment any more.
pub fn token(program: &Path) -> Result<Option<Token>, Failure> {
    if let Some(token) = std::env::var_os(TOKEN_VARIABLE).filter(|token| !token.is_empty()) {
        return Err(start_anew(program, &token));
    }
    let Some(path) = std::env::var_os(PIPE_VARIABLE) else {
        return Ok(None);
    };
    let failed =
        |error: std::io::Error| Failure::new(format!("the token was not handed over: {error}"));
    let mut text = String::new();
    let pipe = std::fs::File::open(&path).map_err(failed)?;
    let pipe = pipe.take(MAX_TOKEN_BYTES as u64);
    { pipe }.read_to_string(&mut text).map_err(failed)?;
    Ok(Token::new(&text))
}

/// Returns only if that fails.
fn start_anew(program: &Path, token: &OsStr) -> Failure {
    let failed = |problem: String| {
        Failure::new(format!(
            "the token cannot be taken out of the environment: {problem}; \
             use --auth-token-file instead"
        ))
    };
    match pipe_with(token.as_encoded_bytes()) {
        Err(error) => failed(error.to_string()),
        Ok(pipe) => {
            let error = Command::new(program)
                .args(std::env::args_os().skip(1))
                .env_remove(TOKEN_VARIABLE)
                .env(PIPE_VARIABLE, format!("/dev/fd/{}", pipe.as_raw_fd()))
                .exec();
            failed(error.to_string())
        }
    }
}

/// A pipe that has the token in it and stays open in the program started next.
fn pipe_with(token: &[u8]) -> std::io::Result<OwnedFd> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(std::io::Error::other(format!(
            "it has more than {MAX_TOKEN_BYTES} bytes"
        )));
    }
    let (reader, mut writer) = std::io::pipe()?;
    writer.write_all(token)?;
    let reader = OwnedFd::from(reader);
    fcntl_setfd(&reader, FdFlags::empty())?;
    Ok(reader)
}
