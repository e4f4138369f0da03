//! Types of subagents: what each is for, and what it has of what its parent has.

use halter_protocol::public_tools::our_tool_name;
use halter_protocol::{
    AgentDef, AgentIsolation, ModelId, ModelRole, PermissionMode, ResourceSnapshot, ToolName,
};
use halter_tools::AgentTypeLine;
use indexmap::IndexMap;

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
            format!("{prompt}\n\n# Skill {}\n\n{}", skill.name, skill.body)
        });
        Self {
            tools: agent.tools.as_ref().map(|it| it.iter().map(ours).collect()),
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
        let listed = self.tools.as_ref().is_none_or(|it| it.contains(name));
        listed && !self.removed_tools.contains(name)
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

    /// The type of a name.
    pub fn get(&self, name: &str) -> Option<&AgentType> {
        self.0.get(name)
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
