//! The service: a listener on loopback and all that it starts.

use crate::attempts::Attempts;
use crate::capture::{CapturedRequest, Captures};
use crate::error::MockError;
use crate::gates::Gates;
use crate::handler::handle;
use crate::limits::{HEADER_TIMEOUT, MAX_BODY_BYTES, MAX_CONNECTIONS, STOP_GRACE};
use crate::models::{self, ModelEntry};
use crate::playback::BodyContext;
use crate::scenario::ScenarioLibrary;
use crate::stored::StoredResponses;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use secrecy::SecretString;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// How to serve.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where to listen: loopback; port 0 takes any free one.
    pub address: SocketAddr,
    /// Scenarios beside the built-in ones; one of the same name replaces it.
    pub scenarios: ScenarioLibrary,
    /// What answers when a prompt names no scenario; unset: `default`, which
    /// repeats the prompt.
    pub default_scenario: Option<String>,
    /// The only key that is accepted; unset: any that is not empty.
    pub api_key: Option<SecretString>,
    /// The only models there are; unset: two made-up ones are listed, and any
    /// name is answered.
    pub models: Option<Vec<ModelEntry>>,
    /// Whether names that the vendor does not document (fields of the body,
    /// betas) and signatures that this service did not issue are refused, as the
    /// vendors do it. Gateways and older servers take them.
    pub strict: bool,
    /// How large a request may be.
    pub max_body_bytes: usize,
    /// How many connections are served at a time; further ones wait.
    pub max_connections: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            scenarios: ScenarioLibrary::default(),
            default_scenario: None,
            api_key: None,
            models: None,
            strict: true,
            max_body_bytes: MAX_BODY_BYTES,
            max_connections: MAX_CONNECTIONS,
        }
    }
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub library: ScenarioLibrary,
    pub default_scenario: Option<String>,
    pub api_key: Option<SecretString>,
    pub models: Vec<ModelEntry>,
    pub only_listed_models: bool,
    pub strict: bool,
    pub max_body_bytes: usize,
    pub captures: Captures,
    pub gates: Arc<Gates>,
    /// Attempts per request, for `fail_first` alone.
    pub attempts: Attempts,
    /// Responses that a later request may go on from.
    pub stored: StoredResponses,
    requests: AtomicU64,
    connections: AtomicU64,
}

impl Shared {
    pub(crate) fn next_number(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }
}

/// A running service. Dropping it cuts everything; [`MockService::stop`] lets
/// answers under way finish.
#[derive(Debug)]
pub struct MockService {
    address: SocketAddr,
    shared: Arc<Shared>,
    stopping: CancellationToken,
    listener: Option<JoinHandle<()>>,
}

/// Starts a service.
///
/// # Errors
///
/// [`MockError::NotLoopback`], [`MockError::Bind`], and what is wrong with the
/// scenarios.
pub async fn serve(options: ServeOptions) -> Result<MockService, MockError> {
    let mut library = ScenarioLibrary::built_in()?;
    for (name, scenario) in options.scenarios.iter() {
        library.add(name, scenario.clone())?;
    }
    if let Some(name) = options
        .default_scenario
        .as_deref()
        .filter(|name| library.get(name).is_none())
    {
        return Err(MockError::UnknownScenario {
            name: name.to_owned(),
            known: library.names(),
        });
    }
    let address = options.address;
    if !address.ip().is_loopback() {
        return Err(MockError::NotLoopback { address });
    }
    let bind_error = |source| MockError::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(bind_error)?;
    let address = listener.local_addr().map_err(bind_error)?;
    let shared = Arc::new(Shared {
        library,
        default_scenario: options.default_scenario,
        api_key: options.api_key,
        only_listed_models: options.models.is_some(),
        strict: options.strict,
        models: options.models.unwrap_or_else(models::built_in),
        max_body_bytes: options.max_body_bytes,
        captures: Captures::default(),
        gates: Arc::default(),
        attempts: Attempts::default(),
        stored: StoredResponses::default(),
        requests: AtomicU64::new(0),
        connections: AtomicU64::new(0),
    });
    let stopping = CancellationToken::new();
    let task = tokio::spawn(listen(
        listener,
        shared.clone(),
        options.max_connections,
        stopping.clone(),
    ));
    Ok(MockService {
        address,
        shared,
        stopping,
        listener: Some(task),
    })
}

impl MockService {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as clients want it, without a slash at the end.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The scenarios it knows.
    #[must_use]
    pub fn scenarios(&self) -> &ScenarioLibrary {
        &self.shared.library
    }

    /// The requests so far, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Arc<CapturedRequest>> {
        self.shared.captures.all()
    }

    /// The requests, once there are so many.
    ///
    /// # Errors
    ///
    /// [`MockError::TimedOut`].
    pub async fn wait_for(
        &self,
        count: usize,
        within: Duration,
    ) -> Result<Vec<Arc<CapturedRequest>>, MockError> {
        self.shared.captures.wait_for(count, within).await
    }

    /// How many connections clients have opened so far: one that is kept open
    /// for several requests counts once.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.shared.captures.clear();
    }

    /// Opens a gate that steps hold at. It stays open.
    ///
    /// # Errors
    ///
    /// [`MockError::TooManyGates`].
    pub fn open_gate(&self, name: &str) -> Result<(), MockError> {
        self.shared.gates.open(name)
    }

    /// Stops listening, lets answers under way finish for a moment (stalls and
    /// delays end at once), and ends every connection.
    pub async fn stop(mut self) {
        self.stopping.cancel();
        if let Some(listener) = self.listener.take() {
            // The only error is a panic of the task, and then it has ended.
            let _ended = listener.await;
        }
    }
}

impl Drop for MockService {
    fn drop(&mut self) {
        self.stopping.cancel();
        if let Some(listener) = self.listener.take() {
            // The connections belong to the task and end with it.
            listener.abort();
        }
    }
}

async fn listen(
    listener: TcpListener,
    shared: Arc<Shared>,
    max_connections: usize,
    stopping: CancellationToken,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stopping.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < max_connections => match accepted {
                Ok((stream, _)) => {
                    shared.connections.fetch_add(1, Ordering::Relaxed);
                    connections.spawn(connection(stream, shared.clone(), stopping.clone()));
                }
                // Out of descriptors, most likely: let some connection end.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
        }
    }
    drop(listener);
    let finished = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_GRACE, finished).await.is_err() {
        connections.shutdown().await;
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>, stopping: CancellationToken) {
    // Small events must not wait for one another.
    let _best_effort = stream.set_nodelay(true);
    let reset = Arc::new(AtomicBool::new(false));
    let context = BodyContext {
        gates: shared.gates.clone(),
        stopping: stopping.clone(),
        reset: reset.clone(),
    };
    let service = service_fn(move |request| {
        let (shared, context) = (shared.clone(), context.clone());
        Box::pin(async move { Ok::<_, Infallible>(handle(request, &shared, context).await) })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // A client that leaves and a scripted reset end here as errors.
    tokio::select! {
        _ended = poll_fn(|context| connection.poll_without_shutdown(context)) => {}
        () = stopping.cancelled() => {
            Pin::new(&mut connection).graceful_shutdown();
            let _ended = poll_fn(|context| connection.poll_without_shutdown(context)).await;
        }
    }
    if reset.load(Ordering::Acquire) {
        // The socket was not shut down, so that the reset is the first that the
        // client sees of an end. Tests would notice an ordinary one.
        let stream = connection.into_parts().io.into_inner();
        let _best_effort = stream.set_zero_linger();
    }
}
