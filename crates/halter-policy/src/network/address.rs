//! What kind of address an address is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kinds of addresses that the policy tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// An address of the public internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network: of an organisation, a provider or a home.
    Private,
    /// The link the machine is on.
    LinkLocal,
    /// A service by which a cloud tells machines about themselves, credentials
    /// included.
    Metadata,
    /// A group of machines.
    Multicast,
    /// No address at all: systems take it for this machine.
    Unspecified,
    /// Set aside for documentation, tests, translation or later use.
    Reserved,
}

/// Where clouds hand out credentials: AWS, Azure, Google and most others; AWS
/// for containers; Alibaba; Oracle; Azure's host; the last two by IPv6.
const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
    Ipv4Addr::new(168, 63, 129, 16),
];
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

impl AddressKind {
    /// The kind of an address. One that carries another (mapped, translated,
    /// tunnelled) is of that one's kind unless that is public.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// The rule that refuses an address of this kind which nobody named.
    pub(crate) const fn rule(self) -> &'static str {
        match self {
            Self::Public => "network.host",
            Self::Loopback => "network.loopback",
            Self::Private => "network.private",
            Self::LinkLocal => "network.link_local",
            Self::Metadata => "network.metadata",
            Self::Multicast => "network.multicast",
            Self::Unspecified => "network.unspecified",
            Self::Reserved => "network.reserved",
        }
    }

    /// The kind in words, after "is".
    pub(crate) const fn described(self) -> &'static str {
        match self {
            Self::Public => "a public address",
            Self::Loopback => "an address of this machine",
            Self::Private => "an address of a private network",
            Self::LinkLocal => "an address of the local link",
            Self::Metadata => "an address at which clouds hand out credentials",
            Self::Multicast => "the address of a group of machines",
            Self::Unspecified => "no address of a machine",
            Self::Reserved => "an address set aside for special use",
        }
    }
}

fn of_v4(address: Ipv4Addr) -> AddressKind {
    if METADATA_V4.contains(&address) {
        return AddressKind::Metadata;
    }
    match address.octets() {
        [0, 0, 0, 0] => AddressKind::Unspecified,
        [127, ..] => AddressKind::Loopback,
        // The second is what providers put between customers and the internet.
        [10, ..] | [100, 64..=127, ..] | [172, 16..=31, ..] | [192, 168, ..] => {
            AddressKind::Private
        }
        [169, 254, ..] => AddressKind::LinkLocal,
        [224..=239, ..] => AddressKind::Multicast,
        [0, ..] | [240..=255, ..] => AddressKind::Reserved,
        [192, 0, 0, _] | [192, 0, 2, _] | [192, 88, 99, _] => AddressKind::Reserved,
        [198, 18..=19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => AddressKind::Reserved,
        _ => AddressKind::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> AddressKind {
    if METADATA_V6.contains(&address) {
        return AddressKind::Metadata;
    }
    if let Some(carried) = carried_v4(address) {
        return match of_v4(carried) {
            AddressKind::Public => AddressKind::Public,
            AddressKind::Metadata => AddressKind::Metadata,
            _ => AddressKind::Reserved,
        };
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressKind::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressKind::Loopback,
        [0xfc00..=0xfdff, ..] => AddressKind::Private,
        [0xfe80..=0xfebf, ..] => AddressKind::LinkLocal,
        [0xff00..=0xffff, ..] => AddressKind::Multicast,
        // Teredo and other protocol assignments, documentation.
        [0x2001, 0..=0x01ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => {
            AddressKind::Reserved
        }
        [0x2000..=0x3fff, ..] => AddressKind::Public,
        _ => AddressKind::Reserved,
    }
}

/// The IPv4 address inside of an address of a translation (`64:ff9b::/96`) or
/// of a tunnel (`2002::/16`).
fn carried_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(from(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_that_is_not_public_is_known() {
        for (addresses, kind) in [
            (
                "1.1.1.1 8.8.8.8 99.255.255.255 100.128.0.0 172.15.0.1 172.32.0.1 192.167.1.1 \
                 198.17.0.1 223.255.255.255 2606:4700::1111 2a00::1 64:ff9b::808:808 2002:808:808::1",
                AddressKind::Public,
            ),
            (
                "127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1",
                AddressKind::Loopback,
            ),
            (
                "10.0.0.0 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 \
                 100.127.255.255 fc00::1 fdff::1 ::ffff:10.0.0.1",
                AddressKind::Private,
            ),
            ("169.254.0.1 fe80::1 febf::1", AddressKind::LinkLocal),
            (
                "169.254.169.254 169.254.170.2 169.254.170.23 100.100.100.200 192.0.0.192 \
                 168.63.129.16 fd00:ec2::254 fd00:ec2::23 fd20:ce::254 ::ffff:169.254.169.254 \
                 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1",
                AddressKind::Metadata,
            ),
            ("224.0.0.1 239.255.255.250 ff02::1", AddressKind::Multicast),
            ("0.0.0.0 ::", AddressKind::Unspecified),
            (
                "0.1.2.3 240.0.0.1 255.255.255.255 192.0.2.1 198.18.0.1 198.19.1.1 198.51.100.1 \
                 203.0.113.1 192.88.99.1 192.0.0.8 2001::1 2001:db8::1 3fff::1 100::1 fec0::1 \
                 ::7f00:1 64:ff9b::7f00:1 64:ff9b::a00:1 64:ff9b:1::a00:1 2002:7f00:1::1",
                AddressKind::Reserved,
            ),
        ] {
            for address in addresses.split_whitespace() {
                assert_eq!(AddressKind::of(address.parse().unwrap()), kind, "{address}");
            }
        }
    }
}
