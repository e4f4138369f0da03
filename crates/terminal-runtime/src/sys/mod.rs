//! The seam to the operating system, for what `halter-exec` does not cover:
//! messages between daemon and holder, names of descriptors, what the system
//! says about this program and about containers.
//!
//! Two backends have the same items: `linux`, and `portable` for any other
//! Unix, which can do less and says so. `--cfg halter_portable` takes the second
//! one on Linux too, to test it.

mod rights;

#[cfg(all(target_os = "linux", not(halter_portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(halter_portable)))]
use linux as backend;

#[cfg(not(all(target_os = "linux", not(halter_portable))))]
mod portable;
#[cfg(not(all(target_os = "linux", not(halter_portable))))]
use portable as backend;

pub(crate) use backend::{
    Arriving, ChildEnds, HANGUP, NUMBER_NEEDED_AFTER, Unsent, accept, channel, descriptor_path,
    environment_of, finish, guarantees, is_hangup, namespace_of, number_inside, open_descriptors,
    place_in, processes, receive, sees_containers, send, stat, take_in_orphans, way_into,
};
/// A property of the runtime by its stable name: what gives it, or what there
/// is instead.
pub(crate) type Guarantee = (&'static str, Result<&'static str, &'static str>);

/// What tells a process apart from a later one with the same number, and who
/// made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub parent: i32,
    pub start_time: u64,
}

#[cfg(test)]
pub(crate) use {backend::channel_pair, rights::MAX_DESCRIPTORS};
