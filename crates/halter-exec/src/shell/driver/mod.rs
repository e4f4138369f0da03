//! The logic of a persistent shell, whoever hosts it.

mod lifecycle;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::environment::Environment;
use crate::error::ExecError;
use crate::exit::ExitStatus;
use crate::limits::{
    MAX_COMMAND_BYTES, SHELL_ANSWER_LOOK, SHELL_CLOSE_GRACE, SHELL_START_DEADLINE,
};
use crate::nonce::ShortNames;
use crate::shell::ShellConfig;
use crate::shell::dialect::{Dialect, Handling, Needs, Script, TrapWatch};
use crate::shell::host::{Bystanders, CommandStreams, ShellFiles, ShellHost, ShellProcess};
use crate::shell::interrupt::interrupt;
use crate::shell::live::LiveShell;
use crate::shell::quiet::Effects;
use crate::shell::record::EndRecord;
use crate::shell::snapshot::Snapshots;
use crate::shell::state::{RunningState, ShellState};
use crate::sys::Signal;
use crate::tree::TreeControl;

/// Drives one persistent shell: [`start`](Self::start) gives it a command,
/// [`ended`](Self::ended) waits for the end, [`interrupt`](Self::interrupt)
/// brings it about. Output is none of its business: the shell opens the
/// streams it is told to, and the caller moves the bytes meanwhile.
#[derive(Debug)]
pub struct ShellDriver<H: ShellHost> {
    config: ShellConfig,
    host: H,
    live: Option<LiveShell<H::Process>>,
    snapshots: Option<Snapshots>,
    state: ShellState,
    /// What runs besides the shell, if the last command cannot have changed
    /// that.
    followers: Option<Bystanders>,
    /// Whether state was lost that no command has been told of.
    state_lost: bool,
    /// Whether an interrupted shell may have left a state for an exit that
    /// did not come.
    exit_state_left: bool,
    /// Whether an interrupt may still be on its way to the shell.
    disturbed: bool,
    /// Whether an adopted shell may not have been told of its command.
    handover: Handover,
    /// How often in a row it seemed that the shell will not answer.
    deaf_looks: u32,
    /// What the ends of commands are known by.
    names: ShortNames,
}

/// How long a shell that was interrupted may take to answer, before it is
/// asked again.
const CALM_LOOK: Duration = Duration::from_millis(250);

/// The status of a command that Bash could not parse.
const SYNTAX_ERROR: i32 = 2;

/// What is known about an adopted shell's command.
#[derive(Debug, PartialEq, Eq)]
enum Handover {
    Certain,
    Unsure,
    /// The shell was asked to report under this name; if it does before it
    /// reports the command, it never got it.
    Asked(String),
}

/// One command, as the shell sees it.
#[derive(Clone, Copy)]
pub struct CommandText<'a> {
    /// What the shell evaluates.
    pub text: &'a str,
    /// The directory for this command only; see
    /// [`ShellCommand::cwd`](super::ShellCommand::cwd).
    pub cwd: Option<&'a Path>,
    /// Variables for this command only.
    pub environment: &'a Environment,
}

impl CommandText<'_> {
    fn check(&self) -> Result<(), ExecError> {
        if self.text.len() > MAX_COMMAND_BYTES {
            return Err(ExecError::LimitExceeded {
                what: "the command",
                limit: MAX_COMMAND_BYTES,
                actual: self.text.len(),
            });
        }
        if self.text.contains('\0') {
            return Err(ExecError::invalid(
                "the command",
                "it contains a NUL byte; remove it",
            ));
        }
        Ok(())
    }
}

/// How a command in a shell ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandEnd {
    /// Its status; with a signal if the shell itself was killed under it.
    pub status: ExitStatus,
    /// Where the next command runs.
    pub cwd: PathBuf,
    /// Whether state was lost: the next command meets, or this one met, a
    /// shell with the state of an earlier snapshot.
    pub shell_restarted: bool,
    /// How the shell's tree was held together.
    pub tree_control: TreeControl,
}

impl<H: ShellHost> ShellDriver<H> {
    /// A shell that is started when it is first needed.
    #[must_use]
    pub fn new(host: H, config: ShellConfig) -> Self {
        Self {
            state: ShellState::new(config.cwd.clone()),
            config,
            host,
            live: None,
            snapshots: None,
            followers: None,
            state_lost: false,
            exit_state_left: false,
            disturbed: false,
            handover: Handover::Certain,
            deaf_looks: 0,
            names: ShortNames::default(),
        }
    }

