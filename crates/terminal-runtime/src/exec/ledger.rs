//! What the holder is to know about a shell, and which way it learns.
//!
//! A command is told to the holder in one of two ways before it is given to
//! the shell. In a message: the holder then writes the lines to the shell, so
//! that both happen or neither. Or, for a warm shell, in the shell's journal,
//! a file that the holder has too: the daemon then writes the lines itself,
//! and the holder sleeps on. One that dies in between leaves a command of
//! which the next daemon asks the shell whether it has it. The end of such a
//! command is told to nobody: the next entry takes its place.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use super::lock;
use super::record::{Record, ShellRecord};
use super::session::Session;
use crate::holder::{CodecError, HolderLink, Journal, Key, Reader, Request, Start, Writer};

/// What the journal of a shell tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JournalRecord {
    /// How many commands the session was given.
    pub commands: u64,
    /// The encoded state of the shell's driver.
    pub state: Vec<u8>,
    /// The command that has the shell and no slot of its own; its units are in
    /// the shell's slot.
    pub command: Option<Start>,
}

impl JournalRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        let command = self.command.as_ref().map_or(0, |start| start.record.len());
        writer.reserve(self.state.len() + command);
        writer.number(self.commands);
        writer.bytes(&self.state);
        writer.byte(self.command.is_some().into());
        if let Some(command) = &self.command {
            writer.number(command.key);
            writer.bytes(&command.record);
            writer.number(command.units.len() as u64);
            for unit in &command.units {
                writer.number(*unit);
            }
        }
        writer.finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::new(bytes);
        let mut record = Self {
            commands: reader.number("a number of commands")?,
            state: reader.bytes("a shell's state")?.to_vec(),
            command: None,
        };
        if reader.byte("a flag")? != 0 {
            let key = reader.number("a slot")?;
            let kept = reader.bytes("a record")?.to_vec();
            let count = reader.count("a list of units")?;
            let units = (0..count).map(|_| reader.number("a unit"));
            record.command = Some(Start {
                key,
                record: kept,
                units: units.collect::<Result<_, _>>()?,
            });
        }
        reader.finish()?;
        Ok(record)
    }
}

/// What is known and told about one shell. Shared by all who change it.
pub(super) struct Ledger {
    link: HolderLink,
    session: Arc<Session>,
    /// The slot of the shell, whichever process it is.
    key: Key,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    /// The number of the newest entry or message.
    sequence: u64,
    /// The newest state of the driver, and whether nobody else has it.
    state: Vec<u8>,
    unstored: bool,
    /// The command that is about to be given to the shell.
    start: Option<Start>,
    /// Whether that state is the one of this command.
    ready: bool,
    /// Whether we write to the shell ourselves.
    direct: bool,
    journal: Option<Journal>,
    /// The command that the journal tells of.
    noted: Option<Key>,
    /// What goes with the next message.
    deferred: Vec<Request>,
}

impl Ledger {
    pub(super) fn new(link: HolderLink, session: Arc<Session>, key: Key) -> Self {
        Self {
            link,
            session,
            key,
            book: Mutex::default(),
        }
    }

    pub(super) fn link(&self) -> &HolderLink {
        &self.link
    }

    /// The slot of the shell.
    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// Goes on after this number, with a journal if there is one.
    pub(super) fn open(&self, sequence: u64, journal: Option<Journal>) {
        let mut book = lock(&self.book);
        book.sequence = sequence;
        book.journal = journal;
    }

    /// Whether commands can be told of without waking the holder.
    pub(super) fn has_journal(&self) -> bool {
        lock(&self.book).journal.is_some()
    }

    /// Whether we write to the shell ourselves.
    pub(super) fn is_direct(&self) -> bool {
        lock(&self.book).direct
    }

    /// The command that the next lines start, and which way it goes. All that
    /// was said another way must have reached the shell.
    pub(super) fn announce(&self, start: Start, direct: bool) {
        let mut book = lock(&self.book);
        book.start = Some(start);
        book.ready = false;
        book.direct = direct;
    }

    /// Takes the announcement back; the command was not started.
    pub(super) fn retract(&self, key: Key) {
        lock(&self.book).start = None;
        self.strike(key);
    }

    /// The newest state of the driver.
    pub(super) fn remember(&self, state: Vec<u8>, running: bool) {
        let mut book = lock(&self.book);
        book.state = state;
        book.unstored = true;
        book.ready = running;
    }

    /// Has something told with the next message.
    pub(super) fn defer(&self, request: Request) {
        lock(&self.book).deferred.push(request);
    }

    /// Whether something waits to be told.
    pub(super) fn has_deferred(&self) -> bool {
        !lock(&self.book).deferred.is_empty()
    }

