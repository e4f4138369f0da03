//! Behaviour tests of the runtime, through the live driver unless they say
//! otherwise. A test named `invariant_NN_…` proves that invariant of the
//! architecture.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod answers;
mod approvals;
mod bounds;
mod budgets;
mod call_models;
mod cancel;
mod commit;
mod compaction;
mod deferred;
mod faults;
mod hook_files;
mod hooks;
mod instructions;
mod lost_approvals;
mod marked_texts;
mod media;
mod memory;
mod nested_skills;
mod prefix;
mod questions;
mod quiet;
mod replaced;
mod resources;
mod resume;
mod scheduling;
mod scoped_hooks;
mod shutdown;
mod simulation;
mod skill_keys;
mod steering;
mod streaming;
mod structured;
mod subagents;
mod subscriptions;
mod support;
mod tools;
mod traces;