    /// Goes on with a shell that another driver left: its state, its files,
    /// and its process if it had one. Records the process has written since
    /// `state` was remembered must be returned by its
    /// [`records`](ShellProcess::records) again. If the state has a running
    /// command, it has [`ended`](Self::ended) or will, with its status.
    #[must_use]
    pub fn adopt(
        host: H,
        config: ShellConfig,
        state: ShellState,
        files: ShellFiles,
        process: Option<H::Process>,
    ) -> Self {
        let handover = if state.is_running() {
            Handover::Unsure
        } else {
            Handover::Certain
        };
        let live = process.map(|process| LiveShell::new(process, Dialect::of(&state.program)));
        Self {
            config,
            host,
            live,
            snapshots: Some(Snapshots::new(files)),
            state,
            followers: None,
            state_lost: false,
            exit_state_left: true,
            disturbed: true,
            handover,
            deaf_looks: 0,
            names: ShortNames::default(),
        }
    }

    /// What has to be known to go on with this shell.
    pub fn state(&self) -> &ShellState {
        &self.state
    }

    /// Where the next command runs.
    pub fn cwd(&self) -> &Path {
        self.state.cwd()
    }

    /// Where it runs.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Where it runs.
    pub fn host_mut(&mut self) -> &mut H {
        &mut self.host
    }

    /// The shell's process, while there is one.
    pub fn process(&self) -> Option<&H::Process> {
        let live = self.live.as_ref()?;
        (!live.process.has_exited()).then_some(&live.process)
    }

    /// Gives the shell a command whose streams it opens at these paths; they
    /// must be there until it has. Starts a shell if none is running.
    ///
    /// # Errors
    /// If the shell cannot be started or is busy, or the command cannot be
    /// given to it. It has then not run.
    pub async fn start(
        &mut self,
        command: &CommandText<'_>,
        streams: &CommandStreams<'_>,
    ) -> Result<(), ExecError> {
        command.check()?;
        if self.state.is_running() {
            return Err(ExecError::invalid(
                "the shell",
                "a command is running in it; wait for its end",
            ));
        }
        self.make_live().await?;
        if std::mem::take(&mut self.disturbed) {
            Box::pin(self.calm_down()).await?;
        }
        let sent_to = self.directory_for(command.cwd)?;
        let (Some(live), Some(snapshots)) = (&self.live, &self.snapshots) else {
            return Err(no_shell());
        };
        if self.exit_state_left {
            snapshots.clear_exit();
            self.exit_state_left = false;
        }
        let failed = |source: io::Error| ExecError::io("giving the command to the shell", source);
        let script =
            live.dialect
                .command_script(command.text, sent_to.as_deref(), command.environment)?;
        let nonce = self.names.next()?;
        let script = if script.len() <= Script::MAX_INLINE_BYTES {
            Script::Inline(&script)
        } else {
            let mailbox = snapshots.mailbox();
            mailbox.write(&script).map_err(failed)?;
            Script::Mailbox(mailbox.path())
        };
        let effects = Effects::of(command.text);
        let handling = Handling {
            last_status: self.state.last_status,
            traps: if effects.starts_processes {
                TrapWatch::of(command.text, self.state.traps)
            } else {
                TrapWatch::None
            },
            needs: self.needs(effects, streams.stdin),
        };
        let lines = live
            .dialect
            .command_lines(&nonce, &script, streams, &handling);
        let bystanders = match self.followers.take() {
            Some(known) => known,
            None => live.process.followers(),
        };
        self.state.running = Some(RunningState {
            nonce,
            sent_to,
            keeps_state: live.dialect == Dialect::Bash
                && command.cwd.is_none()
                && effects.keeps_state,
            starts_processes: effects.starts_processes,
            may_damage: live.dialect == Dialect::Bash && effects.may_damage,
            state_lost: self.state_lost,
            bystanders,
            lines,
        });
        self.state.traps = self.state.traps.and(command.text);
        self.handover = Handover::Certain;
        self.deaf_looks = 0;
        self.host.remember(&self.state);
        self.give().map_err(failed)
    }

    /// What a command must be given or kept from, by what it may do.
    fn needs(&self, effects: Effects, stdin: &Path) -> Needs {
        // Words that mean what they usually mean cannot have moved the
        // shell's own descriptors, which are as they were.
        let literal = self.snapshots.as_ref().is_some_and(Snapshots::is_literal);
        if !(self.state.script && literal && effects.keeps_state) {
            return Needs::ALL;
        }
        Needs {
            own_input: stdin == Path::new("/dev/null"),
            hides_records: effects.starts_processes,
        }
    }

