//! A command's way from its turn to its end, wherever it is awaited.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

type Performing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a command while it is awaited, which saves a task. Whoever gives it
/// up leaves the rest of it to one: a command does not depend on its client.
pub(super) struct Performance {
    /// `None` once it is over.
    performing: Option<Performing>,
}

impl Performance {
    pub(super) fn new(performing: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            performing: Some(Box::pin(performing)),
        }
    }
}

impl Future for Performance {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(performing) = &mut self.performing else {
            return Poll::Ready(());
        };
        let polled = performing.as_mut().poll(context);
        if polled.is_ready() {
            self.performing = None;
        }
        polled
    }
}

impl Drop for Performance {
    fn drop(&mut self) {
        // Without a runtime everything ends, and this with it.
        if let (Some(rest), Ok(runtime)) = (self.performing.take(), Handle::try_current()) {
            runtime.spawn(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn what_is_given_up_half_way_is_brought_to_its_end() {
        let (go_on, over) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let performance = {
            let (go_on, over) = (Arc::clone(&go_on), Arc::clone(&over));
            Performance::new(async move {
                go_on.notified().await;
                over.notify_one();
            })
        };
        tokio::select! {
            biased;
            () = performance => panic!("nobody let it go on"),
            () = std::future::ready(()) => {}
        }
        go_on.notify_one();
        over.notified().await;
    }

    #[tokio::test]
    async fn what_nobody_awaits_goes_on_by_itself() {
        let over = Arc::new(Notify::new());
        let told = Arc::clone(&over);
        drop(Performance::new(async move { told.notify_one() }));
        over.notified().await;
    }
}
