//! The values of settings as people write them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::{Count, Span};
use crate::limits::{MAX_ENV_FILE_BYTES, MAX_TIMEOUT};

pub(super) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let text = text.replace("localhost:", "127.0.0.1:");
    text.parse()
        .map_err(|_| "it must be an address with a port, such as 127.0.0.1:9100")
}

pub(super) fn lower_case(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.trim().to_ascii_lowercase())
}

pub(super) fn count(text: &str) -> Result<Count, &'static str> {
    let number: Result<u64, _> = text.trim().parse();
    let number = number.map_err(|_| "it must be a whole number that is not negative")?;
    Ok(Some(number).filter(|&number| number != 0))
}

pub(super) fn mebibytes(text: &str) -> Result<Count, &'static str> {
    let bytes = |mebibytes: u64| mebibytes.saturating_mul(1024 * 1024);
    Ok(count(text)?.map(bytes))
}

pub(super) fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds: Option<f64> = text.trim().parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| *duration <= MAX_TIMEOUT)
        .ok_or("it must be a number of seconds, at most one year")
}

pub(super) fn span(text: &str) -> Result<Span, &'static str> {
    Ok(Some(seconds(text)?).filter(|span| !span.is_zero()))
}

/// The text of a file that is no larger than such a file may be.
pub(super) fn read_bounded(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    file.take(MAX_ENV_FILE_BYTES + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > MAX_ENV_FILE_BYTES {
        return Err(std::io::Error::other(format!(
            "it has more than {MAX_ENV_FILE_BYTES} bytes"
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_limit_and_no_further() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".env");
        let most = usize::try_from(MAX_ENV_FILE_BYTES).unwrap();
        std::fs::write(&path, "#".repeat(most)).unwrap();
        assert!(read_bounded(&path).is_ok());
        std::fs::write(&path, "#".repeat(most + 1)).unwrap();
        assert!(read_bounded(&path).is_err());
    }
}
