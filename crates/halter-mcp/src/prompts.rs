//! Prompts of servers: texts that a user starts by name, as
//! `/mcp__server__prompt`.

use crate::client::CallOrders;
use crate::error::McpError;
use crate::limits::RESOURCE_PARTS;
use crate::managed::ManagedServer;
use crate::names::{ServerName, tool_name};
use crate::resources::named;
use crate::result::{bound_texts, part};
use crate::servers::McpServers;
use crate::text::plain;
use halter_protocol::ContentPart;
use rmcp::model::{JsonObject, Role};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A prompt that a server says it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedPrompt {
    /// The server.
    pub server: ServerName,
    /// The name that the server gives it.
    pub own_name: String,
    /// The name that a user starts it by, without the slash.
    pub name: String,
    /// What it is for, in one line.
    pub description: String,
    /// What is filled in, in order.
    pub arguments: Vec<PromptArgument>,
}

/// What is filled in in a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// Whether the prompt is of no use without it.
    pub required: bool,
}

impl OfferedPrompt {
    fn new(server: &ServerName, prompt: &rmcp::model::Prompt) -> Self {
        let described = prompt.description.as_deref().or(prompt.title.as_deref());
        let described = plain(described.unwrap_or_default());
        let arguments = prompt.arguments.iter().flatten();
        Self {
            server: server.clone(),
            own_name: prompt.name.clone(),
            name: tool_name(server, &prompt.name),
            description: described.split_whitespace().collect::<Vec<_>>().join(" "),
            arguments: arguments
                .map(|argument| PromptArgument {
                    name: plain(&argument.name),
                    required: argument.required == Some(true),
                })
                .collect(),
        }
    }

    /// What may follow the name, for people: `<path> [style]`.
    pub fn argument_hint(&self) -> Option<String> {
        let hints = self.arguments.iter().map(|argument| match argument {
            PromptArgument {
                name,
                required: true,
            } => format!("<{name}>"),
            PromptArgument { name, .. } => format!("[{name}]"),
        });
        let hints: Vec<String> = hints.collect();
        (!hints.is_empty()).then(|| hints.join(" "))
    }

    /// The arguments that a line holds, by position. Quotes keep words
    /// together, and the last argument takes what is left.
    ///
    /// # Errors
    /// What is missing or too much.
    fn filled(&self, line: &str) -> Result<JsonObject, McpError> {
        let mut words = words(line);
        let most = self.arguments.len();
        if most > 0 && words.len() > most {
            let rest = words.split_off(most - 1);
            words.push(rest.join(" "));
        }
        let missing = self.arguments.get(words.len()..).unwrap_or_default();
        if let Some(missing) = missing.iter().find(|it| it.required) {
            let hint = self.argument_hint().unwrap_or_default();
            let reason = format!(
                "the prompt /{} lacks the argument `{}`; write /{} {hint}",
                self.name, missing.name, self.name
            );
            return Err(McpError::BadRequest { reason });
        }
        if most == 0 && !words.is_empty() {
            let reason = format!("the prompt /{} takes no arguments", self.name);
            return Err(McpError::BadRequest { reason });
        }
        let named = self.arguments.iter().zip(words);
        Ok(named
            .map(|(argument, word)| (argument.name.clone(), Value::String(word)))
            .collect())
    }
}

/// Words, of which quotes keep several together.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), close) if close == open => quote = None,
            (None, '"' | '\'') if word.is_none() => {
                quote = Some(character);
                word = Some(String::new());
            }
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

impl McpServers {
    /// The prompts of the servers that are ready, and what went wrong with the
    /// others.
    pub async fn prompts(&self) -> (Vec<OfferedPrompt>, Vec<McpError>) {
        let (mut prompts, mut problems) = (Vec::new(), Vec::new());
        let ready = self.servers.values().filter(|it| it.status().has_prompts);
        let lists = ready.map(|server| prompts_of(server, CallOrders::quiet()));
        for list in futures::future::join_all(lists).await {
            match list {
                Ok(list) => prompts.extend(list),
                Err(error) => problems.push(error),
            }
        }
        (prompts, problems)
    }

