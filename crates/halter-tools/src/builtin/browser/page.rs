//! The actions, and what a result says of the page they leave.

use super::element;
use super::running::Running;
use super::{BrowserAction, BrowserInput, Direction, snapshot};
use crate::builtin::change::change_file;
use crate::builtin::support::text_head;
use crate::builtin::write::unless_changed;
use crate::context::ToolContext;
use crate::limits::{BROWSER_CALL_MAX_SECS, BROWSER_VALUE_BYTES};
use crate::network::ConnectError;
use crate::web::{destination, parse};
use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use halter_protocol::limits::IMAGE_SIDE_PIXELS;
use halter_protocol::media::pixels;
use halter_protocol::{ContentPart, MediaFormat, ToolError, ToolErrorCode, ToolResult};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};
use url::Url;

/// Gives handlers of what was done a moment to start what they start.
const MOMENT: &str = "new Promise((done) => setTimeout(done, 50))";

/// Does what a call asks for.
pub(super) async fn act(
    context: &ToolContext,
    running: &mut Running,
    input: &BrowserInput,
    deadline: Instant,
) -> anyhow::Result<ToolResult> {
    let tab = running.view.tab();
    let mut extra = Map::new();
    match input.action {
        BrowserAction::Navigate => navigate(context, running, input).await?,
        BrowserAction::Click => element::click(running, input).await?,
        BrowserAction::Type => element::fill(running, input).await?,
        BrowserAction::Press => {
            element::press(running, input.key.as_deref().unwrap_or_default()).await?;
        }
        BrowserAction::Back => back(running).await?,
        BrowserAction::Scroll => {
            extra = scroll(running, input).await?;
        }
        BrowserAction::Eval => {
            let value = evaluate(running, input, deadline).await?;
            extra.insert("value".into(), value);
        }
        BrowserAction::Snapshot => {
            let text = snapshot::take(running).await?;
            extra.insert("snapshot".into(), text.into());
        }
        BrowserAction::Console => {
            let lines = running.view.take_console();
            extra.insert("console".into(), lines.into());
        }
        BrowserAction::Screenshot => return screenshot(context, running, input).await,
        BrowserAction::Close => {}
    }
    let looks = matches!(
        input.action,
        BrowserAction::Snapshot | BrowserAction::Console
    );
    if !looks && settle(running, deadline).await.is_err() {
        extra.insert("note".into(), "the page is still loading".into());
    }
    let mut result = left(context, running).await?;
    let (now, tabs) = running.view.tab();
    if now != tab.0 && tabs > tab.1 {
        result.insert("new_tab".into(), true.into());
    }
    let dialogs = running.view.take_dialogs();
    if !dialogs.is_empty() {
        result.insert("dialogs".into(), dialogs.into());
    }
    if let Some(note) = running.note.take() {
        result.insert("browser_note".into(), note.into());
    }
    result.extend(extra);
    Ok(ToolResult::json(Value::Object(result)))
}

/// Waits until the page has taken in what was done; an error if it still
/// loads at the deadline.
async fn settle(running: &Running, deadline: Instant) -> Result<(), tokio::time::error::Elapsed> {
    let params = json!({ "expression": MOMENT, "awaitPromise": true });
    let settled = async {
        // A page that goes elsewhere does not answer this.
        let _ = running.page("Runtime.evaluate", params).await;
        running.loaded().await;
    };
    timeout_at(deadline, settled).await
}

/// What there is to say of the page, if it is one that may be looked at.
async fn left(context: &ToolContext, running: &Running) -> anyhow::Result<Map<String, Value>> {
    let expression = "({ url: location.href, title: document.title })";
    let params = json!({ "expression": expression, "returnByValue": true });
    let answer = running.ask("Runtime.evaluate", params).await?;
    let place = answer.pointer("/result/value").cloned();
    let mut place = match place {
        Some(Value::Object(place)) => place,
        _ => Map::new(),
    };
    let url = place.get("url").and_then(Value::as_str).unwrap_or_default();
    let url = Url::parse(url).ok();
    if let Some(url) = &url {
        // Where a page is it asked to be, whether or not that was told.
        running.view.expect_request(url);
    }
    let refused = running.take_refusals();
    for refusal in &refused {
        context.report_refusal(refusal);
    }
    let host = url.as_ref().and_then(|url| destination(url).ok());
    let host = host.map(|host| host.to_string());
    if let Some(refusal) = refused.iter().find(|it| Some(&it.host) == host.as_ref()) {
        leave(running).await?;
        return Err(ConnectError::Refused(refusal.clone()).into());
    }
    let scheme = url.as_ref().map_or("about", Url::scheme);
    if !matches!(
        scheme,
        "http" | "https" | "about" | "data" | "blob" | "chrome-error"
    ) {
        leave(running).await?;
        bail!("the page led to '{scheme}:', which is not of the web, and was left");
    }
    if !refused.is_empty() {
        let hosts: Vec<Value> = refused
            .iter()
            .map(|refusal| refusal.message().into())
            .collect();
        place.insert("refused_hosts".into(), hosts.into());
    }
    Ok(place)
}

