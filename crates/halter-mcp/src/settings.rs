//! How a server is started, and what may be done with it.

use crate::limits::{CALL_TIMEOUT, START_TIMEOUT};
use crate::names::ServerName;
use crate::supervise::ProgramSettings;
use std::time::Duration;

/// One server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Its name, which is part of the names of its tools.
    pub name: ServerName,
    /// The program that is started, and spoken to over its standard streams.
    pub program: ProgramSettings,
    /// How long it has to start and say what it has.
    pub start_timeout: Duration,
    /// How long a call may take without a sign of progress.
    pub call_timeout: Duration,
    /// Whether a session is of no use without it.
    pub required: bool,
    /// Which of its tools there are.
    pub tools: ToolFilter,
}

impl ServerSettings {
    /// A server with the default bounds.
    pub fn new(name: ServerName, program: ProgramSettings) -> Self {
        Self {
            name,
            program,
            start_timeout: START_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
            required: false,
            tools: ToolFilter::default(),
        }
    }
}

/// Which tools of a server there are, by the names that the server gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Only these; all if there is no list.
    pub only: Option<Vec<String>>,
    /// Not these.
    pub without: Vec<String>,
}

impl ToolFilter {
    /// Whether there is a tool of this name.
    pub fn has(&self, name: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|it| it == name);
        self.only.as_deref().is_none_or(named) && !named(&self.without)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_what_there_is() {
        let all = ToolFilter::default();
        assert!(all.has("a"));
        let some = ToolFilter {
            only: Some(vec!["a".into(), "b".into()]),
            without: vec!["b".into()],
        };
        assert_eq!(["a", "b", "c"].map(|it| some.has(it)), [true, false, false]);
    }
}
