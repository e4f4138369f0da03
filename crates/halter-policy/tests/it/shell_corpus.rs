//! Command lines with what the judge must say about them, one per line.

use std::collections::BTreeMap;

use halter_policy::ShellJudge;
use halter_policy::shell::ShellDecision;
use serde_json::Value;

pub const ATTACKS: &str = include_str!("corpus/attacks.jsonl");
pub const ORDINARY: &str = include_str!("corpus/ordinary.jsonl");

/// The judge, the command and the class of each line.
pub fn lines(corpus: &str) -> impl Iterator<Item = (ShellJudge, String, String)> {
    corpus.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let allow = line["allow"].as_array().unwrap();
        let names: Vec<String> = allow
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect();
        (ShellJudge::new(names), text("command"), text("class"))
    })
}

#[test]
fn attacks_are_refused() {
    let mut classes: BTreeMap<String, usize> = BTreeMap::new();
    let mut accepted = Vec::new();
    for (judge, command, class) in lines(ATTACKS) {
        *classes.entry(class).or_default() += 1;
        match judge.decide(&command) {
            ShellDecision::Deny(refusal) => {
                assert!(refusal.rule.starts_with("shell."), "{refusal:?}");
                assert!(!refusal.message.is_empty());
            }
            _ => accepted.push(command),
        }
    }
    assert!(accepted.is_empty(), "accepted: {accepted:#?}");
    assert!(classes.values().sum::<usize>() >= 300, "{classes:?}");
    assert!(classes.len() >= 10, "{classes:?}");
}

#[test]
fn ordinary_work_is_accepted() {
    let mut count = 0;
    let mut refused = Vec::new();
    for (judge, command, _) in lines(ORDINARY) {
        count += 1;
        match judge.decide(&command) {
            ShellDecision::Allow => {}
            other => refused.push(format!("{command:?}: {other:?}")),
        }
    }
    assert!(
        refused.is_empty(),
        "{} refused: {refused:#?}",
        refused.len()
    );
    assert!(count >= 200, "{count}");
}
