//! A temporary workspace with everything a call needs.

use halter_protocol::{
    ResourceSnapshot, SessionMemory, ToolCall, ToolError, ToolErrorCode, ToolResult,
};
use halter_tools::network::HostResolver;
use halter_tools::policy::{FileDoor, PolicyError};
use halter_tools::{
    ExecBackend, MemoryChanges, NoDeferredTools, NoEarlierMessages, NobodyToAsk, PathLockMap,
    PolicySettings, ScratchDir, SessionScope, StandardPolicy, ToolContext, ToolDirectory,
    ToolEventSink, ToolPolicy, ToolRuntime, ToolRuntimeEvent, ToolSessionStore, builtin_tools,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// A session in a directory of its own.
pub struct Workspace {
    temp: tempfile::TempDir,
    pub tools: ToolRuntime,
    pub store: Arc<ToolSessionStore>,
    pub locks: Arc<PathLockMap>,
    pub policy: Arc<dyn ToolPolicy>,
    pub cancel: CancellationToken,
    pub output: Arc<Output>,
    pub shell_timeout_secs: u64,
    memory: Mutex<Arc<SessionMemory>>,
    pub deferred: Arc<dyn ToolDirectory>,
}

/// Live output, as a consumer would see it.
#[derive(Default)]
pub struct Output {
    text: Mutex<String>,
    seen: tokio::sync::Notify,
}

impl ToolEventSink for Output {
    fn emit(&self, event: ToolRuntimeEvent) {
        let ToolRuntimeEvent::ToolOutput { chunk, .. } = event else {
            return;
        };
        self.text.lock().unwrap().push_str(&chunk);
        self.seen.notify_waiters();
    }
}

impl Output {
    pub fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// Waits until the text has been printed.
    pub async fn wait_for(&self, text: &str) {
        let found = async {
            loop {
                let seen = self.seen.notified();
                tokio::pin!(seen);
                seen.as_mut().enable();
                if self.text().contains(text) {
                    return;
                }
                seen.await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), found)
            .await
            .unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.text()));
    }
}

impl Workspace {
    /// Has another look up hosts, before the first call.
    pub fn resolve_by(&mut self, resolver: Arc<dyn HostResolver>) {
        let store = Arc::get_mut(&mut self.store).unwrap();
        let scratch = ScratchDir::new(store.scratch().path());
        let environment = Arc::clone(store.base_environment());
        let exec = Arc::clone(store.exec_backend());
        *store = ToolSessionStore::new(scratch)
            .with_base_environment(environment)
            .with_exec(exec)
            .with_resolver(resolver);
    }

    /// The same session as another process finds it: it remembers what is in
    /// the log, and nothing runs.
    pub async fn resume(&mut self) {
        self.store.close().await;
        let scratch = ScratchDir::new(self.store.scratch().path());
        let environment = Arc::clone(self.store.base_environment());
        let exec = Arc::clone(self.store.exec_backend());
        let store = ToolSessionStore::new(scratch)
            .with_base_environment(environment)
            .with_exec(exec);
        self.store = Arc::new(store);
    }

    pub fn new() -> Self {
        Self::with_settings(PolicySettings::default())
    }

    pub fn with_settings(settings: PolicySettings) -> Self {
        Self::with_exec(settings, crate::place::here())
    }

    /// A session with the programs and the home directory of whoever runs this.
    pub fn with_user_environment(settings: PolicySettings) -> Self {
        let names = ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME"];
        let variables = names.iter().filter_map(|name| {
            let value = std::env::var_os(name)?;
            Some((OsString::from(name), value))
        });
        Self::with_environment(settings, crate::place::here(), variables.collect())
    }

    /// A session that finds programs in a directory before those of the system.
    #[cfg(any(feature = "browser-tools", feature = "profiling"))]
    pub fn with_programs(settings: PolicySettings, programs: &Path) -> Self {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
        let variables = [("PATH".into(), path.into())];
        Self::with_environment(settings, crate::place::here(), variables.into())
    }

