//! The description of a repository, from facts the tools reported.

use super::exchange::Exchange;
use super::project::{self, Manifest};
use super::render::{code, failures, plural};
use super::repository::{Extent, Repository};
use super::results;
use super::words::clip;

/// Names listed per line of the summary.
const LISTED: usize = 6;
/// Characters quoted from a file.
const QUOTED_CHARS: usize = 600;

/// Describes the repository, as far as the tools have shown it.
pub fn repository(exchange: &Exchange<'_>) -> String {
    let Some(repository) = Repository::of(exchange) else {
        let failed = failures(exchange).join("\n");
        return format!("I could not look at the files.\n\n{failed}");
    };
    if repository.files().is_empty() {
        return "There are no files here that I may see: the directory is empty, \
                or everything in it is hidden or ignored."
            .to_owned();
    }
    let project = Project::of(exchange, &repository);
    let mut parts = vec![project.heading()];
    parts.extend(project.about);
    parts.push(facts(&repository, &project.manifest, exchange).join("\n"));
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
    parts.join("\n\n")
}

/// What the project says about itself.
struct Project {
    title: Option<String>,
    about: Option<String>,
    manifest: Option<(String, Manifest)>,
}

impl Project {
    fn of(exchange: &Exchange<'_>, repository: &Repository) -> Self {
        let content = |path: &str| {
            exchange
                .returned("read")
                .find(|(arguments, _)| results::text(arguments, "path") == path)
                .and_then(|(_, value)| results::content(value))
        };
        let (title, paragraph) = repository
            .readme()
            .and_then(|file| content(&file.path))
            .map(project::readme)
            .unwrap_or_default();
        let readme = repository
            .readme()
            .map(|file| code(&file.shown))
            .unwrap_or_default();
        let manifest = repository.manifest().and_then(|file| {
            Some((
                file.shown.clone(),
                project::manifest(&file.shown, content(&file.path)?),
            ))
        });
        Self {
            title,
            about: paragraph.map(|text| format!("{readme} says: “{}”", clip(&text, QUOTED_CHARS))),
            manifest,
        }
    }

    fn heading(&self) -> String {
        let named = self
            .manifest
            .as_ref()
            .and_then(|(_, manifest)| manifest.name.clone());
        match self.title.clone().or(named) {
            Some(name) => format!("# {name}"),
            None => "# This repository".to_owned(),
        }
    }
}

fn facts(
    repository: &Repository,
    manifest: &Option<(String, Manifest)>,
    exchange: &Exchange<'_>,
) -> Vec<String> {
    let mut facts = vec![size(repository)];
    let languages = repository.languages();
    facts.extend(counted("Files by language", &languages));
    facts.extend(counted("Largest directories", &repository.directories()));
    facts.extend(
        manifest
            .as_ref()
            .map(|(path, manifest)| describe(path, manifest)),
    );
    facts.extend(entry_points(repository, exchange));
    facts.extend(commits(exchange));
    facts
}

fn size(repository: &Repository) -> String {
    let listed = repository.files().len() as u64;
    if repository.extent == Extent::TopLevel {
        return format!("- Top level: {}.", plural(listed, "file"));
    }
    match repository.total > listed {
        true => format!(
            "- Size: {}; I looked at {listed} of them.",
            plural(repository.total, "file")
        ),
        false => format!("- Size: {}.", plural(listed, "file")),
    }
}

fn counted(what: &str, counts: &[(&str, usize)]) -> Option<String> {
    let shown: Vec<String> = counts
        .iter()
        .take(LISTED)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    (!shown.is_empty()).then(|| format!("- {what}: {}.", shown.join(", ")))
}

fn describe(path: &str, manifest: &Manifest) -> String {
    let mut words = Vec::new();
    if let Some(name) = &manifest.name {
        let version = manifest
            .version
            .as_ref()
            .map(|version| format!(" {version}"));
        words.push(format!("{}{}", code(name), version.unwrap_or_default()));
    }
    if !manifest.members.is_empty() {
        let members: Vec<&str> = manifest
            .members
            .iter()
            .take(LISTED)
            .map(String::as_str)
            .collect();
        words.push(format!(
            "a workspace with the members {}",
            members.join(", ")
        ));
    }
    if let Some(description) = &manifest.description {
        words.push(format!("“{}”", clip(description, QUOTED_CHARS)));
    }
    match words.is_empty() {
        true => format!("- Manifest: {}.", code(path)),
        false => format!("- Manifest: {}: {}.", code(path), words.join(", ")),
    }
}

fn entry_points(repository: &Repository, exchange: &Exchange<'_>) -> Option<String> {
    let entries = repository.entry_points();
    let first = entries.first()?;
    let shown: Vec<String> = entries
        .iter()
        .take(LISTED)
        .map(|file| code(&file.shown))
        .collect();
    let more = match entries.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let comment = exchange
        .returned("read")
        .find(|(arguments, _)| results::text(arguments, "path") == first.path)
        .and_then(|(_, value)| project::opening_comment(results::content(value)?))
        .map(|comment| {
            format!(
                " {} opens with “{}”",
                code(&first.shown),
                clip(&comment, QUOTED_CHARS)
            )
        })
        .unwrap_or_default();
    Some(format!(
        "- Entry points: {}{more}.{comment}",
        shown.join(", ")
    ))
}

fn commits(exchange: &Exchange<'_>) -> Option<String> {
    let (_, value) = exchange
        .returned("shell")
        .find(|(arguments, _)| results::text(arguments, "command").starts_with("git log"))?;
    let output = results::command_output(value);
    let lines: Vec<String> = output
        .stdout
        .lines()
        .filter(|_| output.exit_code.is_none_or(|code| code == 0))
        .take(5)
        .map(|line| format!("  - {}", clip(line, 100)))
        .collect();
    (!lines.is_empty()).then(|| format!("- Latest commits:\n{}", lines.join("\n")))
}
