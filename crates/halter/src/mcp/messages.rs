//! What a user's message brings from servers: resources that it mentions, and
//! prompts that it starts.

use crate::harness::Halter;
use halter_mcp::limits::MENTIONS_PER_MESSAGE;
use halter_mcp::{McpError, McpServers, OfferedPrompt};
use halter_protocol::public_tools::public_server_name;
use halter_protocol::{ContentPart, Turn, UserMessage};
use halter_runtime::HalterError;
use tokio_util::sync::CancellationToken;

impl Halter {
    /// The resources that a text of a user mentions as `@server:uri`, to go with
    /// their message. A name of no server is no mention. Waits for a server that
    /// still starts.
    ///
    /// ```no_run
    /// # async fn example(harness: halter::Halter) -> anyhow::Result<()> {
    /// use halter_protocol::UserMessage;
    ///
    /// let text = "What does @docs:file:///guide.md say about errors?";
    /// let mut message = UserMessage::text(text);
    /// message.parts.extend(harness.mentioned_resources(text).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If a resource cannot be read, or there are too many.
    pub async fn mentioned_resources(&self, text: &str) -> anyhow::Result<Vec<ContentPart>> {
        let Some(servers) = self.servers.0.as_ref().map(|it| &it.servers) else {
            return Ok(Vec::new());
        };
        let mentions = mentions(text, servers);
        if mentions.len() > MENTIONS_PER_MESSAGE {
            let message = format!("a message mentions {MENTIONS_PER_MESSAGE} resources at most");
            let error = HalterError::new("mcp_mentions", message);
            return Err(error.with_hint("ask about some of them first").into());
        }
        let mut parts = Vec::new();
        for (server, uri) in mentions {
            let read = servers.read_resource(&server, &uri, CancellationToken::new());
            let read = read.await.map_err(|error| {
                let message = format!("@{server}:{uri} could not be read: {error}");
                HalterError::new(error.code(), message)
                    .with_hint("correct the address, or leave the mention out")
            })?;
            let says = format!("[the resource {uri} of the MCP server `{server}`, as mentioned:]");
            parts.push(ContentPart::text(says));
            parts.extend(read);
        }
        Ok(parts)
    }

    /// The turn that a line stands for which begins with `/mcp__server__prompt`,
    /// the rest being arguments. None for any other line.
    ///
    /// # Errors
    /// If the server has no such prompt, an argument is missing, or the server
    /// fails.
    pub async fn mcp_invocation(&self, line: &str) -> anyhow::Result<Option<Turn>> {
        let line = line.trim();
        let Some(servers) = self.servers.0.as_ref().map(|it| &it.servers) else {
            return Ok(None);
        };
        let Some(rest) = line.strip_prefix('/') else {
            return Ok(None);
        };
        let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let prompt = servers.prompt(name, arguments, CancellationToken::new());
        let prompt = prompt.await.map_err(|error| as_failure(&error))?;
        Ok(prompt.map(|parts| {
            let mut message = UserMessage::text(line);
            message.parts.extend(parts);
            Turn::new(message)
        }))
    }

    /// The prompts of the servers of the Model Context Protocol that are ready,
    /// and what went wrong with others.
    pub async fn mcp_prompts(&self) -> (Vec<OfferedPrompt>, Vec<HalterError>) {
        let Some(servers) = self.servers.0.as_ref() else {
            return (Vec::new(), Vec::new());
        };
        let (prompts, problems) = servers.servers.prompts().await;
        (prompts, problems.iter().map(as_failure).collect())
    }
}

fn as_failure(error: &McpError) -> HalterError {
    HalterError::new(error.code(), error.to_string())
}

/// The mentions in a text, each once, of servers that there are.
fn mentions(text: &str, servers: &McpServers) -> Vec<(String, String)> {
    let status = servers.status();
    let is_known = |name: &str| status.iter().any(|it| it.name.as_str() == name);
    let mut found = Vec::new();
    for (at, _) in text.match_indices('@') {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        // An address of mail has a letter before it.
        if before.is_some_and(|before| before.is_alphanumeric() || "._-+@".contains(before)) {
            continue;
        }
        let rest = text.get(at + 1..).unwrap_or_default();
        let word = rest.split(char::is_whitespace).next().unwrap_or_default();
        let Some((server, uri)) = word.split_once(':') else {
            continue;
        };
        let uri =
            uri.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'']);
        let server = public_server_name(server);
        let mention = (server.to_string(), uri.to_owned());
        if !uri.is_empty() && is_known(&server) && !found.contains(&mention) {
            found.push(mention);
        }
    }
    found
}