/// Goes to an empty page.
async fn leave(running: &Running) -> anyhow::Result<()> {
    let params = json!({ "url": "about:blank" });
    running.page("Page.navigate", params).await?;
    Ok(())
}

/// Waits no longer for a page that does not come. What the browser has open
/// stays.
pub(super) async fn stop(running: &Running, url: &str, input: &BrowserInput) -> anyhow::Error {
    if let Err(error) = running.page("Page.stopLoading", json!({})).await {
        return error;
    }
    let message = format!(
        "'{url}' did not answer within {} s and is no longer waited for; the browser stays at the \
         page before. Try again with a larger `timeout_secs` ({BROWSER_CALL_MAX_SECS} at most), \
         or go elsewhere",
        input.timeout_secs
    );
    ToolError::new(ToolErrorCode::TimedOut, message).into()
}

async fn navigate(
    context: &ToolContext,
    running: &mut Running,
    input: &BrowserInput,
) -> anyhow::Result<()> {
    let url = parse(input.url.as_deref().unwrap_or_default())?;
    running.open_network(context);
    running.refs.clear();
    let host = destination(&url)?.to_string();
    running.expect_request(&url, &host);
    let params = json!({ "url": url.as_str() });
    let answer = running.page("Page.navigate", params).await?;
    let Some(error) = answer.get("errorText").and_then(Value::as_str) else {
        return Ok(());
    };
    let refused = running.take_refusals();
    let asked = refused.iter().find(|refusal| refusal.host == host);
    let led = || match error {
        "net::ERR_TUNNEL_CONNECTION_FAILED" => refused.last(),
        _ => None,
    };
    if let Some(refusal) = asked.or_else(led) {
        context.report_refusal(refusal);
        return Err(ConnectError::Refused(refusal.clone()).into());
    }
    match error {
        "net::ERR_ABORTED" => bail!(
            "'{url}' is not a page but a download, which the browser refuses; use `web_fetch`"
        ),
        "net::ERR_UNSAFE_REDIRECT" => bail!(
            "'{url}' leads to what is not of the web, and was not followed; files are opened by \
             `read`"
        ),
        error => bail!("cannot open '{url}': {error}"),
    }
}

async fn back(running: &mut Running) -> anyhow::Result<()> {
    running.refs.clear();
    let history = running.page("Page.getNavigationHistory", json!({})).await?;
    let current = history.get("currentIndex").and_then(Value::as_u64);
    let before = current.and_then(|current| usize::try_from(current).ok()?.checked_sub(1));
    let entries = history.get("entries").and_then(Value::as_array);
    let entry = before.and_then(|before| entries?.get(before)?.get("id"));
    let entry = entry.context("there is no page to go back to")?;
    let params = json!({ "entryId": entry });
    running.page("Page.navigateToHistoryEntry", params).await?;
    Ok(())
}

async fn scroll(running: &Running, input: &BrowserInput) -> anyhow::Result<Map<String, Value>> {
    if input.reference.is_some() || input.selector.is_some() {
        element::scroll_to(running, input).await?;
        return Ok(Map::new());
    }
    let (x, y) = match input.direction.unwrap_or(Direction::Down) {
        Direction::Up => (0.0, -0.9),
        Direction::Down => (0.0, 0.9),
        Direction::Left => (-0.9, 0.0),
        Direction::Right => (0.9, 0.0),
    };
    let expression = format!(
        "scrollBy({{ left: {x} * innerWidth, top: {y} * innerHeight, behavior: 'instant' }}); \
         ({{ x: Math.round(scrollX), y: Math.round(scrollY), \
         at_end: scrollY + innerHeight >= document.documentElement.scrollHeight - 1 }})"
    );
    let params = json!({ "expression": expression, "returnByValue": true });
    let answer = running.page("Runtime.evaluate", params).await?;
    let mut place = Map::new();
    if let Some(value) = answer.pointer("/result/value") {
        place.insert("scrolled".into(), value.clone());
    }
    Ok(place)
}

