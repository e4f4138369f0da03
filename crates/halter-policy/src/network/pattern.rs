//! Entries of `policy.network.allowed_hosts` and `allowed_loopback`, read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address::AddressKind;
use super::host::{Destination, Host, split_port};

/// The shortest prefixes of networks: what is wider names nothing any more.
const MIN_V4_PREFIX: u8 = 8;
const MIN_V6_PREFIX: u8 = 7;

/// An entry of `policy.network.allowed_hosts`. The [module](super) says what
/// each form covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    covered: Covered,
    /// The only port; absent: every port.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Covered {
    Everything,
    Name(String),
    Below(String),
    Network { first: IpAddr, prefix: u8 },
}

impl HostPattern {
    /// Reads an entry.
    ///
    /// # Errors
    /// What is wrong with it, in words that follow its text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "*" {
            return Ok(Self {
                covered: Covered::Everything,
                port: None,
            });
        }
        if let Some((address, prefix)) = text.split_once('/') {
            let covered = network(address, prefix)?;
            return Ok(Self {
                covered,
                port: None,
            });
        }
        let (host, port) = split_port(text)?;
        let covered = match host.strip_prefix("*.") {
            Some(parent) => match Host::parse(parent)? {
                Host::Name(parent) => Covered::Below(parent),
                Host::Address(_) => return Err("an address has no names below it"),
            },
            None => match Host::parse(host)? {
                host if host.is_localhost() => return Err(NAMES_LOOPBACK),
                Host::Name(name) => Covered::Name(name),
                Host::Address(address) => exactly(address)?,
            },
        };
        Ok(Self { covered, port })
    }

    /// Whether a host is covered as it was named.
    pub(crate) fn covers(&self, destination: &Destination) -> bool {
        let covered = match (&self.covered, &destination.host) {
            (Covered::Everything, Host::Name(_)) => true,
            (Covered::Everything, Host::Address(address)) => {
                AddressKind::of(*address) == AddressKind::Public
            }
            (Covered::Name(name), Host::Name(host)) => name == host,
            (Covered::Below(parent), Host::Name(host)) => is_below(host, parent),
            (Covered::Network { .. }, Host::Address(address)) => self.names(*address),
            _ => false,
        };
        covered && self.takes(destination.port)
    }

    /// Whether the entry is the host itself: neither `*` nor one with a
    /// wildcard.
    pub(crate) fn is_exactly(&self, destination: &Destination) -> bool {
        !matches!(self.covered, Covered::Everything | Covered::Below(_)) && self.covers(destination)
    }

    /// Whether an address that is not public is named, on that port.
    pub(crate) fn names_on(&self, address: IpAddr, port: Option<u16>) -> bool {
        self.names(address) && self.takes(port)
    }

    fn names(&self, address: IpAddr) -> bool {
        let Covered::Network { first, prefix } = &self.covered else {
            return false;
        };
        let address = address.to_canonical();
        match AddressKind::of(address) {
            // Nobody means these by naming the network around them.
            AddressKind::Metadata => *first == address && is_whole(address, *prefix),
            AddressKind::Loopback | AddressKind::Unspecified | AddressKind::Multicast => false,
            _ => masked(address, *prefix) == Some(*first),
        }
    }

    fn takes(&self, port: Option<u16>) -> bool {
        match (self.port, port) {
            (None, _) | (_, None) => true,
            (Some(only), Some(port)) => only == port,
        }
    }

    /// Whether all that another entry covers is covered by this one.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        let hosts = match (&self.covered, &other.covered) {
            (Covered::Everything, Covered::Network { first, .. }) => {
                AddressKind::of(*first) == AddressKind::Public
            }
            (Covered::Everything, _) => true,
            (Covered::Name(name), Covered::Name(other)) => name == other,
            (Covered::Below(parent), Covered::Name(name)) => is_below(name, parent),
            (Covered::Below(parent), Covered::Below(other)) => {
                parent == other || is_below(other, parent)
            }
            (
                Covered::Network { first, prefix },
                Covered::Network {
                    first: other,
                    prefix: longer,
                },
            ) => {
                let metadata = AddressKind::of(*other) == AddressKind::Metadata;
                longer >= prefix
                    && masked(*other, *prefix) == Some(*first)
                    && (!metadata || first == other)
            }
            _ => false,
        };
        hosts && (self.port.is_none() || self.port == other.port)
    }
}