    /// Waits until a shell that was interrupted has answered something said
    /// after that: an interrupt that reaches it late makes it drop lines it
    /// has read already.
    async fn calm_down(&mut self) -> Result<(), ExecError> {
        let until = tokio::time::Instant::now() + SHELL_START_DEADLINE;
        while let Some(live) = &mut self.live {
            let nonce = self.names.next()?;
            let question = [b"\n".to_vec(), live.dialect.end_line(&nonce)].concat();
            // One that cannot be asked is dead, which shows below.
            let _ = live.send(&question);
            match tokio::time::timeout(CALM_LOOK, live.ended(&nonce)).await {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => break,
                Err(_) if tokio::time::Instant::now() < until => {}
                Err(_) => {
                    live.process.signal(Signal::KILL);
                    live.process.exited().await;
                    break;
                }
            }
        }
        self.make_live().await
    }

    /// Says the lines of the command to the shell.
    fn give(&mut self) -> io::Result<()> {
        let (Some(live), Some(running)) = (&self.live, &self.state.running) else {
            return Ok(());
        };
        let given = live.send(&running.lines);
        // A shell that has just died is found dead by whoever waits for it.
        if given.is_err() && !live.process.has_exited() {
            self.state.running = None;
            self.host.remember(&self.state);
            return given;
        }
        Ok(())
    }

    /// Waits for the end of the running command. What it put into the
    /// background goes on. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// If no command is running, or nobody knows how the shell ended.
    pub async fn ended(&mut self) -> Result<CommandEnd, ExecError> {
        let ended = loop {
            self.ask_once();
            let (Some(live), Some(running)) = (&mut self.live, &self.state.running) else {
                break None;
            };
            let asked = match &self.handover {
                Handover::Asked(nonce) => Some(nonce.as_str()),
                Handover::Certain | Handover::Unsure => None,
            };
            let record = live.first_of(&running.nonce, asked);
            let Ok(record) = tokio::time::timeout(SHELL_ANSWER_LOOK, record).await else {
                self.look_for_deafness();
                continue;
            };
            match record {
                Some(record) if record.nonce != running.nonce => {
                    self.handover = Handover::Certain;
                    // If it cannot be told, it is dead, and that is next.
                    let _ = self.give();
                }
                other => break other,
            }
        };
        self.finish(ended, Stopped::ByItself)
    }

    /// A shell that has read the line that reports the end, and reports
    /// nothing, has been told to ignore everything (`set -n`, a DEBUG trap):
    /// it is asked to exit, and then killed.
    fn look_for_deafness(&mut self) {
        let Some(live) = &self.live else { return };
        // Only Bash reads no further than it has to.
        let reads_ahead = live.dialect != Dialect::Bash;
        if reads_ahead || live.process.unread().is_ok_and(|unread| unread > 0) {
            self.deaf_looks = 0;
            return;
        }
        self.deaf_looks += 1;
        match self.deaf_looks {
            0..=2 => {}
            3 => live.process.signal(Signal::TERM),
            _ => live.process.signal(Signal::KILL),
        }
    }

    /// Asks an adopted shell, once, to say where it stands.
    fn ask_once(&mut self) {
        if self.handover != Handover::Unsure {
            return;
        }
        if let (Some(live), Ok(nonce)) = (&self.live, self.names.next()) {
            let _ = live.send(&live.dialect.end_line(&nonce));
            self.handover = Handover::Asked(nonce);
        }
    }

    /// Signals everything the running command started, and not the shell.
    pub fn signal(&self, signal: Signal) {
        if let (Some(live), Some(running)) = (&self.live, &self.state.running) {
            live.process.signal_others(signal, &running.bystanders);
        }
    }

    /// Interrupts everything the command started (INT, TERM, and KILL after
    /// `grace`) and keeps the shell if it can.
    ///
    /// # Errors
    /// As [`ended`](Self::ended).
    pub async fn interrupt(&mut self, grace: Duration) -> Result<CommandEnd, ExecError> {
        let ended = match (&mut self.live, &self.state.running) {
            (Some(live), Some(running)) => {
                let question = match &self.handover {
                    Handover::Asked(nonce) => live.dialect.end_line(nonce).len(),
                    Handover::Certain | Handover::Unsure => 0,
                };
                interrupt(live, running, question, grace).await
            }
            _ => None,
        };
        self.exit_state_left = true;
        self.disturbed = true;
        self.finish(ended, Stopped::ByInterrupt)
    }

