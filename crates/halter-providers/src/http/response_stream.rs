//! A response that is a success, as a stream of events.

use super::call_tool::Unwrapping;
use super::conversations::{SharedEncoder, Unsaid, lock};
use super::transport::{BodyStream, HttpResponse, TransportError};
use crate::catalog::{Catalog, Source};
use crate::decode::ResponseDecoder;
use crate::limits::{DRAIN_MILLIS, EMPTY_ANSWER_TOKENS};
use crate::provider::{EventStream, ProviderRequest};
use crate::secrets::Secrets;
use crate::tokens;
use crate::wire::{HeaderLookup as _, OutputWay, Wire};
use futures::StreamExt as _;
use halter_protocol::{ProviderError, ProviderErrorKind, StopReason, StreamEvent, Usage};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What an answer is made of.
pub(super) struct Answering {
    pub response: HttpResponse,
    pub wire: Arc<dyn Wire>,
    /// Knows tools by the names the service was told.
    pub encoder: SharedEncoder,
    pub unsaid: Unsaid,
    pub secrets: Secrets,
    pub catalog: Catalog,
    pub request: ProviderRequest,
    /// How a structured answer was asked for, if it was.
    pub asked: Option<OutputWay>,
    pub cancel: CancellationToken,
}

/// The events of the answer.
pub(super) fn answer(answering: Answering) -> EventStream {
    let content_type = answering
        .response
        .headers
        .header("content-type")
        .unwrap_or_default()
        .to_ascii_lowercase();
    if content_type.starts_with("text/html") {
        let error = web_page(answering.response.status);
        return Box::pin(futures::stream::iter([Err(error)]));
    }
    let decoder = answering.wire.decoder();
    let decoder = match content_type.contains("json") {
        true => ResponseDecoder::document(decoder),
        false => ResponseDecoder::events(decoder),
    };
    let state = State {
        request_id: answering.response.headers.request_id().map(str::to_owned),
        body: Some(answering.response.body),
        decoder,
        ready: VecDeque::new(),
        failed: None,
        encoder: answering.encoder,
        unsaid: answering.unsaid,
        unwrapping: Unwrapping::new(&answering.request.tools),
        secrets: answering.secrets,
        catalog: answering.catalog,
        request: answering.request,
        asked: answering.asked,
        seen: Seen::default(),
        cancel: answering.cancel,
    };
    Box::pin(futures::stream::unfold(state, |mut state| async {
        let item = state.next().await?;
        Some((item, state))
    }))
}

struct State {
    body: Option<BodyStream>,
    decoder: ResponseDecoder,
    ready: VecDeque<StreamEvent>,
    /// What ends the stream once `ready` is empty.
    failed: Option<ProviderError>,
    encoder: SharedEncoder,
    unsaid: Unsaid,
    unwrapping: Unwrapping,
    secrets: Secrets,
    catalog: Catalog,
    request: ProviderRequest,
    asked: Option<OutputWay>,
    seen: Seen,
    request_id: Option<String>,
    cancel: CancellationToken,
}

/// What of an answer has been seen.
#[derive(Default)]
struct Seen {
    start: bool,
    /// Text, reasoning or a call.
    content: bool,
    usage: Option<Usage>,
    call: bool,
    /// The text so far, where a structured answer was asked for.
    text: String,
}

