//! What a killed runtime leaves, for a moment, to a program that it was just
//! starting: its sockets and its locks, until that program has begun.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::INHERITED_WAIT;

/// How often something that is in use is looked at.
const POLL_PAUSE: Duration = Duration::from_millis(5);

/// Does something as soon as nobody is in the way who is about to go.
pub(crate) async fn when_free<Value, Error>(
    mut attempt: impl AsyncFnMut() -> Result<Value, Error>,
    in_use: impl Fn(&Error) -> bool,
) -> Result<Value, Error> {
    let until = Instant::now() + INHERITED_WAIT;
    loop {
        match attempt().await {
            Err(error) if in_use(&error) && Instant::now() < until => {
                tokio::time::sleep(POLL_PAUSE).await;
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{SocketError, UnixTransport};

    fn in_use(error: &SocketError) -> bool {
        matches!(error, SocketError::InUse { .. })
    }

    #[tokio::test(start_paused = true)]
    async fn what_stays_in_use_is_waited_for_so_long() {
        let began = Instant::now();
        let refused = when_free(async || Err::<(), _>("in use"), |_| true).await;
        assert_eq!(refused, Err("in use"));
        assert_eq!(began.elapsed(), INHERITED_WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_are_not_waited_for() {
        let began = Instant::now();
        let refused = when_free(async || Err::<(), _>("forbidden"), |_| false).await;
        assert_eq!(
            (refused, began.elapsed()),
            (Err("forbidden"), Duration::ZERO)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_is_taken_as_soon_as_a_child_of_the_dead_lets_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trl.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(in_use(&UnixTransport::bind(&path).unwrap_err()));
        let let_go = async {
            tokio::time::sleep(INHERITED_WAIT / 2).await;
            drop(listener);
        };
        let bound = when_free(async || UnixTransport::bind(&path), in_use);
        let (bound, ()) = tokio::join!(bound, let_go);
        bound.unwrap();
    }
}
