//! Properties of the judge over generated command lines.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::support::judge;

/// Pieces that commands and tricks are made of.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "aa",
        "bb",
        "zz",
        "aa",
        "bb",
        " ",
        " ",
        " ",
        "\n",
        "\t",
        ";",
        "|",
        "||",
        "&&",
        "&",
        "'",
        "\"",
        "\\",
        "\\\n",
        "#",
        "$",
        "`",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "*",
        "?",
        "!",
        "~",
        "=",
        "+=",
        "<",
        ">",
        ">>",
        "<<",
        "<<<",
        "2>&1",
        ">/dev/null",
        "&>",
        "{}",
        "{zz,aa}",
        "$(zz)",
        "`zz`",
        "${zz}",
        "$'zz'",
        "<(zz)",
        "if",
        "then",
        "fi",
        "time",
        "coproc",
        "[[",
        "]]",
        "eval",
        "exec",
        ".",
        "command",
        "env",
        "xargs",
        "-",
        "--",
        "A=zz",
        "x",
        "ü",
        "\u{a0}",
        "\u{3000}",
        "0",
        "9",
        "/",
        ",",
    ])
}

fn line(most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..most).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(Config { cases: 2000, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..Config::default() })]

    #[test]
    fn no_text_panics_the_judge(text in any::<String>(), pieces in line(40)) {
        for allowed in ["", "aa bb env xargs find git", "*"] {
            let _ = judge(allowed).check(&text);
            let _ = judge(allowed).check(&pieces);
        }
    }

    #[test]
    fn a_program_that_is_not_listed_never_runs_first(text in "[ -~]{0,30}") {
        // Whatever follows, `zz` is a program here.
        for start in ["zz ", "aa; zz ", "aa \
| zz "] {
            let command = start.to_owned() + &text;
            prop_assert!(judge("aa").check(&command).is_err(), "{}", command);
        }
    }

    #[test]
    fn a_quoted_argument_is_accepted_whatever_it_holds(text in "[ -&(-~äß\n]{0,40}") {
        let command = ["aa '", &text, "'"].concat();
        let verdict = judge("aa").check(&command);
        prop_assert!(verdict.is_ok(), "{:?}", verdict);
    }
}

/// What bash itself would run of an accepted line: every builtin is turned off
/// and every program is missing, so each name ends up in the handler.
const PROBE: &str = r#"
PATH=/nonexistent
command_not_found_handle() { builtin printf '%s\0' "$1" >>"$LOG"; }
IFS= builtin read -r -d '' line
names=()
while builtin read -r name; do
  case $name in builtin | eval | printf) ;; *) names+=("$name") ;; esac
done < <(builtin compgen -b)
enable -n "${names[@]}"
builtin eval "$line"
"#;

/// Accepted lines are run by a bash that can run nothing, to see what it would
/// have run.
#[test]
fn bash_agrees_about_which_programs_an_accepted_line_runs() {
    if Command::new("bash").arg("--version").output().is_err() {
        return;
    }
    let allowed: BTreeSet<&str> = BTreeSet::from(["aa", "bb"]);
    let judge = judge("aa bb");
    let directory = tempfile::tempdir().unwrap();
    let accepted = Cell::new(0);
    let mut runner = TestRunner::new(Config {
        cases: 6000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(2),
        ..Config::default()
    });
    let outcome = runner.run(&line(10), |line| {
        if judge.check(&line).is_err() || line.trim().is_empty() {
            return Ok(());
        }
        accepted.set(accepted.get() + 1);
        for name in run_by_bash(&line, directory.path()) {
            prop_assert!(allowed.contains(name.as_str()), "{line:?} runs {name:?}");
        }
        Ok(())
    });
    outcome.unwrap();
    assert!(accepted.get() > 50, "only {accepted:?} lines were accepted");
}

fn run_by_bash(line: &str, directory: &std::path::Path) -> Vec<String> {
    let log = directory.join("log");
    fs::write(&log, "").unwrap();
    let mut child = Command::new("bash")
        .args(["--norc", "--noprofile", "-c", PROBE])
        .env("LOG", &log)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(line.as_bytes())
        .unwrap();
    child.wait().unwrap();
    let log = fs::read_to_string(&log).unwrap();
    log.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
fn the_probe_sees_unlisted_programs_and_builtins() {
    if Command::new("bash").arg("--version").output().is_err() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let names = run_by_bash("aa $(zz) | cd x; echo y && bb", directory.path());
    let names: BTreeSet<_> = names.iter().map(String::as_str).collect();
    for name in ["aa", "zz", "cd", "echo"] {
        assert!(names.contains(name), "{name} is missing from {names:?}");
    }
}
