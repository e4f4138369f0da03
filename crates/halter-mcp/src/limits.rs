//! The bounds of servers and of what they send. Each is enforced where it is
//! named and tested at its edge.

pub use halter_exec::limits::STOP_GRACE;
use std::time::Duration;

/// Bytes of the name of a server: it is part of the name of each of its tools.
pub const SERVER_NAME_BYTES: usize = 48;

/// Bytes of the name of a tool, as models call it: no model service takes
/// longer ones.
pub const TOOL_NAME_BYTES: usize = 64;

// --- serving ----------------------------------------------------------------

/// Bytes of one message of a host.
pub const MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// Messages to a host that may wait to be written.
pub const OUTGOING_MESSAGES: usize = 64;

/// How long the last messages to a host may take to leave.
pub const STREAM_CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Tasks and calls that run for hosts at one time.
pub const TASKS_AT_ONCE: usize = 16;

/// Messages about progress that may wait for a host; later ones are dropped.
pub const PROGRESS_MESSAGES: usize = 64;

/// Characters of one message about progress.
pub const PROGRESS_CHARS: usize = 400;

/// A host that wants progress hears something this often.
pub const PROGRESS_BEAT: Duration = Duration::from_secs(15);

/// Bytes of a question to a person. A call that needs a longer one is denied.
pub const QUESTION_BYTES: usize = 64 * 1024;

/// How long a host may take to answer a question.
pub const QUESTION_WAIT: Duration = Duration::from_secs(600);

/// The same for a host that answers by calling again: then the task is
/// cancelled.
pub const PARKED_WAIT: Duration = Duration::from_secs(600);

/// How long work may take to end after it was cancelled.
pub const WORK_END_WAIT: Duration = Duration::from_secs(15);

/// HTTP connections at one time.
pub const HTTP_CONNECTIONS: usize = 64;

/// Hosts with an HTTP session of the protocol at one time.
pub const HTTP_SESSIONS: usize = 64;

/// How long the head of an HTTP request may take.
pub const HTTP_HEAD_WAIT: Duration = Duration::from_secs(10);

/// A host whose HTTP session was silent for so long has gone.
pub const HTTP_IDLE: Duration = Duration::from_secs(3600);

/// How long a host that lost its connection has to come back to its session.
pub const HOST_RETURN_WAIT: Duration = Duration::from_secs(30);

// --- using servers ------------------------------------------------------------

/// Bytes of one message of a server. One that sends more is disconnected.
pub const SERVER_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// Lines in a row that are no messages. A server that prints more to its
/// standard output is disconnected.
pub const STRAY_LINES: usize = 1000;

/// Messages that a server may send in [`FLOOD_WINDOW`]; one that sends more is
/// disconnected.
pub const FLOOD_MESSAGES: u32 = 20_000;

/// The time that messages are counted in.
pub const FLOOD_WINDOW: Duration = Duration::from_secs(5);

/// How long a server has to start and say what it has, unless its settings say
/// otherwise.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a server has to answer the question for the newest revision, or a
/// third of its start if that is less; then an older revision is spoken.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a harness waits for its servers before its first session. Tools of
/// those that take longer join later.
pub const SETTLE_GRACE: Duration = Duration::from_secs(1);

/// How long a call may take without a sign of progress, unless the settings of
/// its server say otherwise.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest a call may take, whatever progress is made.
pub const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);

/// Servers of a harness that run once more, for sessions in other directories.
/// For another one the one that was called longest ago is ended.
pub const INSTANCES_ELSEWHERE: usize = 16;

/// Tools that one server may have; it has none of the others.
pub const TOOLS_PER_SERVER: usize = 1000;

/// The pause before a server that says again that its tools have changed is
/// asked for them again. It doubles each time.
pub const LIST_CHANGE_PAUSE: Duration = Duration::from_millis(100);

/// The longest such pause. A server that says nothing for so long has its
/// changes learnt at once again.
pub const LIST_CHANGE_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Pages of one list that a server is asked for.
pub const LIST_PAGES: usize = 200;

/// Resources, and patterns of resources, that one server is heard to have.
pub const RESOURCES_PER_SERVER: usize = 1000;

/// Prompts that one server is heard to have.
pub const PROMPTS_PER_SERVER: usize = 200;

/// Bytes of a list of resources that a model is shown; the rest is cut.
pub const RESOURCE_LIST_BYTES: usize = 64 * 1024;

