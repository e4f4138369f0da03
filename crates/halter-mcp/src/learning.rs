//! What a server has: learnt when it starts, and anew when it says that its
//! tools have changed.

use crate::client::Link;
use crate::error::McpError;
use crate::limits::{LIST_CHANGE_PAUSE, LIST_CHANGE_PAUSE_MAX};
use crate::managed::{ManagedServer, ServerState};
use crate::names::ServerName;
use crate::tool::{OfferedTool, ServerTool};
use halter_protocol::ToolName;
use halter_tools::Tool;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

impl ManagedServer {
    /// Asks it what it has, and tells whoever wants to know.
    pub(crate) async fn learn(self: &Arc<Self>, link: &Link) -> Result<(), McpError> {
        link.client.forget_told_changes();
        let listed = link.list_tools(self.settings.start_timeout).await?;
        let mut problems = listed.problems;
        let filter = self.settings.tools.clone();
        let wanted = listed.items.into_iter().filter(|it| filter.has(&it.name));
        let reading = Reading::of(self.settings.name.clone(), wanted.collect());
        let read = reading.done().await;
        let (offered, odd) = read.map_err(|reason| link.not_understood(&reason))?;
        problems.extend(odd);
        for problem in &problems {
            tracing::warn!(server = %self.settings.name, problem, "an MCP server's tools");
        }
        let tools = self.tools_of(&offered, link.instructions());
        let news = {
            let known = self.status.borrow();
            !matches!(known.state, ServerState::Ready) || known.tools != offered
        };
        self.status.send_modify(|status| {
            let info = &link.info;
            status.implementation = info.server_info.as_ref().map(|it| {
                let name = crate::text::plain(&it.name);
                format!("{name} {}", crate::text::plain(&it.version))
            });
            status.revision = Some(info.protocol_version.to_string());
            status.has_resources = info.capabilities.resources.is_some();
            status.has_prompts = info.capabilities.prompts.is_some();
            status.tools = offered;
            status.problems = problems;
        });
        if news {
            self.events.tools(&self.settings.name, tools);
        }
        Ok(())
    }

    fn tools_of(
        self: &Arc<Self>,
        offered: &[OfferedTool],
        instructions: Option<Arc<str>>,
    ) -> Vec<Arc<dyn Tool>> {
        let tools = offered.iter().map(|offered| {
            let tool = ServerTool {
                server: Arc::clone(self),
                offered: offered.clone(),
                instructions: instructions.clone(),
                result_check: OnceLock::new(),
            };
            Arc::new(tool) as Arc<dyn Tool>
        });
        tools.collect()
    }

    /// Learns anew what has changed, for as long as it is polled.
    pub(crate) async fn follow_changes(self: &Arc<Self>, link: &Link) -> Infallible {
        tokio::select! {
            never = link.hear_of_changes() => never,
            never = self.learn_changes(link) => never,
        }
    }

    async fn learn_changes(self: &Arc<Self>, link: &Link) -> Infallible {
        let mut pause = LIST_CHANGE_PAUSE;
        loop {
            let silent = Instant::now();
            link.client.tools_changed.notified().await;
            if silent.elapsed() >= LIST_CHANGE_PAUSE_MAX {
                pause = LIST_CHANGE_PAUSE;
            }
            let time = self.settings.start_timeout;
            let learnt = tokio::time::timeout(time, self.learn(link)).await;
            let problem = match learnt {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("it did not list them within {} s", time.as_secs())),
            };
            if let Some(problem) = problem {
                tracing::warn!(problem, "the tools of an MCP server are as they were");
                let problem = format!("its tools are as they were: {problem}");
                self.status
                    .send_modify(|status| status.problems = vec![problem]);
            }
            // What is wrong may be something else now.
            self.events.state(&self.status());
            tokio::time::sleep(pause).await;
            pause = longer(pause);
        }
    }
}

/// The definitions of tools that are read. Schemas that are large or odd take
/// their time, so it is not that of a thread that others wait for.
struct Reading {
    reading: JoinHandle<ReadTools>,
    given_up: Arc<AtomicBool>,
}

/// The tools that can be used, and what is wrong with others.
type ReadTools = (Vec<OfferedTool>, Vec<String>);

impl Reading {
    fn of(server: ServerName, tools: Vec<rmcp::model::Tool>) -> Self {
        let given_up = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&given_up);
        let reading = tokio::task::spawn_blocking(move || read(&server, &tools, &stop));
        Self { reading, given_up }
    }

    async fn done(mut self) -> Result<ReadTools, String> {
        let read = (&mut self.reading).await;
        read.map_err(|error| format!("its tools could not be read: {error}"))
    }
}

impl Drop for Reading {
    /// Whoever waits no longer needs the others no more.
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

fn read(server: &ServerName, tools: &[rmcp::model::Tool], stop: &AtomicBool) -> ReadTools {
    let (mut offered, mut problems) = (Vec::new(), Vec::new());
    let mut names: HashMap<ToolName, String> = HashMap::new();
    for tool in tools {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match OfferedTool::new(server, tool) {
            Ok(tool) if names.contains_key(&tool.spec.name) => {
                let first = names.get(&tool.spec.name).map(String::as_str);
                let first = first.unwrap_or_default().escape_debug();
                let name = tool.own_name.escape_debug();
                problems.push(match *first.to_string() == *name.to_string() {
                    true => format!("it has more than one tool `{name}`"),
                    false => format!(
                        "its tool `{name}` is left out: models would call it by the name of \
                         its tool `{first}`"
                    ),
                });
            }
            Ok(tool) => {
                names.insert(tool.spec.name.clone(), tool.own_name.clone());
                problems.extend(tool.renamings());
                offered.push(tool);
            }
            Err(reason) => {
                let name = tool.name.escape_debug();
                problems.push(format!("its tool `{name}` is left out: {reason}"));
            }
        }
    }
    (offered, problems)
}

/// The pause after the next list of a server that goes on saying that its tools
/// have changed.
fn longer(pause: Duration) -> Duration {
    (pause * 2).min(LIST_CHANGE_PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_lists_double_to_a_limit() {
        assert_eq!(longer(LIST_CHANGE_PAUSE), LIST_CHANGE_PAUSE * 2);
        assert_eq!(longer(LIST_CHANGE_PAUSE_MAX), LIST_CHANGE_PAUSE_MAX);
    }
}
