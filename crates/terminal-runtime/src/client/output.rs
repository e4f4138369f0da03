//! The output of a command as it comes.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::demux::{Demux, Item};
use super::error::ClientError;
use super::{Client, Target, http, read_reply, socket};
use crate::exec::Stream;
use crate::protocol::{
    AttachParams, Encoding, ExecParams, Greeting, HelloParams, StreamEvent, StreamLine, StreamName,
    StreamStarted, WireError,
};

/// What happened to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputEvent {
    /// It wrote something.
    Data {
        /// To which stream.
        stream: StreamName,
        /// Where the first byte stands.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// Bytes that the runtime did not keep.
    Gap {
        /// Of which stream.
        stream: StreamName,
        /// The first of them.
        from: u64,
        /// The first after them.
        to: u64,
    },
    /// The runtime is away; it is tried to be reached for so long. Said once
    /// for each time.
    Away {
        /// What is left of the time.
        left: Duration,
    },
    /// It has ended. Nothing comes after this.
    Exit(Ending),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The code it exited with; -1 if a signal ended it.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether its time was up.
    pub timed_out: bool,
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
    /// The limit that was in its way, with its value and its setting.
    pub limit: Option<String>,
    /// Why it could not be started.
    pub error: Option<WireError>,
    /// Where the session's shell is afterwards.
    pub cwd: Option<String>,
    /// Whether the shell was restarted.
    pub shell_restarted: bool,
}

/// One stream of output, on a connection of its own: who reads it slowly
/// slows down nobody else.
#[derive(Debug)]
pub struct OutputStream {
    target: Target,
    started: StreamStarted,
    wire: Carrier,
    demux: Demux,
}

#[derive(Debug)]
enum Carrier {
    Socket(UnixStream),
    Http {
        body: Incoming,
        _driver: http::Driver,
    },
}

impl Client {
    /// Starts a command and streams its output.
    ///
    /// # Errors
    /// If the runtime cannot be reached or refuses.
    pub async fn stream(&self, params: &ExecParams) -> Result<OutputStream, ClientError> {
        self.open("exec.stream", params).await
    }

    /// Streams the output of a command from an offset on.
    ///
    /// # Errors
    /// If the runtime cannot be reached or refuses.
    pub async fn attach(&self, params: &AttachParams) -> Result<OutputStream, ClientError> {
        self.open("exec.attach", params).await
    }

    async fn open<Params: Serialize>(
        &self,
        method: &str,
        params: &Params,
    ) -> Result<OutputStream, ClientError> {
        let (_, line) = self.request(method, params)?;
        let (mut wire, is_greeted) = match &self.target {
            Target::Socket(path) => {
                let (_, hello) = self.request("hello", &HelloParams { frames: true })?;
                let mut stream = socket::connect(&self.target, path).await?;
                let both = [hello, line].concat();
                // A runtime that refuses the connection says why before it
                // closes it; one that is gone says nothing.
                let _ = stream.write_all(&both).await;
                (Carrier::Socket(stream), true)
            }
            Target::Http { .. } | Target::Remote(_) => {
                let sent = http::send(&self.target, line).await?;
                let wire = Carrier::Http {
                    body: sent.0.into_body(),
                    _driver: sent.1,
                };
                (wire, false)
            }
        };
        let mut demux = Demux::default();
        if is_greeted {
            let greeting = next_line(&self.target, &mut wire, &mut demux).await?;
            read_reply::<Greeting>(&greeting)?;
        }
        let first = next_line(&self.target, &mut wire, &mut demux).await?;
        Ok(OutputStream {
            target: self.target.clone(),
            started: read_reply(&first)?,
            wire,
            demux,
        })
    }
}

async fn next_item(
    target: &Target,
    wire: &mut Carrier,
    demux: &mut Demux,
) -> Result<Item, ClientError> {
    loop {
        if let Some(item) = demux.next_item()? {
            return Ok(item);
        }
        match wire {
            Carrier::Socket(stream) => {
                demux.buffer().reserve(64 * 1024);
                match stream.read_buf(demux.buffer()).await {
                    Ok(read) if read > 0 => {}
                    Ok(_) | Err(_) => return Err(ClientError::lost(target)),
                }
            }
            Carrier::Http { body, .. } => match body.frame().await {
                Some(Ok(frame)) => demux.push(frame.data_ref().map_or(&[], Bytes::as_ref)),
                Some(Err(_)) | None => return Err(ClientError::lost(target)),
            },
        }
    }
}

async fn next_line(
    target: &Target,
    wire: &mut Carrier,
    demux: &mut Demux,
) -> Result<Bytes, ClientError> {
    match next_item(target, wire, demux).await? {
        Item::Line(line) => Ok(line),
        Item::Frame(..) => Err(ClientError::Unreadable(
            "a frame came before its stream".to_owned(),
        )),
    }
}

impl OutputStream {
    /// The name of the command.
    #[must_use]
    pub fn exec_id(&self) -> &str {
        &self.started.exec_id
    }

    /// What happens next. May be dropped and called again.
    ///
    /// # Errors
    /// If the connection is lost or what comes cannot be read.
    pub async fn next(&mut self) -> Result<OutputEvent, ClientError> {
        loop {
            match next_item(&self.target, &mut self.wire, &mut self.demux).await? {
                Item::Frame(header, bytes) => {
                    return Ok(OutputEvent::Data {
                        stream: match header.stream {
                            Stream::Stdout => StreamName::Stdout,
                            Stream::Stderr => StreamName::Stderr,
                        },
                        offset: header.offset,
                        bytes,
                    });
                }
                Item::Line(line) => {
                    let line: StreamLine = serde_json::from_slice(&line).map_err(|error| {
                        ClientError::Unreadable(format!("a line of the stream: {error}"))
                    })?;
                    if line.stream_id == self.started.stream_id {
                        return read_event(line.event);
                    }
                }
            }
        }
    }
}

fn read_event(event: StreamEvent) -> Result<OutputEvent, ClientError> {
    let data = |stream, data: String, offset, encoding| {
        let bytes = match encoding {
            None => Bytes::from(data),
            Some(Encoding::Base64) => STANDARD
                .decode(data)
                .map(Bytes::from)
                .map_err(|_| ClientError::Unreadable("output that is not base64".to_owned()))?,
        };
        Ok(OutputEvent::Data {
            stream,
            offset,
            bytes,
        })
    };
    match event {
        StreamEvent::Stdout {
            data: text,
            offset,
            encoding,
        } => data(StreamName::Stdout, text, offset, encoding),
        StreamEvent::Stderr {
            data: text,
            offset,
            encoding,
        } => data(StreamName::Stderr, text, offset, encoding),
        StreamEvent::Gap { stream, from, to } => Ok(OutputEvent::Gap { stream, from, to }),
        StreamEvent::Exit {
            exit_code,
            signal,
            timed_out,
            cancelled,
            duration_ms,
            limit,
            error,
            cwd,
            shell_restarted,
        } => Ok(OutputEvent::Exit(Ending {
            exit_code,
            signal,
            timed_out,
            cancelled,
            duration_ms,
            limit,
            error,
            cwd,
            shell_restarted,
        })),
    }
}