impl State {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if self.body.is_none() && self.ready.is_empty() && self.failed.is_none() {
                return None;
            }
            if self.cancel.is_cancelled() {
                return self.stop_cancelled();
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if let Some(error) = self.failed.take() {
                self.body = None;
                return Some(Err(error));
            }
            if self.decoder.ended() {
                self.drain().await;
                return None;
            }
            self.read().await;
        }
    }

    /// An answer that had ended is not cancelled any more.
    fn stop_cancelled(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        self.body = None;
        self.failed = None;
        let done = self.decoder.ended() && self.ready.is_empty();
        self.ready.clear();
        (!done).then(|| Err(ProviderError::cancelled()))
    }

    async fn read(&mut self) {
        let Some(body) = &mut self.body else {
            return;
        };
        let piece = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return,
            piece = body.next() => piece,
        };
        let mut events = Vec::new();
        let result = match piece {
            Some(Ok(bytes)) => self.decoder.bytes(&bytes, &mut events),
            Some(Err(error)) => self.broken(error, &mut events),
            None => {
                self.body = None;
                let ended = self.decoder.end(&mut events);
                ended.map_err(|error| match self.seen.start || !events.is_empty() {
                    true => error,
                    false => self.overflow().unwrap_or(error),
                })
            }
        };
        for event in events {
            if let Some(overflow) = self.overflow_instead_of(&event) {
                self.failed = Some(self.finish_error(overflow));
                self.body = None;
                return;
            }
            self.push(event);
        }
        if let Err(error) = result {
            self.failed = Some(self.finish_error(error));
        }
    }

    /// A connection that breaks after the wire's own end has harmed nothing.
    fn broken(
        &mut self,
        error: TransportError,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        self.body = None;
        self.decoder.end(events).map_err(|_| error.into())
    }

    fn push(&mut self, event: StreamEvent) {
        let starts = matches!(event, StreamEvent::MessageStart { .. });
        self.look_at(&event);
        let event = match event {
            StreamEvent::ToolCallStart {
                id,
                tool_call_id,
                name,
            } => {
                let encoder = lock(&self.encoder);
                StreamEvent::ToolCallStart {
                    name: encoder.tool_name(name.as_str()).unwrap_or(name),
                    id,
                    tool_call_id,
                }
            }
            StreamEvent::UsageUpdate { usage } => StreamEvent::UsageUpdate {
                usage: self.catalog.priced(usage, &self.request.model),
            },
            event => event,
        };
        for event in self.unwrapping.take(event) {
            self.ready.push_back(self.secrets.scrub_event(event));
        }
        if starts {
            let unsaid = std::mem::take(&mut *lock(&self.unsaid));
            for message in unsaid {
                let warning = StreamEvent::ProviderWarning { message };
                self.ready.push_back(self.secrets.scrub_event(warning));
            }
        }
    }

    /// Takes note of what an event says of the server.
    fn look_at(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::MessageStart { .. } => {
                self.seen.start = true;
            }
            StreamEvent::UsageUpdate { usage } => self.seen.usage = Some(*usage),
            StreamEvent::ToolCallStart { .. } => {
                self.seen.call = true;
                self.note_content();
            }
            StreamEvent::ThinkingStart { .. } => self.note_content(),
            StreamEvent::TextDelta { delta, .. } => {
                self.note_content();
                if self.asked.is_some() {
                    self.seen.text.push_str(delta);
                }
            }
            StreamEvent::MessageEnd { stop_reason, .. } => {
                if let Some(way) = self.asked
                    && *stop_reason == StopReason::EndTurn
                    && !self.seen.call
                    && !is_json(&self.seen.text)
                {
                    self.catalog.learn_ignored(&self.request.model, way);
                }
                if self.seen.usage.is_none() {
                    let usage = Usage::unknown();
                    self.ready.push_back(StreamEvent::UsageUpdate { usage });
                }
            }
            _ => {}
        }
    }

    fn note_content(&mut self) {
        if !std::mem::replace(&mut self.seen.content, true) {
            self.catalog.note_answer(&self.request.model, false);
        }
    }

    /// The error that stands for the end of an answer without content. A model
    /// that chose to say nothing has written a token or two.
    fn overflow_instead_of(&self, event: &StreamEvent) -> Option<ProviderError> {
        let ends = matches!(
            event,
            StreamEvent::MessageEnd {
                stop_reason: StopReason::EndTurn | StopReason::MaxTokens,
                ..
            }
        );
        let wrote = |usage: Usage| usage.output_tokens > 0;
        match ends && !self.seen.content && !self.seen.usage.is_some_and(wrote) {
            true => self.overflow(),
            false => None,
        }
    }

    /// What an answer without content means, if the conversation cannot fit:
    /// some servers end the response to one that is too long before it begins.
    fn overflow(&self) -> Option<ProviderError> {
        let model = &self.request.model;
        let again = self.catalog.note_answer(model, true);
        let window = self.catalog.facts(model).context_window;
        let tokens = tokens::of_request(&self.request);
        let too_long = match window.source {
            Source::Default => again && tokens >= EMPTY_ANSWER_TOKENS,
            // The count is rough.
            _ => tokens >= u64::from(window.value) / 4 * 3,
        };
        too_long.then(|| {
            ProviderError::new(
                format!(
                    "the server answered with nothing to a conversation of about {tokens} \
                     tokens, which is most likely too long for it"
                ),
                ProviderErrorKind::ContextOverflow,
            )
            .with_hint("compact the conversation, or use a model with a larger window")
        })
    }

    fn finish_error(&self, error: ProviderError) -> ProviderError {
        if error.kind == ProviderErrorKind::ContextOverflow {
            self.catalog
                .learn_from_overflow(&self.request.model, &error.message);
        }
        let error = match (&error.request_id, &self.request_id) {
            (None, Some(id)) => error.with_request_id(id.clone()),
            _ => error,
        };
        self.secrets.scrub_error(error)
    }

    /// Reads to the end of the response, so that its connection can carry the
    /// next request, if that is a matter of moments.
    async fn drain(&mut self) {
        let Some(mut body) = self.body.take() else {
            return;
        };
        let rest = async { while let Some(Ok(_)) = body.next().await {} };
        let patience = Duration::from_millis(DRAIN_MILLIS);
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => {}
            _ = tokio::time::timeout(patience, rest) => {}
        }
    }
}

/// True if a text is JSON, fenced as code or not.
fn is_json(text: &str) -> bool {
    let text = text.trim();
    let inside = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .map(|fenced| fenced.trim_start_matches(|c: char| c.is_ascii_alphanumeric()));
    serde_json::from_str::<serde::de::IgnoredAny>(inside.unwrap_or(text)).is_ok()
}

fn web_page(status: u16) -> ProviderError {
    ProviderError::new(
        "the server answered with a web page instead of a model's answer",
        ProviderErrorKind::Fatal,
    )
    .with_status(status)
    .with_hint("check the provider's base_url")
}
