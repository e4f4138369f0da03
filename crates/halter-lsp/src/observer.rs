//! What is wrong with files that a call has changed, with its result.

use crate::error::LspError;
use crate::limits::{EDIT_WAIT, OBSERVED_FILES};
use crate::servers::LanguageServers;
use crate::settings::ServerSettings;
use async_trait::async_trait;
use halter_protocol::encoding::escape_path;
use halter_tools::{ChangeObserver, ToolContext};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::time::Instant;

/// Shows changed files to their language servers. What these say within
/// [`EDIT_WAIT`] joins the result, and of which files they have said nothing
/// yet; a server that fails or is not there changes nothing else.
pub struct DiagnosticsAfterChanges {
    servers: Arc<[ServerSettings]>,
}

impl DiagnosticsAfterChanges {
    /// For these servers; none where there are none.
    pub fn new(servers: &Arc<[ServerSettings]>) -> Option<Self> {
        let servers = servers.clone();
        (!servers.is_empty()).then_some(Self { servers })
    }

    async fn look_at(&self, context: &ToolContext, path: &Path) -> anyhow::Result<Option<Value>> {
        let session = LanguageServers::of(context)?;
        let shown = session.show(&self.servers, context, path).await?;
        let said = shown
            .server
            .diagnostics(&shown.path, &shown.document, EDIT_WAIT);
        Ok(said.await?.map(|said| said.told()))
    }
}

#[async_trait]
impl ChangeObserver for DiagnosticsAfterChanges {
    async fn changed(&self, context: &ToolContext, paths: &[PathBuf]) -> Option<(String, Value)> {
        let known = paths.iter().filter(|path| {
            self.servers
                .iter()
                .any(|server| server.language_of(path).is_some())
        });
        let known: Vec<&PathBuf> = known.collect();
        let more = known.len().saturating_sub(OBSERVED_FILES);
        let deadline = Instant::now() + EDIT_WAIT;
        let looks = known.into_iter().take(OBSERVED_FILES);
        let looks = looks.map(|path| async move {
            let look = tokio::time::timeout_at(deadline, self.look_at(context, path));
            let said = match look.await {
                Ok(Ok(Some(said))) => said,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "no diagnostics after a change");
                    // One that fails at each change is worth knowing of.
                    let known = error.downcast_ref::<LspError>()?;
                    json!({"unavailable": known.to_string()})
                }
                Ok(Ok(None)) | Err(_) => {
                    let seconds = EDIT_WAIT.as_secs();
                    pending(&format!("nothing was said of it within {seconds} s"))
                }
            };
            Some((escape_path(path), said))
        });
        let said = tokio::select! {
            said = futures::future::join_all(looks) => said,
            () = context.cancel.cancelled() => return None,
        };
        let mut said: Map<String, Value> = said.into_iter().flatten().collect();
        if more > 0 {
            let reason = format!("only {OBSERVED_FILES} files of a call are looked at");
            said.insert(format!("{more} more files"), pending(&reason));
        }
        (!said.is_empty()).then(|| ("diagnostics".to_owned(), Value::Object(said)))
    }
}

/// What is not known yet, and how it is found out.
fn pending(reason: &str) -> Value {
    json!({"pending": format!("{reason}; ask with `diagnostics`")})
}
