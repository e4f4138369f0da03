//! What a project says about itself: its manifest, its README, the comment at
//! the top of a source file. The files may be cut off anywhere.

use serde_json::Value;

/// What a manifest says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    pub name: Option<String>,
    pub version: Option<String>,
    pub description: Option<String>,
    /// The members of a workspace.
    pub members: Vec<String>,
}

/// Reads the manifest of this name.
pub fn manifest(file_name: &str, content: &str) -> Manifest {
    match file_name.rsplit('/').next().unwrap_or(file_name) {
        "package.json" | "composer.json" => json_manifest(content),
        "go.mod" => Manifest {
            name: content
                .lines()
                .find_map(|line| line.strip_prefix("module "))
                .map(|name| name.trim().to_owned()),
            ..Manifest::default()
        },
        name if name.ends_with(".toml") => toml_manifest(content),
        _ => Manifest::default(),
    }
}

fn json_manifest(content: &str) -> Manifest {
    let value: Value = serde_json::from_str(content).unwrap_or_default();
    let field = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
    let members = value.get("workspaces").and_then(Value::as_array);
    Manifest {
        name: field("name"),
        version: field("version"),
        description: field("description"),
        members: members
            .into_iter()
            .flatten()
            .filter_map(|member| Some(member.as_str()?.to_owned()))
            .collect(),
    }
}

/// Reads the few keys that matter line by line, so that a file that was cut
/// off still says its name.
fn toml_manifest(content: &str) -> Manifest {
    let mut manifest = Manifest::default();
    let mut section = "";
    let mut in_members = false;
    for line in content.lines().map(str::trim) {
        if in_members {
            manifest.members.extend(strings(line));
            in_members = !line.contains(']');
        } else if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
        } else if let Some((key, value)) = line.split_once('=') {
            let text = || strings(value).next();
            match (section, key.trim()) {
                ("package" | "project" | "tool.poetry", "name") => manifest.name = text(),
                ("package" | "project" | "tool.poetry", "version") => manifest.version = text(),
                ("package" | "project" | "tool.poetry", "description") => {
                    manifest.description = text();
                }
                ("workspace", "members") => {
                    manifest.members.extend(strings(value));
                    in_members = !value.contains(']');
                }
                _ => {}
            }
        }
    }
    manifest
}

/// The quoted strings of a line.
fn strings(line: &str) -> impl Iterator<Item = String> {
    line.split('"').skip(1).step_by(2).map(str::to_owned)
}

/// The title and the first paragraph of a README.
pub fn readme(content: &str) -> (Option<String>, Option<String>) {
    let title = content
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("# "))
        .map(|title| title.trim().to_owned());
    let mut paragraph: Vec<&str> = Vec::new();
    let mut fenced = false;
    for line in content.lines().map(str::trim) {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if !fenced && is_prose(line) {
            paragraph.push(line);
        } else if !paragraph.is_empty() {
            break;
        }
    }
    (title, (!paragraph.is_empty()).then(|| paragraph.join(" ")))
}

/// Neither heading, badge, HTML, rule, list, table nor fence.
fn is_prose(line: &str) -> bool {
    let markup = [
        "#", "<", "[![", "![", "```", "---", "===", "- ", "* ", "|", ">",
    ];
    !line.is_empty() && !markup.iter().any(|mark| line.starts_with(mark))
}

/// The first paragraph of the comment a source file opens with.
pub fn opening_comment(content: &str) -> Option<String> {
    let marks = ["//!", "///", "\"\"\"", "//", "/**", "/*", "# ", "* "];
    let mut words: Vec<&str> = Vec::new();
    for line in content.lines().map(str::trim).take(40) {
        let mark = marks.iter().find_map(|mark| line.strip_prefix(mark));
        let text = mark.map(|text| {
            text.trim()
                .trim_end_matches("\"\"\"")
                .trim_end_matches("*/")
                .trim()
        });
        match text {
            Some(text) if !text.is_empty() => words.push(text),
            Some(_) | None if !words.is_empty() => break,
            Some(_) => {}
            None if line.is_empty() || line.starts_with("#!") => {}
            None => return None,
        }
    }
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_say_their_name_even_when_cut_off() {
        let cargo = manifest(
            "a/Cargo.toml",
            "[package]\nname = \"halter\"\nversion = \"0.1.0\"\ndescription = \"An agent harness\"\n\n[dependencies]\nname = \"no\"\ncut = \"of",
        );
        assert_eq!(cargo.name.as_deref(), Some("halter"));
        assert_eq!(cargo.version.as_deref(), Some("0.1.0"));
        assert_eq!(cargo.description.as_deref(), Some("An agent harness"));
        let workspace = manifest(
            "Cargo.toml",
            "[workspace]\nmembers = [\n  \"a\",\n  \"b\",\n]\n",
        );
        assert_eq!(workspace.members, ["a", "b"]);
        let node = manifest("package.json", r#"{"name":"web","description":"A site"}"#);
        assert_eq!(node.name.as_deref(), Some("web"));
        assert_eq!(manifest("package.json", "{\"name\":"), Manifest::default());
        assert_eq!(
            manifest("go.mod", "module a.b/c\n").name.as_deref(),
            Some("a.b/c")
        );
        assert_eq!(manifest("Makefile", "all:"), Manifest::default());
    }

    #[test]
    fn a_readme_is_its_title_and_first_prose() {
        let text = "# Halter\n\n[![ci](x)](y)\n\n```\ncode\n```\n\nAn agent\nharness.\n\nMore.";
        assert_eq!(
            readme(text),
            (
                Some("Halter".to_owned()),
                Some("An agent harness.".to_owned())
            )
        );
        assert_eq!(readme(""), (None, None));
    }

    #[test]
    fn source_files_may_open_with_a_comment() {
        let rust = "//! Runs the thing.\n//! Fast.\n//!\n//! More.\nfn main() {}";
        assert_eq!(
            opening_comment(rust).as_deref(),
            Some("Runs the thing. Fast.")
        );
        let python = "#!/usr/bin/env python\n\"\"\"Serves pages.\"\"\"\nimport os";
        assert_eq!(opening_comment(python).as_deref(), Some("Serves pages."));
        assert_eq!(opening_comment("fn main() {}\n// later"), None);
    }
}
