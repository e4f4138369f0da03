//! What models call: `diagnostics`, `definition`, `references`.

use crate::connection::Published;
use crate::limits::{DIAGNOSTIC_CHARS, DIAGNOSTICS_WAIT, SHOWN_DIAGNOSTICS, SHOWN_PLACES};
use crate::place::{character_of, path_of, position, uri_of};
use crate::servers::{LanguageServers, Shown};
use crate::settings::ServerSettings;
use anyhow::{anyhow, bail};
use async_trait::async_trait;
use halter_protocol::encoding::{escape_path, unescape_path};
use halter_protocol::{Action, ToolCapabilities, ToolConcurrency, ToolResult};
use halter_tools::{Tool, ToolContext, TypedTool, typed};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOOKS: ToolCapabilities = ToolCapabilities {
    mutating: false,
    requires_approval: false,
    cancellable: true,
    long_running: false,
};

/// The tools of language servers; none where there are no servers.
pub fn language_tools(servers: &Arc<[ServerSettings]>) -> Vec<Arc<dyn Tool>> {
    if servers.is_empty() {
        return Vec::new();
    }
    vec![
        typed(LanguageTool::<Diagnostics>::new(servers)),
        typed(LanguageTool::<Definition>::new(servers)),
        typed(LanguageTool::<References>::new(servers)),
    ]
}

/// What one of the tools asks of a server.
#[async_trait]
trait LanguageQuestion: Send + Sync + 'static {
    type Input: DeserializeOwned + JsonSchema + Send;
    const NAME: &'static str;
    const SUMMARY: &'static str;
    const DESCRIPTION: &'static str;

    async fn ask(
        servers: &[ServerSettings],
        context: &ToolContext,
        input: Self::Input,
    ) -> anyhow::Result<Value>;
}

struct LanguageTool<Q> {
    servers: Arc<[ServerSettings]>,
    question: PhantomData<fn() -> Q>,
}

impl<Q> LanguageTool<Q> {
    fn new(servers: &Arc<[ServerSettings]>) -> Self {
        Self {
            servers: servers.clone(),
            question: PhantomData,
        }
    }
}

#[async_trait]
impl<Q: LanguageQuestion> TypedTool for LanguageTool<Q> {
    type Input = Q::Input;
    const NAME: &'static str = Q::NAME;
    const SUMMARY: Option<&'static str> = Some(Q::SUMMARY);
    // What is wrong with a changed file is told with the change.
    const RARE: bool = true;

    fn description(&self) -> String {
        Q::DESCRIPTION.to_owned()
    }

    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::ReadOnly
    }

    fn capabilities(&self) -> ToolCapabilities {
        LOOKS
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let path = input.get("path").and_then(Value::as_str);
        let reads = path.map(|path| Action::Read {
            path: spelled(path),
        });
        reads.into_iter().collect()
    }

    async fn run(&self, context: ToolContext, input: Q::Input) -> anyhow::Result<ToolResult> {
        tokio::select! {
            answer = Q::ask(&self.servers, &context, input) => Ok(ToolResult::json(answer?)),
            () = context.cancel.cancelled() => {
                context.check_cancelled()?;
                bail!("the call was cancelled")
            }
        }
    }
}

/// A file.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DiagnosticsInput {
    /// The file, absolute or relative to the working directory.
    #[schemars(length(min = 1))]
    path: String,
}

/// A name in a file.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct PlaceInput {
    /// The file, absolute or relative to the working directory.
    #[schemars(length(min = 1))]
    path: String,
    /// The line, counted from 1.
    line: NonZeroUsize,
    /// The name, as it stands on that line; or say `column`.
    symbol: Option<String>,
    /// The character on that line, counted from 1.
    column: Option<NonZeroUsize>,
}

struct Diagnostics;
struct Definition;
struct References;

fn spelled(text: &str) -> PathBuf {
    unescape_path(text).unwrap_or_else(|_| PathBuf::from(text))
}

#[async_trait]
impl LanguageQuestion for Diagnostics {
    type Input = DiagnosticsInput;
    const NAME: &'static str = "diagnostics";
    const SUMMARY: &'static str = "errors in a file";
    const DESCRIPTION: &'static str =
        "Errors and warnings that the language server finds in a file, as it is now.";

