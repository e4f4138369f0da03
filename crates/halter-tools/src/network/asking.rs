//! Questions about hosts that a running call may not reach.

use crate::asking::QuestionAsker;
use crate::limits::HOST_QUESTIONS;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use halter_exec::DeadlinePause;
use halter_policy::{Destination, Host, HostRefusal, NetworkPolicy, ToolPolicy};
use halter_protocol::{Action, ApprovalChoice};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Asks a person about hosts on behalf of one running call. Clones share what
/// was asked and answered.
///
/// A host with its port is asked about once, however many connections wait for
/// it, and no more than [`HOST_QUESTIONS`] in a call. What was approved lasts as
/// long as the call; what holds longer is a rule, which is the session's.
#[derive(Clone)]
pub struct HostQuestions(Arc<CallHosts>);

struct CallHosts {
    asker: Arc<dyn QuestionAsker>,
    policy: Arc<dyn ToolPolicy>,
    cancel: CancellationToken,
    pause: DeadlinePause,
    asked: Mutex<HashMap<Destination, Waiting>>,
}

/// An answer, for everybody who waits for it.
type Waiting = Shared<BoxFuture<'static, ApprovalChoice>>;

impl HostQuestions {
    /// Questions of a call. Deadlines that `pause` stops do not run while a
    /// person thinks.
    pub fn new(
        asker: Arc<dyn QuestionAsker>,
        policy: Arc<dyn ToolPolicy>,
        cancel: CancellationToken,
    ) -> Self {
        Self(Arc::new(CallHosts {
            asker,
            policy,
            cancel,
            pause: DeadlinePause::default(),
            asked: Mutex::default(),
        }))
    }

    /// Stops the deadlines of the call while it is asked about a host.
    #[must_use]
    pub fn pause(&self) -> &DeadlinePause {
        &self.0.pause
    }

    /// What commands of the session may reach, as of now.
    pub(crate) fn session_network(&self) -> NetworkPolicy {
        self.0.policy.network().for_session()
    }

    /// Whether a person lets the call reach a host that was refused. Waits for
    /// their answer; false if nobody may or can be asked.
    pub(crate) async fn let_through(
        &self,
        destination: &Destination,
        refusal: &HostRefusal,
    ) -> bool {
        let asks = self.0.policy.permissions();
        if !refusal.may_ask || !asks.is_some_and(|tree| tree.mode().asks()) {
            return false;
        }
        if self.is_approved_for_session(&destination.host) {
            return true;
        }
        let Some(answer) = self.ask_once(destination, refusal) else {
            return false;
        };
        is_yes(&answer.await)
    }

    /// Whether the session has approved the host meanwhile, on any port.
    fn is_approved_for_session(&self, host: &Host) -> bool {
        let asked = self.lock();
        asked.iter().any(|(destination, answer)| {
            let lasting = answer.peek().is_some_and(|choice| {
                matches!(choice, ApprovalChoice::Session | ApprovalChoice::Always)
            });
            lasting && destination.host == *host
        })
    }

    /// The answer to come; none if the call has asked enough.
    fn ask_once(&self, destination: &Destination, refusal: &HostRefusal) -> Option<Waiting> {
        let mut asked = self.lock();
        if let Some(waiting) = asked.get(destination) {
            return Some(waiting.clone());
        }
        if asked.len() >= HOST_QUESTIONS {
            return None;
        }
        let asker = Arc::clone(&self.0.asker);
        let cancel = self.0.cancel.clone();
        let held = self.0.pause.hold();
        let actions = vec![Action::Reach {
            host: refusal.host.clone(),
        }];
        let objection = refusal.objection();
        // A task of its own: whoever waits may give up, the question stays.
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let _held = held;
            tokio::select! {
                biased;
                () = cancel.cancelled() => ApprovalChoice::Deny,
                choice = asker.approve(actions, objection) => choice,
            }
        }));
        let answer = async move { task.await.unwrap_or(ApprovalChoice::Deny) };
        let waiting = answer.boxed().shared();
        asked.insert(destination.clone(), waiting.clone());
        Some(waiting)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Destination, Waiting>> {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_yes(choice: &ApprovalChoice) -> bool {
    matches!(
        choice,
        ApprovalChoice::Once | ApprovalChoice::Session | ApprovalChoice::Always
    )
}

impl std::fmt::Debug for HostQuestions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostQuestions").finish_non_exhaustive()
    }
}
