//! Programs that serve over their standard streams: started through
//! `halter-exec`, listened to within bounds, ended with all they started.
//!
//! Nothing here knows a protocol.

mod backoff;
mod guard;
mod program;

pub use backoff::Backoff;
pub use guard::Guard;
pub use program::{LineTooLong, Program, ProgramInput, ProgramOutput, ProgramSettings, Started};
