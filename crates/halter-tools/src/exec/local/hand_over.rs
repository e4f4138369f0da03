//! What goes along when a command leaves the sandbox, and what stays.
//!
//! The shell inside says what it exports, and every program of its sandbox can
//! have it say something else. So its word is not enough: a variable goes out
//! only if a command of the session, which was judged, has set it to this very
//! value in plain text. What chooses programs or code never goes, and neither
//! do functions, aliases and traps, which are code.

use crate::exec::Environment;
use crate::limits::{LISTED_VARIABLES, WRITTEN_VALUE_BYTES, WRITTEN_VARIABLES};
use halter_exec::{ShellChange, ShellReport};
use halter_policy::shell::{CommandPart, decides_what_runs, parts};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};

/// Commands whose arguments set variables.
const SETTERS: [&str; 4] = ["export", "declare", "typeset", "readonly"];

/// Variables that a shell keeps itself.
const OF_THE_SHELL: [&str; 5] = ["PWD", "OLDPWD", "SHLVL", "_", "HALTER_EXEC_TREE"];

/// Variables that commands of a session have set to values which stand in
/// their text, newest last.
#[derive(Debug, Default)]
pub(super) struct WrittenVariables(VecDeque<(String, String)>);

impl WrittenVariables {
    /// Takes note of what a command sets.
    pub(super) fn note(&mut self, command: &str) {
        // One that cannot be read sets nothing that is known.
        let Ok(read) = parts(command) else { return };
        for (name, value) in read.parts.iter().flat_map(assignments) {
            if value.len() > WRITTEN_VALUE_BYTES || decides_what_runs(&name) {
                continue;
            }
            let pair = (name, value);
            self.0.retain(|known| *known != pair);
            self.0.push_back(pair);
            if self.0.len() > WRITTEN_VARIABLES {
                self.0.pop_front();
            }
        }
    }

    fn contains(&self, name: &OsStr, value: &OsStr) -> bool {
        self.0
            .iter()
            .any(|(known, set)| known.as_str() == name && set.as_str() == value)
    }
}

fn assignments(part: &CommandPart) -> Vec<(String, String)> {
    if part.words.is_empty() {
        let plain = part.assignments.iter().filter(|it| it.value.literal);
        return plain
            .map(|it| (it.name.clone(), it.value.text.clone()))
            .collect();
    }
    if !part.program().is_some_and(|name| SETTERS.contains(&name)) {
        return Vec::new();
    }
    let literal = part.words.iter().skip(1).filter(|word| word.literal);
    literal
        .filter_map(|word| {
            let (name, value) = word.text.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        })
        .collect()
}

/// What a second shell gets of the first.
#[derive(Debug, Default)]
pub(super) struct HandOver {
    /// The variables it has besides those of the session.
    pub(super) variables: BTreeMap<OsString, OsString>,
    /// What is said of the rest.
    pub(super) note: Option<String>,
}

impl HandOver {
    /// Of what a shell says of itself. `given` is what it was started with.
    pub(super) fn new(
        report: &ShellReport,
        written: &WrittenVariables,
        given: &Environment,
    ) -> Self {
        let own = report.exported.iter().filter(|(name, value)| {
            let of_the_shell = OF_THE_SHELL.iter().any(|it| it == name);
            !of_the_shell && given.get(name) != Some(value.as_os_str())
        });
        let (go, stay): (BTreeMap<_, _>, _) = own
            .map(|(name, value)| (name.clone(), value.clone()))
            .partition(|(name, value)| written.contains(name, value));
        Self {
            variables: go,
            note: left_behind(&stay, report),
        }
    }
}

/// Says what stayed inside, if anything did.
fn left_behind(variables: &BTreeMap<OsString, OsString>, report: &ShellReport) -> Option<String> {
    let mut parts = Vec::new();
    if !variables.is_empty() {
        let names = variables.keys().take(LISTED_VARIABLES);
        let names: Vec<_> = names.map(|it| shortened(&it.to_string_lossy())).collect();
        let more = variables.len().saturating_sub(names.len());
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        parts.push(format!("the variables {}{more}", names.join(", ")));
    }
    for (count, what) in [(report.functions, "functions"), (report.aliases, "aliases")] {
        if count > 0 {
            parts.push(format!("{what} of the shell"));
        }
    }
    (!parts.is_empty()).then(|| {
        format!(
            "{} stayed in the sandbox; set what the command needs in the command itself",
            parts.join(", ")
        )
    })
}

fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}

/// What the first shell takes over from the second. `given` is what that was
/// started with, `local` what belongs to its place.
pub(super) fn way_back(
    report: &ShellReport,
    given: &Environment,
    local: &BTreeSet<OsString>,
) -> ShellChange {
    let stays = |name: &OsStr| local.contains(name) || OF_THE_SHELL.iter().any(|it| *it == name);
    let changed = report
        .exported
        .iter()
        .filter(|(name, value)| !stays(name) && given.get(name) != Some(value.as_os_str()));
    let gone = given
        .iter()
        .map(|(name, _)| name)
        .filter(|name| !stays(name) && !report.exported.contains_key(*name))
        // A shell does not pass on what it has no name for.
        .filter(|name| name.to_str().is_some_and(is_name));
    ShellChange {
        cwd: None,
        export: changed
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        unset: gone.map(OsStr::to_owned).collect(),
    }
}

