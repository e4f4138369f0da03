//! The description of a repository, from facts the tools returned.

use super::turn::{CurrentTurn, content_of, number_of, paths_in, text_of};
use super::wording::{clip, code, failures, plural};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Names listed per line of the summary.
const LISTED: usize = 6;
/// Characters quoted from a file.
const QUOTED_CHARS: usize = 600;

/// Files that say what a project is called, best first, and how its tests are
/// run.
const MANIFESTS: &[(&str, &str)] = &[
    ("Cargo.toml", "cargo test"),
    ("package.json", "npm test"),
    ("pyproject.toml", "python3 -m pytest"),
    ("go.mod", "go test ./..."),
    ("Makefile", "make test"),
];

/// Files where programs and libraries begin, best first.
const ENTRY_POINTS: &[&str] = &[
    "main.rs", "main.py", "main.go", "index.ts", "index.js", "app.py", "main.c", "lib.rs",
];

/// The files below the working directory, as far as they were listed.
pub struct Repository {
    pub files: Vec<String>,
    /// How many files there are in all, where more were found than listed.
    pub total: u64,
}

impl Repository {
    /// What the listings of an turn have shown; none if nothing was
    /// listed.
    pub fn of(turn: &CurrentTurn<'_>) -> Option<Self> {
        turn.returned("glob").next()?;
        let listed = || turn.returned("glob").map(|(_, value)| value);
        let mut files: Vec<String> = listed().flat_map(paths_in).map(str::to_owned).collect();
        files.sort();
        files.dedup();
        let totals = listed().filter_map(|value| number_of(value, "total_matches"));
        let total = totals.fold(0, u64::saturating_add).max(files.len() as u64);
        Some(Self { files, total })
    }

    pub fn readme(&self) -> Option<&str> {
        let is_readme = |name: &str| name.to_ascii_lowercase().starts_with("readme");
        self.nearest(|name| is_readme(name).then_some(0)).next()
    }

    pub fn manifest(&self) -> Option<&str> {
        self.nearest(|name| MANIFESTS.iter().position(|(known, _)| *known == name))
            .next()
    }

    /// How the tests are run, if a manifest at the root tells.
    pub fn test_command(&self) -> Option<&'static str> {
        let manifest = self.manifest()?;
        let (_, command) = MANIFESTS.iter().find(|(name, _)| *name == manifest)?;
        Some(command)
    }

    /// Where programs and libraries begin, those nearest to the root first.
    pub fn entry_points(&self) -> impl Iterator<Item = &str> {
        self.nearest(|name| ENTRY_POINTS.iter().position(|known| *known == name))
    }

    /// How many files there are of each kind, the most common first.
    fn kinds(&self) -> Vec<(&str, usize)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, extension) in self.files.iter().filter_map(|file| file.rsplit_once('.')) {
            *counts.entry(extension).or_default() += 1;
        }
        let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(name, count)| (Reverse(*count), *name));
        counts
    }

    /// The files whose names have a rank, by their distance from the root, then
    /// rank, then path.
    fn nearest(&self, rank: impl Fn(&str) -> Option<usize>) -> impl Iterator<Item = &str> {
        let ranked = self.files.iter().filter_map(|file| {
            let name = file.rsplit('/').next().unwrap_or(file);
            Some((file.matches('/').count(), rank(name)?, file.as_str()))
        });
        let mut ranked: Vec<(usize, usize, &str)> = ranked.collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, _, file)| file)
    }
}

