//! Renewing the lease of a session, for as long as this program has it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::{Client, ClientError};
use crate::limits::RENEWALS_IN_A_LEASE;
use crate::protocol::{ErrorCode, SessionParams};

/// Renews until the last copy of it is dropped.
#[derive(Debug, Clone)]
pub(super) struct LeaseRenewal {
    _stop: Arc<DropGuard>,
}

impl LeaseRenewal {
    /// Begins. A runtime that is away for a while is asked again.
    pub(super) fn begin(client: &Client, session_id: &str, lease: Duration) -> Self {
        let stop = CancellationToken::new();
        let params = SessionParams {
            session_id: session_id.to_owned(),
        };
        let (client, stopped) = (client.clone(), stop.clone());
        let pause = lease / RENEWALS_IN_A_LEASE;
        tokio::spawn(async move {
            let renewals = async {
                loop {
                    tokio::time::sleep(pause).await;
                    let renewed = tokio::time::timeout(pause, client.renew_session(&params));
                    match renewed.await {
                        Ok(Ok(_)) => {}
                        // The next command learns it, too.
                        Ok(Err(ClientError::Refused(error)))
                            if error.code == ErrorCode::SessionNotFound =>
                        {
                            return;
                        }
                        other => tracing::debug!(?other, "a lease was not renewed"),
                    }
                }
            };
            tokio::select! {
                () = renewals => {}
                () = stopped.cancelled() => {}
            }
        });
        Self {
            _stop: Arc::new(stop.drop_guard()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    use super::*;
    use crate::backend::RuntimeExecSettings;
    use crate::limits::{MAX_LEASE, SESSION_LEASE, SESSION_RECONNECT_TIME};

    /// A runtime that holds a command no more is not waited for, and one that
    /// does is not given up.
    #[test]
    fn a_lost_runtime_is_tried_for_nearly_as_long_as_it_keeps_a_session() {
        let settings = RuntimeExecSettings::default();
        assert_eq!(settings.reconnect, SESSION_RECONNECT_TIME);
        const {
            assert!(SESSION_RECONNECT_TIME.as_secs() < SESSION_LEASE.as_secs());
            assert!(SESSION_RECONNECT_TIME.as_secs() > SESSION_LEASE.as_secs() * 3 / 4);
        }
    }

    #[test]
    fn sessions_of_tools_have_a_lease() {
        assert_eq!(RuntimeExecSettings::default().lease, SESSION_LEASE);
        const { assert!(SESSION_LEASE.as_secs() < MAX_LEASE.as_secs()) };
    }

    /// A runtime that counts renewals, and has then forgotten the session.
    #[tokio::test]
    async fn a_lease_is_renewed_so_often_until_the_session_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("trl.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let counting = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            for line in BufReader::new(&stream).lines() {
                let request: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
                assert_eq!(request["method"], "session.renew");
                assert_eq!(request["params"]["session_id"], "s-1");
                asked.push(Instant::now());
                let is_last = asked.len() > RENEWALS_IN_A_LEASE as usize;
                let answer = match is_last {
                    false => serde_json::json!({"id": request["id"], "ok": true, "data": {}}),
                    true => serde_json::json!({
                        "id": request["id"], "ok": false,
                        "error": {"code": "SESSION_NOT_FOUND", "message": "gone"},
                    }),
                };
                writeln!(&stream, "{answer}").unwrap();
                if is_last {
                    break;
                }
            }
            asked
        });
        let lease = Duration::from_millis(400);
        let begun = Instant::now();
        let renewal = LeaseRenewal::begin(&Client::socket(&socket), "s-1", lease);
        let asked = tokio::task::spawn_blocking(move || counting.join().unwrap());
        let asked = asked.await.unwrap();
        assert_eq!(asked.len(), RENEWALS_IN_A_LEASE as usize + 1);
        assert!(asked.first().unwrap().duration_since(begun) >= lease / RENEWALS_IN_A_LEASE);
        drop(renewal);
    }
}