async fn evaluate(
    running: &Running,
    input: &BrowserInput,
    deadline: Instant,
) -> anyhow::Result<Value> {
    let left = deadline.saturating_duration_since(Instant::now());
    let params = json!({
        "expression": input.expression,
        "awaitPromise": true,
        "userGesture": true,
        "replMode": true,
        "timeout": left.as_millis().max(1) as u64,
    });
    let evaluated = async {
        let answer = running.page("Runtime.evaluate", params).await?;
        match answer.pointer("/result/objectId") {
            // In that mode a promise is not awaited unless the expression says so.
            Some(object) if answer.get("exceptionDetails").is_none() => {
                let params = json!({
                    "objectId": object,
                    "functionDeclaration": "function() { return this; }",
                    "awaitPromise": true,
                    "returnByValue": true,
                });
                running.page("Runtime.callFunctionOn", params).await
            }
            _ => Ok(answer),
        }
    };
    let Ok(answer) = timeout_at(deadline, evaluated).await else {
        // A page that still answers only waits.
        let params = json!({ "expression": "0" });
        running.page("Runtime.evaluate", params).await?;
        let message = format!(
            "the expression did not end within {} s; the page stays open. Await less, or try \
             again with a larger `timeout_secs` ({BROWSER_CALL_MAX_SECS} at most)",
            input.timeout_secs
        );
        return Err(ToolError::new(ToolErrorCode::TimedOut, message).into());
    };
    let answer = answer?;
    if let Some(details) = answer.get("exceptionDetails") {
        let thrown = details.pointer("/exception/description");
        let thrown = thrown.or_else(|| details.get("text"));
        let thrown = thrown.and_then(Value::as_str).unwrap_or_default();
        bail!("the expression failed: {thrown}");
    }
    let value = answer.pointer("/result/value").cloned();
    let value = value.unwrap_or_default();
    let text = value.to_string();
    if text.len() <= BROWSER_VALUE_BYTES {
        return Ok(value);
    }
    let shown = text_head(&text, BROWSER_VALUE_BYTES);
    Ok(format!("{shown}… (cut: {} bytes in all)", text.len()).into())
}

async fn screenshot(
    context: &ToolContext,
    running: &Running,
    input: &BrowserInput,
) -> anyhow::Result<ToolResult> {
    let mut facts = left(context, running).await?;
    let mut params = json!({ "format": "png" });
    if input.full_page
        && let Some(fields) = params.as_object_mut()
    {
        let metrics = running.page("Page.getLayoutMetrics", json!({})).await?;
        let side = |name: &str| {
            let size = metrics.pointer("/cssContentSize")?.get(name)?.as_f64()?;
            Some(size.clamp(1.0, f64::from(IMAGE_SIDE_PIXELS)))
        };
        let (width, height) = (side("width"), side("height"));
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
        fields.insert("clip".into(), clip);
        fields.insert("captureBeyondViewport".into(), true.into());
    }
    let mut data = captured(running, params.clone()).await?;
    let mut format = MediaFormat::Png;
    if input.output_path.is_none() && data.len() > format.max_bytes() {
        if let Some(fields) = params.as_object_mut() {
            fields.insert("format".into(), "jpeg".into());
            fields.insert("quality".into(), 60.into());
        }
        data = captured(running, params).await?;
        format = MediaFormat::Jpeg;
    }
    if let Some((width, height)) = pixels(&data) {
        facts.insert("width".into(), width.into());
        facts.insert("height".into(), height.into());
    }
    facts.insert("bytes".into(), data.len().into());
    let Some(path) = &input.output_path else {
        let part = format.part(data);
        part.check()?;
        let facts = ContentPart::text(Value::Object(facts).to_string());
        return Ok(ToolResult::parts([facts, part]));
    };
    change_file(context.clone(), path, move |file| {
        let precondition = unless_changed(&file)?;
        facts.insert("output_path".into(), file.path.clone().into());
        file.commit(data, precondition)?;
        Ok(Value::Object(facts))
    })
    .await
}

async fn captured(running: &Running, params: Value) -> anyhow::Result<Vec<u8>> {
    let answer = running.page("Page.captureScreenshot", params).await?;
    let data = answer.get("data").and_then(Value::as_str);
    let data = data.context("the browser took no picture")?;
    STANDARD
        .decode(data)
        .map_err(|error| anyhow!("the browser's picture is damaged: {error}"))
}
