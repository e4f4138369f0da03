//! Every bound of the runtime that is not a setting, by name and with its
//! unit. What a user may change is a setting.

use std::time::Duration;

/// The longest request, in bytes; also the largest body of an HTTP request.
pub const MAX_REQUEST_BYTES: usize = 1024 * 1024;

/// How deep objects and arrays of a request may be nested.
pub const MAX_REQUEST_DEPTH: usize = 64;

/// The longest request id that is echoed, in bytes.
pub const MAX_ID_BYTES: usize = 256;

/// How many requests of one connection may wait for a command at a time.
pub const MAX_IN_FLIGHT: usize = 256;

/// How many requests of one connection that end commands or sessions may wait
/// at a time, beside those that wait for the commands: one for each.
pub const MAX_ENDING_IN_FLIGHT: usize = MAX_IN_FLIGHT;

/// How many bytes the requests of one connection that wait may have together;
/// most of them are input that a command does not take yet.
pub const MAX_IN_FLIGHT_BYTES: usize = 16 * MAX_REQUEST_BYTES;

/// How many connections the Unix socket has at a time.
pub const MAX_CONNECTIONS: usize = 1024;

/// How many HTTP connections that have shown the token there are at a time.
pub const MAX_HTTP_CONNECTIONS: usize = 512;

/// How many HTTP connections that have not shown the token yet there are at a
/// time; the oldest is closed for the next.
pub const MAX_UNAUTHENTICATED_HTTP: usize = 128;

/// How long an HTTP connection may be silent after it was made.
pub const HTTP_FIRST_BYTE_WAIT: Duration = Duration::from_secs(5);

/// How many descriptors are kept for what runs already: nothing new is started
/// with fewer.
pub const SPARE_DESCRIPTORS: u64 = 64;

/// How many commands may wait for one session.
pub const MAX_QUEUED: usize = 64;

/// How many commands may run beside the shell of one session.
pub const MAX_BESIDE: usize = 64;

/// How many commands that have ended are kept for their clients.
pub const MAX_KEPT_EXECS: usize = 256;

/// How long a command that has ended is kept for its client.
pub const EXEC_RETENTION: Duration = Duration::from_mins(15);

/// The most bytes in one piece of a stream.
pub const STREAM_CHUNK_BYTES: usize = 64 * 1024;

/// The most bytes in one binary frame of a stream.
pub const FRAME_CHUNK_BYTES: usize = 256 * 1024;

/// The largest payload a frame may announce, in bytes.
pub const MAX_FRAME_BYTES: usize = 1024 * 1024;

/// The most bytes one `exec.read` returns.
pub const MAX_READ_BYTES: usize = 1024 * 1024;

/// What `exec.read` returns without `max`, in bytes.
pub const DEFAULT_READ_BYTES: usize = 64 * 1024;

/// The longest wait of one `exec.read` or `exec.wait`.
pub const MAX_WAIT: Duration = Duration::from_mins(10);

/// The longest timeout of a command; `0` asks for none at all.
pub const MAX_TIMEOUT: Duration = Duration::from_hours(24 * 365);

/// How long nothing may come of a command over a network before its connection
/// is made anew: one that died without a word says nothing, nor does a quiet
/// command.
pub const STREAM_SILENCE: Duration = Duration::from_secs(30);

/// How long a client tries to reach a runtime that it has lost.
pub const RECONNECT_TIME: Duration = Duration::from_secs(10);

/// The same for tools: nearly as long as the runtime keeps their sessions.
pub const SESSION_RECONNECT_TIME: Duration = Duration::from_secs(55);

/// How long a session of tools goes on at a runtime when nobody renews it:
/// longer than a connection is tried for, and than a runtime takes to start.
pub const SESSION_LEASE: Duration = Duration::from_secs(60);

/// How often a lease is renewed before it could run out.
pub const RENEWALS_IN_A_LEASE: u32 = 4;

/// The longest lease of a session.
pub const MAX_LEASE: Duration = Duration::from_hours(24);

/// How often idle sessions and kept commands are looked at.
pub const SWEEP_PERIOD: Duration = Duration::from_secs(60);

/// How many idle sessions are ended at a time when memory is short.
pub const PRESSURE_EVICTIONS: usize = 5;

/// How old a measurement of the runtime's own memory may be.
pub const PRESSURE_MEMORY_AGE: Duration = Duration::from_secs(1);

