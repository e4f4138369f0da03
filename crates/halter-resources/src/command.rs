//! A command file.

use crate::agent::model;
use crate::content::ContentName;
use crate::header::{Document, Malformed, UnreadKeys, WordList, first_paragraph, one_line};
use crate::limits::MAX_DESCRIPTION_CHARS;
use crate::name::usable_name;
use crate::render::has_commands;
use crate::skill::allow_rules;
use crate::warning::ResourceWarning;
use halter_protocol::resource::NAME_SEPARATOR;
use halter_protocol::{CommandDef, ResourceKind, ResourceOrigin};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Component, Path};

/// A command read from disk, or made in code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedCommand {
    /// What it says.
    pub definition: CommandDef,
}

impl From<CommandDef> for LoadedCommand {
    fn from(definition: CommandDef) -> Self {
        Self { definition }
    }
}

/// The keys that are known here.
const KEYS: &[&str] = &[
    "description",
    "argument-hint",
    "arguments",
    "model",
    "allowed-tools",
    "disallowed-tools",
    "agent",
    "background",
    "context",
    "disable-model-invocation",
    "effort",
    "hooks",
    "name",
    "paths",
    "user-invocable",
];

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct CommandHeader {
    description: Option<String>,
    argument_hint: Option<Value>,
    arguments: Option<WordList>,
    model: Option<String>,
    allowed_tools: Option<WordList>,
    disallowed_tools: Option<WordList>,
    // What has no effect here: see `unused`.
    agent: Option<Value>,
    background: Option<Value>,
    context: Option<Value>,
    disable_model_invocation: Option<bool>,
    effort: Option<Value>,
    hooks: Option<Value>,
    name: Option<Value>,
    paths: Option<Value>,
    user_invocable: Option<bool>,
}

impl CommandHeader {
    /// The keys that are known and have no effect here. Models never start a
    /// command, whatever it says, and a user always can.
    fn unused(&self) -> Vec<String> {
        let keys = [
            ("agent", self.agent.is_some()),
            ("background", self.background.is_some()),
            ("context", self.context.is_some()),
            (
                "disable-model-invocation",
                self.disable_model_invocation == Some(false),
            ),
            ("effort", self.effort.is_some()),
            ("hooks", self.hooks.is_some()),
            ("name", self.name.is_some()),
            ("paths", self.paths.is_some()),
            ("user-invocable", self.user_invocable == Some(false)),
        ];
        let present = keys.into_iter().filter(|(_, is_unused)| *is_unused);
        present.map(|(key, _)| key.to_owned()).collect()
    }
}

impl LoadedCommand {
    /// Reads the text of a command file. `relative` is its path below its
    /// folder: the name, with the directories before it.
    pub(crate) fn parse(
        path: &Path,
        relative: &Path,
        origin: &ResourceOrigin,
        text: &str,
    ) -> Result<(Self, Vec<ResourceWarning>), Malformed> {
        let Document { header, body, keys } = Document::<CommandHeader>::parse(text)?;
        let header = header.unwrap_or_default();
        let name = name(relative)?;
        if body.trim().is_empty() {
            return Err(Malformed::new("it says nothing after its frontmatter"));
        }
        let description = match &header.description {
            Some(text) => one_line(text, MAX_DESCRIPTION_CHARS).0,
            None => one_line(&first_paragraph(body), MAX_DESCRIPTION_CHARS).0,
        };
        let mut warnings = Vec::new();
        let unread = UnreadKeys::of(&keys, KEYS);
        unread.report(header.unused(), ResourceKind::Command, path, &mut warnings);
        let rules = header.allowed_tools.as_ref();
        let allowed_tools = allow_rules(rules, path, ResourceKind::Command, &mut warnings);
        let definition = CommandDef {
            name,
            description,
            prompt: body.trim().to_owned(),
            path: path.to_owned(),
            origin: origin.clone(),
            argument_hint: hint(header.argument_hint),
            arguments: header.arguments.unwrap_or_default().0,
            model: model(header.model),
            allowed_tools,
            disallowed_tools: header.disallowed_tools.unwrap_or_default().0,
            runs_commands: has_commands(body),
        };
        Ok((Self { definition }, warnings))
    }

    /// Whether using it can run programs that its file names, or spare a
    /// question.
    pub(crate) fn can_run_code(&self) -> bool {
        !self.definition.allowed_tools.is_empty() || self.definition.runs_commands
    }

    /// Takes that away.
    pub(crate) fn disarm(&mut self) {
        self.definition.allowed_tools.clear();
        self.definition.runs_commands = false;
    }

