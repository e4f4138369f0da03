//! Types of subagents: what each is for, and what it has of what its parent has.

use halter_protocol::public_tools::{our_tool_name, public_server_name};
use halter_protocol::resource::bare_name;
use halter_protocol::{
    AgentDef, AgentIsolation, ModelId, ModelRole, PermissionMode, ResourceSnapshot, ToolName,
};
use halter_resources::is_narrowed;
use halter_resources::render::{SkillScope, skill_text};
use halter_tools::AgentTypeLine;
use indexmap::IndexMap;
use serde_json::Value;

/// A type of subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentType {
    /// The name a model asks for it by.
    pub name: String,
    /// When to use it, in one line.
    pub description: String,
    /// What its system prompt says beside that of its parent.
    pub prompt: String,
    /// The tools it has, as far as its parent has them; absent: all of them.
    pub tools: Option<Vec<ToolName>>,
    /// MCP servers whose tools it has besides, as far as its parent has them.
    pub servers: Vec<String>,
    /// Tools it does not have.
    pub removed_tools: Vec<ToolName>,
    /// The widest mode it runs in; absent: that of its parent.
    pub permission_mode: Option<PermissionMode>,
    /// The registered model it uses where a call names none.
    pub model: Option<ModelId>,
    /// How many model calls one of its turns may make.
    pub max_turns: Option<u32>,
    /// Whether it works in a git worktree of its own.
    pub worktree: bool,
}

impl AgentType {
    fn built_in(name: &str, description: &str, prompt: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            prompt: prompt.to_owned(),
            tools: None,
            servers: Vec::new(),
            removed_tools: Vec::new(),
            permission_mode: None,
            model: None,
            max_turns: None,
            worktree: false,
        }
    }

    /// The type that a file defines. Names of tools may be public ones.
    fn of_file(agent: &AgentDef, resources: &ResourceSnapshot) -> Self {
        let ours = |written: &String| {
            let name = written.split('(').next().unwrap_or_default().trim();
            ToolName::from(our_tool_name(name))
        };
        let skills = agent.skills.iter();
        let skills = skills.filter_map(|name| resources.skill(name.as_str()).ok());
        let prompt = skills.fold(agent.prompt.clone(), |prompt, skill| {
            let text = skill_text(skill, "", SkillScope::Resources(resources)).text;
            format!("{prompt}\n\n# Skill {}\n\n{text}", skill.name)
        });
        Self {
            tools: agent.tools.as_ref().map(|written| {
                let whole = written.iter().filter(|entry| !is_narrowed(entry));
                whole.map(ours).collect()
            }),
            servers: server_names(agent.mcp_servers.as_ref()),
            removed_tools: agent.disallowed_tools.iter().map(ours).collect(),
            permission_mode: agent.permission_mode,
            model: agent.model.as_deref().and_then(model_of),
            max_turns: agent.max_turns,
            worktree: agent.isolation == Some(AgentIsolation::Worktree),
            ..Self::built_in(agent.name.as_str(), &agent.description, &prompt)
        }
    }

    fn with_tools(mut self, lists: &[&[&str]]) -> Self {
        let names = lists.iter().flat_map(|list| list.iter());
        self.tools = Some(names.map(|name| ToolName::from(*name)).collect());
        self
    }

    fn read_only(mut self) -> Self {
        self.permission_mode = Some(PermissionMode::ReadOnly);
        self
    }

    /// Whether the type has a tool, if its parent has it.
    pub fn has_tool(&self, name: &ToolName) -> bool {
        let any = |list: &[ToolName]| list.iter().any(|entry| covers(entry.as_str(), name));
        let listed = self.tools.as_ref().is_none_or(|list| any(list));
        let of_server = |server: &String| {
            let server = public_server_name(server);
            covers(&format!("{MCP}{server}"), name)
        };
        (listed || self.servers.iter().any(of_server)) && !any(&self.removed_tools)
    }
}

/// What names of tools of MCP servers begin with.
const MCP: &str = "mcp__";

/// Whether an entry names a tool: itself, or all of its server as `mcp__server`
/// or `mcp__server__*`.
fn covers(entry: &str, name: &ToolName) -> bool {
    if entry == name.as_str() {
        return true;
    }
    let server = entry.strip_suffix("__*").unwrap_or(entry);
    let below = name.as_str().strip_prefix(server);
    server.starts_with(MCP) && below.is_some_and(|rest| rest.starts_with("__"))
}

/// The servers that a file names. One that it describes itself is not started:
/// it counts if the harness has one of that name.
fn server_names(written: Option<&Value>) -> Vec<String> {
    match written {
        Some(Value::Array(entries)) => entries
            .iter()
            .flat_map(|entry| match entry {
                Value::String(name) => vec![name.clone()],
                entry => server_names(Some(entry)),
            })
            .collect(),
        Some(Value::Object(servers)) => servers.keys().cloned().collect(),
        Some(Value::String(name)) => vec![name.clone()],
        _ => Vec::new(),
    }
}

