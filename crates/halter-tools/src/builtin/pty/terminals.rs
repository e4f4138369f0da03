//! The terminals of a session.

use super::screen::TerminalScreen;
use crate::builtin::refused::ReportedHosts;
use crate::context::{ToolContext, cancelled};
use crate::exec::{BackgroundCommand, RunningCommand, TerminalSize};
use crate::limits::{PTY_READ_BYTES, PTY_SETTLE_TIME, PTY_TERMINALS};
use crate::session::{ToolSessionClosed, ToolSessionState};
use anyhow::bail;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// The terminals of a live session, oldest first. Their processes belong to
/// the place where commands run, which ends them with the session.
#[derive(Default)]
pub(super) struct Terminals {
    open: Mutex<Vec<Arc<OpenTerminal>>>,
    started: AtomicU64,
}

impl ToolSessionState for Terminals {}

/// A terminal with a command in it.
pub(super) struct OpenTerminal {
    pub(super) id: String,
    pub(super) command: Arc<dyn RunningCommand>,
    pub(super) reported: ReportedHosts,
    screen: Arc<SharedScreen>,
    _feeder: AbortOnDropHandle<()>,
}

struct SharedScreen {
    screen: Mutex<TerminalScreen>,
    shown: watch::Sender<Shown>,
}

/// How far the output of a command is on the screen.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Shown {
    bytes: u64,
    /// The command has ended, and all of its output is there.
    ended: bool,
}

/// What a call waits for.
pub(super) struct AwaitedScreen<'a> {
    /// Until this is on the screen; until it comes to rest, if absent.
    pub(super) text: Option<&'a str>,
    /// Only what is there after more than so many bytes of output counts.
    pub(super) after: u64,
    /// How long the program may take to print anything.
    pub(super) reaction: Duration,
    pub(super) at_most: Duration,
}

impl Terminals {
    pub(super) fn of(context: &ToolContext) -> Result<Arc<Self>, ToolSessionClosed> {
        context.tool_sessions.get_or_insert_with(Self::default)
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<OpenTerminal>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a terminal, unless too many are in use. Returns it with what there
    /// is to say about its sandbox.
    pub(super) async fn start(
        &self,
        context: &ToolContext,
        command: BackgroundCommand,
        size: TerminalSize,
    ) -> anyhow::Result<(Arc<OpenTerminal>, Option<String>)> {
        self.make_room()?;
        let started = context.exec().await?.start(command).await?;
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let screen = Arc::new(SharedScreen {
            screen: Mutex::new(TerminalScreen::new(size)),
            shown: watch::Sender::default(),
        });
        let feeder = feed(Arc::clone(&started.command), Arc::clone(&screen));
        let terminal = Arc::new(OpenTerminal {
            id: format!("pty_{number}"),
            command: started.command,
            reported: ReportedHosts::default(),
            screen,
            _feeder: AbortOnDropHandle::new(tokio::spawn(feeder)),
        });
        self.all().push(Arc::clone(&terminal));
        Ok((terminal, started.sandbox_note))
    }

    /// Forgets the oldest terminal whose command has ended, if there are many.
    fn make_room(&self) -> anyhow::Result<()> {
        let mut open = self.all();
        if open.len() < PTY_TERMINALS {
            return Ok(());
        }
        let ended = |it: &Arc<OpenTerminal>| it.command.progress().end.is_some();
        let Some(oldest) = open.iter().position(ended) else {
            bail!(
                "{PTY_TERMINALS} terminals are in use, which is the most: end one with `kill` ({})",
                ids(&open)
            );
        };
        open.remove(oldest);
        Ok(())
    }

    /// The terminal of this name; without a name, the only one.
    pub(super) fn find(&self, id: Option<&str>) -> anyhow::Result<Arc<OpenTerminal>> {
        let open = self.all();
        let known = || match open.is_empty() {
            true => "none is open; `start` opens one, and it ends with the session".to_owned(),
            false => format!("there are {}", ids(&open)),
        };
        match (id, open.as_slice()) {
            (None, [only]) => Ok(Arc::clone(only)),
            (None, _) => bail!("`terminal_id` is missing: {}", known()),
            (Some(id), all) => match all.iter().find(|it| it.id == id) {
                Some(found) => Ok(Arc::clone(found)),
                None => bail!(
                    "there is no terminal '{}': {}",
                    crate::suggest::shortened(id),
                    known()
                ),
            },
        }
    }
}

fn ids(terminals: &[Arc<OpenTerminal>]) -> String {
    let ids: Vec<&str> = terminals.iter().map(|it| it.id.as_str()).collect();
    ids.join(", ")
}

impl OpenTerminal {
    /// The screen as it is now.
    pub(super) fn screen(&self) -> MutexGuard<'_, TerminalScreen> {
        self.screen.lock()
    }

    /// How much output is on the screen.
    pub(super) fn shown_bytes(&self) -> u64 {
        self.screen.shown.borrow().bytes
    }

    /// The screen first, as in any terminal: what a program draws in its new size
    /// may be here before the answer is.
    pub(super) async fn resize(&self, size: TerminalSize) -> anyhow::Result<()> {
        let before = self.screen().size();
        if self.command.progress().end.is_none() {
            self.screen().resize(size);
        }
        let resized = self.command.resize(size).await;
        if resized.is_err() {
            self.screen().resize(before);
        }
        resized
    }

