//! The transport of current revisions. The library keeps sessions and streams;
//! requests and their bounds are ours.

use super::events::events;
use super::failure::HttpFailure;
use super::request::{
    HttpClient, Request, body, error_body, error_text, failed, media_type, shown_media_type,
};
use crate::limits::{
    EVENT_RETRY_MAX, EVENT_RETRY_MIN, FIRST_STREAM_WAIT, HTTP_ANSWER_WAIT, QUOTED_BYTES,
    SERVER_MESSAGE_BYTES,
};
use crate::text::{plain, shortened};
use bytes::Bytes;
use futures::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransport,
    StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

type Error = StreamableHttpError<HttpFailure>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// The way to a server, as the library wants it.
pub(crate) fn streamable(client: HttpClient) -> StreamableHttpClientTransport<Streamable> {
    let url = client.settings().url.to_string();
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    let mut backoff = ExponentialBackoff::default();
    backoff.max_delay = Some(EVENT_RETRY_MAX);
    config.retry_config = Arc::new(backoff);
    let streamable = Streamable {
        client,
        has_streamed: Arc::default(),
        stream_is_known: Arc::default(),
    };
    StreamableHttpClientTransport::with_client(streamable, config)
}

/// Sends the requests of the library.
#[derive(Clone)]
pub(crate) struct Streamable {
    client: HttpClient,
    /// Whether the server has opened an event stream in this session.
    has_streamed: Arc<AtomicBool>,
    /// Whether the server has answered when it was asked for that stream.
    stream_is_known: Arc<watch::Sender<bool>>,
}

