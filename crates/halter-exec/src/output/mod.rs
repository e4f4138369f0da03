//! What a command prints: read without ever making it wait for a reader,
//! kept within bounds, and passed on live.

mod capture;
mod pipe;
mod pump;
mod sink;
mod spool_file;
mod utf8;

pub(crate) use capture::{Capture, Filled};
pub use capture::{CapturedOutput, OutputLimits};
pub(crate) use pipe::Drained;
pub use pipe::OutputPipe;
pub(crate) use pump::Pump;
pub use sink::{ChannelSink, OutputChunk, OutputSink, OutputStream, channel};
pub use spool_file::{SpoolFile, SpoolSettings};
pub use utf8::Utf8Decoder;
