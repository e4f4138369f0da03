//! The tree of a command or shell, here or in a container.

use halter_exec::host::{EarlierProcesses, HeldTree};
use halter_exec::{Signal, TreeControl};

use crate::exec::session::container::ContainerTree;

/// Everything that came out of one process.
#[derive(Debug)]
pub(in crate::exec) enum Tree {
    /// On this machine.
    Held(Box<HeldTree>),
    /// In a container, with the number of its first process there.
    Contained(ContainerTree, i32),
}

impl Tree {
    pub(in crate::exec) fn control(&self) -> TreeControl {
        match self {
            Self::Held(tree) => tree.control(),
            Self::Contained(..) => TreeControl::GroupAndWalk,
        }
    }

    pub(in crate::exec) fn signal(&self, signal: Signal) {
        match self {
            Self::Held(tree) => tree.signal(signal),
            Self::Contained(tree, _) => tree.signal(signal),
        }
    }

    pub(in crate::exec) fn is_gone(&self) -> bool {
        match self {
            Self::Held(tree) => tree.is_gone(),
            Self::Contained(tree, _) => tree.is_gone(),
        }
    }

    pub(in crate::exec) async fn kill_until_gone(&self) -> bool {
        match self {
            Self::Held(tree) => tree.kill_until_gone().await,
            Self::Contained(tree, _) => tree.kill_until_gone().await,
        }
    }

    pub(in crate::exec) fn followers(&self) -> EarlierProcesses {
        match self {
            Self::Held(tree) => tree.followers(),
            Self::Contained(tree, leader) => tree.followers(*leader),
        }
    }

    pub(in crate::exec) fn count_others(&self, earlier: &EarlierProcesses) -> usize {
        match self {
            Self::Held(tree) => tree.count_others(earlier),
            Self::Contained(tree, leader) => tree.count_others(*leader, earlier),
        }
    }

    pub(in crate::exec) fn signal_others(&self, signal: Signal, earlier: &EarlierProcesses) {
        match self {
            Self::Held(tree) => tree.signal_others(signal, earlier),
            Self::Contained(tree, leader) => tree.signal_others(*leader, signal, earlier),
        }
    }

    /// The leader's number where it is not a child of the holder's.
    pub(in crate::exec) fn contained_leader(&self) -> Option<i32> {
        match self {
            Self::Held(_) => None,
            Self::Contained(_, leader) => Some(*leader),
        }
    }
}
