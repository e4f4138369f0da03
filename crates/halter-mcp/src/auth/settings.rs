//! What is known of a client beforehand.

use super::store::TokenStore;
use crate::text::plain;
use rmcp::transport::auth::WWWAuthenticateParams;
use secrecy::SecretString;
use url::Url;

/// How users log in to a server. Without anything here, the server says all
/// there is to know, and a client is registered for each login.
#[derive(Debug, Clone, Default)]
pub struct OAuthSettings {
    /// The client that was registered beforehand.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<SecretString>,
    /// An address with a description of the client, for authorization servers
    /// that take one instead of a registration.
    pub client_metadata_url: Option<String>,
    /// What is asked for; empty: what the server says it needs.
    pub scopes: Vec<String>,
    /// Where tokens are kept; without it nobody can log in.
    pub store: Option<TokenStore>,
}

/// What a server wants of whoever asks, as its header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Challenge(String);

impl Challenge {
    pub(crate) fn new(header: &str) -> Self {
        Self(header.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a token with more rights would do.
    pub(crate) fn wants_scope(&self) -> bool {
        self.0.contains("insufficient_scope")
    }

    /// The rights that a token lacks, if it lacks some.
    pub(crate) fn missing_scope(&self, server: &Url) -> Option<String> {
        let said = WWWAuthenticateParams::parse(&self.0, server);
        let scope = said.scope.filter(|_| self.wants_scope())?;
        Some(plain(&scope))
    }
}
