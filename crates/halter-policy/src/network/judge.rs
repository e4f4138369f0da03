//! Whether a host may be reached.

use std::net::IpAddr;

use halter_protocol::action::HOST_NOT_LISTED;
use halter_protocol::{Objection, RuleEffect, RuleSubject};

use super::address::AddressKind;
use super::domain::DomainPattern;
use super::host::{Destination, Host};
use super::pattern::{HostPattern, LOCALHOST, LoopbackService};
use crate::error::PolicyError;
use crate::permission::{SourcedRule, suggest};
use crate::settings::{NetworkSwitch, PolicySettings};

/// Names by which clouds' metadata services are found: no wildcard covers
/// them.
const METADATA_NAMES: [&str; 5] = [
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.goog",
    "metadata.google.internal",
];

/// The rule of a refusal because a rule wants a person to decide.
const ASK_RULE: &str = "ask_rule";

const ENABLED: &str = "policy.network.enabled";
const ALLOWED_HOSTS: &str = "policy.network.allowed_hosts";
const ALLOWED_LOOPBACK: &str = "policy.network.allowed_loopback";

/// Why a host is not reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRefusal {
    /// The host, with its port where that is known.
    pub host: String,
    /// The rule; stable, for programs to match on.
    pub rule: &'static str,
    /// What is wrong, and what to set.
    pub reason: String,
    /// The setting that would have to change.
    pub remedy: Option<&'static str>,
    /// A person may be asked: nobody has set anything about the network, a rule
    /// wants it, or a list that was set does not name the host.
    pub may_ask: bool,
}

impl HostRefusal {
    /// The refusal as a sentence, with what to set.
    #[must_use]
    pub fn message(&self) -> String {
        format!("cannot reach '{}': {}", self.host, self.reason)
    }

    /// What a person is asked before a running call reaches the host.
    #[must_use]
    pub fn objection(&self) -> Objection {
        let message = format!(
            "a running command or tool would reach '{}': {}",
            self.host, self.reason
        );
        Objection {
            fragment: Some(self.host.clone()),
            remedy: self.remedy.map(str::to_owned),
            // What asks about a host asks again, whatever is allowed.
            always: (self.rule != ASK_RULE)
                .then(|| suggest::for_host(&self.host))
                .flatten(),
            ..Objection::new(self.rule, message)
        }
    }
}

impl From<HostRefusal> for PolicyError {
    fn from(refusal: HostRefusal) -> Self {
        Self::HostDenied {
            host: refusal.host,
            rule: refusal.rule,
            reason: refusal.reason,
            remedy: refusal.remedy,
        }
    }
}

/// What a session's tools and commands may reach. Pure: it looks nothing up.
#[derive(Debug, Clone)]
pub struct NetworkPolicy {
    access: NetworkSwitch,
    hosts: Vec<HostPattern>,
    loopback: Vec<LoopbackService>,
    rules: Vec<(DomainPattern, SourcedRule)>,
    /// What a person approved for the session.
    approved: Vec<DomainPattern>,
    /// Nobody widens the list.
    fixed: bool,
    /// What the call that this is for was let through to.
    opened: Vec<Destination>,
}

impl NetworkPolicy {
    /// Reads the settings.
    ///
    /// # Errors
    /// [`PolicyError::InvalidHost`] for an entry that names no host.
    pub fn bind(settings: &PolicySettings) -> Result<Self, PolicyError> {
        let invalid = |setting, entry: &str, reason| PolicyError::InvalidHost {
            setting,
            entry: entry.to_owned(),
            reason,
        };
        let hosts = settings.allowed_hosts.iter().map(|entry| {
            HostPattern::parse(entry).map_err(|why| invalid(ALLOWED_HOSTS, entry, why))
        });
        let loopback = settings.allowed_loopback.iter().map(|(host, port)| {
            LoopbackService::parse(host, *port).map_err(|why| invalid(ALLOWED_LOOPBACK, host, why))
        });
        let domains =
            settings
                .permissions
                .rules
                .iter()
                .filter_map(|rule| match rule.rule.subject() {
                    RuleSubject::Domain(host) => Some((DomainPattern::new(host), rule.clone())),
                    _ => None,
                });
        Ok(Self {
            access: settings.network,
            hosts: hosts.collect::<Result<_, _>>()?,
            loopback: loopback.collect::<Result<_, _>>()?,
            rules: domains.collect(),
            approved: Vec::new(),
            fixed: settings.fixed_lists.hosts,
            opened: Vec::new(),
        })
    }

    /// A policy by which nothing may be reached and nobody is asked.
    #[must_use]
    pub const fn closed() -> Self {
        Self {
            access: NetworkSwitch::Off,
            hosts: Vec::new(),
            loopback: Vec::new(),
            rules: Vec::new(),
            approved: Vec::new(),
            fixed: true,
            opened: Vec::new(),
        }
    }

