//! The suite every store has to pass (feature `conformance`).
//!
//! A backend names itself once and gets one test per rule:
//!
//! ```
//! # use halter_session::{InMemorySessionStore, SessionStore};
//! # use std::sync::Arc;
//! mod memory {
//!     # use super::*;
//!     halter_session::session_store_conformance!({
//!         let store: Arc<dyn SessionStore> = Arc::new(InMemorySessionStore::new());
//!         move || { let store = store.clone(); async move { store } }
//!     });
//! }
//! ```
//!
//! A store whose stored form can be damaged also runs
//! [`an_unreadable_session_hides_no_other`].
//!
//! The block is evaluated per test and yields a function that opens the same,
//! at first empty, storage each time it is called. Failures panic, as tests do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc
)]

mod fixtures;
mod log_rules;
mod store_rules;

pub use fixtures::{blueprint, pending, turn};
pub use log_rules::*;
pub use store_rules::*;

use crate::SessionStore;
use std::future::Future;
use std::sync::Arc;

/// Opens the storage under test, again if it was open before.
pub trait OpenStore: Fn() -> Self::Opening {
    /// The store, once it is open.
    type Opening: Future<Output = Arc<dyn SessionStore>>;
}

impl<F, Fut> OpenStore for F
where
    F: Fn() -> Fut,
    Fut: Future<Output = Arc<dyn SessionStore>>,
{
    type Opening = Fut;
}

/// One test per rule, for the storage the block opens; see
/// [`conformance`](crate::conformance).
#[macro_export]
macro_rules! session_store_conformance {
    ($open:block) => {
        $crate::session_store_conformance! { $open;
            a_new_session_is_empty_and_its_id_taken,
            state_is_the_fold_after_every_append_and_reopening,
            checkpoints_shorten_the_fold_and_change_nothing,
            a_useless_checkpoint_is_ignored,
            sequences_have_no_gaps,
            an_old_token_conflicts,
            a_takeover_by_another_open_store_is_noticed,
            an_old_head_conflicts,
            a_log_that_lost_its_session_says_so,
            a_refused_append_changes_nothing,
            contending_writers_lose_nothing,
            reads_page_through_the_log,
            listings_page_through_all_sessions,
            a_title_is_the_first_user_text,
            large_texts_are_stored_once,
            images_are_stored_once,
            resources_are_stored_once,
            prompts_are_stored_once,
            deleting_removes_everything_unshared,
            lines_are_kept_byte_for_byte,
            unknown_sessions_are_named,
            newer_sessions_are_refused,
            batches_hold_at_their_edge,
            every_durability_is_visible_at_once,
        }
    };
    ($open:block; $($rule:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $rule() {
                $crate::conformance::$rule($open).await;
            }
        )+
    };
}
