//! The hosts of a session, within those of its harness.

use halter_tools::policy::network::{Destination, Host, HostPattern, LoopbackService};
use halter_tools::policy::{NetworkSwitch, PolicySettings};

/// Whether the harness may reach all that an entry names.
pub(super) fn lists(settings: &PolicySettings, entry: &str) -> bool {
    if settings.network != NetworkSwitch::On {
        return false;
    }
    if let Some((_, asked)) = loopback(entry) {
        let services = settings.allowed_loopback.iter();
        let mut read = services.filter_map(|(host, port)| LoopbackService::parse(host, *port).ok());
        return read.any(|it| it.includes(&asked));
    }
    let Ok(asked) = HostPattern::parse(entry) else {
        return false;
    };
    let hosts = settings.allowed_hosts.iter();
    let mut read = hosts.filter_map(|it| HostPattern::parse(it).ok());
    read.any(|it| it.includes(&asked))
}

/// Leaves the hosts that the harness may reach and the session asks for.
pub(super) fn narrow(settings: &mut PolicySettings, hosts: &[String]) {
    let (mut names, mut services) = (Vec::new(), Vec::new());
    for entry in hosts.iter().filter(|it| lists(settings, it)) {
        match loopback(entry) {
            Some((service, _)) => services.push(service),
            None => names.push(entry.clone()),
        }
    }
    settings.allowed_hosts = names;
    settings.allowed_loopback = services;
    // A session that says what it may reach is not asked about more.
    if settings.network == NetworkSwitch::Unset {
        settings.network = NetworkSwitch::Off;
    }
}

/// The service of this machine that an entry names.
fn loopback(entry: &str) -> Option<((String, Option<u16>), LoopbackService)> {
    let Destination { host, port } = Destination::parse(entry).ok()?;
    let text = match &host {
        Host::Name(name) => name.clone(),
        Host::Address(address) => address.to_string(),
    };
    let service = LoopbackService::parse(&text, port).ok()?;
    Some(((text, port), service))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(network: NetworkSwitch) -> PolicySettings {
        PolicySettings {
            network,
            allowed_hosts: vec!["*.a.example".into(), "b.example".into()],
            allowed_loopback: vec![("localhost".into(), Some(80))],
            ..PolicySettings::default()
        }
    }

    #[test]
    fn a_session_has_what_it_asks_for_and_its_harness_has() {
        for (entry, has) in [
            ("b.example", true),
            ("B.example.:443", true),
            ("x.a.example", true),
            ("*.x.a.example", true),
            ("a.example", false),
            ("*", false),
            ("localhost:80", true),
            ("127.0.0.1:80", true),
            ("localhost", false),
            ("10.0.0.1", false),
            ("not a host", false),
        ] {
            assert_eq!(lists(&settings(NetworkSwitch::On), entry), has, "{entry}");
            assert!(!lists(&settings(NetworkSwitch::Off), entry), "{entry}");
        }
        let mut narrowed = settings(NetworkSwitch::On);
        let asked = ["b.example", "c.example", "127.0.0.1:80", "localhost"];
        narrow(&mut narrowed, &asked.map(str::to_owned));
        assert_eq!(narrowed.allowed_hosts, ["b.example"]);
        assert_eq!(narrowed.allowed_loopback, [("127.0.0.1".into(), Some(80))]);
        let mut unset = settings(NetworkSwitch::Unset);
        narrow(&mut unset, &[]);
        assert_eq!(unset.network, NetworkSwitch::Off);
    }
}
