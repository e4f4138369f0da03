//! Waiting with an end.
//!
//! A test that pauses tokio's time cannot use it to notice that something
//! hangs: the paused clock jumps to the deadline as soon as everything waits.
//! These deadlines are of real time.

use std::future::Future;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long anything may take before a test counts as hung, in real time.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for a future, and panics if it takes longer than [`PATIENCE`].
pub async fn within<F: Future>(what: &str, future: F) -> F::Output {
    let output = in_time(future).await;
    output.unwrap_or_else(|| panic!("{what} took longer than {PATIENCE:?}"))
}

/// Waits for a future; `None` if it takes longer than [`PATIENCE`].
pub async fn in_time<F: Future>(future: F) -> Option<F::Output> {
    let (expired, expiry) = oneshot::channel();
    let (done, watched) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if watched.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = expired.send(());
        }
    });
    let output = tokio::select! {
        biased;
        output = future => Some(output),
        Ok(()) = expiry => None,
    };
    drop(done);
    let _ = watchdog.join();
    output
}

/// Waits until something outside of any event becomes true, looking again and
/// again, and panics with `what` if it never does. For effects that only the
/// operating system knows of, such as the end of a process.
pub async fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(
            started.elapsed() < PATIENCE,
            "not true within {PATIENCE:?}: {what}"
        );
        // A blocking sleep works whatever tokio's clock does.
        let _ = tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(2))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn paused_time_does_not_count() {
        let hour = tokio::time::sleep(Duration::from_secs(3600));
        within("an hour of virtual time", hour).await;
    }

    #[tokio::test]
    async fn a_condition_is_looked_at_again() {
        let mut looks = 0;
        eventually("the third look", || {
            looks += 1;
            looks == 3
        })
        .await;
        assert_eq!(looks, 3);
    }
}
