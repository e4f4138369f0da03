//! Records traffic.

use super::exchange::{End, Exchange, Header, RecordedBody, RecordedRequest, RecordedResponse};
use super::exchange::{VERSION, kept_headers};
use super::{CassetteError, Scrubber};
use crate::http::{BodyStream, HttpRequest, HttpResponse, Transport, TransportError};
use async_trait::async_trait;
use futures::StreamExt as _;
use serde::Serialize;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Only the owner reads a cassette: it holds whole conversations.
const FILE_MODE: u32 = 0o600;

/// A transport that records what passes through it.
///
/// An exchange is written when its response has ended. Writing that fails
/// fails the next request: a cassette with a hole in it is worth nothing.
pub struct Recorder<T> {
    inner: T,
    tape: Arc<Tape>,
    scrubber: Scrubber,
}

struct Tape {
    path: String,
    state: Mutex<TapeState>,
}

struct TapeState {
    file: File,
    failed: Option<String>,
}

impl<T> Recorder<T> {
    /// Records into a new file; one that is there is replaced.
    pub fn create(inner: T, file: &Path, scrubber: Scrubber) -> Result<Self, CassetteError> {
        let path = file.display().to_string();
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(FILE_MODE)
            .open(file);
        let mut file = match opened {
            Ok(file) => file,
            Err(source) => return Err(CassetteError::Write { path, source }),
        };
        if let Err(source) = write_line(&mut file, &Header { cassette: VERSION }) {
            return Err(CassetteError::Write { path, source });
        }
        Ok(Self {
            inner,
            tape: Arc::new(Tape {
                path,
                state: Mutex::new(TapeState { file, failed: None }),
            }),
            scrubber,
        })
    }

    /// Records what passes through another transport into the same file.
    pub fn around<U>(&self, inner: U) -> Recorder<U> {
        Recorder {
            inner,
            tape: self.tape.clone(),
            scrubber: self.scrubber.clone(),
        }
    }
}

impl<T> fmt::Debug for Recorder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("path", &self.tape.path)
            .finish_non_exhaustive()
    }
}

impl Tape {
    fn check(&self) -> Result<(), TransportError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.failed {
            None => Ok(()),
            Some(why) => Err(TransportError::Cassette {
                message: format!("the cassette '{}' could not be written: {why}", self.path),
            }),
        }
    }

    fn write(&self, exchange: &Exchange) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = write_line(&mut state.file, exchange) {
            state.failed = Some(error.to_string());
        }
    }
}

fn write_line(file: &mut File, line: &impl Serialize) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    file.write_all(&text)
}

#[async_trait]
impl<T: Transport> Transport for Recorder<T> {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        self.tape.check()?;
        let recorded = RecordedRequest::new(&request, &self.scrubber);
        let response = self.inner.send(request).await?;
        let take = Take {
            tape: self.tape.clone(),
            scrubber: self.scrubber.clone(),
            request: Some(recorded),
            status: response.status,
            headers: kept_headers(&response.headers),
            body: Vec::new(),
            end: End::Unread,
        };
        Ok(HttpResponse {
            body: take.of(response.body),
            ..response
        })
    }
}

/// A response while it is read; written when it is dropped.
struct Take {
    tape: Arc<Tape>,
    scrubber: Scrubber,
    request: Option<RecordedRequest>,
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    end: End,
}

impl Take {
    fn of(self, body: BodyStream) -> BodyStream {
        Box::pin(futures::stream::unfold(
            (self, body),
            |(mut take, mut body)| async {
                let item = body.next().await;
                match &item {
                    Some(Ok(bytes)) => take.body.extend_from_slice(bytes),
                    Some(Err(_)) => take.end = End::Broken,
                    None if take.end == End::Unread => take.end = End::Complete,
                    None => {}
                }
                Some((item?, (take, body)))
            },
        ))
    }
}

impl Drop for Take {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            self.tape.write(&Exchange {
                request,
                response: RecordedResponse {
                    status: self.status,
                    headers: std::mem::take(&mut self.headers),
                    body: RecordedBody::new(&self.body, &self.scrubber),
                    end: self.end,
                },
            });
        }
    }
}
