//! The rule that is offered to somebody who is tired of a question.

use halter_protocol::{CallToJudge, PermissionRule, RuleEffect, RuleSubject};

use super::command::quoted_line;
use super::reading::TRANSPARENT;
use crate::network::Destination;
use crate::shell::{CommandPart, check_variable};

/// Programs that run whatever text they are given: an open rule for one of
/// them would allow everything.
const INTERPRETERS: &[&str] = &[
    "ash",
    "awk",
    "bash",
    "bun",
    "bunx",
    "busybox",
    "clj",
    "clojure",
    "csh",
    "dash",
    "deno",
    "doas",
    "elixir",
    "env",
    "expect",
    "fish",
    "flock",
    "gawk",
    "gdb",
    "ghci",
    "groovy",
    "guile",
    "iex",
    "ipython",
    "irb",
    "jshell",
    "julia",
    "ksh",
    "lua",
    "luajit",
    "mawk",
    "nawk",
    "nix-shell",
    "node",
    "nodejs",
    "nsenter",
    "nu",
    "octave",
    "osascript",
    "parallel",
    "perl",
    "php",
    "pwsh",
    "pypy",
    "python",
    "python2",
    "python3",
    "R",
    "racket",
    "rlwrap",
    "Rscript",
    "ruby",
    "runghc",
    "sbcl",
    "scala",
    "script",
    "setsid",
    "sh",
    "socat",
    "ssh",
    "strace",
    "su",
    "sudo",
    "swift",
    "tclsh",
    "tcsh",
    "ts-node",
    "tsx",
    "unshare",
    "uvx",
    "watch",
    "xonsh",
    "zsh",
];

/// The tool that runs commands.
const SHELL: &str = "shell";

/// Programs that run text as code, whatever it is.
const CODE_RUNNERS: &[&str] = &[".", "eval", "exec", "source"];

/// Programs whose first argument says what they do.
const WITH_SUBCOMMANDS: &[&str] = &[
    "apt",
    "brew",
    "bundle",
    "cargo",
    "composer",
    "docker",
    "dotnet",
    "gh",
    "git",
    "go",
    "gradle",
    "helm",
    "just",
    "kubectl",
    "make",
    "mvn",
    "npm",
    "npx",
    "pip",
    "pip3",
    "pnpm",
    "poetry",
    "rustup",
    "systemctl",
    "task",
    "terraform",
    "uv",
    "yarn",
];

/// Words after which the next one says what is done: `npm run test`.
const DEEPER: &[&str] = &["run", "exec", "x", "compose"];

/// An allow rule for one part; none where every such rule would be dangerous.
pub(super) fn for_part(part: &CommandPart) -> Option<String> {
    let program = part.program()?;
    let risky_variable = |name: &str| check_variable(name).is_err();
    if CODE_RUNNERS.contains(&program)
        || part.unclear.is_some()
        || part.assignments.iter().any(|it| risky_variable(&it.name))
        || part
            .wrappers
            .iter()
            .any(|it| !TRANSPARENT.contains(&it.as_str()))
    {
        return None;
    }
    let specifier = if interprets(program) {
        exact(part)?
    } else if WITH_SUBCOMMANDS.contains(&program) {
        subcommand(part)?
    } else {
        format!("{program}:*")
    };
    checked(format!("Bash({specifier})"))
}

/// Whether a program runs the text it is given, in whatever version.
fn interprets(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    let plain = name.trim_end_matches(|last: char| last.is_ascii_digit() || ".-".contains(last));
    [name, plain].iter().any(|it| INTERPRETERS.contains(it)) || name.starts_with("python")
}

/// The command itself, of an interpreter that is given a file and no code.
fn exact(part: &CommandPart) -> Option<String> {
    let script = part.words.get(1)?;
    let plain = part.is_literal() && !script.text.starts_with('-');
    (plain && !part.line().contains('*')).then(|| quoted_line(part))
}

/// A rule for a subcommand; none if that is to run an interpreter.
fn subcommand(part: &CommandPart) -> Option<String> {
    let mut words = Vec::new();
    for word in &part.words {
        let option = word.text.starts_with('-');
        if option || !word.literal || word.text.contains(|c: char| !fits(c)) {
            break;
        }
        words.push(word.text.as_str());
        if words.len() > 1 && !DEEPER.contains(&word.text.as_str()) {
            break;
        }
    }
    if words.iter().skip(1).any(|word| interprets(word)) {
        return None;
    }
    let words = words.join(" ");
    // Without a subcommand, and where it only says that something is run, the
    // open rule would cover all of them.
    let runs = |word: &str| words.ends_with(&format!(" {word}"));
    match words.contains(' ') && !DEEPER.iter().any(|word| runs(word)) {
        true => Some(format!("{words}:*")),
        false => Some(quoted_line(part)),
    }
}

fn fits(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_-./:=@".contains(character)
}

/// An allow rule for writing a file.
pub(super) fn for_write(path: &str) -> Option<String> {
    for_path("Edit", path)
}

/// An allow rule for reading a file.
pub(super) fn for_read(path: &str) -> Option<String> {
    for_path("Read", path)
}

