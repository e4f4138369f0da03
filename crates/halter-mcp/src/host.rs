//! What a server may ask of whoever uses it.

use std::path::PathBuf;

/// The program that uses servers.
pub trait Host: Send + Sync {
    /// The directories it works in, which servers are told when they ask.
    fn roots(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// A program that works in these directories.
#[derive(Debug, Clone, Default)]
pub struct WorkingDirectories(pub Vec<PathBuf>);

impl Host for WorkingDirectories {
    fn roots(&self) -> Vec<PathBuf> {
        self.0.clone()
    }
}
