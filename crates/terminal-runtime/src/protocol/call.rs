//! A request with its parameters understood.

use serde::de::DeserializeOwned;

use super::error::WireError;
use super::files::{
    FileBoundsParams, FileListParams, FileMkdirParams, FileReadParams, FileRemoveParams,
    FileRenameParams, FileStatParams, FileWalkParams, FileWriteParams,
};
use super::params::{
    AttachParams, CancelParams, CreateParams, DestroyParams, ExecParams, HelloParams, ReadParams,
    ResizeParams, SessionParams, SignalParams, WaitParams, WriteParams,
};
use super::process::{ProcessListParams, ProcessSignalParams};
use super::request::without_values;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Call {
    /// `hello`
    Hello(HelloParams),
    /// `system.ping`
    Ping,
    /// `system.stats`
    Stats,
    /// `runtime.describe`
    Describe,
    /// `session.create`
    SessionCreate(Box<CreateParams>),
    /// `session.list`
    SessionList,
    /// `session.info`
    SessionInfo(SessionParams),
    /// `session.renew`
    SessionRenew(SessionParams),
    /// `session.destroy`
    SessionDestroy(DestroyParams),
    /// `exec.run`
    ExecRun(Box<ExecParams>),
    /// `exec.stream`
    ExecStream(Box<ExecParams>),
    /// `exec.wait`
    ExecWait(WaitParams),
    /// `exec.read`
    ExecRead(ReadParams),
    /// `exec.attach`
    ExecAttach(AttachParams),
    /// `exec.write`
    ExecWrite(WriteParams),
    /// `exec.resize`
    ExecResize(ResizeParams),
    /// `exec.signal`
    ExecSignal(SignalParams),
    /// `exec.cancel`
    ExecCancel(CancelParams),
    /// `exec.list`
    ExecList,
    /// `fs.stat`
    FsStat(Box<FileStatParams>),
    /// `fs.read`
    FsRead(Box<FileReadParams>),
    /// `fs.write`
    FsWrite(Box<FileWriteParams>),
    /// `fs.list`
    FsList(Box<FileListParams>),
    /// `fs.walk`
    FsWalk(Box<FileWalkParams>),
    /// `fs.remove`
    FsRemove(Box<FileRemoveParams>),
    /// `fs.rename`
    FsRename(Box<FileRenameParams>),
    /// `fs.mkdir`
    FsMkdir(Box<FileMkdirParams>),
    /// `fs.bounds`
    FsBounds(Box<FileBoundsParams>),
    /// `process.list`
    ProcessList(ProcessListParams),
    /// `process.signal`
    ProcessSignal(ProcessSignalParams),
}

impl Call {
    /// Every method there is.
    pub const METHODS: [&'static str; 30] = [
        "hello",
        "system.ping",
        "system.stats",
        "runtime.describe",
        "session.create",
        "session.list",
        "session.info",
        "session.renew",
        "session.destroy",
        "exec.run",
        "exec.stream",
        "exec.wait",
        "exec.read",
        "exec.attach",
        "exec.write",
        "exec.resize",
        "exec.signal",
        "exec.cancel",
        "exec.list",
        "fs.stat",
        "fs.read",
        "fs.write",
        "fs.list",
        "fs.walk",
        "fs.remove",
        "fs.rename",
        "fs.mkdir",
        "fs.bounds",
        "process.list",
        "process.signal",
    ];