    /// What the command is called by its content, wherever its file is.
    pub(crate) fn content_name(&self) -> String {
        let mut placeless = self.definition.clone();
        placeless.path = Default::default();
        let written = serde_json::to_vec(&placeless).unwrap_or_default();
        ContentName::default().field(written).finish("cmd")
    }
}

/// `argument-hint: [issue]` is a list to YAML, and a hint to people.
pub(crate) fn hint(written: Option<Value>) -> Option<String> {
    let text = match written? {
        Value::String(text) => text,
        Value::Array(items) => {
            let items = items.iter().map(|item| match item {
                Value::String(text) => format!("[{text}]"),
                other => format!("[{other}]"),
            });
            items.collect::<Vec<_>>().join(" ")
        }
        _ => return None,
    };
    let (line, _) = one_line(&text, MAX_DESCRIPTION_CHARS);
    (!line.is_empty()).then_some(line)
}

/// `git/commit.md` is called `git:commit`.
fn name(relative: &Path) -> Result<String, Malformed> {
    let stem = relative.with_extension("");
    let mut parts = Vec::new();
    for part in stem.components() {
        let Component::Normal(part) = part else {
            return Err(Malformed::new("its path leads out of the folder"));
        };
        let part = part.to_str().unwrap_or_default();
        let part = usable_name(part).map_err(Malformed::new)?;
        if part.contains(char::is_whitespace) {
            let reason = format!("a command is typed, and its name `{part}` has a space");
            return Err(Malformed::new(reason));
        }
        parts.push(part);
    }
    Ok(parts.join(&NAME_SEPARATOR.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(relative: &str, text: &str) -> Result<CommandDef, Malformed> {
        let path = Path::new("/c").join(relative);
        let origin = ResourceOrigin::Project;
        LoadedCommand::parse(&path, Path::new(relative), &origin, text)
            .map(|(command, _)| command.definition)
    }

    #[test]
    fn a_command_is_named_by_its_path() {
        let text = "---\ndescription: Fixes.\nargument-hint: [issue] [priority]\narguments: issue, priority\nmodel: small\n---\nFix $issue.\n";
        let command = parse("git/fix-issue.md", text).unwrap();
        assert_eq!(command.name, "git:fix-issue");
        assert_eq!(command.prompt, "Fix $issue.");
        assert_eq!(command.argument_hint.as_deref(), Some("[issue] [priority]"));
        assert_eq!(command.arguments, ["issue", "priority"]);
        assert_eq!(command.model.as_deref(), Some("small"));
        let plain = parse("hello.md", "Say hello.\n\nMore.").unwrap();
        assert_eq!(
            (plain.name.as_str(), plain.description.as_str()),
            ("hello", "Say hello.")
        );
        let listed = parse("a.md", "---\nargument-hint: [issue]\n---\nx").unwrap();
        assert_eq!(listed.argument_hint.as_deref(), Some("[issue]"));
    }

    #[test]
    fn keys_of_skills_hold_or_are_reported() {
        let text = "---\ndisallowed-tools: [Write, Bash]\ncontext: fork\nagent: Explore\n\
                    background: true\ndisable-model-invocation: true\nuser-invocable: true\n\
                    effort: high\nhooks: {Stop: []}\nname: other\npaths: src/**\n---\nGo.";
        let (path, origin) = (Path::new("/c/go.md"), ResourceOrigin::Project);
        let parse = |text| LoadedCommand::parse(path, Path::new("go.md"), &origin, text).unwrap();
        let (command, warnings) = parse(text);
        assert_eq!(command.definition.name, "go");
        assert_eq!(command.definition.disallowed_tools, ["Write", "Bash"]);
        let keys = "agent background context effort hooks name paths";
        let unused = |keys: &str| ResourceWarning::KeysUnused {
            kind: ResourceKind::Command,
            path: path.to_owned(),
            keys: keys.split(' ').map(str::to_owned).collect(),
        };
        assert_eq!(warnings, [unused(keys)]);
        // Here users start commands, and models never do.
        let (_, warnings) =
            parse("---\ndisable-model-invocation: false\nuser-invocable: false\n---\nGo.");
        assert_eq!(
            warnings,
            [unused("disable-model-invocation user-invocable")]
        );
    }

    #[test]
    fn what_cannot_be_typed_is_refused() {
        for (relative, text) in [
            ("a b.md", "x"),
            ("a:b.md", "x"),
            ("-x.md", "x"),
            ("x.md", "---\nmodel: a\n---\n"),
            ("x.md", "---\nmodel: [a]\n---\nx"),
        ] {
            assert!(parse(relative, text).is_err(), "{relative} {text:?}");
        }
    }
}
