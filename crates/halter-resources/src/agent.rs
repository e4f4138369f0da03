//! An agent file.

use crate::content::ContentName;
use crate::header::{Document, Malformed, UnreadKeys, WordList, first_paragraph, one_line};
use crate::limits::MAX_DESCRIPTION_CHARS;
use crate::name::usable_name;
use crate::warning::ResourceWarning;
use halter_protocol::{
    AgentDef, AgentIsolation, PermissionMode, ReasoningEffort, ResourceKind, ResourceOrigin,
};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// An agent read from disk, or made in code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedAgent {
    /// What it says.
    pub definition: AgentDef,
}

impl From<AgentDef> for LoadedAgent {
    fn from(definition: AgentDef) -> Self {
        Self { definition }
    }
}

/// The keys that are known here.
const KEYS: &[&str] = &[
    "name",
    "description",
    "tools",
    "disallowedTools",
    "model",
    "effort",
    "permissionMode",
    "maxTurns",
    "skills",
    "mcpServers",
    "hooks",
    "isolation",
    "background",
    "memory",
    "initialPrompt",
];

/// What is understood of the frontmatter. Other keys are left to those they are
/// meant for.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentHeader {
    name: Option<String>,
    description: Option<String>,
    tools: Option<WordList>,
    disallowed_tools: Option<WordList>,
    model: Option<String>,
    effort: Option<String>,
    permission_mode: Option<String>,
    max_turns: Option<u32>,
    skills: Option<WordList>,
    mcp_servers: Option<Value>,
    hooks: Option<Value>,
    isolation: Option<String>,
    background: Option<bool>,
    memory: Option<Value>,
    initial_prompt: Option<Value>,
}

impl LoadedAgent {
    /// Reads the text of an agent file.
    pub(crate) fn parse(
        path: &Path,
        origin: &ResourceOrigin,
        text: &str,
    ) -> Result<(Self, Vec<ResourceWarning>), Malformed> {
        let Document { header, body, keys } = Document::<AgentHeader>::parse(text)?;
        let of_plugin = matches!(origin, ResourceOrigin::Plugin { .. });
        // A plugin may hold prompts alone, which go by the names of their files.
        let header = match header {
            Some(header) => header,
            None if of_plugin => AgentHeader::default(),
            None => {
                let reason = "it has no frontmatter; begin it with `name` and `description` \
                              between two lines `---`";
                return Err(Malformed::new(reason));
            }
        };
        let mut warnings = Vec::new();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let name = match &header.name {
            Some(name) => name.as_str(),
            None => stem.unwrap_or_default(),
        };
        let name = usable_name(name).map_err(Malformed::new)?;
        let description = match &header.description {
            Some(text) => one_line(text, MAX_DESCRIPTION_CHARS).0,
            None => {
                let path = path.to_owned();
                let kind = ResourceKind::Agent;
                warnings.push(ResourceWarning::DescriptionInferred { kind, path });
                one_line(&first_paragraph(body), MAX_DESCRIPTION_CHARS).0
            }
        };
        if description.is_empty() {
            let reason = "it has no `description`; say in a sentence when to give work to it";
            return Err(Malformed::new(reason));
        }
        if body.trim().is_empty() {
            let reason = "it has no prompt; say after the frontmatter how the agent works";
            return Err(Malformed::new(reason));
        }
        let described = described_servers(header.mcp_servers.as_ref());
        if !of_plugin && !described.is_empty() {
            let path = path.to_owned();
            warnings.push(ResourceWarning::ServersNotStarted { path, described });
        }
        let mut unused: Vec<&'static str> = Vec::new();
        let mut drop_if = |condition: bool, key: &'static str| {
            if condition {
                unused.push(key);
            }
        };
        drop_if(header.memory.is_some(), "memory");
        drop_if(header.initial_prompt.is_some(), "initialPrompt");
        drop_if(header.effort.is_some(), "effort");
        drop_if(header.background.is_some(), "background");
        // The public rule: what comes with a plugin does not widen what an agent may do.
        drop_if(of_plugin && header.hooks.is_some(), "hooks");
        drop_if(of_plugin && header.mcp_servers.is_some(), "mcpServers");
        drop_if(
            of_plugin && header.permission_mode.is_some(),
            "permissionMode",
        );
        let unused = unused.into_iter().map(str::to_owned);
        UnreadKeys::of(&keys, KEYS).report(unused, ResourceKind::Agent, path, &mut warnings);
        let narrowed = header.tools.iter().flat_map(|list| &list.0);
        let narrowed: Vec<String> = narrowed.filter(|it| is_narrowed(it)).cloned().collect();
        if !narrowed.is_empty() {
            warnings.push(ResourceWarning::ToolsNotGranted {
                path: path.to_owned(),
                entries: narrowed,
            });
        }
        let own = |value: Option<Value>| value.filter(|it| !of_plugin && !it.is_null());
        let list = |list: Option<WordList>| list.unwrap_or_default().0;
        let definition = AgentDef {
            description,
            prompt: body.trim().to_owned(),
            path: path.to_owned(),
            origin: origin.clone(),
            tools: header
                .tools
                .map(|list| list.0)
                .filter(|tools| tools.iter().all(|tool| tool != "*")),
            disallowed_tools: list(header.disallowed_tools),
            model: model(header.model),
            effort: header.effort.as_deref().map(effort).transpose()?,
            permission_mode: match header.permission_mode.as_deref() {
                Some(mode) if !of_plugin => permission_mode(mode)?,
                _ => None,
            },
            max_turns: match header.max_turns {
                Some(0) => return Err(Malformed::new("`maxTurns` must be 1 or more")),
                turns => turns,
            },
            skills: list(header.skills).into_iter().map(Into::into).collect(),
            mcp_servers: own(header.mcp_servers),
            hooks: own(header.hooks),
            isolation: header.isolation.as_deref().map(isolation).transpose()?,
            background: header.background.unwrap_or_default(),
            ..AgentDef::new(name, "", "")
        };
        Ok((Self { definition }, warnings))
    }

    /// What the agent is called by its content, wherever its file is.
    pub(crate) fn content_name(&self) -> String {
        let mut placeless = self.definition.clone();
        placeless.path = Default::default();
        let written = serde_json::to_vec(&placeless).unwrap_or_default();
        ContentName::default().field(written).finish("agt")
    }

    /// Whether using it can run programs that its file names.
    pub(crate) fn can_run_code(&self) -> bool {
        self.definition.hooks.is_some() || self.definition.mcp_servers.is_some()
    }

    /// Takes away what can run programs.
    pub(crate) fn disarm(&mut self) {
        self.definition.hooks = None;
        self.definition.mcp_servers = None;
    }
}

