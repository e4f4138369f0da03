//! From the bytes of a response to normalized events, whatever the wire and
//! however the bytes are cut.

use crate::limits::{ANSWER_BYTES, DOCUMENT_BYTES};
use crate::sse::{SseError, SseParser};
use crate::wire::{Decoder, SseEvent, Wire};
use halter_protocol::{ProviderError, ProviderErrorKind, StreamEvent};

/// Decodes one response as its bytes arrive.
pub struct ResponseDecoder {
    decoder: Box<dyn Decoder>,
    body: Body,
    bytes: usize,
    ended: bool,
}

enum Body {
    Events(SseParser),
    /// One JSON document, from a server that does not stream.
    Document(Vec<u8>),
}

/// What may go wrong between the bytes and the wire's decoder.
enum Failure {
    Sse(SseError),
    Wire(ProviderError),
}

impl From<SseError> for Failure {
    fn from(error: SseError) -> Self {
        Self::Sse(error)
    }
}

impl From<Failure> for ProviderError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Sse(error) => too_large(error.to_string()),
            Failure::Wire(error) => error,
        }
    }
}

impl ResponseDecoder {
    /// Decodes a stream of server-sent events.
    pub fn events(decoder: Box<dyn Decoder>) -> Self {
        Self::new(decoder, Body::Events(SseParser::new()))
    }

    /// Decodes a response that is one JSON document: it is given to the wire
    /// as the only event.
    pub fn document(decoder: Box<dyn Decoder>) -> Self {
        Self::new(decoder, Body::Document(Vec::new()))
    }

    fn new(decoder: Box<dyn Decoder>, body: Body) -> Self {
        Self {
            decoder,
            body,
            bytes: 0,
            ended: false,
        }
    }

    /// True if the answer has ended: what still comes is of no interest.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Takes the next bytes and appends what they mean. Events before an
    /// error are appended all the same.
    pub fn bytes(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.ended {
            return Ok(());
        }
        let before = out.len();
        let result = self.take(bytes, out);
        self.note_end(out.get(before..).unwrap_or(&[]));
        result.map_err(|error| self.fail(error))
    }

    fn take(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > ANSWER_BYTES {
            return Err(too_large(format!(
                "the server sent an answer of more than {ANSWER_BYTES} bytes"
            )));
        }
        match &mut self.body {
            Body::Document(document) if document.len() + bytes.len() > DOCUMENT_BYTES => {
                Err(too_large(format!(
                    "the server sent a document of more than {DOCUMENT_BYTES} bytes"
                )))
            }
            Body::Document(document) => {
                document.extend_from_slice(bytes);
                Ok(())
            }
            Body::Events(parser) => {
                let decoder = &mut self.decoder;
                parser
                    .feed(bytes, |event| {
                        decoder.event(event, out).map_err(Failure::Wire)
                    })
                    .map_err(ProviderError::from)
            }
        }
    }

    /// The response has ended. An error if the answer has not.
    pub fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.ended {
            return Ok(());
        }
        let before = out.len();
        let result = self.take_rest(out);
        self.note_end(out.get(before..).unwrap_or(&[]));
        let result = match result {
            _ if self.ended => return Ok(()),
            // The rest may be half an event: whether the answer had ended
            // before it says more than that the half cannot be read.
            Ok(()) | Err(Failure::Sse(_)) => self.decoder.end(out),
            Err(Failure::Wire(error)) => match self.decoder.end(out) {
                Err(cut_off) if error.status.is_none() && self.streams() => Err(cut_off),
                Err(_) => Err(error),
                Ok(()) => Ok(()),
            },
        };
        self.ended = true;
        result
    }

    fn streams(&self) -> bool {
        matches!(self.body, Body::Events(_))
    }

    fn take_rest(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Failure> {
        let decoder = &mut self.decoder;
        match &mut self.body {
            Body::Events(parser) => {
                parser.finish(|event| decoder.event(event, out).map_err(Failure::Wire))
            }
            Body::Document(document) => {
                let data = String::from_utf8_lossy(document);
                let event = SseEvent {
                    name: "",
                    data: &data,
                };
                decoder.event(&event, out).map_err(Failure::Wire)
            }
        }
    }

    fn note_end(&mut self, new: &[StreamEvent]) {
        self.ended |= new
            .iter()
            .any(|event| matches!(event, StreamEvent::MessageEnd { .. }));
    }

    fn fail(&mut self, error: ProviderError) -> ProviderError {
        self.ended = true;
        error
    }
}

fn too_large(message: String) -> ProviderError {
    ProviderError::new(message, ProviderErrorKind::Fatal)
}

/// Everything that the bytes of one response mean on a wire. Takes any bytes.
pub fn decode<'a>(
    wire: &dyn Wire,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<Result<StreamEvent, ProviderError>> {
    let mut decoder = ResponseDecoder::events(wire.decoder());
    let mut events = Vec::new();
    let result = pieces
        .into_iter()
        .try_for_each(|piece| decoder.bytes(piece, &mut events))
        .and_then(|()| decoder.end(&mut events));
    let events = events.into_iter().map(Ok);
    events.chain(result.err().map(Err)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::chat::{Chat, Dialect};

    const MEBIBYTE: usize = 1 << 20;

    fn decoder() -> Box<dyn Decoder> {
        Chat::new(Dialect::OPENAI).decoder()
    }

    #[test]
    fn an_answer_is_bounded() {
        let mut decoder = ResponseDecoder::events(decoder());
        let mut comment = vec![b':'; MEBIBYTE];
        comment[MEBIBYTE - 1] = b'\n';
        let mut out = Vec::new();
        for _ in 0..ANSWER_BYTES / MEBIBYTE {
            decoder.bytes(&comment, &mut out).unwrap();
        }
        let error = decoder.bytes(b":", &mut out).unwrap_err();
        assert_eq!(error.kind, ProviderErrorKind::Fatal);
        assert!(decoder.ended());
        assert_eq!(
            decoder.bytes(b"data: x\n\n", &mut out),
            Ok(()),
            "it is over"
        );
    }

    #[test]
    fn a_document_is_bounded() {
        let mut decoder = ResponseDecoder::document(decoder());
        let piece = vec![b' '; MEBIBYTE];
        let mut out = Vec::new();
        for _ in 0..DOCUMENT_BYTES / MEBIBYTE {
            decoder.bytes(&piece, &mut out).unwrap();
        }
        assert!(decoder.bytes(b" ", &mut out).is_err());
    }

    #[test]
    fn events_before_an_error_are_kept() {
        let start = br#"{"choices":[{"delta":{"content":"a"}}]}"#;
        let bytes = [b"data: ", &start[..], b"\n\ndata: oops\n\n"].concat();
        let items = decode(&Chat::new(Dialect::OPENAI), [bytes.as_slice()]);
        let (error, events) = items.split_last().unwrap();
        assert!(error.is_err());
        assert_eq!(events.len(), 3);
    }
}
