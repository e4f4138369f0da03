//! HTTP: `CONNECT`, and plain requests with an absolute address.

use super::{ConnectError, Way, tunnel};
use crate::limits::{PROXY_HEAD_BYTES, PROXY_HEAD_TIME, PROXY_IDLE_TIME};
use halter_policy::Destination;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::{Scheme, Uri};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

type ProxyBody = BoxBody<Bytes, hyper::Error>;
type ProxyAnswer = Response<ProxyBody>;

/// A connection that a client is about to be handed over to.
type PendingTunnel = Arc<Mutex<Option<(OnUpgrade, TcpStream)>>>;

pub(super) async fn serve(stream: TcpStream, way: Way) {
    let handover = PendingTunnel::default();
    let service = service_fn(|request| {
        let (way, handover) = (way.clone(), Arc::clone(&handover));
        async move { Ok::<_, Infallible>(answer(request, &way, &handover).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PROXY_HEAD_TIME)
        .max_buf_size(PROXY_HEAD_BYTES)
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    let taken = handover
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let (Ok(()), Some((upgrade, outside))) = (served, taken) {
        hand_over(upgrade, outside).await;
    }
}

/// Copies between a client that has been answered and its host.
async fn hand_over(upgrade: OnUpgrade, mut outside: TcpStream) {
    let Ok(upgraded) = upgrade.await else { return };
    let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>() else {
        return;
    };
    // What the client sent without waiting for the answer.
    if outside.write_all(&parts.read_buf).await.is_ok() {
        tunnel::run(parts.io.into_inner(), outside)
            .await
            .unwrap_or_default();
    }
}

async fn answer(
    mut request: Request<Incoming>,
    way: &Way,
    handover: &PendingTunnel,
) -> ProxyAnswer {
    if request.method() == Method::CONNECT {
        let Some(destination) = named(request.uri()).filter(|it| it.port.is_some()) else {
            return told(StatusCode::BAD_REQUEST, "CONNECT names a host and a port");
        };
        return match way.connect(&destination).await {
            Ok(outside) => {
                let upgrade = hyper::upgrade::on(&mut request);
                *handover.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, outside));
                Response::new(Empty::new().map_err(|never| match never {}).boxed())
            }
            Err(error) => failed(&error),
        };
    }
    let destination = match forwarded(&request) {
        Ok(destination) => destination,
        Err(why) => return told(StatusCode::BAD_REQUEST, why),
    };
    match way.connect(&destination).await {
        Ok(outside) => forward(request, &destination, outside).await,
        Err(error) => failed(&error),
    }
}

/// The host of an address, unless it names a user as well.
fn named(uri: &Uri) -> Option<Destination> {
    let authority = uri.authority()?.as_str();
    Destination::parse(authority).ok()
}

/// Where a plain request goes, if all it says about that agrees.
fn forwarded<B>(request: &Request<B>) -> Result<Destination, &'static str> {
    if request.uri().scheme() != Some(&Scheme::HTTP) {
        return Err("this is a proxy: give an address that starts with http://, or use CONNECT");
    }
    let with_port = |mut it: Destination| {
        it.port = it.port.or(Some(80));
        it
    };
    let wrong = "the address names no host, or a user";
    let destination = named(request.uri()).map(with_port).ok_or(wrong)?;
    for host in request.headers().get_all(header::HOST) {
        let host = host
            .to_str()
            .ok()
            .and_then(|it| Destination::parse(it).ok());
        if host.map(with_port).as_ref() != Some(&destination) {
            return Err("the header Host names another host than the address");
        }
    }
    Ok(destination)
}

async fn forward(
    mut request: Request<Incoming>,
    destination: &Destination,
    outside: TcpStream,
) -> ProxyAnswer {
    let path = request.uri().path_and_query().map_or("/", |it| it.as_str());
    let (Ok(path), Ok(host)) = (path.parse(), host_header(destination)) else {
        return told(StatusCode::BAD_REQUEST, "the address cannot be passed on");
    };
    *request.uri_mut() = path;
    leave_out_hops(request.headers_mut());
    request.headers_mut().insert(header::HOST, host);
    let connected = hyper::client::conn::http1::Builder::new()
        .preserve_header_case(true)
        .max_buf_size(PROXY_HEAD_BYTES)
        .handshake(TokioIo::new(outside))
        .await;
    let Ok((mut sender, connection)) = connected else {
        return told(StatusCode::BAD_GATEWAY, "the host broke the connection off");
    };
    let driven = AbortOnDropHandle::new(tokio::spawn(async move { connection.await.is_ok() }));
    match timeout(PROXY_IDLE_TIME, sender.send_request(request)).await {
        Ok(Ok(mut response)) => {
            leave_out_hops(response.headers_mut());
            // The connection lives as long as the body that comes from it.
            let kept = move |frame| {
                let _ = &driven;
                frame
            };
            response.map(|body| body.map_frame(kept).boxed())
        }
        Ok(Err(_)) => told(StatusCode::BAD_GATEWAY, "the host sent no HTTP answer"),
        Err(_) => told(
            StatusCode::GATEWAY_TIMEOUT,
            "the host did not answer in time",
        ),
    }
}

fn host_header(destination: &Destination) -> Result<HeaderValue, header::InvalidHeaderValue> {
    let host = match destination.port {
        Some(80) | None => destination.host.to_string(),
        Some(_) => destination.to_string(),
    };
    HeaderValue::from_str(&host)
}

/// Headers that concern the connection to this proxy, credentials for it among
/// them.
fn leave_out_hops(headers: &mut HeaderMap) {
    let mut hops = vec![
        header::CONNECTION,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
    ];
    let listed = headers.get_all(header::CONNECTION).iter();
    let listed = listed.filter_map(|it| it.to_str().ok());
    let names = listed.flat_map(|it| it.split(','));
    hops.extend(names.filter_map(|it| it.trim().parse::<HeaderName>().ok()));
    for name in hops {
        // What says where a body ends stays.
        if name != header::CONTENT_LENGTH && name != header::HOST {
            headers.remove(name);
        }
    }
}

fn failed(error: &ConnectError) -> ProxyAnswer {
    match error {
        ConnectError::Refused(refusal) => {
            let text = format!("{error} (rule {})", refusal.rule);
            told(StatusCode::FORBIDDEN, &text)
        }
        ConnectError::TimedOut { .. } => told(StatusCode::GATEWAY_TIMEOUT, &error.to_string()),
        _ => told(StatusCode::BAD_GATEWAY, &error.to_string()),
    }
}

fn told(status: StatusCode, text: &str) -> ProxyAnswer {
    let text = Full::new(Bytes::from(format!("halter: {text}\n")));
    let mut answer = Response::new(text.map_err(|never| match never {}).boxed());
    *answer.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    // A client that was refused starts over.
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(header::CONNECTION, close);
    answer
}