    /// What is to be told to the holder together with a command's end.
    pub(super) fn flush(&self) -> Vec<Request> {
        let mut book = lock(&self.book);
        let mut requests = std::mem::take(&mut book.deferred);
        requests.extend(self.take_state(&mut book));
        requests
    }

    fn take_state(&self, book: &mut Book) -> Option<Request> {
        if !std::mem::take(&mut book.unstored) {
            return None;
        }
        book.sequence += 1;
        Some(self.put_request(book.sequence, book.state.clone()))
    }

    /// The shell's slot with this state.
    pub(super) fn put_request(&self, sequence: u64, state: Vec<u8>) -> Request {
        let record = ShellRecord {
            session: self.session.id,
            sequence,
            state,
        };
        Request::Put {
            key: self.key,
            record: Record::Shell(record).encode(),
            units: Vec::new(),
        }
    }

    /// Whether this command has no slot but is told of by the journal.
    pub(super) fn notes(&self, key: Key) -> bool {
        lock(&self.book).noted == Some(key)
    }

    /// A command of the journal has a slot of its own from now on.
    pub(super) fn release(&self, key: Key) {
        let mut book = lock(&self.book);
        if book.noted == Some(key) {
            book.noted = None;
            // The next message with the state is newer than the journal.
            book.unstored = true;
        }
    }

    /// Nobody wants to know of this command any more.
    pub(super) fn strike(&self, key: Key) {
        let mut book = lock(&self.book);
        if book.noted != Some(key) {
            return;
        }
        book.noted = None;
        let idle = JournalRecord {
            commands: self.session.count(),
            state: book.state.clone(),
            command: None,
        };
        if note(&mut book, false, &idle) {
            book.unstored = false;
        } else {
            book.unstored = true;
            let state = self.take_state(&mut book);
            drop(book);
            self.link.send(&state.into_iter().collect::<Vec<_>>());
        }
    }

    /// Says something to the shell, whose slot is `process` and whose pipe is
    /// `pipe`; first whoever survives us learns what has to be known then.
    pub(super) fn say(&self, process: Key, pipe: &OwnedFd, lines: &[u8]) -> io::Result<()> {
        if self.link.is_lost() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut book = lock(&self.book);
        let start = if book.ready { book.start.take() } else { None };
        let mut requests = std::mem::take(&mut book.deferred);
        if !book.direct {
            requests.extend(self.take_state(&mut book));
            if start.is_some() {
                requests.push(self.session.count_request());
            }
            requests.push(tell(process, lines, start));
            self.link.send(&requests);
            return Ok(());
        }
        if let Some(start) = start {
            let entry = JournalRecord {
                commands: self.session.count_one(),
                state: book.state.clone(),
                command: Some(start),
            };
            if !note(&mut book, true, &entry) {
                requests.extend(self.move_out(entry.command));
                requests.extend(self.take_state(&mut book));
                requests.push(self.session.current_count_request());
                requests.push(tell(process, lines, None));
                book.direct = false;
                self.link.send(&requests);
                return Ok(());
            }
            book.noted = entry.command.map(|command| command.key);
            book.unstored = false;
        }
        if !requests.is_empty() {
            self.link.send(&requests);
        }
        write_line(pipe, lines)
    }

    /// A command that the journal cannot hold has a slot from the beginning.
    fn move_out(&self, command: Option<Start>) -> Option<Request> {
        let command = command?;
        Some(Request::Move {
            from: self.key,
            key: command.key,
            record: command.record,
            units: command.units,
            working: true,
        })
    }
}

fn tell(key: Key, lines: &[u8], start: Option<Start>) -> Request {
    Request::Tell {
        key,
        lines: lines.to_vec(),
        start,
    }
}

fn note(book: &mut Book, working: bool, record: &JournalRecord) -> bool {
    let sequence = book.sequence + 1;
    let payload = record.encode();
    let journal = book.journal.as_mut();
    let noted = journal.is_some_and(|journal| journal.write(sequence, working, &payload));
    if noted {
        book.sequence = sequence;
    }
    noted
}

/// All of it or nothing: what fits a pipe's buffer is never cut.
fn write_line(pipe: impl AsFd, lines: &[u8]) -> io::Result<()> {
    let written = rustix::io::retry_on_intr(|| rustix::io::write(&pipe, lines))?;
    if written == lines.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journals_record_survives_its_encoding_and_a_cut_one_is_refused() {
        let command = Start {
            key: 7,
            record: vec![1, 2],
            units: vec![300, 0],
        };
        for command in [None, Some(command)] {
            let record = JournalRecord {
                commands: 1 << 40,
                state: vec![0, 255],
                command,
            };
            let bytes = record.encode();
            assert_eq!(JournalRecord::decode(&bytes).unwrap(), record);
            for end in 0..bytes.len() {
                assert!(JournalRecord::decode(&bytes[..end]).is_err());
            }
        }
    }
}
