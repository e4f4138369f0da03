//! A login from its beginning to its end. Whoever drives it shows the address
//! and brings back what the browser was sent to.

use super::fetch::is_safe;
use super::store::ServerTokens;
use super::token::{explained, manager, may_send};
use crate::http::{HttpSettings, challenge_of, load_client, shown_host};
use crate::limits::HTTP_ANSWER_WAIT;
use crate::names::ServerName;
use crate::settings::{Connection, ServerSettings};
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, AuthorizationMetadata,
    OAuthClientConfig, StoredCredentials,
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use url::Url;

/// What this program is called where it registers.
const CLIENT_NAME: &str = "Halter";

/// Why nobody is logged in.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The server is a program.
    #[error("MCP server `{0}` is a program on this machine: there is nothing to log in to")]
    Program(ServerName),
    /// Its settings send an `Authorization` of their own.
    #[error("MCP server `{0}` is sent an `Authorization` of its entry: take that out to log in")]
    OwnHeader(ServerName),
    /// Tokens would be readable on their way.
    #[error("MCP server `{0}` is reached by plain http, where tokens could be read: use https")]
    Insecure(ServerName),
    /// There is no place for tokens.
    #[error("there is no place to keep the tokens of MCP server `{0}`: set HOME")]
    NoStore(ServerName),
    /// The server wants no login.
    #[error("MCP server `{0}` asks for no login")]
    NotNeeded(ServerName),
    /// The server, or its authorization server, does not play along.
    #[error("no login to MCP server `{server}`: {reason}")]
    Failed {
        /// The server.
        server: ServerName,
        /// What went wrong.
        reason: String,
    },
    /// What was brought back is no answer to this login.
    #[error(
        "this is no answer to this login: {0}; paste the whole address that the browser was \
         sent to, or its `code`"
    )]
    Answer(String),
}

impl LoginError {
    /// The stable name of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Program(_) => "mcp_login_program",
            Self::OwnHeader(_) => "mcp_login_header",
            Self::Insecure(_) => "mcp_login_insecure",
            Self::NoStore(_) => "mcp_login_no_store",
            Self::NotNeeded(_) => "mcp_login_not_needed",
            Self::Failed { .. } => "mcp_login_failed",
            Self::Answer(_) => "mcp_login_answer",
        }
    }
}

/// What a login is for.
#[derive(Debug, Clone, Default)]
pub struct LoginRequest {
    /// Where the browser is sent in the end.
    pub redirect_uri: String,
    /// What is asked for besides what the server says it needs, such as the
    /// rights that an earlier token lacked.
    pub scopes: Vec<String>,
    /// What the server said when it refused a request, if that is known; else
    /// it is asked.
    pub challenge: Option<String>,
}

/// A login that waits for its user.
pub struct Login {
    server: ServerName,
    manager: AuthorizationManager,
    tokens: ServerTokens,
    secret: Option<SecretString>,
    address: Url,
    state: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Login")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl Login {
    /// Finds out where users of a server log in, and registers there if need
    /// be.
    ///
    /// # Errors
    /// Why nobody can log in.
    pub async fn begin(server: &ServerSettings, request: LoginRequest) -> Result<Self, LoginError> {
        let (settings, tokens) = login_parts(server)?;
        let name = server.name.clone();
        let failed = |error: AuthError| LoginError::Failed {
            server: name.clone(),
            reason: advice(&error, settings),
        };
        let challenge = match request.challenge {
            Some(challenge) => Asked::Refused(Some(challenge)),
            None => ask(&name, settings).await?,
        };
        let (refused, challenge) = match challenge {
            Asked::Refused(challenge) => (true, challenge),
            Asked::Served => (false, None),
        };
        let mut manager = manager(settings, &tokens).await.map_err(failed)?;
        let found = manager.resolve_metadata_from_challenge(challenge.as_deref());
        let found = found.await.map_err(failed)?;
        if !refused && !found.source.is_discovered() {
            return Err(LoginError::NotNeeded(name));
        }
        let described = takes_descriptions(&found.metadata);
        manager.set_metadata(found.metadata);
        let scopes = scopes(&manager, &tokens, settings, request.scopes).await;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let redirect = &request.redirect_uri;
        let secret = client(&mut manager, settings, described, redirect, &scopes).await;
        let secret = secret.map_err(failed)?;
        let address = manager.get_authorization_url(&scopes).await;
        let address = address.map_err(failed)?;
        let odd = |reason: &str| LoginError::Failed {
            server: name.clone(),
            reason: reason.to_owned(),
        };
        let address =
            Url::parse(&address).map_err(|_| odd("its login page has no usable address"))?;
        if !is_safe(&address, &settings.url) {
            return Err(odd(&format!(
                "its login page at {} is not reached by https",
                shown_host(&address)
            )));
        }
        let state = address.query_pairs().find(|(name, _)| name == "state");
        let state = state.map(|(_, value)| value.into_owned());
        Ok(Self {
            state: state.ok_or_else(|| odd("its login page has no `state`"))?,
            server: name,
            manager,
            tokens,
            secret,
            address,
        })
    }

