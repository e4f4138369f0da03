//! The persistent shell against `bash -c` and `dash -c`: the same commands,
//! the same output, the same status. The commands are data, and so is the
//! list of expected differences; a difference that is not listed fails, and
//! so does an entry of the list that no longer differs. Each case runs in a
//! cold and in a warm shell, which are judged apart.

mod corpus;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use halter_exec::{
    Command, CommandOutcome, PersistentShell, ShellCommand, ShellConfig, Stdin, run,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use self::corpus::{Case, Difference, Field, differences, parse};
use crate::support::environment;

/// Nothing in the corpus takes long; a hang must become a failure.
const DEADLINE: Duration = Duration::from_secs(60);

/// What came out, of one side.
#[derive(Debug, Default, PartialEq, Eq)]
struct Observed {
    stdout: Vec<u8>,
    stderr: String,
    status: i32,
}

impl Observed {
    fn add(&mut self, outcome: CommandOutcome) {
        if outcome.timed_out {
            self.stderr.push_str("(did not end)\n");
        }
        self.stdout.extend_from_slice(&outcome.stdout.head);
        self.stdout.extend_from_slice(&outcome.stdout.tail);
        self.stderr.push_str(&normalised(&outcome.stderr.to_text()));
        self.status = outcome.status.shell_code();
    }
}

/// Messages without what names the way the text came in, the line it was
/// there, and the number of a process: `bash -c` says `bash: -c: line 1: …`
/// where a shell that is told what to evaluate says
/// `/dev/stdin: eval: line 7: …`.
fn normalised(text: &str) -> String {
    let mut lines = String::new();
    for line in text.split_inclusive('\n') {
        let mut parts: Vec<&str> = line.split(": ").collect();
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let origin = |part: &&str| {
            matches!(*part, "-c" | "eval")
                || is_number(part)
                || part.strip_prefix("line ").is_some_and(is_number)
        };
        while parts.len() > 2 && parts.get(1).is_some_and(origin) {
            parts.remove(1);
        }
        if matches!(parts.first(), Some(&("/dev/stdin" | "/usr/bin/dash"))) {
            parts[0] = if parts[0].ends_with("dash") {
                "dash"
            } else {
                "bash"
            };
        }
        let number = |text: &str| text.trim_start().starts_with(|c: char| c.is_ascii_digit());
        if let Some(part) = parts.get_mut(1).filter(|part| number(part)) {
            *part = part
                .trim_start()
                .trim_start_matches(|c: char| c.is_ascii_digit());
        }
        lines.push_str(&parts.join(": "));
    }
    lines
}

/// A directory that both sides find under the same name, empty each time.
struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn fresh(&self) -> PathBuf {
        let path = self.root.path().join("work");
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        path
    }
}

/// The reference: one shell for one text.
async fn with_shell_c(program: &str, text: &str, cwd: &Path) -> Observed {
    let spec = Command::new(program, cwd)
        .args(["-c", text])
        .environment(environment())
        .deadline(DEADLINE);
    let outcome = run(spec, &CancellationToken::new(), &()).await.unwrap();
    let mut observed = Observed::default();
    observed.add(outcome);
    observed
}

/// The same texts in a persistent shell, one after the other.
async fn with_persistent_shell(program: &str, texts: &[&str], cwd: &Path) -> Observed {
    let mut config = ShellConfig::new(environment(), cwd);
    config.program = Some(program.into());
    let mut shell = PersistentShell::new(config);
    let mut observed = Observed::default();
    for text in texts {
        let mut command = ShellCommand::new(*text);
        command.deadline = Some(DEADLINE);
        command.stdin = Stdin::Null;
        let cancel = CancellationToken::new();
        observed.add(shell.run(command, &cancel, &()).await.unwrap());
    }
    shell.close().await;
    observed
}

fn fields_that_differ(expected: &Observed, found: &Observed) -> Vec<Field> {
    let mut fields = Vec::new();
    if expected.stdout != found.stdout {
        fields.push(Field::Stdout);
    }
    if expected.stderr != found.stderr {
        fields.push(Field::Stderr);
    }
    if expected.status != found.status {
        fields.push(Field::Status);
    }
    fields
}

/// The shell that a case runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    /// A new one.
    Cold,
    /// One that has run a command before.
    Warm,
}

impl Mode {
    const ALL: [Self; 2] = [Self::Cold, Self::Warm];

    /// What the shell runs before the case.
    fn past(self) -> Option<String> {
        match self {
            Self::Cold => None,
            // Too long to be said in one line.
            Self::Warm => Some(format!("{}\n:", "# what came before\n".repeat(20))),
        }
    }
}

