//! Plays a prepared answer as a stream that stops when it is cancelled.

use crate::fake::Gate;
use crate::provider::EventStream;
use halter_protocol::{ProviderError, StreamEvent};
use std::collections::VecDeque;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What happens next in a prepared answer.
#[derive(Debug, Clone)]
pub(crate) enum Cue {
    /// The event is yielded.
    Event(StreamEvent),
    /// Time passes.
    Delay(Duration),
    /// Somebody has to open the gate.
    Gate(Gate),
    /// The stream fails and ends.
    Fail(ProviderError),
}

/// Yields the events of the cues in order. Once `cancel` has fired, the next
/// item is the cancellation, and the last.
pub(crate) fn play(cues: impl IntoIterator<Item = Cue>, cancel: CancellationToken) -> EventStream {
    let cues: VecDeque<Cue> = cues.into_iter().collect();
    Box::pin(futures::stream::unfold((cues, cancel), |state| async {
        let (mut cues, cancel) = state;
        let item = next_item(&mut cues, &cancel).await?;
        if item.is_err() {
            cues.clear();
        }
        Some((item, (cues, cancel)))
    }))
}

async fn next_item(
    cues: &mut VecDeque<Cue>,
    cancel: &CancellationToken,
) -> Option<Result<StreamEvent, ProviderError>> {
    loop {
        let cue = cues.pop_front()?;
        if cancel.is_cancelled() {
            return Some(Err(ProviderError::cancelled()));
        }
        let wait = async {
            match cue {
                Cue::Event(event) => Some(Ok(event)),
                Cue::Fail(error) => Some(Err(error)),
                Cue::Delay(duration) => {
                    tokio::time::sleep(duration).await;
                    None
                }
                Cue::Gate(gate) => {
                    gate.pass().await;
                    None
                }
            }
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Some(Err(ProviderError::cancelled())),
            item = wait => if item.is_some() { return item },
        }
    }
}
