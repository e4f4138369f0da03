//! How a server is started, and what may be done with it.

use crate::http::HttpSettings;
use crate::instances::AnyDirectory;
use crate::limits::{CALL_TIMEOUT, HTTP_CALL_TIMEOUT, START_TIMEOUT};
use crate::names::ServerName;
use crate::supervise::ProgramSettings;
use std::sync::Arc;
use std::time::Duration;

/// One server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Its name, which is part of the names of its tools.
    pub name: ServerName,
    /// How it is reached.
    pub connection: Connection,
    /// How long it has to start and say what it has.
    pub start_timeout: Duration,
    /// How long a call may take without a sign of progress.
    pub call_timeout: Duration,
    /// Whether a session is of no use without it.
    pub required: bool,
    /// Which of its tools there are.
    pub tools: ToolFilter,
    /// Whether it may have models of a session answer, at that session's
    /// expense.
    pub sampling: bool,
    /// Has it run once more for each other directory that sessions work in;
    /// absent: one serves all.
    pub any_directory: Option<Arc<dyn AnyDirectory>>,
}

/// How a server is reached.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Connection {
    /// A program that is started, and spoken to over its standard streams.
    Program(Box<ProgramSettings>),
    /// A server that runs elsewhere.
    Http(Box<HttpSettings>),
}

impl From<ProgramSettings> for Connection {
    fn from(program: ProgramSettings) -> Self {
        Self::Program(Box::new(program))
    }
}

impl From<HttpSettings> for Connection {
    fn from(http: HttpSettings) -> Self {
        Self::Http(Box::new(http))
    }
}

impl ServerSettings {
    /// A server with the default bounds.
    pub fn new(name: ServerName, connection: impl Into<Connection>) -> Self {
        let connection = connection.into();
        let call_timeout = match &connection {
            Connection::Program(_) => CALL_TIMEOUT,
            Connection::Http(_) => HTTP_CALL_TIMEOUT,
        };
        Self {
            name,
            connection,
            start_timeout: START_TIMEOUT,
            call_timeout,
            required: false,
            tools: ToolFilter::default(),
            sampling: false,
            any_directory: None,
        }
    }

    /// The name of the sandbox that the program runs in.
    pub fn sandbox(&self) -> Option<&'static str> {
        let Connection::Program(program) = &self.connection else {
            return None;
        };
        let spec = program.sandbox.as_ref()?.spec();
        spec.containment.as_ref().map(|it| it.rung.name())
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
