//! A Chromium of the session's own: its profile in the session's scratch
//! directory, its way out through a proxy that holds it to the network policy,
//! its protocol on a pipe that nobody else can reach.

use super::connection::{Incoming, Outgoing};
use crate::builtin::blocking;
use crate::context::ToolContext;
use crate::limits::{BROWSER_MESSAGE_BYTES, BROWSER_STDERR_BYTES};
use crate::scratch::ScratchDir;
use anyhow::{Context as _, anyhow};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use halter_exec::host::InputSpool;
use halter_exec::{Command, Environment, OutputPipe, Process, find_program};
use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::task::AbortOnDropHandle;

/// Names of the program, best first.
const PROGRAMS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
];

/// Hands the streams that a program is started with to Chromium as the
/// descriptors that its pipe is spoken on.
const HAND_OVER: &str = "exec \"$@\" 3<&0 4>&1 </dev/null >&2";

/// What keeps it to itself: no updates, no reports, no way around the proxy,
/// loopback included.
const FLAGS: [&str; 27] = [
    "--remote-debugging-pipe",
    "--headless=new",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-popup-blocking",
    "--disable-quic",
    "--disable-sync",
    // One process for a page and its frames, so that a look at a page sees all.
    "--disable-site-isolation-trials",
    "--disable-features=IsolateOrigins,site-per-process,Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,AutofillServerCommunication",
    "--deny-permission-prompts",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
];

/// The program, if it is installed.
pub(super) fn find(environment: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    let environment = environment_of(environment);
    PROGRAMS
        .iter()
        .find_map(|name| find_program(OsStr::new(name), &environment, Path::new("/")).ok())
}

fn environment_of(variables: &BTreeMap<OsString, OsString>) -> Environment {
    let pairs = variables.iter();
    pairs
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Whether Chromium keeps its own sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnSandbox {
    Kept,
    /// It does not start with one: as root, or where the system grants none.
    Off,
}

/// A browser that was started. Dropping it kills all its processes.
pub(super) struct Chromium {
    process: Process,
    said: Arc<Mutex<Vec<u8>>>,
    _stderr: AbortOnDropHandle<()>,
    _socket_dir: Option<Arc<ScratchDir>>,
}

impl Chromium {
    /// Starts it, with its way out through a proxy on a port of loopback.
    pub(super) async fn start(
        context: &ToolContext,
        program: &Path,
        proxy_port: u16,
        sandbox: OwnSandbox,
    ) -> anyhow::Result<(Self, PipeOut, PipeIn)> {
        let scratch = Arc::clone(context.tool_sessions.scratch());
        let (home, profile, socket_dir) = blocking(move || {
            let home = scratch.create()?.join("browser");
            let profile = home.join("profile");
            std::fs::create_dir_all(&profile)?;
            forget_killed(&profile)?;
            Ok((home, profile, socket_dir(&scratch)?))
        })
        .await
        .context("there is no place for the browser's profile")?;
        let mut environment = environment_of(context.tool_sessions.base_environment());
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            environment.set(name, &home);
        }
        let temporary = socket_dir.as_ref();
        let temporary = temporary.unwrap_or(context.tool_sessions.scratch());
        environment.set("TMPDIR", temporary.path());
        let mut arguments: Vec<OsString> = ["-c", HAND_OVER, "sh"].map(OsString::from).to_vec();
        arguments.push(program.into());
        arguments.extend(FLAGS.map(OsString::from));
        if sandbox == OwnSandbox::Off {
            arguments.push("--no-sandbox".into());
        }
        arguments.push(format!("--proxy-server=http://127.0.0.1:{proxy_port}").into());
        let mut user_data = OsString::from("--user-data-dir=");
        user_data.push(profile);
        arguments.extend([user_data, "about:blank".into()]);
        let command = Command::new("/bin/sh", &home)
            .args(arguments)
            .environment(environment)
            .streamed_stdin();
        let (process, streams) = Process::spawn(&command)?;
        let stdin = streams.stdin.context("the browser has no input")?;
        let said = Arc::new(Mutex::new(Vec::new()));
        let stderr = streams.stderr.context("the browser has no output")?;
        let listening = listen(stderr, Arc::clone(&said));
        let chromium = Self {
            process,
            said,
            _stderr: AbortOnDropHandle::new(tokio::spawn(listening)),
            _socket_dir: socket_dir,
        };
        let incoming = PipeIn {
            pipe: streams.stdout,
            buffer: Vec::new(),
        };
        Ok((chromium, PipeOut::new(stdin), incoming))
    }

    /// Waits for its end, and says what it said last.
    pub(super) async fn last_words(&self) -> String {
        self.process.exited().await;
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&said).into_owned()
    }
}

/// The longest directory for its socket: a path of one has room for 107 bytes,
/// and Chromium, which crashes beyond, appends 45.
const SOCKET_DIR_BYTES: usize = 60;

