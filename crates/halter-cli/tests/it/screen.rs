//! The binary at a terminal of its own.

use crate::place::{PATIENCE, Place, eventually};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What line editors ask a terminal, and what ours answers.
const WHERE_IS_THE_CURSOR: &str = "\x1b[6n";
const AT_THE_TOP: &[u8] = b"\x1b[1;1R";

/// What a line editor says whenever it begins to read.
const PASTING_ON: &str = "\x1b[?2004h";

/// What a terminal has shown, and word of more.
#[derive(Default)]
struct Shown {
    text: Mutex<String>,
    grown: Condvar,
}

pub struct Screen {
    child: Child,
    keyboard: File,
    shown: Arc<Shown>,
    watcher: JoinHandle<()>,
    /// The watcher stops when this is closed.
    stop: OwnedFd,
}

impl Screen {
    /// Runs the binary with a terminal as its controlling one.
    pub fn open(place: &Place, arguments: &[&str]) -> Self {
        Self::open_with(place, arguments, |_| {})
    }

    pub fn open_with(place: &Place, arguments: &[&str], adjust: impl FnOnce(&mut Command)) -> Self {
        Self::start(place, env!("CARGO_BIN_EXE_halter"), arguments, adjust)
    }

    /// Runs another program instead.
    pub fn open_program(place: &Place, program: &str, arguments: &[&str]) -> Self {
        Self::start(place, program, arguments, |_| {})
    }

    fn start(
        place: &Place,
        program: &str,
        arguments: &[&str],
        adjust: impl FnOnce(&mut Command),
    ) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap();
        let terminal = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path.to_str().unwrap())
            .unwrap();
        // setsid makes the terminal the controlling one, so that Ctrl-C on it
        // is a signal.
        let plain = place.command(arguments);
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg("--wait").arg(program);
        command.args(plain.get_args()).env_clear();
        command.envs(
            plain
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        command.env("TERM", "xterm").current_dir(place.work());
        adjust(&mut command);
        let child = command
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal.try_clone().unwrap())
            .stderr(terminal)
            .spawn()
            .unwrap();
        drop(command);
        let master = File::from(master);
        let keyboard = master.try_clone().unwrap();
        let shown = Arc::<Shown>::default();
        let seen = Arc::clone(&shown);
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        Self {
            child,
            keyboard,
            shown,
            watcher: std::thread::spawn(move || watch(master, &stopped, &seen)),
            stop,
        }
    }

    /// Types.
    pub fn send(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Everything shown so far.
    pub fn shown(&self) -> String {
        self.shown.text.lock().unwrap().clone()
    }

    /// Waits until a text has been shown.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait_for_times(text, 1);
    }

    /// Waits until a prompt is ready for the nth input.
    #[track_caller]
    pub fn wait_for_prompt(&self, nth: usize) {
        self.wait_for_times(PASTING_ON, nth);
        self.wait_for_times("› ", nth);
    }

    /// Waits until a text has been shown that often.
    #[track_caller]
    pub fn wait_for_times(&self, text: &str, times: usize) {
        let lacks = |shown: &mut String| shown.matches(text).count() < times;
        let shown = self.shown.text.lock().unwrap();
        let waited = self.shown.grown.wait_timeout_while(shown, PATIENCE, lacks);
        let (shown, late) = waited.unwrap();
        assert!(!late.timed_out(), "no {text:?} ({times}) in {shown:?}");
    }

    /// Closes the terminal and waits for the end; returns how long that took.
    pub fn hang_up(mut self) -> (ExitStatus, Duration) {
        drop(self.stop);
        self.watcher.join().unwrap();
        drop(self.keyboard);
        let closed = Instant::now();
        let status = eventually("the end", || self.child.try_wait().unwrap());
        (status, closed.elapsed())
    }

    /// Waits for the end, and for everything that was written before it.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = eventually("the end", || self.child.try_wait().unwrap());
        self.watcher.join().unwrap();
        let shown = self.shown.text.lock().unwrap().clone();
        (status, shown)
    }
}

/// Collects what is shown and answers what is asked.
fn watch(mut master: File, stopped: &OwnedFd, shown: &Shown) {
    let mut answered = 0;
    let mut bytes = [0; 4096];
    let mut pending = Vec::new();
    loop {
        let mut watched = [
            PollFd::new(&master, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN),
        ];
        retry_on_intr(|| poll(&mut watched, None)).unwrap();
        if !watched[1].revents().is_empty() {
            return;
        }
        // The read fails once nobody has the other side open.
        let Ok(count @ 1..) = master.read(&mut bytes) else {
            return;
        };
        pending.extend_from_slice(&bytes[..count]);
        let valid = match std::str::from_utf8(&pending) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8(pending.drain(..valid).collect()).unwrap();
        let mut seen = shown.text.lock().unwrap();
        seen.push_str(&text);
        let asked = seen.matches(WHERE_IS_THE_CURSOR).count();
        drop(seen);
        shown.grown.notify_all();
        for _ in answered..asked {
            let _ = master.write_all(AT_THE_TOP);
        }
        answered = asked;
    }
}
