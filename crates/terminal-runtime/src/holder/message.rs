//! What the daemon and its holder say to each other.
//!
//! The holder knows nothing of sessions or commands: it keeps *slots*, each
//! with a key, an opaque record, *units* (groups of descriptors) and perhaps
//! a process, and hands all of them to the next daemon.
//!
//! Messages are `postcard`. A message of the daemon is any number of requests
//! one after the other; one of the holder is a single reply.

use std::path::PathBuf;
use std::time::Duration;

use halter_exec::Containment;
use halter_exec::host::{LaunchFailure, LaunchPlan, os_bytes};
use serde::{Deserialize, Serialize};

/// The version of this vocabulary. It changes with every change of a message
/// or of a record; the greeting (`Hello`, `Welcome`, `Refused`) never does.
pub const VERSION: u64 = 11;

/// The name of a slot, chosen by the daemon.
pub type Key = u64;

/// A group of descriptors that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// Its name.
    pub id: u64,
    /// What it is.
    pub kind: UnitKind,
    /// The numbers its parts have in the holder; -1 for one that is closed.
    pub numbers: Vec<i32>,
}

/// The kinds of units. Part 1, where there is one, is the end that a process
/// is given and that is closed once it has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum UnitKind {
    /// A pipe to be read, and the file its bytes are moved to: read end,
    /// write end, file.
    Output,
    /// A pipe to be written: write end, read end.
    Input,
    /// An anonymous file.
    File,
    /// A terminal: master, slave.
    Terminal,
}

impl UnitKind {
    /// How many parts such a unit has.
    #[must_use]
    pub fn parts(self) -> usize {
        match self {
            Self::Output => 3,
            Self::Input | Self::Terminal => 2,
            Self::File => 1,
        }
    }

    /// The parts of which the daemon gets a copy with a unit the holder made.
    #[must_use]
    pub fn shared_parts(self) -> &'static [usize] {
        match self {
            Self::Output => &[0, 2],
            Self::Input | Self::File | Self::Terminal => &[0],
        }
    }
}

/// Where a descriptor of a new process comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// `/dev/null`.
    Null,
    /// A part of one of the slot's units.
    Part {
        /// The unit's place in the list.
        unit: u8,
        /// The part's place in the unit.
        part: u8,
    },
}

/// What a slot's process is to the holder while no daemon is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Work: the holder waits for a daemon as long as it runs.
    Command,
    /// A shell between commands: not worth waiting for.
    Shell,
}

/// A process that is to be started in a new slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewProcess {
    /// The slot.
    pub key: Key,
    /// Its record.
    pub record: Vec<u8>,
    /// Its units.
    pub units: Vec<u64>,
    /// What the process is.
    pub role: Role,
    /// The descriptors its plan names by position.
    pub slots: Vec<Source>,
    /// How it is made.
    pub plan: LaunchPlan,
}

/// A command that is given to a process that runs already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewCommand {
    /// The command's slot.
    pub key: Key,
    /// Its record.
    pub record: Vec<u8>,
    /// Its units.
    pub units: Vec<u64>,
}

/// How a process ended. Times are in microseconds, `at` on the clock that
/// counts from boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The code it exited with.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// CPU time in user mode.
    pub user_us: u64,
    /// CPU time in the kernel.
    pub system_us: u64,
    /// The largest resident set.
    pub max_resident_bytes: u64,
    /// When it was collected.
    pub at_us: u64,
}

/// The process of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessState {
    /// There is none.
    Absent,
    /// It runs.
    Running {
        /// Its number.
        pid: i32,
    },
    /// It has ended.
    Exited {
        /// The number it had.
        pid: i32,
        /// How.
        exit: Exit,
    },
    /// It could not be made.
    Failed(LaunchFailure),
}

/// Whom a signal sent by the holder reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignalTarget {
    /// The process.
    Process,
    /// Its process group.
    Group,
}

