//! One request: route, authenticate, check, choose, answer.

use crate::capture::{CapturedRequest, RequestOutcome};
use crate::codec::{Codec, ModelRequest, Problem, codec};
use crate::conversation::Conversation;
use crate::media;
use crate::model_answer::ModelAnswer;
use crate::playback::{self, BodyAction, BodyContext, ResponseBody};
use crate::refusal;
use crate::route::{Operation, Route, route};
use crate::scenario::select::{Selection, select};
use crate::scenario::{Fault, HttpFault, Step};
use crate::service::Shared;
use crate::signing;
use crate::wire::MockWire;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// What is sent, and what is noted about it.
struct HttpReply {
    response: Response<ResponseBody>,
    outcome: RequestOutcome,
    chosen: Option<(String, usize)>,
    streaming: bool,
    /// How long the headers are held back.
    first_byte: Duration,
}

/// A request that has arrived.
struct Arrived {
    number: u64,
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Bytes,
}

/// Answers a request. An answer that the scenario withholds never comes.
pub(crate) async fn handle(
    request: hyper::Request<Incoming>,
    shared: &Shared,
    context: BodyContext,
) -> Response<ResponseBody> {
    let (head, body) = request.into_parts();
    let number = shared.next_number();
    let headers = head
        .headers
        .iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_ascii_lowercase(), value)
        })
        .collect();
    let body = Limited::new(body, shared.max_body_bytes).collect().await;
    let too_large = body.is_err();
    let arrived = Arrived {
        number,
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers,
        body: body.map(|body| body.to_bytes()).unwrap_or_default(),
    };
    let route = route(&arrived.method, &arrived.path, &arrived.headers);
    let too_large = too_large.then(|| refusal::too_large(route.wire, shared.max_body_bytes));
    let request_id = format!("req_mock{number:06}");
    let exchange = RequestHandler {
        arrived: &arrived,
        route: &route,
        codec: codec(route.wire),
        shared,
        context: &context,
        request_id: &request_id,
    };
    if let Some(shown) = exchange.show_service() {
        return shown;
    }
    let reply = match too_large {
        Some(problem) => exchange.refuse(&problem),
        None => exchange.reply(),
    };
    let hangs = reply.outcome == RequestOutcome::Hung;
    shared.captures.push(exchange.captured(&reply));
    // A hang, and a slow first byte, last until the service stops at most.
    tokio::select! {
        () = tokio::time::sleep(reply.first_byte), if !hangs => {}
        () = context.stopping.cancelled() => {}
    }
    reply.response
}

struct RequestHandler<'a> {
    arrived: &'a Arrived,
    route: &'a Route,
    codec: &'static dyn Codec,
    shared: &'a Shared,
    context: &'a BodyContext,
    request_id: &'a str,
}

