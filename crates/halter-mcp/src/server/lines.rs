//! Messages as lines over two streams.
//!
//! What cannot be read is answered, by the id of the request if it has one: a
//! host that waits for an answer learns why there is none. A line is never kept
//! beyond its limit.

use super::oversized::IdScanner;
use crate::limits::{MESSAGE_BYTES, OUTGOING_MESSAGES, STREAM_CLOSE_WAIT};
use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde_json::Value;
use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A line on its way out, and who wants to know that it has left.
struct Outgoing {
    line: Vec<u8>,
    left: Option<oneshot::Sender<io::Result<()>>>,
}

/// A transport over two streams.
pub(super) struct LineTransport<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// A line that is too long to be kept, until it ends.
    oversized: Option<IdScanner>,
    outgoing: Option<mpsc::Sender<Outgoing>>,
    writer: Option<JoinHandle<()>>,
    /// Fires when either stream has ended.
    gone: CancellationToken,
    heard_a_request: bool,
}

impl<R: AsyncRead + Send + Unpin> LineTransport<R> {
    pub fn new<W>(reader: R, writer: W, gone: CancellationToken) -> Self
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (outgoing, queue) = mpsc::channel(OUTGOING_MESSAGES);
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            oversized: None,
            outgoing: Some(outgoing),
            writer: Some(tokio::spawn(write_lines(writer, queue, gone.clone()))),
            gone,
            heard_a_request: false,
        }
    }

    /// The next line; none at the end of the stream. What was read so far stays
    /// if the future is dropped.
    async fn next_line(&mut self) -> Option<Line> {
        loop {
            let available = match self.reader.fill_buf().await {
                Ok(available) if !available.is_empty() => available,
                Ok(_) => return None,
                Err(error) => {
                    tracing::debug!(%error, "the host cannot be read");
                    return None;
                }
            };
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            let (piece, _) = available.split_at(taken);
            match &mut self.oversized {
                Some(scanner) => scanner.feed(piece),
                None if self.line.len() + taken > MESSAGE_BYTES => {
                    let mut scanner = IdScanner::default();
                    scanner.feed(&self.line);
                    scanner.feed(piece);
                    self.line = Vec::new();
                    self.oversized = Some(scanner);
                }
                None => self.line.extend_from_slice(piece),
            }
            self.reader.consume(taken);
            if end.is_some() {
                return Some(match self.oversized.take() {
                    Some(scanner) => Line::Oversized(scanner.into_id()),
                    None => Line::Whole(std::mem::take(&mut self.line)),
                });
            }
        }
    }

    /// Answers what cannot be read. Never waits: a host that sends nonsense and
    /// reads nothing gets fewer answers.
    fn refuse(&self, id: Option<Value>, code: ErrorCode, message: String) {
        let id = id.and_then(|id| serde_json::from_value::<RequestId>(id).ok());
        let error = ErrorData::new(code, message, None);
        let refusal = ServerJsonRpcMessage::error(error, id);
        if let (Some(outgoing), Ok(line)) = (&self.outgoing, encoded(&refusal)) {
            let _ = outgoing.try_send(Outgoing { line, left: None });
        }
    }

    /// The message in a line. One that is none is refused.
    fn message(&mut self, line: &[u8]) -> Option<ClientJsonRpcMessage> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        let value: Value = match serde_json::from_slice(line) {
            Ok(value) => value,
            Err(error) => {
                let message = format!("the line is not JSON: {error}");
                self.refuse(None, ErrorCode::PARSE_ERROR, message);
                return None;
            }
        };
        let id = value.get("id").cloned();
        let message = match serde_json::from_value::<ClientJsonRpcMessage>(value) {
            Ok(message) => message,
            Err(error) => {
                let message = format!("not a message of JSON-RPC 2.0: {error}");
                self.refuse(id, ErrorCode::INVALID_REQUEST, message);
                return None;
            }
        };
        self.heard_a_request |= matches!(message, JsonRpcMessage::Request(_));
        // Before the first request there is nothing to notify or to answer.
        self.heard_a_request.then_some(message)
    }
}

enum Line {
    Whole(Vec<u8>),
    Oversized(Option<Value>),
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        async move {
            let closed = || io::Error::from(io::ErrorKind::NotConnected);
            let (left, written) = oneshot::channel();
            let line = encoded(&message)?;
            let sent = Outgoing {
                line,
                left: Some(left),
            };
            let outgoing = outgoing.ok_or_else(closed)?;
            outgoing.send(sent).await.map_err(|_| closed())?;
            written.await.map_err(|_| closed())?
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            match self.next_line().await {
                Some(Line::Whole(line)) => {
                    if let Some(message) = self.message(&line) {
                        return Some(message);
                    }
                }
                Some(Line::Oversized(id)) => {
                    let message = format!("the message is longer than {MESSAGE_BYTES} bytes");
                    self.refuse(id, ErrorCode::INVALID_REQUEST, message);
                }
                None => {
                    // What runs for this host ends now, not after a wait for
                    // answers that nobody reads.
                    self.gone.cancel();
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outgoing = None;
        if let Some(mut writer) = self.writer.take()
            && tokio::time::timeout(STREAM_CLOSE_WAIT, &mut writer)
                .await
                .is_err()
        {
            writer.abort();
        }
        Ok(())
    }
}

fn encoded(message: &ServerJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

/// The only writer of the stream, so that no line is cut by another.
async fn write_lines<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut queue: mpsc::Receiver<Outgoing>,
    gone: CancellationToken,
) {
    while let Some(Outgoing { line, left }) = queue.recv().await {
        let written = match writer.write_all(&line).await {
            Ok(()) => writer.flush().await,
            failed => failed,
        };
        let failed = written.is_err();
        if let Some(left) = left {
            let _ = left.send(written);
        }
        if failed {
            gone.cancel();
            return;
        }
    }
}
