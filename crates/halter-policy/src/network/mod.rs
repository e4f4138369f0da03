//! Which hosts may be reached: hosts are parsed, never compared as text.
//!
//! A connection passes two checks. [`NetworkPolicy::check`] decides about the
//! host as it was named, before anything is looked up; whoever looks it up then
//! holds every address it leads to against [`NetworkPolicy::check_address`], and
//! connects to one of those and to no other. So a name that leads somewhere else
//! the second time it is asked for gains nothing.
//!
//! What an entry of `policy.network.allowed_hosts` covers:
//!
//! | entry | covers |
//! |---|---|
//! | `example.com` | that name, and no name below it |
//! | `*.example.com` | every name below it, however deep, and not the name itself |
//! | `*` | every name, and every public address |
//! | `10.1.2.3`, `[fd00::1]` | that address |
//! | `10.1.2.0/24` | the addresses of that network |
//! | `example.com:443`, `10.1.2.3:443` | the same, on that port only |
//!
//! An address that is not a public one has to be named as an address, by its
//! entry or that of its network: `*` does not cover it, and neither does the
//! name that leads there. The addresses at which clouds hand out credentials
//! are covered by their own entry only, those of this machine by
//! `policy.network.allowed_loopback` only.

mod address;
mod domain;
mod host;
mod judge;
mod pattern;

pub use address::AddressKind;
pub use host::{Destination, Host};
pub use judge::{HostRefusal, NetworkPolicy};
pub use pattern::{HostPattern, LoopbackService};

pub(crate) use domain::DomainPattern;