fn for_path(tool: &str, path: &str) -> Option<String> {
    let special = |c: char| "*?[]!\\()".contains(c) || c.is_control();
    if path.contains(special) || path.split('/').any(|it| it == "..") {
        return None;
    }
    checked(match path.strip_prefix('/') {
        Some(_) => format!("{tool}(/{path})"),
        None => format!("{tool}(./{})", path.trim_start_matches("./")),
    })
}

/// An allow rule for a host, on every port.
pub(crate) fn for_host(host: &str) -> Option<String> {
    let host = Destination::parse(host).ok()?.host;
    checked(format!("WebFetch(domain:{host})"))
}

/// An allow rule for a tool; for one of a server, as it is defined now.
pub(super) fn for_tool(call: &CallToJudge) -> Option<String> {
    let name = call.call.name.as_str();
    checked(match &call.definition {
        Some(definition) => definition.rule_for(name),
        None => name.to_owned(),
    })
}

/// Whether an allow rule opens every command: it names none, or one that runs
/// whatever it is given. Nobody is offered such a rule, and an answer to a
/// question does not make one.
#[must_use]
pub fn opens_every_command(rule: &PermissionRule) -> bool {
    let pattern = match rule.subject() {
        RuleSubject::Tool(tool) => return tool.matches(SHELL),
        RuleSubject::Argument { tool, value, .. } => {
            return tool.matches(SHELL) && value.starts_with('*');
        }
        RuleSubject::Command(pattern) => pattern,
        _ => return false,
    };
    let mut words = pattern.words.split_whitespace();
    let Some(program) = words.find(|word| !TRANSPARENT.contains(word)) else {
        return true;
    };
    let open = pattern.prefix || pattern.words.contains('*');
    program.contains('*') || CODE_RUNNERS.contains(&program) || (open && interprets(program))
}

fn checked(rule: String) -> Option<String> {
    PermissionRule::parse(&rule, RuleEffect::Allow).ok()?;
    Some(rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::parts;

    #[test]
    fn a_rule_covers_what_was_asked_about_and_its_kin() {
        for (command, rule) in [
            ("npm test", Some("Bash(npm test:*)")),
            ("npm run build -- --fast", Some("Bash(npm run build:*)")),
            ("git push origin main", Some("Bash(git push:*)")),
            ("git --no-pager log", Some("Bash(git --no-pager log)")),
            ("pytest -q tests", Some("Bash(pytest:*)")),
            ("make", Some("Bash(make)")),
            ("python3 tests/run.py", Some("Bash(python3 tests/run.py)")),
        ] {
            let part = parts(command).unwrap().parts.remove(0);
            assert_eq!(for_part(&part).as_deref(), rule, "{command}");
        }
    }

    #[test]
    fn a_rule_that_opens_every_command_is_known() {
        for (rule, opens) in [
            ("Bash", true),
            ("shell", true),
            ("Bash(*)", true),
            ("Bash(* status)", true),
            ("Bash(bash:*)", true),
            ("Bash(python3.12 *)", true),
            ("Bash(sudo:*)", true),
            ("Bash(nohup sh:*)", true),
            ("Bash(eval x)", true),
            ("Bash(python3 tests/run.py)", false),
            ("Bash(git:*)", false),
            ("Bash(npm run *)", false),
            ("Read(./**)", false),
            ("Edit", false),
            ("mcp__server__tool", false),
        ] {
            let parsed = PermissionRule::parse(rule, RuleEffect::Allow);
            let found = parsed.is_ok_and(|rule| opens_every_command(&rule));
            assert_eq!(found, opens, "{rule}");
        }
    }

    #[test]
    fn a_dangerous_rule_is_not_offered() {
        for command in [
            "bash -c 'ls'",
            "bash",
            "sh -x script.sh",
            "python3 -c 'print(1)'",
            "python3.12 -m http.server",
            "node -e 1",
            "sudo ls",
            "env ls",
            "ssh host ls",
            "awk '{print}' x",
            "perl -ne 1",
            "perl5.36 x.pl",
            "tsx x.ts",
            "uv run python -c 1",
            "npm exec sh",
            "npm exec -- sh",
            "pnpm exec -c ls",
        ] {
            let part = parts(command).unwrap().parts.remove(0);
            let rule = for_part(&part);
            let open = rule.as_deref().is_some_and(|it| it.ends_with(":*)"));
            assert!(!open, "{command}: {rule:?}");
        }
        let assigned = CommandPart {
            assignments: vec![crate::shell::PartAssignment {
                name: "LD_PRELOAD".to_owned(),
                value: crate::shell::PartWord::default(),
            }],
            ..parts("make all").unwrap().parts.remove(0)
        };
        assert_eq!(for_part(&assigned), None);
    }

    #[test]
    fn a_path_becomes_a_rule_for_that_file() {
        assert_eq!(for_write("src/a.rs").as_deref(), Some("Edit(./src/a.rs)"));
        assert_eq!(for_write("/tmp/a").as_deref(), Some("Edit(//tmp/a)"));
        assert_eq!(for_write("a*"), None);
        assert_eq!(for_write("../a"), None);
    }
}
