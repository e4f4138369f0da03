//! Skills and output styles that join the conversation.
//!
//! Each text is a system message that the fold keeps in mind under a key, as it
//! does for instruction files: the message stays in force through compactions
//! and after a resume, and the same text is not told twice.

use super::Owner;
use crate::engine::SystemNote;
use halter_protocol::encoding::escape_path;
use halter_protocol::{
    ContentHash, InstructionFile, OutputStyleDef, ResourceUse, SkillDef, ToolCall, TurnError,
    UnresolvedName,
};
use halter_resources::render::{SkillScope, skill_text};
use halter_tools::SKILL_TOOL;
use serde_json::Value;

/// What keys of skills begin with. No path does.
const SKILL_KEY: &str = "skill:";

/// The key of the output style.
const STYLE_KEY: &str = "output-style";

impl Owner {
    /// The texts of what a user wants used, as far as they are new.
    pub(super) fn take_up_uses(
        &mut self,
        uses: &[ResourceUse],
    ) -> Result<Vec<SystemNote>, TurnError> {
        self.told_in_turn.clear();
        let snapshot = self.resources.snapshot.clone();
        let unresolved = |error: UnresolvedName| TurnError::new(error.code(), error.to_string());
        let mut notes = Vec::new();
        for wanted in uses {
            notes.extend(match wanted {
                ResourceUse::Skill { name, arguments } => {
                    let skill = snapshot.skill(name.as_str()).map_err(unresolved)?;
                    self.skill_note(skill, arguments)
                }
                ResourceUse::OutputStyle { name } => {
                    let style = snapshot.output_style(name).map_err(unresolved)?;
                    self.style_note(style)
                }
                _ => None,
            });
        }
        Ok(notes)
    }

    /// The text of the skill that a call loads, if it is new.
    pub(super) fn skill_used_by(&mut self, call: &ToolCall) -> Option<SystemNote> {
        if call.name.as_str() != SKILL_TOOL {
            return None;
        }
        let argument = |key: &str| call.arguments.get(key).and_then(Value::as_str);
        let snapshot = self.resources.snapshot.clone();
        let skill = snapshot.skill(argument("skill")?).ok()?;
        if skill.user_only {
            return None;
        }
        self.skill_note(skill, argument("args").unwrap_or_default())
    }

    fn skill_note(&mut self, skill: &SkillDef, arguments: &str) -> Option<SystemNote> {
        // One that is always there is in the prompt.
        if skill.always {
            return None;
        }
        let scope = SkillScope::Session {
            session_id: self.blueprint.session_id.as_str(),
            working_dir: &self.blueprint.working_dir,
            resources: &self.resources.snapshot,
        };
        let body = skill_text(skill, arguments, scope).text;
        let directory = skill.root().map(escape_path).unwrap_or_default();
        let text = format!(
            "The skill '{0}' is in use. Follow it. Files that it names are in {directory}.\n\n\
             <skill name=\"{0}\">\n{body}\n</skill>",
            skill.name
        );
        self.once(format!("{SKILL_KEY}{}", skill.name), text)
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
        let told = self.engine.state().instructions.get(&key);
        let told = told.and_then(|told| told.sha256.as_ref());
        let told = self.told_in_turn.get(&key).or(told);
        if told == Some(&sha256) {
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
}
