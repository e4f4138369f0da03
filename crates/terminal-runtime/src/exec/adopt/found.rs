//! What an earlier daemon left with a session's holder, sorted.

use std::path::PathBuf;

use halter_exec::host::ShellState;

use crate::exec::record::{ExecRecord, Place, Record, ShellProcessRecord, TreeId};
use crate::exec::session::trees::InheritedTrees;
use crate::exec::types::SessionSpec;
use crate::holder::{FoundSlot, Key};

/// The slots of a session.
#[derive(Default)]
pub(super) struct FoundSession {
    pub session: Option<(Key, SessionSpec)>,
    /// How many commands it was given.
    pub count: Option<(Key, u64)>,
    /// The directory of its control group.
    pub group: Option<PathBuf>,
    pub shell: Option<FoundShell>,
    pub processes: Vec<(FoundSlot, ShellProcessRecord)>,
    pub execs: Vec<(FoundSlot, ExecRecord)>,
}

/// The slot of a shell.
pub(super) struct FoundShell {
    pub slot: FoundSlot,
    /// `None` if it never had a command.
    pub state: Option<ShellState>,
}

impl FoundSession {
    /// Sorts slots; the keys of those with a record that cannot be read come
    /// back with them.
    pub(super) fn of(slots: Vec<FoundSlot>) -> (Self, Vec<Key>) {
        let mut found = Self::default();
        let mut unreadable = Vec::new();
        for slot in slots {
            let key = slot.key;
            match Record::decode(&slot.record) {
                Ok(Record::Session(spec)) => found.session = Some((key, *spec)),
                Ok(Record::Count(record)) => {
                    found.count = Some((key, record.commands));
                    found.group = record.group;
                }
                Ok(Record::Shell(record)) => {
                    found.shell = Some(FoundShell {
                        slot,
                        state: record.state,
                    });
                }
                Ok(Record::ShellProcess(record)) => found.processes.push((slot, record)),
                Ok(Record::Exec(record)) => found.execs.push((slot, *record)),
                Err(error) => {
                    tracing::warn!(%error, "a record of an earlier runtime cannot be read");
                    unreadable.push(key);
                }
            }
        }
        (found, unreadable)
    }

    /// What is known of the trees that were made for it; `None` if none was.
    pub(super) fn inherited_trees(&self) -> Option<InheritedTrees> {
        let processes = self.processes.iter().map(|(_, record)| &record.tree);
        let execs = self.execs.iter();
        let execs = execs.filter_map(|(_, record)| match &record.place {
            Place::Process(tree) => Some(tree),
            Place::Shell(_) => None,
        });
        let trees: Vec<&TreeId> = processes.chain(execs).collect();
        let commands = self.count.map_or(0, |(_, commands)| commands);
        (commands > 0 || !trees.is_empty()).then(|| InheritedTrees {
            highest: trees
                .iter()
                .filter_map(|tree| number(tree))
                .max()
                .unwrap_or(0),
            group: self.group.clone(),
        })
    }
}

/// The number of a tree within its session.
fn number(tree: &TreeId) -> Option<u64> {
    match tree {
        TreeId::Cgroup(path) => path.file_name()?.to_str()?.strip_prefix('t')?.parse().ok(),
        TreeId::Marker(marker) => marker.rsplit('-').next()?.parse().ok(),
    }
}