    /// Gives up the shell together with what it runs: the caller gets the
    /// process, to do away with it. The next command meets a new shell with
    /// the state of the last snapshot.
    pub fn abandon(&mut self) -> Option<H::Process> {
        let live = self.live.take()?;
        self.state_lost = true;
        self.followers = None;
        self.state.running = None;
        self.host.remember(&self.state);
        Some(live.process)
    }

    /// Ends the shell: it may leave by itself for a moment (its EXIT trap
    /// runs), then it and everything it started is killed.
    pub async fn close(&mut self) {
        let Some(live) = self.live.take() else { return };
        self.state.running = None;
        if live.send(&live.dialect.exit_line()).is_ok() {
            let leaving = live.process.exited();
            let _ = tokio::time::timeout(SHELL_CLOSE_GRACE, leaving).await;
        }
        self.host.end(live.process).await;
    }

    /// The directory to go to before the command, if it is not where the
    /// shell is. Looked at beforehand, so that the error can name it.
    fn directory_for(&self, wanted: Option<&Path>) -> Result<Option<PathBuf>, ExecError> {
        let wanted = match (wanted, &self.state.return_to) {
            (Some(wanted), _) => self.cwd().join(wanted),
            (None, Some(home)) => home.clone(),
            (None, None) => return Ok(None),
        };
        match self.host.directory(&wanted) {
            Ok(_) => Ok(Some(wanted)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ExecError::WorkingDirectoryGone { path: wanted })
            }
            Err(source) => Err(ExecError::WorkingDirectoryUnusable {
                path: wanted,
                source,
            }),
        }
    }

    /// After the command: what it was, and where the shell stands now.
    fn finish(
        &mut self,
        ended: Option<EndRecord>,
        stopped: Stopped,
    ) -> Result<CommandEnd, ExecError> {
        let running = self.state.running.take().ok_or_else(no_command)?;
        self.handover = Handover::Certain;
        let mut restarted = running.state_lost;
        self.state_lost = false;
        let live = self.live.as_ref().ok_or_else(no_shell)?;
        let tree_control = live.process.tree_control();
        let status = match ended {
            Some(record) => {
                self.state.last_status = record.status;
                self.settle(record.cwd, running.sent_to.as_deref());
                if running.may_damage && record.status == SYNTAX_ERROR {
                    self.send_away();
                } else {
                    self.save_state(running, stopped);
                }
                ExitStatus::from_shell_code(record.status)
            }
            None => {
                let status = live.process.exit_status();
                match self.bury() {
                    Some(cwd) => self.settle(cwd, running.sent_to.as_deref()),
                    None => restarted = true,
                }
                let status = status?;
                self.state.last_status = status.shell_code();
                status
            }
        };
        self.host.remember(&self.state);
        Ok(CommandEnd {
            status,
            cwd: self.cwd().to_owned(),
            shell_restarted: restarted,
            tree_control,
        })
    }

    /// Notes where the shell is after a command that was sent to `sent_to`.
    fn settle(&mut self, cwd: PathBuf, sent_to: Option<&Path>) {
        self.state.return_to = match sent_to {
            Some(place) if place != self.cwd() && self.same_place(place, &cwd) => {
                Some(self.cwd().to_owned())
            }
            _ => None,
        };
        // A command may have unset the variable that the shell answers from.
        if cwd.is_absolute() {
            self.state.cwd = cwd;
        }
    }

    /// Whether both names are of one directory.
    fn same_place(&self, left: &Path, right: &Path) -> bool {
        match (self.host.directory(left), self.host.directory(right)) {
            (Ok(Some(left)), Ok(Some(right))) => left == right,
            _ => left == right,
        }
    }

    /// Has the shell write its state down, unless the command cannot have
    /// changed it; it does so after it has answered.
    fn save_state(&mut self, running: RunningState, stopped: Stopped) {
        let (Some(live), Some(snapshots)) = (&self.live, &mut self.snapshots) else {
            return;
        };
        let calm = stopped == Stopped::ByItself
            && running.keeps_state
            && self.state.return_to.is_none()
            && !snapshots.define_code();
        if calm {
            self.followers = (!running.starts_processes).then_some(running.bystanders);
            return;
        }
        let turn = self.state.next_turn;
        self.state.next_turn += 1;
        // A shell that died in this moment is found dead next time.
        let line = live.dialect.save_line(turn, snapshots.take_turn(turn));
        let _ = live.send(&line);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    ByItself,
    ByInterrupt,
}

fn no_command() -> ExecError {
    ExecError::invalid("the shell", "no command is running in it")
}

fn no_shell() -> ExecError {
    ExecError::invalid("the shell", "it has no process")
}
