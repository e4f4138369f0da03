//! How long a decision about a command line takes, the files it names included:
//! over the corpus, and over the worst lines that fit into the bound.

use halter_bench::report::{Claim, print, remark};
use halter_policy::limits::{MAX_COMMAND_BYTES, MAX_PATTERN_LINKS};
use halter_policy::{PolicySettings, SessionScope, StandardPolicy};
use serde_json::Value;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

const CORPUS: [&str; 2] = [
    include_str!("../crates/halter-policy/tests/it/corpus/attacks.jsonl"),
    include_str!("../crates/halter-policy/tests/it/corpus/ordinary.jsonl"),
];

/// Passes over the corpus.
const ROUNDS: usize = 20;

/// Pieces that lines as long as allowed are made of.
const PIECES: &[&str] = &[
    "a",
    " a",
    "a ",
    "a;",
    "a\n",
    "a|",
    "a&&",
    "a&",
    "(",
    ")",
    "((",
    "$(",
    "${a:-",
    "$((",
    "{ ",
    "{a,",
    "a,b}",
    "if ",
    "case a in a) ",
    "[[ ( ",
    "<(",
    "f() ",
    "`",
    "'",
    "\"",
    "\\",
    "\\\n",
    "$a",
    "\"$a\" ",
    "<<E\n",
    "a<<E\nE\n",
    "a <<< b\n",
    "a=b ",
    "a=(b) ",
    "a[1]=b ",
    "*",
    "~",
    "#",
    "# ",
    "$'a'",
    "{1..9}",
    "{a,b}",
    "a{b,c}",
    ">a ",
    "2>&1 ",
    "! ",
    "time ",
    "a() { a; };",
    "(a);",
    "{ a; };",
    "if a; then a; fi;",
    "for a in b; do a; done;",
    "case a in a) a;; esac;",
    "while a; do a; done;",
    "[[ a == b ]];",
    "((1));",
    "$((1)) ",
    "$(a) ",
    "`a` ",
    "${a} ",
    "é",
    "\t",
    "../a ",
    "sub/../link ",
    "* ",
    "*/* ",
    "** ",
    ".e* ",
    "~/a ",
    "$a/a ",
    "cat a;",
    "cd sub;",
    "cd sub && cat a;",
];

fn main() -> anyhow::Result<()> {
    let place = place()?;
    let mut lines = Vec::new();
    for line in CORPUS.iter().flat_map(|corpus| corpus.lines()) {
        let line: Value = serde_json::from_str(line)?;
        let names = line.get("allow").and_then(Value::as_array);
        let names = names.into_iter().flatten();
        let names: Vec<String> = names
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        let command = line.get("command").and_then(Value::as_str);
        let command = command.unwrap_or_default().to_owned();
        lines.push((policy(names, place.path())?, command));
    }
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        for (policy, command) in &lines {
            times.push(timed(policy, command));
        }
    }
    times.sort_unstable();
    let at = |percent: usize| {
        let time = times.get(times.len() * percent / 100);
        time.map_or(0.0, Duration::as_secs_f64) * 1e3
    };
    print(&Claim {
        what: "a decision over the corpus, 99th percentile",
        value: at(99),
        limit: 1.0,
        unit: "ms",
    });
    remark(&format!("{} lines, median {:.3} ms", lines.len(), at(50)));

    let mut worst = (Duration::ZERO, "");
    for names in [&["a", "cat", "cd"][..], &["*"]] {
        let names = names.iter().map(|name| (*name).to_owned());
        let policy = policy(names.collect(), place.path())?;
        for piece in PIECES {
            for prefix in ["", "a ", "a $(", "a \"", "( ", "cat ", "cd sub; cat "] {
                let count = (MAX_COMMAND_BYTES - prefix.len()) / piece.len();
                let line = format!("{prefix}{}", piece.repeat(count));
                // The machine may be busy once.
                let took = (0..3).map(|_| timed(&policy, &line)).min();
                let took = took.unwrap_or_default();
                if took > worst.0 {
                    worst = (took, piece);
                }
            }
        }
    }
    print(&Claim {
        what: "the slowest decision about a line as long as allowed",
        value: worst.0.as_secs_f64() * 1e3,
        limit: 50.0,
        unit: "ms",
    });
    remark(&format!("it repeats {:?}", worst.1));
    Ok(())
}

fn timed(policy: &StandardPolicy, command: &str) -> Duration {
    let started = Instant::now();
    black_box(policy.decide_shell_command(black_box(command), None));
    started.elapsed()
}

/// A directory with files, directories and links.
fn place() -> anyhow::Result<tempfile::TempDir> {
    let place = tempfile::tempdir()?;
    for name in ["sub", "deep/er/est", "many", "links"] {
        std::fs::create_dir_all(place.path().join(name))?;
    }
    for index in 0..2000 {
        std::fs::write(place.path().join(format!("many/{index}")), "")?;
    }
    for index in 0..MAX_PATTERN_LINKS {
        let link = place.path().join(format!("links/{index}"));
        std::os::unix::fs::symlink("../many/1", link)?;
    }
    std::os::unix::fs::symlink("many/1", place.path().join("link"))?;
    std::fs::write(place.path().join("a"), "")?;
    Ok(place)
}

fn policy(names: Vec<String>, directory: &Path) -> anyhow::Result<StandardPolicy> {
    let settings = PolicySettings {
        allowed_shell_commands: names.into(),
        ..PolicySettings::default()
    };
    let scope = SessionScope {
        working_dir: directory.to_path_buf(),
        ..SessionScope::default()
    };
    Ok(StandardPolicy::bind(settings, scope)?)
}
