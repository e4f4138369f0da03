//! Every method by its name.

use super::Client;
use super::error::ClientError;
use crate::protocol::{
    CancelParams, Cancelled, CreateParams, Description, DestroyParams, ExecListing, ExecParams,
    ExecResult, FileBounds, FileBoundsParams, FileData, FileEntry, FileListParams, FileListing,
    FileMkdirData, FileMkdirParams, FileReadParams, FileRemoveParams, FileRemoved,
    FileRenameParams, FileStatParams, FileWalkData, FileWalkParams, FileWriteParams, FileWritten,
    Greeting, HelloParams, Nothing, Ping, ProcessListParams, ProcessListing, ProcessSignalParams,
    ProcessSignalled, ReadData, ReadParams, ResizeParams, SessionCreated, SessionDestroyed,
    SessionInfo, SessionListing, SessionParams, SignalParams, Stats, WaitData, WaitParams,
    WriteParams, Written,
};

macro_rules! methods {
    ($($(#[$documentation:meta])* $name:ident($($params:ident: $type:ty)?) -> $data:ty = $method:literal;)*) => {
        impl Client {
            $(
                $(#[$documentation])*
                ///
                /// # Errors
                /// If the runtime cannot be reached or refuses.
                pub async fn $name(&self, $($params: &$type)?) -> Result<$data, ClientError> {
                    self.call($method, methods!(@given $($params)?)).await
                }
            )*
        }
    };
    (@given $params:ident) => { $params };
    (@given) => { &Nothing {} };
}

methods! {
    /// Whether the runtime is there.
    ping() -> Ping = "system.ping";
    /// What the runtime is and can do.
    hello(params: HelloParams) -> Greeting = "hello";
    /// Numbers about the runtime.
    stats() -> Stats = "system.stats";
    /// What the runtime is and holds to.
    describe() -> Description = "runtime.describe";
    /// A new session.
    create_session(params: CreateParams) -> SessionCreated = "session.create";
    /// All sessions.
    sessions() -> SessionListing = "session.list";
    /// One session.
    session(params: SessionParams) -> SessionInfo = "session.info";
    /// Has a session with a lease go on for another one.
    renew_session(params: SessionParams) -> Nothing = "session.renew";
    /// Ends a session.
    destroy_session(params: DestroyParams) -> SessionDestroyed = "session.destroy";
    /// Runs a command to its end.
    run(params: ExecParams) -> ExecResult = "exec.run";
    /// Waits for the end of a command.
    wait(params: WaitParams) -> WaitData = "exec.wait";
    /// Reads the output of a command from an offset on.
    read(params: ReadParams) -> ReadData = "exec.read";
    /// Gives a command input.
    write(params: WriteParams) -> Written = "exec.write";
    /// Gives a command's terminal another size.
    resize(params: ResizeParams) -> Nothing = "exec.resize";
    /// Sends a command a signal.
    signal(params: SignalParams) -> Nothing = "exec.signal";
    /// Ends a command.
    cancel(params: CancelParams) -> Cancelled = "exec.cancel";
    /// All commands that are kept.
    execs() -> ExecListing = "exec.list";
    /// What a path leads to.
    file_stat(params: FileStatParams) -> FileEntry = "fs.stat";
    /// A part of a file.
    file_read(params: FileReadParams) -> FileData = "fs.read";
    /// Writes a file, or a part of it.
    file_write(params: FileWriteParams) -> FileWritten = "fs.write";
    /// The names in a directory.
    file_list(params: FileListParams) -> FileListing = "fs.list";
    /// What lies below a directory, as a search walks it.
    file_walk(params: FileWalkParams) -> FileWalkData = "fs.walk";
    /// Removes a file or a directory.
    file_remove(params: FileRemoveParams) -> FileRemoved = "fs.remove";
    /// Renames a file.
    file_rename(params: FileRenameParams) -> Nothing = "fs.rename";
    /// Makes a directory.
    file_mkdir(params: FileMkdirParams) -> FileMkdirData = "fs.mkdir";
    /// What a sandbox there is to hold.
    file_bounds(params: FileBoundsParams) -> FileBounds = "fs.bounds";
    /// The processes of a session.
    processes(params: ProcessListParams) -> ProcessListing = "process.list";
    /// Sends a process of a session and all below it a signal.
    signal_process(params: ProcessSignalParams) -> ProcessSignalled = "process.signal";
}
