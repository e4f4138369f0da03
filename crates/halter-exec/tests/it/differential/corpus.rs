//! The corpus files: cases that start with `== name`, commands of a case
//! separated by lines of `--`, after a line of `>>` the output to expect where
//! there is nothing to compare with; lists of differences that name the case,
//! what differs, and why.

use std::collections::BTreeMap;

/// One or more commands that run in a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub name: String,
    pub commands: Vec<String>,
    pub expected: Option<String>,
}

/// What of a case differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Stdout,
    Stderr,
    Status,
}

/// An expected difference. Its reason is for people, but must be there.
#[derive(Debug)]
pub(super) struct Difference {
    pub fields: Vec<Field>,
}

pub(super) fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut first_line = true;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            assert!(
                cases.iter().all(|case| case.name != name),
                "{name} is there twice"
            );
            cases.push(Case {
                name: name.to_owned(),
                commands: vec![String::new()],
                expected: None,
            });
            first_line = true;
            continue;
        }
        let case = cases.last_mut().unwrap();
        if line == ">>" {
            case.expected = Some(String::new());
            continue;
        }
        if let Some(expected) = &mut case.expected {
            expected.push_str(line);
            expected.push('\n');
            continue;
        }
        if line == "--" {
            case.commands.push(String::new());
            first_line = true;
            continue;
        }
        let command = case.commands.last_mut().unwrap();
        if !first_line {
            command.push('\n');
        }
        first_line = false;
        command.push_str(line);
    }
    cases
}

/// Lines of `name: fields: reason`; a reason may go on in indented lines.
/// Blank lines and those that start with `#` are for the reader.
pub(super) fn differences(text: &str) -> BTreeMap<String, Difference> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        if line.trim().is_empty() || line.starts_with(['#', ' ']) {
            continue;
        }
        let mut parts = line.splitn(3, ": ");
        let (Some(name), Some(fields), Some(reason)) = (parts.next(), parts.next(), parts.next())
        else {
            panic!("`{line}` is not `name: fields: reason`");
        };
        assert!(reason.len() > 10, "{name} has no reason");
        let fields = fields.split(", ").map(field).collect();
        let earlier = found.insert(name.to_owned(), Difference { fields });
        assert!(earlier.is_none(), "{name} is listed twice");
    }
    found
}

fn field(name: &str) -> Field {
    match name {
        "stdout" => Field::Stdout,
        "stderr" => Field::Stderr,
        "status" => Field::Status,
        other => panic!("`{other}` is none of stdout, stderr, status"),
    }
}

#[test]
fn a_case_has_a_name_and_commands() {
    let cases = parse("== one\n\necho a\n\necho b\n== two\n--\nx\n>>\ny\n");
    let case = |name: &str, commands: &[&str], expected: Option<&str>| Case {
        name: name.to_owned(),
        commands: commands.iter().map(ToString::to_string).collect(),
        expected: expected.map(str::to_owned),
    };
    assert_eq!(
        cases,
        [
            case("one", &["\necho a\n\necho b"], None),
            case("two", &["", "x"], Some("y\n")),
        ]
    );
}
