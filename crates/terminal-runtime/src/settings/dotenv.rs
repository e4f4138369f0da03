//! `.env` files: `NAME=value` lines.

use std::collections::BTreeMap;

use crate::session::is_name;

/// A line that cannot be read. Shows where it is, never what it says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct DotenvError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: &'static str,
}

/// Reads the text of a `.env` file. A line is empty, a comment, or
/// `NAME=value`, possibly after `export`. A value is plain up to ` #`, or in
/// single quotes as it stands, or in double quotes with `\n`, `\t`, `\"`,
/// `\\` and `\$`. Nothing is substituted. A later line wins.
///
/// # Errors
/// At the first line that is none of these.
pub fn parse_dotenv(text: &str) -> Result<BTreeMap<String, String>, DotenvError> {
    numbered(text)
        .filter_map(|(number, line)| match read_line(line) {
            Ok(variable) => variable.map(Ok),
            Err(problem) => Some(Err(DotenvError {
                line: number,
                problem,
            })),
        })
        .collect()
}

/// The variables of a `.env` file whose names begin with `prefix`, whatever
/// the other lines say; and the first of these lines that cannot be read.
pub(super) fn parse_only(
    prefix: &str,
    text: &str,
) -> (BTreeMap<String, String>, Option<DotenvError>) {
    let mut problems = Vec::new();
    let ours = numbered(text).filter(|(_, line)| without_export(line).starts_with(prefix));
    let variables = ours.filter_map(|(number, line)| {
        read_line(line).unwrap_or_else(|problem| {
            problems.push(DotenvError {
                line: number,
                problem,
            });
            None
        })
    });
    (variables.collect(), problems.into_iter().next())
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines().map(str::trim))
}

fn without_export(line: &str) -> &str {
    line.strip_prefix("export ").unwrap_or(line).trim_start()
}

/// The variable of a line, if it has one.
fn read_line(line: &str) -> Result<Option<(String, String)>, &'static str> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, value) = without_export(line)
        .split_once('=')
        .ok_or("there is no `=`")?;
    let name = name.trim();
    if !is_name(name) {
        return Err("the name has other characters than letters, digits and `_`");
    }
    Ok(Some((name.to_owned(), read_value(value.trim())?)))
}

fn read_value(text: &str) -> Result<String, &'static str> {
    if text.contains('\0') {
        return Err("the value contains a NUL byte");
    }
    if let Some(rest) = text.strip_prefix('\'') {
        let (value, rest) = rest.split_once('\'').ok_or("the quote `'` is not closed")?;
        nothing_after(rest)?;
        return Ok(value.to_owned());
    }
    let Some(rest) = text.strip_prefix('"') else {
        let end = text.find(" #").unwrap_or(text.len());
        let plain = text.get(..end).unwrap_or(text);
        return Ok(if plain.starts_with('#') {
            ""
        } else {
            plain.trim_end()
        }
        .to_owned());
    };
    let mut value = String::new();
    let mut characters = rest.chars();
    loop {
        match characters.next().ok_or("the quote `\"` is not closed")? {
            '"' => break,
            '\\' => match characters.next().ok_or("the quote `\"` is not closed")? {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'r' => value.push('\r'),
                other @ ('"' | '\\' | '$') => value.push(other),
                _ => {
                    return Err(
                        "a backslash stands before another character than n, t, r, \", \\ or $",
                    );
                }
            },
            other => value.push(other),
        }
    }
    nothing_after(characters.as_str())?;
    Ok(value)
}

fn nothing_after(rest: &str) -> Result<(), &'static str> {
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with('#') {
        Ok(())
    } else {
        Err("something follows the closing quote")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_people_write_them() {
        let text = "# comment\n\nA=1\nexport B = two words # said\nC='# $x \\n'\nD=\"a\\nb\\\"\\$\" # d\nE=\nF=#none\nA=2\nG=a#b\n";
        let read = parse_dotenv(text).unwrap();
        let pairs: Vec<(&str, &str)> = read.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("A", "2"),
                ("B", "two words"),
                ("C", "# $x \\n"),
                ("D", "a\nb\"$"),
                ("E", ""),
                ("F", ""),
                ("G", "a#b"),
            ]
        );
    }

    #[test]
    fn a_part_is_read_whatever_the_rest_is() {
        let text = "no variable\nOTHER='open\nTRL_A=1\nexport TRL_B = 'two'\nTRL_C='s3cret\nTRL_D\nTRL_A=3\n";
        let (read, problem) = parse_only("TRL_", text);
        let pairs: Vec<(&str, &str)> = read.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("TRL_A", "3"), ("TRL_B", "two")]);
        let problem = problem.unwrap();
        assert_eq!(problem.line, 5);
        assert!(!problem.to_string().contains("s3cret"), "{problem}");
        assert_eq!(parse_only("TRL_", "A\n# TRL_").1, None);
    }

    #[test]
    fn a_wrong_line_is_named_and_not_shown() {
        for text in [
            "A=1\ns3cret",
            "A=1\nB='s3cret",
            "A=1\nB=\"s3cret\\",
            "A=1\nB-s3cret=1",
            "A=1\nB='x's3cret",
            "A=1\n=s3cret",
        ] {
            let error = parse_dotenv(text).unwrap_err();
            assert_eq!(error.line, 2, "{text}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }
}
