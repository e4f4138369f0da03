//! The description of a repository, from facts the tools returned.

use super::answer::{clip, code, failures, plural};
use super::exchange::{Exchange, content_of, number_of, paths_in, text_of};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Names listed per line of the summary.
const LISTED: usize = 6;
/// Characters quoted from a file.
const QUOTED_CHARS: usize = 600;

const LANGUAGES: &[(&str, &[&str])] = &[
    ("Rust", &["rs"]),
    ("Python", &["py"]),
    ("TypeScript", &["ts", "tsx"]),
    ("JavaScript", &["js", "jsx", "mjs"]),
    ("Go", &["go"]),
    ("Java", &["java"]),
    ("C", &["c", "h"]),
    ("C++", &["cpp", "cc", "hpp"]),
    ("Ruby", &["rb"]),
    ("Shell", &["sh"]),
    ("Markdown", &["md"]),
    ("TOML", &["toml"]),
    ("YAML", &["yml", "yaml"]),
    ("JSON", &["json"]),
    ("HTML", &["html"]),
];

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
    "main.rs",
    "main.py",
    "__main__.py",
    "main.go",
    "index.ts",
    "index.js",
    "app.py",
    "main.c",
    "lib.rs",
];

/// Directories whose files say little about the project as a whole.
const SIDE_DIRECTORIES: &[&str] = &[
    "tests",
    "examples",
    "benches",
    "fixtures",
    "vendor",
    "node_modules",
    "target",
    "docs",
];

/// The files below the working directory, as far as they were listed.
pub struct Repository {
    pub files: Vec<File>,
    /// How many files there are in all, where more were found than listed.
    pub total: u64,
}

/// One file: relative to the common directory, and as the tool named it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct File {
    pub shown: String,
    pub path: String,
}

impl Repository {
    /// What the listings of an exchange have shown; none if nothing was
    /// listed.
    pub fn of(exchange: &Exchange<'_>) -> Option<Self> {
        exchange.returned("glob").next()?;
        let listed = || exchange.returned("glob").map(|(_, value)| value);
        let paths: Vec<&str> = listed().flat_map(paths_in).collect();
        let totals = listed().filter_map(|value| number_of(value, "total_matches"));
        Some(Self::from_paths(
            &paths,
            totals.fold(0, u64::saturating_add),
        ))
    }

    /// Files by their paths, all relative or all absolute.
    fn from_paths(paths: &[&str], total: u64) -> Self {
        let root = common_directory(paths);
        let file = |path: &&str| File {
            shown: path.strip_prefix(root).unwrap_or(path).to_owned(),
            path: (*path).to_owned(),
        };
        let mut files: Vec<File> = paths.iter().map(file).collect();
        files.sort();
        files.dedup();
        let total = total.max(files.len() as u64);
        Self { files, total }
    }

    pub fn readme(&self) -> Option<&File> {
        let is_readme = |name: &str| name.to_ascii_lowercase().starts_with("readme");
        self.nearest(|name| is_readme(name).then_some(0))
            .into_iter()
            .next()
    }

    pub fn manifest(&self) -> Option<&File> {
        let rank = |name: &str| MANIFESTS.iter().position(|(known, _)| *known == name);
        self.nearest(rank).into_iter().next()
    }

    /// How the tests are run, if the manifest tells.
    pub fn test_command(&self) -> Option<&'static str> {
        let manifest = self.manifest().filter(|file| !file.shown.contains('/'))?;
        let (_, command) = MANIFESTS.iter().find(|(name, _)| *name == manifest.shown)?;
        Some(command)
    }

    /// Where programs and libraries begin, those nearest to the root first.
    pub fn entry_points(&self) -> Vec<&File> {
        self.nearest(|name| ENTRY_POINTS.iter().position(|known| *known == name))
    }

    fn languages(&self) -> Vec<(&str, usize)> {
        most_first(self.files.iter().filter_map(|file| {
            let (_, extension) = file.name().rsplit_once('.')?;
            let named = LANGUAGES
                .iter()
                .find(|(_, known)| known.contains(&extension));
            named.map(|(language, _)| *language)
        }))
    }

    fn directories(&self) -> Vec<(&str, usize)> {
        most_first(
            self.files
                .iter()
                .filter_map(|file| Some(file.shown.split_once('/')?.0)),
        )
    }

    /// The files whose names have a rank, by their distance from the root, then
    /// rank, then name.
    fn nearest(&self, rank: impl Fn(&str) -> Option<usize>) -> Vec<&File> {
        let is_aside = |file: &File| {
            file.shown
                .split('/')
                .any(|directory| SIDE_DIRECTORIES.contains(&directory))
        };
        let files = self.files.iter().filter(|file| !is_aside(file));
        let mut ranked: Vec<(usize, usize, &File)> = files
            .filter_map(|file| Some((file.shown.matches('/').count(), rank(file.name())?, file)))
            .collect();
        ranked.sort();
        ranked.into_iter().map(|(_, _, file)| file).collect()
    }
}

