//! Plays traffic back.

use super::difference::first_difference;
use super::exchange::{End, Exchange, Header, RecordedRequest, RecordedResponse, VERSION};
use super::{CassetteError, Scrubber};
use crate::http::{HttpRequest, HttpResponse, ResponseHeaders, Transport, TransportError};
use async_trait::async_trait;
use bytes::Bytes;
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
    exchange: Exchange,
    played: bool,
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
        let damaged = |line: usize, message: String| CassetteError::Damaged {
            path: path.clone(),
            line,
            message,
        };
        let mut lines = text.lines();
        let header = lines.next().map(serde_json::from_str::<Header>);
        match header {
            Some(Ok(header)) if header.cassette == VERSION => {}
            Some(Ok(header)) => {
                let message = format!("its version is {}, not {VERSION}", header.cassette);
                return Err(damaged(1, message));
            }
            _ => return Err(damaged(1, "it is no header of a cassette".to_owned())),
        }
        let mut exchanges = Vec::new();
        for (index, line) in lines.enumerate() {
            let exchange = serde_json::from_str(line)
                .map_err(|error| damaged(index + 2, error.to_string()))?;
            exchanges.push(Recorded {
                exchange,
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

    fn find(&self, sent: &RecordedRequest) -> Result<HttpResponse, TransportError> {
        let mut exchanges = self.lock();
        let found = exchanges
            .iter_mut()
            .find(|recorded| !recorded.played && recorded.exchange.request == *sent);
        if let Some(recorded) = found {
            recorded.played = true;
            return response(&recorded.exchange.response);
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
                first_difference(&recorded.exchange.request, sent)
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
        self.find(&RecordedRequest::new(&request, &self.scrubber))
    }
}

fn response(recorded: &RecordedResponse) -> Result<HttpResponse, TransportError> {
    let body = recorded
        .body
        .bytes()
        .ok_or_else(|| TransportError::Cassette {
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
