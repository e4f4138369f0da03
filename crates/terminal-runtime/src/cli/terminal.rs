//! The terminal of whoever uses us, lent to a command.

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use terminal_runtime::protocol::PtyParams;

/// Standard input passes every key through while this lives.
pub struct RawMode {
    before: Termios,
}

impl RawMode {
    pub fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// The size of this terminal, or the usual one.
pub fn size() -> PtyParams {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => PtyParams {
            cols: size.ws_col,
            rows: size.ws_row,
        },
        _ => PtyParams { cols: 80, rows: 24 },
    }
}
