//! A command's output, whatever happens to the connection or the runtime.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::Client;
use super::error::ClientError;
use super::output::{OutputEvent, OutputStream};
use crate::protocol::{AttachParams, ExecParams, StreamName};

/// How long one attempt to find a command again may take.
const ATTACH_TIME: Duration = Duration::from_secs(10);
/// The pause between two attempts; a stream that dies sooner than this has not
/// held.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a runtime is away before that is told.
const AWAY_NOTICE: Duration = Duration::from_secs(2);

/// Follows a command to its end. Every byte comes once, also when the
/// connection was lost in between or the runtime was restarted.
#[derive(Debug)]
pub struct Follower {
    client: Client,
    exec_id: String,
    stream: Option<OutputStream>,
    /// The next byte of standard output and standard error.
    offsets: [u64; 2],
    /// When the stream was found again.
    attached: Instant,
    /// Since when no stream has held. Kept here since whoever asks for the next
    /// event may give up and ask again.
    lost: Option<Instant>,
    /// Whether it was told that the runtime is away.
    is_told: bool,
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
                error if error.is_passing() && begun.elapsed() < self.reconnect => {
                    tokio::time::sleep(PAUSE).await;
                }
                _ => {
                    return Err(ClientError::OutcomeUnknown {
                        target: self.target().to_string(),
                    });
                }
            }
        };
        let mut follower = Follower::new(self, exec_id);
        follower.stream = Some(stream);
        Ok(follower)
    }

    /// Follows a command that was started before, from its beginning.
    ///
    /// # Errors
    /// If the runtime cannot be reached or does not know it.
    pub async fn follow(&self, exec_id: &str) -> Result<Follower, ClientError> {
        let mut follower = Follower::new(self, exec_id.to_owned());
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
    fn new(client: &Client, exec_id: String) -> Self {
        Self {
            client: client.clone(),
            exec_id,
            stream: None,
            offsets: [0, 0],
            attached: Instant::now(),
            lost: None,
            is_told: false,
        }
    }

    /// The name of the command.
    #[must_use]
    pub fn exec_id(&self) -> &str {
        &self.exec_id
    }

    /// Whether the runtime is away, and was not found again so far.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.stream.is_none() && self.lost.is_some()
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
                    Ok(stream) => {
                        self.attached = Instant::now();
                        none.insert(stream)
                    }
                    Err(error) => match self.bear(error).await? {
                        Some(event) => return Ok(event),
                        None => continue,
                    },
                },
            };
            let event = match self.client.silence() {
                Some(silence) => match tokio::time::timeout(silence, stream.next()).await {
                    Ok(event) => event,
                    Err(_) => {
                        // A connection that died without a word, or a quiet
                        // command: found again where it was left, it is the
                        // latter.
                        self.stream = None;
                        self.found();
                        self.lost = Some(Instant::now());
                        continue;
                    }
                },
                None => stream.next().await,
            };
            match event {
                Ok(event) => {
                    if let Some(event) = self.unseen(event) {
                        self.found();
                        return Ok(event);
                    }
                }
                Err(error) => {
                    self.stream = None;
                    // One that is found and dies at once, again and again, is
                    // one loss.
                    if self.attached.elapsed() >= PAUSE {
                        self.found();
                    }
                    if let Some(event) = self.bear(error).await? {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// The next loss is a new one.
    fn found(&mut self) {
        self.lost = None;
        self.is_told = false;
    }

    /// Waits a moment if trying again may help; the first time it is tried
    /// again at once.
    async fn bear(&mut self, error: ClientError) -> Result<Option<OutputEvent>, ClientError> {
        if !error.is_passing() {
            return Err(error);
        }
        let Some(since) = self.lost else {
            self.lost = Some(Instant::now());
            return Ok(None);
        };
        let away = since.elapsed();
        let left = self.client.reconnect.saturating_sub(away);
        if left.is_zero() {
            return Err(error);
        }
        if away >= AWAY_NOTICE && !self.is_told {
            self.is_told = true;
            return Ok(Some(OutputEvent::Away { left }));
        }
        tokio::time::sleep(PAUSE.min(left)).await;
        Ok(None)
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
        let time = ATTACH_TIME.min(client.reconnect);
        match tokio::time::timeout(time, client.attach(&params)).await {
            Ok(attached) => attached,
            Err(_) => Err(ClientError::lost(client.target())),
        }
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
            other @ (OutputEvent::Exit(_) | OutputEvent::Away { .. }) => Some(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread::JoinHandle;

    use serde_json::{Value, json};

    use super::*;
    use crate::client::Target;
    use crate::limits::RECONNECT_TIME;

    /// A runtime that takes so many streams of a silent command, drops each
    /// after this time, and lets the command end in the next one.
    fn dropping(listener: UnixListener, streams: usize, after: Duration) -> JoinHandle<()> {
        std::thread::spawn(move || {
            for number in 0..=streams {
                let (stream, _) = listener.accept().unwrap();
                assert!(answer_attach(&stream));
                match number < streams {
                    true => std::thread::sleep(after),
                    false => say(
                        &stream,
                        &json!({
                            "stream_id": "t-1", "type": "exit", "exit_code": 7,
                            "timed_out": false, "cancelled": false, "duration_ms": 1,
                        }),
                    ),
                }
            }
        })
    }

    fn say(mut stream: &UnixStream, line: &Value) {
        writeln!(stream, "{line}").unwrap();
    }

    /// Whether there was somebody who asked.
    fn answer_attach(stream: &UnixStream) -> bool {
        let mut lines = BufReader::new(stream).lines();
        for (method, data) in [
            ("hello", json!({"version": "1", "frames": true})),
            ("exec.attach", json!({"stream_id": "t-1", "exec_id": "c-1"})),
        ] {
            let Some(line) = lines.next() else {
                return false;
            };
            let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
            assert_eq!(request["method"], method);
            say(
                stream,
                &json!({"id": request["id"], "ok": true, "data": data}),
            );
        }
        true
    }

    /// A client of a runtime that is to come, which tries to reach it so long.
    fn client(reconnect: Duration) -> (tempfile::TempDir, UnixListener, Client) {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("trl.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let client = Client::socket(&socket);
        assert_eq!(client.reconnect, RECONNECT_TIME);
        (directory, listener, client.with_reconnect(reconnect))
    }

    #[tokio::test]
    async fn each_loss_of_a_silent_command_has_its_own_time() {
        let reconnect = 2 * PAUSE;
        let (_directory, listener, client) = client(reconnect);
        let runtime = dropping(listener, 4, reconnect + PAUSE);
        let mut follower = client.follow("c-1").await.unwrap();
        match follower.next().await {
            Ok(OutputEvent::Exit(ending)) => assert_eq!(ending.exit_code, 7),
            other => panic!("{other:?}"),
        }
        runtime.join().unwrap();
    }

    #[tokio::test]
    async fn streams_that_die_at_once_are_one_loss() {
        let reconnect = 4 * PAUSE;
        let (_directory, listener, client) = client(reconnect);
        let attached = std::thread::spawn(move || {
            let mut count = 0;
            loop {
                let (stream, _) = listener.accept().unwrap();
                // One that asks for nothing is the test, which wants no more.
                if !answer_attach(&stream) {
                    return count;
                }
                count += 1;
            }
        });
        let mut follower = client.follow("c-1").await.unwrap();
        let error = follower.next().await.unwrap_err();
        assert!(error.is_passing(), "{error}");
        let Target::Socket(path) = client.target() else {
            panic!("a socket");
        };
        drop(UnixStream::connect(path).unwrap());
        let attached = attached.join().unwrap();
        assert!((2..=6).contains(&attached), "{attached}");
    }

    #[tokio::test]
    async fn a_runtime_that_stays_away_is_told_before_it_is_given_up() {
        let (directory, listener, client) = client(AWAY_NOTICE + 2 * PAUSE);
        let runtime = dropping(listener, 0, Duration::ZERO);
        let mut follower = client.follow("c-1").await.unwrap();
        runtime.join().unwrap();
        assert!(matches!(follower.next().await, Ok(OutputEvent::Exit(_))));
        std::fs::remove_dir_all(directory.path()).unwrap();
        assert!(!follower.is_lost());
        match follower.next().await {
            Ok(OutputEvent::Away { left }) => assert!(left <= 2 * PAUSE, "{left:?}"),
            other => panic!("{other:?}"),
        }
        assert!(follower.is_lost());
        let error = follower.next().await.unwrap_err();
        assert_eq!(error.code(), "not_running");
    }

    fn data(offset: u64, bytes: &'static str) -> OutputEvent {
        OutputEvent::Data {
            stream: StreamName::Stdout,
            offset,
            bytes: Bytes::from_static(bytes.as_bytes()),
        }
    }

    #[test]
    fn what_was_seen_before_does_not_come_again() {
        let mut follower = Follower::new(&Client::socket("/nowhere"), "e".to_owned());
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
