//! Skills and output styles that join the conversation.
//!
//! Each text is a system message that the fold keeps in mind under a key, as it
//! does for instruction files: the message stays in force through compactions
//! and after a resume, and the same text is not told twice.

use super::Owner;
use super::marked_text::{Consent, FinishedText, MarkedText, TextUse};
use crate::engine::SystemNote;
use crate::toolset::Toolset;
use halter_protocol::encoding::escape_path;
use halter_protocol::public_tools::our_tool_name;
use halter_protocol::{
    CommandDef, ContentHash, InstructionFile, Objection, OutputStyleDef, ResourceUse, SessionState,
    SkillDef, ToolCall, TurnError, UnresolvedName,
};
use halter_resources::render::{SkillScope, command_text, skill_text};
use halter_tools::SKILL_TOOL;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// What keys of skills begin with. No path does.
const SKILL_KEY: &str = "skill:";

/// The key of the output style.
const STYLE_KEY: &str = "output-style";

/// The names of the skills that the conversation follows.
pub(super) fn skills_in_use(state: &SessionState) -> impl Iterator<Item = String> {
    let told = state.instructions.iter();
    let told = told.filter(|(_, told)| told.sha256.is_some());
    told.filter_map(|(key, _)| Some(key.strip_prefix(SKILL_KEY)?.to_owned()))
}

/// What skills and commands that a turn uses change for its calls.
#[derive(Debug, Default)]
pub(super) struct TurnGrants {
    /// Permission rules that spare a question.
    pub allowed: Vec<String>,
    /// Tools that may not be called, by our names, and what withholds them.
    withheld: Vec<(String, String)>,
}

impl TurnGrants {
    fn add_skill(&mut self, skill: &SkillDef) {
        let user = format!("the skill '{}'", skill.name);
        self.add(&skill.allowed_tools, &skill.disallowed_tools, &user);
    }

    fn add_command(&mut self, command: &CommandDef) {
        let user = format!("the command '{}'", command.name);
        self.add(&command.allowed_tools, &command.disallowed_tools, &user);
    }

    fn add(&mut self, allowed: &[String], disallowed: &[String], user: &str) {
        for rule in allowed {
            if !self.allowed.contains(rule) {
                self.allowed.push(rule.clone());
            }
        }
        for written in disallowed {
            // A rule about some calls of a tool withholds all of them.
            let name = written.split('(').next().unwrap_or_default().trim();
            let name = our_tool_name(name).to_owned();
            self.withheld.push((name, user.to_owned()));
        }
    }

    /// Why a tool may not be called, if it may not.
    pub fn refusal(&self, tool: &str) -> Option<Objection> {
        let (_, user) = self.withheld.iter().find(|(name, _)| name == tool)?;
        let why = format!("{user}, which this turn uses, works without `{tool}`");
        Some(Objection::new("skill_disallows", why))
    }
}

/// A text that joins the conversation.
pub(super) enum UsedText {
    Ready(SystemNote),
    Marked(MarkedText),
}

impl Owner {
    /// The texts of what a user wants used, as far as they are new. Their
    /// commands run only where the policy allows them.
    pub(super) async fn take_up_uses(
        &mut self,
        uses: &[ResourceUse],
        cancel: &CancellationToken,
    ) -> Result<Vec<UsedText>, TurnError> {
        self.told_in_turn.clear();
        self.grants = TurnGrants::default();
        let snapshot = self.resources.snapshot.clone();
        let unresolved = |error: UnresolvedName| TurnError::new(error.code(), error.to_string());
        let mut texts = Vec::new();
        for wanted in uses {
            texts.extend(match wanted {
                ResourceUse::Skill { name, arguments } => {
                    let skill = snapshot.skill(name.as_str()).map_err(unresolved)?;
                    self.grants.add_skill(skill);
                    self.skill_used(skill, arguments, Consent::Policy, cancel)
                        .await
                }
                ResourceUse::OutputStyle { name } => {
                    let style = snapshot.output_style(name).map_err(unresolved)?;
                    self.style_note(style).map(UsedText::Ready)
                }
                ResourceUse::Command { name } => {
                    let command = snapshot.command(name).map_err(unresolved)?;
                    self.grants.add_command(command);
                    None
                }
                ResourceUse::CommandPrompt { name, arguments } => {
                    let command = snapshot.command(name).map_err(unresolved)?;
                    self.grants.add_command(command);
                    let text = command_text(command, arguments, self.skill_scope());
                    let text = self.judge_text(text, TextUse::Prompt, Consent::Policy, cancel);
                    Some(UsedText::Marked(text.await))
                }
                _ => None,
            });
        }
        Ok(texts)
    }

