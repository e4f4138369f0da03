//! What models call: `diagnostics`, `definition`, `references`.

use crate::limits::{DIAGNOSTICS_WAIT, SHOWN_PLACES};
use crate::place::{character_of, path_of, position, uri_of};
use crate::servers::{LanguageServers, Shown};
use crate::settings::ServerSettings;
use anyhow::{anyhow, bail};
use async_trait::async_trait;
use halter_protocol::encoding::{escape_path, spelled_path};
use halter_protocol::{Action, ToolCapabilities, ToolConcurrency, ToolResult};
use halter_tools::{Tool, ToolContext, TypedTool, typed};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::path::Path;
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
            path: spelled_path(path),
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
            .show(servers, context, &spelled_path(&input.path))
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
        let mut told = said.told();
        if let Some(fields) = told.as_object_mut() {
            fields.shift_insert(0, "path".to_owned(), json!(input.path));
        }
        Ok(told)
    }
}

#[async_trait]
impl LanguageQuestion for Definition {
    type Input = PlaceInput;
    const NAME: &'static str = "definition";
    const SUMMARY: &'static str = "where a name is defined";
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
    const SUMMARY: &'static str = "where a name is used";
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
        .show(servers, context, &spelled_path(&place.path))
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
        let line = number("line")?.saturating_add(1);
        let column = number("character")?.saturating_add(1);
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
