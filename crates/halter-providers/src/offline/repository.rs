//! A directory as its file names show it.

use super::exchange::Exchange;
use super::results;
use std::collections::BTreeMap;

/// The files below the working directory, as far as they were listed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Repository {
    files: Vec<File>,
    /// How many files there are in all, where more were found than listed.
    pub total: u64,
    /// How deep the listing goes.
    pub extent: Extent,
}

/// How deep a listing goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Extent {
    /// All directories.
    #[default]
    Everything,
    /// The working directory alone.
    TopLevel,
}

/// One file: as the tool named it, and relative to the common directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct File {
    pub shown: String,
    pub path: String,
}

const LANGUAGES: &[(&str, &[&str])] = &[
    ("Rust", &["rs"]),
    ("Python", &["py"]),
    ("TypeScript", &["ts", "tsx"]),
    ("JavaScript", &["js", "jsx", "mjs", "cjs"]),
    ("Go", &["go"]),
    ("Java", &["java"]),
    ("Kotlin", &["kt", "kts"]),
    ("Swift", &["swift"]),
    ("C", &["c", "h"]),
    ("C++", &["cpp", "cc", "cxx", "hpp"]),
    ("C#", &["cs"]),
    ("Ruby", &["rb"]),
    ("PHP", &["php"]),
    ("Shell", &["sh", "bash"]),
    ("Markdown", &["md"]),
    ("TOML", &["toml"]),
    ("YAML", &["yml", "yaml"]),
    ("JSON", &["json"]),
    ("HTML", &["html", "htm"]),
    ("CSS", &["css", "scss"]),
    ("SQL", &["sql"]),
];

/// Files that say what a project is called, best first.
const MANIFESTS: &[&str] = &[
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "composer.json",
    "Gemfile",
    "setup.py",
    "CMakeLists.txt",
    "Makefile",
];

/// Files where programs and libraries begin, best first.
const ENTRY_POINTS: &[&str] = &[
    "main.rs",
    "main.py",
    "__main__.py",
    "main.go",
    "index.ts",
    "index.js",
    "main.ts",
    "main.js",
    "server.js",
    "app.py",
    "Main.java",
    "main.c",
    "main.cpp",
    "lib.rs",
    "__init__.py",
];

/// Directories whose files say little about the project as a whole.
const SIDE_DIRECTORIES: &[&str] = &[
    "test",
    "tests",
    "example",
    "examples",
    "bench",
    "benches",
    "fixtures",
    "vendor",
    "node_modules",
    "target",
    "docs",
];

impl Repository {
    /// What the listings of an exchange have shown; none if nothing was
    /// listed.
    pub fn of(exchange: &Exchange<'_>) -> Option<Self> {
        let mut listed = exchange.returned("glob").map(|(_, value)| value).peekable();
        if listed.peek().is_some() {
            let (mut paths, mut total) = (Vec::new(), 0);
            for value in listed {
                paths.extend(results::paths(value));
                total = u64::saturating_add(total, results::total(value).unwrap_or(0));
            }
            return Some(Self::from_paths(&paths, total));
        }
        let (_, output) = exchange
            .returned("shell")
            .find(|(arguments, _)| results::text(arguments, "command") == LIST_COMMAND)?;
        let listing = results::command_output(output).stdout;
        let paths: Vec<&str> = listing
            .lines()
            .filter(|line| !line.ends_with('/'))
            .collect();
        Some(Self {
            extent: Extent::TopLevel,
            ..Self::from_paths(&paths, 0)
        })
    }

    /// Files by their paths, all relative or all absolute.
    pub fn from_paths(paths: &[&str], total: u64) -> Self {
        let root = common_directory(paths);
        let mut files: Vec<File> = paths
            .iter()
            .map(|path| File {
                shown: path.strip_prefix(root.as_str()).unwrap_or(path).to_owned(),
                path: (*path).to_owned(),
            })
            .collect();
        files.sort();
        files.dedup();
        let total = total.max(files.len() as u64);
        Self {
            files,
            total,
            extent: Extent::Everything,
        }
    }

    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// The README nearest to the root.
    pub fn readme(&self) -> Option<&File> {
        self.nearest(|file| {
            let name = file.name().to_ascii_lowercase();
            (name == "readme" || name.starts_with("readme.")).then_some(0)
        })
        .into_iter()
        .next()
    }

    /// The manifest nearest to the root.
    pub fn manifest(&self) -> Option<&File> {
        self.nearest(|file| MANIFESTS.iter().position(|name| *name == file.name()))
            .into_iter()
            .next()
    }

