//! A shell in a place of somebody else's making: another process's child,
//! files and FIFOs in a directory, and a driver that dies and is followed by
//! another.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use halter_exec::host::{
    CommandEnd, CommandStreams, CommandText, EarlierProcesses, SharedFile, ShellDriver, ShellFiles,
    ShellHost, ShellLaunch, ShellProcess, ShellState,
};
use halter_exec::{Environment, ExecError, ExitStatus, ShellConfig, Signal, TreeControl};
use tempfile::TempDir;

use crate::support::environment;

/// What survives the driver: the shell, the ends of its channels, what it has
/// said, and what the driver wanted remembered.
struct Keeper {
    directory: TempDir,
    child: Mutex<Option<Child>>,
    control: Mutex<Option<File>>,
    said: Mutex<Vec<u8>>,
    state: Mutex<Vec<u8>>,
    /// Whether those who have a handle to the shell have lost it.
    lost: AtomicBool,
}

impl Keeper {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            directory: tempfile::tempdir().unwrap(),
            child: Mutex::default(),
            control: Mutex::default(),
            said: Mutex::default(),
            state: Mutex::default(),
            lost: AtomicBool::default(),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn shared(&self, name: &str) -> SharedFile {
        let path = self.path(name);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .unwrap();
        SharedFile::new(file, path)
    }

    fn files(&self) -> ShellFiles {
        ShellFiles {
            mailbox: self.shared("mailbox"),
            turns: [self.shared("even"), self.shared("odd")],
            exit: self.shared("exit"),
        }
    }

    fn driver(self: &Arc<Self>) -> ShellDriver<Elsewhere> {
        ShellDriver::new(Elsewhere(self.clone()), config())
    }

    /// The next driver, which knows only what the keeper has.
    fn adopt(self: &Arc<Self>) -> ShellDriver<Elsewhere> {
        let state = postcard::from_bytes::<ShellState>(&self.state.lock().unwrap()).unwrap();
        let shell = KeptShell {
            keeper: self.clone(),
            heard: 0,
        };
        ShellDriver::adopt(
            Elsewhere(self.clone()),
            config(),
            state,
            self.files(),
            Some(shell),
        )
    }
}

fn config() -> ShellConfig {
    ShellConfig::new(environment(), "/")
}

struct Elsewhere(Arc<Keeper>);

impl ShellHost for Elsewhere {
    type Process = KeptShell;

    async fn files(&mut self) -> Result<ShellFiles, ExecError> {
        Ok(self.0.files())
    }

    async fn launch(&mut self, launch: &ShellLaunch<'_>) -> Result<KeptShell, ExecError> {
        let (lines, control) = io::pipe().unwrap();
        let (mut records, answers) = io::pipe().unwrap();
        // The shell opens its record channel by way of a shell: that is all
        // a test needs to get it onto descriptor 9.
        let answers_path = format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            std::os::fd::AsRawFd::as_raw_fd(&answers)
        );
        let child = Command::new("/bin/sh")
            .args(["-c", "exec 9>\"$0\"; exec \"$@\"", &answers_path])
            .arg(launch.program)
            .args(launch.arguments)
            .env_clear()
            .envs(launch.environment.iter())
            .current_dir(launch.cwd)
            .process_group(0)
            .stdin(lines)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let keeper = self.0.clone();
        *keeper.child.lock().unwrap() = Some(child);
        *keeper.control.lock().unwrap() = Some(std::os::fd::OwnedFd::from(control).into());
        keeper.said.lock().unwrap().clear();
        let listener = keeper.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = io::Read::read(&mut records, &mut buffer) {
                listener
                    .said
                    .lock()
                    .unwrap()
                    .extend_from_slice(&buffer[..count]);
            }
        });
        // Kept open until the shell has opened it.
        let shell = KeptShell { keeper, heard: 0 };
        while shell.descriptor(9).is_none() && !shell.has_exited() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(answers);
        Ok(shell)
    }

    fn retire(&mut self, _process: KeptShell) {}

    async fn end(&mut self, process: KeptShell) {
        process.signal(Signal::KILL);
        process.exited().await;
    }

    fn remember(&mut self, state: &ShellState) {
        *self.0.state.lock().unwrap() = postcard::to_stdvec(state).unwrap();
    }
}