const NAMES_LOOPBACK: &str =
    "it is this machine, whose services are named by policy.network.allowed_loopback";

fn exactly(address: IpAddr) -> Result<Covered, &'static str> {
    match AddressKind::of(address) {
        AddressKind::Loopback => Err(NAMES_LOOPBACK),
        AddressKind::Unspecified => Err("it is no address that can be reached"),
        AddressKind::Multicast => Err("it is a group of machines, not a host"),
        _ => Ok(Covered::Network {
            first: address,
            prefix: bits(address),
        }),
    }
}

fn network(address: &str, prefix: &str) -> Result<Covered, &'static str> {
    let wrong = "it is not a network such as 10.1.2.0/24";
    let address: IpAddr = address
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .map_err(|_| wrong)?;
    let digits = prefix.bytes().all(|byte| byte.is_ascii_digit());
    let prefix: u8 = prefix.parse().map_err(|_| wrong)?;
    let (least, whole) = match address {
        IpAddr::V4(_) => (MIN_V4_PREFIX, 32),
        IpAddr::V6(_) => (MIN_V6_PREFIX, 128),
    };
    if !digits || prefix > whole {
        return Err(wrong);
    }
    if prefix < least {
        return Err("it is too wide to name anything; name the networks in it");
    }
    if address != address.to_canonical() {
        return Err("it is written as IPv6 and means IPv4; write it as 10.1.2.0/24");
    }
    match masked(address, prefix) {
        Some(first) if first == address => match AddressKind::of(first) {
            AddressKind::Loopback => Err(NAMES_LOOPBACK),
            _ => Ok(Covered::Network { first, prefix }),
        },
        _ => Err("it is not the first address of its network"),
    }
}

const fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn is_whole(address: IpAddr, prefix: u8) -> bool {
    prefix == bits(address)
}

/// The first address of the network that an address is in; absent where the
/// prefix is longer than the address.
fn masked(address: IpAddr, prefix: u8) -> Option<IpAddr> {
    let lost = u32::from(bits(address).checked_sub(prefix)?);
    Some(match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(lost).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(lost).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    })
}

/// Whether a name is a true subdomain of another.
fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent)
        .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

/// An entry of `policy.network.allowed_loopback`: a service on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopbackService {
    /// The only address; absent: `localhost`, which is `127.0.0.1` and `::1`.
    address: Option<IpAddr>,
    /// The only port; absent: every port.
    port: Option<u16>,
}

impl LoopbackService {
    /// Reads the host of an entry.
    ///
    /// # Errors
    /// What is wrong with it, in words that follow its text.
    pub fn parse(host: &str, port: Option<u16>) -> Result<Self, &'static str> {
        let address = match Host::parse(host)? {
            Host::Name(name) if name == "localhost" => None,
            Host::Address(address) if AddressKind::of(address) == AddressKind::Loopback => {
                Some(address)
            }
            _ => return Err("it is not this machine; write localhost or a loopback address"),
        };
        match port {
            Some(0) => Err("its port is 0"),
            port => Ok(Self { address, port }),
        }
    }

    /// Whether all that another entry names is named by this one.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        let address = match (self.address, other.address) {
            (None, Some(address)) => LOCALHOST.contains(&address),
            (mine, other) => mine == other,
        };
        address && (self.port.is_none() || self.port == other.port)
    }

    /// Whether the service may be at that address and port.
    pub(crate) fn is_at(&self, address: IpAddr, port: Option<u16>) -> bool {
        let here = match self.address {
            Some(only) => only == address.to_canonical(),
            None => LOCALHOST.contains(&address.to_canonical()),
        };
        let takes = match (self.port, port) {
            (None, _) | (_, None) => true,
            (Some(only), Some(port)) => only == port,
        };
        here && takes
    }
}