/// True for an entry of `tools` that means a part of what a tool does, such as
/// `Bash(git diff:*)`. An agent has a tool as a whole or not at all, so it has
/// none by such an entry: it would get more than the file asks for.
pub fn is_narrowed(entry: &str) -> bool {
    let specifier = entry.split_once('(').map(|(_, rest)| rest.trim());
    specifier.is_some_and(|rest| !matches!(rest, "*)" | ")"))
}

/// The names of the servers that a file describes instead of naming them.
fn described_servers(written: Option<&Value>) -> Vec<String> {
    match written {
        Some(Value::Array(entries)) => {
            let entries = entries.iter().map(Some);
            entries.flat_map(described_servers).collect()
        }
        Some(Value::Object(servers)) => servers.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

pub(crate) fn model(written: Option<String>) -> Option<String> {
    let written = written.map(|model| model.trim().to_owned());
    written.filter(|model| !model.is_empty() && model != "inherit")
}

fn effort(written: &str) -> Result<ReasoningEffort, Malformed> {
    let value = Value::String(written.trim().to_owned());
    serde_json::from_value(value).map_err(|_| {
        Malformed::new(format!(
            "`effort` is `{}`; use low, medium, high, xhigh or max",
            written.escape_debug()
        ))
    })
}

/// Public modes in our terms, each no wider than what it is called elsewhere.
/// `dontAsk` allows what needs no question.
fn permission_mode(written: &str) -> Result<Option<PermissionMode>, Malformed> {
    Ok(Some(match written.trim() {
        "default" | "" => return Ok(None),
        "plan" | "dontAsk" => PermissionMode::ReadOnly,
        "acceptEdits" | "auto" => PermissionMode::WorkspaceWrite,
        "bypassPermissions" => PermissionMode::FullAccess,
        ours => ours.parse().map_err(|_| {
            Malformed::new(format!(
                "`permissionMode` is `{}`; use default, plan, dontAsk, acceptEdits, auto or \
                 bypassPermissions",
                ours.escape_debug()
            ))
        })?,
    }))
}

fn isolation(written: &str) -> Result<AgentIsolation, Malformed> {
    match written.trim() {
        "worktree" => Ok(AgentIsolation::Worktree),
        other => Err(Malformed::new(format!(
            "`isolation` is `{}`; the only one is `worktree`",
            other.escape_debug()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(text: &str) -> Result<(AgentDef, Vec<ResourceWarning>), Malformed> {
        parse_from(&ResourceOrigin::User, text)
    }

    fn parse_from(
        origin: &ResourceOrigin,
        text: &str,
    ) -> Result<(AgentDef, Vec<ResourceWarning>), Malformed> {
        let path = Path::new("/a/code-reviewer.md");
        LoadedAgent::parse(path, origin, text).map(|(agent, told)| (agent.definition, told))
    }

    const FULL: &str = "---\nname: reviewer\ndescription: Reviews.\ntools: Read, Grep, Bash(git diff:*)\n\
        disallowedTools: [Write]\nmodel: haiku\neffort: high\npermissionMode: plan\nmaxTurns: 7\n\
        skills: style, tests\nisolation: worktree\nbackground: true\ncolor: blue\n\
        mcpServers: [github]\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        - type: command\n          command: ./check\n\
        ---\n\nYou review.\n";

    #[test]
    fn a_part_of_a_tool_is_told_from_the_whole() {
        for (entry, narrowed) in [
            ("Bash", false),
            ("Bash(*)", false),
            ("Bash()", false),
            ("Bash(git diff:*)", true),
            ("Agent(worker, reader)", true),
        ] {
            assert_eq!(is_narrowed(entry), narrowed, "{entry}");
        }
    }

    #[test]
    fn every_public_key_is_read() {
        let (agent, told) = parse(FULL).unwrap();
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        assert!(
            told.len() == 2 && told[0].contains("effort, background, color"),
            "{told:?}"
        );
        // It would get the whole shell.
        assert!(
            told[1].contains("does not have Bash(git diff:*)"),
            "{told:?}"
        );
        let hook = json!({"type": "command", "command": "./check"});
        assert_eq!(
            agent,
            AgentDef {
                path: "/a/code-reviewer.md".into(),
                origin: ResourceOrigin::User,
                tools: Some(vec![
                    "Read".into(),
                    "Grep".into(),
                    "Bash(git diff:*)".into()
                ]),
                disallowed_tools: vec!["Write".into()],
                model: Some("haiku".into()),
                effort: Some(ReasoningEffort::High),
                permission_mode: Some(PermissionMode::ReadOnly),
                max_turns: Some(7),
                skills: vec!["style".into(), "tests".into()],
                mcp_servers: Some(json!(["github"])),
                hooks: Some(json!({"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]})),
                isolation: Some(AgentIsolation::Worktree),
                background: true,
                ..AgentDef::new("reviewer", "Reviews.", "You review.")
            }
        );
    }

    #[test]
    fn keys_that_nothing_reads_are_named_and_misspelt_ones_are_put_right() {
        let text = "---\nname: a\ndescription: d\ndisallowed-tools: Bash\nPermissionMode: plan\n\
                    maxturn: 3\ntemperature: 1\n---\np";
        let (agent, told) = parse(text).unwrap();
        assert_eq!((agent.permission_mode, agent.max_turns), (None, None));
        let (kind, path) = (ResourceKind::Agent, Path::new("/a/code-reviewer.md"));
        let misspelt = |key: &str, meant: &str| ResourceWarning::KeyMisspelt {
            kind,
            path: path.to_owned(),
            key: key.to_owned(),
            meant: meant.to_owned(),
        };
        assert_eq!(
            told,
            [
                ResourceWarning::KeysUnused {
                    kind,
                    path: path.to_owned(),
                    keys: vec!["temperature".to_owned()],
                },
                misspelt("PermissionMode", "permissionMode"),
                misspelt("disallowed-tools", "disallowedTools"),
                misspelt("maxturn", "maxTurns"),
            ]
        );
        assert_eq!(told.iter().filter(|it| !it.is_note()).count(), 3);
        let said = "agent /a/code-reviewer.md: nothing reads `maxturn`; write `maxTurns`";
        assert_eq!(told[3].to_string(), said);
    }

    #[test]
    fn a_plugins_agent_cannot_widen_what_it_may_do() {
        let origin = ResourceOrigin::Plugin {
            plugin_id: "p".into(),
        };
        let (agent, told) = parse_from(&origin, FULL).unwrap();
        assert_eq!(
            (agent.hooks, agent.mcp_servers, agent.permission_mode),
            (None, None, None)
        );
        let told = told[0].to_string();
        assert!(
            told.contains("hooks, mcpServers, permissionMode, color"),
            "{told}"
        );
        let (plain, told) = parse_from(&origin, "You review code.\n\nMore.").unwrap();
        assert_eq!(plain.name.as_str(), "code-reviewer");
        assert_eq!(plain.description, "You review code.");
        assert_eq!(told.len(), 1);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let with = |line: &str| format!("---\nname: a\ndescription: d\n{line}\n---\np");
        for (text, said) in [
            ("You review.".to_owned(), "no frontmatter"),
            ("---\nname: a\n---\n".to_owned(), "no `description`"),
            (
                "---\nname: a\ndescription: d\n---\n \n".to_owned(),
                "no prompt",
            ),
            (with("permissionMode: everything"), "`permissionMode`"),
            (with("isolation: planet"), "`isolation`"),
            (with("effort: heroic"), "`effort`"),
            (with("maxTurns: 0"), "`maxTurns`"),
            (with("maxTurns: many"), "not the YAML expected"),
            (with("tools: {a: 1}"), "not the YAML expected"),
            ("---\nname: a:b\ndescription: d\n---\np".to_owned(), "`:`"),
            ("---\nname: ../b\ndescription: d\n---\np".to_owned(), "`/`"),
            ("---\nname: a\n".to_owned(), "has no end"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.reason.contains(said), "{text}: {}", error.reason);
        }
        let (agent, _) =
            parse(&with("model: inherit\npermissionMode: default\ntools: '*'")).unwrap();
        assert_eq!(
            (agent.model, agent.permission_mode, agent.tools),
            (None, None, None)
        );
    }
}
