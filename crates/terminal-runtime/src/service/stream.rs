//! `exec.stream` and `exec.attach`: a command's output as it comes.

use std::future::Future;
use std::io;
use std::sync::Arc;

use super::Service;
use super::answer::Client;
use super::job::{Job, JobState};
use crate::exec::{Chunk, Exec, SpoolReader, Stream};
use crate::limits::{FRAME_CHUNK_BYTES, STREAM_CHUNK_BYTES};
use crate::protocol::frame::FrameHeader;
use crate::protocol::{
    Piece, RequestId, StreamEvent, StreamLine, StreamName, StreamStarted, TextCutter, WireError,
    line, success,
};

/// Where the lines of a stream go.
pub trait Outlet: Send + Sync {
    /// Sends these bytes, one after the other, and nothing in between.
    fn send(&self, head: &[u8], body: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
}

/// A stream that is yet to be sent.
#[derive(Debug)]
pub struct StreamOrder {
    job: Arc<Job>,
    number: u64,
    offsets: [u64; 2],
    /// Whether the command was started for this stream.
    owned: bool,
}

impl StreamOrder {
    pub(super) fn new(job: Arc<Job>, number: u64, offsets: [u64; 2], owned: bool) -> Self {
        Self {
            job,
            number,
            offsets,
            owned,
        }
    }

    fn stream_id(&self) -> String {
        format!("t-{:016x}", self.number)
    }

    /// The line that answers the call; the stream comes after it.
    #[must_use]
    pub fn first_line(&self, id: &RequestId) -> Vec<u8> {
        let started = StreamStarted {
            stream_id: self.stream_id(),
            exec_id: self.job.id.to_string(),
        };
        success(id, &started)
    }
}

impl Service {
    /// Sends a stream to its end. A command that was started for a client
    /// that is gone, without a name of its own, is cancelled.
    pub async fn send_stream<Out: Outlet>(
        &self,
        order: StreamOrder,
        client: &Client,
        outlet: &Out,
    ) {
        let sent = tokio::select! {
            sent = send(&order, client.frames(), outlet) => sent,
            () = client.gone().cancelled() => Err(io::ErrorKind::BrokenPipe.into()),
        };
        if order.owned {
            match sent {
                Ok(()) => self.forget_unless_kept(&order.job),
                Err(_) => self.leave(&order.job).await,
            }
        }
    }
}

/// One of the two streams on its way out.
struct Lane {
    stream: Stream,
    reader: SpoolReader,
    cutter: TextCutter,
    done: bool,
}

impl Lane {
    fn new(exec: &Exec, stream: Stream, offset: u64) -> Self {
        Self {
            stream,
            reader: exec.reader(stream, offset),
            cutter: TextCutter::default(),
            done: false,
        }
    }

    async fn next(&mut self, frames: bool) -> Result<Chunk, WireError> {
        let max = if frames {
            FRAME_CHUNK_BYTES
        } else {
            STREAM_CHUNK_BYTES
        };
        let found = self.reader.next(max).await;
        found.map_err(|error| super::order::core_error(&error))
    }
}

async fn send<Out: Outlet>(order: &StreamOrder, frames: bool, outlet: &Out) -> io::Result<()> {
    let id = order.stream_id();
    let exec = match order.job.started().await {
        JobState::Running(exec) | JobState::Ended { exec, .. } => exec,
        JobState::Refused(error) => return send_event(&id, failed(error), outlet).await,
        JobState::Waiting => return Ok(()),
    };
    let [first, second] = order.offsets;
    let mut stdout = Lane::new(&exec, Stream::Stdout, first);
    let mut stderr = Lane::new(&exec, Stream::Stderr, second);
    while !(stdout.done && stderr.done) {
        let (lane, next) = tokio::select! {
            next = stdout.next(frames), if !stdout.done => (&mut stdout, next),
            next = stderr.next(frames), if !stderr.done => (&mut stderr, next),
        };
        match next {
            Ok(Chunk::Data { offset, bytes }) if frames => {
                let header = FrameHeader {
                    stream_number: order.number,
                    stream: lane.stream,
                    offset,
                    length: bytes.len(),
                };
                outlet.send(&header.encode(), &bytes).await?;
            }
            Ok(chunk) => send_chunk(&id, lane, chunk, outlet).await?,
            Err(error) => return send_event(&id, failed(error), outlet).await,
        }
    }
    let ending = match order.job.over().await {
        JobState::Ended { end: Ok(end), .. } => StreamEvent::Exit {
            exit_code: end.exit_code.unwrap_or(-1),
            signal: end.signal,
            timed_out: end.timed_out,
            cancelled: end.cancelled,
            duration_ms: u64::try_from(end.duration.as_millis()).unwrap_or(u64::MAX),
            error: None,
            limit: end.limit,
            cwd: end.cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
            shell_restarted: end.shell_restarted,
        },
        JobState::Ended {
            end: Err(error), ..
        }
        | JobState::Refused(error) => failed(error),
        JobState::Waiting | JobState::Running(_) => return Ok(()),
    };
    send_event(&id, ending, outlet).await
}

async fn send_chunk<Out: Outlet>(
    id: &str,
    lane: &mut Lane,
    chunk: Chunk,
    outlet: &Out,
) -> io::Result<()> {
    let (piece, after) = match chunk {
        Chunk::Data { offset, bytes } => (lane.cutter.push(offset, &bytes), None),
        Chunk::Gap { from, to } => {
            let gap = StreamEvent::Gap {
                stream: match lane.stream {
                    Stream::Stdout => StreamName::Stdout,
                    Stream::Stderr => StreamName::Stderr,
                },
                from,
                to,
            };
            (lane.cutter.finish(from), Some(gap))
        }
        Chunk::End { offset } => {
            lane.done = true;
            (lane.cutter.finish(offset), None)
        }
    };
    if let Some((offset, Piece { data, encoding })) = piece {
        let event = match lane.stream {
            Stream::Stdout => StreamEvent::Stdout {
                data,
                offset,
                encoding,
            },
            Stream::Stderr => StreamEvent::Stderr {
                data,
                offset,
                encoding,
            },
        };
        send_event(id, event, outlet).await?;
    }
    match after {
        Some(event) => send_event(id, event, outlet).await,
        None => Ok(()),
    }
}

async fn send_event<Out: Outlet>(id: &str, event: StreamEvent, outlet: &Out) -> io::Result<()> {
    let stream_line = StreamLine {
        stream_id: id.to_owned(),
        event,
    };
    outlet
        .send(&line(&stream_line).unwrap_or_default(), &[])
        .await
}

fn failed(error: WireError) -> StreamEvent {
    StreamEvent::Exit {
        exit_code: -1,
        signal: None,
        timed_out: false,
        cancelled: false,
        duration_ms: 0,
        error: Some(error),
        limit: None,
        cwd: None,
        shell_restarted: false,
    }
}
