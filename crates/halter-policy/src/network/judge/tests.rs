use super::*;
use crate::permission::Permissions;
use halter_protocol::{PermissionMode, RuleSource};
use proptest::prelude::*;

fn settings(hosts: &[&str], loopback: &[(&str, Option<u16>)]) -> PolicySettings {
    PolicySettings {
        network: NetworkSwitch::On,
        allowed_hosts: hosts.iter().map(|&it| it.to_owned()).collect(),
        allowed_loopback: loopback
            .iter()
            .map(|(host, port)| ((*host).to_owned(), *port))
            .collect(),
        ..PolicySettings::default()
    }
}

fn policy(hosts: &[&str], loopback: &[(&str, Option<u16>)]) -> NetworkPolicy {
    NetworkPolicy::bind(&settings(hosts, loopback)).unwrap()
}

fn to(text: &str) -> Destination {
    Destination::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
}

/// `ok`, or the rule that refuses.
fn verdict(checked: Result<(), HostRefusal>) -> &'static str {
    checked.map_or_else(|refusal| refusal.rule, |()| "ok")
}

#[test]
fn what_is_named_is_reached_and_nothing_else() {
    let listed = policy(
        &[
            "a.com",
            "*.b.com",
            "10.1.2.3",
            "192.168.5.0/24",
            "c.com:443",
            "metadata.google.internal",
        ],
        &[("localhost", Some(8080)), ("127.0.0.5", None)],
    );
    for (host, expected) in [
        ("a.com:80", "ok"),
        ("A.COM.:80", "ok"),
        ("www.a.com", "network.host"),
        ("a.com.evil.org", "network.host"),
        ("x.b.com", "ok"),
        ("b.com", "network.host"),
        ("c.com:443", "ok"),
        ("c.com:80", "network.host"),
        ("10.1.2.3:22", "ok"),
        ("10.1.2.4:22", "network.private"),
        ("192.168.5.77", "ok"),
        ("192.168.6.77", "network.private"),
        ("1.1.1.1", "network.host"),
        ("localhost:8080", "ok"),
        ("localhost", "ok"),
        ("foo.localhost:8080", "ok"),
        ("localhost:8081", "network.loopback"),
        ("127.0.0.1:8080", "ok"),
        ("0x7f.1:8080", "ok"),
        ("[::1]:8080", "ok"),
        ("[::ffff:127.0.0.1]:8080", "ok"),
        ("127.0.0.1:8081", "network.loopback"),
        ("127.0.0.2:8080", "network.loopback"),
        ("127.0.0.5:1", "ok"),
        ("0.0.0.0:8080", "network.unspecified"),
        ("[::]:8080", "network.unspecified"),
        ("169.254.169.254", "network.metadata"),
        ("metadata.google.internal", "ok"),
        ("metadata", "network.metadata"),
        ("224.0.0.1", "network.multicast"),
    ] {
        assert_eq!(verdict(listed.check(&to(host))), expected, "{host}");
    }
}

#[test]
fn a_star_covers_no_address_that_has_to_be_named() {
    let all = policy(&["*"], &[]);
    for (host, expected) in [
        ("anything.example", "ok"),
        ("1.1.1.1", "ok"),
        ("localhost", "network.loopback"),
        ("a.localhost", "network.loopback"),
        ("2130706433", "network.loopback"),
        ("10.0.0.1", "network.private"),
        ("100.64.1.1", "network.private"),
        ("[fd12::1]", "network.private"),
        ("[fe80::1]", "network.link_local"),
        ("169.254.169.254", "network.metadata"),
        ("0xa9fea9fe", "network.metadata"),
        ("[fd00:ec2::254]", "network.metadata"),
        ("metadata.google.internal.", "network.metadata"),
        ("198.18.0.1", "network.reserved"),
    ] {
        assert_eq!(verdict(all.check(&to(host))), expected, "{host}");
    }
}

