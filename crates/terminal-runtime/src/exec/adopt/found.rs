//! What an earlier daemon left with the holder, sorted by session.

use std::collections::HashMap;
use std::path::PathBuf;

use halter_exec::host::ShellState;

use crate::exec::record::{ExecRecord, Place, Record, SessionRecord, ShellProcessRecord, TreeId};
use crate::exec::session::trees::InheritedTrees;
use crate::holder::{FoundSlot, Key};
use crate::session::SessionId;

/// The slots of one session.
#[derive(Default)]
pub(super) struct FoundSession {
    pub session: Option<(Key, SessionRecord)>,
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

/// Sorts slots by session; the keys of those with a record that cannot be
/// read come back with them.
pub(super) fn by_session(slots: Vec<FoundSlot>) -> (HashMap<SessionId, FoundSession>, Vec<Key>) {
    let mut sessions: HashMap<SessionId, FoundSession> = HashMap::new();
    let mut unreadable = Vec::new();
    for slot in slots {
        let key = slot.key;
        let record = match Record::decode(&slot.record) {
            Ok(record) => record,
            Err(error) => {
                tracing::warn!(%error, "a record of an earlier runtime cannot be read");
                unreadable.push(key);
                continue;
            }
        };
        let found = sessions.entry(record.session()).or_default();
        match record {
            Record::Session(record) => found.session = Some((key, record)),
            Record::Count(record) => {
                found.count = Some((key, record.commands));
                found.group = record.group;
            }
            Record::Shell(record) => {
                found.shell = Some(FoundShell {
                    slot,
                    state: record.state,
                });
            }
            Record::ShellProcess(record) => found.processes.push((slot, record)),
            Record::Exec(record) => found.execs.push((slot, *record)),
        }
    }
    (sessions, unreadable)
}

impl FoundSession {
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

    /// All but the one of the session itself.
    pub(super) fn keys(&self) -> Vec<Key> {
        let processes = self.processes.iter().map(|(slot, _)| slot.key);
        let execs = self.execs.iter().map(|(slot, _)| slot.key);
        let shell = self.shell.iter().map(|shell| shell.slot.key);
        let count = self.count.iter().map(|(key, _)| *key);
        processes.chain(execs).chain(shell).chain(count).collect()
    }
}

/// The number of a tree within its session.
fn number(tree: &TreeId) -> Option<u64> {
    match tree {
        TreeId::Cgroup(path) => path.file_name()?.to_str()?.strip_prefix('t')?.parse().ok(),
        TreeId::Marker(marker) => marker.rsplit('-').next()?.parse().ok(),
    }
}