/// A handle to the kept shell; dropping it leaves the shell alone.
struct KeptShell {
    keeper: Arc<Keeper>,
    heard: usize,
}

impl KeptShell {
    fn descriptor(&self, number: i32) -> Option<PathBuf> {
        let link = std::fs::read_link(format!("/proc/{}/fd/{number}", self.pid())).ok()?;
        // Only once the shell itself is there, not the one before it.
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid())).ok()?;
        (name.trim() == "bash").then_some(link)
    }

    fn with_child<T>(&self, use_it: impl FnOnce(&mut Child) -> T) -> T {
        use_it(self.keeper.child.lock().unwrap().as_mut().unwrap())
    }

    fn news(&mut self) -> Option<Bytes> {
        let said = self.keeper.said.lock().unwrap();
        let news = Bytes::copy_from_slice(&said[self.heard..]);
        self.heard = said.len();
        (!news.is_empty()).then_some(news)
    }
}

impl ShellProcess for KeptShell {
    fn pid(&self) -> i32 {
        self.with_child(|child| child.id().cast_signed())
    }

    fn send(&self, lines: &[u8]) -> io::Result<()> {
        let control = self.keeper.control.lock().unwrap();
        control.as_ref().unwrap().write_all(lines)
    }

    fn unread(&self) -> io::Result<usize> {
        let control = self.keeper.control.lock().unwrap();
        let count = rustix::io::ioctl_fionread(control.as_ref().unwrap())?;
        Ok(count.try_into().unwrap())
    }

