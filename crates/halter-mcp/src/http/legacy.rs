//! The transport of the first revision: an event stream that names the address
//! to post to, and brings all answers.

use super::events::events;
use super::failure::HttpFailure;
use super::request::{HttpClient, Request, failed, media_type, shown_media_type};
use crate::limits::{HTTP_ANSWER_WAIT, STRAY_LINES};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::common::http_header::{EVENT_STREAM_MIME_TYPE, JSON_MIME_TYPE};
use sse_stream::{Error as SseError, Sse};
use url::Url;

/// A connection of the older transport. It lasts as long as its event stream.
pub(crate) struct LegacySse {
    client: HttpClient,
    endpoint: Url,
    events: Option<BoxStream<'static, Result<Sse, SseError>>>,
}

impl LegacySse {
    /// Opens the event stream and waits for the address to post to.
    pub(crate) async fn open(client: HttpClient) -> Result<Self, HttpFailure> {
        let settings = client.settings();
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM_MIME_TYPE));
        let request = Request {
            method: Method::GET,
            url: settings.url.clone(),
            headers,
            body: Bytes::new(),
            answer_wait: Some(HTTP_ANSWER_WAIT),
        };
        let response = client.send(&request).await?;
        if !response.status().is_success() {
            return Err(failed(response).await);
        }
        if media_type(&response).as_deref() != Some(EVENT_STREAM_MIME_TYPE) {
            return Err(HttpFailure::ContentType(shown_media_type(&response)));
        }
        let closing = client.closing().clone();
        let mut events = events(response.bytes_stream(), settings.read_timeout, closing);
        let mut endpoint = None;
        // The start deadline of the server bounds this.
        while let Some(Ok(event)) = events.next().await {
            if event.event.as_deref() == Some("endpoint") {
                endpoint = event.data;
                break;
            }
        }
        let endpoint = endpoint.and_then(|path| settings.url.join(path.trim()).ok());
        // What we send, a token too, is for this server only.
        let own = endpoint.filter(|endpoint| endpoint.origin() == settings.url.origin());
        let endpoint = own.ok_or(HttpFailure::Endpoint)?;
        Ok(Self {
            client,
            endpoint,
            events: Some(events),
        })
    }
}

impl Transport<RoleClient> for LegacySse {
    type Error = HttpFailure;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), HttpFailure>> + Send + 'static {
        let (client, url) = (self.client.clone(), self.endpoint.clone());
        async move {
            let body = serde_json::to_vec(&message)
                .map_err(|error| HttpFailure::NoMessage(error.to_string()))?;
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_MIME_TYPE));
            let request = Request {
                method: Method::POST,
                url,
                headers,
                body: body.into(),
                answer_wait: Some(HTTP_ANSWER_WAIT),
            };
            let response = client.send(&request).await?;
            match response.status().is_success() {
                true => Ok(()),
                false => Err(failed(response).await),
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let mut stray = 0;
        let events = self.events.as_mut()?;
        loop {
            let Some(Ok(event)) = events.next().await else {
                let closing = self.client.closing();
                closing.close("its event stream ended".to_owned());
                return None;
            };
            let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
            let Some(data) = event.data.filter(|_| is_message) else {
                continue;
            };
            match serde_json::from_str(&data) {
                Ok(message) => return Some(message),
                Err(error) => {
                    stray += 1;
                    tracing::debug!(%error, "an event of a server is no message");
                }
            }
            if stray > STRAY_LINES {
                let closing = self.client.closing();
                closing.close(format!("it sent {stray} events that are no messages"));
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), HttpFailure> {
        self.events = None;
        Ok(())
    }
}
