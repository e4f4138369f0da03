//! Who may come in.

use std::net::SocketAddr;

use subtle::ConstantTimeEq as _;

use crate::settings::{Settings, Token};

/// Whether a process of this user is trusted at the other end of a socket: by
/// the runtime, and by its clients.
#[must_use]
pub fn may_connect(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

/// What becomes of an HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVerdict {
    /// It may go on.
    Allowed,
    /// The name it was sent to is not ours: another site may be behind it.
    WrongHost,
    /// A page of another site sent it.
    WrongOrigin,
    /// It has no token, or another one.
    WrongToken,
}

/// Looks at HTTP requests before anything else does.
#[derive(Debug)]
pub struct HttpGuard {
    token: Option<Token>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl HttpGuard {
    /// The guard of a runtime bound to this address.
    #[must_use]
    pub fn new(settings: &Settings, bound: SocketAddr) -> Self {
        let port = bound.port();
        let mut hosts = settings.allowed_hosts.clone();
        hosts.push(bound.to_string());
        if bound.ip().is_loopback() {
            for name in ["localhost", "127.0.0.1", "[::1]"] {
                hosts.push(format!("{name}:{port}"));
                if port == 80 {
                    hosts.push(name.to_owned());
                }
            }
        }
        Self {
            token: settings.auth_token.clone(),
            hosts,
            origins: settings.allowed_origins.clone(),
        }
    }

    /// Judges the headers of a request.
    #[must_use]
    pub fn judge(
        &self,
        host: Option<&[u8]>,
        origin: Option<&[u8]>,
        authorization: Option<&[u8]>,
    ) -> HttpVerdict {
        let listed = |list: &[String], value: &[u8]| {
            list.iter()
                .any(|known| known.as_bytes().eq_ignore_ascii_case(value))
        };
        if !host.is_some_and(|host| listed(&self.hosts, host)) {
            return HttpVerdict::WrongHost;
        }
        if origin.is_some_and(|origin| !listed(&self.origins, origin)) {
            return HttpVerdict::WrongOrigin;
        }
        if self.knows(authorization) {
            HttpVerdict::Allowed
        } else {
            HttpVerdict::WrongToken
        }
    }

    /// Compares in a time that does not tell how much of a token is right.
    fn knows(&self, authorization: Option<&[u8]>) -> bool {
        let (Some(token), Some(header)) = (&self.token, authorization) else {
            return false;
        };
        let Some((scheme, given)) = header.split_at_checked(7) else {
            return false;
        };
        let bearer = scheme.eq_ignore_ascii_case(b"bearer ");
        bearer & bool::from(given.trim_ascii().ct_eq(token.expose().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(origins: &[&str]) -> HttpGuard {
        HttpGuard {
            token: Token::new("t0ken"),
            hosts: vec!["127.0.0.1:9100".to_owned(), "localhost:9100".to_owned()],
            origins: origins.iter().map(|&origin| origin.to_owned()).collect(),
        }
    }

    const HOST: Option<&[u8]> = Some(b"localhost:9100");
    const TOKEN: Option<&[u8]> = Some(b"Bearer t0ken");

    #[test]
    fn only_our_own_names_are_answered() {
        let guard = guard(&[]);
        assert_eq!(guard.judge(HOST, None, TOKEN), HttpVerdict::Allowed);
        for host in [
            None,
            Some(&b"evil.example:9100"[..]),
            Some(b"localhost"),
            Some(b""),
        ] {
            assert_eq!(guard.judge(host, None, TOKEN), HttpVerdict::WrongHost);
        }
    }

    #[test]
    fn pages_are_refused_unless_they_are_listed() {
        let origin: Option<&[u8]> = Some(b"http://localhost:9100");
        assert_eq!(
            guard(&[]).judge(HOST, origin, TOKEN),
            HttpVerdict::WrongOrigin
        );
        assert_eq!(
            guard(&[]).judge(HOST, Some(b"null"), TOKEN),
            HttpVerdict::WrongOrigin
        );
        let listed = guard(&["http://localhost:9100"]);
        assert_eq!(listed.judge(HOST, origin, TOKEN), HttpVerdict::Allowed);
    }

    #[test]
    fn only_the_whole_token_is_accepted() {
        let guard = guard(&[]);
        for wrong in [
            None,
            Some(&b""[..]),
            Some(b"Bearer "),
            Some(b"Bearer t0ke"),
            Some(b"Bearer t0kenx"),
            Some(b"Basic t0ken"),
            Some(b"t0ken"),
        ] {
            assert_eq!(
                guard.judge(HOST, None, wrong),
                HttpVerdict::WrongToken,
                "{wrong:?}"
            );
        }
        assert_eq!(
            guard.judge(HOST, None, Some(b"bearer t0ken ")),
            HttpVerdict::Allowed
        );
    }

    #[test]
    fn without_a_token_nobody_comes_in() {
        let guard = HttpGuard {
            token: None,
            ..guard(&[])
        };
        assert_eq!(
            guard.judge(HOST, None, Some(b"Bearer ")),
            HttpVerdict::WrongToken
        );
    }

    #[test]
    fn the_user_and_root_may_connect() {
        assert!(may_connect(1000, 1000) && may_connect(0, 1000));
        assert!(!may_connect(1001, 1000) && !may_connect(1000, 0));
    }
}