    /// The prompt of a name such as `mcp__server__prompt`, filled in with the
    /// arguments that a line holds; none if there is no such server. Waits for
    /// a server that still starts.
    ///
    /// # Errors
    /// If the server has no such prompt, an argument is missing, or it fails.
    pub async fn prompt(
        &self,
        name: &str,
        arguments: &str,
        cancel: CancellationToken,
    ) -> Result<Option<Vec<ContentPart>>, McpError> {
        let rest = name.strip_prefix(crate::names::PREFIX);
        let Some((server, _)) = rest.and_then(|rest| rest.split_once("__")) else {
            return Ok(None);
        };
        let Ok(server) = named(&self.servers, server) else {
            return Ok(None);
        };
        let orders = CallOrders {
            cancel,
            ..CallOrders::quiet()
        };
        let link = server.ready_link(&orders).await?;
        let offered = prompts_of(server, orders.clone()).await?;
        let Some(prompt) = offered.iter().find(|prompt| prompt.name == name) else {
            let reason = format!(
                "the MCP server `{}` has no prompt /{}; see /commands",
                server.status().name,
                plain(name)
            );
            return Err(McpError::BadRequest { reason });
        };
        let arguments = prompt.filled(arguments)?;
        let filled = link.get_prompt(&prompt.own_name, arguments, &orders).await;
        let filled = server.with_last_words(&link, filled).await?;
        let left_out = filled.messages.len().saturating_sub(RESOURCE_PARTS);
        let mut parts = Vec::new();
        for message in filled.messages.iter().take(RESOURCE_PARTS) {
            // All of it becomes one message of the user.
            if message.role == Role::Assistant {
                parts.push(ContentPart::text("[as the assistant's earlier answer]"));
            }
            parts.push(part(&message.content));
        }
        if left_out > 0 {
            parts.push(ContentPart::text(format!("[{left_out} messages left out]")));
        }
        bound_texts(&mut parts);
        Ok(Some(parts))
    }
}

async fn prompts_of(
    server: &ManagedServer,
    orders: CallOrders,
) -> Result<Vec<OfferedPrompt>, McpError> {
    let link = server.ready_link(&orders).await?;
    if link.capabilities().prompts.is_none() {
        return Ok(Vec::new());
    }
    let listed = link.list_prompts(&orders).await;
    let listed = server.with_last_words(&link, listed).await?;
    let name = server.status().name;
    for problem in &listed.problems {
        tracing::warn!(server = %name, problem, "an MCP server's prompts");
    }
    let prompts = listed.items.iter();
    Ok(prompts.map(|it| OfferedPrompt::new(&name, it)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(arguments: &[(&str, bool)]) -> OfferedPrompt {
        OfferedPrompt {
            server: ServerName::new("x").unwrap(),
            own_name: "p".to_owned(),
            name: "mcp__x__p".to_owned(),
            description: String::new(),
            arguments: arguments
                .iter()
                .map(|(name, required)| PromptArgument {
                    name: (*name).to_owned(),
                    required: *required,
                })
                .collect(),
        }
    }

    #[test]
    fn arguments_are_filled_in_by_position() {
        let two = prompt(&[("path", true), ("style", false)]);
        assert_eq!(two.argument_hint().as_deref(), Some("<path> [style]"));
        for (line, filled) in [
            ("a.rs", r#"{"path":"a.rs"}"#),
            ("'a b.rs' short", r#"{"path":"a b.rs","style":"short"}"#),
            ("it's very short", r#"{"path":"it's","style":"very short"}"#),
        ] {
            let got = Value::Object(two.filled(line).unwrap()).to_string();
            assert_eq!(got, filled, "{line}");
        }
        let error = two.filled("  ").unwrap_err().to_string();
        assert!(error.contains("/mcp__x__p <path> [style]"), "{error}");
        assert!(prompt(&[]).filled("x").is_err());
        assert!(prompt(&[]).filled("").unwrap().is_empty());
    }
}
