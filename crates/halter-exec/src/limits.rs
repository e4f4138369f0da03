//! Every bound this crate keeps, with its unit. A limit that is hit shows up
//! in a typed error or in the outcome, never as silence.

use std::time::Duration;

/// Seconds of CPU time between `SIGXCPU` and `SIGKILL` for a process that has
/// used up its limit.
pub const CPU_TIME_GRACE_SECS: u64 = 5;

/// Bytes of one output stream kept in memory unless the caller asks for
/// another bound; half of it is the head, half the tail.
pub const DEFAULT_OUTPUT_MEMORY_BYTES: usize = 1024 * 1024;

/// Bytes of one output stream that may go to its spool file unless the caller
/// asks for another quota.
pub const DEFAULT_SPOOL_QUOTA_BYTES: u64 = 1024 * 1024 * 1024;

/// Bytes of a spooled stream that are kept in memory before a file is made.
pub const SPOOL_HEAD_BYTES: u64 = 64 * 1024;

/// Bytes moved into a spool at a time.
pub const SPLICE_BYTES: u64 = 1024 * 1024;

/// The size of a pipe's first reads, in bytes.
pub const FIRST_READ_BYTES: usize = 4 * 1024;

/// Bytes taken from a pipe by one read.
pub const READ_CHUNK_BYTES: usize = 64 * 1024;

/// Bytes of standard input accepted for one command.
pub const MAX_STDIN_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of command text accepted by a persistent shell.
pub const MAX_COMMAND_BYTES: usize = 1024 * 1024;

/// Bytes of what a shell says of itself.
pub const MAX_REPORT_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of shell state carried over to a new shell.
pub const MAX_SNAPSHOT_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of one completion record of a persistent shell.
pub const MAX_RECORD_BYTES: usize = 64 * 1024;

/// The smallest share of a CPU that can be asked for, in thousandths: below
/// it the system's counting is coarser than the share.
pub const MIN_CPU_MILLIS: u32 = 10;

/// Entries beside hidden paths that file rules can list one by one.
pub const MAX_LISTED_ENTRIES: usize = 20_000;

/// Time a process gets from its birth in name spaces until it executes its
/// program; whoever is inside may stop it meanwhile.
pub const BIRTH_WAIT: Duration = Duration::from_secs(10);

/// Time between TERM and KILL unless the caller asks for another grace.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(2);

/// Time a persistent shell's command gets between INT and TERM.
pub const INTERRUPT_GRACE: Duration = Duration::from_millis(500);

/// Time the last output of an ended command gets to come through its terminal.
pub const TERMINAL_DRAIN_WAIT: Duration = Duration::from_millis(250);

/// Time a killed process tree gets to disappear before it is given up as
/// stuck in the kernel.
pub const KILL_WAIT: Duration = Duration::from_secs(10);

/// Time a persistent shell gets to start and to restore its state.
pub const SHELL_START_DEADLINE: Duration = Duration::from_secs(10);

/// Time between two looks at a persistent shell that has read all it was told
/// and does not answer; after three in a row it is replaced, after six a new one
/// is given up.
pub const SHELL_ANSWER_LOOK: Duration = Duration::from_secs(1);

/// Time a persistent shell gets to leave by itself when it is closed.
pub const SHELL_CLOSE_GRACE: Duration = Duration::from_millis(500);

/// Bytes of what a supervised program wrote to standard error that are kept, to be told
/// when it fails.
pub const LAST_WORDS_BYTES: usize = 4 * 1024;

/// How long a supervised program has to end by itself once its input has ended, and again
/// once it was told to.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// The pause before a supervised program is started again; it doubles each time.
pub const RESTART_DELAY: Duration = Duration::from_millis(500);

/// The longest pause before a supervised program is started again.
pub const RESTART_DELAY_MAX: Duration = Duration::from_secs(30);

/// How often a supervised program is started again that fails each time.
pub const RESTARTS: u32 = 5;

/// A supervised program that was usable for so long has not failed in a row.
pub const RESTART_STABLE: Duration = Duration::from_secs(60);

/// Bytes of a process's command line shown in a process list.
pub const MAX_COMMAND_LINE_BYTES: usize = 4096;

/// Rounds of "stop what is new, look again" before a tree that keeps growing
/// is killed as far as it is known.
pub const MAX_FREEZE_ROUNDS: usize = 64;

/// The shortest and longest pause between two looks at a tree that is being
/// brought down.
pub(crate) const POLL_PAUSE: (Duration, Duration) =
    (Duration::from_micros(500), Duration::from_millis(20));

/// Time before a tree that was killed and is still there is killed again.
pub(crate) const KILL_AGAIN: Duration = Duration::from_millis(50);

/// Time a process in the middle of an exec gets to show whether it belongs to
/// a tree; a longer exec than this is taken for somebody else's.
pub(crate) const UNCLEAR_WAIT: Duration = Duration::from_millis(500);

/// Time a cgroup whose members have died gets to notice.
pub(crate) const RELEASE_WAIT: Duration = Duration::from_secs(1);
