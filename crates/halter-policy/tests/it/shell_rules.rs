//! Single rules, with what they tell the user.

use halter_policy::limits::{
    MAX_BRACE_WORDS, MAX_CLOSED_BRANCHES, MAX_COMMAND_BRANCHES, MAX_COMMAND_BYTES,
    MAX_COMMAND_EXPANSIONS, MAX_COMMAND_KEYWORDS, MAX_COMMAND_NESTING, MAX_COMMAND_WORDS,
    MAX_FRAGMENT_BYTES, MAX_WRAPPED_PROGRAMS,
};
use halter_policy::shell::ShellDecision;
use halter_policy::{PolicyError, ShellJudge};

use crate::support::judge;

fn refusal(judge: &ShellJudge, command: &str) -> (String, String) {
    match judge.check(command).unwrap_err() {
        PolicyError::ShellCommandRejected {
            reason, fragment, ..
        } => (reason, fragment),
        other => panic!("unexpected {other:?}"),
    }
}

#[test]
fn an_unlisted_program_is_named_with_the_remedy() {
    let (reason, fragment) = refusal(&judge("git ls"), "ls && rm x");
    assert_eq!(fragment, "rm");
    assert_eq!(
        reason,
        "this program is not allowed (allowed are git, ls); add it to policy.shell.allow to allow it"
    );
}

#[test]
fn an_empty_list_says_that_nothing_is_allowed() {
    let (reason, fragment) = refusal(&judge(""), "ls");
    assert_eq!(fragment, "ls");
    assert!(reason.contains("no program is allowed"), "{reason}");
}

#[test]
fn constructs_are_named_with_what_to_do_instead() {
    let judge = judge("ls echo");
    for (command, fragment, remedy) in [
        ("ls $(rm)", "rm", "add it to policy.shell.allow"),
        ("$CMD ls", "$CMD", "write it out"),
        ("echo x > /dev/tcp/a/1", "/dev/tcp/a/1", "network"),
        ("PATH=1 ls", "PATH", "cannot be set"),
        ("echo $((x))", "x", "set to numbers"),
        ("echo ${!x}", "${!x}", "name it"),
        ("coproc ls", "coproc ls", "not accepted"),
        ("eval ls", "eval", "run the command itself"),
    ] {
        let (reason, found) = refusal(&judge, command);
        assert_eq!(found, fragment);
        assert!(reason.contains(remedy), "{command}: {reason}");
    }
}

#[test]
fn every_program_is_allowed_by_a_star_but_code_is_not() {
    let judge = judge("git *");
    for command in [
        "rm -rf x",
        "/opt/tool --flag",
        "./script.sh",
        "for f in *.rs; do wc -l \"$f\"; done",
        "if [ -f x ]; then cat x; else echo no; fi",
        "x=1 y=2 make CC=clang > log 2>&1 &",
        "cat > file <<'EOF'\neval is a word here, $(eval too)\nEOF",
        "echo \"$(find . -name x | sort)\"",
        "echo $(grep source file) ${x:-y} $((1 + 2))",
        "while read -r line; do echo \"$line\"; done < file",
        "f() { ls; }; f",
        "find . -exec rm {} \\;",
        "bash -c 'ls'",
        "git -c a=b log",
        "case $x in a) ls;; *) true;; esac",
        "[[ -f x && ! -d y ]]",
        "diff <(ls a) <(ls b)",
        "! grep -q x file",
        "command -v git",
        "[ -f x ]",
        "git commit -m \"$(cat <<'EOF'\nSubject\n\nBody (with parens).\nEOF\n)\"",
        "ls 2>x 10>y",
    ] {
        let verdict = judge.check(command);
        assert!(verdict.is_ok(), "{command:?} was refused: {verdict:?}");
    }
}

#[test]
fn the_length_of_a_command_is_bounded() {
    let judge = judge("ls");
    let longest = format!("ls {}", "a".repeat(MAX_COMMAND_BYTES - 3));
    assert!(judge.check(&longest).is_ok());
    assert!(judge.check(&format!("{longest}a")).is_err());
}

#[test]
fn a_long_fragment_is_cut_at_a_character() {
    let name = "ü".repeat(MAX_FRAGMENT_BYTES);
    let (_, fragment) = refusal(&judge("ls"), &name);
    assert!(fragment.len() <= MAX_FRAGMENT_BYTES + "…".len());
    assert!(fragment.ends_with('…'));
}

#[test]
fn what_the_parser_recurses_on_is_bounded() {
    let judge = judge("*");
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    for (open, close, limit) in [
        ("( ", " )", MAX_COMMAND_BRANCHES),
        ("{ ", "; }", MAX_COMMAND_KEYWORDS),
        ("echo $( ", " )", MAX_COMMAND_EXPANSIONS),
    ] {
        assert!(
            judge.check(&nested(open, "ls", close, limit)).is_ok(),
            "{open}"
        );
        let (reason, _) = refusal(&judge, &nested(open, "ls", close, limit + 1));
        assert!(
            reason.contains("nested") || reason.contains("more than"),
            "{reason}"
        );
    }
}

