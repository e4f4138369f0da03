//! The token of the next request: the one that is kept, or a new one for it
//! before it expires.

use super::fetch::Fetch;
use super::settings::OAuthSettings;
use super::store::{Kept, ServerTokens};
use crate::http::{HttpSettings, is_loopback};
use crate::limits::{HTTP_RETRY_PAUSE, LOGIN_POLL, QUOTED_BYTES, TOKEN_MARGIN};
use crate::names::ServerName;
use crate::text::{plain, shortened};
use oauth2::TokenResponse;
use rmcp::transport::auth::{AuthError, AuthorizationManager, OAuthClientConfig};
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Url;

/// Why a request has no token that the server takes.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum AuthFailure {
    #[error("it wants its user to log in")]
    LoginNeeded {
        /// The rights that the token lacks, where it lacks only some.
        scope: Option<String>,
    },
    #[error("its token cannot be renewed: {0}")]
    NotRenewed(String),
    #[error("{0}")]
    Store(String),
}

/// The tokens of one server, as requests use them.
pub(crate) struct Authorization {
    settings: HttpSettings,
    /// None where tokens may not be sent, or are kept nowhere.
    tokens: Option<ServerTokens>,
    /// One request renews, the others wait for it.
    renewing: Mutex<()>,
}

impl Authorization {
    pub(crate) fn new(server: &ServerName, settings: &HttpSettings) -> Self {
        let url = &settings.url;
        let store = settings.oauth.store.as_ref().filter(|_| may_send(url));
        Self {
            settings: settings.clone(),
            tokens: store.map(|store| store.of(server, url)),
            renewing: Mutex::new(()),
        }
    }

    /// The token to send, renewed if it is about to expire; none if nobody has
    /// logged in.
    pub(crate) async fn token(&self) -> Result<Option<SecretString>, AuthFailure> {
        let Some(tokens) = &self.tokens else {
            return Ok(None);
        };
        match self.usable(tokens).await? {
            Usable::None => Ok(None),
            Usable::Fresh(token) => Ok(Some(token)),
            Usable::Stale(token) => self.renewed(&token).await,
        }
    }

    /// A token in place of one that expires or was refused; none if there can
    /// be none without a login.
    pub(crate) async fn renewed(
        &self,
        old: &SecretString,
    ) -> Result<Option<SecretString>, AuthFailure> {
        let Some(tokens) = &self.tokens else {
            return Ok(None);
        };
        let _renewing = self.renewing.lock().await;
        let kept = tokens.kept().await.map_err(AuthFailure::Store)?;
        let Some(kept) = kept else {
            return Ok(None);
        };
        // Somebody was faster: another request, another process, a login.
        if let Usable::Fresh(token) = usable(&kept)
            && token.expose_secret() != old.expose_secret()
        {
            return Ok(Some(token));
        }
        match self.renew(tokens, &kept).await {
            Ok(token) => Ok(Some(token)),
            Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => Ok(None),
            Err(AuthError::TokenRefreshFailed(reason)) if is_final(&reason) => Ok(None),
            Err(error) => Err(AuthFailure::NotRenewed(explained(&error))),
        }
    }

    async fn renew(&self, tokens: &ServerTokens, kept: &Kept) -> Result<SecretString, AuthError> {
        let credentials = &kept.credentials;
        let refreshable = credentials.token_response.as_ref();
        if refreshable.is_none_or(|it| it.refresh_token().is_none()) {
            return Err(AuthError::AuthorizationRequired);
        }
        let mut manager = manager(&self.settings, tokens).await?;
        let mut metadata = manager.resolve_metadata().await?.metadata;
        // The library would ask for `offline_access` where it is offered, and a
        // server may refuse to renew for more than it has granted.
        metadata.scopes_supported = None;
        manager.set_metadata(metadata);
        // Tokens of another authorization server are not shown to this one.
        if !manager.initialize_from_store().await? {
            return Err(AuthError::AuthorizationRequired);
        }
        let oauth = &self.settings.oauth;
        if let Some(secret) = secret_of(oauth, kept) {
            let own = OAuthClientConfig::new(&credentials.client_id, self.settings.url.as_str());
            manager.configure_client(own.with_client_secret(secret.expose_secret()))?;
        }
        let renewed = manager.refresh_token().await?;
        Ok(renewed.access_token().secret().clone().into())
    }

    async fn usable(&self, tokens: &ServerTokens) -> Result<Usable, AuthFailure> {
        let kept = tokens.kept().await.map_err(AuthFailure::Store)?;
        Ok(kept.map_or(Usable::None, |kept| usable(&kept)))
    }
}

