//! One request to an authorization server, within bounds.

use crate::http::{HttpFailure, HttpSettings, is_loopback, load_client, shown_host};
use crate::limits::{OAUTH_BYTES, OAUTH_WAIT};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use tokio::sync::OnceCell;
use url::Url;

/// Sends the requests of a login.
pub(super) struct Fetch {
    settings: HttpSettings,
    client: OnceCell<reqwest::Client>,
}

/// A request of a login that is not made, or has no usable answer.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("{0} is not asked: tokens and codes go over https only, or stay on this machine")]
    Insecure(String),
    #[error("{0} did not answer within {secs} s", secs = OAUTH_WAIT.as_secs())]
    TooSlow(String),
    #[error("{0} sent more than {OAUTH_BYTES} bytes")]
    TooLarge(String),
    #[error(transparent)]
    Failed(#[from] HttpFailure),
    #[error("it cannot be asked: {0}")]
    Odd(String),
}

impl Fetch {
    pub(super) fn new(settings: &HttpSettings) -> Self {
        Self {
            settings: settings.clone(),
            client: OnceCell::new(),
        }
    }

    async fn fetch(&self, request: OAuthHttpRequest) -> Result<Answer, FetchError> {
        let (parts, body) = request.request.into_parts();
        let odd = |error: &dyn std::fmt::Display| FetchError::Odd(error.to_string());
        let url = Url::parse(&parts.uri.to_string()).map_err(|error| odd(&error))?;
        let host = shown_host(&url);
        if !is_safe(&url, &self.settings.url) {
            return Err(FetchError::Insecure(host));
        }
        let load = async || load_client(&self.settings).await;
        let client = self.client.get_or_try_init(load).await?;
        let sending = client
            .request(parts.method, url.clone())
            .headers(parts.headers)
            .body(body)
            .timeout(OAUTH_WAIT)
            .send();
        let failed = |error: reqwest::Error| match error.is_timeout() {
            true => FetchError::TooSlow(host.clone()),
            false => HttpFailure::of(&host, &error).into(),
        };
        // A redirect is an answer like others: whoever asked decides.
        let mut response = sending.await.map_err(failed)?;
        let mut read = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(failed)? {
            if read.len() + piece.len() > OAUTH_BYTES {
                return Err(FetchError::TooLarge(host));
            }
            read.extend_from_slice(&piece);
        }
        let mut answer = Answer::new(read);
        *answer.status_mut() = response.status();
        *answer.headers_mut() = response.headers().clone();
        Ok(answer)
    }
}

type Answer = hyper::Response<Vec<u8>>;

/// Whether codes and tokens may be sent to an address for a server. What is on
/// this machine is reached for servers on this machine only: another one could
/// have us ask what nobody outside can.
pub(super) fn is_safe(url: &Url, server: &Url) -> bool {
    match (is_loopback(url), is_loopback(server)) {
        (true, local) => local && matches!(url.scheme(), "http" | "https"),
        (false, _) => url.scheme() == "https",
    }
}

impl OAuthHttpClient for Fetch {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let fetched = self.fetch(request).await;
            fetched.map_err(|error| Box::new(error) as OAuthHttpClientError)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_tokens_go_over_https_or_stay_here() {
        let server = |text: &str| Url::parse(text).unwrap();
        for (url, of, meant) in [
            ("https://auth.example/token", "https://a.example", true),
            ("http://auth.example/token", "https://a.example", false),
            ("http://127.0.0.1:1/token", "https://a.example", false),
            ("https://127.0.0.1:1/token", "https://a.example", false),
            ("http://127.0.0.1:1/token", "http://localhost:2/mcp", true),
            ("http://auth.example/token", "http://localhost:2/mcp", false),
        ] {
            assert_eq!(is_safe(&server(url), &server(of)), meant, "{url} of {of}");
        }
    }
}
