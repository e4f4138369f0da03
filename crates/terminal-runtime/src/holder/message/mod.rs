//! What the daemon and its holder say to each other.
//!
//! The holder knows nothing of sessions or commands: it keeps *slots*, each
//! with a key, an opaque record, *units* (groups of descriptors) and perhaps
//! a process, and hands all of them to the next daemon.

mod encoding;

use halter_exec::LaunchFailure;

/// The version of this vocabulary. `Hello`, `Welcome` and `Refused` stay
/// readable for every later version.
pub const VERSION: u64 = 3;

/// The name of a slot, chosen by the daemon.
pub type Key = u64;

/// A group of descriptors that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum UnitKind {
    /// A pipe to be read, and the file its bytes are moved to: read end,
    /// write end, file.
    Output = 1,
    /// A pipe to be written: write end, read end.
    Input = 2,
    /// An anonymous file.
    File = 3,
    /// A terminal: master, slave.
    Terminal = 4,
    /// A [journal](crate::holder::Journal).
    Journal = 5,
}

impl UnitKind {
    /// How many parts such a unit has.
    #[must_use]
    pub fn parts(self) -> usize {
        match self {
            Self::Output => 3,
            Self::Input | Self::Terminal => 2,
            Self::File | Self::Journal => 1,
        }
    }

    /// The parts of which the daemon gets a copy with a unit the holder made.
    #[must_use]
    pub fn shared_parts(self) -> &'static [usize] {
        match self {
            Self::Output => &[0, 2],
            Self::Input | Self::File | Self::Terminal | Self::Journal => &[0],
        }
    }
}

/// Where a descriptor of a new process comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// Work: the holder waits for a daemon as long as it runs.
    Command = 1,
    /// A shell between commands: not worth waiting for.
    Shell = 2,
}

/// A process that is to be started in a new slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Birth {
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
    /// The encoded plan.
    pub plan: Vec<u8>,
}

/// A command that is given to a process that runs already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The command's slot.
    pub key: Key,
    /// Its record.
    pub record: Vec<u8>,
    /// Its units.
    pub units: Vec<u64>,
}

/// How a process ended. Times are in microseconds, `at` on the clock that
/// counts from boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// From the daemon to the holder. None but `Hello`, `Make` and `Show` is
/// answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Who is there. Answered by `Welcome`, every slot, and `Ready`.
    Hello {
        /// The daemon's [`VERSION`].
        version: u64,
    },
    /// Make units ahead. Answered by `Units`.
    Make {
        /// Of this kind.
        kind: UnitKind,
        /// So many.
        count: u64,
    },
    /// A unit made by the daemon; its parts come with the message.
    Give {
        /// Its name.
        id: u64,
        /// What it is.
        kind: UnitKind,
    },
    /// The newest record of a slot, which is made if there is none.
    Put {
        /// The slot.
        key: Key,
        /// The record.
        record: Vec<u8>,
        /// Units that the slot has from now on, besides those it has.
        units: Vec<u64>,
    },
    /// Units that a slot has from now on, without their process's parts:
    /// whoever writes to them opens them by name.
    Keep {
        /// The slot.
        key: Key,
        /// The units.
        units: Vec<u64>,
    },
    /// Move units of a slot to another, which is made if there is none.
    Move {
        /// The slot that has them.
        from: Key,
        /// The slot that gets them.
        key: Key,
        /// Its record.
        record: Vec<u8>,
        /// The units.
        units: Vec<u64>,
        /// Whether it is work that is not over.
        working: bool,
    },
    /// Start a process in a new slot.
    Spawn(Birth),
    /// Write lines to the first unit of a slot, and so perhaps start a
    /// command.
    Tell {
        /// The slot that is told.
        key: Key,
        /// What.
        lines: Vec<u8>,
        /// The command.
        start: Option<Start>,
    },
    /// The command of this slot is over: close what was its own.
    Settle {
        /// The slot.
        key: Key,
    },
    /// The process of this slot is given no more input.
    CloseInput {
        /// The slot.
        key: Key,
    },
    /// Drop a slot and all its units.
    Forget {
        /// The slot.
        key: Key,
    },
    /// Drop a slot, and keep its outputs for one that is to come: without an
    /// end to write to, which the next process gets anew.
    Recycle {
        /// The slot, whose process has ended and whose pipes nobody writes to.
        key: Key,
        /// Whether there is something in the files, which are emptied then.
        written: bool,
    },
    /// Close what is kept open of control groups, since some of them go.
    ForgetGroups,
    /// Drop units that are in no slot.
    Drop {
        /// Which.
        units: Vec<u64>,
    },
    /// Signal a slot's process.
    Signal {
        /// The slot.
        key: Key,
        /// The signal's number.
        signal: i32,
    },
    /// Which number a slot's process has. Answered by `Started`, when all
    /// that was asked before has been done.
    Show {
        /// The slot.
        key: Key,
    },
    /// Kill everything and end.
    End,
}

/// From the holder to the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The answer to `Hello`.
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
    /// That was all.
    Ready,
    /// Units made ahead, with copies of their shared parts; fewer than asked
    /// for, or none, if the holder could not make more.
    Units {
        /// What they are.
        kind: UnitKind,
        /// Which.
        units: Vec<Unit>,
    },
    /// A slot's process, for the one who asked.
    Started {
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
}