/// Describes the repository, as far as the tools have shown it; nothing if
/// they have shown nothing.
pub fn repository(turn: &CurrentTurn<'_>) -> Option<String> {
    let repository = Repository::of(turn)?;
    if repository.files.is_empty() {
        let text = "There are no files here that I may see: the directory is empty, \
                    or everything in it is hidden or ignored.";
        return Some(text.to_owned());
    }
    let content = |file: Option<&str>| {
        let mut read = turn.returned("read");
        let (_, value) = read.find(|(arguments, _)| Some(text_of(arguments, "path")) == file)?;
        Some((code(file?), content_of(value)))
    };
    let readme = content(repository.readme());
    let manifest = content(repository.manifest());
    let named = |key| manifest_value(manifest.as_ref()?.1, key);
    let title = readme.as_ref().and_then(|(_, text)| {
        let mut lines = text.lines();
        lines.find_map(|line| Some(line.strip_prefix("# ")?.trim().to_owned()))
    });
    let name = title.or_else(|| named("name"));
    let name = name.unwrap_or_else(|| "This repository".to_owned());
    let mut parts = vec![format!("# {name}")];
    if let Some((file, text)) = readme
        && let Some(paragraph) = first_paragraph(text)
    {
        parts.push(format!("{file} says: “{}”", clip(&paragraph, QUOTED_CHARS)));
    }
    let total = plural(repository.total, "file");
    let listed = repository.files.len() as u64;
    let mut facts = vec![match repository.total > listed {
        true => format!("- Size: {total}; I looked at {listed} of them."),
        false => format!("- Size: {total}."),
    }];
    let mut list = |what: &str, items: Vec<String>| {
        if !items.is_empty() {
            facts.push(format!("- {what}: {}.", items.join(", ")));
        }
    };
    let kinds = repository.kinds().into_iter().take(LISTED);
    let kinds = kinds.map(|(name, count)| format!("{name} {count}"));
    list("Files by ending", kinds.collect());
    if let Some((file, _)) = &manifest {
        let facts = ["name", "version", "description"].into_iter();
        let facts = facts
            .filter_map(named)
            .map(|fact| clip(&fact, QUOTED_CHARS));
        list(
            "Manifest",
            [file.clone()].into_iter().chain(facts).collect(),
        );
    }
    let entries = repository.entry_points().take(LISTED).map(code);
    list("Entry points", entries.collect());
    facts.extend(commits(turn));
    parts.push(facts.join("\n"));
    let failed: Vec<String> = failures(turn)
        .iter()
        .map(|failure| format!("- {failure}"))
        .collect();
    if !failed.is_empty() {
        let failed = failed.join("\n");
        parts.push(format!("What I could not look at:\n\n{failed}"));
    }
    Some(parts.join("\n\n"))
}

/// A value of a manifest in TOML or JSON, read line by line, so that a file
/// that was cut off still says its name.
fn manifest_value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let line = line.trim().trim_start_matches('"').strip_prefix(key)?;
        let value = line.trim_start_matches('"').trim_start();
        let value = value.strip_prefix(['=', ':'])?.trim().strip_prefix('"')?;
        value.split('"').next().map(str::to_owned)
    })
}

/// The first lines that are neither heading, badge, HTML, list, table nor code.
fn first_paragraph(readme: &str) -> Option<String> {
    let markup = ['#', '<', '[', '!', '`', '-', '=', '*', '|', '>'];
    let mut paragraph: Vec<&str> = Vec::new();
    let mut in_code = false;
    for line in readme.lines().map(str::trim) {
        in_code ^= line.starts_with("```");
        if !in_code && !line.is_empty() && !line.starts_with(markup) {
            paragraph.push(line);
        } else if !paragraph.is_empty() {
            break;
        }
    }
    (!paragraph.is_empty()).then(|| paragraph.join(" "))
}

fn commits(turn: &CurrentTurn<'_>) -> Option<String> {
    let (_, value) = turn.returned("shell").next()?;
    let succeeded = value.get("exit_code").and_then(Value::as_i64) == Some(0);
    let lines = text_of(value, "stdout").lines().filter(|_| succeeded);
    let lines: Vec<String> = lines
        .take(5)
        .map(|line| format!("  - {}", clip(line, 100)))
        .collect();
    (!lines.is_empty()).then(|| format!("- Latest commits:\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_found_by_name_and_nearness() {
        let files = [
            "crates/a/README.md",
            "README.md",
            "crates/a/Cargo.toml",
            "Cargo.toml",
            "Makefile",
            "crates/a/src/lib.rs",
            "crates/cli/src/main.rs",
        ];
        let files = files.map(str::to_owned).to_vec();
        let repository = Repository { files, total: 7 };
        assert_eq!(repository.readme(), Some("README.md"));
        assert_eq!(repository.manifest(), Some("Cargo.toml"));
        assert_eq!(repository.test_command(), Some("cargo test"));
        let entries: Vec<&str> = repository.entry_points().collect();
        assert_eq!(entries, ["crates/cli/src/main.rs", "crates/a/src/lib.rs"]);
    }

    #[test]
    fn manifests_and_readmes_are_read_even_when_cut_off() {
        let toml = "[package]\nname = \"halter\"\nversion = \"0.1.0\"\ncut = \"of";
        assert_eq!(manifest_value(toml, "name").as_deref(), Some("halter"));
        let json = "{\n  \"name\": \"web\",\n  \"description\": \"A site\"";
        let description = manifest_value(json, "description");
        assert_eq!(description.as_deref(), Some("A site"));
        let text = "# Halter\n\n[![ci](x)](y)\n\n```\ncode\n```\n\nAn agent\nharness.\n\nMore.";
        assert_eq!(first_paragraph(text).as_deref(), Some("An agent harness."));
    }
}