    /// Whether no host at all can be reached, so that there is nothing to
    /// connect a command to.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let opens = |rule: &SourcedRule| rule.effect == RuleEffect::Allow;
        match self.access {
            NetworkSwitch::Off => true,
            NetworkSwitch::Unset => !self.rules.iter().any(|(_, rule)| opens(rule)),
            NetworkSwitch::On => self.hosts.is_empty() && self.loopback.is_empty(),
        }
    }

    /// Whether nobody has set anything about the network, so that a person may
    /// open it host by host.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        self.access == NetworkSwitch::Unset
    }

    /// Whether services on this machine may be reached.
    #[must_use]
    pub fn reaches_loopback(&self) -> bool {
        self.access == NetworkSwitch::On && !self.loopback.is_empty()
    }

    /// The policy for a call that was let through to these hosts besides, by
    /// the judgement of it or by a person whom it asked.
    #[must_use]
    pub fn opened_for(mut self, hosts: impl IntoIterator<Item = Destination>) -> Self {
        self.opened.extend(hosts);
        self
    }

    /// The policy with what a person approved for the session.
    #[must_use]
    pub(crate) fn with_approved(mut self, domains: Vec<DomainPattern>) -> Self {
        self.approved = domains;
        self
    }

    /// The policy of the session, without what one call was let through to.
    #[must_use]
    pub fn for_session(mut self) -> Self {
        self.opened.clear();
        self
    }

    /// Fails unless a host may be reached, as far as that can be said without
    /// looking it up. Rules that deny or ask refuse: whoever connects asks
    /// nobody.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, destination: &Destination) -> Result<(), HostRefusal> {
        let opened = self.is_opened(destination);
        for (domain, rule) in &self.rules {
            let closes = match rule.effect {
                RuleEffect::Deny => true,
                RuleEffect::Ask => !opened,
                RuleEffect::Allow => false,
            };
            if closes && domain.covers(&destination.host) {
                let mut refusal = by_rule(destination, rule);
                refusal.may_ask &= self
                    .check_settings(destination)
                    .map_or_else(|it| it.may_ask, |()| true);
                return Err(refusal);
            }
        }
        match self.check_settings(destination) {
            Err(refusal) if self.is_passed(&refusal, destination) => Ok(()),
            checked => checked,
        }
    }

    /// Whether a refusal was answered: by a person, or where nobody has set
    /// anything by a rule.
    fn is_passed(&self, refusal: &HostRefusal, destination: &Destination) -> bool {
        match refusal.rule {
            HOST_NOT_LISTED => refusal.may_ask && self.is_approved(destination),
            _ => refusal.may_ask && self.is_vouched_for(destination),
        }
    }

    /// As [`check`](Self::check) by the settings alone: rules are the
    /// permission tree's to hold against a call.
    pub(crate) fn check_settings(&self, destination: &Destination) -> Result<(), HostRefusal> {
        if self.access == NetworkSwitch::Off {
            let reason = "the network is off; policy.network.enabled turns it on for the hosts \
                          that policy.network.allowed_hosts lists";
            return Err(refusal(destination, "network.off", reason, ENABLED));
        }
        if let Host::Address(address) = destination.host {
            self.check_kind(destination, address)?;
        }
        if is_metadata(&destination.host) && !self.names_exactly(destination) {
            let reason = "clouds hand out credentials there; policy.network.allowed_hosts can \
                          name it, no wildcard covers it";
            let rule = AddressKind::Metadata.rule();
            return Err(refusal(destination, rule, reason, ALLOWED_HOSTS));
        }
        if self.access == NetworkSwitch::Unset {
            let reason = "the network is off unless it is allowed; set policy.network.enabled \
                          and list the host in policy.network.allowed_hosts, or allow it by a \
                          rule WebFetch(domain:…) in permissions.allow";
            return Err(HostRefusal {
                may_ask: true,
                ..refusal(destination, "network.off", reason, ENABLED)
            });
        }
        if destination.host.is_localhost() {
            let here = |it: &IpAddr| self.serves(*it, destination.port);
            return match LOCALHOST.iter().any(here) {
                true => Ok(()),
                false => Err(unnamed(destination, None, AddressKind::Loopback)),
            };
        }
        // A loopback address that came this far is named by its service.
        let here = match destination.host {
            Host::Address(address) => AddressKind::of(address) == AddressKind::Loopback,
            Host::Name(_) => false,
        };
        let listed = here || self.hosts.iter().any(|it| it.covers(destination));
        match listed {
            true => Ok(()),
            false => {
                let reason = "policy.network.allowed_hosts does not list it";
                Err(HostRefusal {
                    // An empty list is meant to be one.
                    may_ask: !self.hosts.is_empty() && !self.fixed,
                    ..refusal(destination, HOST_NOT_LISTED, reason, ALLOWED_HOSTS)
                })
            }
        }
    }

    /// Fails unless a host that [`check`](Self::check) lets through may be
    /// reached at this address, which it was found to have.
    ///
    /// # Errors
    /// Why not.
    pub fn check_address(
        &self,
        destination: &Destination,
        address: IpAddr,
    ) -> Result<(), HostRefusal> {
        self.check_kind(destination, address)
    }

    /// Whether a host was approved by name, so that the call may reach it.
    fn is_opened(&self, destination: &Destination) -> bool {
        self.opened.iter().any(|it| {
            let port = it.port.is_none() || it.port == destination.port;
            it.host == destination.host && port
        })
    }

    /// Whether a person or a rule of theirs said yes to a host where nobody has
    /// set anything.
    fn is_vouched_for(&self, destination: &Destination) -> bool {
        let allows = |(domain, rule): &(DomainPattern, SourcedRule)| {
            rule.effect == RuleEffect::Allow && domain.covers(&destination.host)
        };
        self.is_approved(destination) || self.rules.iter().any(allows)
    }

    /// Whether a person said yes to a host, for the call or for the session.
    fn is_approved(&self, destination: &Destination) -> bool {
        let covers = |domain: &DomainPattern| domain.covers(&destination.host);
        self.is_opened(destination) || self.approved.iter().any(covers)
    }

    fn names_exactly(&self, destination: &Destination) -> bool {
        self.access == NetworkSwitch::On && self.hosts.iter().any(|it| it.is_exactly(destination))
    }

    fn serves(&self, address: IpAddr, port: Option<u16>) -> bool {
        self.loopback.iter().any(|it| it.is_at(address, port))
    }

    /// Fails for an address that is not public and that nobody named.
    fn check_kind(&self, destination: &Destination, address: IpAddr) -> Result<(), HostRefusal> {
        let address = address.to_canonical();
        let kind = AddressKind::of(address);
        let on = self.access == NetworkSwitch::On;
        let port = destination.port;
        let named = match kind {
            AddressKind::Public => true,
            AddressKind::Unspecified | AddressKind::Multicast => false,
            AddressKind::Loopback => on && self.serves(address, port),
            _ => on && self.hosts.iter().any(|it| it.names_on(address, port)),
        };
        // `localhost` is never looked up: it is as good as its addresses.
        let here = kind == AddressKind::Loopback && destination.host.is_localhost();
        let spelled = here || destination.host == Host::Address(address);
        let askable = spelled
            && self.access == NetworkSwitch::Unset
            && matches!(
                kind,
                AddressKind::Loopback
                    | AddressKind::Private
                    | AddressKind::LinkLocal
                    | AddressKind::Reserved
            );
        // A person who said yes to an address has named it.
        if named || (askable && self.is_vouched_for(destination)) {
            return Ok(());
        }
        let mut refusal = unnamed(destination, (!spelled).then_some(address), kind);
        refusal.may_ask = askable;
        Err(refusal)
    }
}

