//! One request: its headers, its token, and what its answer means.

use super::failure::HttpFailure;
use super::settings::{HttpSettings, shown_host};
use crate::auth::{AuthFailure, Authorization, Challenge};
use crate::limits::{HTTP_ANSWER_WAIT, HTTP_ERROR_BYTES, QUOTED_BYTES};
use crate::names::ServerName;
use crate::text::{plain, shortened};
use crate::transport::Closing;
use bytes::Bytes;
use reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE,
};
use reqwest::{Method, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use url::Url;

/// What one connection to a server sends its requests with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HttpClient(Arc<Shared>);

struct Shared {
    settings: HttpSettings,
    client: OnceCell<reqwest::Client>,
    /// None where the settings send an `Authorization` of their own.
    authorization: Option<Authorization>,
    closing: Closing,
    stream_opened: StreamOpened,
}

/// Told whenever the stream is open by which a server tells of its own accord
/// what has changed.
pub(crate) type StreamOpened = Arc<dyn Fn() + Send + Sync>;

/// A request without what all requests have.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// How long its answer may take to begin, where nobody else counts.
    pub(crate) answer_wait: Option<Duration>,
}

impl HttpClient {
    pub(crate) fn new(
        server: &ServerName,
        settings: &HttpSettings,
        closing: Closing,
        stream_opened: StreamOpened,
    ) -> Self {
        let own = settings.headers.contains_key(AUTHORIZATION);
        Self(Arc::new(Shared {
            settings: settings.clone(),
            client: OnceCell::new(),
            authorization: (!own).then(|| Authorization::new(server, settings)),
            closing,
            stream_opened,
        }))
    }

    pub(crate) fn settings(&self) -> &HttpSettings {
        &self.0.settings
    }

    pub(crate) fn closing(&self) -> &Closing {
        &self.0.closing
    }

    pub(crate) fn stream_is_open(&self) {
        (self.0.stream_opened)();
    }

    /// The host, for people.
    pub(crate) fn host(&self) -> String {
        self.0.settings.shown_host()
    }

    /// Sends a request, with a fresh token if the user has logged in. A token
    /// that is refused is renewed once.
    pub(crate) async fn send(&self, request: &Request) -> Result<Response, HttpFailure> {
        let Some(authorization) = &self.0.authorization else {
            let response = self.send_once(request, None).await?;
            return self.allowed(response).await;
        };
        let token = authorization.token().await?;
        let response = self.send_once(request, token.as_ref()).await?;
        let response = match (response.status(), token) {
            (StatusCode::UNAUTHORIZED, Some(refused)) => {
                match authorization.renewed(&refused).await? {
                    Some(token) => self.send_once(request, Some(&token)).await?,
                    None => response,
                }
            }
            _ => response,
        };
        self.allowed(response).await
    }