#[test]
fn a_name_does_not_name_the_address_it_leads_to() {
    let named = policy(&["a.com", "*", "10.1.2.0/24"], &[("localhost", Some(80))]);
    for (address, expected) in [
        ("1.1.1.1", "ok"),
        ("10.1.2.9", "ok"),
        ("10.1.3.9", "network.private"),
        ("169.254.169.254", "network.metadata"),
        ("::ffff:169.254.169.254", "network.metadata"),
        ("127.0.0.1", "ok"),
        ("127.0.0.2", "network.loopback"),
        ("0.0.0.0", "network.unspecified"),
    ] {
        let checked = named.check_address(&to("a.com:80"), address.parse().unwrap());
        assert_eq!(verdict(checked), expected, "{address}");
    }
    let other_port = named.check_address(&to("a.com:81"), "127.0.0.1".parse().unwrap());
    assert_eq!(verdict(other_port), "network.loopback");
    let refusal = named
        .check_address(&to("a.com:80"), "10.9.9.9".parse().unwrap())
        .unwrap_err();
    assert_eq!(
        refusal.reason,
        "it leads to 10.9.9.9, which is an address of a private network; such an address has to \
         be named itself in policy.network.allowed_hosts"
    );
    assert_eq!(refusal.remedy, Some("policy.network.allowed_hosts"));
}

#[test]
fn an_empty_list_allows_nothing_and_off_is_off() {
    let empty = policy(&[], &[]);
    let off = NetworkPolicy::bind(&PolicySettings {
        network: NetworkSwitch::Off,
        ..settings(&["*"], &[("localhost", None)])
    })
    .unwrap();
    assert!(empty.is_closed() && off.is_closed() && NetworkPolicy::closed().is_closed());
    for host in ["a.com", "1.1.1.1", "localhost", "127.0.0.1", "10.0.0.1"] {
        let refused = off.check(&to(host)).unwrap_err();
        assert_eq!(
            (refused.rule, refused.may_ask),
            ("network.off", false),
            "{host}"
        );
        assert!(
            empty.check(&to(host)).is_err_and(|it| !it.may_ask),
            "{host}"
        );
    }
}

#[test]
fn what_nobody_has_set_may_be_asked_about_but_for_metadata() {
    let unset = NetworkPolicy::bind(&PolicySettings::default()).unwrap();
    for (host, rule, may_ask) in [
        ("a.com", "network.off", true),
        ("1.1.1.1:80", "network.off", true),
        ("localhost:80", "network.off", true),
        ("127.0.0.1:80", "network.loopback", true),
        ("10.0.0.1", "network.private", true),
        ("169.254.169.254", "network.metadata", false),
        ("metadata.google.internal", "network.metadata", false),
        ("0.0.0.0", "network.unspecified", false),
    ] {
        let refused = unset.check(&to(host)).unwrap_err();
        assert_eq!((refused.rule, refused.may_ask), (rule, may_ask), "{host}");
    }
}

#[test]
fn what_was_approved_is_open_to_that_call_and_its_addresses_are_not() {
    let unset = NetworkPolicy::bind(&PolicySettings::default()).unwrap();
    let opened = unset.opened_for(vec![to("a.com"), to("127.0.0.1:80"), to("169.254.169.254")]);
    for (host, address, expected) in [
        ("a.com:443", "1.1.1.1", "ok"),
        ("a.com:443", "10.0.0.1", "network.private"),
        ("a.com:443", "127.0.0.1", "network.loopback"),
        ("127.0.0.1:80", "127.0.0.1", "ok"),
        ("127.0.0.1:81", "127.0.0.1", "network.loopback"),
        ("169.254.169.254", "169.254.169.254", "network.metadata"),
        ("b.com", "1.1.1.1", "network.off"),
    ] {
        let host = to(host);
        let checked = opened.check(&host);
        let checked = checked.and_then(|()| opened.check_address(&host, address.parse().unwrap()));
        assert_eq!(verdict(checked), expected, "{host}");
    }
    assert!(opened.for_session().check(&to("a.com")).is_err());
}

