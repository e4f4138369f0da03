//! What handlers of hook files need from the program around them.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What handlers of files reach the outside by. Each waits no longer than the
/// handler's timeout, after which the future is dropped.
#[async_trait]
pub trait HookOutside: Send + Sync {
    /// The variables that commands of a session see.
    fn environment(&self) -> BTreeMap<OsString, OsString>;

    /// A variable of the user's environment, also one that commands do not
    /// see.
    fn variable(&self, name: &str) -> Option<OsString>;

    /// Sends a request, to the host it names and no other.
    ///
    /// # Errors
    /// Why there is no answer, in words.
    async fn send(&self, call: HttpCall) -> Result<HttpAnswer, String>;

    /// Asks a model one question and returns its words.
    ///
    /// # Errors
    /// Why there is no answer, in words.
    async fn ask(&self, question: PromptQuestion) -> Result<String, String>;

    /// Has a model look around with tools that only read, and returns its last
    /// words.
    ///
    /// # Errors
    /// Why there is no answer, in words.
    async fn look(&self, question: AgentQuestion) -> Result<String, String>;
}

/// A request of an HTTP handler: the payload, posted as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpCall {
    /// Where to.
    pub url: String,
    /// Headers, with their variables filled in; may hold secrets.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// How long it may take.
    pub timeout: Duration,
    /// Bytes of the answer that are read; a longer one is refused.
    pub max_answer_bytes: usize,
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// A question to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptQuestion {
    /// The question, with the payload in it.
    pub prompt: String,
    /// The model the file names; `None`: the small one.
    pub model: Option<String>,
    /// The session in which it is asked.
    pub session_id: Option<String>,
}

/// A task for a model that may look around.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentQuestion {
    /// The task, with the payload in it.
    pub prompt: String,
    /// The model the file names; `None`: the small one.
    pub model: Option<String>,
    /// How many times the model may be asked.
    pub max_turns: u32,
    /// Where it looks.
    pub cwd: PathBuf,
    /// The session for which it looks.
    pub session_id: Option<String>,
}

/// Nothing outside: commands see no variables, and there is no server and no
/// model.
#[derive(Debug, Clone, Copy, Default)]
pub struct NothingOutside;

#[async_trait]
impl HookOutside for NothingOutside {
    fn environment(&self) -> BTreeMap<OsString, OsString> {
        BTreeMap::new()
    }

    fn variable(&self, _name: &str) -> Option<OsString> {
        None
    }

    async fn send(&self, _call: HttpCall) -> Result<HttpAnswer, String> {
        Err("this program gives HTTP hooks no network".to_owned())
    }

    async fn ask(&self, _question: PromptQuestion) -> Result<String, String> {
        Err("this program gives prompt hooks no model".to_owned())
    }

    async fn look(&self, _question: AgentQuestion) -> Result<String, String> {
        Err("this program gives agent hooks no model".to_owned())
    }
}
