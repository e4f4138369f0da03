//! Rules held against the parts of a command line.

use std::borrow::Cow;

use halter_protocol::permission::CommandPattern;

use super::reading::git_words;
use crate::shell::{CommandPart, ShellDecision, ShellJudge};

/// Whether a rule of the shell judge is about a form that destroys something.
pub(super) fn is_destructive(rule: &str) -> bool {
    rule.starts_with("shell.destructive")
}

/// Programs that run what their arguments say in ways of their own: an open
/// rule for one of them would cover any program at all.
const NEVER_OPENED: &[&str] = &["flock", "setsid", "watch"];

/// Arguments that make `find` run or remove things.
const FIND_ACTIONS: &[&str] = &["-delete", "-exec", "-execdir", "-ok", "-okdir"];

/// Whether a rule that asks or denies covers the part: however the program is
/// spelled, whatever is quoted.
pub(super) fn closes(pattern: &CommandPattern, part: &CommandPart) -> bool {
    let line = part.line();
    if pattern.matches(&line) {
        return true;
    }
    // `git -C . push` is a push as well.
    let name = part.program().and_then(|it| it.rsplit('/').next());
    if name == Some("git") {
        let words = git_words(&part.words).iter().map(|it| it.text.as_str());
        let plain: Vec<&str> = std::iter::once("git").chain(words).collect();
        if pattern.matches(&plain.join(" ")) {
            return true;
        }
    }
    // `/bin/rm` is an `rm` as well.
    let (program, rest) = line.split_once(' ').unwrap_or((line.as_str(), ""));
    match program.rsplit_once('/') {
        Some((_, name)) => pattern.matches(format!("{name} {rest}").trim_end()),
        None => false,
    }
}

/// Whether a rule that allows covers the part: its words, each taken as one.
pub(super) fn opens(pattern: &CommandPattern, part: &CommandPart) -> bool {
    let Some(program) = part.program() else {
        return false;
    };
    // It may run more than the parts show.
    if part.unclear.is_some() {
        return false;
    }
    if pattern.is_open() {
        let acts = |word: &str| FIND_ACTIONS.contains(&word);
        let finds = program == "find" && part.words.iter().any(|it| acts(&it.text));
        if finds || NEVER_OPENED.contains(&program) {
            return false;
        }
    }
    pattern.matches(&joined(part, |text| {
        text.is_empty() || text.contains(char::is_whitespace)
    }))
}

/// The words as the shell would read them again.
pub(super) fn quoted_line(part: &CommandPart) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+^".contains(c);
    joined(part, |text| text.is_empty() || !text.chars().all(plain))
}

/// The words with a blank between them. Those that hold blanks or nothing have
/// to be quoted, or a rule could take one word for several.
fn joined(part: &CommandPart, quotes: impl Fn(&str) -> bool) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let words = part.words.iter().map(|word| match &word.text {
        text if word.literal && quotes(text) => Cow::Owned(quoted(text)),
        text => Cow::Borrowed(text.as_str()),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether a command destroys something, by the shell judge. Its program
/// counts as listed here.
pub(super) fn destroys(line: &str, program: &str) -> bool {
    let judge = ShellJudge::new(vec![program.to_owned()]);
    matches!(judge.decide(line), ShellDecision::Ask(refusal) if is_destructive(refusal.rule))
}

/// Whether a rule names a form that destroys something: its own words are one.
pub(super) fn names_destruction(pattern: &CommandPattern) -> bool {
    let program = pattern.words.split(' ').next().unwrap_or_default();
    !program.contains('*') && destroys(&pattern.words.replace('*', "x"), program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::parts;
    use halter_protocol::{PermissionRule, RuleEffect, RuleSubject};

    fn pattern(rule: &str) -> CommandPattern {
        let rule = PermissionRule::parse(rule, RuleEffect::Allow).unwrap();
        match rule.subject() {
            RuleSubject::Command(pattern) => pattern.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn part(command: &str) -> CommandPart {
        parts(command).unwrap().parts.remove(0)
    }

    #[test]
    fn what_closes_sees_through_quotes_and_paths() {
        let push = pattern("Bash(git push:*)");
        for command in [
            "git push",
            "git 'push' origin",
            "g\\it push",
            "/usr/bin/git push -f",
            "git -C . push",
            "git --no-pager -c user.name=x push origin",
            "/usr/bin/git -C sub push",
        ] {
            assert!(closes(&push, &part(command)), "{command}");
        }
        for command in ["git pull", "git -C push pull", "gitpush", "echo git push"] {
            assert!(!closes(&push, &part(command)), "{command}");
        }
    }

    #[test]
    fn what_opens_takes_a_word_for_one() {
        let push = pattern("Bash(git push)");
        assert!(opens(&push, &part("git push")));
        assert!(opens(&push, &part("git 'push'")));
        for command in ["'git push'", "/usr/bin/git push", "git push x"] {
            assert!(!opens(&push, &part(command)), "{command}");
        }
        assert!(opens(
            &pattern("Bash(git commit *)"),
            &part("git commit -m 'a b'")
        ));
        assert!(opens(&pattern("Bash(find:*)"), &part("find . -name x")));
        assert!(!opens(&pattern("Bash(find:*)"), &part("find . -delete")));
        assert!(!opens(&pattern("Bash(watch:*)"), &part("watch ls")));
    }
}
