//! What a process may reach and use, as data.

mod file_rules;

pub use file_rules::{FileAccess, FileRule};
