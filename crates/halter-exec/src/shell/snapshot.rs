//! A shell's state outside the shell: what a successor is given.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::quiet::defines_code;
use crate::limits::MAX_SNAPSHOT_BYTES;
use crate::sys;

/// The anonymous files a shell writes its state to. Two are written in turn,
/// so that one is always whole; the third takes what the shell says when it
/// exits.
#[derive(Debug)]
pub(super) struct Snapshots {
    turns: [File; 2],
    next_turn: u64,
    exit: File,
    /// Whether the newest state defines code; looked up once for each.
    defines_code: Option<bool>,
}

impl Snapshots {
    pub(super) fn new() -> io::Result<Self> {
        let file = || sys::data_file("halter-shell-state", b"");
        Ok(Self {
            turns: [file()?, file()?],
            next_turn: 1,
            exit: file()?,
            defines_code: None,
        })
    }

    /// The tag and the place of the next regular snapshot.
    pub(super) fn next_turn(&mut self) -> (String, PathBuf) {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.defines_code = None;
        let [even, odd] = &self.turns;
        let file = if turn.is_multiple_of(2) { even } else { odd };
        (turn.to_string(), sys::handover_path(file))
    }

    /// Where a shell leaves its state when it exits.
    pub(super) fn exit_path(&self) -> PathBuf {
        sys::handover_path(&self.exit)
    }

    /// The state left at exit, if the shell got to leave one.
    pub(super) fn take_exit(&self) -> Option<Vec<u8>> {
        let found = whole(&self.exit).filter(|(tag, _)| tag == "exit");
        let _ = self.exit.set_len(0);
        found.map(|(_, state)| state)
    }

    /// Forgets a state left for an exit that did not come.
    pub(super) fn clear_exit(&self) {
        let _ = self.exit.set_len(0);
    }

    /// The newest regular snapshot.
    pub(super) fn latest(&self) -> Option<Vec<u8>> {
        self.turns
            .iter()
            .filter_map(whole)
            .filter_map(|(tag, state)| Some((tag.parse::<u64>().ok()?, state)))
            .max_by_key(|(turn, _)| *turn)
            .map(|(_, state)| state)
    }

    /// Whether the newest state has functions, aliases or traps that could run
    /// in place of a program; true if there is no state to tell by.
    pub(super) fn define_code(&mut self) -> bool {
        if let Some(known) = self.defines_code {
            return known;
        }
        let defined = self.latest().is_none_or(|state| defines_code(&state));
        self.defines_code = Some(defined);
        defined
    }

    /// Makes this the state to start from, until a newer one is written.
    pub(super) fn keep(&mut self, state: &[u8]) -> io::Result<()> {
        let file = sys::data_file("halter-shell-state", &tagged(self.next_turn, state))?;
        let [even, odd] = &mut self.turns;
        let place = if self.next_turn.is_multiple_of(2) {
            even
        } else {
            odd
        };
        *place = file;
        self.next_turn += 1;
        self.defines_code = None;
        Ok(())
    }
}

fn tagged(turn: u64, state: &[u8]) -> Vec<u8> {
    let mut content = state.to_vec();
    content.extend_from_slice(format!("#complete {turn}\n").as_bytes());
    content
}

/// The tag and the content of a snapshot that was written to its end.
fn whole(file: &File) -> Option<(String, Vec<u8>)> {
    let mut content = sys::read_data_file(file, MAX_SNAPSHOT_BYTES).ok()??;
    let start = content
        .strip_suffix(b"\n")?
        .iter()
        .rposition(|byte| *byte == b'\n')?
        + 1;
    let last = content.split_off(start);
    let tag = last.strip_prefix(b"#complete ")?.strip_suffix(b"\n")?;
    Some((String::from_utf8(tag.to_vec()).ok()?, content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn only_a_snapshot_written_to_its_end_counts() {
        let snapshots = Snapshots::new().unwrap();
        assert_eq!(snapshots.latest(), None);
        let [even, odd] = &snapshots.turns;
        odd.write_all_at(b"x=1\n#complete 1\n", 0).unwrap();
        assert_eq!(snapshots.latest().unwrap(), b"x=1\n");
        even.write_all_at(b"x=2\n#comple", 0).unwrap();
        assert_eq!(snapshots.latest().unwrap(), b"x=1\n");
        even.write_all_at(b"x=2\n#complete 2\n", 0).unwrap();
        assert_eq!(snapshots.latest().unwrap(), b"x=2\n");
    }

    #[test]
    fn the_exit_state_is_taken_once() {
        let snapshots = Snapshots::new().unwrap();
        snapshots
            .exit
            .write_all_at(b"y=1\n#complete exit\n", 0)
            .unwrap();
        assert_eq!(snapshots.take_exit().unwrap(), b"y=1\n");
        assert_eq!(snapshots.take_exit(), None);
    }
}
