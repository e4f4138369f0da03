//! Where output goes: data to standard output or a file, messages to standard
//! error. Both may end on one terminal, so they share where its cursor is.

use crate::failure::{Failure, file_problem};
use crate::terminal::{self, Terminal, safe, safe_line};
use halter::HalterError;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// True while the last line of the terminal is a status that must be wiped
/// before anything else is written; read by the panic hook.
static STATUS_SHOWN: AtomicBool = AtomicBool::new(false);

const WIPE_LINE: &str = "\r\x1b[K";

/// How much is said on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// Notes, warnings and what tools do.
    Normal,
    /// Thinking and tool output too.
    Verbose,
}

/// A style of messages.
#[derive(Debug, Clone, Copy)]
enum Style {
    Red,
    Yellow,
    Green,
    Dim,
}

impl Style {
    fn start(self) -> &'static str {
        match self {
            Self::Red => "\x1b[1;31m",
            Self::Yellow => "\x1b[33m",
            Self::Green => "\x1b[32m",
            Self::Dim => "\x1b[2m",
        }
    }
}

/// Standard error. Clones share it.
#[derive(Clone)]
pub struct Messages {
    terminal: Terminal,
    verbosity: Verbosity,
    progress: bool,
    /// True if data and messages end on the same terminal, and the cursor stands
    /// behind data that has no newline yet.
    mid_line: Arc<Mutex<bool>>,
}

impl Messages {
    /// Messages as the user wants it.
    pub fn new(terminal: Terminal, verbosity: Verbosity, progress: bool) -> Self {
        let capable = terminal.stderr && terminal.capable;
        Self {
            terminal,
            verbosity,
            progress: progress && capable && verbosity > Verbosity::Quiet,
            mid_line: Arc::default(),
        }
    }

    /// How much is said.
    pub fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// True if notes are shown.
    pub fn shows_notes(&self) -> bool {
        self.verbosity >= Verbosity::Normal
    }

    /// A note that is not about something wrong.
    pub fn note(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.line(&format!(
                "{} {}",
                self.styled(Style::Dim, "note:"),
                safe(text)
            ));
        }
    }

    /// Something the user should know.
    pub fn warning(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            let label = self.styled(Style::Yellow, "warning:");
            self.line(&format!("{label} {}", safe(text)));
        }
    }

    /// Something went wrong.
    pub fn error(&self, error: &HalterError) {
        let label = self.styled(Style::Red, &format!("error[{}]:", error.code()));
        self.line(&format!("{label} {}", safe(&error.to_string())));
        if let Some(hint) = error.hint() {
            self.line(&format!(
                "{} {}",
                self.styled(Style::Green, "hint:"),
                safe(hint)
            ));
        }
    }

    /// A plain line, made safe.
    pub fn say(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.line(&safe(text));
        }
    }

    /// A question, also to those who want to hear nothing else.
    pub fn question(&self, text: &str) {
        self.line(&safe(text));
    }

    /// A step that went well.
    pub fn done(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            let text = safe_line(text);
            self.line(&format!(
                "{} {}",
                self.styled(Style::Green, "✓"),
                self.styled(Style::Dim, &text)
            ));
        }
    }

    /// A step that did not go well.
    pub fn undone(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.line(&format!(
                "{} {}",
                self.styled(Style::Red, "✗"),
                safe_line(text)
            ));
        }
    }

    /// Text for those who want to see everything.
    pub fn aside(&self, text: &str) {
        if self.verbosity >= Verbosity::Verbose {
            self.line(&self.styled(Style::Dim, &safe(text)));
        }
    }

    /// Leaves the line on which somebody was typing.
    pub fn leave_line(&self) {
        let _ = io::stderr().lock().write_all(b"\n");
    }

    /// A question on a line of its own; the answer is typed behind it.
    pub fn ask(&self, question: &str) {
        self.settle();
        let mut stderr = io::stderr().lock();
        // Nobody is left to tell.
        let _ = write!(stderr, "{} ", safe_line(question)).and_then(|()| stderr.flush());
    }

    /// Bytes of a log line, as they are.
    pub fn log(&self, bytes: &[u8]) {
        self.settle();
        let _ = io::stderr().lock().write_all(bytes);
    }

    /// Shows a status on the last line, unless data stands there.
    pub fn status(&self, text: &str) {
        if !self.progress || *self.cursor() {
            return;
        }
        let width = terminal::columns().saturating_sub(1);
        let text = safe_line(text);
        let text = terminal::fitted(&text, width);
        STATUS_SHOWN.store(true, Ordering::SeqCst);
        let mut stderr = io::stderr().lock();
        let styled = self.styled(Style::Dim, &text);
        let _ = write!(stderr, "{WIPE_LINE}{styled}").and_then(|()| stderr.flush());
    }

    /// Wipes the status away.
    pub fn clear_status(&self) {
        wipe_status();
    }

    /// Called before data is written.
    fn before_data(&self) {
        wipe_status();
    }

    /// Called after data was written to a terminal.
    fn after_data(&self, text: &str) {
        if self.terminal.stderr && !text.is_empty() {
            *self.cursor() = !text.ends_with('\n');
        }
    }

    fn line(&self, text: &str) {
        self.settle();
        // One write, so that lines of several processes do not mix.
        let line = format!("{text}\n");
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }

    /// Puts the cursor at the start of an empty line.
    fn settle(&self) {
        wipe_status();
        if std::mem::take(&mut *self.cursor()) {
            let _ = io::stderr().lock().write_all(b"\n");
        }
    }

    fn styled(&self, style: Style, text: &str) -> String {
        match self.terminal.color {
            true => format!("{}{text}\x1b[0m", style.start()),
            false => text.to_owned(),
        }
    }

    fn cursor(&self) -> MutexGuard<'_, bool> {
        self.mid_line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wipe_status() {
    if STATUS_SHOWN.swap(false, Ordering::SeqCst) {
        let mut stderr = io::stderr().lock();
        let _ = stderr
            .write_all(WIPE_LINE.as_bytes())
            .and_then(|()| stderr.flush());
    }
}