/// What differs of one case in one mode, with both sides for whoever reads it.
struct Finding {
    fields: Vec<Field>,
    details: String,
}

/// Compares what was found with the list, and says all that is wrong. What is
/// listed must differ in every mode, and in the same way.
fn judge(
    found: &BTreeMap<(&str, Mode), Finding>,
    names: &[&str],
    listed: &BTreeMap<String, Difference>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for ((name, mode), Finding { fields, details }) in found {
        match listed.get(*name) {
            Some(difference) if difference.fields == *fields => {}
            Some(difference) => wrong.push(format!(
                "{name}: listed as different in {:?}, differs in {fields:?} when {mode:?}\n{details}",
                difference.fields
            )),
            None => wrong.push(format!(
                "{name}: differs in {fields:?} when {mode:?}\n{details}"
            )),
        }
    }
    for name in listed.keys().map(String::as_str) {
        if !names.contains(&name) {
            wrong.push(format!("{name}: listed, but not in the corpus"));
            continue;
        }
        for mode in Mode::ALL {
            if !found.contains_key(&(name, mode)) {
                wrong.push(format!("{name}: listed, but not different when {mode:?}"));
            }
        }
    }
    wrong
}

async fn compare(program: &str, cases: &[Case], list: &str) {
    let place = Place::new();
    let mut found = BTreeMap::new();
    for case in cases {
        let script = case.commands.join("\n");
        let expected = with_shell_c(program, &script, &place.fresh()).await;
        for mode in Mode::ALL {
            let past = mode.past();
            let texts: Vec<&str> = past
                .iter()
                .chain(&case.commands)
                .map(|text| &**text)
                .collect();
            let observed = with_persistent_shell(program, &texts, &place.fresh()).await;
            let fields = fields_that_differ(&expected, &observed);
            if !fields.is_empty() {
                let details = format!("  expected {expected:?}\n  found    {observed:?}");
                found.insert((case.name.as_str(), mode), Finding { fields, details });
            }
        }
    }
    let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    let wrong = judge(&found, &names, &differences(list));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_listed_must_differ_in_every_mode() {
    let finding = |name, mode, field| {
        let details = String::new();
        let fields = vec![field];
        ((name, mode), Finding { fields, details })
    };
    let found = BTreeMap::from([
        finding("both", Mode::Cold, Field::Stdout),
        finding("both", Mode::Warm, Field::Stdout),
        finding("one", Mode::Warm, Field::Status),
    ]);
    let wrong = |list: &str| judge(&found, &["both", "one", "same"], &differences(list));
    assert_eq!(
        wrong(
            "one: status: a good reason\nsame: stderr: a good reason\ngone: stdout: a good reason"
        ),
        [
            "both: differs in [Stdout] when Cold\n",
            "both: differs in [Stdout] when Warm\n",
            "gone: listed, but not in the corpus",
            "one: listed, but not different when Cold",
            "same: listed, but not different when Cold",
            "same: listed, but not different when Warm",
        ]
    );
    assert_eq!(
        wrong("both: stdout: a good reason\none: stdout: a good reason"),
        [
            "one: listed as different in [Stdout], differs in [Status] when Warm\n",
            "one: listed, but not different when Cold",
        ]
    );
}

#[tokio::test]
async fn bash_commands_do_what_bash_c_does() {
    let cases = parse(include_str!("bash.corpus"));
    assert!(cases.len() >= 200);
    compare("bash", &cases, include_str!("bash.differences")).await;
}

#[tokio::test]
async fn commands_in_turn_do_what_one_script_does() {
    let cases = parse(include_str!("sequences.corpus"));
    compare("bash", &cases, include_str!("sequences.differences")).await;
}

#[tokio::test]
async fn dash_commands_do_what_dash_c_does() {
    let cases = parse(include_str!("dash.corpus"));
    compare("dash", &cases, include_str!("dash.differences")).await;
}

/// What `exit` and its like leave to the next command has nothing to be
/// compared with: a script would be over.
#[tokio::test]
async fn state_outlives_the_end_of_a_shell() {
    let place = Place::new();
    let mut wrong = Vec::new();
    for case in parse(include_str!("restarts.corpus")) {
        let commands: Vec<&str> = case.commands.iter().map(String::as_str).collect();
        let found = with_persistent_shell("bash", &commands, &place.fresh()).await;
        let found = String::from_utf8_lossy(&found.stdout).into_owned();
        if case.expected.as_ref() != Some(&found) {
            wrong.push(format!("{}: {found}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