/// The largest `.env` file that is read, in bytes.
pub const MAX_ENV_FILE_BYTES: u64 = 1024 * 1024;

/// The longest line a client accepts from a runtime, in bytes: two streams of
/// output at their largest setting, escaped.
pub const MAX_REPLY_BYTES: usize = 256 * 1024 * 1024;

/// The largest discovery file that is read, in bytes.
pub const MAX_DISCOVERY_BYTES: u64 = 64 * 1024;

/// Bytes of a message between daemon and holder that travel in the datagram
/// itself; a longer one travels in a file.
pub const MAX_INLINE_MESSAGE_BYTES: usize = 64 * 1024;

/// Bytes of any message between daemon and holder.
pub const MAX_HOLDER_MESSAGE_BYTES: u64 = 64 * 1024 * 1024;

/// How long something the holder is told for its own relief waits for a
/// message to go with.
pub const LATER_REQUEST_WAIT: Duration = Duration::from_millis(20);

/// How much of that waits at a time.
pub const MAX_LATER_REQUESTS: usize = 64;

/// Groups of descriptors that the holder makes for one request.
pub const MAX_UNITS_AHEAD: u64 = 64;

/// How long a holder without a daemon, and with nothing at work, waits for
/// the next one.
pub const HOLDER_LINGER: Duration = Duration::from_secs(600);

/// How many sessions that were lost with their holders are remembered, so that
/// whoever asks for one is told why it is gone.
pub const MAX_LOST_SESSIONS: usize = 256;

/// How long the holder may take to bring down what is left when it ends.
pub const HOLDER_END_WAIT: Duration = Duration::from_secs(10);

/// How long the sockets and locks of a killed runtime may stay with a program
/// that it was starting.
pub const INHERITED_WAIT: Duration = Duration::from_millis(500);

/// How long a holder may take to cover what is protected before a command. On a
/// file system that does not answer it waits forever, and no client would know.
pub const COVER_DEADLINE: Duration = Duration::from_secs(60);

/// How long a holder may take to start and to answer.
pub const HOLDER_START_DEADLINE: Duration = Duration::from_secs(10);

/// Empty control groups that a session keeps for its next command.
pub const SPARE_GROUPS: usize = 2;

/// How long the processes of a session that is destroyed may take to die.
pub const TREE_END_WAIT: Duration = Duration::from_secs(10);

/// The size of the pipe of a stream that has shown to be busy.
pub const LARGE_PIPE_BYTES: usize = 1024 * 1024;

/// Bytes of what a shell has said about its commands that are kept before
/// they are forgotten.
pub const MAX_RECORD_FILE_BYTES: u64 = 64 * 1024;

/// How long a command that is cancelled gets between the first signal and
/// TERM.
pub const CANCEL_GRACE: Duration = Duration::from_millis(500);

/// How long the engine of containers may take to answer when it is asked
/// whether it is there.
pub const CONTAINER_PROBE_DEADLINE: Duration = Duration::from_secs(5);

/// How long one call of the `docker`-compatible program may take.
pub const CONTAINER_DEADLINE: Duration = Duration::from_secs(120);

/// How long the engine of containers may take to fetch an image.
pub const CONTAINER_PULL_DEADLINE: Duration = Duration::from_mins(10);

/// Bytes of a file that are read or written by one call.
pub const FILE_CHUNK_BYTES: usize = 512 * 1024;

/// Bytes of a file that is written through the runtime.
pub const MAX_FILE_WRITE_BYTES: usize = 16 * 1024 * 1024;

/// Writes in parts that are kept at once; one more is refused.
pub const MAX_FILE_UPLOADS: usize = 64;

/// Bytes of all writes in parts that are kept at once.
pub const MAX_UPLOADED_BYTES: usize = 8 * MAX_FILE_WRITE_BYTES;

/// How long a write in parts is kept after its last part.
pub const FILE_UPLOAD_AGE: Duration = Duration::from_mins(5);

/// Sets of rules for files whose roots are remembered; the oldest is forgotten.
pub const MAX_FILE_DOORS: usize = 256;

/// Names in one reply of `fs.walk`.
pub const MAX_FILE_WALK_NAMES: usize = 100_000;

/// Names in one reply of `fs.list`.
pub const MAX_FILE_NAMES: usize = 4096;
