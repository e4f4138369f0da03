//! Records traffic.

use super::exchange::{End, Exchange, Header, RecordedBody, RecordedRequest, RecordedResponse};
use super::exchange::{VERSION, kept_headers};
use super::{CassetteError, Scrubber};
use crate::http::{BodyStream, HttpRequest, HttpResponse, Transport, TransportError};
use async_trait::async_trait;
use futures::StreamExt as _;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tempfile::NamedTempFile;

/// A transport that records what passes through it.
///
/// An exchange is written when its response has ended, beside the file, which
/// is replaced when the recording is finished and holds an exchange. Writing
/// that fails fails the next request: a cassette with a hole in it is worth
/// nothing.
pub struct Recorder<T> {
    inner: T,
    tape: Arc<Tape>,
    scrubber: Scrubber,
}

struct Tape {
    path: PathBuf,
    /// True if there was a recording before.
    replaces: bool,
    state: Mutex<TapeState>,
}

struct TapeState {
    /// Readable by its owner only: it holds whole conversations. None once it
    /// is in its place or given up.
    file: Option<NamedTempFile>,
    exchanges: usize,
    failed: Option<String>,
}

impl<T> Recorder<T> {
    /// Records into a new file; one that is there is replaced.
    pub fn create(inner: T, file: &Path, scrubber: Scrubber) -> Result<Self, CassetteError> {
        Self::create_with(inner, file, scrubber, None)
    }

    pub(super) fn create_with(
        inner: T,
        file: &Path,
        scrubber: Scrubber,
        made_with: Option<Value>,
    ) -> Result<Self, CassetteError> {
        let header = Header {
            cassette: VERSION,
            made_with,
        };
        let opened = beside(file).and_then(|mut opened| {
            write_line(&mut opened, &header)?;
            Ok(opened)
        });
        let state = TapeState {
            file: Some(opened.map_err(|source| unwritable(file, source))?),
            exchanges: 0,
            failed: None,
        };
        Ok(Self {
            inner,
            tape: Arc::new(Tape {
                path: file.to_owned(),
                replaces: file.exists(),
                state: Mutex::new(state),
            }),
            scrubber,
        })
    }

    /// Puts the recording in its place, if anything was recorded. What comes
    /// later is not recorded.
    pub fn finish(&self) -> Result<(), CassetteError> {
        self.tape.finish()
    }

    /// Gives the recording up if it would replace an earlier one.
    pub fn spare_earlier(&self) {
        if self.tape.replaces {
            self.tape.lock().file = None;
        }
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
    fn lock(&self) -> MutexGuard<'_, TapeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> Result<(), TransportError> {
        match &self.lock().failed {
            None => Ok(()),
            Some(why) => Err(TransportError::Cassette {
                message: format!(
                    "the cassette '{}' could not be written: {why}",
                    self.path.display()
                ),
            }),
        }
    }

    fn write(&self, exchange: &Exchange) {
        let mut state = self.lock();
        let Some(file) = &mut state.file else { return };
        match write_line(file, exchange) {
            Ok(()) => state.exchanges += 1,
            Err(error) => state.failed = Some(error.to_string()),
        }
    }

    fn finish(&self) -> Result<(), CassetteError> {
        let mut state = self.lock();
        let file = state.file.take();
        if let Some(why) = &state.failed {
            return Err(unwritable(&self.path, std::io::Error::other(why.clone())));
        }
        let Some(file) = file.filter(|_| state.exchanges > 0) else {
            return Ok(());
        };
        file.persist(&self.path).map(drop).map_err(|error| {
            state.failed = Some(error.error.to_string());
            unwritable(&self.path, error.error)
        })
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        // Whoever wants to know has called `finish`.
        let _ = self.finish();
    }
}

fn unwritable(file: &Path, source: std::io::Error) -> CassetteError {
    CassetteError::Write {
        path: file.display().to_string(),
        source,
    }
}

/// A new file in the same directory, so that a rename puts it in its place.
fn beside(file: &Path) -> std::io::Result<NamedTempFile> {
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(".recording")
        .tempfile_in(directory)
}

fn write_line(file: &mut impl Write, line: &impl Serialize) -> std::io::Result<()> {
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
