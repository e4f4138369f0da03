//! The files that commands of handlers name: what runs when they do.

use super::handler::{FileHandler, HandlerAction};
use std::path::{Path, PathBuf};

/// Where a command line ends a word, as far as paths go.
fn is_end(character: char) -> bool {
    character.is_whitespace() || ";&|()<>`=".contains(character)
}

impl FileHandler {
    /// The files that its command names by a path and that are there: from the
    /// session's directory, the project's, or the place of a plugin or skill.
    /// What these run themselves is not looked for. Blocks on the file system.
    pub fn named_files(&self, cwd: &Path, project_dir: &Path) -> Vec<PathBuf> {
        let places = self.origin.places(project_dir);
        let words: Vec<String> = match &self.action {
            HandlerAction::Shell { line, .. } => {
                let mut line = line.replace(['"', '\''], "");
                for (name, directory) in &places {
                    let directory = directory.to_string_lossy();
                    line = line.replace(&format!("${{{name}}}"), &directory);
                    line = line.replace(&format!("${name}"), &directory);
                }
                line.split(is_end).map(str::to_owned).collect()
            }
            HandlerAction::Program { program, args, .. } => {
                let words = std::iter::once(program).chain(args);
                let filled = words.map(|word| {
                    places.iter().fold(word.clone(), |word, (name, directory)| {
                        word.replace(&format!("${{{name}}}"), &directory.to_string_lossy())
                    })
                });
                // One may be a line for a shell.
                let split = |word: String| {
                    let parts: Vec<String> = word.split(is_end).map(str::to_owned).collect();
                    parts.into_iter().chain([word])
                };
                filled.flat_map(split).collect()
            }
            _ => return Vec::new(),
        };
        let directory = self.origin.project_dir.as_deref().unwrap_or(cwd);
        let words = words.iter().filter(|word| !word.is_empty());
        let paths = words.filter_map(|word| std::fs::canonicalize(directory.join(word)).ok());
        paths.filter(|path| path.is_file()).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::file::{HookOrigin, parse_value};
    use crate::registry::Hooks;
    use serde_json::{Value, json};
    use std::fs;
    use std::path::Path;

    fn named(origin: &HookOrigin, handler: Value, project: &Path) -> Vec<String> {
        let mut hooks = Hooks::new();
        let parsed = parse_value(&json!({"Stop": [{"hooks": [handler]}]}), origin);
        assert_eq!(hooks.add_file(parsed).len(), 0);
        let files = hooks.named_files(&project.join("below"), project);
        let relative = files.iter().map(|file| file.strip_prefix(project).unwrap());
        relative.map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn files_are_found_wherever_a_command_names_them() {
        let project = tempfile::tempdir().unwrap();
        let project = project.path().canonicalize().unwrap();
        for file in ["below/a.sh", "a.sh", "plugin/b.sh", "plugin/skill/c.py"] {
            let path = project.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let user = HookOrigin::user("hooks.json");
        let plugin = HookOrigin::plugin("p".into(), project.join("plugin"), "p")
            .with_skill_dir(project.join("plugin/skill"));
        let of_project = HookOrigin::project("hooks.json", &project);
        let line = |line: &str| json!({"type": "command", "command": line});
        for (origin, handler, expected) in [
            (&user, line("./a.sh"), vec!["below/a.sh"]),
            (&user, line("X=1;sh 'a.sh'>log"), vec!["below/a.sh"]),
            (&user, line("\"$CLAUDE_PROJECT_DIR\"/a.sh x"), vec!["a.sh"]),
            (&of_project, line("sh a.sh"), vec!["a.sh"]),
            (
                &plugin,
                line("${CLAUDE_PLUGIN_ROOT}/b.sh"),
                vec!["plugin/b.sh"],
            ),
            (
                &plugin,
                line("python3 $CLAUDE_SKILL_DIR/c.py && sh ../a.sh"),
                vec!["a.sh", "plugin/skill/c.py"],
            ),
            (
                &plugin,
                json!({"type": "command", "command": "bash",
                       "args": ["-c", "true; ${PLUGIN_ROOT}/b.sh"]}),
                vec!["plugin/b.sh"],
            ),
            (&user, line("true missing.sh ."), vec![]),
            (&user, json!({"type": "prompt", "prompt": "a.sh"}), vec![]),
        ] {
            assert_eq!(
                named(origin, handler.clone(), &project),
                expected,
                "{handler}"
            );
        }
    }
}
