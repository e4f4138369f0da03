//! Output as it comes, and below it a line that says what goes on.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use terminal_runtime::client::Ending;
use terminal_runtime::protocol::StreamName;

/// Erases the line the cursor is in.
const ERASE: &[u8] = b"\r\x1b[K";

/// Writes output through; on a terminal keeps a status line below it.
pub struct Screen {
    exec_id: String,
    started: Instant,
    has_status: bool,
    drawn: bool,
    /// Whether the cursor is at the start of a line.
    at_start: bool,
}

impl Screen {
    /// A screen for one command; the status line is left out if the terminal
    /// belongs to the command itself.
    pub fn new(exec_id: &str, is_shared: bool) -> Self {
        Self {
            exec_id: exec_id.to_owned(),
            started: Instant::now(),
            has_status: io::stderr().is_terminal() && !is_shared,
            drawn: false,
            at_start: true,
        }
    }

    pub fn output(&mut self, stream: StreamName, bytes: &[u8]) -> io::Result<()> {
        self.erase()?;
        self.at_start = bytes.ends_with(b"\n");
        match stream {
            StreamName::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()
            }
            StreamName::Stderr => io::stderr().lock().write_all(bytes),
        }
    }

    /// A remark that is no output of the command.
    pub fn note(&mut self, text: &str) -> io::Result<()> {
        self.erase()?;
        writeln!(io::stderr(), "{text}")
    }

    /// Draws the status line, unless it would stand within the output.
    pub fn draw(&mut self) -> io::Result<()> {
        if !self.has_status || !self.at_start {
            return Ok(());
        }
        self.erase()?;
        self.drawn = true;
        let line = format!(
            "[{} runs for {} - Ctrl-C cancels it]",
            self.exec_id,
            shown(self.started.elapsed())
        );
        let mut stderr = io::stderr().lock();
        stderr.write_all(line.as_bytes())?;
        stderr.flush()
    }

    fn erase(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.drawn) {
            io::stderr().lock().write_all(ERASE)?;
        }
        Ok(())
    }

    /// The last status line, which stays.
    pub fn finish(&mut self, ending: &Ending) -> io::Result<()> {
        self.erase()?;
        if !self.has_status {
            return Ok(());
        }
        let took = shown(Duration::from_millis(ending.duration_ms));
        let how = match (ending.cancelled, ending.timed_out, ending.signal) {
            (true, ..) => "cancelled".to_owned(),
            (_, true, _) => "its time was up".to_owned(),
            (_, _, Some(signal)) => format!("ended by signal {signal}"),
            _ => format!("exit code {}", ending.exit_code),
        };
        let newline = if self.at_start { "" } else { "\n" };
        writeln!(io::stderr(), "{newline}[{how} after {took}]")
    }
}

fn shown(span: Duration) -> String {
    let seconds = span.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, _) if seconds < 10 => format!("{:.1} s", span.as_secs_f64()),
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_for_people() {
        for (millis, expected) in [
            (40, "0.0 s"),
            (9_940, "9.9 s"),
            (59_000, "59 s"),
            (61_000, "1 min 01 s"),
            (7_260_000, "2 h 01 min"),
        ] {
            assert_eq!(shown(Duration::from_millis(millis)), expected);
        }
    }
}
