//! A turn as its caller sees it: text, one line of JSON, or every event.

mod activity;
mod call;
mod json;
mod media;
mod resources;
mod text;
mod transcript;
mod usage;
mod window;

pub use activity::{Activity, Steps};
pub use call::summary as call_summary;
pub use json::{JsonResultView, StreamingView, ValueView};
pub use media::media_tag;
pub use resources::resource_counts;
pub use text::TextView;
pub use transcript::transcript_lines;
pub use usage::used;
pub use window::context_lines;

use halter::HalterError;
use halter_protocol::SessionEvent;
use std::io;

/// Shows the events of a session.
pub trait View {
    /// Shows one event.
    fn event(&mut self, event: SessionEvent) -> io::Result<()>;

    /// Shows one event of a subagent, where the session's stream carries them.
    fn subagent_event(&mut self, _event: SessionEvent) -> io::Result<()> {
        Ok(())
    }

    /// Everything went well, and nothing more is done.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// What is said beside the answer.
    fn activity(&mut self) -> &mut Activity;

    /// Time has passed, or somebody is typing this.
    fn tick(&mut self, draft: &str) {
        self.activity().tick(draft);
    }

    /// What somebody typed will join the turn.
    fn joined(&mut self, text: &str) {
        self.activity().joined(text);
    }

    /// What a program sent while the turn runs cannot be used.
    fn refuse(&mut self, error: &HalterError) -> io::Result<()> {
        self.activity().problem(error);
        Ok(())
    }

    /// Nothing more comes.
    fn end(&mut self) {
        self.activity().end();
    }
}
