//! The host of a permission rule, `WebFetch(domain:…)`.

use halter_protocol::permission::wildcard_matches;

use super::host::{Destination, Host};

/// The host of a permission rule: a name or an address in its one form, or a
/// pattern. A `*.` at the start stands for names below, however deep; any other
/// star does not reach over a dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DomainPattern(String);

impl DomainPattern {
    pub(crate) fn new(text: &str) -> Self {
        let form = |host: &str| Host::parse(host).map(|host| host.to_string());
        let read = match text.strip_prefix("*.") {
            Some(parent) => form(parent).map(|parent| format!("*.{parent}")),
            None => form(text),
        };
        // With further stars in it, it is no host; it is held against hosts as
        // it is.
        Self(read.unwrap_or_else(|_| text.trim_end_matches('.').to_lowercase()))
    }

    /// Whether a host is meant, whatever its port.
    pub(crate) fn covers(&self, host: &Host) -> bool {
        let (pattern, host) = (self.0.as_str(), host.to_string());
        if let Some(parent) = pattern.strip_prefix("*.") {
            let below = host.strip_suffix(parent);
            return below.is_some_and(|it| it.len() > 1 && it.ends_with('.'));
        }
        let (mut left, mut right) = (pattern.rsplit('.'), host.rsplit('.'));
        loop {
            match (left.next(), right.next()) {
                (None, None) => return true,
                (Some(label), Some(given)) if wildcard_matches(label, given) => {}
                _ => return false,
            }
        }
    }

    /// As [`covers`](Self::covers), for a host as an action spells it. What is
    /// no host is covered by nothing: no connection can be made to it.
    pub(crate) fn covers_text(&self, host: &str) -> bool {
        Destination::parse(host).is_ok_and(|it| self.covers(&it.host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_held_against_the_host_that_is_meant() {
        for (pattern, host, covers) in [
            ("example.com", "example.com", true),
            ("example.com", "EXAMPLE.com.", true),
            ("example.com", "example.com:8443", true),
            ("example.com", "www.example.com", false),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "notexample.com", false),
            ("api.*.com", "api.example.com", true),
            ("api.*.com", "api.a.b.com", false),
            ("b\u{fc}cher.example", "xn--bcher-kva.example", true),
            ("127.0.0.1", "0x7f.1", true),
            ("127.0.0.1", "[::ffff:127.0.0.1]:80", true),
            ("[::1]", "::1", true),
            ("::1", "[0:0::1]:80", true),
            ("example.com", "example.com/path", false),
        ] {
            let found = DomainPattern::new(pattern).covers_text(host);
            assert_eq!(found, covers, "{pattern} {host}");
        }
    }
}