    /// The page to open in a browser.
    pub fn address(&self) -> &Url {
        &self.address
    }

    /// Whether an address that a browser was sent to belongs to this login.
    pub fn answers(&self, redirected: &Url) -> bool {
        let mut pairs = redirected.query_pairs();
        pairs.any(|(name, value)| name == "state" && value == self.state.as_str())
    }

    /// Takes the address that the browser was sent to, or the code in it, and
    /// keeps the tokens that it is worth.
    ///
    /// # Errors
    /// [`LoginError::Answer`] if it is not of this login: another one can be
    /// given. Else why there are no tokens.
    pub async fn finish(&self, answer: &str) -> Result<(), LoginError> {
        let (code, issuer) = self.code(answer.trim())?;
        let failed = |reason: String| LoginError::Failed {
            server: self.server.clone(),
            reason,
        };
        let taken =
            self.manager
                .exchange_code_for_token_with_issuer(&code, &self.state, issuer.as_deref());
        match taken.await {
            Ok(_) => {}
            Err(AuthError::AuthorizationServerMissingIssuer { .. }) => {
                let wanted = "the login page says who it is in the whole address";
                return Err(LoginError::Answer(wanted.to_owned()));
            }
            Err(error) => return Err(failed(explained(&error))),
        }
        if let Some(secret) = &self.secret {
            let kept = self.tokens.kept().await.map_err(failed)?;
            let kept: Option<StoredCredentials> = kept.map(|kept| kept.credentials);
            if let Some(credentials) = kept {
                let saved = self.tokens.with_secret(credentials, Some(secret)).await;
                saved.map_err(failed)?;
            }
        }
        Ok(())
    }

    /// The code in an answer, and who says to have given it.
    fn code(&self, answer: &str) -> Result<(String, Option<String>), LoginError> {
        let odd = |reason: &str| LoginError::Answer(reason.to_owned());
        if answer.is_empty() {
            return Err(odd("it is empty"));
        }
        let Some(url) = Url::parse(answer).ok().filter(Url::has_host) else {
            let is_code = !answer.chars().any(|c| c.is_whitespace() || c.is_control());
            return match is_code {
                true => Ok((answer.to_owned(), None)),
                false => Err(odd("it is no address and no code")),
            };
        };
        if !self.answers(&url) {
            return Err(odd("its `state` is another one"));
        }
        let value = |wanted: &str| {
            let found = url.query_pairs().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.into_owned())
        };
        if let Some(error) = value("error") {
            let about = value("error_description").unwrap_or_default();
            let said = crate::text::plain(&format!("{error} {about}"));
            let said = crate::text::shortened(said.trim(), crate::limits::QUOTED_BYTES);
            return Err(LoginError::Failed {
                server: self.server.clone(),
                reason: format!("the login page says: {said}"),
            });
        }
        let callback = AuthorizationCallback::from_redirect_url(answer);
        let callback = callback.map_err(|_| odd("it has no `code`"))?;
        Ok((callback.code, callback.issuer))
    }
}

/// Forgets the tokens of a server. Returns whether there were any.
///
/// # Errors
/// If they cannot be removed.
pub async fn logout(server: &ServerSettings) -> Result<bool, LoginError> {
    let Connection::Http(settings) = &server.connection else {
        return Err(LoginError::Program(server.name.clone()));
    };
    let Some(store) = &settings.oauth.store else {
        return Err(LoginError::NoStore(server.name.clone()));
    };
    let forgotten = store.of(&server.name, &settings.url).forget().await;
    forgotten.map_err(|reason| LoginError::Failed {
        server: server.name.clone(),
        reason,
    })
}

