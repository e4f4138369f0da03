//! How long a command may run.

use std::time::Duration;

use crate::limits::MAX_TIMEOUT;

/// A number of seconds that is no timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("timeout_s must be a number of seconds from 0 (no timeout) to {}", MAX_TIMEOUT.as_secs())]
pub struct TimeoutError;

/// Seconds as they come over the wire; 0 is none.
///
/// # Errors
/// If they are negative, too many or no number.
pub fn read_timeout(seconds: f64) -> Result<Option<Duration>, TimeoutError> {
    let span = Duration::try_from_secs_f64(seconds).map_err(|_| TimeoutError)?;
    if span > MAX_TIMEOUT {
        return Err(TimeoutError);
    }
    Ok(Some(span).filter(|span| !span.is_zero()))
}

/// The timeout of a command: its own, or else that of its session.
///
/// # Errors
/// If its own is no timeout.
pub fn command_timeout(
    command: Option<f64>,
    session: Option<Duration>,
) -> Result<Option<Duration>, TimeoutError> {
    match command {
        Some(seconds) => read_timeout(seconds),
        None => Ok(session),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

    #[test]
    fn the_commands_own_timeout_wins_and_zero_is_none() {
        let half = Some(Duration::from_millis(500));
        for (command, session, expected) in [
            (None, MINUTE, MINUTE),
            (None, None, None),
            (Some(0.5), MINUTE, half),
            (Some(0.5), None, half),
            (Some(0.0), MINUTE, None),
        ] {
            assert_eq!(command_timeout(command, session), Ok(expected));
        }
    }

    #[test]
    fn a_timeout_is_allowed_to_its_limit_and_no_longer() {
        let most = MAX_TIMEOUT.as_secs_f64();
        assert_eq!(read_timeout(most), Ok(Some(MAX_TIMEOUT)));
        for wrong in [most + 1.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(read_timeout(wrong), Err(TimeoutError), "{wrong}");
        }
    }
}