    async fn ask(
        servers: &[ServerSettings],
        context: &ToolContext,
        input: DiagnosticsInput,
    ) -> anyhow::Result<Value> {
        let session = LanguageServers::of(context)?;
        let shown = session
            .show(servers, context, &spelled(&input.path))
            .await?;
        let said = shown
            .server
            .diagnostics(&shown.path, &shown.document, DIAGNOSTICS_WAIT);
        let Some(said) = said.await? else {
            let seconds = DIAGNOSTICS_WAIT.as_secs();
            bail!(
                "the language server said nothing about '{}' within {seconds} s; ask again",
                input.path
            );
        };
        let mut told = told(&said);
        if let Some(fields) = told.as_object_mut() {
            fields.shift_insert(0, "path".to_owned(), json!(input.path));
        }
        Ok(told)
    }
}

/// Diagnostics as models read them: the worst first, within bounds.
pub(crate) fn told(published: &Published) -> Value {
    let mut items: Vec<&Value> = published.items.iter().collect();
    let number = |item: &Value, name: &str| item.get(name).and_then(Value::as_u64);
    let start = |item: &Value, name: &str| {
        item.pointer(&format!("/range/start/{name}"))
            .and_then(Value::as_u64)
            .unwrap_or(0)
    };
    items.sort_by_key(|item| (number(item, "severity").unwrap_or(1), start(item, "line")));
    let shown = items.iter().take(SHOWN_DIAGNOSTICS).map(|item| {
        let severity = match number(item, "severity") {
            Some(2) => "warning",
            Some(3) => "information",
            Some(4) => "hint",
            _ => "error",
        };
        let message = item
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let message: String = message.chars().take(DIAGNOSTIC_CHARS).collect();
        let mut entry = json!({
            "line": start(item, "line") + 1,
            "severity": severity,
            "message": message,
        });
        let code = item
            .get("code")
            .filter(|code| code.is_string() || code.is_number());
        if let (Some(code), Some(fields)) = (code, entry.as_object_mut()) {
            fields.insert("code".to_owned(), code.clone());
        }
        entry
    });
    let shown: Vec<Value> = shown.collect();
    let left_out = items.len() - shown.len();
    let mut told = json!({"diagnostics": shown});
    if let (1.., Some(fields)) = (left_out, told.as_object_mut()) {
        fields.insert("left_out".to_owned(), json!(left_out));
    }
    told
}

#[async_trait]
impl LanguageQuestion for Definition {
    type Input = PlaceInput;
    const NAME: &'static str = "definition";
    const SUMMARY: &'static str = "of a name";
    const DESCRIPTION: &'static str =
        "Tell where the name at a place in a file is defined, as its language server knows.";

    async fn ask(
        servers: &[ServerSettings],
        context: &ToolContext,
        input: PlaceInput,
    ) -> anyhow::Result<Value> {
        let (shown, params) = ask_about(servers, context, &input).await?;
        let answer = shown
            .server
            .request("textDocument/definition", params)
            .await?;
        Ok(places(&context.working_dir, &answer))
    }
}

#[async_trait]
impl LanguageQuestion for References {
    type Input = PlaceInput;
    const NAME: &'static str = "references";
    const SUMMARY: &'static str = "to a name";
    const DESCRIPTION: &'static str = "List every place that uses the name at a place in a file, \
        its definition included, as its language server knows.";

    async fn ask(
        servers: &[ServerSettings],
        context: &ToolContext,
        input: PlaceInput,
    ) -> anyhow::Result<Value> {
        let (shown, mut params) = ask_about(servers, context, &input).await?;
        if let Some(fields) = params.as_object_mut() {
            fields.insert("context".to_owned(), json!({"includeDeclaration": true}));
        }
        let answer = shown
            .server
            .request("textDocument/references", params)
            .await?;
        Ok(places(&context.working_dir, &answer))
    }
}