/// What a login needs of the settings of a server.
fn login_parts(server: &ServerSettings) -> Result<(&HttpSettings, ServerTokens), LoginError> {
    let name = || server.name.clone();
    let Connection::Http(settings) = &server.connection else {
        return Err(LoginError::Program(name()));
    };
    if settings
        .headers
        .contains_key(reqwest::header::AUTHORIZATION)
    {
        return Err(LoginError::OwnHeader(name()));
    }
    if !may_send(&settings.url) {
        return Err(LoginError::Insecure(name()));
    }
    let Some(store) = &settings.oauth.store else {
        return Err(LoginError::NoStore(name()));
    };
    Ok((settings, store.of(&server.name, &settings.url)))
}

/// What a server answers to somebody who has not logged in.
enum Asked {
    Refused(Option<String>),
    Served,
}

async fn ask(server: &ServerName, settings: &HttpSettings) -> Result<Asked, LoginError> {
    let failed = |reason: String| LoginError::Failed {
        server: server.clone(),
        reason,
    };
    let client = load_client(settings).await;
    let client = client.map_err(|error| failed(error.to_string()))?;
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
    let asked = client
        .post(settings.url.clone())
        .headers(settings.headers.clone())
        .header(ACCEPT, "application/json, text/event-stream")
        .header(CONTENT_TYPE, "application/json")
        .body(message.to_string())
        .timeout(HTTP_ANSWER_WAIT)
        .send()
        .await
        .map_err(|error| {
            let failure = crate::http::HttpFailure::of(&shown_host(&settings.url), &error);
            failed(failure.to_string())
        })?;
    Ok(match asked.status() {
        StatusCode::UNAUTHORIZED => {
            let challenge = challenge_of(&asked);
            Asked::Refused(challenge.map(|it| it.as_str().to_owned()))
        }
        _ => Asked::Served,
    })
}

/// What is asked for: what the settings say, or what the server needs, with
/// what was granted before.
async fn scopes(
    manager: &AuthorizationManager,
    tokens: &ServerTokens,
    settings: &HttpSettings,
    more: Vec<String>,
) -> Vec<String> {
    let mut scopes = match settings.oauth.scopes.as_slice() {
        [] => manager.select_initial_scopes(&[]).await,
        named => named.to_vec(),
    };
    let before = match more.is_empty() {
        true => Vec::new(),
        false => {
            let kept = tokens.kept().await.ok().flatten();
            kept.map_or_else(Vec::new, |kept| kept.credentials.granted_scopes)
        }
    };
    for scope in before.into_iter().chain(more) {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    scopes
}

/// Whether an authorization server knows clients by the address of their
/// description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Described {
    Taken,
    NotTaken,
}

fn takes_descriptions(metadata: &AuthorizationMetadata) -> Described {
    let said = &metadata.additional_fields;
    let said = said.get("client_id_metadata_document_supported");
    match said.and_then(serde_json::Value::as_bool) {
        Some(true) => Described::Taken,
        _ => Described::NotTaken,
    }
}

/// Makes this program known: by the client of the settings, by the address of
/// its description, or by registering. Returns the secret of a client that was
/// registered.
async fn client(
    manager: &mut AuthorizationManager,
    settings: &HttpSettings,
    described: Described,
    redirect_uri: &str,
    scopes: &[&str],
) -> Result<Option<SecretString>, AuthError> {
    let oauth = &settings.oauth;
    if let Some(id) = &oauth.client_id {
        let mut own = OAuthClientConfig::new(id, redirect_uri);
        if let Some(secret) = &oauth.client_secret {
            own = own.with_client_secret(secret.expose_secret());
        }
        manager.configure_client(own)?;
        return Ok(None);
    }
    if let Some(description) = &oauth.client_metadata_url
        && described == Described::Taken
    {
        manager.configure_client(OAuthClientConfig::new(description, redirect_uri))?;
        return Ok(None);
    }
    let registered = manager.register_client(CLIENT_NAME, redirect_uri, scopes);
    Ok(registered.await?.client_secret.map(SecretString::from))
}

/// An error of the library, with what can be done about it.
fn advice(error: &AuthError, settings: &HttpSettings) -> String {
    let reason = explained(error);
    match error {
        AuthError::RegistrationFailed(_) if settings.oauth.client_id.is_none() => {
            format!("{reason}; register a client there yourself, and name it by `oauth.client_id`")
        }
        _ => reason,
    }
}
