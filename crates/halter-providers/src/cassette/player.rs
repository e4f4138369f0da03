//! Plays traffic back.

use super::difference::first_difference;
use super::directory::Surroundings;
use super::exchange::{
    End, Exchange, Header, RecordedBody, RecordedRequest, RecordedResponse, VERSION,
};
use super::{CassetteError, Scrubber};
use crate::http::{HttpRequest, HttpResponse, ResponseHeaders, Transport, TransportError};
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A transport that answers from a cassette and never reaches a server.
///
/// A request is answered by the first recorded exchange with the same method,
/// path and body that was not played yet. One that has none fails with the
/// first difference to the next exchange.
#[derive(Debug)]
pub struct Player {
    path: String,
    scrubber: Scrubber,
    exchanges: Mutex<Vec<Recorded>>,
}

#[derive(Debug)]
struct Recorded {
    /// As it is compared: without what names the directory.
    request: RecordedRequest,
    surroundings: Option<Surroundings>,
    response: RecordedResponse,
    played: bool,
}

/// What the harness was set up with when it made a recording; none in one of
/// an earlier version.
pub fn made_with(file: &Path) -> Result<Option<Value>, CassetteError> {
    let path = file.display().to_string();
    let mut line = String::new();
    let read = File::open(file).and_then(|file| BufReader::new(file).read_line(&mut line));
    match read {
        Ok(_) => Ok(header(&path, Some(&line))?.made_with),
        Err(source) => Err(CassetteError::Read { path, source }),
    }
}

/// The first line of a cassette.
fn header(path: &str, line: Option<&str>) -> Result<Header, CassetteError> {
    let message = match line.map(serde_json::from_str::<Header>) {
        Some(Ok(header)) if header.cassette == VERSION => return Ok(header),
        Some(Ok(header)) => format!("its version is {}, not {VERSION}", header.cassette),
        _ => "it is no header of a cassette".to_owned(),
    };
    Err(CassetteError::Damaged {
        path: path.to_owned(),
        line: 1,
        message,
    })
}

/// A request without what names its directory, and what that is.
fn compared(request: RecordedRequest) -> (RecordedRequest, Option<Surroundings>) {
    let RecordedBody::Text(body) = &request.body else {
        return (request, None);
    };
    match Surroundings::of(body) {
        Some(surroundings) => {
            let body = RecordedBody::Text(surroundings.taken_out(body));
            (RecordedRequest { body, ..request }, Some(surroundings))
        }
        None => (request, None),
    }
}

impl Player {
    /// Reads a cassette.
    pub fn open(file: &Path, scrubber: Scrubber) -> Result<Self, CassetteError> {
        let path = file.display().to_string();
        match std::fs::read_to_string(file) {
            Ok(text) => Self::read(path, &text, scrubber),
            Err(source) => Err(CassetteError::Read { path, source }),
        }
    }

    fn read(path: String, text: &str, scrubber: Scrubber) -> Result<Self, CassetteError> {
        let mut lines = text.lines();
        header(&path, lines.next())?;
        let mut exchanges = Vec::new();
        for (index, line) in lines.enumerate() {
            let exchange: Exchange =
                serde_json::from_str(line).map_err(|error| CassetteError::Damaged {
                    path: path.clone(),
                    line: index + 2,
                    message: error.to_string(),
                })?;
            let (request, surroundings) = compared(exchange.request);
            exchanges.push(Recorded {
                request,
                surroundings,
                response: exchange.response,
                played: false,
            });
        }
        Ok(Self {
            path,
            scrubber,
            exchanges: Mutex::new(exchanges),
        })
    }

    /// How many exchanges were not played.
    pub fn left(&self) -> usize {
        let exchanges = self.lock();
        exchanges.iter().filter(|recorded| !recorded.played).count()
    }

    fn find(&self, sent: RecordedRequest) -> Result<HttpResponse, TransportError> {
        let (sent, now) = compared(sent);
        let mut exchanges = self.lock();
        let found = exchanges
            .iter_mut()
            .find(|recorded| !recorded.played && recorded.request == sent);
        if let Some(recorded) = found {
            recorded.played = true;
            return response(recorded, now.as_ref());
        }
        let total = exchanges.len();
        let next = exchanges
            .iter()
            .enumerate()
            .find(|(_, recorded)| !recorded.played);
        let message = match next {
            Some((index, recorded)) => format!(
                "the cassette '{}' has no answer to this request; \
                 the first difference to exchange {} of {total}: {}",
                self.path,
                index + 1,
                first_difference(&recorded.request, &sent)
            ),
            None => format!(
                "the cassette '{}' has no answer to this request: all {total} exchanges are played",
                self.path
            ),
        };
        Err(TransportError::Cassette { message })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Recorded>> {
        self.exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Transport for Player {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        self.find(RecordedRequest::new(&request, &self.scrubber))
    }
}

/// The recorded answer, in which the directory of the recording is that of
/// the replay.
fn response(
    recorded: &Recorded,
    now: Option<&Surroundings>,
) -> Result<HttpResponse, TransportError> {
    let Recorded {
        surroundings,
        response: recorded,
        ..
    } = recorded;
    let moved = match (&recorded.body, surroundings, now) {
        (RecordedBody::Text(text), Some(then), Some(now)) => {
            RecordedBody::Text(then.moved_to(now, text))
        }
        (body, ..) => body.clone(),
    };
    let body = moved.bytes().ok_or_else(|| TransportError::Cassette {
        message: "a recorded body is not base64".to_owned(),
    })?;
    let broken = (recorded.end == End::Broken).then(|| {
        Err(TransportError::Broken {
            message: "as recorded".to_owned(),
        })
    });
    let pieces = std::iter::once(Ok(Bytes::from(body))).chain(broken);
    let pieces: Vec<_> = pieces.collect();
    Ok(HttpResponse {
        status: recorded.status,
        headers: ResponseHeaders(recorded.headers.clone()),
        body: Box::pin(futures::stream::iter(pieces)),
    })
}
