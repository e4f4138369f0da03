//! One cassette for all services of a harness.

use super::{CassetteError, Player, Recorder, Scrubber};
use crate::http::Transport;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// A file of model traffic, and what is done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cassette {
    /// Traffic is recorded into the file; one that is there is replaced when
    /// the recording is finished.
    Record(PathBuf),
    /// Answers come from the file, and no server is reached.
    Replay(PathBuf),
}

/// A cassette that is open: transports go through it.
///
/// ```
/// use halter_providers::cassette::{Cassette, Deck, Scrubber};
/// use halter_providers::http::{ClientSettings, NetworkTransport};
/// use std::sync::Arc;
///
/// let file = tempfile::NamedTempFile::new()?;
/// let deck = Deck::open(&Cassette::Record(file.path().into()), Scrubber::default(), None)?;
/// let network = Arc::new(NetworkTransport::new(ClientSettings::default()));
/// let recorded = deck.around(network);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Deck(Inner);

#[derive(Debug, Clone)]
enum Inner {
    Recording(Arc<Recorder<()>>),
    Playing(Arc<Player>),
}

impl Deck {
    /// Opens a cassette. What the scrubber takes out is in no line of it. What
    /// the harness was set up with is kept in a recording, to be read with
    /// [`made_with`](super::made_with).
    pub fn open(
        cassette: &Cassette,
        scrubber: Scrubber,
        made_with: Option<Value>,
    ) -> Result<Self, CassetteError> {
        Ok(Self(match cassette {
            Cassette::Record(file) => {
                let recorder = Recorder::create_with((), file, scrubber, made_with)?;
                Inner::Recording(Arc::new(recorder))
            }
            Cassette::Replay(file) => Inner::Playing(Arc::new(Player::open(file, scrubber)?)),
        }))
    }

    /// The transport recorded, or, on replay, one that answers in its place.
    pub fn around(&self, transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
        match &self.0 {
            Inner::Recording(recorder) => Arc::new(recorder.around(transport)),
            Inner::Playing(player) => player.clone(),
        }
    }

    /// True if no server is reached, so that no key is needed.
    pub fn replays(&self) -> bool {
        matches!(self.0, Inner::Playing(_))
    }

    /// Puts a recording in its place. Dropping the deck does so too, without a
    /// word if it fails.
    pub fn finish(&self) -> Result<(), CassetteError> {
        match &self.0 {
            Inner::Recording(recorder) => recorder.finish(),
            Inner::Playing(_) => Ok(()),
        }
    }

    /// Gives up a recording that would replace an earlier one.
    pub fn spare_earlier(&self) {
        if let Inner::Recording(recorder) = &self.0 {
            recorder.spare_earlier();
        }
    }

    /// Recorded exchanges that were not played; none while recording.
    pub fn left(&self) -> usize {
        match &self.0 {
            Inner::Recording(_) => 0,
            Inner::Playing(player) => player.left(),
        }
    }
}
