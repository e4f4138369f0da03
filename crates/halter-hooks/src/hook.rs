//! A hook: a handler bound to an event, and its settings.

use crate::event::HookEventName;
use crate::file::FileHandler;
use crate::input::HookInput;
use crate::limits::DEFAULT_TIMEOUT;
use crate::response::{HookResponse, IntoHookResponse};
use halter_protocol::HookHandlerType;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type HandlerFuture =
    Pin<Box<dyn Future<Output = anyhow::Result<HookResponse>> + Send + 'static>>;
pub(crate) type Handler = Arc<dyn Fn(HookInput) -> HandlerFuture + Send + Sync>;
type Factory = Arc<dyn Fn() -> Handler + Send + Sync>;

/// A handler bound to one event.
///
/// ```
/// use halter_hooks::{Hook, HookEventName, HookResponse};
///
/// let hook = Hook::callback(HookEventName::PreToolUse, |input| async move {
///     match input.string_field("tool_name") {
///         Some("shell") => HookResponse::block("no shell on Fridays"),
///         _ => HookResponse::passthrough(),
///     }
/// })
/// .with_matcher("^(shell|process)$")
/// .with_status_message("checking the calendar");
/// ```
#[derive(Clone)]
#[must_use = "a hook runs only once it is registered"]
pub struct Hook {
    pub(crate) event: HookEventName,
    pub(crate) source: HandlerSource,
    pub(crate) matcher: Option<String>,
    pub(crate) condition: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) status_message: Option<String>,
    pub(crate) once: bool,
}

#[derive(Clone)]
pub(crate) enum HandlerSource {
    Callback(Handler),
    Function(Factory),
    File(Arc<FileHandler>),
}

impl Hook {
    /// A hook whose one handler serves all sessions.
    ///
    /// The handler returns a [`HookResponse`], or an
    /// `anyhow::Result<HookResponse>` so that `?` works in it.
    pub fn callback<F, Fut>(event: HookEventName, handler: F) -> Self
    where
        F: Fn(HookInput) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoHookResponse,
    {
        Self::new(event, HandlerSource::Callback(erase(handler)))
    }

    /// A hook whose handler is made afresh for each session, so that what it
    /// captures belongs to that session alone.
    ///
    /// ```
    /// use halter_hooks::{Hook, HookEventName, HookResponse};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let at_most_ten = Hook::function(HookEventName::PreToolUse, || {
    ///     let calls = Arc::new(AtomicU32::new(0));
    ///     move |_input| {
    ///         let calls = calls.clone();
    ///         async move {
    ///             if calls.fetch_add(1, Ordering::Relaxed) >= 10 {
    ///                 return HookResponse::block("ten calls are enough");
    ///             }
    ///             HookResponse::passthrough()
    ///         }
    ///     }
    /// });
    /// ```
    pub fn function<M, F, Fut>(event: HookEventName, factory: M) -> Self
    where
        M: Fn() -> F + Send + Sync + 'static,
        F: Fn(HookInput) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoHookResponse,
    {
        Self::new(
            event,
            HandlerSource::Function(Arc::new(move || erase(factory()))),
        )
    }

    /// A hook of a file.
    pub(crate) fn from_file(event: HookEventName, handler: FileHandler) -> Self {
        Self::new(event, HandlerSource::File(Arc::new(handler)))
    }

    /// The handler, if it comes from a file.
    pub(crate) fn file(&self) -> Option<&Arc<FileHandler>> {
        match &self.source {
            HandlerSource::File(handler) => Some(handler),
            HandlerSource::Callback(_) | HandlerSource::Function(_) => None,
        }
    }

    fn new(event: HookEventName, source: HandlerSource) -> Self {
        Self {
            event,
            source,
            matcher: None,
            condition: None,
            timeout: DEFAULT_TIMEOUT,
            status_message: None,
            once: false,
        }
    }

    /// Runs the hook only where the regular expression is found in the
    /// event's [matcher field](HookEventName::matcher_field), such as the
    /// tool's name. Not anchored: write `^read$` for exactly `read`. An empty
    /// pattern and `*` match everything. A pattern that does not compile is
    /// refused when the hook is registered.
    pub fn with_matcher(mut self, pattern: impl Into<String>) -> Self {
        self.matcher = Some(pattern.into());
        self
    }

    /// Runs the hook only for certain tool calls: `tool`, or `tool(input)` to
    /// look at the texts of the input as well, such as `shell(git push*)`. Both
    /// are globs without regard to case. A condition that cannot be read, or on
    /// an event without a tool call, is refused when the hook is registered.
    pub fn with_if_condition(mut self, condition: impl Into<String>) -> Self {
        self.condition = Some(condition.into());
        self
    }

    /// Gives the handler this long; [`DEFAULT_TIMEOUT`] otherwise. Zero, or
    /// more than [`MAX_TIMEOUT`](crate::limits::MAX_TIMEOUT), is refused when
    /// the hook is registered.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What a user interface may show while the hook runs.
    pub fn with_status_message(mut self, message: impl Into<String>) -> Self {
        self.status_message = Some(message.into());
        self
    }

    /// If true, the hook runs at most once in a session's life, resumed or
    /// not.
    pub fn with_once(mut self, once: bool) -> Self {
        self.once = once;
        self
    }

    /// The event the hook is bound to.
    pub fn event(&self) -> HookEventName {
        self.event
    }

    pub(crate) fn handler_type(&self) -> HookHandlerType {
        match &self.source {
            HandlerSource::Callback(_) => HookHandlerType::Callback,
            HandlerSource::Function(_) => HookHandlerType::Function,
            HandlerSource::File(handler) => handler.handler_type(),
        }
    }
}

fn erase<F, Fut>(handler: F) -> Handler
where
    F: Fn(HookInput) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoHookResponse,
{
    Arc::new(move |input| {
        let answer = handler(input);
        Box::pin(async move { answer.await.into_hook_response() })
    })
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook")
            .field("event", &self.event)
            .field("handler_type", &self.handler_type())
            .field("matcher", &self.matcher)
            .field("condition", &self.condition)
            .field("timeout", &self.timeout)
            .field("status_message", &self.status_message)
            .field("once", &self.once)
            .finish_non_exhaustive()
    }
}
