//! How long the shell judge takes: over the corpus of command lines, and over
//! the worst lines that fit into its bound.

use halter_bench::report::{Claim, print, remark};
use halter_policy::ShellJudge;
use halter_policy::limits::MAX_COMMAND_BYTES;
use serde_json::Value;
use std::hint::black_box;
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
];

fn main() -> anyhow::Result<()> {
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
        lines.push((ShellJudge::new(names), command));
    }
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        for (judge, command) in &lines {
            times.push(timed(judge, command));
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
    for judge in [
        ShellJudge::new(vec!["a".to_owned()]),
        ShellJudge::new(vec!["*".to_owned()]),
    ] {
        for piece in PIECES {
            for prefix in ["", "a ", "a $(", "a \"", "( "] {
                let count = (MAX_COMMAND_BYTES - prefix.len()) / piece.len();
                let line = format!("{prefix}{}", piece.repeat(count));
                // The machine may be busy once.
                let took = (0..3).map(|_| timed(&judge, &line)).min();
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

fn timed(judge: &ShellJudge, command: &str) -> Duration {
    let started = Instant::now();
    black_box(judge.decide(black_box(command)));
    started.elapsed()
}
