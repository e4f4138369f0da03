//! The events of a turn and of a session, as their users hold them.

use crate::driver::live::SessionCommand;
use crate::error::store_failure;
use crate::hub::{EventStream, TurnSubscription};
use crate::session::SessionHandle;
use futures::stream::{BoxStream, Stream, StreamExt};
use halter_protocol::{Delivery, SessionEvent, SessionEventPayload, TurnId};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// The events of one turn; ends after the terminal one. Dropping it does not
/// stop the turn, unless [`cancel_on_drop`](Self::cancel_on_drop) asks for it.
pub struct TurnStream {
    events: BoxStream<'static, anyhow::Result<SessionEvent>>,
    turn_id: TurnId,
    session: SessionHandle,
    cancel_on_drop: bool,
    over: bool,
}

impl TurnStream {
    pub(crate) fn new(
        session: SessionHandle,
        turn_id: TurnId,
        subscription: TurnSubscription,
    ) -> Self {
        let events = turn_events(turn_id.clone(), subscription).fuse().boxed();
        Self {
            events,
            turn_id,
            session,
            cancel_on_drop: false,
            over: false,
        }
    }

    /// The turn.
    pub fn turn_id(&self) -> &TurnId {
        &self.turn_id
    }

    /// Cancels the turn if the stream is dropped before its end.
    #[must_use]
    pub fn cancel_on_drop(mut self) -> Self {
        self.cancel_on_drop = true;
        self
    }
}

impl Stream for TurnStream {
    type Item = anyhow::Result<SessionEvent>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.events.poll_next_unpin(context);
        self.over |= matches!(polled, Poll::Ready(None | Some(Err(_))));
        if let Poll::Ready(Some(Ok(event))) = &polled {
            self.over |= event.payload.ends_turn() == Some(&self.turn_id);
        }
        polled
    }
}

impl Drop for TurnStream {
    fn drop(&mut self) {
        if self.cancel_on_drop && !self.over {
            let (reply, _) = oneshot::channel();
            self.session.core().send_if_busy(SessionCommand::Cancel {
                turn_id: Some(self.turn_id.clone()),
                reason: "the event stream was dropped".to_owned(),
                reply,
            });
        }
    }
}

/// The part of a subscription that belongs to one turn.
struct TurnEvents {
    subscription: TurnSubscription,
    turn_id: TurnId,
    progress: TurnProgress,
    /// Best-effort events missed just before the turn's start was read, some of
    /// them its own; to be told after it.
    missed: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum TurnProgress {
    Waiting,
    Live,
    Over,
}

impl TurnEvents {
    async fn next(&mut self) -> Option<anyhow::Result<SessionEvent>> {
        loop {
            let event = match self.progress {
                TurnProgress::Over => return None,
                TurnProgress::Waiting | TurnProgress::Live => self.subscription.next().await?,
            };
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    self.progress = TurnProgress::Over;
                    return Some(Err(store_failure(error)));
                }
            };
            if self.progress == TurnProgress::Live {
                if event.payload.ends_turn() == Some(&self.turn_id) {
                    self.progress = TurnProgress::Over;
                }
                return Some(Ok(event));
            }
            match &event.payload {
                SessionEventPayload::TurnStarted { turn_id, .. } if *turn_id == self.turn_id => {
                    self.progress = TurnProgress::Live;
                    return Some(Ok(event.first_of_stream()));
                }
                SessionEventPayload::Lagged { dropped_events } => self.missed = *dropped_events,
                // Whatever was missed before this belongs to another turn.
                other if other.delivery() == Delivery::BestEffort => self.missed = 0,
                _ => {}
            }
        }
    }

    /// What to tell right after `started`.
    fn take_missed(&mut self, started: &SessionEvent) -> Option<SessionEvent> {
        let dropped_events = std::mem::take(&mut self.missed);
        (dropped_events > 0).then(|| {
            SessionEvent::new_committed(
                started.session_id.clone(),
                started.sequence(),
                started.at,
                SessionEventPayload::Lagged { dropped_events },
            )
        })
    }
}

fn turn_events(
    turn_id: TurnId,
    subscription: TurnSubscription,
) -> impl Stream<Item = anyhow::Result<SessionEvent>> + Send {
    let turn = TurnEvents {
        subscription,
        turn_id,
        progress: TurnProgress::Waiting,
        missed: 0,
    };
    futures::stream::unfold(turn, |mut turn| async move {
        let first = turn.progress == TurnProgress::Waiting;
        let item = turn.next().await?;
        let missed = match &item {
            Ok(started) if first => turn.take_missed(started),
            _ => None,
        };
        let items = std::iter::once(item).chain(missed.map(Ok));
        Some((futures::stream::iter(items), turn))
    })
    .flatten()
}

/// The events of a session; ends when the session has shut down.
pub struct SessionStream {
    events: BoxStream<'static, anyhow::Result<SessionEvent>>,
}

impl SessionStream {
    pub(crate) fn new(events: EventStream) -> Self {
        let start = (events, true);
        let events = futures::stream::unfold(start, |(mut events, first)| async move {
            let item = match events.next().await? {
                Ok(event) if first => Ok(event.first_of_stream()),
                Ok(event) => Ok(event),
                Err(error) => Err(store_failure(error)),
            };
            Some((item, (events, false)))
        });
        Self {
            events: events.fuse().boxed(),
        }
    }
}

impl Stream for SessionStream {
    type Item = anyhow::Result<SessionEvent>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next_unpin(context)
    }
}
