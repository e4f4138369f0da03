//! A runtime's core in a directory of its own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use halter_exec::Environment;
use terminal_runtime::exec::{
    AdoptedSession, Chunk, Core, CoreError, CoreSettings, DockerSettings, Exec, ExecEnd, ExecId,
    ExecOrder, ExecStdin, ExecWhat, Limits, SessionSpec, Stream,
};
use terminal_runtime::session::SessionId;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_terminal-runtime");

/// How long anything may take before a test gives up.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A core with a runtime of its own, so that it can be ended as by a kill:
/// every task of it stops where it is.
pub struct Runtime {
    pub core: Core,
    pub directory: Option<tempfile::TempDir>,
    settings: CoreSettings,
    inner: Option<tokio::runtime::Runtime>,
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            inner.shutdown_background();
        }
    }
}

pub fn settings(directory: &std::path::Path) -> CoreSettings {
    CoreSettings {
        state_dir: directory.to_owned(),
        environment: Environment::new().with("PATH", "/usr/local/bin:/usr/bin:/bin"),
        spool_quota_bytes: 64 * 1024 * 1024,
        grace: Duration::from_secs(2),
        docker: DockerSettings {
            program: PathBuf::from("docker"),
        },
        pid_namespace: true,
        program: PathBuf::from(PROGRAM),
    }
}

pub fn spec() -> SessionSpec {
    SessionSpec {
        clean_environment: false,
        environment_filter: None,
        container: Default::default(),
        sandbox: None,
        lease: None,
        shell: "/bin/bash".into(),
        environment: Environment::new(),
        working_dir: "/tmp".into(),
        chroot: None,
        limits: Limits::default(),
        container_image: None,
        note: Bytes::new(),
    }
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
}

