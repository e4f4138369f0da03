//! Subagents: child sessions that do part of a session's work.
//!
//! A child is a session like any other, with an engine, a log and an owner of
//! its own. Its parent knows that it runs and what it reports; its toolset,
//! bounds and budget are made from those of its parent and never exceed them.
//!
//! | module | holds |
//! |---|---|
//! | `types` | types of subagents, and what each has |
//! | `birth` | how a child session is made from its parent |
//! | `control` | what tools ask for: start, tell, wait, close |
//! | `follow` | what becomes of a child that works, and its report |
//! | `table` | the children of one session |
//! | `tree` | what all sessions of a tree share |
//! | `worktree` | git worktrees of children |
//! | `asking` | questions of children, put at the root |

mod asking;
mod birth;
mod control;
mod follow;
mod table;
mod tree;
mod types;
mod worktree;

pub(crate) use asking::{AskedAtRoot, RoutedRequest, ask_at_root};
pub(crate) use control::{ParentFacts, SessionSubagents};
pub(crate) use follow::{RunProgress, Totals, cancel_children, close_children};
pub(crate) use table::Children;
pub(crate) use tree::{Lineage, Tree};
pub use types::{AgentType, AgentTypes, GENERAL};

/// The text with at most so many bytes, and a note where it was cut.
fn shortened(text: &str, bytes: usize) -> String {
    match text.len() > bytes {
        true => {
            let cut = text.floor_char_boundary(bytes);
            format!(
                "{}\n[the rest is left out]",
                text.get(..cut).unwrap_or_default()
            )
        }
        false => text.to_owned(),
    }
}
