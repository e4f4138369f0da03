//! A shell's state outside the shell: what a successor is given.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::host::{SharedFile, ShellFiles};
use crate::limits::MAX_SNAPSHOT_BYTES;

/// A state as a shell wrote it down.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    tag: String,
    /// Where the shell was.
    pub cwd: PathBuf,
    /// What brings another shell to this state.
    pub script: Vec<u8>,
}

impl Snapshot {
    /// The directory, a NUL, the script, and a last line that tells that this
    /// is all.
    fn parse(mut content: Vec<u8>) -> Option<Self> {
        let start = content
            .strip_suffix(b"\n")?
            .iter()
            .rposition(|byte| *byte == b'\n')?
            + 1;
        let last = content.split_off(start);
        let tag = last.strip_prefix(b"#complete ")?.strip_suffix(b"\n")?;
        let cwd_end = content.iter().position(|byte| *byte == 0)?;
        let script = content.split_off(cwd_end + 1);
        content.pop();
        // A file that was emptied while it was being written has a hole.
        if script.contains(&0) {
            return None;
        }
        Some(Self {
            tag: String::from_utf8(tag.to_vec()).ok()?,
            cwd: OsString::from_vec(content).into(),
            script,
        })
    }

    fn read(file: &SharedFile) -> Option<Self> {
        Self::parse(file.read(MAX_SNAPSHOT_BYTES).ok()??)
    }

    pub(super) fn write(&self, file: &SharedFile, tag: u64) -> io::Result<()> {
        let mut content = self.cwd.clone().into_os_string().into_vec();
        content.push(0);
        content.extend_from_slice(&self.script);
        content.extend_from_slice(format!("#complete {tag}\n").as_bytes());
        file.write(&content)
    }

    pub(super) fn turn(&self) -> Option<u64> {
        self.tag.parse().ok()
    }
}

/// The snapshots of one shell. Two files are written in turn, so that one is
/// always whole; the third takes what the shell says when it exits.
#[derive(Debug)]
pub(super) struct Snapshots {
    files: ShellFiles,
}

impl Snapshots {
    pub(super) fn new(files: ShellFiles) -> Self {
        Self { files }
    }

    pub(super) fn mailbox(&self) -> &SharedFile {
        &self.files.mailbox
    }

    pub(super) fn turn_file(&self, turn: u64) -> &SharedFile {
        let [even, odd] = &self.files.turns;
        if turn.is_multiple_of(2) { even } else { odd }
    }

    /// The place of this regular snapshot, which is about to be written.
    pub(super) fn turn_path(&self, turn: u64) -> &Path {
        self.turn_file(turn).path()
    }

    /// Where a shell leaves its state when it exits.
    pub(super) fn exit_path(&self) -> &Path {
        self.files.exit.path()
    }

    /// Makes the state that the shell left at its exit the one to start
    /// from, as this turn. `None` if the shell did not get to leave one.
    pub(super) fn keep_exit(&self, turn: u64) -> Option<Snapshot> {
        let left = Snapshot::read(&self.files.exit).filter(|found| found.tag == "exit");
        let kept = left.filter(|found| found.write(self.turn_file(turn), turn).is_ok());
        // Only now: until the state was somewhere else, this was all of it.
        self.clear_exit();
        kept
    }

    /// Forgets every state, so that the next shell has no predecessor.
    pub(super) fn forget(&self) -> io::Result<()> {
        let [even, odd] = &self.files.turns;
        even.clear()?;
        odd.clear()?;
        self.files.exit.clear()
    }

    /// Forgets a state left for an exit that did not come.
    pub(super) fn clear_exit(&self) {
        let exit = &self.files.exit;
        if !exit.is_empty().unwrap_or(false) {
            let _ = exit.clear();
        }
    }

    /// The newest regular snapshot.
    pub(super) fn latest(&self) -> Option<Snapshot> {
        self.files
            .turns
            .iter()
            .filter_map(Snapshot::read)
            .filter(|found| found.turn().is_some())
            .max_by_key(Snapshot::turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(content: &[u8]) -> Option<(String, PathBuf, Vec<u8>)> {
        let found = Snapshot::parse(content.to_vec())?;
        Some((found.tag, found.cwd, found.script))
    }

    #[test]
    fn only_a_snapshot_written_to_its_end_counts() {
        assert_eq!(
            parsed(b"/tmp\nx\0x=1\n#complete 1\n"),
            Some(("1".to_owned(), "/tmp\nx".into(), b"x=1\n".to_vec()))
        );
        for torn in [
            &b""[..],
            b"/tmp\0",
            b"/tmp\0x=1\n",
            b"/tmp\0x=1\n#comple",
            b"/tmp\0x=1\n#complete 1",
            b"x=1\n#complete 1\n",
            b"\0\0\0\0=1\n#complete 1\n",
            b"/tmp\0\0\0\0x=1\n#complete 1\n",
        ] {
            assert_eq!(parsed(torn), None, "{torn:?}");
        }
    }

    #[test]
    fn the_largest_state_is_kept_and_one_byte_more_is_not() {
        let file = SharedFile::new(crate::host::Spool::memory_file().unwrap(), "");
        let mut snapshot = Snapshot {
            tag: "1".to_owned(),
            cwd: "/".into(),
            script: Vec::new(),
        };
        snapshot.write(&file, 1).unwrap();
        let overhead = file.read(MAX_SNAPSHOT_BYTES).unwrap().unwrap().len();
        snapshot.script = vec![b'\n'; MAX_SNAPSHOT_BYTES - overhead];
        snapshot.write(&file, 1).unwrap();
        assert!(Snapshot::read(&file).is_some_and(|found| found == snapshot));
        snapshot.script.push(b'\n');
        snapshot.write(&file, 1).unwrap();
        assert_eq!(Snapshot::read(&file), None);
    }
}