fn said_of(pid: i32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// The holders of this state directory, and the first processes of their PID
/// namespaces: copies of the holders, whose command lines name their sockets.
pub fn holding(state_dir: &std::path::Path) -> Vec<i32> {
    let place = format!("\0holder\0{}/", state_dir.display());
    processes()
        .filter(|pid| said_of(*pid, "cmdline").contains(&place))
        .collect()
}

/// The holders of this state directory.
pub fn holders(state_dir: &std::path::Path) -> Vec<i32> {
    let mut found = holding(state_dir);
    found.retain(|pid| said_of(*pid, "comm") != "session-init\n");
    found
}

/// The holder of this session: its socket has the session's name.
pub fn holder_of(state_dir: &std::path::Path, session: &str) -> i32 {
    let is_its = |pid: &&i32| said_of(**pid, "cmdline").contains(session);
    let found = holders(state_dir);
    *found.iter().find(is_its).expect("the session has a holder")
}

/// The number out here of a process that has this one where the only holder of
/// this state directory starts its processes.
pub fn number_here(state_dir: &std::path::Path, inside: &str) -> String {
    let namespace =
        |pid: i32, kind: &str| std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok();
    let holder = holders(state_dir)[0];
    let its = namespace(holder, "pid_for_children").unwrap();
    if namespace(holder, "pid").as_ref() == Some(&its) {
        return inside.to_owned();
    }
    let is_it = |pid: &i32| {
        let status = said_of(*pid, "status");
        let numbers = status.lines().find(|line| line.starts_with("NSpid:"));
        let last = numbers.and_then(|line| line.split_whitespace().last());
        last == Some(inside.trim()) && namespace(*pid, "pid").as_ref() == Some(&its)
    };
    let found = processes().find(is_it);
    found.expect("the process must live").to_string()
}

impl Runtime {
    pub async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path());
        Self::start_with(directory, settings).await
    }

    pub async fn start_with(directory: tempfile::TempDir, settings: CoreSettings) -> Self {
        let (runtime, adopted) = Self::start_in(directory, settings).await;
        assert!(adopted.is_empty());
        runtime
    }

    async fn start_in(
        directory: tempfile::TempDir,
        settings: CoreSettings,
    ) -> (Self, Vec<AdoptedSession>) {
        // As the program does when it starts.
        halter_exec::host::system::raise_descriptor_limit();
        let inner = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let kept = settings.clone();
        let started = inner.spawn(async move { Core::start(settings).await.unwrap() });
        let (core, adopted) = started.await.unwrap();
        let runtime = Self {
            core,
            directory: Some(directory),
            settings: kept,
            inner: Some(inner),
        };
        (runtime, adopted)
    }

    pub fn path(&self) -> &std::path::Path {
        self.directory.as_ref().unwrap().path()
    }

    /// Runs something where the core runs.
    pub async fn on<Output: Send + 'static>(
        &self,
        task: impl Future<Output = Output> + Send + 'static,
    ) -> Output {
        self.inner.as_ref().unwrap().spawn(task).await.unwrap()
    }

    /// Ends the core as a crash would, and starts another in its place.
    pub async fn crash(mut self) -> (Self, Vec<AdoptedSession>) {
        let inner = self.inner.take().unwrap();
        let stopped = tokio::task::spawn_blocking(move || inner.shutdown_timeout(TEST_TIMEOUT));
        stopped.await.unwrap();
        self.core.clone().abandon();
        Self::start_in(self.directory.take().unwrap(), self.settings.clone()).await
    }

    pub async fn session(&self) -> SessionId {
        self.session_with(|_| {}).await
    }

    pub async fn session_with(&self, change: impl FnOnce(&mut SessionSpec)) -> SessionId {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let id = SessionId::from_number(NEXT.fetch_add(1, Ordering::Relaxed));
        let mut spec = spec();
        change(&mut spec);
        let core = self.core.clone();
        self.on(async move { core.open(&id, spec).await.unwrap() })
            .await;
        id
    }

    pub async fn exec(&self, session: SessionId, what: ExecWhat) -> Exec {
        self.exec_order(session, order(what)).await.unwrap()
    }

    pub async fn exec_order(
        &self,
        session: SessionId,
        order: ExecOrder,
    ) -> Result<Exec, CoreError> {
        let core = self.core.clone();
        self.on(async move { core.exec(&session, order).await })
            .await
    }

    pub async fn close(&self, session: SessionId) {
        let core = self.core.clone();
        self.on(async move { core.close(&session).await.unwrap() })
            .await;
    }

    pub async fn write(
        &self,
        exec: &Exec,
        offset: Option<u64>,
        data: &[u8],
        eof: bool,
    ) -> Result<u64, CoreError> {
        let exec = exec.clone();
        let data = Bytes::copy_from_slice(data);
        self.on(async move { exec.write(offset, data, eof).await })
            .await
    }

    pub async fn run(&self, session: SessionId, text: &str) -> Finished {
        let exec = self.exec(session, ExecWhat::Command(text.into()));
        finished(&exec.await).await
    }

    pub async fn shutdown(self) {
        let core = self.core.clone();
        self.on(core.shutdown()).await;
        let left: Vec<_> = std::fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

pub fn order(what: ExecWhat) -> ExecOrder {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    ExecOrder {
        protect: Vec::new(),
        cwd: None,
        id: ExecId::parse(&format!("e-{number}")).unwrap(),
        what,
        environment: Environment::new(),
        stdin: ExecStdin::Null,
        timeout: None,
        pty: None,
        note: Bytes::new(),
    }
}

pub fn argv(words: &[&str]) -> ExecWhat {
    ExecWhat::Argv(words.iter().map(|word| (*word).to_owned()).collect())
}

pub fn fresh(text: &str) -> ExecWhat {
    ExecWhat::Fresh(text.into())
}

pub fn command(text: &str) -> ExecWhat {
    ExecWhat::Command(text.into())
}

#[derive(Debug)]
pub struct Finished {
    pub end: ExecEnd,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    pub fn code(&self) -> Option<i32> {
        self.end.exit_code
    }
}

pub async fn finished(exec: &Exec) -> Finished {
    let end = tokio::time::timeout(TEST_TIMEOUT, exec.ended()).await;
    let end = end.expect("the command must end").unwrap();
    Finished {
        end,
        stdout: String::from_utf8_lossy(&all(exec, Stream::Stdout).await).into_owned(),
        stderr: String::from_utf8_lossy(&all(exec, Stream::Stderr).await).into_owned(),
    }
}

/// All bytes of a stream of a command that has ended.
pub async fn all(exec: &Exec, stream: Stream) -> Vec<u8> {
    let mut reader = exec.reader(stream, 0);
    let mut bytes = Vec::new();
    loop {
        match reader.next(1024 * 1024).await.unwrap() {
            Chunk::Data {
                offset,
                bytes: more,
            } => {
                assert_eq!(offset, bytes.len() as u64);
                bytes.extend_from_slice(&more);
            }
            Chunk::Gap { .. } => panic!("no byte may be missing"),
            Chunk::End { offset } => {
                assert_eq!(offset, bytes.len() as u64);
                return bytes;
            }
        }
    }
}

/// Waits until something is so.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a stream has this many bytes, and returns them.
pub async fn at_least(exec: &Exec, stream: Stream, count: usize) -> Vec<u8> {
    let mut reader = exec.reader(stream, 0);
    let mut bytes = Vec::new();
    let read = async {
        while bytes.len() < count {
            match reader.next(1024 * 1024).await.unwrap() {
                Chunk::Data { bytes: more, .. } => bytes.extend_from_slice(&more),
                other => panic!("expected bytes, found {other:?}"),
            }
        }
    };
    let read = tokio::time::timeout(TEST_TIMEOUT, read).await;
    read.expect("the bytes must come");
    bytes
}
