//! The wire: one JSON object per line in each direction, and binary frames
//! where they were agreed upon.
//!
//! Owns: every shape and every error code a client can meet. Never: does
//! anything about them.

mod call;
mod data;
mod error;
mod files;
pub mod frame;
mod params;
mod process;
mod reply;
mod request;
#[cfg(test)]
mod schema;
mod text;

pub use call::Call;
pub use data::{
    Cancelled, DescribedLevel, DescribedLimits, DescribedTransport, Description, Encoding,
    ExecListing, ExecResult, ExecStatus, ExecSummary, Gap, Greeting, Nothing, Ping, ReadData,
    RunningCommand, SessionCreated, SessionDestroyed, SessionInfo, SessionListing, Stats,
    StreamEvent, StreamLine, StreamName, StreamStarted, UsageData, WaitData, Written,
};
pub use error::{ErrorCode, WireError};
pub use files::{
    FileAccess, FileBounds, FileBoundsParams, FileData, FileEntry, FileListParams, FileListing,
    FileMkdirData, FileMkdirParams, FileReadParams, FileRemoveParams, FileRemoved,
    FileRenameParams, FileRulesParams, FileStatParams, FileWalkData, FileWalkParams,
    FileWriteParams, FileWritten, ListedFile, WalkedFile,
};
pub use params::{
    AttachParams, CancelParams, CreateParams, DestroyParams, DockerParams, EnvFilterParams,
    ExecParams, HelloParams, LimitParams, MountParams, PtyParams, ReadParams, ResizeParams,
    SandboxParams, SessionParams, SignalParams, SignalScope, SignalSpec, Variables, WaitParams,
    WriteParams,
};
pub use process::{
    CommandProcess, ListedProcess, ProcessListParams, ProcessListing, ProcessSignalParams,
    ProcessSignalled, SignalOutcome, SignalledProcess,
};
pub(crate) use reply::line;
pub use reply::{ReplyLine, failure, success};
pub use request::{Rejection, Request, RequestId, decode};
pub(crate) use text::cut_character;
pub use text::{Piece, TextCutter, encode_bytes};

/// What this version can do beyond the first, as `hello` names it.
pub const FEATURES: &[&str] = &[
    "beside",
    "bounds",
    "clean_env",
    "cwd",
    "filter_env",
    "fs",
    "lease",
    "mounts",
    "namespaces",
    "placeholders",
    "process",
    "protect",
    "sandbox",
];

fn is_false(value: &bool) -> bool {
    !value
}

/// The JSON Schema of the protocol.
pub const SCHEMA: &str = include_str!("../../protocol.schema.json");