impl File {
    fn name(&self) -> &str {
        self.shown.rsplit('/').next().unwrap_or(&self.shown)
    }
}

fn most_first<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(&'a str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (Reverse(*count), *name));
    counts
}

/// The directory all absolute paths share, with its slash.
fn common_directory<'a>(paths: &[&'a str]) -> &'a str {
    let first = paths.first().filter(|first| first.starts_with('/'));
    let mut root = first.copied().unwrap_or_default();
    while !root.is_empty()
        && !(root.ends_with('/') && paths.iter().all(|path| path.starts_with(root)))
    {
        let shorter = root
            .trim_end_matches('/')
            .rfind('/')
            .map_or(0, |slash| slash + 1);
        root = root.get(..shorter).unwrap_or_default();
    }
    root
}

/// Describes the repository, as far as the tools have shown it; nothing if
/// they have shown nothing.
pub fn repository(exchange: &Exchange<'_>) -> Option<String> {
    let repository = Repository::of(exchange)?;
    if repository.files.is_empty() {
        return Some(
            "There are no files here that I may see: the directory is empty, \
             or everything in it is hidden or ignored."
                .to_owned(),
        );
    }
    let content = |file: Option<&File>| {
        let file = file?;
        let mut read = exchange.returned("read");
        let (_, value) = read.find(|(arguments, _)| text_of(arguments, "path") == file.path)?;
        Some((code(&file.shown), content_of(value)))
    };
    let readme = content(repository.readme());
    let manifest = content(repository.manifest());
    let title = readme.as_ref().and_then(|(_, text)| title(text));
    let named = manifest
        .as_ref()
        .and_then(|(_, text)| manifest_value(text, "name"));
    let name = title
        .or(named)
        .unwrap_or_else(|| "This repository".to_owned());
    let mut parts = vec![format!("# {name}")];
    let about = readme.and_then(|(file, text)| Some((file, first_paragraph(text)?)));
    parts.extend(about.map(|(file, text)| format!("{file} says: “{}”", clip(&text, QUOTED_CHARS))));

    let mut facts = vec![size(&repository)];
    facts.extend(counted("Files by language", &repository.languages()));
    facts.extend(counted("Largest directories", &repository.directories()));
    facts.extend(manifest.map(|(file, text)| describe_manifest(&file, text)));
    let entries: Vec<String> = repository
        .entry_points()
        .iter()
        .take(LISTED)
        .map(|file| code(&file.shown))
        .collect();
    if !entries.is_empty() {
        facts.push(format!("- Entry points: {}.", entries.join(", ")));
    }
    facts.extend(commits(exchange));
    parts.push(facts.join("\n"));
    let failed: Vec<String> = failures(exchange)
        .iter()
        .map(|failure| format!("- {failure}"))
        .collect();
    if !failed.is_empty() {
        parts.push(format!(
            "What I could not look at:\n\n{}",
            failed.join("\n")
        ));
    }
    Some(parts.join("\n\n"))
}

fn size(repository: &Repository) -> String {
    let listed = repository.files.len() as u64;
    match repository.total > listed {
        true => format!(
            "- Size: {}; I looked at {listed} of them.",
            plural(repository.total, "file")
        ),
        false => format!("- Size: {}.", plural(listed, "file")),
    }
}

fn counted(what: &str, counts: &[(&str, usize)]) -> Option<String> {
    let shown = counts
        .iter()
        .take(LISTED)
        .map(|(name, count)| format!("{name} {count}"));
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| format!("- {what}: {}.", shown.join(", ")))
}

