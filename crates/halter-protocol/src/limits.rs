//! Every bound of this crate, with its unit.
//!
//! Those of images and documents are what every model service takes: a message
//! that one service refuses would make the whole session unusable there, for it
//! is sent again with every request.

/// Bytes of an image. In base64 it has at most 5 MiB, which is what services
/// count.
pub const IMAGE_BYTES: usize = 5 * 1024 * 1024 / 4 * 3;

/// Pixels of each side of an image.
pub const IMAGE_SIDE_PIXELS: u32 = 8_000;

/// Bytes of a document.
pub const DOCUMENT_BYTES: usize = 10 * 1024 * 1024;

/// Images and documents of one conversation.
pub const ATTACHMENTS: usize = 100;

/// Bytes of all images and documents of one conversation.
pub const ATTACHMENTS_BYTES: usize = 20 * 1024 * 1024;

/// Images of a conversation up to which one may be larger than
/// [`MANY_IMAGES_SIDE_PIXELS`].
pub const MANY_IMAGES: usize = 20;

/// Pixels of each side of an image in a conversation of more than
/// [`MANY_IMAGES`].
pub const MANY_IMAGES_SIDE_PIXELS: u32 = 2_000;

/// Files of which a session remembers the content it last saw. The oldest is
/// forgotten first; an edit of a forgotten file is checked against
/// `expected_sha256` only.
pub const FILE_VIEWS: usize = 4_096;

/// Instruction files that a session keeps in mind. Of those it was told of since
/// its start the oldest is forgotten first, and told again.
pub const INSTRUCTION_FILES: usize = 128;

/// Permission rules that hold for one session because a person said so.
pub const SESSION_RULES: usize = 256;

/// Background jobs that a session remembers. The oldest is forgotten first.
pub const JOBS: usize = 64;

/// Bytes of the command of a background job that a session remembers.
pub const JOB_COMMAND_BYTES: usize = 500;

/// Subagents that a session remembers. The oldest that does not run is forgotten
/// first, and can be given no more to do.
pub const SUBAGENTS: usize = 256;

/// Tasks that a session holds.
pub const TASKS: usize = 500;

/// Longest permission rule, in bytes.
pub const MAX_RULE_BYTES: usize = 4096;

/// Hexadecimal digits that name the definition of a tool of a server, in a
/// permission rule: enough that no server finds two definitions with the same.
pub const DEFINITION_DIGITS: usize = 32;

/// Deferred tools that a session loads. What is loaded stays: a request begins
/// as the one before did.
pub const LOADED_TOOLS: usize = 128;

/// Tools that join a session late and are told to its model.
pub const TOLD_TOOLS: usize = 1_024;

/// Bytes of a person's answer in words to a question.
pub const FREE_ANSWER_BYTES: usize = 16 * 1024;
