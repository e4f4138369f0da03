//! An event stream within bounds.

use crate::limits::{EVENT_RETRY_MAX, EVENT_RETRY_MIN, SERVER_MESSAGE_BYTES};
use crate::transport::Closing;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use sse_stream::{Error as SseError, Sse, SseStream};
use std::time::Duration;

/// Counts the bytes of the event that is being read: all since an empty line,
/// comments too.
#[derive(Debug, Default)]
struct EventSize {
    bytes: usize,
    line: usize,
    after_return: bool,
}

impl EventSize {
    /// Takes a piece. `false` if the event is larger than a message may be.
    fn take(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            self.bytes += 1;
            match byte {
                // The second half of one end of a line.
                b'\n' if self.after_return => {}
                b'\n' | b'\r' if self.line == 0 => self.bytes = 0,
                b'\n' | b'\r' => self.line = 0,
                _ => self.line += 1,
            }
            self.after_return = *byte == b'\r';
            if self.bytes > SERVER_MESSAGE_BYTES {
                return false;
            }
        }
        true
    }
}

/// The events of a body. A stream that breaks, or is silent for too long, ends:
/// whoever reads it opens it again after a pause. One with an event that is too
/// large is the end of the connection.
pub(super) fn events(
    body: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    read_timeout: Duration,
    closing: Closing,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let pieces = futures::stream::unfold(
        (Box::pin(body), EventSize::default(), closing),
        move |(mut body, mut size, closing)| async move {
            let next = tokio::time::timeout(read_timeout, body.next()).await;
            let piece = match next {
                Ok(Some(Ok(piece))) => piece,
                Ok(None) => return None,
                Ok(Some(Err(error))) => {
                    tracing::debug!(%error, "an event stream of a server broke");
                    return None;
                }
                Err(_) => {
                    tracing::debug!(?read_timeout, "an event stream of a server is silent");
                    return None;
                }
            };
            if !size.take(&piece) {
                closing.close(format!(
                    "it sent an event of more than {SERVER_MESSAGE_BYTES} bytes"
                ));
                return None;
            }
            Some((Ok::<_, std::io::Error>(piece), (body, size, closing)))
        },
    );
    let parsed = SseStream::from_bytes_stream(pieces);
    // What cannot be parsed ends the stream, too.
    parsed
        .take_while(|event| std::future::ready(event.is_ok()))
        .map(|event| event.map(bounded))
        .boxed()
}

/// An event whose pause before the next try is one that both sides can bear.
fn bounded(mut event: Sse) -> Sse {
    let (least, most) = (EVENT_RETRY_MIN.as_millis(), EVENT_RETRY_MAX.as_millis());
    let clamp = |millis: u64| u64::try_from(u128::from(millis).clamp(least, most)).ok();
    event.retry = event.retry.and_then(clamp);
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(pieces: Vec<Vec<u8>>) -> (Vec<Sse>, Closing) {
        let closing = Closing::default();
        let body = futures::stream::iter(pieces.into_iter().map(|piece| Ok(Bytes::from(piece))));
        let events = events(body, Duration::from_secs(1), closing.clone());
        let read: Vec<_> = events
            .filter_map(|it| std::future::ready(it.ok()))
            .collect()
            .await;
        (read, closing)
    }

    #[tokio::test]
    async fn an_event_holds_a_message_and_no_more() {
        let event = |bytes: usize| {
            // The empty line that ends an event is none of its bytes.
            let frame = "data: ".len() + "\n".len();
            format!("data: {}\n\n", "x".repeat(bytes - frame)).into_bytes()
        };
        let (read_one, closing) = read(vec![event(SERVER_MESSAGE_BYTES), event(100)]).await;
        assert_eq!(read_one.len(), 2);
        assert!(!closing.is_closed());
        let (none, closing) = read(vec![event(SERVER_MESSAGE_BYTES + 1)]).await;
        assert!(none.is_empty() && closing.is_closed());
        let reason = closing.reason().unwrap();
        assert!(reason.contains("an event of more than"), "{reason}");
        // A comment is no way around it.
        let endless = vec![b":".to_vec(), vec![b'x'; SERVER_MESSAGE_BYTES]];
        assert!(read(endless).await.1.is_closed());
    }

    #[tokio::test]
    async fn no_server_has_us_come_back_too_fast_or_never() {
        let text = "retry: 0\ndata: a\n\nretry: 999999999\ndata: b\n\nretry: 500\ndata: c\n\n";
        let (read, _) = read(vec![text.as_bytes().to_vec()]).await;
        let pauses: Vec<_> = read.iter().map(|event| event.retry.unwrap()).collect();
        let millis = |limit: Duration| u64::try_from(limit.as_millis()).unwrap();
        assert_eq!(
            pauses,
            [millis(EVENT_RETRY_MIN), millis(EVENT_RETRY_MAX), 500]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_silent_ends() {
        let body = futures::stream::pending::<reqwest::Result<Bytes>>();
        let limit = crate::limits::EVENT_READ_TIMEOUT;
        let mut events = events(body, limit, Closing::default());
        let begun = tokio::time::Instant::now();
        assert!(events.next().await.is_none());
        assert_eq!(begun.elapsed(), limit);
    }
}