/// Where it makes its socket, if there is no room for that in the session's own
/// directory.
fn socket_dir(scratch: &ScratchDir) -> anyhow::Result<Option<Arc<ScratchDir>>> {
    if scratch.path().as_os_str().len() <= SOCKET_DIR_BYTES {
        return Ok(None);
    }
    let short = ScratchDir::new("/tmp");
    short.create().with_context(|| {
        format!(
            "its socket has no room in '{}' and none can be made in '/tmp'; set TMPDIR to a \
             shorter path",
            scratch.path().display()
        )
    })?;
    Ok(Some(Arc::new(short)))
}

/// Removes what a browser that was killed left in its profile: the next one
/// would call it, and end.
fn forget_killed(profile: &Path) -> std::io::Result<()> {
    for name in ["SingletonLock", "SingletonSocket", "SingletonCookie"] {
        match std::fs::remove_file(profile.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Keeps the end of what is said.
async fn listen(mut pipe: OutputPipe, said: Arc<Mutex<Vec<u8>>>) {
    while let Ok(Some(chunk)) = pipe.read().await {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(&chunk);
        let surplus = said.len().saturating_sub(BROWSER_STDERR_BYTES);
        said.drain(..surplus);
    }
}

/// Our side of the pipe to the browser.
pub(super) struct PipeOut {
    stdin: Arc<InputSpool>,
    _pump: AbortOnDropHandle<()>,
}

impl PipeOut {
    fn new(stdin: InputSpool) -> Self {
        let stdin = Arc::new(stdin);
        let pumped = Arc::clone(&stdin);
        let pump = tokio::spawn(async move {
            // A browser that does not read any more is noticed by its silence.
            pumped.pump().await.unwrap_or_default();
        });
        Self {
            stdin,
            _pump: AbortOnDropHandle::new(pump),
        }
    }
}

impl Outgoing for PipeOut {
    fn send(&self, message: String) -> BoxFuture<'_, anyhow::Result<()>> {
        async move {
            let mut bytes = message.into_bytes();
            bytes.push(0);
            let sent = self.stdin.write(None, &bytes).await;
            sent.map(|_| ())
                .map_err(|error| anyhow!("the browser takes no commands: {error}"))
        }
        .boxed()
    }
}

/// Our side of the pipe from the browser.
pub(super) struct PipeIn {
    pipe: OutputPipe,
    buffer: Vec<u8>,
}

impl Incoming for PipeIn {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<u8>>> {
        async move {
            let mut searched = 0;
            loop {
                let new = self.buffer.get(searched..).unwrap_or_default();
                let end = CStr::from_bytes_until_nul(new)
                    .ok()
                    .map(|text| text.count_bytes() + searched);
                if let Some(end) = end {
                    let rest = self.buffer.split_off(end + 1);
                    let mut message = std::mem::replace(&mut self.buffer, rest);
                    message.pop();
                    return Some(message);
                }
                searched = self.buffer.len();
                if searched > BROWSER_MESSAGE_BYTES {
                    return None;
                }
                let chunk = self.pipe.read().await.ok()??;
                self.buffer.extend_from_slice(&chunk);
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_exec::ProcessStreams;

    fn script(script: &str) -> (Process, ProcessStreams) {
        let environment = Environment::from_iter([("PATH", "/usr/bin:/bin")]);
        let command = Command::new("/bin/sh", "/")
            .args(["-c", script])
            .environment(environment);
        Process::spawn(&command).unwrap()
    }

    #[tokio::test]
    async fn the_end_of_what_a_browser_says_is_kept() {
        let count = BROWSER_STDERR_BYTES * 3;
        let text = format!("head -c {count} /dev/zero >&2; printf end >&2");
        let (_process, streams) = script(&text);
        let said = Arc::new(Mutex::new(Vec::new()));
        listen(streams.stderr.unwrap(), Arc::clone(&said)).await;
        let said = said.lock().unwrap();
        assert_eq!(said.len(), BROWSER_STDERR_BYTES);
        assert!(said.ends_with(b"\0end"));
    }

    /// The length of the message whose end comes after that many bytes.
    async fn message_of(size: usize) -> Option<usize> {
        let (_process, streams) = script("printf '\\0'");
        let mut incoming = PipeIn {
            pipe: streams.stdout,
            buffer: vec![b' '; size],
        };
        incoming.next().await.map(|message| message.len())
    }

    #[tokio::test]
    async fn a_message_without_end_is_not_waited_for() {
        let most = BROWSER_MESSAGE_BYTES;
        assert_eq!(message_of(most).await, Some(most));
        assert_eq!(message_of(most + 1).await, None);
    }

    #[tokio::test]
    async fn messages_are_told_apart() {
        let (_process, streams) = script("printf 'a\\0\\0bc\\0rest'");
        let mut incoming = PipeIn {
            pipe: streams.stdout,
            buffer: Vec::new(),
        };
        for message in ["a", "", "bc"] {
            assert_eq!(incoming.next().await.unwrap(), message.as_bytes());
        }
        assert_eq!(incoming.next().await, None);
    }
}
