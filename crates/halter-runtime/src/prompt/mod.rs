//! The system prompt: guidance, then skills, then the boundary, then instruction
//! files and the environment as found when the session started.
//!
//! Everything before the boundary is the same for all sessions of a
//! configuration. Nothing here changes while a session lives, unless its
//! resources are replaced, which is an announced cut.

mod environment;
mod guidance;
mod instructions;

pub use environment::{EnvironmentProbe, describe_change, git_snapshot};
pub(crate) use environment::{git_snapshot_elsewhere, look_around};
pub use guidance::{CODING_GUIDANCE, GENERAL_GUIDANCE};
pub(crate) use instructions::{describe_instructions, instructions_segment};

use halter_protocol::{
    AssembledPrompt, EnvironmentSnapshot, OutputStyleDef, PromptSegment, PromptSegmentKind,
    ResourceSnapshot, SessionBlueprint, ToolSpec, encoding::escape_path,
};
use halter_resources::render::{SkillScope, skill_text};
use halter_tools::SKILL_TOOL;
use std::fmt::Write as _;

/// What a prompt is assembled from.
#[derive(Debug, Clone, Copy)]
pub struct PromptContext<'a> {
    /// What was fixed when the session started: guidance, instruction files and
    /// environment.
    pub blueprint: &'a SessionBlueprint,
    /// The resources in force.
    pub resources: &'a ResourceSnapshot,
    /// The tools that the session's model is told of, deferred ones included.
    pub tools: &'a [ToolSpec],
}

/// Makes a session's system prompt. It must depend on nothing but its
/// arguments: equal arguments, equal prompt.
pub trait PromptAssembler: Send + Sync {
    /// The prompt of a session.
    fn assemble(&self, context: PromptContext<'_>) -> AssembledPrompt;
}

/// Guidance, skills, boundary, instruction files, environment.
#[derive(Debug, Clone, Copy, Default)]
pub struct StandardPromptAssembler;

impl PromptAssembler for StandardPromptAssembler {
    fn assemble(&self, context: PromptContext<'_>) -> AssembledPrompt {
        let skills = skills_segment(context.resources, context.tools);
        let environment = environment_segment(context.blueprint);
        AssembledPrompt::new(
            context
                .blueprint
                .system_prompt
                .iter()
                .cloned()
                .chain(skills)
                .chain([environment]),
        )
    }
}

/// Which guidance a session starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSettings {
    /// Text that replaces the built-in guidance.
    pub system_prompt: Option<String>,
    /// The built-in guidance, where nothing replaces it.
    pub guidance: &'static str,
    /// Text added after the guidance.
    pub append_system_prompt: Option<String>,
}

impl Default for PromptSettings {
    fn default() -> Self {
        Self {
            system_prompt: None,
            guidance: GENERAL_GUIDANCE,
            append_system_prompt: None,
        }
    }
}

impl PromptSettings {
    /// The guidance segments of a session: its own prompt over the configured
    /// one over the built-in one; then the configured addition, then its own.
    pub fn segments(
        &self,
        own_prompt: Option<&str>,
        own_additions: &[String],
    ) -> Vec<PromptSegment> {
        let base = own_prompt
            .or(self.system_prompt.as_deref())
            .filter(|text| !text.trim().is_empty())
            .unwrap_or(self.guidance);
        let additions = self
            .append_system_prompt
            .iter()
            .chain(own_additions)
            .filter(|text| !text.trim().is_empty())
            .map(|text| PromptSegment::new(PromptSegmentKind::Append, text.as_str()));
        std::iter::once(PromptSegment::new(PromptSegmentKind::System, base))
            .chain(additions)
            .collect()
    }

    /// The guidance segments of a session with an output style: it takes the
    /// place of the built-in guidance, or follows it if it says so. A configured
    /// prompt stays and is followed by it; a session's own only if it says so.
    #[must_use]
    pub fn with_style(
        &self,
        segments: &[PromptSegment],
        style: &OutputStyleDef,
    ) -> Vec<PromptSegment> {
        let mut styled = segments.to_vec();
        let Some(base) = styled.first_mut() else {
            return styled;
        };
        // A session may have started with another preset.
        let built_in = [self.guidance, GENERAL_GUIDANCE, CODING_GUIDANCE];
        let is_built_in = built_in.iter().any(|text| *text == &*base.text);
        let is_configured = self.system_prompt.as_deref() == Some(&*base.text);
        if style.keeps_guidance || is_configured {
            let addition = PromptSegment::new(PromptSegmentKind::Append, style.prompt.as_str());
            styled.insert(1, addition);
        } else if is_built_in {
            *base = PromptSegment::new(PromptSegmentKind::System, style.prompt.as_str());
        }
        styled
    }
}

/// Names and descriptions of skills. A body is here only if its skill says so;
/// the others join the conversation when they are used.
fn skills_segment(resources: &ResourceSnapshot, tools: &[ToolSpec]) -> Option<PromptSegment> {
    let listed = resources.skills.values().filter(|skill| !skill.user_only);
    let (always, listed): (Vec<_>, Vec<_>) = listed.partition(|skill| skill.always);
    if always.is_empty() && listed.is_empty() {
        return None;
    }
    let mut text = String::from("# Skills\n\nInstructions for particular tasks.");
    let has_tool = tools.iter().any(|tool| tool.name.as_str() == SKILL_TOOL);
    if !listed.is_empty() {
        text.push_str(match has_tool {
            true => {
                " When one fits the task, load it with the `skill` tool before you start, and \
                 follow it.\n"
            }
            false => {
                " When one fits the task, read its file with the `read` tool before you start, \
                 and follow it.\n"
            }
        });
    }
    // Writing to a string cannot fail.
    for skill in listed {
        let _ = write!(text, "\n- {}: {}", skill.name, skill.description);
        if !skill.paths.is_empty() {
            let _ = write!(text, " For: {}.", skill.paths.join(", "));
        }
        if !has_tool {
            let _ = write!(text, " ({})", escape_path(&skill.path));
        }
    }
    for skill in always {
        let body = skill_text(skill, "", SkillScope::Resources(resources)).text;
        let _ = write!(text, "\n\n## {}\n\n{body}", skill.name);
    }
    Some(PromptSegment::new(PromptSegmentKind::Skill, text))
}