/// Leaves the terminal as it was found when the program panics.
pub fn install_panic_hook() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        wipe_status();
        terminal::restore();
        report(panic);
    }));
}

/// Where data goes.
pub struct Data {
    sink: Box<dyn Write + Send>,
    /// The file, where it is one.
    path: Option<PathBuf>,
    on_terminal: bool,
    messages: Messages,
}

impl Data {
    /// Data to standard output.
    pub fn stdout(terminal: Terminal, messages: Messages) -> Self {
        Self {
            sink: Box::new(io::stdout()),
            path: None,
            on_terminal: terminal.stdout,
            messages,
        }
    }

    /// Data to a file, emptied first.
    pub fn file(path: &Path, messages: Messages) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| file_problem("write to", path, &error))?;
        Ok(Self {
            sink: Box::new(file),
            path: Some(path.to_owned()),
            on_terminal: false,
            messages,
        })
    }

    /// True if a person reads it.
    pub fn is_terminal(&self) -> bool {
        self.on_terminal
    }

    /// Writes text from models, tools or files: as it is for programs, made
    /// safe for a terminal.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        if !self.on_terminal {
            return self.raw(text);
        }
        self.messages.before_data();
        self.raw(&safe(text))?;
        self.messages.after_data(text);
        Ok(())
    }

    /// Writes a line of text.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.text(&format!("{text}\n"))
    }

    /// Ends the line that `text`, written before, left open.
    pub fn end_line(&mut self, text: &str) -> io::Result<()> {
        let open = match self.on_terminal && self.messages.terminal.stderr {
            // Messages may have ended it already.
            true => *self.messages.cursor(),
            false => !text.is_empty() && !text.ends_with('\n'),
        };
        match open {
            true => self.text("\n"),
            false => Ok(()),
        }
    }

    /// Writes a value as one line of JSON.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_string(value)?;
        line.push('\n');
        self.text(&line)
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.sink.write_all(bytes).and_then(|()| self.sink.flush());
        written.map_err(|error| match &self.path {
            Some(path) => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
            None => error,
        })
    }

    fn raw(&mut self, text: &str) -> io::Result<()> {
        self.bytes(text.as_bytes())
    }
}
