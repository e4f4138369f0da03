//! The bounds of language servers. Each is enforced where it is named and
//! tested at its edge.

use std::time::Duration;

/// Bytes of one message of a server.
pub const MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of the head of a message.
pub const HEAD_BYTES: usize = 4 * 1024;

/// Messages to a server that may wait to be written.
pub const OUTGOING_MESSAGES: usize = 64;

/// Requests to a server that may wait for an answer.
pub const OPEN_REQUESTS: usize = 64;

/// How long a server may take to start, unless its settings say otherwise.
pub const START_WAIT: Duration = Duration::from_secs(30);

/// The longest that settings may say.
pub const START_WAIT_MAX: Duration = Duration::from_secs(300);

/// How long an answer to a request may take.
pub const REQUEST_WAIT: Duration = Duration::from_secs(30);

/// How long the tool `diagnostics` waits for a server to look at a file.
pub const DIAGNOSTICS_WAIT: Duration = Duration::from_secs(30);

/// How long the result of an edit waits for the same, starting the server
/// included.
pub const EDIT_WAIT: Duration = Duration::from_secs(5);

/// How long a server may take to end after it was asked to.
pub const STOP_WAIT: Duration = Duration::from_secs(2);

/// Bytes of a file that is sent to a server.
pub const DOCUMENT_BYTES: u64 = 2 * 1024 * 1024;

/// Files that are open in one server; the one that was looked at longest ago is
/// closed for another.
pub const OPEN_DOCUMENTS: usize = 64;

/// Files of which a server's diagnostics are kept.
pub const KNOWN_FILES: usize = 1_024;

/// Diagnostics of one file that a model is shown.
pub const SHOWN_DIAGNOSTICS: usize = 40;

/// Characters of the message of one diagnostic, and of a refusal.
pub const DIAGNOSTIC_CHARS: usize = 400;

/// Places that a model is shown.
pub const SHOWN_PLACES: usize = 200;

/// Changed files of one call that are looked at.
pub const OBSERVED_FILES: usize = 8;