    /// The skill that a call uses here, with what it is used for.
    fn skill_of(&self, call: &ToolCall) -> Option<(SkillDef, String)> {
        if call.name.as_str() != SKILL_TOOL {
            return None;
        }
        let argument = |key: &str| call.arguments.get(key).and_then(Value::as_str);
        let skill = self.resources.snapshot.skill(argument("skill")?).ok()?;
        // What a subagent follows does not join here.
        if skill.user_only || skill.fork.is_some() {
            return None;
        }
        let arguments = argument("args").unwrap_or_default();
        Some((skill.clone(), arguments.to_owned()))
    }

    /// The lines that a call has run because the text of its skill says so, and
    /// the rules by which that skill allows some.
    pub(super) fn lines_of_skill(&mut self, call: &ToolCall) -> (Vec<String>, Vec<String>) {
        let Some((skill, arguments)) = self.skill_of(call) else {
            return Default::default();
        };
        // One that is always there is in the prompt.
        if !skill.runs_commands || skill.always {
            return Default::default();
        }
        let rendered = skill_text(&skill, &arguments, self.skill_scope());
        (self.lines_to_run(&rendered), skill.allowed_tools)
    }

    /// The text of the skill that a call loads, if it is new.
    pub(super) async fn skill_used_by(
        &mut self,
        call: &ToolCall,
        cancel: &CancellationToken,
    ) -> Option<UsedText> {
        let (skill, arguments) = self.skill_of(call)?;
        self.grants.add_skill(&skill);
        self.skill_used(&skill, &arguments, Consent::JudgedCall, cancel)
            .await
    }

    fn skill_scope(&self) -> SkillScope<'_> {
        SkillScope::Session {
            session_id: self.blueprint.session_id.as_str(),
            working_dir: &self.blueprint.working_dir,
            resources: &self.resources.snapshot,
        }
    }

    async fn skill_used(
        &mut self,
        skill: &SkillDef,
        arguments: &str,
        consent: Consent,
        cancel: &CancellationToken,
    ) -> Option<UsedText> {
        // One that is always there is in the prompt.
        if skill.always {
            return None;
        }
        let rendered = skill_text(skill, arguments, self.skill_scope());
        let directory = skill.root().map(escape_path).unwrap_or_default();
        let before = format!(
            "The skill '{0}' is in use. Follow it. Files that it names are in {directory}.\n\n\
             <skill name=\"{0}\">\n",
            skill.name
        );
        let after = "\n</skill>".to_owned();
        let key = format!("{SKILL_KEY}{}", skill.name);
        if !rendered.has_marks() {
            let text = format!("{before}{}{after}", rendered.text);
            return self.once(key, text).map(UsedText::Ready);
        }
        let told = self.told_under(&key).cloned();
        let around = (before, after);
        let use_ = TextUse::Note { key, around, told };
        let text = self.judge_text(rendered, use_, consent, cancel).await;
        Some(UsedText::Marked(text))
    }

    fn style_note(&mut self, style: &OutputStyleDef) -> Option<SystemNote> {
        let text = format!(
            "The user has chosen the output style '{0}'. From now on answer as it says.\n\n\
             <output-style name=\"{0}\">\n{1}\n</output-style>",
            style.name, style.prompt
        );
        self.once(STYLE_KEY.to_owned(), text)
    }

    /// A message that holds under a key; none if the model was told the same
    /// already.
    fn once(&mut self, key: String, text: String) -> Option<SystemNote> {
        let sha256 = ContentHash::hex_of(text.as_bytes());
        if self.told_under(&key) == Some(&sha256) {
            return None;
        }
        self.told_in_turn.insert(key.clone(), sha256.clone());
        Some(SystemNote {
            text,
            tools: Vec::new(),
            instructions: vec![InstructionFile {
                path: key,
                sha256: Some(sha256),
            }],
        })
    }

    /// The hash of what the model was told under a key.
    fn told_under(&self, key: &str) -> Option<&String> {
        let told = self.engine.state().instructions.get(key);
        let told = told.and_then(|told| told.sha256.as_ref());
        self.told_in_turn.get(key).or(told)
    }
}

impl UsedText {
    /// The text, once all that it has run has ended. None if the model was told
    /// the same already.
    pub(super) async fn finish(self, tools: &Toolset) -> Option<FinishedText> {
        match self {
            Self::Ready(note) => Some(FinishedText::Note(note)),
            Self::Marked(text) => text.finish(tools).await,
        }
    }
}
