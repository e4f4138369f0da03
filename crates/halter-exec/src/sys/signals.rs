//! Signal numbers as a type that cannot hold a number the kernel refuses.

use std::fmt;

/// A signal that can be sent to a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signal(i32);

/// The number is no signal of this system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a signal number; signals are 1 to 64")]
pub struct SignalError(pub i32);

impl Signal {
    /// Hang-up.
    pub const HUP: Self = Self(libc::SIGHUP);
    /// Interrupt, as from Ctrl-C.
    pub const INT: Self = Self(libc::SIGINT);
    /// Quit.
    pub const QUIT: Self = Self(libc::SIGQUIT);
    /// Kill; cannot be caught or ignored.
    pub const KILL: Self = Self(libc::SIGKILL);
    /// The process has used up its CPU time.
    pub const XCPU: Self = Self(libc::SIGXCPU);
    /// Polite request to end.
    pub const TERM: Self = Self(libc::SIGTERM);
    /// Stop; cannot be caught or ignored.
    pub const STOP: Self = Self(libc::SIGSTOP);
    /// Continue after a stop.
    pub const CONT: Self = Self(libc::SIGCONT);

    /// The signal with this number.
    ///
    /// # Errors
    /// If there is no such signal.
    pub fn new(number: i32) -> Result<Self, SignalError> {
        if (1..=64).contains(&number) {
            Ok(Self(number))
        } else {
            Err(SignalError(number))
        }
    }

    /// The number the system knows it by.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }
}

/// Whether this program ignores the signal.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the old one is only written to `action`,
    // for which zero is a valid value too.
    let action = unsafe {
        libc::sigaction(signal.0, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

impl fmt::Debug for Signal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Signal({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Signal, SignalError, is_ignored};

    #[test]
    fn only_real_signal_numbers_are_accepted() {
        assert_eq!(Signal::new(9), Ok(Signal::KILL));
        assert_eq!(Signal::new(0), Err(SignalError(0)));
        assert_eq!(Signal::new(65), Err(SignalError(65)));
        assert_eq!(Signal::new(-9), Err(SignalError(-9)));
    }

    #[test]
    fn an_ignored_signal_is_told_from_one_that_is_not() {
        // Rust programs ignore writes to nobody from the start.
        assert!(is_ignored(Signal::new(libc::SIGPIPE).unwrap()));
        assert!(!is_ignored(Signal::KILL));
    }
}