#[test]
fn rules_about_domains_count_when_a_connection_is_made() {
    let rule = |effect, text: &str| SourcedRule::new(effect, text, RuleSource::User).unwrap();
    let permissions = Permissions {
        mode: PermissionMode::FullAccess,
        rules: vec![
            rule(RuleEffect::Deny, "WebFetch(domain:*.evil.com)"),
            rule(RuleEffect::Ask, "WebFetch(domain:careful.com)"),
            rule(RuleEffect::Allow, "WebFetch(domain:docs.com)"),
        ],
        home: None,
    };
    let bound = |network| {
        let settings = PolicySettings {
            network,
            permissions: permissions.clone(),
            ..settings(&["*"], &[])
        };
        NetworkPolicy::bind(&settings).unwrap()
    };
    for (access, host, expected) in [
        (NetworkSwitch::On, "x.EVIL.com.", "deny_rule"),
        (NetworkSwitch::On, "careful.com", "ask_rule"),
        (NetworkSwitch::On, "other.com", "ok"),
        (NetworkSwitch::Unset, "docs.com", "ok"),
        (NetworkSwitch::Unset, "other.com", "network.off"),
        (NetworkSwitch::Off, "docs.com", "network.off"),
    ] {
        assert_eq!(verdict(bound(access).check(&to(host))), expected, "{host}");
    }
    let opened = bound(NetworkSwitch::On).opened_for(vec![to("careful.com"), to("x.evil.com")]);
    assert_eq!(verdict(opened.check(&to("careful.com"))), "ok");
    assert_eq!(verdict(opened.check(&to("x.evil.com"))), "deny_rule");
}

#[test]
fn an_entry_that_is_no_host_is_an_error_that_names_it() {
    let error = NetworkPolicy::bind(&settings(&["https://a.com/x"], &[])).unwrap_err();
    assert_eq!(error.code(), "invalid_host");
    assert!(
        error
            .to_string()
            .starts_with("policy.network.allowed_hosts: 'https://a.com/x'")
    );
    let error = NetworkPolicy::bind(&settings(&[], &[("a.com", None)])).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("policy.network.allowed_loopback: 'a.com'")
    );
}

fn address() -> impl Strategy<Value = IpAddr> {
    let special: Vec<IpAddr> = [
        "127.0.0.1",
        "::1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "fd00:ec2::254",
        "fe80::1",
        "0.0.0.0",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "224.0.0.1",
    ]
    .map(|it| it.parse().unwrap())
    .to_vec();
    prop_oneof![
        proptest::sample::select(special),
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from),
        any::<[u8; 4]>().prop_map(|it| IpAddr::from(std::net::Ipv4Addr::from(it).to_ipv6_mapped())),
    ]
}

/// An address as people and attackers spell it.
fn spelled(address: IpAddr) -> Vec<String> {
    let plain = address.to_string();
    match address {
        IpAddr::V6(_) => vec![format!("[{plain}]:80"), plain],
        IpAddr::V4(it) => {
            let bits = it.to_bits();
            let [a, b, c, d] = it.octets();
            let tail = u32::from_be_bytes([0, b, c, d]);
            vec![
                plain.clone(),
                format!("{plain}."),
                format!("{plain}:80"),
                bits.to_string(),
                format!("{bits:#x}"),
                format!("0{bits:o}"),
                format!("{a}.{tail}"),
                format!("0x{a:x}.0{b:o}.{c}.0x{d:X}"),
                format!("[::ffff:{plain}]"),
            ]
        }
    }
}

proptest! {
    #[test]
    fn no_address_that_is_not_public_is_reached_unless_it_is_named(address in address()) {
        let all = policy(&["*", "*.example", "a.example"], &[]);
        let public = AddressKind::of(address) == AddressKind::Public;
        prop_assert_eq!(all.check_address(&to("a.example"), address).is_ok(), public);
        for text in spelled(address) {
            let destination = to(&text);
            prop_assert_eq!(&destination.host, &Host::address(address), "{}", text);
            prop_assert_eq!(all.check(&destination).is_ok(), public, "{}", text);
        }
    }

    #[test]
    fn a_network_names_its_own_addresses_only(inside in any::<[u8; 2]>(), other in address()) {
        let named = policy(&["10.20.0.0/16", "a.example"], &[]);
        let [c, d] = inside;
        let here = IpAddr::from([10, 20, c, d]);
        prop_assert!(named.check_address(&to("a.example"), here).is_ok());
        let covered = matches!(other.to_canonical(), IpAddr::V4(it) if it.octets().starts_with(&[10, 20]));
        let public = AddressKind::of(other) == AddressKind::Public;
        prop_assert_eq!(named.check_address(&to("a.example"), other).is_ok(), public || covered);
    }

    #[test]
    fn reading_hosts_never_panics_and_their_form_reads_as_itself(text in ".{0,40}") {
        if let Ok(read) = Destination::parse(&text) {
            prop_assert_eq!(Destination::parse(&read.to_string()), Ok(read));
        }
        let _ = HostPattern::parse(&text);
    }
}
