//! `exec` and `attach`.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use terminal_runtime::client::{Client, ClientError, Ending, Follower, OutputEvent};
use terminal_runtime::protocol::{
    CancelParams, CreateParams, DestroyParams, Encoding, ExecParams, ExecStatus, ResizeParams,
    StreamName, Variables, WriteParams,
};
use terminal_runtime::settings::Settings;
use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use super::arguments::ExecArguments;
use super::failure::Failure;
use super::status::Screen;
use super::terminal::RawMode;
use super::{target, terminal};

/// The exit codes of `timeout` and of a shell after Ctrl-C.
const TIMED_OUT: u8 = 124;
const CANCELLED: u8 = 130;

pub async fn exec(settings: &Settings, given: ExecArguments) -> Result<u8, Failure> {
    let client = target::client(settings)?;
    let chosen = given.session.clone();
    let is_ours = chosen.is_none();
    let session = match chosen {
        Some(session) => session,
        None => {
            client
                .create_session(&new_session(&given)?)
                .await?
                .session_id
        }
    };
    let outcome = run_in(&client, &given, &session).await;
    if is_ours {
        let destroy = DestroyParams {
            session_id: session,
            force: true,
        };
        // It may have gone with the runtime; the command's outcome counts.
        let _ = client.destroy_session(&destroy).await;
    }
    outcome
}

fn new_session(given: &ExecArguments) -> Result<CreateParams, Failure> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::new(format!("the current directory cannot be used: {error}")))?;
    let directory = match &given.cwd {
        Some(path) => here.join(path),
        None => here,
    };
    Ok(CreateParams {
        shell: given.shell.clone(),
        working_dir: Some(directory.to_string_lossy().into_owned()),
        name: Some("terminal-runtime exec".to_owned()),
        timeout_s: Some(0.0),
        ..CreateParams::default()
    })
}

fn order(given: &ExecArguments, session: &str) -> ExecParams {
    let (command, argv) = match given.words.as_slice() {
        [line] => (Some(line.clone()), None),
        words => (None, Some(words.to_vec())),
    };
    let has_terminal = given.tty;
    ExecParams {
        session_id: session.to_owned(),
        command,
        argv,
        timeout_s: given.timeout,
        env: Variables(given.env.iter().cloned().collect()),
        exec_id: given.exec_id.clone(),
        queue: given.queue,
        open_stdin: given.input && !has_terminal,
        pty: has_terminal.then(terminal::size),
        ..ExecParams::default()
    }
}

async fn run_in(client: &Client, given: &ExecArguments, session: &str) -> Result<u8, Failure> {
    let order = order(given, session);
    let takes_input = order.open_stdin || order.pty.is_some();
    let has_terminal = order.pty.is_some();
    let follower = client.follow_new(order).await?;
    let raw = (has_terminal && io::stdin().is_terminal()).then(RawMode::enter);
    let input =
        takes_input.then(|| tokio::spawn(feed(client.clone(), follower.exec_id().to_owned())));
    let outcome = show(client, follower, has_terminal).await;
    input.as_ref().inspect(|task| JoinHandle::abort(task));
    drop(raw);
    outcome
}

pub async fn attach(settings: &Settings, exec_id: Option<String>) -> Result<u8, Failure> {
    let client = target::client(settings)?;
    let exec_id = match exec_id {
        Some(name) => name,
        None => only_running(&client).await?,
    };
    let follower = client.follow(&exec_id).await?;
    show(&client, follower, false).await
}

async fn only_running(client: &Client) -> Result<String, Failure> {
    let listing = client.execs().await?;
    let mut running: Vec<String> = listing
        .execs
        .into_iter()
        .filter(|exec| exec.state == ExecStatus::Running)
        .map(|exec| exec.exec_id)
        .collect();
    match (running.pop(), running.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => Err(Failure::usage(
            "no command runs; `terminal-runtime ps` shows those that ended lately",
        )),
        (Some(last), _) => {
            running.push(last);
            Err(Failure::usage(format!(
                "several commands run; choose one: {}",
                running.join(", ")
            )))
        }
    }
}