    async fn send_once(
        &self,
        request: &Request,
        token: Option<&SecretString>,
    ) -> Result<Response, HttpFailure> {
        let client = self.client().await?;
        let mut headers = self.0.settings.headers.clone();
        headers.extend(request.headers.clone());
        if let Some(token) = token {
            let bearer = format!("Bearer {}", token.expose_secret());
            let mut value = HeaderValue::from_str(&bearer)
                .map_err(|_| HttpFailure::Setup("the token cannot be sent".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let sending = client
            .request(request.method.clone(), request.url.clone())
            .headers(headers)
            .body(request.body.clone())
            .send();
        let sent = match request.answer_wait {
            Some(wait) => tokio::time::timeout(wait, sending)
                .await
                .map_err(|_| HttpFailure::TooSlow(wait.as_secs()))?,
            None => sending.await,
        };
        let response = sent.map_err(|error| {
            let failure = HttpFailure::of(&self.host(), &error);
            // It is gone, not busy: the supervisor looks when it is back.
            if matches!(failure, HttpFailure::Unreachable { .. }) {
                self.0.closing.close(failure.to_string());
            }
            failure
        })?;
        if response.url() != &request.url || response.status().is_redirection() {
            return Err(redirected(&response));
        }
        Ok(response)
    }

    /// The answer, unless the server wants somebody to log in.
    async fn allowed(&self, response: Response) -> Result<Response, HttpFailure> {
        let status = response.status();
        if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Ok(response);
        }
        let lacks = challenge_of(&response).filter(Challenge::wants_scope);
        let wanted = status == StatusCode::UNAUTHORIZED || lacks.is_some();
        match self.0.authorization.is_some() && wanted {
            true => {
                let url = &self.0.settings.url;
                let scope = lacks.and_then(|challenge| challenge.missing_scope(url));
                Err(AuthFailure::LoginNeeded { scope }.into())
            }
            false => Err(failed(response).await),
        }
    }

    pub(crate) async fn client(&self) -> Result<&reqwest::Client, HttpFailure> {
        let load = async || load_client(&self.0.settings).await;
        self.0.client.get_or_try_init(load).await
    }
}

/// Makes the client of a server.
pub(crate) async fn load_client(settings: &HttpSettings) -> Result<reqwest::Client, HttpFailure> {
    let load = Arc::clone(&settings.client);
    let loaded = tokio::task::spawn_blocking(move || load()).await;
    let loaded = loaded.map_err(|error| HttpFailure::Setup(error.to_string()))?;
    loaded.map_err(|error| HttpFailure::Setup(format!("{error:#}")))
}

/// What a server says it wants.
pub(crate) fn challenge_of(response: &Response) -> Option<Challenge> {
    let values = response.headers().get_all(WWW_AUTHENTICATE);
    let mut texts = values.iter().filter_map(|value| value.to_str().ok());
    texts
        .find(|text| text.len() <= QUOTED_BYTES && is_bearer(text))
        .map(Challenge::new)
}

fn is_bearer(challenge: &str) -> bool {
    let scheme = challenge.split_whitespace().next();
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"))
}

fn redirected(response: &Response) -> HttpFailure {
    let location = response.headers().get(LOCATION);
    let location = location.and_then(|value| value.to_str().ok());
    let target = location.and_then(|location| response.url().join(location).ok());
    let shown = match target {
        Some(url) if shown_host(&url) == shown_host(response.url()) => {
            format!("{}{}", shown_host(&url), url.path())
        }
        Some(url) => shown_host(&url),
        None => "nowhere".to_owned(),
    };
    HttpFailure::Redirected(shortened(&plain(&shown), QUOTED_BYTES))
}

/// An answer that says that something failed.
pub(super) async fn failed(response: Response) -> HttpFailure {
    let status = response.status().as_u16();
    let is_text = media_type(&response)
        .is_some_and(|kind| matches!(kind.as_str(), "text/plain" | "application/json"));
    // A page says nothing that fits into a line.
    let body = match is_text {
        true => error_text(&error_body(response).await),
        false => String::new(),
    };
    HttpFailure::Status { status, body }
}

/// The body of an error; nothing if it is too large or does not come.
pub(super) async fn error_body(response: Response) -> Vec<u8> {
    let read = body(response, HTTP_ERROR_BYTES, Some(HTTP_ANSWER_WAIT)).await;
    read.unwrap_or_default()
}

/// The beginning of the text of an error.
pub(super) fn error_text(body: &[u8]) -> String {
    let text = plain(&String::from_utf8_lossy(body));
    shortened(text.trim(), QUOTED_BYTES)
}

/// A body of at most `limit` bytes, of which no piece is waited for longer than
/// `wait`.
pub(super) async fn body(
    mut response: Response,
    limit: usize,
    wait: Option<Duration>,
) -> Result<Vec<u8>, HttpFailure> {
    let mut read = Vec::new();
    loop {
        let next = response.chunk();
        let next = match wait {
            Some(wait) => tokio::time::timeout(wait, next)
                .await
                .map_err(|_| HttpFailure::TooSlow(wait.as_secs()))?,
            None => next.await,
        };
        let next = next.map_err(|error| HttpFailure::Broken(super::failure::causes(&error)))?;
        let Some(piece) = next else {
            return Ok(read);
        };
        if read.len() + piece.len() > limit {
            return Err(HttpFailure::TooLarge(limit));
        }
        read.extend_from_slice(&piece);
    }
}

/// The kind of a body, without its parameters.
pub(super) fn media_type(response: &Response) -> Option<String> {
    let value = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = value.split(';').next()?.trim().to_ascii_lowercase();
    Some(kind)
}

/// The kind of a body as it is shown.
pub(super) fn shown_media_type(response: &Response) -> String {
    match media_type(response) {
        Some(kind) => format!("`{}`", crate::error::shown_name(&kind)),
        None => "a body of no kind".to_owned(),
    }
}
