//! A request for approval as a person reads it, and what they answer.

use halter_protocol::{
    Action, ApprovalAnswer, ApprovalChoice, ApprovalRequest, AskedBy, RequestOrigin,
};
use serde_json::Value;

/// The call, why it is asked about, and what may be chosen.
pub fn text(request: &ApprovalRequest) -> String {
    let call = &request.call;
    let of_subagent = match &request.origin {
        Some(RequestOrigin {
            agent_id,
            agent_type,
            ..
        }) => {
            let kind = agent_type.as_deref().unwrap_or("general");
            format!(" for the subagent {agent_id} ({kind})")
        }
        None => String::new(),
    };
    let mut lines = vec![match (&request.asked_by, request.actions.as_slice()) {
        (AskedBy::RunningCall, [Action::Reach { host }]) => {
            format!("May {}, which runs, reach {host}{of_subagent}?", call.name)
        }
        _ => format!("May {} run{of_subagent}?", call.name),
    }];
    match &request.diff {
        Some(diff) => lines.extend(diff.lines().map(|line| format!("  {line}"))),
        None => lines.extend(arguments(&call.arguments)),
    }
    for action in &request.actions {
        if let Action::Run {
            directory: Some(directory),
            ..
        } = action
        {
            lines.push(format!("  in {}", directory.display()));
        }
    }
    let runs = |action: &Action| matches!(action, Action::Run { .. });
    let objection = &request.objection;
    if request.actions.iter().any(runs) && objection.parts.len() > 1 {
        lines.push("  It runs:".to_owned());
        for part in &objection.parts {
            let asked = objection.fragment.as_deref() == Some(part);
            let mark = if asked { "?" } else { " " };
            lines.push(format!("  {mark} {part}"));
        }
    }
    let why = match objection.message.as_str() {
        "" => objection.rule.clone(),
        message => format!("{message} ({})", objection.rule),
    };
    lines.push(format!("  Asked because: {why}"));
    lines.push(choices(request));
    lines.join("\n")
}

/// What may be chosen, and what to type for it.
pub fn choices(request: &ApprovalRequest) -> String {
    let rule = request.rule().unwrap_or_default();
    let offered = request.choices.iter().filter_map(|choice| match choice {
        ApprovalChoice::Once => Some("y  yes, this once".to_owned()),
        ApprovalChoice::Session => Some(format!("s  yes, and {rule} for this session")),
        ApprovalChoice::Always => Some(format!(
            "a  yes, and {rule} always: saved as a rule (a RULE saves a narrower one)"
        )),
        ApprovalChoice::Deny => Some("n  no (n REASON tells the model why)".to_owned()),
        _ => None,
    });
    let lines: Vec<String> = offered.map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// The arguments in full, a line each.
fn arguments(arguments: &Value) -> Vec<String> {
    let Some(fields) = arguments.as_object() else {
        return vec![format!("  {arguments}")];
    };
    let lines = fields.iter().flat_map(|(name, value)| match value {
        Value::String(text) if text.contains('\n') => {
            let inside = text.lines().map(|line| format!("    {line}"));
            std::iter::once(format!("  {name}:"))
                .chain(inside)
                .collect()
        }
        Value::String(text) => vec![format!("  {name}: {text}")],
        other => vec![format!("  {name}: {other}")],
    });
    lines.collect()
}

/// What a line says; none if it is no answer.
pub fn answer(line: &str) -> Option<ApprovalAnswer> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = Some(rest.trim()).filter(|rest| !rest.is_empty());
    let choice = match word.to_ascii_lowercase().as_str() {
        "y" | "yes" | "once" if rest.is_none() => ApprovalChoice::Once,
        "s" | "session" => ApprovalChoice::Session,
        "a" | "always" => ApprovalChoice::Always,
        "n" | "no" | "deny" => ApprovalChoice::Deny,
        _ => return None,
    };
    let rest = rest.map(str::to_owned);
    let (rule, reason) = match choice {
        ApprovalChoice::Deny => (None, rest),
        _ => (rest, None),
    };
    Some(ApprovalAnswer {
        choice,
        rule,
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::{Objection, ToolCall};
    use serde_json::json;

    fn request() -> ApprovalRequest {
        ApprovalRequest {
            approval_id: "apr_1".into(),
            call: ToolCall {
                id: "call_1".into(),
                name: "shell".into(),
                arguments: json!({"command": "npm test && npm publish", "timeout_ms": 5000}),
            },
            actions: vec![Action::Run {
                command: "npm test && npm publish".into(),
                directory: None,
            }],
            diff: None,
            asked_by: AskedBy::Policy,
            objection: Objection {
                fragment: Some("npm publish".into()),
                parts: vec!["npm test".into(), "npm publish".into()],
                always: Some("Bash(npm publish:*)".into()),
                ..Objection::new("program_not_listed", "npm is not among the listed programs")
            },
            choices: vec![
                ApprovalChoice::Once,
                ApprovalChoice::Session,
                ApprovalChoice::Always,
                ApprovalChoice::Deny,
            ],
            origin: None,
        }
    }

    #[test]
    fn everything_that_counts_is_shown() {
        let said = "\
May shell run?
  command: npm test && npm publish
  timeout_ms: 5000
  It runs:
    npm test
  ? npm publish
  Asked because: npm is not among the listed programs (program_not_listed)
  y  yes, this once
  s  yes, and Bash(npm publish:*) for this session
  a  yes, and Bash(npm publish:*) always: saved as a rule (a RULE saves a narrower one)
  n  no (n REASON tells the model why)";
        assert_eq!(text(&request()), said);
    }

    #[test]
    fn a_running_call_asks_about_a_host() {
        let mut request = request();
        request.asked_by = AskedBy::RunningCall;
        request.actions = vec![Action::Reach {
            host: "files.example:443".into(),
        }];
        let said = text(&request);
        let first = said.lines().next().unwrap();
        assert_eq!(first, "May shell, which runs, reach files.example:443?");
        assert!(
            said.contains("\n  command: npm test && npm publish\n"),
            "{said}"
        );
    }

    #[test]
    fn a_change_is_shown_as_such() {
        let mut request = request();
        request.actions.clear();
        request.diff = Some("--- a\n+++ a\n@@ -1 +1 @@\n-old\n+new\n".into());
        request.choices = vec![ApprovalChoice::Once, ApprovalChoice::Deny];
        let said = text(&request);
        assert!(
            said.starts_with("May shell run?\n  --- a\n  +++ a\n"),
            "{said}"
        );
        assert!(said.contains("\n  -old\n  +new\n"), "{said}");
        assert!(
            !said.contains("always") && !said.contains("command:"),
            "{said}"
        );
    }

    #[test]
    fn lines_are_answers() {
        let rule =
            |choice: ApprovalChoice, rule: &str| Some(ApprovalAnswer::from(choice).with_rule(rule));
        for (line, expected) in [
            ("y", Some(ApprovalChoice::Once.into())),
            (" YES ", Some(ApprovalChoice::Once.into())),
            ("s", Some(ApprovalChoice::Session.into())),
            ("a", Some(ApprovalChoice::Always.into())),
            (
                "a  Bash(npm test)",
                rule(ApprovalChoice::Always, "Bash(npm test)"),
            ),
            ("s Read", rule(ApprovalChoice::Session, "Read")),
            ("n", Some(ApprovalChoice::Deny.into())),
            ("no, thanks", None),
            ("n not today", Some(ApprovalAnswer::deny("not today"))),
            ("yes please", None),
            ("", None),
            ("what?", None),
        ] {
            assert_eq!(answer(line), expected, "{line}");
        }
    }
}