impl Streamable {
    fn request(
        &self,
        method: Method,
        accept: &str,
        session: Option<&str>,
        own: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Request, HttpFailure> {
        let mut headers: HeaderMap = own.into_iter().collect();
        headers.insert(ACCEPT, value(accept)?);
        if let Some(session) = session {
            headers.insert(header_name(HEADER_SESSION_ID)?, value(session)?);
        }
        Ok(Request {
            method,
            url: self.client.settings().url.clone(),
            headers,
            body: Bytes::new(),
            answer_wait: Some(HTTP_ANSWER_WAIT),
        })
    }

    fn events(&self, response: Response) -> Events {
        let settings = self.client.settings();
        let closing = self.client.closing().clone();
        events(response.bytes_stream(), settings.read_timeout, closing)
    }

    /// Opens an event stream. The library asks for the first of a session once:
    /// for a server that is busy then, it is asked for again.
    async fn open(
        &self,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Error> {
        // One that names an event is the rest of the answer to a call, or of a
        // stream that begins where it broke off.
        let begins = last_event.is_none();
        let mut pause = EVENT_RETRY_MIN;
        loop {
            let opened = self.open_once(session.as_deref(), last_event.clone(), headers.clone());
            let opened = opened.await;
            if begins {
                self.stream_is_known.send_replace(true);
            }
            match opened {
                Err(Error::Client(failure))
                    if begins && failure.is_passing() && !self.client.closing().is_closed() =>
                {
                    tracing::debug!(%failure, "an event stream of a server is not open yet");
                }
                Ok(events) => {
                    if begins {
                        self.client.stream_is_open();
                    }
                    return Ok(events);
                }
                other => return other,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(EVENT_RETRY_MAX);
        }
    }

    /// What a server asks during a call may come by the session's event stream,
    /// and is lost where that is not open yet.
    async fn wait_for_stream(&self) {
        let mut known = self.stream_is_known.subscribe();
        let answered = known.wait_for(|known| *known);
        let waited = tokio::time::timeout(FIRST_STREAM_WAIT, answered).await;
        if waited.is_err() {
            // Other calls need not wait for it again.
            self.stream_is_known.send_replace(true);
        }
    }

    async fn open_once(
        &self,
        session: Option<&str>,
        last_event: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Error> {
        let request = self.request(Method::GET, EVENT_STREAM_MIME_TYPE, session, headers);
        let mut request = request.map_err(Error::Client)?;
        if let Some(id) = last_event {
            let name = header_name(HEADER_LAST_EVENT_ID).map_err(Error::Client)?;
            let id = value(&id).map_err(Error::Client)?;
            request.headers.insert(name, id);
        }
        let response = self.client.send(&request).await.map_err(Error::Client)?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                return Err(Error::ServerDoesNotSupportSse);
            }
            // Its first answer was a stream: now it has forgotten the session.
            StatusCode::NOT_FOUND if self.has_streamed.load(Ordering::Relaxed) => {
                let closing = self.client.closing();
                closing.close("it has ended the session, which begins anew".to_owned());
                return Err(Error::SessionExpired);
            }
            // Some have no such address at all.
            StatusCode::NOT_FOUND => return Err(Error::ServerDoesNotSupportSse),
            status if !status.is_success() => return Err(Error::Client(failed(response).await)),
            _ => {}
        }
        if media_type(&response).as_deref() != Some(EVENT_STREAM_MIME_TYPE) {
            let kind = shown_media_type(&response);
            return Err(Error::Client(HttpFailure::ContentType(kind)));
        }
        self.has_streamed.store(true, Ordering::Relaxed);
        Ok(self.events(response))
    }

    async fn post(
        &self,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let accept = format!("{JSON_MIME_TYPE}, {EVENT_STREAM_MIME_TYPE}");
        let request = self.request(Method::POST, &accept, session.as_deref(), headers);
        let mut request = request.map_err(Error::Client)?;
        request
            .headers
            .insert(CONTENT_TYPE, HeaderValue::from_static(JSON_MIME_TYPE));
        request.body = serde_json::to_vec(&message)?.into();
        if matches!(message, ClientJsonRpcMessage::Request(_)) {
            // The answer may begin when the work is done: its caller counts.
            request.answer_wait = None;
        }
        if session.is_some() && is_call(&message) {
            self.wait_for_stream().await;
        }
        let response = self.client.send(&request).await.map_err(Error::Client)?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            self.has_streamed.store(false, Ordering::Relaxed);
            self.stream_is_known.send_replace(false);
            return Err(Error::SessionExpired);
        }
        if !status.is_success() {
            return self.refused(&message, session.is_some(), response).await;
        }
        self.accepted(&message, response).await
    }

    /// What a successful answer holds.
    async fn accepted(
        &self,
        message: &ClientJsonRpcMessage,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let session = response.headers().get(HEADER_SESSION_ID);
        let session = session.and_then(|value| value.to_str().ok());
        let session = session.map(str::to_owned);
        let asked = request_id(message);
        match media_type(&response).as_deref() {
            Some(EVENT_STREAM_MIME_TYPE) => Ok(StreamableHttpPostResponse::Sse(
                self.events(response),
                session,
            )),
            Some(JSON_MIME_TYPE) => {
                let wait = asked.is_none().then_some(HTTP_ANSWER_WAIT);
                let body = body(response, SERVER_MESSAGE_BYTES, wait).await;
                let body = body.map_err(Error::Client)?;
                let Some(asked) = asked else {
                    // Whoever was only told something has nothing to answer.
                    return Ok(StreamableHttpPostResponse::Accepted);
                };
                let answer = answer(&body, asked).map_err(Error::Client)?;
                Ok(StreamableHttpPostResponse::Json(answer, session))
            }
            _ if asked.is_none() => Ok(StreamableHttpPostResponse::Accepted),
            _ => {
                let kind = shown_media_type(&response);
                Err(Error::Client(HttpFailure::ContentType(kind)))
            }
        }
    }

    /// What an answer with the status of an error means.
    async fn refused(
        &self,
        message: &ClientJsonRpcMessage,
        in_session: bool,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let status = response.status();
        let Some(id) = request_id(message) else {
            return Err(Error::Client(failed(response).await));
        };
        let is_json = media_type(&response).as_deref() == Some(JSON_MIME_TYPE);
        if is_json {
            let body = error_body(response).await;
            if let Ok(ServerJsonRpcMessage::Error(error)) = serde_json::from_slice(&body) {
                let error = ServerJsonRpcMessage::error(error.error, Some(id.clone()));
                return Ok(StreamableHttpPostResponse::Json(error, None));
            }
            if is_unknown_question(message, in_session, status) {
                return Ok(unknown_question(id, status));
            }
            let (status, body) = (status.as_u16(), error_text(&body));
            return Err(Error::Client(HttpFailure::Status { status, body }));
        }
        if is_unknown_question(message, in_session, status) {
            return Ok(unknown_question(id, status));
        }
        Err(Error::Client(failed(response).await))
    }
}

/// Whether a server refuses the first question of the newest revision because
/// it does not know it.
fn is_unknown_question(
    message: &ClientJsonRpcMessage,
    in_session: bool,
    status: StatusCode,
) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else {
        return false;
    };
    let first = matches!(request.request, ClientRequest::DiscoverRequest(_));
    let of_access = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    first && !in_session && status.is_client_error() && !of_access
}