fn environment_segment(blueprint: &SessionBlueprint) -> PromptSegment {
    let EnvironmentSnapshot {
        platform,
        date,
        git,
    } = &blueprint.environment;
    let mut text = format!(
        "# Environment\n\n- Directory: {}\n- Platform: {platform}\n- Date: {date}",
        escape_path(&blueprint.working_dir)
    );
    if let Some(git) = git {
        let _ = write!(text, "\n- Git: {} in {}", git.head, escape_path(&git.root));
    }
    PromptSegment::new(PromptSegmentKind::Environment, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::{GitSnapshot, SkillDef, Timestamp};

    fn blueprint(settings: &PromptSettings) -> SessionBlueprint {
        SessionBlueprint {
            session_id: "ses_1".into(),
            parent_session_id: None,
            created_at: Timestamp::UNIX_EPOCH,
            working_dir: "/project".into(),
            default_model: "default".into(),
            system_prompt: settings.segments(None, &["be brief".into()]),
            environment: EnvironmentSnapshot {
                platform: "linux x86_64".into(),
                date: "2026-01-02".into(),
                git: Some(GitSnapshot {
                    head: "main".into(),
                    root: "/project".into(),
                }),
            },
            instructions: Vec::new(),
            snapshot_revision: "r".into(),
            tools_revision: None,
            max_turns: None,
            bounds: Default::default(),
            budget: Default::default(),
            subagent_model: None,
            subagent_event_forwarding: Default::default(),
            subagent: None,
        }
    }

    #[test]
    fn the_boundary_lies_between_skills_and_environment() {
        let mut resources = ResourceSnapshot::empty();
        resources.skills.insert(
            "release".into(),
            SkillDef::new(
                "skl_1",
                "release",
                "How to release.",
                "/skills/release/SKILL.md",
                "SECRET STEPS",
            ),
        );
        let settings = PromptSettings {
            append_system_prompt: Some("house rules".into()),
            ..PromptSettings::default()
        };
        let blueprint = blueprint(&settings);
        let prompt = StandardPromptAssembler.assemble(PromptContext {
            blueprint: &blueprint,
            resources: &resources,
            tools: &[],
        });
        let kinds = |segments: &[PromptSegment]| -> Vec<String> {
            segments.iter().map(|s| s.kind.to_string()).collect()
        };
        assert_eq!(
            kinds(prompt.static_segments()),
            ["system", "append", "append", "skill"]
        );
        assert_eq!(kinds(prompt.dynamic_segments()), ["environment"]);
        let text = prompt.text();
        assert!(text.contains("- release: How to release. (/skills/release/SKILL.md)"));
        assert!(
            !text.contains("SECRET STEPS"),
            "bodies are read when needed"
        );
        assert!(text.ends_with("- Date: 2026-01-02\n- Git: main in /project"));
    }

    #[test]
    fn a_style_replaces_the_guidance_or_follows_what_is_somebodys_own() {
        let style = |keeps_guidance| OutputStyleDef {
            name: "Terse".into(),
            description: "Few words.".into(),
            prompt: "STYLE".into(),
            keeps_guidance,
            path: "/styles/terse.md".into(),
            origin: Default::default(),
        };
        let plain = PromptSettings::default();
        let configured = PromptSettings {
            system_prompt: Some("configured".into()),
            append_system_prompt: Some("added".into()),
            ..PromptSettings::default()
        };
        for (settings, own, keeps, expected) in [
            (&plain, None, false, &["STYLE", "more"][..]),
            (&plain, None, true, &[GENERAL_GUIDANCE, "STYLE", "more"]),
            (&plain, Some("own"), false, &["own", "more"]),
            (&plain, Some("own"), true, &["own", "STYLE", "more"]),
            (
                &configured,
                None,
                false,
                &["configured", "STYLE", "added", "more"],
            ),
        ] {
            let segments = settings.segments(own, &["more".to_owned()]);
            let styled = settings.with_style(&segments, &style(keeps));
            let texts: Vec<&str> = styled.iter().map(|segment| &*segment.text).collect();
            assert_eq!(texts, expected, "{own:?} {keeps}");
        }
        // One that started with the other preset.
        let coding = PromptSettings {
            guidance: CODING_GUIDANCE,
            ..PromptSettings::default()
        };
        let styled = plain.with_style(&coding.segments(None, &[]), &style(false));
        assert_eq!(&*styled[0].text, "STYLE");
    }

    #[test]
    fn precedence_of_prompts() {
        let configured = PromptSettings {
            system_prompt: Some("configured".into()),
            guidance: CODING_GUIDANCE,
            append_system_prompt: None,
        };
        let base = |settings: &PromptSettings, own| settings.segments(own, &[])[0].text.to_string();
        assert_eq!(base(&configured, Some("own")), "own");
        assert_eq!(base(&configured, None), "configured");
        let preset = PromptSettings {
            system_prompt: None,
            ..configured
        };
        assert_eq!(base(&preset, None), CODING_GUIDANCE);
        assert_eq!(
            base(&PromptSettings::default(), Some("  ")),
            GENERAL_GUIDANCE
        );
    }
}
