//! Services that refuse, fail and limit, as a table under virtual time: the
//! whole stack over every wire, from the response to the next attempt.

use super::hello;
use super::retry::{Fixed, policy};
use crate::http::scripted::{Script, Scripted};
use crate::support::{answer, outline};
use crate::wire_kit::stream;
use halter_providers::Provider;
use halter_providers::http::{Endpoint, HttpProvider, TransportError};
use halter_providers::layers::{RateLimited, RateLimiter, Retry};
use halter_providers::wire::Wire;
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A wire, and how its services say things.
struct Service {
    name: &'static str,
    wire: Arc<dyn Wire>,
    good: String,
    error: fn(&str) -> String,
    /// A refusal that no waiting mends.
    spent: (u16, &'static str),
    /// An error event before any content.
    failed_at_once: &'static str,
}

fn services() -> Vec<Service> {
    let openai_error = |message: &str| format!(r#"{{"error":{{"message":"{message}"}}}}"#);
    let no_quota = r#"{"error":{"message":"no","code":"insufficient_quota"}}"#;
    vec![
        Service {
            name: "anthropic",
            wire: Arc::new(Anthropic::new()),
            good: stream("anthropic", "text"),
            error: |message| {
                format!(r#"{{"type":"error","error":{{"type":"x","message":"{message}"}}}}"#)
            },
            // A limit of rates says when it ends; a cap on spending does not.
            spent: (
                429,
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"spend limit reached"}}"#,
            ),
            failed_at_once: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n",
        },
        Service {
            name: "responses",
            wire: Arc::new(ResponsesWire),
            good: stream("responses", "text"),
            error: openai_error,
            spent: (429, no_quota),
            failed_at_once: "event: error\ndata: {\"type\":\"error\",\"code\":\"server_is_overloaded\",\"message\":\"busy\"}\n\n",
        },
        Service {
            name: "chat",
            wire: Arc::new(Chat::new(Dialect::OPENROUTER)),
            good: stream("chat", "openai_text"),
            error: openai_error,
            spent: (402, no_quota),
            failed_at_once: "data: {\"error\":{\"code\":502,\"message\":\"busy\"}}\n\n",
        },
        Service {
            name: "gemini",
            wire: Arc::new(GeminiWire),
            good: stream("gemini", "text"),
            error: |message| {
                format!(r#"{{"error":{{"code":1,"message":"{message}","status":"X"}}}}"#)
            },
            spent: (
                429,
                r#"{"error":{"code":429,"message":"You exceeded your spending cap","status":"RESOURCE_EXHAUSTED"}}"#,
            ),
            failed_at_once: "data: {\"error\":{\"code\":503,\"message\":\"busy\",\"status\":\"UNAVAILABLE\"}}\n\n",
        },
    ]
}

impl Service {
    fn ok(&self) -> Script {
        Script::new(200, &self.good)
    }

    /// The answer up to its first words.
    fn begins(&self) -> Script {
        let words = ["Hel", "Grü"];
        let said = words.iter().find_map(|words| self.good.find(words));
        let rest = &self.good[said.unwrap()..];
        let event_end = rest.find('\n').unwrap() + 2;
        let cut = self.good.len() - rest.len() + event_end;
        Script::new(200, &self.good[..cut])
    }

    fn refuses(&self, status: u16) -> Script {
        Script::new(status, &(self.error)("no"))
    }

    /// The same with a header.
    fn refuses_with(&self, status: u16, name: &str, value: &str) -> Script {
        with_header(self.refuses(status), name, value)
    }

    /// Everything a harness puts around the wire, its chance taken out.
    fn provider(&self, responses: Vec<Script>) -> (Arc<dyn Provider>, Scripted) {
        let transport = Scripted::new(responses);
        let rates = RateLimiter::new();
        let http = HttpProvider::new(
            self.wire.clone(),
            Endpoint::new("http://x"),
            Arc::new(transport.clone()),
        )
        .with_rate_reports(rates.clone());
        let limited = RateLimited::new(Arc::new(http), rates);
        let retry = Retry::new(Arc::new(limited), policy()).with_jitter(Arc::new(Fixed(0.5)));
        (Arc::new(retry), transport)
    }
}

fn with_header(mut script: Script, name: &str, value: &str) -> Script {
    script.headers.push((name.to_owned(), value.to_owned()));
    script
}

/// The connection breaks before anything of the answer came.
fn broken() -> Script {
    let message = "reset by peer".to_owned();
    Script {
        pieces: vec![(Duration::ZERO, Err(TransportError::Broken { message }))],
        ..Script::new(200, "")
    }
}

struct Case {
    name: &'static str,
    responses: Vec<Script>,
    attempts: usize,
    waited_ms: u64,
    /// The last line of the answer begins with it.
    ends: &'static str,
}

fn cases(service: &Service) -> Vec<Case> {
    let case = |name, responses, attempts, waited_ms, ends| Case {
        name,
        responses,
        attempts,
        waited_ms,
        ends,
    };
    let ok = || service.ok();
    let refuses = |status| service.refuses(status);
    let asks = |status, name, value| service.refuses_with(status, name, value);
    let (spent, no_credit) = service.spent;
    vec![
        case("an answer", vec![ok()], 1, 0, "end"),
        case("a server error", vec![refuses(500), ok()], 2, 1_000, "end"),
        case("a bad gateway", vec![refuses(502), ok()], 2, 1_000, "end"),
        case(
            "pauses double, attempts are bounded",
            vec![refuses(503); 9],
            5,
            1_000 + 2_000 + 4_000 + 5_000,
            "error transient",
        ),
        case(
            "a wait in seconds is kept, and a quarter more",
            vec![asks(429, "retry-after", "8"), ok()],
            2,
            10_000,
            "end",
        ),
        case(
            "a wait in milliseconds comes first",
            vec![
                with_header(asks(503, "retry-after-ms", "400"), "retry-after", "8"),
                ok(),
            ],
            2,
            500,
            "end",
        ),
        case(
            "a wait beyond the deadline is not begun",
            vec![asks(429, "retry-after", "61"), ok()],
            1,
            0,
            "error rate_limited",
        ),
        case(
            "the server forbids another attempt",
            vec![asks(500, "x-should-retry", "false"), ok()],
            1,
            0,
            "error fatal",
        ),
        case(
            "no credit",
            vec![Script::new(spent, no_credit), ok()],
            1,
            0,
            "error fatal",
        ),
        case(
            "a wrong key",
            vec![refuses(401), ok()],
            1,
            0,
            "error authentication",
        ),
        case(
            "a wrong request",
            vec![refuses(400), ok()],
            1,
            0,
            "error fatal",
        ),
        case(
            "a wrong address",
            vec![refuses(404), ok()],
            1,
            0,
            "error fatal",
        ),
        case(
            "an error after status 200, before content",
            vec![Script::new(200, service.failed_at_once), ok()],
            2,
            1_000,
            "end",
        ),
        case(
            "a connection that breaks before content",
            vec![broken(), ok()],
            2,
            1_000,
            "end",
        ),
        case(
            "an empty body",
            vec![Script::new(200, ""), ok()],
            2,
            1_000,
            "end",
        ),
        case(
            "nothing is repeated once content was shown",
            vec![service.begins(), ok()],
            1,
            0,
            "error transient",
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn every_wire_is_tried_again_when_that_helps() {
    for service in services() {
        for case in cases(&service) {
            let place = format!("{}: {}", service.name, case.name);
            let (provider, transport) = service.provider(case.responses);
            let began = Instant::now();
            let lines = outline(&answer(provider.as_ref(), hello()).await);
            let attempts = transport.requests.lock().unwrap().len();
            assert_eq!(attempts, case.attempts, "{place}: {lines:?}");
            let waited = Duration::from_millis(case.waited_ms);
            assert_eq!(began.elapsed(), waited, "{place}: {lines:?}");
            let last = lines.last().unwrap();
            assert!(last.starts_with(case.ends), "{place}: {last}");
        }
    }
}

type Headers = &'static [(&'static str, &'static str)];

/// What a response says about rates holds the next request back.
#[tokio::test(start_paused = true)]
async fn the_headers_of_an_answer_hold_back_the_next_request() {
    const DATE: (&str, &str) = ("date", "Sun, 15 Nov 2026 10:00:00 GMT");
    const NONE_LEFT: (&str, &str) = ("x-ratelimit-remaining-requests", "0");
    let table: [(&str, Headers, u64); 6] = [
        (
            "anthropic",
            &[
                DATE,
                ("anthropic-ratelimit-requests-remaining", "0"),
                ("anthropic-ratelimit-requests-reset", "2026-11-15T10:00:20Z"),
            ],
            20_000,
        ),
        (
            "anthropic",
            &[
                DATE,
                ("anthropic-ratelimit-requests-remaining", "1"),
                ("anthropic-ratelimit-requests-reset", "2026-11-15T10:00:20Z"),
            ],
            0,
        ),
        (
            "responses",
            &[NONE_LEFT, ("x-ratelimit-reset-requests", "6s")],
            6_000,
        ),
        (
            "responses",
            &[
                ("x-ratelimit-remaining-tokens", "0"),
                ("x-ratelimit-reset-tokens", "1.5s"),
            ],
            1_500,
        ),
        (
            "chat",
            &[NONE_LEFT, ("x-ratelimit-reset-requests", "250ms")],
            250,
        ),
        ("gemini", &[], 0),
    ];
    for (name, headers, waited_ms) in table {
        let mut all = services().into_iter();
        let service = all.find(|service| service.name == name).unwrap();
        let headers = headers.iter();
        let first = headers.fold(service.ok(), |script, (name, value)| {
            with_header(script, name, value)
        });
        let (provider, _) = service.provider(vec![first, service.ok()]);
        answer(provider.as_ref(), hello()).await;
        let began = Instant::now();
        answer(provider.as_ref(), hello()).await;
        let waited = began.elapsed();
        // The bucket counts in whole milliseconds, rounded up.
        let expected = Duration::from_millis(waited_ms);
        assert!(
            waited >= expected && waited < expected + Duration::from_millis(10),
            "{name}: {waited:?} instead of {expected:?}"
        );
    }
}