/// From the daemon to the holder. None but `Hello`, `MakeUnits`, `AskPid`,
/// `Contain` and `Cover` is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HolderRequest {
    /// Make units ahead. Answered by `Units`.
    MakeUnits {
        /// Of this kind.
        kind: UnitKind,
        /// So many.
        count: u64,
    },
    /// Who is there. Answered by `Welcome`, every slot, and `Ready`. The
    /// second in this list for ever: holders of every version read it.
    Hello {
        /// The daemon's [`VERSION`].
        version: u64,
    },
    /// A unit made by the daemon; its parts come with the message.
    AddUnit {
        /// Its name.
        id: u64,
        /// What it is.
        kind: UnitKind,
    },
    /// The newest record of a slot, which is made if there is none.
    Store {
        /// The slot.
        key: Key,
        /// The record.
        record: Vec<u8>,
        /// Units that the slot has from now on, besides those it has.
        units: Vec<u64>,
    },
    /// Start a process in a new slot.
    Spawn(Box<NewProcess>),
    /// Write lines to the first unit of a slot, and so perhaps start a
    /// command.
    WriteLines {
        /// The slot whose process reads them.
        key: Key,
        /// What.
        lines: Vec<u8>,
        /// The command.
        command: Option<NewCommand>,
    },
    /// The command of this slot is over: close what was its own.
    Settle {
        /// The slot.
        key: Key,
    },
    /// The output of this slot's command is kept elsewhere: close everything.
    CloseStreams {
        /// The slot.
        key: Key,
    },
    /// The process of this slot is given no more input.
    CloseInput {
        /// The slot.
        key: Key,
    },
    /// Remove a slot and all its units.
    Remove {
        /// The slot.
        key: Key,
    },
    /// Drop units that are in no slot.
    DropUnits {
        /// Which.
        units: Vec<u64>,
    },
    /// Signal a slot's process, if it has not been collected: until then its
    /// number is its own.
    Signal {
        /// The slot.
        key: Key,
        /// The signal's number.
        signal: i32,
        /// Whom.
        target: SignalTarget,
    },
    /// Which number a slot's process has. Answered by `Pid`, when all that
    /// was asked before has been done.
    AskPid {
        /// The slot.
        key: Key,
    },
    /// Kill everything and end.
    End,
    /// Without a daemon, end after this long, whatever is at work: nobody can
    /// renew the lease of the session meanwhile.
    Lease {
        /// How long.
        length: Duration,
    },
    /// Make name spaces, and have every process be born in them from now on.
    /// Answered by `Contained`.
    Contain(Box<Containment>),
    /// Protect and hide what is open of that in these name spaces, and these
    /// paths. Answered by `Covered`.
    Cover {
        /// What is protected from now on as well.
        #[serde(with = "os_bytes::paths")]
        protect: Vec<PathBuf>,
    },
}

/// From the holder to the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HolderReply {
    /// All slots were sent.
    Ready {
        /// The number by which processes of this holder find the one that has
        /// its descriptors: its own, or that of the first process of their PID
        /// namespace.
        descriptor_owner: i32,
    },
    /// The answer to `Hello`. This and `Refused` keep their places in this
    /// list for ever: daemons of every version read them.
    Welcome {
        /// The holder's [`VERSION`].
        version: u64,
        /// The holder's process number.
        pid: i32,
    },
    /// The daemon cannot be served.
    Refused {
        /// The holder's [`VERSION`].
        version: u64,
    },
    /// One slot, with copies of all the parts that are open.
    Slot {
        /// Its name.
        key: Key,
        /// Its record.
        record: Vec<u8>,
        /// Its units.
        units: Vec<Unit>,
        /// Its process.
        process: ProcessState,
    },
    /// Units made ahead, with copies of their shared parts; fewer than asked
    /// for, or none, if the holder could not make more.
    Units {
        /// What they are.
        kind: UnitKind,
        /// Which.
        units: Vec<Unit>,
    },
    /// A slot's process, for the one who asked.
    Pid {
        /// The slot.
        key: Key,
        /// Its number; 0 if there is none that runs.
        pid: i32,
    },
    /// A slot's process has ended.
    Exited {
        /// The slot.
        key: Key,
        /// How.
        exit: Exit,
    },
    /// A slot's process could not be made.
    Failed {
        /// The slot.
        key: Key,
        /// Why.
        failure: LaunchFailure,
    },
    /// Processes are born in the name spaces that were asked for, or not.
    Contained {
        /// Why not.
        refused: Option<String>,
    },
    /// All is covered, or not.
    Covered {
        /// Where something was mounted.
        #[serde(with = "os_bytes::paths")]
        places: Vec<PathBuf>,
        /// Why not.
        refused: Option<String>,
    },
}

