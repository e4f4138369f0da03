//! Records traffic.

use super::exchange::{End, Exchange, Header, RecordedBody, RecordedRequest, RecordedResponse};
use super::exchange::{VERSION, kept_headers};
use super::{CassetteError, Scrubber};
use crate::http::{BodyStream, HttpRequest, HttpResponse, Transport, TransportError};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tempfile::NamedTempFile;

/// A transport that records what passes through it.
///
/// An exchange is written when its response has ended, beside the file, which
/// is replaced when the recording is finished and holds an exchange. Of a
/// response that is still read then, what has come so far is written: an answer
/// can be complete before its connection is. Writing that fails fails the next
/// request: a cassette with a hole in it is worth nothing.
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
    /// Responses that are being read, by number.
    open: BTreeMap<u64, Take>,
    begun: u64,
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
            open: BTreeMap::new(),
            begun: 0,
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

    /// Takes up a response, to be written when what this returns is dropped.
    fn begin(self: &Arc<Self>, take: Take) -> Reading {
        let mut state = self.lock();
        let number = state.begun;
        state.begun += 1;
        if state.file.is_some() {
            state.open.insert(number, take);
        }
        Reading {
            tape: self.clone(),
            number,
        }
    }

    fn finish(&self) -> Result<(), CassetteError> {
        let mut state = self.lock();
        while let Some((_, take)) = state.open.pop_first() {
            state.write(take);
        }
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

impl TapeState {
    fn write(&mut self, take: Take) {
        let Some(file) = &mut self.file else { return };
        match write_line(file, &take.into_exchange()) {
            Ok(()) => self.exchanges += 1,
            Err(error) => self.failed = Some(error.to_string()),
        }
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
        let reading = self.tape.begin(Take {
            scrubber: self.scrubber.clone(),
            request: recorded,
            status: response.status,
            headers: kept_headers(&response.headers),
            body: Vec::new(),
            end: End::Unread,
        });
        Ok(HttpResponse {
            body: reading.of(response.body),
            ..response
        })
    }
}

/// A response as far as it has been read.
struct Take {
    scrubber: Scrubber,
    request: RecordedRequest,
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    end: End,
}

impl Take {
    fn add(&mut self, item: Option<&Result<Bytes, TransportError>>) {
        match item {
            Some(Ok(bytes)) => self.body.extend_from_slice(bytes),
            Some(Err(_)) => self.end = End::Broken,
            None if self.end == End::Unread => self.end = End::Complete,
            None => {}
        }
    }

    fn into_exchange(self) -> Exchange {
        Exchange {
            request: self.request,
            response: RecordedResponse {
                status: self.status,
                headers: self.headers,
                body: RecordedBody::new(&self.body, &self.scrubber),
                end: self.end,
            },
        }
    }
}

/// Reads a response. The tape keeps what was read, so that it can be finished
/// before this is dropped.
struct Reading {
    tape: Arc<Tape>,
    number: u64,
}

impl Reading {
    fn of(self, body: BodyStream) -> BodyStream {
        Box::pin(futures::stream::unfold(
            (self, body),
            |(reading, mut body)| async {
                let item = body.next().await;
                if let Some(take) = reading.tape.lock().open.get_mut(&reading.number) {
                    take.add(item.as_ref());
                }
                Some((item?, (reading, body)))
            },
        ))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut state = self.tape.lock();
        if let Some(take) = state.open.remove(&self.number) {
            state.write(take);
        }
    }
}
