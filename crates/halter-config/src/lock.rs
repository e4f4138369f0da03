//! Waiting one's turn among the processes that write a file.

use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, Instant};

/// How often a writer that waits for another one tries again.
const POLL: Duration = Duration::from_millis(10);

/// Locks a file or directory until its handle is dropped. Blocking.
///
/// # Errors
///
/// [`WouldBlock`](io::ErrorKind::WouldBlock) if another process holds it for all that time.
pub fn lock_within(handle: &File, wait: Duration) -> io::Result<()> {
    let deadline = Instant::now() + wait;
    loop {
        match handle.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(POLL);
            }
            tried => return Ok(tried?),
        }
    }
}