fn describe_manifest(file: &str, text: &str) -> String {
    let mut words = Vec::new();
    if let Some(name) = manifest_value(text, "name") {
        let version = manifest_value(text, "version").map(|version| format!(" {version}"));
        words.push(format!("{}{}", code(&name), version.unwrap_or_default()));
    }
    if let Some(description) = manifest_value(text, "description") {
        words.push(format!("“{}”", clip(&description, QUOTED_CHARS)));
    }
    match words.is_empty() {
        true => format!("- Manifest: {file}."),
        false => format!("- Manifest: {file}: {}.", words.join(", ")),
    }
}

/// The first value of a key in TOML or JSON, read line by line, so that a file
/// that was cut off still says its name.
fn manifest_value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let line = line.trim().trim_start_matches('"').strip_prefix(key)?;
        let value = line
            .trim_start_matches('"')
            .trim_start()
            .strip_prefix(['=', ':'])?;
        Some(
            value
                .trim()
                .strip_prefix('"')?
                .split('"')
                .next()?
                .to_owned(),
        )
    })
}

fn title(readme: &str) -> Option<String> {
    let heading = readme
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("# "));
    heading.map(|title| title.trim().to_owned())
}

/// The first lines that are neither heading, badge, HTML, list, table nor code.
fn first_paragraph(readme: &str) -> Option<String> {
    let mut paragraph: Vec<&str> = Vec::new();
    let mut in_code = false;
    for line in readme.lines().map(str::trim) {
        in_code ^= line.starts_with("```");
        if !in_code
            && !line.is_empty()
            && !line.starts_with(['#', '<', '[', '!', '`', '-', '=', '*', '|', '>'])
        {
            paragraph.push(line);
        } else if !paragraph.is_empty() {
            break;
        }
    }
    (!paragraph.is_empty()).then(|| paragraph.join(" "))
}

fn commits(exchange: &Exchange<'_>) -> Option<String> {
    let (_, value) = exchange.returned("shell").next()?;
    let succeeded = value.get("exit_code").and_then(Value::as_i64) == Some(0);
    let lines = text_of(value, "stdout")
        .lines()
        .filter(|_| succeeded)
        .take(5);
    let lines: Vec<String> = lines
        .map(|line| format!("  - {}", clip(line, 100)))
        .collect();
    (!lines.is_empty()).then(|| format!("- Latest commits:\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_found_by_name_and_nearness() {
        let repository = Repository::from_paths(
            &[
                "/w/crates/a/README.md",
                "/w/README.md",
                "/w/crates/a/Cargo.toml",
                "/w/Cargo.toml",
                "/w/Makefile",
                "/w/crates/a/src/lib.rs",
                "/w/crates/cli/src/main.rs",
                "/w/tests/main.rs",
            ],
            8,
        );
        assert_eq!(repository.readme().unwrap().shown, "README.md");
        assert_eq!(repository.manifest().unwrap().path, "/w/Cargo.toml");
        assert_eq!(repository.test_command(), Some("cargo test"));
        let entries: Vec<&str> = repository
            .entry_points()
            .iter()
            .map(|file| file.shown.as_str())
            .collect();
        assert_eq!(entries, ["crates/cli/src/main.rs", "crates/a/src/lib.rs"]);
        assert_eq!(repository.directories(), [("crates", 4), ("tests", 1)]);
    }

    #[test]
    fn manifests_say_their_name_even_when_cut_off() {
        let toml = "[package]\nname = \"halter\"\nversion = \"0.1.0\"\ncut = \"of";
        assert_eq!(manifest_value(toml, "name").as_deref(), Some("halter"));
        let json = "{\n  \"name\": \"web\",\n  \"description\": \"A site\"";
        assert_eq!(
            manifest_value(json, "description").as_deref(),
            Some("A site")
        );
        assert_eq!(manifest_value(toml, "description"), None);
    }

    #[test]
    fn a_readme_is_its_title_and_first_prose() {
        let text = "# Halter\n\n[![ci](x)](y)\n\n```\ncode\n```\n\nAn agent\nharness.\n\nMore.";
        assert_eq!(title(text).as_deref(), Some("Halter"));
        assert_eq!(first_paragraph(text).as_deref(), Some("An agent harness."));
        assert_eq!((title(""), first_paragraph("")), (None, None));
    }
}