/// What `localhost` stands for, without asking anybody.
pub(crate) const LOCALHOST: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        HostPattern::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn an_entry_covers_what_it_says() {
        for (entry, covered, not) in [
            (
                "example.com",
                "example.com EXAMPLE.COM. example.com:80",
                "www.example.com notexample.com example.com.evil.org com",
            ),
            (
                "*.example.com",
                "www.example.com a.b.example.com",
                "example.com notexample.com .example.com.evil example.com.evil.org",
            ),
            (
                "*",
                "example.com 1.1.1.1 [2606:4700::1111]:443",
                "127.0.0.1 0x7f.1 10.0.0.1 169.254.169.254 [::1] [fd00::1] 0.0.0.0",
            ),
            (
                "example.com:443",
                "example.com example.com:443",
                "example.com:80",
            ),
            (
                "10.1.2.3",
                "10.1.2.3 0xa.66051 [::ffff:10.1.2.3]:5",
                "10.1.2.4",
            ),
            ("10.1.2.0/24", "10.1.2.0 10.1.2.255", "10.1.3.0 10.1.1.255"),
            (
                "fc00::/7",
                "[fd00::1] [fc12::5]",
                "[fe80::1] [fd00:ec2::254]",
            ),
            ("169.254.0.0/16", "169.254.1.1", "169.254.169.254"),
            ("169.254.169.254", "169.254.169.254", "169.254.169.253"),
            (
                "b\u{fc}cher.example",
                "xn--bcher-kva.example",
                "bucher.example",
            ),
        ] {
            for (hosts, expected) in [(covered, true), (not, false)] {
                for host in hosts.split_whitespace() {
                    let covers =
                        Destination::parse(host).is_ok_and(|it| pattern(entry).covers(&it));
                    assert_eq!(covers, expected, "{entry} {host}");
                }
            }
        }
    }

    #[test]
    fn an_entry_that_names_nothing_or_this_machine_is_refused() {
        for entry in [
            "",
            "http://a.com",
            "a.com/x",
            "*.*",
            "*a.com",
            "a.*.com",
            "*.1.2.3.4",
            "localhost",
            "a.localhost",
            "127.0.0.1",
            "127.0.0.0/8",
            "::1",
            "0.0.0.0",
            "0.0.0.0/0",
            "10.0.0.0/7",
            "10.1.2.3/24",
            "::/0",
            "::ffff:10.0.0.0/104",
            "224.0.0.1",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "a.com:0",
        ] {
            assert!(HostPattern::parse(entry).is_err(), "{entry}");
        }
        for (host, port) in [
            ("example.com", None),
            ("10.0.0.1", None),
            ("localhost", Some(0)),
        ] {
            assert!(LoopbackService::parse(host, port).is_err(), "{host}");
        }
    }

    #[test]
    fn an_entry_includes_those_that_cover_less() {
        let service = |host, port| LoopbackService::parse(host, port).unwrap();
        assert!(service("localhost", None).includes(&service("127.0.0.1", Some(1))));
        assert!(!service("127.0.0.1", Some(1)).includes(&service("localhost", Some(1))));
        assert!(!service("localhost", Some(1)).includes(&service("localhost", None)));
        assert!(!service("localhost", None).includes(&service("127.0.0.2", None)));
        for (wide, narrow, includes) in [
            ("*", "a.com", true),
            ("*", "*.a.com", true),
            ("*", "10.0.0.1", false),
            ("*.a.com", "b.a.com", true),
            ("*.a.com", "*.b.a.com", true),
            ("*.a.com", "a.com", false),
            ("a.com", "a.com:443", true),
            ("a.com:443", "a.com", false),
            ("a.com", "A.com.", true),
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.1.0.0/16", "10.0.0.0/8", false),
            ("169.254.0.0/16", "169.254.169.254", false),
            ("a.com", "*", false),
        ] {
            let found = pattern(wide).includes(&pattern(narrow));
            assert_eq!(found, includes, "{wide} {narrow}");
        }
    }
}