impl RequestHandler<'_> {
    fn captured(&self, reply: &HttpReply) -> CapturedRequest {
        let arrived = self.arrived;
        CapturedRequest {
            number: arrived.number,
            method: arrived.method.clone(),
            path: arrived.path.clone(),
            query: arrived.query.clone(),
            headers: arrived.headers.clone(),
            body: arrived.body.clone(),
            wire: self.route.wire,
            scenario: reply.chosen.as_ref().map(|(name, _)| name.clone()),
            step: reply.chosen.as_ref().map(|(_, step)| *step),
            streaming: reply.streaming,
            outcome: reply.outcome.clone(),
        }
    }

    /// The service's own pages. They are not captured.
    fn show_service(&self) -> Option<Response<ResponseBody>> {
        let page = match self
            .route
            .operation
            .as_ref()
            .filter(|_| self.route.method_fits)?
        {
            Operation::ShowRequests => {
                let requests: Vec<_> = self
                    .shared
                    .captures
                    .all()
                    .iter()
                    .map(|one| one.shown())
                    .collect();
                json!({"requests": requests, "dropped": self.shared.captures.dropped()})
            }
            Operation::ShowScenarios => {
                let scenarios: BTreeMap<_, _> = self
                    .shared
                    .library
                    .iter()
                    .map(|(name, scenario)| (name, &scenario.description))
                    .collect();
                json!({"scenarios": scenarios})
            }
            Operation::OpenGate(name) => match self.shared.gates.open(name) {
                Ok(()) => json!({"open": name}),
                Err(error) => json!({"error": error.to_string()}),
            },
            _ => return None,
        };
        Some(self.whole(200, page.to_string(), &BTreeMap::new()))
    }

    fn reply(&self) -> HttpReply {
        match self.answer() {
            Ok(reply) => reply,
            Err(problem) => self.refuse(&problem),
        }
    }

    fn answer(&self) -> Result<HttpReply, Problem> {
        let operation = self.operation()?;
        let body: Value = if self.arrived.body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&self.arrived.body).map_err(|error| {
                Problem::invalid(format!(
                    "We could not parse the JSON body of your request: {error}"
                ))
            })?
        };
        let mut body = self.codec.normalize(body);
        if self.route.wire == MockWire::Responses {
            body = self.shared.stored.resolve(&body)?;
        }
        let request = ModelRequest {
            headers: &self.arrived.headers,
            query: &self.arrived.query,
            path_model: self.route.path_model.as_deref(),
            dialect: self.route.dialect,
            counting: *operation == Operation::CountTokens,
            compacting: *operation == Operation::Compact,
            path_streams: self.route.path_streams,
            strict: self.shared.strict,
            body: &body,
        };
        self.authenticate(&request)?;
        match operation {
            Operation::Generate | Operation::Compact => self.generate(&request),
            Operation::CountTokens => {
                self.codec.check(&request)?;
                self.check_model(&self.codec.conversation(&request).model)?;
                let counted = media::input_tokens(request.body, self.arrived.body.len());
                Ok(self.plain(&self.codec.token_count(counted)))
            }
            Operation::GetResponse(id) => Ok(self.plain(&self.shared.stored.get(id)?)),
            Operation::ListModels => Ok(self.plain(&self.codec.model_list(&self.shared.models))),
            Operation::GetModel(id) => {
                let found = self.shared.models.iter().find(|model| model.id == *id);
                let entry = found.ok_or_else(|| refusal::unknown_model(id))?;
                Ok(self.plain(&self.codec.model(entry)))
            }
            Operation::ShowRequests | Operation::ShowScenarios | Operation::OpenGate(_) => {
                Err(Problem::new(404, "not a page of a model service"))
            }
        }
    }

    fn operation(&self) -> Result<&Operation, Problem> {
        let path = &self.arrived.path;
        match &self.route.operation {
            None => Err(Problem::new(404, format!("no such address: {path}"))),
            Some(_) if !self.route.method_fits => Err(Problem::new(
                405,
                format!("{} is not allowed for {path}", self.arrived.method),
            )),
            Some(operation) => Ok(operation),
        }
    }

    fn authenticate(&self, request: &ModelRequest<'_>) -> Result<(), Problem> {
        let key = self.codec.authenticate(request)?;
        let Some(wanted) = &self.shared.api_key else {
            return Ok(());
        };
        if key == Some(wanted.expose_secret()) {
            return Ok(());
        }
        Err(refusal::wrong_key(self.route.wire))
    }

    fn check_model(&self, model: &str) -> Result<(), Problem> {
        let known = !self.shared.only_listed_models
            || self.shared.models.iter().any(|entry| entry.id == model);
        if known {
            Ok(())
        } else {
            Err(refusal::unknown_model(model))
        }
    }

    fn generate(&self, request: &ModelRequest<'_>) -> Result<HttpReply, Problem> {
        self.codec.check(request)?;
        if request.path_streams && request.query_value("alt") != Some("sse") {
            return Err(Problem::invalid(
                "this service streams events only: ask for streamGenerateContent?alt=sse",
            ));
        }
        let conversation = self.codec.conversation(request);
        self.check_model(&conversation.model)?;
        let input = media::input_tokens(request.body, self.arrived.body.len());
        // No scenario has a say: what is compacted is what was sent.
        if let Some(compaction) = self.codec.compaction(request, input) {
            return Ok(self.plain(&compaction));
        }
        let default = self.shared.default_scenario.as_deref();
        let mut selection =
            select(&conversation, &self.shared.library, default).map_err(Problem::invalid)?;
        let wires = &selection.scenario.wires;
        if !wires.is_empty() && !wires.contains(&self.route.wire) {
            return Err(Problem::invalid(format!(
                "the mock scenario `{}` is not meant for the {} wire",
                selection.name, self.route.wire
            )));
        }
        if let Some(max) = selection
            .step
            .context_bytes
            .filter(|max| self.arrived.body.len() > *max)
        {
            let problem = refusal::too_long(
                self.route.wire,
                self.route.dialect,
                self.arrived.body.len(),
                max,
            );
            let mut reply = self.refuse(&problem);
            reply.outcome = RequestOutcome::Failed {
                status: problem.status,
            };
            reply.chosen = Some((selection.name, selection.step_index));
            reply.streaming = conversation.streaming;
            return Ok(reply);
        }
        self.fail_first(&mut selection);
        let raw = String::from_utf8_lossy(&self.arrived.body);
        let mut answer = ModelAnswer::compose(&selection, &conversation, &raw, input);
        if !selection.scenario.invents_tools {
            // A service holds its model to the tools it was offered.
            answer.carry_calls(&conversation);
        }
        if !selection.scenario.invents_tools
            && let Some(tool) = unsent_tool(&answer, &conversation)
        {
            return Err(Problem::invalid(format!(
                "the mock scenario `{}` calls the tool `{tool}`, which was never sent; sent: {}",
                selection.name,
                conversation.tools.join(", ")
            )));
        }
        if self.route.wire == MockWire::Responses && selection.step.fault.is_none() {
            self.keep_response(request, &answer);
        }
        let mut reply = self.perform(&selection.step, &answer, request, conversation.streaming);
        reply.chosen = Some((selection.name, selection.step_index));
        reply.streaming = conversation.streaming;
        reply.first_byte = Duration::from_millis(selection.step.delivery.first_byte_ms);
        Ok(reply)
    }

    /// Keeps the response, unless the request says otherwise.
    fn keep_response(&self, request: &ModelRequest<'_>, answer: &ModelAnswer) {
        if request.body.get("store") != Some(&Value::Bool(false)) {
            let sent = serde_json::from_slice(&self.arrived.body).unwrap_or_default();
            let response = self.codec.whole(answer, request);
            self.shared.stored.keep(&sent, response);
        }
    }

    /// Puts the fault of the first attempts in place of the step's own.
    fn fail_first(&self, selection: &mut Selection<'_>) {
        let Some(first) = selection.step.fail_first.clone() else {
            return;
        };
        let raw = String::from_utf8_lossy(&self.arrived.body);
        let key = signing::digest(&[&selection.name, &self.arrived.path, &raw]);
        if self.shared.attempts.is_among_first(key, first.times) {
            let mut step = selection.step.clone().into_owned();
            step.fault = Some(first.fault);
            selection.step = Cow::Owned(step);
        }
    }

    fn perform(
        &self,
        step: &Step,
        answer: &ModelAnswer,
        request: &ModelRequest<'_>,
        streaming: bool,
    ) -> HttpReply {
        match &step.fault {
            Some(Fault::Http(fault)) => return self.fail(fault),
            Some(Fault::ErrorEvent { error, .. }) if !streaming => return self.fail(error),
            Some(Fault::Hang {}) => {
                let response = self.whole(503, String::new(), &BTreeMap::new());
                return HttpReply::new(response, RequestOutcome::Hung);
            }
            _ => {}
        }
        let (actions, kind) = if streaming {
            let error = match &step.fault {
                Some(Fault::ErrorEvent { error, .. }) => Some(self.codec.error_frame(
                    &Problem::from(error),
                    request,
                    self.request_id,
                )),
                _ => None,
            };
            let frames = self.codec.frames(answer, request);
            (
                playback::stream_actions(frames, step, self.route.wire, error),
                EVENTS,
            )
        } else {
            let body = self.codec.whole(answer, request).to_string();
            (playback::whole_actions(body, step), JSON)
        };
        HttpReply::new(
            self.respond(200, kind, actions, &step.headers),
            RequestOutcome::Answered,
        )
    }

    /// A scripted HTTP error.
    fn fail(&self, fault: &HttpFault) -> HttpReply {
        let problem = Problem::from(fault);
        let response = match &fault.body {
            Some(page) => {
                let actions = vec![BodyAction::Bytes(Bytes::from(page.clone()))];
                self.respond(fault.status, "text/html", actions, &fault.headers)
            }
            None => {
                let body = self
                    .codec
                    .error_body(&problem, self.route.dialect, self.request_id);
                self.whole(fault.status, body.to_string(), &fault.headers)
            }
        };
        HttpReply::new(
            response,
            RequestOutcome::Failed {
                status: fault.status,
            },
        )
    }

    fn refuse(&self, problem: &Problem) -> HttpReply {
        let body = self
            .codec
            .error_body(problem, self.route.dialect, self.request_id);
        HttpReply::new(
            self.whole(problem.status, body.to_string(), &BTreeMap::new()),
            RequestOutcome::Refused {
                status: problem.status,
                message: problem.message.clone(),
            },
        )
    }

    fn plain(&self, body: &Value) -> HttpReply {
        HttpReply::new(
            self.whole(200, body.to_string(), &BTreeMap::new()),
            RequestOutcome::Answered,
        )
    }

    fn whole(
        &self,
        status: u16,
        body: String,
        headers: &BTreeMap<String, String>,
    ) -> Response<ResponseBody> {
        self.respond(
            status,
            JSON,
            vec![BodyAction::Bytes(Bytes::from(body))],
            headers,
        )
    }

    fn respond(
        &self,
        status: u16,
        kind: &'static str,
        actions: Vec<BodyAction>,
        headers: &BTreeMap<String, String>,
    ) -> Response<ResponseBody> {
        let mut response = Response::new(playback::body(actions, self.context.clone()));
        *response.status_mut() =
            StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let sent = response.headers_mut();
        sent.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if let Ok(id) = HeaderValue::from_str(self.request_id) {
            sent.insert(HeaderName::from_static("request-id"), id.clone());
            sent.insert(HeaderName::from_static("x-request-id"), id);
        }
        for (name, value) in headers {
            // Both were checked when the scenario was added.
            if let (Ok(name), Ok(value)) = (
                HeaderName::from_bytes(name.as_bytes()),
                HeaderValue::from_str(value),
            ) {
                sent.insert(name, value);
            }
        }
        response
    }
}

impl HttpReply {
    fn new(response: Response<ResponseBody>, outcome: RequestOutcome) -> Self {
        Self {
            response,
            outcome,
            chosen: None,
            streaming: false,
            first_byte: Duration::ZERO,
        }
    }
}

/// The first call of a tool that the model was never sent.
fn unsent_tool<'a>(answer: &'a ModelAnswer, conversation: &Conversation) -> Option<&'a str> {
    let calls = answer
        .calls()
        .map(|call| call.carried().unwrap_or(&call.name));
    let mut unsent = calls.filter(|name| !conversation.was_sent(name));
    unsent.next()
}
