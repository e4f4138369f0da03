//! A door in a scripted answer that the test opens.

use std::sync::Arc;
use tokio::sync::watch;

/// A point of a scripted answer that is not passed before the test says so.
/// Clones are the same gate; once open it stays open.
///
/// A test that must see something *while* the model is still talking holds the
/// answer at a gate, looks, and opens it.
#[derive(Clone, Debug)]
pub struct Gate {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    open: watch::Sender<bool>,
    reached: watch::Sender<bool>,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self {
            state: Arc::new(State {
                open: watch::Sender::new(false),
                reached: watch::Sender::new(false),
            }),
        }
    }

    /// Opens the gate for everyone, now and later.
    pub fn open(&self) {
        self.state.open.send_replace(true);
    }

    /// True once the gate was opened.
    pub fn is_open(&self) -> bool {
        *self.state.open.borrow()
    }

    /// Waits until an answer has come to the gate.
    pub async fn reached(&self) {
        wait_until_true(&self.state.reached).await;
    }

    /// Comes to the gate and waits until it is open. Scripted answers do this;
    /// a test's own tool may as well.
    pub async fn pass(&self) {
        self.state.reached.send_replace(true);
        wait_until_true(&self.state.open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

async fn wait_until_true(flag: &watch::Sender<bool>) {
    // The sender lives in the gate this borrows from, so waiting cannot fail.
    let _ = flag.subscribe().wait_for(|value| *value).await;
}