    /// A session whose commands run in the given place.
    pub fn with_exec(settings: PolicySettings, exec: Arc<dyn ExecBackend>) -> Self {
        let environment = BTreeMap::from(
            [
                ("PATH", "/usr/local/bin:/usr/bin:/bin"),
                ("LANG", "C.UTF-8"),
            ]
            .map(|(name, value)| (OsString::from(name), OsString::from(value))),
        );
        Self::with_environment(settings, exec, environment)
    }

    fn with_environment(
        settings: PolicySettings,
        exec: Arc<dyn ExecBackend>,
        environment: BTreeMap<OsString, OsString>,
    ) -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("work")).unwrap();
        Self::in_directory(temp, settings, exec, environment)
    }

    /// A session in a directory that has one called `work`.
    pub fn in_directory(
        temp: tempfile::TempDir,
        settings: PolicySettings,
        exec: Arc<dyn ExecBackend>,
        environment: BTreeMap<OsString, OsString>,
    ) -> Self {
        let directory = temp.path().join("work");
        let scratch = ScratchDir::new(temp.path().join("tmp"));
        let scope = SessionScope {
            files: crate::place::files_of(&exec, &directory),
            working_dir: directory,
            scratch_dir: Some(scratch.path().to_owned()),
            ..SessionScope::default()
        };
        let shell_timeout_secs = settings.shell_timeout_secs;
        let policy = StandardPolicy::bind(settings, scope).unwrap();
        let store = ToolSessionStore::new(scratch)
            .with_base_environment(Arc::new(environment))
            .with_exec(exec);
        Self {
            temp,
            tools: ToolRuntime::with_tools(builtin_tools()),
            store: Arc::new(store),
            locks: Arc::new(PathLockMap::new()),
            policy: Arc::new(policy),
            cancel: CancellationToken::new(),
            output: Arc::default(),
            shell_timeout_secs,
            memory: Mutex::default(),
            deferred: Arc::new(NoDeferredTools),
        }
    }

    /// A session whose shell runs anything: for the behaviour of the shell,
    /// not of its judge.
    pub fn with_open_shell() -> Self {
        Self::with_open_shell_in(crate::place::here())
    }

    pub fn with_open_shell_in(exec: Arc<dyn ExecBackend>) -> Self {
        let mut workspace = Self::with_exec(PolicySettings::default(), exec);
        workspace.policy = Arc::new(OpenShell {
            standard: Arc::clone(&workspace.policy),
        });
        workspace
    }

    /// The same session, cancelled when the file door is used the nth time:
    /// a deterministic "in the middle".
    pub fn cancelling_at_door_use(mut self, uses: usize) -> Self {
        self.policy = Arc::new(CancellingDoor {
            standard: Arc::clone(&self.policy),
            left: AtomicUsize::new(uses),
            cancel: self.cancel.clone(),
        });
        self
    }

    pub fn fifo(&self, path: &str) {
        let path = self.dir().join(path);
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
    }

    /// The session's directory.
    pub fn dir(&self) -> PathBuf {
        self.temp.path().join("work")
    }

    /// The directory around it, where nothing may be touched.
    pub fn outside(&self) -> &Path {
        self.temp.path()
    }

    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.dir().join(path)).unwrap()
    }

    pub fn mode(&self, path: &str) -> u32 {
        let metadata = std::fs::metadata(self.dir().join(path)).unwrap();
        metadata.permissions().mode() & 0o7777
    }

    pub fn context(&self) -> ToolContext {
        ToolContext {
            session_id: "ses_test".into(),
            call_id: "call_test".into(),
            working_dir: self.dir(),
            path_locks: Arc::clone(&self.locks),
            memory: self.memory.lock().unwrap().clone(),
            remembered: MemoryChanges::default(),
            earlier: Arc::new(NoEarlierMessages),
            tool_sessions: Arc::clone(&self.store),
            asker: Arc::new(NobodyToAsk),
            hosts: None,
            tools: Arc::clone(&self.deferred) as _,
            snapshot: Arc::new(ResourceSnapshot::empty()),
            cancel: self.cancel.clone(),
            emit: Arc::clone(&self.output) as _,
            policy: Arc::clone(&self.policy),
            shell_timeout_secs: self.shell_timeout_secs,
            subagents: None,
            models: None,
        }
    }

    /// Runs a call as the harness does.
    pub async fn result(&self, tool: &str, arguments: Value) -> Result<ToolResult, ToolError> {
        let call = ToolCall {
            id: "call_test".into(),
            name: tool.into(),
            arguments,
        };
        let context = self.context();
        let remembered = context.remembered.clone();
        let result = self.tools.execute(&call, context).await;
        let mut memory = self.memory.lock().unwrap();
        let memory = Arc::make_mut(&mut memory);
        remembered.take().iter().for_each(|it| memory.apply(it));
        result
    }

    /// The same, for a result that is JSON.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Value, ToolError> {
        match self.result(tool, arguments).await? {
            ToolResult::Json { value } => Ok(value),
            other => panic!("not JSON: {other:?}"),
        }
    }

    pub async fn ok(&self, tool: &str, arguments: Value) -> Value {
        let shown = arguments.to_string();
        match self.call(tool, arguments).await {
            Ok(value) => value,
            Err(error) => panic!("{tool} {shown}: {error:?}"),
        }
    }

    /// The message of a call that must fail with `tool_failed`.
    pub async fn failure(&self, tool: &str, arguments: Value) -> String {
        self.error(tool, arguments, ToolErrorCode::Failed).await
    }

    pub async fn error(&self, tool: &str, arguments: Value, code: ToolErrorCode) -> String {
        let shown = arguments.to_string();
        match self.call(tool, arguments).await {
            Ok(value) => panic!("{tool} {shown} gave {value}"),
            Err(error) => {
                assert_eq!(error.code, code, "{}", error.message);
                error.message
            }
        }
    }
}

