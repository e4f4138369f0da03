//! How a process ended and what it used.

use std::time::Duration;

/// How a process ended: with a code, or by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitStatus {
    /// The code it exited with.
    pub code: Option<i32>,
    /// The number of the signal that ended it.
    pub signal: Option<i32>,
}

impl ExitStatus {
    /// Whether it exited with code 0.
    #[must_use]
    pub fn success(self) -> bool {
        self.code == Some(0)
    }

    /// One number for both, as shells report it: the code, or 128 plus the
    /// signal.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        match (self.code, self.signal) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => 1,
        }
    }

    pub(crate) fn from_shell_code(code: i32) -> Self {
        Self {
            code: Some(code),
            signal: None,
        }
    }
}

/// What a process and the children it waited for have used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceUsage {
    /// CPU time in user mode.
    pub user_time: Duration,
    /// CPU time in the kernel.
    pub system_time: Duration,
    /// The largest resident set of any one of them, in bytes.
    pub max_resident_bytes: u64,
}

/// What the system reports about a process that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exit {
    /// How it ended.
    pub status: ExitStatus,
    /// What it used.
    pub usage: ResourceUsage,
}