/// Shows the file and finds the place in it.
async fn ask_about(
    servers: &[ServerSettings],
    context: &ToolContext,
    place: &PlaceInput,
) -> anyhow::Result<(Shown, Value)> {
    let session = LanguageServers::of(context)?;
    let shown = session
        .show(servers, context, &spelled(&place.path))
        .await?;
    let line = place.line.get();
    let Some(content) = shown.text.lines().nth(line - 1) else {
        bail!("'{}' has no line {line}", place.path);
    };
    let character = match (&place.symbol, place.column) {
        (Some(symbol), _) => character_of(content, symbol).ok_or_else(|| {
            anyhow!(
                "'{symbol}' does not stand on line {line} of '{}': {content}",
                place.path
            )
        })?,
        (None, Some(column)) => column.get(),
        (None, None) => bail!("say which name is meant, by `symbol` or by `column`"),
    };
    let at = position(&shown.text, line, character, shown.server.columns());
    let uri = uri_of(&shown.path).unwrap_or_default();
    let params = json!({"textDocument": {"uri": uri}, "position": at});
    Ok((shown, params))
}

/// Places as models read them: files relative to the session's directory.
fn places(directory: &Path, answer: &Value) -> Value {
    let found: Vec<&Value> = match answer {
        Value::Array(many) => many.iter().collect(),
        Value::Null => Vec::new(),
        one => vec![one],
    };
    let root = std::fs::canonicalize(directory);
    let root = root.unwrap_or_else(|_| directory.to_owned());
    let place = |found: &&Value| {
        let uri = found
            .get("uri")
            .or_else(|| found.get("targetUri"))?
            .as_str()?;
        let range = found
            .get("range")
            .or_else(|| found.get("targetSelectionRange"))?;
        let number = |name: &str| {
            range
                .pointer(&format!("/start/{name}"))
                .and_then(Value::as_u64)
        };
        let path = path_of(uri)?;
        let shown = path.strip_prefix(&root).unwrap_or(&path);
        let line = number("line")? + 1;
        let column = number("character")? + 1;
        Some(json!({"path": shown_path(shown), "line": line, "column": column}))
    };
    let shown: Vec<Value> = found.iter().filter_map(place).take(SHOWN_PLACES).collect();
    let left_out = found.len() - shown.len();
    let mut told = json!({"places": shown});
    if let (1.., Some(fields)) = (left_out, told.as_object_mut()) {
        fields.insert("left_out".to_owned(), json!(left_out));
    }
    told
}

fn shown_path(path: &Path) -> String {
    escape_path(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(line: u64, severity: u64, message: &str) -> Value {
        json!({"range": {"start": {"line": line, "character": 0}}, "severity": severity, "message": message})
    }

    #[test]
    fn the_worst_comes_first_and_no_more_than_fits() {
        let mut items = vec![item(5, 2, "unused"); SHOWN_DIAGNOSTICS];
        items.push(item(9, 1, &"x".repeat(DIAGNOSTIC_CHARS + 1)));
        let published = Published {
            items: Arc::new(items),
            ..Published::default()
        };
        let told = told(&published);
        let shown = told["diagnostics"].as_array().unwrap();
        assert_eq!(shown.len(), SHOWN_DIAGNOSTICS);
        assert_eq!(shown[0]["severity"], "error");
        assert_eq!(shown[0]["line"], 10);
        assert_eq!(
            shown[0]["message"].as_str().unwrap().len(),
            DIAGNOSTIC_CHARS
        );
        assert_eq!(told["left_out"], 1);
    }

    #[test]
    fn so_many_places_are_shown_and_no_more() {
        let found =
            |uri: &str| json!({"uri": uri, "range": {"start": {"line": 2, "character": 4}}});
        let answer = vec![found("file:///project/a.x"); SHOWN_PLACES + 1];
        let told = places(Path::new("/project"), &json!(answer));
        assert_eq!(told["places"].as_array().unwrap().len(), SHOWN_PLACES);
        assert_eq!(told["left_out"], 1);
        let one = places(Path::new("/project"), &found("file:///project/a.x"));
        assert_eq!(
            one,
            json!({"places": [{"path": "a.x", "line": 3, "column": 5}]})
        );
        assert_eq!(places(Path::new("/"), &Value::Null), json!({"places": []}));
    }
}