impl HolderRequest {
    /// Several as the bytes of one message: either all of them happen or
    /// none.
    ///
    /// # Errors
    /// If one cannot be encoded, which no value of these types is known to
    /// cause.
    pub fn encode_all<'a>(
        requests: impl IntoIterator<Item = &'a Self>,
    ) -> Result<Vec<u8>, postcard::Error> {
        let mut bytes = Vec::new();
        for request in requests {
            bytes = postcard::to_extend(request, bytes)?;
        }
        Ok(bytes)
    }

    /// The requests of one message.
    ///
    /// # Errors
    /// If the bytes are not requests of this version.
    pub fn decode_all(mut bytes: &[u8]) -> Result<Vec<Self>, postcard::Error> {
        let mut requests = Vec::new();
        while !bytes.is_empty() {
            let (request, rest) = postcard::take_from_bytes(bytes)?;
            requests.push(request);
            bytes = rest;
        }
        Ok(requests)
    }
}

impl HolderReply {
    /// As bytes.
    ///
    /// # Errors
    /// As for [`HolderRequest::encode_all`].
    pub fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_stdvec(self)
    }

    /// From bytes.
    ///
    /// # Errors
    /// If they are not a reply of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        match postcard::take_from_bytes(bytes)? {
            (reply, []) => Ok(reply),
            _ => Err(postcard::Error::DeserializeBadEncoding),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn requests() -> Vec<HolderRequest> {
        let plan = LaunchPlan::new("/bin/true", "/").standard_streams();
        vec![
            HolderRequest::Hello { version: VERSION },
            HolderRequest::Spawn(Box::new(NewProcess {
                key: 7,
                record: vec![1, 2],
                units: vec![300, 0],
                role: Role::Shell,
                slots: vec![Source::Null, Source::Part { unit: 1, part: 2 }],
                plan,
            })),
            HolderRequest::WriteLines {
                key: 1,
                lines: b"true\n".to_vec(),
                command: Some(NewCommand {
                    key: u64::MAX,
                    record: Vec::new(),
                    units: vec![1],
                }),
            },
            HolderRequest::End,
        ]
    }

    #[test]
    fn several_requests_are_one_message_and_a_cut_one_is_refused() {
        let all = requests();
        let bytes = HolderRequest::encode_all(&all).unwrap();
        assert_eq!(HolderRequest::decode_all(&bytes).unwrap(), all);
        let last = HolderRequest::encode_all(&all[1..2]).unwrap();
        for end in 1..last.len() {
            assert!(HolderRequest::decode_all(&last[..end]).is_err());
        }
    }

    /// The bytes that a holder and a daemon of version 3 wrote and read.
    #[test]
    fn the_greeting_is_the_one_of_every_version() {
        let hello = HolderRequest::Hello { version: 3 };
        assert_eq!(HolderRequest::encode_all([&hello]).unwrap(), [1, 3]);
        assert_eq!(HolderRequest::decode_all(&[1, 3]).unwrap(), [hello]);
        let refused = HolderReply::Refused { version: 3 };
        assert_eq!(refused.encode().unwrap(), [2, 3]);
        assert_eq!(HolderReply::decode(&[2, 3]).unwrap(), refused);
        let welcome = HolderReply::Welcome { version: 3, pid: 1 };
        assert_eq!(welcome.encode().unwrap(), [1, 3, 2]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in vec(any::<u8>(), 0..300)) {
            let _ = HolderRequest::decode_all(&bytes);
            let _ = HolderReply::decode(&bytes);
        }
    }
}