    /// Waits for a text or for rest. Returns whether the text is there.
    pub(super) async fn wait(
        &self,
        context: &ToolContext,
        awaited: &AwaitedScreen<'_>,
    ) -> anyhow::Result<bool> {
        let reached = async {
            match awaited.text {
                Some(text) => self.appears(text, awaited.after).await,
                None => self.rests(awaited).await,
            }
        };
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => Err(cancelled().into()),
            // Late is no error: the answer shows the screen.
            _ = tokio::time::timeout(awaited.at_most, reached) => {
                Ok(awaited.text.is_some_and(|text| self.has(text)))
            }
        }
    }

    fn has(&self, text: &str) -> bool {
        self.screen().text().contains(text)
    }

    /// Waits until a text is on the screen, or nothing will come any more.
    async fn appears(&self, text: &str, after: u64) {
        let mut shown = self.screen.shown.subscribe();
        loop {
            let now = *shown.borrow_and_update();
            let is_new = after == 0 || now.bytes > after;
            if now.ended || (is_new && self.has(text)) || shown.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until the command has printed something and then nothing for a
    /// while, or has printed nothing for long enough.
    async fn rests(&self, awaited: &AwaitedScreen<'_>) {
        let mut shown = self.screen.shown.subscribe();
        let first = shown.wait_for(|it| it.bytes > awaited.after || it.ended);
        if tokio::time::timeout(awaited.reaction, first).await.is_err() {
            return;
        }
        loop {
            let now = *shown.borrow_and_update();
            let more = shown.wait_for(|it| *it != now);
            if now.ended || tokio::time::timeout(PTY_SETTLE_TIME, more).await.is_err() {
                return;
            }
        }
    }
}

impl SharedScreen {
    fn lock(&self) -> MutexGuard<'_, TerminalScreen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows what a command prints, as it comes, and gives it the answers of its
/// terminal.
async fn feed(command: Arc<dyn RunningCommand>, screen: Arc<SharedScreen>) {
    let mut bytes = 0;
    loop {
        let progress = command.printed_more_than(bytes).await;
        let piece = match command.read(bytes, PTY_READ_BYTES).await {
            Ok(piece) => piece,
            Err(error) => {
                tracing::debug!(%error, "output of a terminal not read");
                break;
            }
        };
        if piece.bytes.is_empty() && progress.end.is_some() {
            break;
        }
        bytes = piece.offset + piece.bytes.len() as u64;
        let answers = screen.lock().show(&piece.bytes);
        if !answers.is_empty() && command.write(&answers).await.is_err() {
            tracing::debug!("an answer of a terminal was not taken");
        }
        screen.shown.send_replace(Shown {
            bytes,
            ended: false,
        });
    }
    screen.shown.send_replace(Shown { bytes, ended: true });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::{BackgroundEnd, BackgroundProgress, OutputPiece};
    use async_trait::async_trait;

    /// Draws a line as soon as it has another size, and is told of that size only
    /// when the line has been read.
    #[derive(Default)]
    struct Drawing {
        drawn: watch::Sender<&'static [u8]>,
        read: watch::Sender<u64>,
        ended: bool,
    }

    const LINE: &[u8] = b"123456789";

    #[async_trait]
    impl RunningCommand for Drawing {
        fn pid(&self) -> Option<i32> {
            None
        }

        fn progress(&self) -> BackgroundProgress {
            let end = BackgroundEnd {
                status: None,
                timed_out: false,
            };
            BackgroundProgress {
                printed: self.drawn.borrow().len() as u64,
                end: self.ended.then_some(end),
            }
        }

        async fn printed_more_than(&self, bytes: u64) -> BackgroundProgress {
            self.read.send_replace(bytes);
            let mut drawn = self.drawn.subscribe();
            let _ = drawn.wait_for(|it| it.len() as u64 > bytes).await;
            self.progress()
        }

        async fn read(&self, offset: u64, _: usize) -> anyhow::Result<OutputPiece> {
            let bytes = self.drawn.borrow().to_vec();
            Ok(OutputPiece { offset, bytes })
        }

        async fn write(&self, _: &[u8]) -> anyhow::Result<()> {
            Ok(())
        }

        async fn end_input(&self) {}

        async fn resize(&self, _: TerminalSize) -> anyhow::Result<()> {
            anyhow::ensure!(!self.ended, "the command has ended");
            self.drawn.send_replace(LINE);
            let shown = |bytes: &u64| *bytes == LINE.len() as u64;
            self.read.subscribe().wait_for(shown).await?;
            Ok(())
        }

        async fn signal(&self, _: i32) -> anyhow::Result<()> {
            Ok(())
        }

        async fn stop(&self) {}
    }

    fn size(columns: u16) -> TerminalSize {
        TerminalSize { columns, rows: 4 }
    }

    fn open(command: Drawing) -> OpenTerminal {
        let command: Arc<dyn RunningCommand> = Arc::new(command);
        let screen = Arc::new(SharedScreen {
            screen: Mutex::new(TerminalScreen::new(size(20))),
            shown: watch::Sender::default(),
        });
        let feeder = feed(Arc::clone(&command), Arc::clone(&screen));
        OpenTerminal {
            id: "pty_1".to_owned(),
            command,
            reported: ReportedHosts::default(),
            screen,
            _feeder: AbortOnDropHandle::new(tokio::spawn(feeder)),
        }
    }

    #[tokio::test]
    async fn what_is_drawn_before_the_answer_to_a_resize_is_shown_in_the_new_size() {
        let terminal = open(Drawing::default());
        terminal.resize(size(5)).await.unwrap();
        assert_eq!(terminal.screen().text(), "12345\n6789");
    }

    #[tokio::test]
    async fn the_screen_of_a_command_that_has_ended_keeps_its_size() {
        let terminal = open(Drawing {
            ended: true,
            ..Drawing::default()
        });
        terminal.screen().show(LINE);
        terminal.resize(size(5)).await.unwrap_err();
        assert_eq!(terminal.screen().text(), "123456789");
    }
}
