//! Skills, agents, commands and output styles, as their files define them.
//!
//! Names of tools and models are kept as they were written: public ones such
//! as `Bash` and ours such as `shell`. Whoever uses a definition maps them.

use crate::encoding::escaped_path;
use crate::ids::{AgentName, SkillId, SkillName};
use crate::model::ReasoningEffort;
use crate::permission::PermissionMode;
use crate::resource::ResourceOrigin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A skill: its name and description go into the prompt, its body joins the
/// conversation when it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillDef {
    /// Names the skill; follows from its name and content.
    pub id: SkillId,
    /// The name a model refers to it by: `release`, or `demo:release` of a
    /// plugin.
    pub name: SkillName,
    /// When to use it, in one or two sentences.
    pub description: String,
    /// Its file.
    #[serde(with = "escaped_path")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// The whole text of the file.
    pub body: String,
    /// Where it came from.
    #[serde(default)]
    pub origin: ResourceOrigin,
    /// What its arguments mean, for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// Names of its arguments, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Files it is meant for, as glob patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The model of turns that a user starts with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether its body is part of every prompt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// Whether only a user may use it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub user_only: bool,
    /// Whether only a model may use it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub model_only: bool,
    /// Hooks of its frontmatter, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Value>,
    /// Permission rules that allow calls in turns that use it, as written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Tools that turns which use it do not have, as written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// The subagent that follows it instead of whoever uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<SkillFork>,
    /// Whether the commands that its text marks (`` !`date` ``) run when it is
    /// used. They pass the policy as any other; without this they are left to
    /// the model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs_commands: bool,
}

/// A skill that a subagent follows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillFork {
    /// The type of the subagent, as written; absent: `general`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether nobody waits for its report.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
}

impl SkillDef {
    /// A skill that a model and a user may use.
    pub fn new(
        id: impl Into<SkillId>,
        name: impl Into<SkillName>,
        description: impl Into<String>,
        path: impl Into<PathBuf>,
        body: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            description: description.into(),
            path: path.into(),
            body: body.into(),
            origin: ResourceOrigin::default(),
            argument_hint: None,
            arguments: Vec::new(),
            paths: Vec::new(),
            model: None,
            always: false,
            user_only: false,
            model_only: false,
            hooks: None,
            allowed_tools: Vec::new(),
            disallowed_tools: Vec::new(),
            fork: None,
            runs_commands: false,
        }
    }

    /// The directory of the skill, which tools may read.
    pub fn root(&self) -> Option<&Path> {
        self.path.parent()
    }
}

/// An agent: a prompt, and the bounds of the session that works under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentDef {
    /// Its name: `reviewer`, or `demo:reviewer` of a plugin.
    pub name: AgentName,
    /// When to give work to it.
    pub description: String,
    /// Its system prompt: the file without frontmatter.
    pub prompt: String,
    /// Its file.
    #[serde(with = "escaped_path")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// Where it came from.
    #[serde(default)]
    pub origin: ResourceOrigin,
    /// The tools it has, as written; without a list, those of its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Tools it does not have, as written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// Its model: a registered id or a public alias such as `haiku`; without
    /// one, whatever its parent would give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard its model should think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<ReasoningEffort>,
    /// The widest permission mode it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// How many model calls a turn of it may make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Skills whose bodies it starts with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<SkillName>,
    /// MCP servers of its frontmatter, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Value>,
    /// Hooks of its frontmatter, as written: `{Event: [{matcher, hooks}]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Value>,
    /// Whether it works apart from its parent's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<AgentIsolation>,
    /// Whether its parent goes on without waiting for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
}

impl AgentDef {
    /// An agent with all that its parent has.
    pub fn new(
        name: impl Into<AgentName>,
        description: impl Into<String>,
        prompt: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            prompt: prompt.into(),
            path: PathBuf::new(),
            origin: ResourceOrigin::default(),
            tools: None,
            disallowed_tools: Vec::new(),
            model: None,
            effort: None,
            permission_mode: None,
            max_turns: None,
            skills: Vec::new(),
            mcp_servers: None,
            hooks: None,
            isolation: None,
            background: false,
        }
    }
}

/// How an agent works apart from its parent's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentIsolation {
    /// In a git worktree of its own.
    Worktree,
}

/// A command: a prompt that a user sends by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandDef {
    /// Its name, without the slash: `fix-issue`, or `demo:fix-issue` of a
    /// plugin.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The prompt, with places for arguments.
    pub prompt: String,
    /// Its file.
    #[serde(with = "escaped_path")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// Where it came from.
    #[serde(default)]
    pub origin: ResourceOrigin,
    /// What its arguments mean, for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// Names of its arguments, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The model of the turn it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Permission rules that allow calls in that turn, as written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Tools that may not be called in that turn, as written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// Whether the commands that its text marks (`` !`date` ``) run when it is
    /// used. They pass the policy as any other; without this they are left to
    /// the model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs_commands: bool,
}

/// An output style: how a model shall answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputStyleDef {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What the model is told.
    pub prompt: String,
    /// Whether the built-in guidance stays beside it.
    #[serde(default)]
    pub keeps_guidance: bool,
    /// Its file.
    #[serde(with = "escaped_path")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// Where it came from.
    #[serde(default)]
    pub origin: ResourceOrigin,
}
