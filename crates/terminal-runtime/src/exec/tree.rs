//! The tree of a command or shell, here or in a container.

use halter_exec::{Bystanders, HeldTree, Signal, TreeControl};

use super::docker::ContainerTree;

/// Everything that came out of one process.
#[derive(Debug)]
pub(super) enum Tree {
    /// On this machine.
    Held(Box<HeldTree>),
    /// In a container, with the number of its first process there.
    Contained(ContainerTree, i32),
}

impl Tree {
    pub(super) fn control(&self) -> TreeControl {
        match self {
            Self::Held(tree) => tree.control(),
            Self::Contained(..) => TreeControl::GroupAndWalk,
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        match self {
            Self::Held(tree) => tree.signal(signal),
            Self::Contained(tree, _) => tree.signal(signal),
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        match self {
            Self::Held(tree) => tree.is_gone(),
            Self::Contained(tree, _) => tree.is_gone(),
        }
    }

    pub(super) async fn kill_until_gone(&self) -> bool {
        match self {
            Self::Held(tree) => tree.kill_until_gone().await,
            Self::Contained(tree, _) => tree.kill_until_gone().await,
        }
    }

    pub(super) fn followers(&self) -> Bystanders {
        match self {
            Self::Held(tree) => tree.followers(),
            Self::Contained(tree, leader) => tree.followers(*leader),
        }
    }

    pub(super) fn count_others(&self, bystanders: &Bystanders) -> usize {
        match self {
            Self::Held(tree) => tree.count_others(bystanders),
            Self::Contained(tree, leader) => tree.count_others(*leader, bystanders),
        }
    }

    pub(super) fn signal_others(&self, signal: Signal, bystanders: &Bystanders) {
        match self {
            Self::Held(tree) => tree.signal_others(signal, bystanders),
            Self::Contained(tree, leader) => tree.signal_others(*leader, signal, bystanders),
        }
    }

    /// The leader's number where it is not a child of the holder's.
    pub(super) fn contained_leader(&self) -> Option<i32> {
        match self {
            Self::Held(_) => None,
            Self::Contained(_, leader) => Some(*leader),
        }
    }
}