/// Shows a command to its end and returns its exit code.
async fn show(client: &Client, mut follower: Follower, has_terminal: bool) -> Result<u8, Failure> {
    let signals = |error| Failure::new(format!("signals cannot be listened for: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(signals)?;
    let mut resized = signal(SignalKind::window_change()).map_err(signals)?;
    let mut screen = Screen::new(follower.exec_id(), has_terminal);
    let exec_id = follower.exec_id().to_owned();
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        // Kept over ticks and signals: coming back to a runtime takes its time.
        let mut next = std::pin::pin!(follower.next());
        let event = loop {
            let shown = tokio::select! {
                event = &mut next => break event?,
                _ = tick.tick() => screen.draw(),
                _ = interrupt.recv() => {
                    cancel(client, &exec_id);
                    screen.note("cancelling")
                }
                _ = resized.recv(), if has_terminal => {
                    resize(client, &exec_id);
                    Ok(())
                }
            };
            if shown.is_err() {
                return Ok(CANCELLED);
            }
        };
        if let OutputEvent::Exit(ending) = event {
            let _ = screen.finish(&ending);
            if let Some(limit) = &ending.limit {
                let _ = screen.note(limit);
            }
            return exit_code(&ending);
        }
        // Whoever read the output is gone: so is the reason to go on.
        if show_event(&mut screen, event).is_err() {
            return Ok(CANCELLED);
        }
    }
}

fn show_event(screen: &mut Screen, event: OutputEvent) -> io::Result<()> {
    match event {
        OutputEvent::Data { stream, bytes, .. } => screen.output(stream, &bytes),
        OutputEvent::Gap { stream, from, to } => {
            let name = match stream {
                StreamName::Stdout => "standard output",
                StreamName::Stderr => "standard error",
            };
            screen.note(&format!("[{} bytes of {name} were not kept]", to - from))
        }
        OutputEvent::Away { left } => screen.note(&format!(
            "the runtime is away: trying to reach it for {} s more",
            left.as_secs()
        )),
        _ => Ok(()),
    }
}

fn exit_code(ending: &Ending) -> Result<u8, Failure> {
    if let Some(error) = &ending.error {
        return Err(Failure::refused(error));
    }
    Ok(match ending.signal {
        _ if ending.timed_out => TIMED_OUT,
        _ if ending.cancelled => CANCELLED,
        Some(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        None => u8::try_from(ending.exit_code & 0xff).unwrap_or(u8::MAX),
    })
}

/// Asks for the end of a command; its output tells when it has come.
fn cancel(client: &Client, exec_id: &str) {
    let (client, exec_id) = (client.clone(), exec_id.to_owned());
    tokio::spawn(async move {
        let params = CancelParams {
            exec_id: Some(exec_id),
            ..CancelParams::default()
        };
        let _ = client.cancel(&params).await;
    });
}

fn resize(client: &Client, exec_id: &str) {
    let size = terminal::size();
    let params = ResizeParams {
        exec_id: Some(exec_id.to_owned()),
        session_id: None,
        cols: size.cols,
        rows: size.rows,
    };
    let client = client.clone();
    tokio::spawn(async move {
        let _ = client.resize(&params).await;
    });
}

/// Gives a command what is read here, until either ends.
async fn feed(client: Client, exec_id: String) {
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; 32 * 1024];
    let mut offset = 0;
    loop {
        let Ok(read) = stdin.read(&mut buffer).await else {
            return;
        };
        let bytes = buffer.get(..read).unwrap_or_default();
        let mut params = WriteParams {
            exec_id: exec_id.clone(),
            data: STANDARD.encode(bytes),
            encoding: Some(Encoding::Base64),
            offset: Some(offset),
            eof: read == 0,
        };
        if read == 0 {
            params.data.clear();
        }
        match client.write(&params).await {
            Ok(written) => offset = written.offset,
            // The number of the first byte makes it safe to say it twice.
            Err(ClientError::Lost { .. }) => {
                tokio::time::sleep(Duration::from_millis(250)).await;
                match client.write(&params).await {
                    Ok(written) => offset = written.offset,
                    Err(_) => return,
                }
            }
            Err(_) => return,
        }
        if read == 0 {
            return;
        }
    }
}