#[test]
fn constructs_nest_only_so_deep() {
    let judge = judge("ls echo");
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}ls{}", open.repeat(depth), close.repeat(depth))
    };
    for (open, close) in [("( ls; ", " )"), ("{ ", "; }"), ("echo $( ", " )")] {
        let deepest = nested(open, close, MAX_COMMAND_NESTING);
        assert!(judge.check(&deepest).is_ok(), "{open}");
        let deeper = nested(open, close, MAX_COMMAND_NESTING + 1);
        let (reason, _) = refusal(&judge, &deeper);
        assert!(reason.contains("nested"), "{reason}");
    }
}

#[test]
fn braces_make_only_so_many_words() {
    let judge = judge("rg");
    let words = |count: usize| format!("rg x {{{}a}}", "a,".repeat(count - 1));
    assert!(judge.check(&words(MAX_BRACE_WORDS)).is_ok());
    assert!(judge.check(&words(MAX_BRACE_WORDS + 1)).is_err());
}

#[test]
fn words_are_counted() {
    let judge = judge("ls");
    // The command itself counts too.
    let words = |count: usize| format!("ls{}", " a".repeat(count - 2));
    assert!(judge.check(&words(MAX_COMMAND_WORDS)).is_ok());
    let (reason, _) = refusal(&judge, &words(MAX_COMMAND_WORDS + 1));
    assert!(reason.contains("words"), "{reason}");
}

#[test]
fn closed_branches_are_counted() {
    let judge = judge("ls");
    let subshells = |count: usize| vec!["(ls)"; count].join("; ");
    assert!(judge.check(&subshells(MAX_CLOSED_BRANCHES)).is_ok());
    let (reason, _) = refusal(&judge, &subshells(MAX_CLOSED_BRANCHES + 1));
    assert!(reason.contains("too many"), "{reason}");
}

#[test]
fn what_the_parser_stumbles_over_is_refused() {
    let judge = judge("*");
    for command in [
        "ls 99999999999999999999>x",
        "99999999999999999999<x",
        "echo $(cat <<E\n)<<E\nE",
    ] {
        assert!(judge.check(command).is_err(), "{command}");
    }
}

#[test]
fn wrappers_may_nest_only_so_deep() {
    let judge = judge("ls env");
    let nested = |depth: usize| format!("{}ls", "env ".repeat(depth));
    assert!(judge.check(&nested(MAX_WRAPPED_PROGRAMS)).is_ok());
    assert!(judge.check(&nested(MAX_WRAPPED_PROGRAMS + 1)).is_err());
}

#[test]
fn find_may_delete_when_rm_is_listed() {
    let asked = judge("find rm").decide("find . -delete");
    let ShellDecision::Ask(asked) = asked else {
        panic!("{asked:?}");
    };
    assert_eq!(asked.rule, "shell.destructive.find_delete");
    let (reason, fragment) = refusal(&judge("find"), "find . -delete");
    assert_eq!(fragment, "-delete");
    assert!(reason.contains("add rm to policy.shell.allow"), "{reason}");
}

#[test]
fn a_cargo_subcommand_outside_cargo_is_a_program() {
    assert!(judge("cargo cargo-deny").check("cargo deny check").is_ok());
    let (reason, _) = refusal(&judge("cargo"), "cargo deny check");
    assert!(
        reason.contains("add cargo-deny to policy.shell.allow"),
        "{reason}"
    );
}

#[test]
fn hostile_nesting_is_refused_quickly() {
    let judge = judge("*");
    for opener in [
        "(",
        "((",
        "$(",
        "${a:-",
        "$((",
        "{ ",
        "if ",
        "case a in a) ",
        "[[ ( ",
        "<(",
        "f() ",
        "`",
    ] {
        let started = std::time::Instant::now();
        let _ = judge.check(&opener.repeat(5000));
        let _ = judge.check(&opener.repeat(MAX_COMMAND_BRANCHES));
        assert!(
            started.elapsed().as_secs() < 20,
            "{opener} took {:?}",
            started.elapsed()
        );
    }
}

#[test]
fn no_substitution_opens_with_time_and_a_compound_command() {
    let judge = crate::support::judge("aa echo time");
    let refused = |command: &str| {
        matches!(
            judge.decide(command),
            halter_policy::shell::ShellDecision::Deny(_)
        )
    };
    for command in [
        r#"echo "$(time case x in x) echo '`zz`';; esac)""#,
        r#"echo "$(time -p case x in x) echo '`zz`';; esac)""#,
        r#"echo "$(time ! case x in x) echo '`zz`';; esac)""#,
        r#"echo "$(time { case x in x) echo '`zz`';; esac; })""#,
        "echo \"$(\ntime case x in x) echo '`zz`';; esac)\"",
        r#"echo "$(# c
time case x in x) echo '`zz`';; esac)""#,
        r#"cat <(time case x in x) echo '`zz`';; esac)"#,
        r#"echo "$(! time case x in x) zz;; esac)""#,
        r#"echo "$(aa; time time case x in x) zz;; esac)""#,
        r#"echo "$(aa; ! ! case x in x) zz;; esac)""#,
        r#"echo "$(aa; time ! time case x in x) zz;; esac)""#,
    ] {
        assert!(refused(command), "{command}");
    }
    for command in [
        r#"echo "$(time aa)""#,
        r#"echo "$(time ! aa)""#,
        "time case x in x) aa;; esac",
        "(time { aa; })",
        "(time if aa; then aa; fi)",
        r#"echo "$(aa; time case x in x) aa;; esac)""#,
    ] {
        assert!(!refused(command), "{command}: {:?}", judge.decide(command));
    }
}