/// Such an answer in words that have the library begin with an older revision.
fn unknown_question(id: &RequestId, status: StatusCode) -> StreamableHttpPostResponse {
    let error = ErrorData::invalid_request(format!("HTTP {}", status.as_u16()), None);
    let error = ServerJsonRpcMessage::error(error, Some(id.clone()));
    StreamableHttpPostResponse::Json(error, None)
}

fn is_call(message: &ClientJsonRpcMessage) -> bool {
    match message {
        ClientJsonRpcMessage::Request(request) => {
            matches!(request.request, ClientRequest::CallToolRequest(_))
        }
        _ => false,
    }
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}

/// The answer to a request, which is to it and no other.
fn answer(body: &[u8], asked: &RequestId) -> Result<ServerJsonRpcMessage, HttpFailure> {
    let message: ServerJsonRpcMessage = serde_json::from_slice(body).map_err(|error| {
        let reason = shortened(&plain(&error.to_string()), QUOTED_BYTES);
        HttpFailure::NoMessage(reason)
    })?;
    match message {
        ServerJsonRpcMessage::Response(response) => {
            // Some write numbers as texts.
            match response.id.to_string() == asked.to_string() {
                true => Ok(ServerJsonRpcMessage::Response(response)),
                false => Err(HttpFailure::WrongId),
            }
        }
        ServerJsonRpcMessage::Error(error) => match &error.id {
            Some(id) if id.to_string() != asked.to_string() => Err(HttpFailure::WrongId),
            // One that does not say to what it answers can only mean this.
            _ => Ok(ServerJsonRpcMessage::error(
                error.error,
                Some(asked.clone()),
            )),
        },
        _ => Err(HttpFailure::NoMessage("it is no answer".to_owned())),
    }
}

fn value(text: &str) -> Result<HeaderValue, HttpFailure> {
    HeaderValue::from_str(text)
        .map_err(|_| HttpFailure::NoMessage("its session or event has an odd name".to_owned()))
}

fn header_name(name: &str) -> Result<HeaderName, HttpFailure> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|error| HttpFailure::Setup(error.to_string()))
}

// The library passes an address and a token of its own, which are those of the
// settings and none.
impl StreamableHttpClient for Streamable {
    type Error = HttpFailure;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        self.post(message, session_id, custom_headers).await
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        let gone = self.client.closing().is_closed();
        if gone || !self.client.settings().end_session {
            return Ok(());
        }
        let session = Some(session_id.as_ref());
        let request = self.request(Method::DELETE, JSON_MIME_TYPE, session, custom_headers);
        let request = request.map_err(Error::Client)?;
        // Whether it minds is its own affair.
        self.client.send(&request).await.map_err(Error::Client)?;
        Ok(())
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Error> {
        self.open(session_id, last_event_id, custom_headers).await
    }
}