    async fn records(&mut self) -> Option<Bytes> {
        loop {
            let over = self.has_exited();
            if let Some(news) = self.news() {
                return Some(news);
            }
            if over {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn exited(&self) {
        while !self.has_exited() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn is_lost(&self) -> bool {
        self.keeper.lost.load(Ordering::Relaxed)
    }

    fn has_exited(&self) -> bool {
        self.is_lost() || self.with_child(|child| child.try_wait().unwrap().is_some())
    }

    fn exit_status(&self) -> Result<ExitStatus, ExecError> {
        if self.is_lost() {
            return Err(ExecError::StatusLost { pid: self.pid() });
        }
        let status = self.with_child(|child| child.try_wait().unwrap().unwrap());
        Ok(ExitStatus {
            code: status.code(),
            signal: status.signal(),
        })
    }

    fn signal(&self, signal: Signal) {
        let _ = Command::new("/bin/kill")
            .args([format!("-{}", signal.number()), self.pid().to_string()])
            .stderr(Stdio::null())
            .status();
    }

    fn followers(&self) -> EarlierProcesses {
        EarlierProcesses::default()
    }

    fn count_others(&self, _: &EarlierProcesses) -> usize {
        0
    }

    fn signal_others(&self, _: Signal, _: &EarlierProcesses) {}

    fn tree_control(&self) -> TreeControl {
        TreeControl::GroupAndWalk
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.get_mut().unwrap().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A stream of a command as a FIFO in the directory, read by a thread.
struct Fifo {
    path: PathBuf,
    reader: Option<std::thread::JoinHandle<String>>,
}

fn fifo(keeper: &Keeper, name: &str) -> Fifo {
    let path = keeper.path(name);
    let _ = std::fs::remove_file(&path);
    make_fifo(&path);
    let to_read = path.clone();
    let reader = std::thread::spawn(move || std::fs::read_to_string(to_read).unwrap());
    Fifo {
        path,
        reader: Some(reader),
    }
}

fn make_fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// Gives the command; its output arrives through the FIFO.
async fn start(driver: &mut ShellDriver<Elsewhere>, keeper: &Keeper, text: &str) -> Fifo {
    start_with(driver, keeper, text, Path::new("/dev/null")).await
}

async fn start_with(
    driver: &mut ShellDriver<Elsewhere>,
    keeper: &Keeper,
    text: &str,
    stdin: &Path,
) -> Fifo {
    let out = fifo(keeper, "out");
    let command = CommandText {
        text,
        cwd: None,
        environment: &Environment::new(),
    };
    let streams = CommandStreams {
        stdin,
        stdout: &out.path,
        stderr: Path::new("/dev/null"),
    };
    driver.start(&command, &streams).await.unwrap();
    out
}

async fn finish(driver: &mut ShellDriver<Elsewhere>, mut out: Fifo) -> (CommandEnd, String) {
    let ended = tokio::time::timeout(Duration::from_secs(60), driver.ended());
    let ended = ended.await.unwrap().unwrap();
    (ended, out.reader.take().unwrap().join().unwrap())
}

async fn run(driver: &mut ShellDriver<Elsewhere>, keeper: &Keeper, text: &str) -> (i32, String) {
    let out = start(driver, keeper, text).await;
    let (ended, text) = finish(driver, out).await;
    (ended.status.shell_code(), text)
}

#[tokio::test]
async fn the_same_shell_runs_in_any_place() {
    let keeper = Keeper::new();
    let mut driver = keeper.driver();
    let (status, text) = run(&mut driver, &keeper, "cd /tmp; x=1; echo hello; (exit 3)").await;
    assert_eq!((status, text.as_str()), (3, "hello\n"));
    assert_eq!(driver.cwd(), Path::new("/tmp"));
    // Longer than what is said in one line.
    let long = format!("y={}; echo $x ${{#y}}; exit 4", "y".repeat(5000));
    let (status, text) = run(&mut driver, &keeper, &long).await;
    assert_eq!((status, text.as_str()), (4, "1 5000\n"));
    let (status, text) = run(&mut driver, &keeper, "pwd; echo $x ${#y}").await;
    assert_eq!((status, text.as_str()), (0, "/tmp\n1 5000\n"));
    driver.close().await;
}

#[tokio::test]
async fn input_can_be_a_stream_that_somebody_feeds() {
    let keeper = Keeper::new();
    let mut driver = keeper.driver();
    let input = keeper.path("in");
    make_fifo(&input);
    let to_feed = input.clone();
    let feeder = std::thread::spawn(move || {
        let mut stream = File::options().write(true).open(to_feed).unwrap();
        stream.write_all(b"one\n").unwrap();
        stream.write_all(b"two\n").unwrap();
    });
    let text = "read a; echo \"[$a]\"; cat";
    let out = start_with(&mut driver, &keeper, text, &input).await;
    let (ended, text) = finish(&mut driver, out).await;
    feeder.join().unwrap();
    assert!(ended.status.success());
    assert_eq!(text, "[one]\ntwo\n");
    driver.close().await;
}

#[tokio::test]
async fn a_running_command_is_adopted_with_its_end() {
    let keeper = Keeper::new();
    let mut driver = keeper.driver();
    run(&mut driver, &keeper, "x=kept; cd /tmp").await;
    let go = keeper.path("go");
    let text = format!(
        "echo begun; while [ ! -e {} ]; do sleep 0.01; done; y=new; (exit 7)",
        go.display()
    );
    let out = start(&mut driver, &keeper, &text).await;
    drop(driver);

    let mut driver = keeper.adopt();
    assert!(driver.state().is_running());
    File::create(go).unwrap();
    let (ended, text) = finish(&mut driver, out).await;
    assert_eq!(ended.status.code, Some(7));
    assert!(!ended.shell_restarted);
    assert_eq!(text, "begun\n");
    let (status, text) = run(&mut driver, &keeper, "echo $? $x $y; pwd").await;
    assert_eq!((status, text.as_str()), (0, "7 kept new\n/tmp\n"));
    driver.close().await;
}

#[tokio::test]
async fn an_end_that_nobody_heard_is_heard_by_the_next_driver() {
    let keeper = Keeper::new();
    let mut driver = keeper.driver();
    for (text, code) in [("echo quick; (exit 5)", 5), ("echo quick; exit 6", 6)] {
        let mut out = start(&mut driver, &keeper, text).await;
        // Over before the next driver looks.
        assert_eq!(out.reader.take().unwrap().join().unwrap(), "quick\n");
        drop(driver);
        driver = keeper.adopt();
        let ended = driver.ended().await.unwrap();
        assert_eq!(ended.status.code, Some(code));
        assert!(!ended.shell_restarted);
    }
    driver.close().await;
}

#[tokio::test]
async fn a_driver_that_lost_its_shell_leaves_the_files_to_the_next() {
    let keeper = Keeper::new();
    let mut driver = keeper.driver();
    let go = keeper.path("go");
    let wait = format!("until [ -e {} ]; do sleep 0.01; done", go.display());
    let out = start(&mut driver, &keeper, &format!("x=kept; {wait}; exit 7")).await;
    keeper.lost.store(true, Ordering::Relaxed);
    // As if the shell were about to write down how it ends.
    let files = ["mailbox", "even", "odd", "exit"].map(|name| keeper.path(name));
    std::fs::write(&files[3], "/tmp\0half of a st").unwrap();
    let contents = || files.each_ref().map(|path| std::fs::read(path).unwrap());
    let before = contents();
    let error = driver.ended().await.unwrap_err();
    assert_eq!(error.code(), "status_lost");
    assert_eq!(driver.make_ready().await.unwrap_err().code(), "status_lost");
    let error = driver.begin_anew(config()).await.unwrap_err();
    assert_eq!(error.code(), "status_lost");
    assert_eq!(contents(), before);
    drop(driver);

    keeper.lost.store(false, Ordering::Relaxed);
    let mut driver = keeper.adopt();
    File::create(go).unwrap();
    let (ended, _) = finish(&mut driver, out).await;
    assert_eq!((ended.status.code, ended.shell_restarted), (Some(7), false));
    assert_eq!(run(&mut driver, &keeper, "echo $x").await.1, "kept\n");
    driver.close().await;
}

#[tokio::test]
async fn an_adopted_command_can_be_interrupted() {
    let keeper = Keeper::new();
    let mut driver = keeper.driver();
    run(&mut driver, &keeper, "x=kept").await;
    let out = start(&mut driver, &keeper, "echo begun; while :; do :; done").await;
    drop(driver);
    let mut driver = keeper.adopt();
    // Once it is being waited for, and once not.
    let waiting = tokio::time::timeout(Duration::from_millis(50), driver.ended()).await;
    assert!(waiting.is_err());
    let ended = driver.interrupt(Duration::from_secs(60)).await.unwrap();
    assert_eq!(ended.status.code, Some(130));
    assert_eq!(out.reader.unwrap().join().unwrap(), "begun\n");
    let (_, text) = run(&mut driver, &keeper, "echo $x").await;
    assert_eq!(text, "kept\n");
    driver.close().await;
}

#[tokio::test]
async fn a_command_that_waits_for_input_can_be_interrupted() {
    let keeper = Keeper::new();
    let mut driver = keeper.driver();
    run(&mut driver, &keeper, "x=kept").await;
    let input = keeper.path("in");
    make_fifo(&input);
    // Open for writing, and nothing is written.
    let _held = File::options().read(true).write(true).open(&input).unwrap();
    for text in ["read y; echo no", "while read y; do echo no; done; echo no"] {
        let out = start_with(&mut driver, &keeper, text, &input).await;
        let waiting = tokio::time::timeout(Duration::from_millis(50), driver.ended()).await;
        assert!(waiting.is_err());
        let ended = driver.interrupt(Duration::from_secs(60)).await.unwrap();
        assert_eq!(ended.status.code, Some(130), "{text}");
        assert_eq!(out.reader.unwrap().join().unwrap(), "", "{text}");
        assert_eq!(run(&mut driver, &keeper, "echo $x").await.1, "kept\n");
    }
    driver.close().await;
}

#[tokio::test]
async fn a_busy_shell_takes_no_second_command() {
    let keeper = Keeper::new();
    let mut driver = keeper.driver();
    let out = start(&mut driver, &keeper, "while :; do :; done").await;
    let command = CommandText {
        text: "true",
        cwd: None,
        environment: &Environment::new(),
    };
    let null = Path::new("/dev/null");
    let streams = CommandStreams {
        stdin: null,
        stdout: null,
        stderr: null,
    };
    let error = driver.start(&command, &streams).await.unwrap_err();
    assert_eq!(error.code(), "invalid_input");
    driver.interrupt(Duration::from_secs(60)).await.unwrap();
    drop(out);
    assert!(driver.ended().await.is_err());
    driver.close().await;
}
