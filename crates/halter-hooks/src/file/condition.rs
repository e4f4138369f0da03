//! The `if` of a handler: one permission rule, held against the call.

use halter_policy::permission::{PermissionTree, Permissions, SourcedRule};
use halter_policy::{ProgramList, shell};
use halter_protocol::encoding::spelled_path;
use halter_protocol::public_tools::{changed_paths, our_tool_name, public_tool};
use halter_protocol::{
    Action, CallToJudge, PermissionRule, RuleEffect, RuleSource, RuleSubject, ToolCall,
};
use serde_json::Value;
use std::fmt;
use std::path::Path;

/// A permission rule such as `Bash(git push:*)`. It holds where a rule that
/// asks would cover the call, or a part of its command line.
#[derive(Debug, Clone)]
pub(crate) struct RuleCondition {
    rule: PermissionRule,
}

impl RuleCondition {
    /// Reads a rule, and says what was read instead where nothing else can be
    /// meant: paths of `Write` are covered by rules of `Edit`.
    pub fn parse(text: &str) -> Result<(Self, Option<String>), String> {
        let error = match PermissionRule::parse(text, RuleEffect::Ask) {
            Ok(rule) => return Ok((Self { rule }, None)),
            Err(error) => error,
        };
        let meant = error.nearest.as_deref().filter(|_| error.position == 0);
        let meant = meant.and_then(|it| PermissionRule::parse(it, RuleEffect::Ask).ok());
        match meant {
            Some(rule) => {
                let note = format!("`{text}` is read as `{rule}`: {}", error.problem);
                Ok((Self { rule }, Some(note)))
            }
            None => Err(error.to_string()),
        }
    }

    /// Whether the call in a payload is one of those meant. What cannot be
    /// compared is: a guard runs rather than not.
    pub fn holds(&self, payload: &Value, cwd: &Path) -> bool {
        let Some(name) = payload.get("tool_name").and_then(Value::as_str) else {
            return true;
        };
        let input = payload.get("tool_input").cloned().unwrap_or_default();
        let actions = actions(name, &input);
        // Nothing says what such a call changes: its input is not as it should be.
        if our_tool_name(name) == "apply_patch" && actions.is_empty() {
            return true;
        }
        if matches!(self.rule.subject(), RuleSubject::Command(_)) {
            let unreadable = |action: &Action| match action {
                Action::Run { command, .. } => shell::parts(command).is_err(),
                _ => false,
            };
            if actions.iter().any(unreadable) {
                return true;
            }
        }
        let permissions = Permissions {
            rules: vec![SourcedRule {
                effect: RuleEffect::Ask,
                rule: self.rule.clone(),
                source: RuleSource::Hook,
                place: None,
                base: None,
            }],
            ..Permissions::default()
        };
        let Ok(tree) = PermissionTree::bind(&permissions, ProgramList::Default, cwd) else {
            return true;
        };
        let work_of = public_tool(name).map(|tool| tool.work_of(&input).collect::<Vec<_>>());
        std::iter::once(name)
            .chain(work_of.unwrap_or_default())
            .any(|name| {
                let call = ToolCall {
                    id: "call".into(),
                    name: name.into(),
                    arguments: input.clone(),
                };
                !tree
                    .covering(&CallToJudge::new(call, actions.clone()))
                    .is_empty()
            })
    }
}

impl fmt::Display for RuleCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rule.fmt(f)
    }
}