/// Says that a test does not run here: not through a macro, whose output a
/// passing test would swallow.
pub fn skipped(needs: &str) {
    use std::io::Write as _;
    let mut errors = std::io::stderr();
    writeln!(errors, "skipped: needs {needs}").unwrap();
}

/// Whether file modes mean nothing to us.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Waits for something that another process does.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Cancels a call at a certain use of the door.
#[derive(Debug)]
struct CancellingDoor {
    standard: Arc<dyn ToolPolicy>,
    left: AtomicUsize,
    cancel: CancellationToken,
}

impl ToolPolicy for CancellingDoor {
    fn door(&self) -> &FileDoor {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.cancel.cancel();
        }
        self.standard.door()
    }

    fn max_read_bytes(&self) -> u64 {
        self.standard.max_read_bytes()
    }

    fn check_shell_enabled(&self) -> Result<(), PolicyError> {
        self.standard.check_shell_enabled()
    }

    fn check_shell_command_strict(&self, command: &str) -> Result<(), PolicyError> {
        self.standard.check_shell_command_strict(command)
    }

    fn shell_timeout_secs(&self) -> u64 {
        self.standard.shell_timeout_secs()
    }
}

/// The standard policy with a judge that lets every command pass.
#[derive(Debug)]
struct OpenShell {
    standard: Arc<dyn ToolPolicy>,
}

impl ToolPolicy for OpenShell {
    fn door(&self) -> &FileDoor {
        self.standard.door()
    }

    fn max_read_bytes(&self) -> u64 {
        self.standard.max_read_bytes()
    }

    fn check_shell_enabled(&self) -> Result<(), PolicyError> {
        Ok(())
    }

    fn check_shell_command_strict(&self, _: &str) -> Result<(), PolicyError> {
        Ok(())
    }

    fn shell_timeout_secs(&self) -> u64 {
        self.standard.shell_timeout_secs()
    }
}

/// A small PNG image, 3 pixels wide and 2 high.
pub const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08\0\0\0\0\xb8\x1f9\xc6\
    \0\0\0\x10IDATx\xdac`\xd0\x08``\xd4\x0c\x04\0\x03.\0\xf4\xd01\xec\xff\0\0\0\0IEND\xaeB`\x82";

/// A program for a session to find. Written by another process: one that a
/// test starts meanwhile would hold it open for writing, and it would not run.
#[cfg(any(feature = "browser-tools", feature = "profiling"))]
pub fn write_program(path: &Path, script: &str) {
    let written = std::process::Command::new("/bin/sh")
        .args(["-c", "printf %s \"$1\" >\"$2\" && chmod 755 \"$2\"", "sh"])
        .args([script.as_ref(), path.as_os_str()])
        .status();
    assert!(written.unwrap().success());
}
