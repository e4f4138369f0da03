//! A command's output, whatever happens to the connection or the runtime.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::Client;
use super::error::ClientError;
use super::output::{OutputEvent, OutputStream};
use crate::protocol::{AttachParams, ExecParams, StreamName};

/// How long a lost connection is tried again before it counts as lost.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(250);

/// Follows a command to its end. Every byte comes once, also when the
/// connection was lost in between or the runtime was restarted.
#[derive(Debug)]
pub struct Follower {
    client: Client,
    exec_id: String,
    stream: Option<OutputStream>,
    /// The next byte of standard output and standard error.
    offsets: [u64; 2],
    /// Since when nothing has come because the connection is lost. Kept here
    /// since whoever asks for the next event may give up and ask again.
    lost: Option<Instant>,
}

impl Client {
    /// Starts a command and follows it. A command without a name is given
    /// one, so that it can be found again.
    ///
    /// # Errors
    /// If the runtime cannot be reached or refuses;
    /// [`ClientError::OutcomeUnknown`] if it was lost while it took the command
    /// and knows nothing of it afterwards.
    pub async fn follow_new(&self, mut params: ExecParams) -> Result<Follower, ClientError> {
        let exec_id = params.exec_id.get_or_insert_with(fresh_exec_id).clone();
        let begun = Instant::now();
        // The runtime may have taken it and not said so.
        let mut may_run = false;
        let stream = loop {
            // The name makes it safe to ask twice.
            let error = match self.stream(&params).await {
                Ok(stream) => break stream,
                Err(error) => error,
            };
            may_run |= matches!(error, ClientError::Lost { .. });
            match error {
                error if !may_run => return Err(error),
                error if error.is_passing() && begun.elapsed() < RECONNECT_TIMEOUT => {
                    tokio::time::sleep(PAUSE).await;
                }
                _ => {
                    return Err(ClientError::OutcomeUnknown {
                        target: self.target().to_string(),
                    });
                }
            }
        };
        Ok(Follower {
            client: self.clone(),
            exec_id,
            stream: Some(stream),
            offsets: [0, 0],
            lost: None,
        })
    }

    /// Follows a command that was started before, from its beginning.
    ///
    /// # Errors
    /// If the runtime cannot be reached or does not know it.
    pub async fn follow(&self, exec_id: &str) -> Result<Follower, ClientError> {
        let mut follower = Follower {
            client: self.clone(),
            exec_id: exec_id.to_owned(),
            stream: None,
            offsets: [0, 0],
            lost: None,
        };
        follower.stream = Some(Follower::attach(self, exec_id, [0, 0]).await?);
        Ok(follower)
    }
}

/// A name no other client thinks of.
fn fresh_exec_id() -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    format!("c-{:016x}{:016x}", random(), random())
}

impl Follower {
    /// The name of the command.
    #[must_use]
    pub fn exec_id(&self) -> &str {
        &self.exec_id
    }

    /// What happens next. May be dropped and called again.
    ///
    /// # Errors
    /// If the runtime does not come back, or no longer knows the command.
    pub async fn next(&mut self) -> Result<OutputEvent, ClientError> {
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                none => match Self::attach(&self.client, &self.exec_id, self.offsets).await {
                    Ok(stream) => none.insert(stream),
                    Err(error) => {
                        self.bear(error).await?;
                        continue;
                    }
                },
            };
            match stream.next().await {
                Ok(event) => {
                    self.lost = None;
                    if let Some(event) = self.unseen(event) {
                        return Ok(event);
                    }
                }
                Err(error) => {
                    self.stream = None;
                    self.bear(error).await?;
                }
            }
        }
    }

    /// Waits a moment if trying again may help; the first time it is tried
    /// again at once.
    async fn bear(&mut self, error: ClientError) -> Result<(), ClientError> {
        match self.lost {
            _ if !error.is_passing() => Err(error),
            None => {
                self.lost = Some(Instant::now());
                Ok(())
            }
            Some(since) if since.elapsed() < RECONNECT_TIMEOUT => {
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
            Some(_) => Err(error),
        }
    }

    async fn attach(
        client: &Client,
        exec_id: &str,
        offsets: [u64; 2],
    ) -> Result<OutputStream, ClientError> {
        let [offset, stderr_offset] = offsets;
        let params = AttachParams {
            exec_id: exec_id.to_owned(),
            offset,
            stderr_offset,
        };
        client.attach(&params).await
    }

    /// The event without what was seen before; notes how far it goes.
    fn unseen(&mut self, event: OutputEvent) -> Option<OutputEvent> {
        let [stdout, stderr] = &mut self.offsets;
        let mut place = |stream: StreamName, end: u64| {
            let seen = match stream {
                StreamName::Stdout => &mut *stdout,
                StreamName::Stderr => &mut *stderr,
            };
            let before = *seen;
            *seen = before.max(end);
            before
        };
        match event {
            OutputEvent::Data {
                stream,
                offset,
                bytes,
            } => {
                let seen = place(stream, offset + bytes.len() as u64);
                let skip = usize::try_from(seen.saturating_sub(offset)).unwrap_or(usize::MAX);
                let bytes = if skip < bytes.len() {
                    bytes.slice(skip..)
                } else {
                    Bytes::new()
                };
                (!bytes.is_empty()).then(|| OutputEvent::Data {
                    stream,
                    offset: offset.max(seen),
                    bytes,
                })
            }
            OutputEvent::Gap { stream, from, to } => {
                let seen = place(stream, to);
                (to > seen).then(|| OutputEvent::Gap {
                    stream,
                    from: from.max(seen),
                    to,
                })
            }
            exit @ OutputEvent::Exit(_) => Some(exit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(offset: u64, bytes: &'static str) -> OutputEvent {
        OutputEvent::Data {
            stream: StreamName::Stdout,
            offset,
            bytes: Bytes::from_static(bytes.as_bytes()),
        }
    }

    #[test]
    fn what_was_seen_before_does_not_come_again() {
        let mut follower = Follower {
            client: Client::socket("/nowhere"),
            exec_id: "e".to_owned(),
            stream: None,
            offsets: [0, 0],
            lost: None,
        };
        assert_eq!(follower.unseen(data(0, "abc")), Some(data(0, "abc")));
        assert_eq!(follower.unseen(data(0, "abc")), None);
        assert_eq!(follower.unseen(data(1, "bcde")), Some(data(3, "de")));
        let gap = |from, to| OutputEvent::Gap {
            stream: StreamName::Stdout,
            from,
            to,
        };
        assert_eq!(follower.unseen(gap(4, 9)), Some(gap(5, 9)));
        assert_eq!(follower.unseen(gap(4, 9)), None);
        assert_eq!(follower.offsets, [9, 0]);
    }
}