    /// Reads the parameters of a method.
    ///
    /// # Errors
    /// If there is no such method or the parameters are not its own.
    pub fn parse(method: &str, params: &str) -> Result<Self, WireError> {
        Ok(match method {
            "hello" => Self::Hello(read(params)?),
            "system.ping" => Self::Ping,
            "system.stats" => Self::Stats,
            "runtime.describe" => Self::Describe,
            "session.create" => Self::SessionCreate(read(params)?),
            "session.list" => Self::SessionList,
            "session.info" => Self::SessionInfo(read(params)?),
            "session.renew" => Self::SessionRenew(read(params)?),
            "session.destroy" => Self::SessionDestroy(read(params)?),
            "exec.run" => Self::ExecRun(read(params)?),
            "exec.stream" => Self::ExecStream(read(params)?),
            "exec.wait" => Self::ExecWait(read(params)?),
            "exec.read" => Self::ExecRead(read(params)?),
            "exec.attach" => Self::ExecAttach(read(params)?),
            "exec.write" => Self::ExecWrite(read(params)?),
            "exec.resize" => Self::ExecResize(read(params)?),
            "exec.signal" => Self::ExecSignal(read(params)?),
            "exec.cancel" => Self::ExecCancel(read(params)?),
            "exec.list" => Self::ExecList,
            "fs.stat" => Self::FsStat(read(params)?),
            "fs.read" => Self::FsRead(read(params)?),
            "fs.write" => Self::FsWrite(read(params)?),
            "fs.list" => Self::FsList(read(params)?),
            "fs.walk" => Self::FsWalk(read(params)?),
            "fs.remove" => Self::FsRemove(read(params)?),
            "fs.rename" => Self::FsRename(read(params)?),
            "fs.mkdir" => Self::FsMkdir(read(params)?),
            "fs.bounds" => Self::FsBounds(read(params)?),
            "process.list" => Self::ProcessList(read(params)?),
            "process.signal" => Self::ProcessSignal(read(params)?),
            _ => return Err(unsupported(method)),
        })
    }

    /// Whether the answer may have to wait for a command or a process. What
    /// need not wait is answered in the order it was asked for.
    #[must_use]
    pub fn may_wait(&self) -> bool {
        !matches!(
            self,
            Self::Hello(_)
                | Self::Ping
                | Self::Stats
                | Self::SessionList
                | Self::SessionInfo(_)
                | Self::SessionRenew(_)
                | Self::ExecResize(_)
                | Self::ExecSignal(_)
                | Self::ExecList
        )
    }

    /// Whether this ends what others wait for.
    #[must_use]
    pub fn ends_work(&self) -> bool {
        matches!(self, Self::ExecCancel(_) | Self::SessionDestroy(_))
    }
}

fn unsupported(method: &str) -> WireError {
    // A name that is shown must be one that a person could have meant.
    let shown: String = method
        .chars()
        .filter(|c| !c.is_control())
        .take(64)
        .collect();
    WireError::invalid(format!(
        "unsupported method `{shown}`; the methods are {}",
        Call::METHODS.join(", ")
    ))
}

fn read<Params: DeserializeOwned>(params: &str) -> Result<Params, WireError> {
    serde_json::from_str(params)
        .map_err(|error| WireError::invalid(format!("params: {}", without_values(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ErrorCode;

    #[test]
    fn every_method_is_known_and_no_other() {
        for method in Call::METHODS {
            if let Err(error) = Call::parse(method, "{}") {
                assert!(
                    error.message.starts_with("params: missing field"),
                    "{error}"
                );
            }
        }
        let error = Call::parse("exec.fly", "{}").unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidParams);
        assert!(
            error.message.starts_with("unsupported method `exec.fly`"),
            "{error}"
        );
    }

    #[test]
    fn the_seeds_shapes_are_read() {
        let create = Call::parse("session.create", r#"{"shell":"/bin/zsh"}"#).unwrap();
        let Call::SessionCreate(params) = create else {
            panic!("{create:?}")
        };
        assert_eq!(params.shell.as_deref(), Some("/bin/zsh"));
        let run = r#"{"session_id":"s-1","command":"echo hello","timeout_s":5,"stdin":"x","env":{"A":"b"}}"#;
        let Call::ExecRun(params) = Call::parse("exec.run", run).unwrap() else {
            panic!()
        };
        assert_eq!(params.command.as_deref(), Some("echo hello"));
        assert_eq!(params.timeout_s, Some(5.0));
        assert!(!params.fresh && !params.queue && params.exec_id.is_none());
    }

    #[test]
    fn complaints_name_the_place_and_not_the_value() {
        let error = Call::parse("session.create", r#"{"env":"s3cret"}"#).unwrap_err();
        assert_eq!(error.message, "params: expected a map at column 15");
    }

    #[test]
    fn debug_shows_no_value_of_an_environment() {
        let params =
            r#"{"session_id":"s-1","command":"s3cret","stdin":"s3cret","env":{"A":"s3cret"}}"#;
        let shown = format!("{:?}", Call::parse("exec.run", params).unwrap());
        assert!(
            !shown.contains("s3cret") && shown.contains("\"A\""),
            "{shown}"
        );
    }
}