/// The model that a file names: a registered id, or a public alias. Those stand
/// for the role that does such work here.
fn model_of(written: &str) -> Option<ModelId> {
    match written {
        "inherit" | "sonnet" | "opus" => None,
        "haiku" => Some(ModelRole::Small.as_str().into()),
        id => Some(id.into()),
    }
}

/// The type of a subagent for which no other is named.
pub const GENERAL: &str = "general";

/// Tools that look and change nothing.
const LOOKING: &[&str] = &[
    "read",
    "glob",
    "grep",
    "list",
    "web_fetch",
    "web_search",
    "current_time",
    "tool_search",
    "skill",
];

/// The types of subagents that a session can start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTypes(IndexMap<String, AgentType>);

impl AgentTypes {
    /// The built-in types.
    pub fn built_in() -> Self {
        let types = [
            AgentType::built_in(
                GENERAL,
                "any work, with the tools you have",
                "Do the task, check your work, and report what you did and found.",
            ),
            AgentType::built_in(
                "explore",
                "finds things out; reads and searches, changes nothing",
                "You look and report; you change nothing. Search widely first, then read what \
                 matters. Report facts with the files and lines they come from.",
            )
            .with_tools(&[LOOKING])
            .read_only(),
            AgentType::built_in(
                "plan",
                "works out how to do something; reads, changes nothing, runs nothing",
                "You work out how a change is best made; you make none. Read what the change \
                 touches. Report the steps in order, with the files they change, what could go \
                 wrong, and how to check the result.",
            )
            .with_tools(&[LOOKING, &["task"]])
            .read_only(),
            AgentType::built_in(
                "verify",
                "checks work by running it; edits no files itself",
                "You check work that others did; you do not repair it. Build it, run its tests, \
                 try what they leave out. Report what holds, what does not, and the commands and \
                 output that show it.",
            )
            .with_tools(&[LOOKING, &["shell", "process", "task"]]),
        ];
        let named = types.into_iter().map(|it| (it.name.clone(), it));
        Self(named.collect())
    }

    /// The types of a session with these resources: the built-in ones, and those
    /// that files define. One of a file takes the place of a built-in one.
    pub fn of(resources: &ResourceSnapshot) -> Self {
        let mut types = Self::built_in();
        for agent in resources.agents.values() {
            let agent_type = AgentType::of_file(agent, resources);
            types.0.insert(agent_type.name.clone(), agent_type);
        }
        types
    }

    /// The type of a name. Without the plugin's name it must be the only one
    /// that is called so.
    pub fn get(&self, name: &str) -> Option<&AgentType> {
        let name = match name {
            // What public files call the built-in types.
            "general-purpose" => GENERAL,
            "Explore" if !self.0.contains_key(name) => "explore",
            "Plan" if !self.0.contains_key(name) => "plan",
            name => name,
        };
        let same = |it: &&AgentType| bare_name(&it.name) == name;
        let mut same = self.0.values().filter(same);
        let only = same.next().filter(|_| same.next().is_none());
        self.0.get(name).or(only)
    }

    /// The names of all types.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// All types as a model is told of them.
    pub fn lines(&self) -> Vec<AgentTypeLine> {
        let line = |it: &AgentType| AgentTypeLine {
            name: it.name.clone(),
            description: it.description.clone(),
        };
        self.0.values().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_agent_has_the_tools_of_the_servers_it_names() {
        let agent = AgentDef {
            tools: Some(vec!["Read".into(), "mcp__notes__*".into()]),
            disallowed_tools: vec!["mcp__github__delete".into(), "mcp__mail".into()],
            mcp_servers: Some(json!(["github", "acme.docs", {"mail": {"command": "mail-server"}}])),
            ..AgentDef::new("a", "d", "p")
        };
        let own = AgentType::of_file(&agent, &ResourceSnapshot::empty());
        for (tool, has) in [
            ("read", true),
            ("write", false),
            ("mcp__github__list", true),
            ("mcp__github__delete", false),
            ("mcp__githubber__list", false),
            ("mcp__acme_docs__find", true),
            ("mcp__notes__add", true),
            ("mcp__mail__send", false),
            ("mcp__other__x", false),
        ] {
            assert_eq!(own.has_tool(&tool.into()), has, "{tool}");
        }
    }

    #[test]
    fn who_asks_for_a_part_of_a_tool_does_not_get_the_whole() {
        let agent = AgentDef {
            tools: Some(vec!["Read".into(), "Bash(git diff:*)".into()]),
            ..AgentDef::new("a", "d", "p")
        };
        let own = AgentType::of_file(&agent, &ResourceSnapshot::empty());
        assert!(own.has_tool(&"read".into()));
        assert!(!own.has_tool(&"shell".into()));
    }

    #[test]
    fn public_names_of_built_in_types_are_known() {
        let types = AgentTypes::built_in();
        for (public, ours) in [
            ("general-purpose", "general"),
            ("Explore", "explore"),
            ("Plan", "plan"),
        ] {
            assert_eq!(types.get(public).unwrap().name, ours);
        }
        assert!(types.get("Verify").is_none());
    }
}