/// Returns when a server that could not be used may be usable: its user has
/// logged in, or some time has passed.
pub(crate) async fn worth_trying(server: &ServerName, settings: &HttpSettings) {
    let store = settings.oauth.store.as_ref();
    let changes = store.map(|store| store.of(server, &settings.url));
    let until = Instant::now() + HTTP_RETRY_PAUSE;
    let before = match &changes {
        Some(tokens) => tokens.changed().await,
        None => None,
    };
    while Instant::now() < until {
        tokio::time::sleep(LOGIN_POLL).await;
        if let Some(tokens) = &changes
            && tokens.changed().await != before
        {
            return;
        }
    }
}

/// Whether an authorization server has said no, rather than nothing. The
/// library keeps only the text of such an answer.
fn is_final(reason: &str) -> bool {
    let codes = ["invalid_client", "unauthorized_client", "invalid_scope"];
    codes.iter().any(|code| reason.contains(code))
}

/// The secret of the client that tokens were given to.
fn secret_of(oauth: &OAuthSettings, kept: &Kept) -> Option<SecretString> {
    let client = Some(kept.credentials.client_id.as_str());
    match oauth.client_id.as_deref() == client {
        true => oauth.client_secret.clone(),
        false => kept.client_secret(),
    }
}

/// Whether a token may be sent to an address.
pub(super) fn may_send(url: &Url) -> bool {
    url.scheme() == "https" || is_loopback(url)
}

/// What the library needs to speak with the authorization server of a server.
pub(super) async fn manager(
    settings: &HttpSettings,
    tokens: &ServerTokens,
) -> Result<AuthorizationManager, AuthError> {
    let fetch = Arc::new(Fetch::new(settings));
    let url = settings.url.as_str();
    let made = AuthorizationManager::new_with_oauth_http_client(url, fetch).await;
    let mut manager = made?;
    manager.set_credential_store(tokens.clone());
    Ok(manager)
}

/// What is to be done with the token that is kept.
enum Usable {
    None,
    Fresh(SecretString),
    Stale(SecretString),
}

fn usable(kept: &Kept) -> Usable {
    let Some(response) = &kept.credentials.token_response else {
        return Usable::None;
    };
    let token = SecretString::from(response.access_token().secret().clone());
    let received = kept.credentials.token_received_at;
    let left = match (response.expires_in(), received) {
        (Some(valid), Some(received)) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = now.unwrap_or_default().as_secs();
            let left = valid.as_secs().saturating_sub(now.saturating_sub(received));
            Some((valid, Duration::from_secs(left)))
        }
        _ => None,
    };
    match left {
        Some((valid, left)) if left <= margin(valid) => Usable::Stale(token),
        _ => Usable::Fresh(token),
    }
}

/// How long before its end a token is renewed.
fn margin(valid: Duration) -> Duration {
    TOKEN_MARGIN.min(valid / 4)
}

/// An error of the library in words that hold no token.
pub(super) fn explained(error: &AuthError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    shortened(&plain(&text), QUOTED_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kept(expires_in: Option<u64>, age: u64) -> Kept {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let mut token = json!({"access_token": "t", "token_type": "bearer"});
        if let Some(expires_in) = expires_in {
            token["expires_in"] = json!(expires_in);
        }
        let kept = json!({"credentials": {
            "client_id": "c", "token_response": token,
            "token_received_at": now.as_secs() - age,
        }});
        serde_json::from_value(kept).unwrap()
    }

    #[test]
    fn a_token_is_renewed_before_it_expires() {
        let margin = TOKEN_MARGIN.as_secs();
        let is_fresh = |kept: &Kept| matches!(usable(kept), Usable::Fresh(_));
        assert!(is_fresh(&kept(None, 1_000_000)));
        assert!(is_fresh(&kept(Some(3600), 0)));
        // A second may pass meanwhile.
        assert!(is_fresh(&kept(Some(3600), 3600 - margin - 2)));
        assert!(!is_fresh(&kept(Some(3600), 3600 - margin)));
        assert!(!is_fresh(&kept(Some(3600), 7200)));
        // One that is short-lived is used for most of its life.
        assert!(is_fresh(&kept(Some(20), 10)));
        assert!(!is_fresh(&kept(Some(20), 15)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_failed_too_often_is_tried_again_after_a_pause() {
        let name = ServerName::new("x").unwrap();
        let client: crate::http::HttpClientLoader = Arc::new(|| anyhow::bail!("no client"));
        let settings = HttpSettings::new(&name, "https://a.example/mcp", client).unwrap();
        let begun = Instant::now();
        worth_trying(&name, &settings).await;
        let waited = begun.elapsed();
        assert!(waited >= HTTP_RETRY_PAUSE && waited < HTTP_RETRY_PAUSE + LOGIN_POLL);
    }

    #[test]
    fn no_token_goes_over_plain_http_to_another_machine() {
        let url = |text| Url::parse(text).unwrap();
        assert!(may_send(&url("https://a.example/mcp")));
        assert!(may_send(&url("http://127.0.0.1:1/mcp")));
        assert!(!may_send(&url("http://a.example/mcp")));
    }
}
