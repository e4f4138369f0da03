//! `skill`: has the text of a skill join the conversation.

use crate::availability::HarnessFacts;
use crate::context::ToolContext;
use crate::subagents::spawn::report_of;
use crate::typed::TypedTool;
use anyhow::bail;
use async_trait::async_trait;
use halter_protocol::encoding::escape_path;
use halter_protocol::{
    ResourceUse, SkillDef, SkillFork, SpawnSubagentRequest, ToolCapabilities, ToolResult,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// The name of the tool that loads skills.
pub const SKILL_TOOL: &str = "skill";

/// Load a skill that the system prompt lists. Its text follows as a system
/// message, once; follow it. Files that it names are in its directory.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SkillInput {
    /// The skill's name, as listed.
    #[schemars(length(min = 1, max = 200))]
    skill: String,
    /// What to use it for, where it takes arguments.
    #[schemars(length(max = 10_000))]
    args: Option<String>,
}

pub(crate) struct SkillTool;

#[async_trait]
impl TypedTool for SkillTool {
    type Input = SkillInput;
    const NAME: &'static str = SKILL_TOOL;
    const SUMMARY: Option<&'static str> = Some("load a skill of the system prompt");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        // Commands of its text have deadlines of their own, and so has a
        // subagent that follows it.
        ToolCapabilities {
            long_running: true,
            ..super::support::LOOKS
        }
    }

    fn unavailable(&self, harness: &HarnessFacts<'_>) -> Option<String> {
        (!harness.skills).then(|| "no skill is loaded that a model may use".to_owned())
    }

    /// The driver adds the text, which outlives what is forgotten of results.
    async fn run(&self, context: ToolContext, input: SkillInput) -> anyhow::Result<ToolResult> {
        let skill = context.snapshot.skill(&input.skill)?;
        if skill.user_only {
            bail!(
                "the skill '{}' is for the user to start: tell them to type /{}",
                skill.name,
                skill.name
            );
        }
        if let Some(fork) = &skill.fork {
            return follow_below(&context, skill, fork, input.args).await;
        }
        let place = match skill.always {
            true => "its text is in the system prompt",
            false => {
                "its text is in a system message: the next one, or an earlier one if it was \
                 loaded before"
            }
        };
        Ok(ToolResult::json(json!({
            "skill": skill.name,
            "directory": skill.root().map(escape_path),
            "note": place,
        })))
    }
}

/// Has a subagent follow the skill, and returns its report.
async fn follow_below(
    context: &ToolContext,
    skill: &SkillDef,
    fork: &SkillFork,
    args: Option<String>,
) -> anyhow::Result<ToolResult> {
    let arguments = args.unwrap_or_default();
    let message = match arguments.trim() {
        "" => format!("Follow the skill '{}'.", skill.name),
        about => format!("Follow the skill '{}': {about}", skill.name),
    };
    let request = SpawnSubagentRequest {
        message,
        agent_type: fork.agent.clone(),
        wait: !fork.background,
        uses: vec![ResourceUse::Skill {
            name: skill.name.clone(),
            arguments,
        }],
        ..SpawnSubagentRequest::default()
    };
    let started = context.subagents()?.spawn(request).await?;
    if fork.background {
        context.load_tool("wait_agent");
        return Ok(ToolResult::json(serde_json::to_value(started)?));
    }
    let status = report_of(context, started.agent_id).await?;
    Ok(ToolResult::json(status))
}
