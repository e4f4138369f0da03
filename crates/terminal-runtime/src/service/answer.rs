//! Who asks, and what they get.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use super::job::Job;
use super::stream::StreamOrder;

/// One connection, as far as methods care.
#[derive(Debug, Default)]
pub struct Client {
    gone: CancellationToken,
    takes_frames: bool,
    frames: AtomicBool,
}

impl Client {
    /// A client whose connection can carry binary frames, if it asks.
    #[must_use]
    pub fn with_frames() -> Self {
        Self {
            takes_frames: true,
            ..Self::default()
        }
    }

    /// Cancelled when the client is gone.
    #[must_use]
    pub fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    /// Whether streams go out in binary frames.
    #[must_use]
    pub fn frames(&self) -> bool {
        self.frames.load(Ordering::Relaxed)
    }

    pub(super) fn set_frames(&self, wanted: bool) {
        self.frames
            .store(wanted && self.takes_frames, Ordering::Relaxed);
    }
}

/// What a client gets.
#[derive(Debug)]
pub enum CallAnswer {
    /// This line, with its newline.
    Line(Vec<u8>),
    /// The result of a command that has ended, put together by
    /// [`Service::result_line`](super::Service::result_line) only when there
    /// is room to send it.
    Result(ResultOrder),
    /// A line, and then a stream.
    Stream(StreamOrder),
    /// The client is gone; there is nothing to send.
    Nobody,
}

/// A result that is yet to be read from where the output is kept.
#[derive(Debug)]
pub struct ResultOrder {
    pub(super) job: Arc<Job>,
    pub(super) shape: ResultShape,
}

/// Which method's answer the result goes into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultShape {
    Run,
    Wait,
}