fn is_name(name: &str) -> bool {
    let fits = |it: char| it.is_ascii_alphanumeric() || it == '_';
    name.chars().all(fits) && !name.starts_with(|it: char| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(variables: &[(&str, &str)]) -> ShellReport {
        let mut report = ShellReport::default();
        report.exported = variables
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
            .collect();
        report
    }

    fn going(commands: &[&str], variables: &[(&str, &str)]) -> (Vec<String>, Option<String>) {
        let mut written = WrittenVariables::default();
        for command in commands {
            written.note(command);
        }
        let given = Environment::new().with("LANG", "C");
        let going = HandOver::new(&report(variables), &written, &given);
        let names = going.variables.keys();
        let names = names.map(|name| name.to_string_lossy().into_owned());
        (names.collect(), going.note)
    }

    #[test]
    fn a_variable_goes_out_with_the_value_that_a_command_has_written() {
        let commands = [
            "export A=1 B='x y'; C=3",
            "if true; then declare -x D=\"4\"; fi",
            "export E=$(date)",
            "echo 'export F=6'",
            "G=7 make",
        ];
        let says = [
            ("A", "1"),
            ("B", "x y"),
            ("C", "3"),
            ("D", "4"),
            ("E", "today"),
            ("F", "6"),
            ("G", "7"),
            ("LANG", "C"),
            ("PWD", "/"),
        ];
        let (names, note) = going(&commands, &says);
        assert_eq!(names, ["A", "B", "C", "D"]);
        let note = note.unwrap();
        assert!(note.contains("the variables E, F, G stayed"), "{note}");
        let (names, _) = going(&commands, &[("A", "2"), ("B", "1")]);
        assert!(names.is_empty(), "{names:?}");
        assert_eq!(going(&commands, &[("LANG", "C")]).1, None);
    }

    #[test]
    fn what_chooses_programs_or_code_never_goes() {
        for name in [
            "LD_PRELOAD",
            "BASH_ENV",
            "ENV",
            "PATH",
            "IFS",
            "PS4",
            "PROMPT_COMMAND",
            "SHELLOPTS",
            "HOME",
            "XDG_CONFIG_HOME",
            "GIT_SSH_COMMAND",
            "PYTHONSTARTUP",
            "NODE_OPTIONS",
            "RUSTC_WRAPPER",
            "MAKEFLAGS",
            "http_proxy",
        ] {
            let command = format!("export {name}=x");
            let (names, _) = going(&[&command], &[(name, "x")]);
            assert!(names.is_empty(), "{name}");
        }
    }

    #[test]
    fn so_many_variables_are_remembered_and_such_values() {
        let set = |number: usize| format!("export V{number}=1");
        let commands: Vec<String> = (0..=WRITTEN_VARIABLES).map(set).collect();
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        let last = format!("V{WRITTEN_VARIABLES}");
        let (names, _) = going(&commands, &[("V0", "1"), ("V1", "1"), (&last, "1")]);
        assert_eq!(names, ["V1", last.as_str()]);
        for (bytes, goes) in [(WRITTEN_VALUE_BYTES, 1), (WRITTEN_VALUE_BYTES + 1, 0)] {
            let value = "x".repeat(bytes);
            let command = format!("export A={value}");
            let (names, _) = going(&[&command], &[("A", &value)]);
            assert_eq!(names.len(), goes, "{bytes}");
        }
    }

    #[test]
    fn so_many_names_are_listed_as_left_behind() {
        let names: Vec<String> = (0..=LISTED_VARIABLES).map(|it| format!("V{it}")).collect();
        let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
        let (_, note) = going(&[], pairs.split_last().unwrap().1);
        assert!(!note.unwrap().contains("more"));
        let (_, note) = going(&[], &pairs);
        assert!(note.unwrap().contains(" and 1 more stayed"));
    }

    #[test]
    fn the_way_back_brings_what_was_changed_outside() {
        let given = Environment::new()
            .with("A", "1")
            .with("B", "2")
            .with("KEPT", "k")
            .with("no-name", "x")
            .with("http_proxy", "p");
        let local = BTreeSet::from([OsString::from("http_proxy")]);
        let said = [("A", "1"), ("B", "3"), ("C", "4"), ("PWD", "/x")];
        let change = way_back(&report(&said), &given, &local);
        let exported: Vec<_> = change.export.into_iter().collect();
        assert_eq!(
            exported,
            [("B".into(), "3".into()), ("C".into(), "4".into())]
        );
        assert_eq!(change.unset, BTreeSet::from(["KEPT".into()]));
        assert_eq!(change.cwd, None);
    }
}