/// Parts of one resource, or messages of one prompt, that are taken; the others
/// are left out with a note.
pub const RESOURCE_PARTS: usize = 32;

/// Bytes of the address of a resource.
pub const RESOURCE_URI_BYTES: usize = 4 * 1024;

/// Resources that one message of a user may mention.
pub const MENTIONS_PER_MESSAGE: usize = 16;

/// Bytes of the description of a tool that models are shown.
pub const DESCRIPTION_BYTES: usize = 4 * 1024;

/// Bytes of what a server says of the use of its tools that models are shown.
pub const INSTRUCTIONS_BYTES: usize = 2 * 1024;

/// Bytes of the schema of a tool. A tool with a larger one is left out.
pub const SCHEMA_BYTES: usize = 64 * 1024;

/// How deep the schema of a tool may be nested. A tool with a deeper one is
/// left out.
pub const SCHEMA_DEPTH: usize = 32;

/// Bytes of the name of a property of a tool, as Anthropic takes them. A longer
/// one is cut.
pub const PROPERTY_NAME_BYTES: usize = 64;

/// Bytes of text in one result that a model is shown; the rest is cut.
pub const RESULT_TEXT_BYTES: usize = 256 * 1024;

/// Rounds in which one call may ask for input.
pub const INPUT_ROUNDS: usize = 10;

/// What a server may ask of people and models during one call.
pub const REQUESTS_PER_CALL: usize = 100;

/// Fields of a form that a server wants filled in.
pub const FORM_FIELDS: usize = 32;

/// Bytes of each text of a question of a server: what it says first, the title
/// and the description of a field.
pub const FORM_TEXT_BYTES: usize = 600;

/// Bytes of an address that a server wants opened. It is shown whole.
pub const FORM_ADDRESS_BYTES: usize = 1400;

/// How often a person is asked for a field until the answer fits.
pub const FORM_TRIES: usize = 3;

/// Messages that a server may have a model continue.
pub const SAMPLE_MESSAGES: usize = 100;

/// Bytes of such a request.
pub const SAMPLE_BYTES: usize = 1024 * 1024;

/// Bytes of one message of progress that is shown.
pub const PROGRESS_BYTES: usize = 1024;

/// Bytes of a server's own text, such as an error, that is repeated.
pub const QUOTED_BYTES: usize = 2 * 1024;

// --- servers over HTTP --------------------------------------------------------

/// How long a call of a server over HTTP may take without a sign of progress,
/// unless its settings say otherwise.
pub const HTTP_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long an event stream may be silent, unless the settings of its server
/// say otherwise.
pub const EVENT_READ_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a server may take to begin its answer, where no call waits for it:
/// to open an event stream, or to take a message.
pub const HTTP_ANSWER_WAIT: Duration = Duration::from_secs(30);

/// How long the first call of a session waits for the event stream on which a
/// server may ask something meanwhile. Some say nothing of it before they ask.
pub const FIRST_STREAM_WAIT: Duration = Duration::from_secs(2);

/// Bytes of the body of an HTTP error that are read.
pub const HTTP_ERROR_BYTES: usize = 64 * 1024;

/// The shortest pause before an event stream is opened again, whatever its
/// server wishes.
pub const EVENT_RETRY_MIN: Duration = Duration::from_millis(100);

/// The longest such pause.
pub const EVENT_RETRY_MAX: Duration = Duration::from_secs(60);

/// A server over HTTP that failed too often in a row is tried again after this
/// pause: it is not ours to start.
pub const HTTP_RETRY_PAUSE: Duration = Duration::from_secs(60);

// --- logging in ---------------------------------------------------------------

/// Bytes of one answer of an authorization server.
pub const OAUTH_BYTES: usize = 1024 * 1024;

/// How long one request to an authorization server may take.
pub const OAUTH_WAIT: Duration = Duration::from_secs(30);

/// A token that expires within this time is renewed before it is used. For one
/// that is valid for a shorter time than four times this, a quarter of that.
pub const TOKEN_MARGIN: Duration = Duration::from_secs(30);

/// Bytes of the file with the tokens of a server.
pub const TOKEN_FILE_BYTES: usize = 256 * 1024;

/// How long a process waits for another one that writes the tokens of a server.
pub const TOKEN_LOCK_WAIT: Duration = Duration::from_secs(35);

/// How often a session looks whether its user has logged in to a server.
pub const LOGIN_POLL: Duration = Duration::from_secs(2);