    /// Where programs and libraries begin, those nearest to the root first.
    pub fn entry_points(&self) -> Vec<&File> {
        self.nearest(|file| ENTRY_POINTS.iter().position(|name| *name == file.name()))
    }

    /// Files per language, most first.
    pub fn languages(&self) -> Vec<(&'static str, usize)> {
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        for file in &self.files {
            if let Some(language) = file.language() {
                *counts.entry(language).or_default() += 1;
            }
        }
        most_first(counts)
    }

    /// Files per top directory, most first.
    pub fn directories(&self) -> Vec<(&str, usize)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for file in &self.files {
            if let Some((directory, _)) = file.shown.split_once('/') {
                *counts.entry(directory).or_default() += 1;
            }
        }
        most_first(counts)
    }

    /// The files that have a rank, by their distance from the root, then rank,
    /// then name.
    fn nearest(&self, rank: impl Fn(&File) -> Option<usize>) -> Vec<&File> {
        let mut ranked: Vec<(usize, usize, &File)> = self
            .files
            .iter()
            .filter(|file| !file.is_aside())
            .filter_map(|file| Some((file.shown.matches('/').count(), rank(file)?, file)))
            .collect();
        ranked.sort();
        ranked.into_iter().map(|(_, _, file)| file).collect()
    }
}

/// How a directory is listed where only a shell is on offer; directories end
/// with a slash.
pub const LIST_COMMAND: &str = "ls -p";

impl File {
    fn name(&self) -> &str {
        self.shown.rsplit('/').next().unwrap_or(&self.shown)
    }

    fn language(&self) -> Option<&'static str> {
        let (_, extension) = self.name().rsplit_once('.')?;
        LANGUAGES
            .iter()
            .find(|(_, extensions)| extensions.contains(&extension))
            .map(|(language, _)| *language)
    }

    fn is_aside(&self) -> bool {
        self.shown
            .split('/')
            .any(|directory| SIDE_DIRECTORIES.contains(&directory))
    }
}

fn most_first<K: Ord + Copy>(counts: BTreeMap<K, usize>) -> Vec<(K, usize)> {
    let mut counts: Vec<(K, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(key, count)| (std::cmp::Reverse(*count), *key));
    counts
}

/// The directory all absolute paths share, with its slash; of relative paths,
/// the `./` they may begin with.
fn common_directory(paths: &[&str]) -> String {
    let Some(first) = paths.first() else {
        return String::new();
    };
    if !first.starts_with('/') {
        let dotted = paths.iter().all(|path| path.starts_with("./"));
        return if dotted { "./" } else { "" }.to_owned();
    }
    let mut root = first
        .rsplit_once('/')
        .map_or("", |(directory, _)| directory);
    while !root.is_empty() && !paths.iter().all(|path| is_below(path, root)) {
        root = root.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    format!("{root}/")
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(files: Vec<&File>) -> Vec<&str> {
        files.iter().map(|file| file.shown.as_str()).collect()
    }

    #[test]
    fn what_matters_is_found_by_name_and_nearness() {
        let repository = Repository::from_paths(
            &[
                "crates/a/README.md",
                "README.md",
                "crates/a/Cargo.toml",
                "Cargo.toml",
                "Makefile",
                "crates/a/src/lib.rs",
                "crates/cli/src/main.rs",
                "tests/main.rs",
            ],
            8,
        );
        assert_eq!(repository.readme().unwrap().shown, "README.md");
        assert_eq!(repository.manifest().unwrap().shown, "Cargo.toml");
        assert_eq!(
            shown(repository.entry_points()),
            ["crates/cli/src/main.rs", "crates/a/src/lib.rs"]
        );
        assert_eq!(
            repository.languages(),
            [("Rust", 3), ("Markdown", 2), ("TOML", 2)]
        );
        assert_eq!(repository.directories(), [("crates", 4), ("tests", 1)]);
    }

    #[test]
    fn absolute_paths_are_shown_from_their_common_directory() {
        let repository = Repository::from_paths(&["/w/app/src/main.py", "/w/app/README"], 0);
        let shown: Vec<&str> = repository
            .files()
            .iter()
            .map(|f| f.shown.as_str())
            .collect();
        assert_eq!(shown, ["README", "src/main.py"]);
        assert_eq!(repository.readme().unwrap().path, "/w/app/README");
        assert_eq!(repository.total, 2);
    }

    #[test]
    fn one_file_and_no_file_are_fine() {
        assert_eq!(Repository::from_paths(&["/a"], 0).files()[0].shown, "a");
        assert_eq!(Repository::from_paths(&[], 0), Repository::default());
    }
}
