//! A host as somebody named it, parsed.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::limits::{MAX_HOST_BYTES, MAX_LABEL_BYTES};

/// A host: a name, or an address. There is one form for each: names in lower
/// case, in ASCII (`xn--…`) and without the dot at the end; IPv4 addresses as
/// such, however they were spelled (`0x7f.1`, `2130706433`, `::ffff:7f00:1`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl Host {
    /// Reads a host, without a port.
    ///
    /// # Errors
    /// What is wrong with it, in words that follow its text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("it is empty");
        }
        if text.len() > MAX_HOST_BYTES {
            return Err("it is too long for a host");
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Self::address(address.into()));
        }
        match url::Host::parse(text).map_err(|_| "it is neither a name nor an address")? {
            url::Host::Ipv4(address) => Ok(Self::address(address.into())),
            url::Host::Ipv6(address) => Ok(Self::address(address.into())),
            url::Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                match name.split('.').all(is_label) {
                    true => Ok(Self::Name(name.to_owned())),
                    false => Err("it is neither a name nor an address"),
                }
            }
        }
    }

    /// An address, an IPv4 one inside of an IPv6 one as what it is.
    #[must_use]
    pub fn address(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }

    /// Whether this machine is meant by name.
    #[must_use]
    pub fn is_localhost(&self) -> bool {
        matches!(self, Self::Name(name) if name == "localhost" || name.ends_with(".localhost"))
    }
}

fn is_label(label: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(fits)
}

/// As in a URL: IPv6 addresses in brackets.
impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(formatter, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

/// A host and, where it is known, a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The host.
    pub host: Host,
    /// The port; absent where nobody has said yet.
    pub port: Option<u16>,
}

impl Destination {
    /// Reads `host` or `host:port`. An IPv6 address with a port stands in
    /// brackets.
    ///
    /// # Errors
    /// What is wrong with it, in words that follow its text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (host, port) = split_port(text)?;
        Ok(Self {
            host: Host::parse(host)?,
            port,
        })
    }
}

/// Takes the port off, if there is one.
pub(super) fn split_port(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => (host, port),
        _ => return Ok((text, None)),
    };
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(port) if digits && port > 0 => Ok((host, Some(port))),
        _ => Err("its port is not a number from 1 to 65535"),
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(formatter, "{}:{port}", self.host),
            None => write!(formatter, "{}", self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_form_however_it_is_spelled() {
        for (text, form) in [
            ("example.com", "example.com"),
            ("EXAMPLE.com.", "example.com"),
            ("ex%61mple.com", "example.com"),
            ("b\u{fc}cher.example", "xn--bcher-kva.example"),
            ("\u{ff45}xample.com", "example.com"),
            ("example\u{3002}com", "example.com"),
            ("_dmarc.example.com", "_dmarc.example.com"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("0x7f000001", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("017700000001", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("\u{2460}27.0.0.1", "127.0.0.1"),
            ("::1", "[::1]"),
            ("[::1]", "[::1]"),
            ("[0:0:0:0:0:0:0:1]", "[::1]"),
            ("::ffff:127.0.0.1", "127.0.0.1"),
            ("[::ffff:7f00:1]", "127.0.0.1"),
        ] {
            assert_eq!(
                Host::parse(text).map(|it| it.to_string()),
                Ok(form.into()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a.com..",
            "a b",
            "a/b",
            "a@b",
            "a#b",
            "a?b",
            "a\0b",
            "a%00b",
            "*",
            "*.a.com",
            "http://a.com",
            "1.2.3.4.5",
            "256.1.1.1",
            "0x100000000",
            "[::1",
            "fe80::1%eth0",
            "[fe80::1%25eth0]",
            "a\\b",
            "a,b",
            "xn--\u{fffd}",
            "a$b",
        ] {
            assert!(
                Host::parse(text).is_err(),
                "{text}: {:?}",
                Host::parse(text)
            );
        }
        let label = "a".repeat(MAX_LABEL_BYTES);
        assert!(Host::parse(&format!("{label}.com")).is_ok());
        assert!(Host::parse(&format!("{label}a.com")).is_err());
        let long = format!("{}a", "a.".repeat((MAX_HOST_BYTES - 1) / 2));
        assert!(Host::parse(&long).is_ok());
        assert!(Host::parse(&format!("{long}.a")).is_err());
    }

    #[test]
    fn a_port_is_taken_off() {
        for (text, form) in [
            ("a.com:443", "a.com:443"),
            ("a.com", "a.com"),
            ("[::1]:80", "[::1]:80"),
            ("::1", "[::1]"),
            ("0x7f.1:8080", "127.0.0.1:8080"),
        ] {
            let read = Destination::parse(text).map(|it| it.to_string());
            assert_eq!(read, Ok(form.into()), "{text}");
        }
        for text in [
            "a.com:",
            "a.com:0",
            "a.com:65536",
            "a.com:+1",
            "a.com:80a",
            ":80",
        ] {
            assert!(Destination::parse(text).is_err(), "{text}");
        }
    }
}