/// What a call of a built-in tool would touch, as far as rules name it.
fn actions(tool: &str, input: &Value) -> Vec<Action> {
    let tool = our_tool_name(tool);
    let text = |field: &str| input.get(field).and_then(Value::as_str);
    let mut actions = Vec::new();
    match tool {
        "shell" | "pty" | "process" | "profile" => {
            // Who types into a program that runs may type commands.
            let line = match text("action") {
                Some("write") => text("input"),
                _ => text("command"),
            };
            actions.extend(line.map(|command| Action::Run {
                command: command.to_owned(),
                directory: text("cwd").map(spelled_path),
            }));
        }
        "read" | "grep" | "glob" | "list" | "image" => {
            actions.extend(text("path").map(|path| Action::Read {
                path: spelled_path(path),
            }));
        }
        "ast_grep" => actions.push(Action::Read {
            path: spelled_path(text("path").unwrap_or(".")),
        }),
        "web_fetch" | "browser" => {
            let address = text("url").and_then(|url| url.split_once("://"));
            let host = address.and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
            let host = host.map(|host| host.rsplit('@').next().unwrap_or(host).to_owned());
            actions.extend(host.map(|host| Action::Reach { host }));
        }
        _ => {}
    }
    let changed = changed_paths(tool, input).into_iter();
    actions.extend(changed.map(|path| Action::Write {
        path: spelled_path(path),
    }));
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn holds(rule: &str, tool: &str, input: Value) -> bool {
        let (condition, _) = RuleCondition::parse(rule).unwrap();
        let payload = json!({"tool_name": tool, "tool_input": input});
        condition.holds(&payload, Path::new("/project"))
    }

    #[test]
    fn a_rule_holds_for_what_it_covers() {
        for (rule, tool, input, expected) in [
            ("Bash", "shell", json!({"command": "ls"}), true),
            (
                "Bash(git push:*)",
                "shell",
                json!({"command": "git push -f"}),
                true,
            ),
            (
                "Bash(git push *)",
                "shell",
                json!({"command": "cd x && git push"}),
                true,
            ),
            (
                "Bash(git push *)",
                "shell",
                json!({"command": "git status"}),
                false,
            ),
            (
                "Bash(rm *)",
                "shell",
                json!({"command": "echo $(rm -r x)"}),
                true,
            ),
            (
                "Bash(rm *)",
                "shell",
                json!({"command": "cannot { be ( read"}),
                true,
            ),
            (
                "Bash(rm *)",
                "pty",
                json!({"action": "start", "command": "rm x"}),
                true,
            ),
            (
                "Bash(rm *)",
                "pty",
                json!({"action": "write", "input": "rm x\n", "command": "ls"}),
                true,
            ),
            (
                "Bash(rm *)",
                "pty",
                json!({"action": "write", "input": "ls"}),
                false,
            ),
            (
                "Bash(rm *)",
                "process",
                json!({"action": "write", "input": "cd x; rm y\n"}),
                true,
            ),
            ("Bash(rm *)", "process", json!({"action": "poll"}), false),
            ("Bash(rm *)", "profile", json!({"command": "rm x"}), true),
            (
                "Bash",
                "pty",
                json!({"action": "start", "command": "ls"}),
                true,
            ),
            ("Bash", "pty", json!({"action": "read"}), false),
            ("Bash(rm *)", "read", json!({"path": "rm"}), false),
            ("Edit(*.ts)", "edit", json!({"path": "src/a.ts"}), true),
            (
                "Edit(*.ts)",
                "write",
                json!({"path": "/project/a.ts"}),
                true,
            ),
            (
                "Edit(*.ts)",
                "multi_edit",
                json!({"edits": [{"path": "b.ts"}]}),
                true,
            ),
            (
                "Edit(*.ts)",
                "apply_patch",
                json!({"patch": "*** Begin Patch\n*** Add File: a.rs\n+x\n*** Update File: b.ts\n"}),
                true,
            ),
            (
                "Edit(*.ts)",
                "apply_patch",
                json!({"patch": "*** Begin Patch\n*** Add File: a.rs\n+x\n"}),
                false,
            ),
            (
                "Edit(*.ts)",
                "apply_patch",
                json!({"patch": "not a patch"}),
                true,
            ),
            ("Edit(*.ts)", "edit", json!({"path": "src/a.rs"}), false),
            ("Write(*.ts)", "write", json!({"path": "a.ts"}), true),
            (
                "Read(./secrets/**)",
                "read",
                json!({"path": "secrets/key"}),
                true,
            ),
            (
                "Read(./secrets/**)",
                "read",
                json!({"path": "src/key"}),
                false,
            ),
            (
                "WebFetch(domain:example.com)",
                "web_fetch",
                json!({"url": "https://example.com/x"}),
                true,
            ),
            (
                "WebFetch(domain:example.com)",
                "web_fetch",
                json!({"url": "https://other.org/example.com"}),
                false,
            ),
            ("mcp__git", "mcp__git__push", json!({}), true),
            ("mcp__git__*", "mcp__hub__push", json!({}), false),
            (
                "task(action:create)",
                "task",
                json!({"action": "create"}),
                true,
            ),
        ] {
            assert_eq!(
                holds(rule, tool, input.clone()),
                expected,
                "{rule} {tool} {input}"
            );
        }
    }

    #[test]
    fn a_rule_sees_the_path_that_the_tool_will_take() {
        let escaped = r"x.\x65nv";
        let patch = format!("*** Begin Patch\n*** Add File: {escaped}\n+x\n");
        for (tool, input) in [
            ("write", json!({"path": escaped})),
            ("edit", json!({"path": escaped})),
            ("multi_edit", json!({"edits": [{"path": escaped}]})),
            ("apply_patch", json!({"patch": patch})),
            ("rename", json!({"from": "a", "to": escaped})),
            ("delete", json!({"path": escaped})),
            (
                "ast_grep",
                json!({"action": "replace", "dry_run": false, "path": escaped}),
            ),
            ("image", json!({"path": "a.png", "output_path": escaped})),
        ] {
            assert!(holds("Edit(*.env)", tool, input), "{tool}");
        }
        assert!(holds("Read(*.env)", "read", json!({"path": escaped})));
    }

    #[test]
    fn a_directory_stands_for_the_files_in_it() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("src")).unwrap();
        std::fs::write(directory.path().join("src/a.ts"), "").unwrap();
        let (condition, _) = RuleCondition::parse("Edit(*.ts)").unwrap();
        let (other, _) = RuleCondition::parse("Edit(*.rs)").unwrap();
        for (tool, input) in [
            ("delete", json!({"path": "src", "recursive": true})),
            ("ast_grep", json!({"action": "replace", "dry_run": false})),
        ] {
            let payload = json!({"tool_name": tool, "tool_input": input});
            assert!(condition.holds(&payload, directory.path()), "{tool}");
            assert!(!other.holds(&payload, directory.path()), "{tool}");
        }
    }

    #[test]
    fn what_has_no_call_to_compare_with_holds() {
        let (condition, _) = RuleCondition::parse("Bash(rm *)").unwrap();
        assert!(condition.holds(&json!({"prompt": "x"}), Path::new("/")));
    }

    #[test]
    fn what_is_no_rule_is_refused_with_a_hint() {
        let error = RuleCondition::parse("Bash(rm").unwrap_err();
        assert!(error.contains("Bash(rm)"), "{error}");
        let (_, note) = RuleCondition::parse("Write(*.md)").unwrap();
        assert!(note.unwrap().contains("Edit(*.md)"));
    }
}
