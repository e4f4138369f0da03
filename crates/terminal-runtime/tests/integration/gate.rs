//! A gate that commands wait at.

use std::fmt;
use std::path::PathBuf;

/// Shown, it is the shell's words for waiting until it is open.
pub struct Gate(PathBuf);

impl Gate {
    /// A closed one, at a path that nothing else has.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub fn open(&self) {
        std::fs::write(&self.0, "").unwrap();
    }

    pub fn close(&self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.display();
        write!(formatter, "until [ -e {path} ]; do sleep 0.01; done")
    }
}
