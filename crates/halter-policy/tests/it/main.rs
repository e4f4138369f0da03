//! Behaviour of the policy on a real filesystem and on real command lines.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod bash_grammar;
mod door_elsewhere;
mod door_read;
mod door_roots;

mod door_races;
mod door_write;
mod file_corpus;
mod permission_properties;
mod permission_table;
mod policy;
mod served_tools;
mod set_lists;
mod shell_attacks;
mod shell_benign;
mod shell_corpus;
mod shell_decisions;
mod shell_differential;
mod shell_fuzz;
mod shell_parts;
mod shell_rules;
mod support;