fn is_metadata(host: &Host) -> bool {
    matches!(host, Host::Name(name) if METADATA_NAMES.contains(&name.as_str()))
}

fn refusal(
    destination: &Destination,
    rule: &'static str,
    reason: &str,
    remedy: &'static str,
) -> HostRefusal {
    HostRefusal {
        host: destination.to_string(),
        rule,
        reason: reason.to_owned(),
        remedy: Some(remedy),
        may_ask: false,
    }
}

/// The refusal of an address, or of a name that leads to it.
fn unnamed(destination: &Destination, leads_to: Option<IpAddr>, kind: AddressKind) -> HostRefusal {
    let what = match leads_to {
        Some(address) => format!("it leads to {address}, which is {}", kind.described()),
        None => format!("it is {}", kind.described()),
    };
    let (how, remedy) = match kind {
        AddressKind::Loopback => (
            "; policy.network.allowed_loopback names services of this machine",
            Some(ALLOWED_LOOPBACK),
        ),
        AddressKind::Unspecified | AddressKind::Multicast => ("; it cannot be allowed", None),
        _ => (
            "; such an address has to be named itself in policy.network.allowed_hosts",
            Some(ALLOWED_HOSTS),
        ),
    };
    HostRefusal {
        host: destination.to_string(),
        rule: kind.rule(),
        reason: format!("{what}{how}"),
        remedy,
        may_ask: false,
    }
}

fn by_rule(destination: &Destination, rule: &SourcedRule) -> HostRefusal {
    let (code, how, remedy) = match rule.effect {
        RuleEffect::Deny => ("deny_rule", "forbids it", "permissions.deny"),
        _ => (ASK_RULE, "wants a person to decide", "permissions.ask"),
    };
    let reason = format!("{} {how}", rule.described());
    HostRefusal {
        may_ask: rule.effect == RuleEffect::Ask,
        ..refusal(destination, code, &reason, remedy)
    }
}

#[cfg(test)]
mod tests;
