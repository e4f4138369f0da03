//! What a user starts by its name: `/fix-issue 12`.

use crate::error::HalterError;
use crate::session::SessionHandle;
use halter_protocol::{ContentPart, ModelId, ResourceUse, Turn, UnresolvedName, UserMessage};
use halter_resources::render::{SkillScope, command_text};
use halter_tools::SKILL_TOOL;
use serde_json::json;

impl SessionHandle {
    /// The turn that a line stands for: one that begins with a slash and the
    /// name of a skill or a command, the rest being arguments. None for any
    /// other line.
    ///
    /// The prompt of a command follows the line in the message, when the turn
    /// begins if it has something run or read; the text of a skill joins the
    /// conversation before it, once.
    ///
    /// # Errors
    /// If the name stands for several, or for a skill that only models use.
    pub fn invocation(&self, line: &str) -> anyhow::Result<Option<Turn>> {
        let Some((name, arguments)) = split(line) else {
            return Ok(None);
        };
        let resources = self.services().resources.get();
        let snapshot = &resources.snapshot;
        // A command of this very name comes before a skill of a plugin that ends
        // in it.
        let is_command =
            !snapshot.skills.contains_key(name) && snapshot.commands.contains_key(name);
        let skill = (!is_command).then(|| snapshot.skill(name));
        match skill {
            None => {}
            Some(Ok(skill)) if skill.model_only => {
                let message = format!("the skill '{}' is for models to use", skill.name);
                return Err(HalterError::new("skill_not_invocable", message)
                    .with_hint("ask for what it does, in words")
                    .into());
            }
            Some(Ok(skill)) if skill.fork.is_some() => {
                let call = json!({"skill": skill.name, "args": arguments});
                let text = format!(
                    "The user wants the skill '{}', which a subagent follows: call the tool \
                     `{SKILL_TOOL}` with {call}, then say what it reports.",
                    skill.name
                );
                let message = UserMessage::text(line.trim()).with_part(ContentPart::Text { text });
                return Ok(Some(Turn::new(message)));
            }
            Some(Ok(skill)) => {
                let turn = Turn::user(line.trim()).with_use(ResourceUse::Skill {
                    name: skill.name.clone(),
                    arguments: arguments.to_owned(),
                });
                return Ok(Some(self.with_model(turn, skill.model.as_deref())));
            }
            Some(Err(error @ UnresolvedName::Ambiguous { .. })) => {
                return Err(unresolved(&error).into());
            }
            Some(Err(_)) => {}
        }
        let command = match snapshot.command(name) {
            Ok(command) => command,
            Err(error @ UnresolvedName::Ambiguous { .. }) => return Err(unresolved(&error).into()),
            Err(_) => return Ok(None),
        };
        let blueprint = self.blueprint();
        let scope = SkillScope::Session {
            session_id: blueprint.session_id.as_str(),
            working_dir: &blueprint.working_dir,
            resources: snapshot,
        };
        let rendered = command_text(command, arguments, scope);
        let name = command.name.clone();
        // What it has run and read is judged when the turn begins.
        let turn = match rendered.has_marks() {
            true => Turn::user(line.trim()).with_use(ResourceUse::CommandPrompt {
                name,
                arguments: arguments.to_owned(),
            }),
            false => {
                let text = rendered.text;
                let message = UserMessage::text(line.trim()).with_part(ContentPart::Text { text });
                Turn::new(message).with_use(ResourceUse::Command { name })
            }
        };
        Ok(Some(self.with_model(turn, command.model.as_deref())))
    }

    /// A model that is not known here, such as an alias of another service,
    /// changes nothing.
    fn with_model(&self, turn: Turn, model: Option<&str>) -> Turn {
        let model = model.map(ModelId::from);
        match model.filter(|model| self.services().models.resolve(model).is_ok()) {
            Some(model) => turn.with_default_model(model),
            None => turn,
        }
    }
}

fn unresolved(error: &UnresolvedName) -> HalterError {
    HalterError::new(error.code(), error.to_string())
}

/// The name and the rest of a line that begins with a slash. A path has a second
/// slash in its first word.
fn split(line: &str) -> Option<(&str, &str)> {
    let line = line.trim().strip_prefix('/')?;
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let is_name = !name.is_empty() && !name.contains('/');
    is_name.then(|| (name, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_from_a_path() {
        assert_eq!(split("/fix 12 now "), Some(("fix", "12 now")));
        assert_eq!(split(" /demo:fix"), Some(("demo:fix", "")));
        for line in ["fix", "/", "/ x", "/etc/passwd is here", ""] {
            assert_eq!(split(line), None, "{line}");
        }
    }
}
