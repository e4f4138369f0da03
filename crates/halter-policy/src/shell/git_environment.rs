//! Variables that keep git from running programs a repository names.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Settings that make git run a program, and what turns each off.
const SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.sshCommand", "ssh"),
    ("sequence.editor", "false"),
    ("gpg.program", "gpg"),
    ("gpg.ssh.program", "ssh-keygen"),
    ("gpg.x509.program", "gpgsm"),
    ("protocol.ext.allow", "never"),
    ("submodule.recurse", "false"),
    // A directory that merely looks like a repository has a configuration of
    // its own, and no `.git` that would be closed to writing.
    ("safe.bareRepository", "explicit"),
];

/// Settings that have names of their own, or no value that means "as if it
/// were not set", by section and key, and what turns each off where a
/// repository has it.
const NAMED: &[(&str, &str, &str)] = &[
    ("filter", "clean", ""),
    ("filter", "smudge", ""),
    ("filter", "process", ""),
    ("filter", "required", "false"),
    ("diff", "textconv", "cat"),
    ("diff", "command", NO_EXTERNAL_DIFF),
    ("diff", "external", NO_EXTERNAL_DIFF),
    ("merge", "driver", "git merge-file %A %O %B"),
    ("remote", "uploadpack", "git-upload-pack"),
    ("remote", "receivepack", "git-receive-pack"),
    ("submodule", "update", "checkout"),
    ("trailer", "command", "true"),
    ("trailer", "cmd", "true"),
    ("core", "alternaterefscommand", "true"),
    ("gpg", "defaultkeycommand", "true"),
    ("tar", "command", "cat"),
    ("interactive", "difffilter", "cat"),
];

const NO_EXTERNAL_DIFF: &str = "echo >&2 'the configuration of this repository names a program \
     that shows changes, which is not run: use git diff --no-ext-diff'; false";

/// Bytes of one configuration that are read, files that it may include, and
/// settings that are turned off by name.
const MAX_CONFIG_BYTES: u64 = 256 * 1024;
const MAX_CONFIG_FILES: usize = 16;
const MAX_NAMED_SETTINGS: usize = 64;

/// Variables for every command of a session, so that a `git` started by
/// another program is held as well: what a repository's configuration could
/// make git run is turned off, a user's own hooks with it. Settings with names
/// of their own take [`repository_environment`]; aliases are refused by the
/// judge, credential helpers stay, and `.git` is closed to writing.
///
/// ```
/// let variables = halter_policy::shell::git_environment();
/// assert!(variables.iter().any(|(name, _)| name == "GIT_CONFIG_COUNT"));
/// ```
#[must_use]
pub fn git_environment() -> Vec<(String, String)> {
    let fixed = [
        ("GIT_PAGER", "cat"),
        ("GIT_EDITOR", "false"),
        ("GIT_SEQUENCE_EDITOR", "false"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", ""),
        ("GIT_PROXY_COMMAND", ""),
    ];
    let mut variables = configuration(&[]);
    variables.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    variables
}

/// Variables for one command line that starts in this directory: they turn off
/// the filters, diff and merge programs that the repositories it works in name
/// in their own configuration. Empty if they name none, as nearly all.
/// Blocking: reads the configuration.
#[must_use]
pub fn repository_environment(command: &str, directory: &Path) -> Vec<(String, String)> {
    let mut places = vec![directory.to_path_buf()];
    if ["cd", "-C", "pushd"].iter().any(|it| command.contains(it)) {
        places.extend(other_places(command).map(|place| directory.join(place)));
    }
    let repositories: BTreeSet<PathBuf> = places
        .iter()
        .filter_map(|place| place.ancestors().find_map(git_directory))
        .collect();
    let mut reader = ConfigReader::default();
    for repository in &repositories {
        let common = std::fs::read_to_string(repository.join("commondir"));
        let common = common.map(|path| repository.join(path.trim_end()));
        for directory in [Some(repository.clone()), common.ok()]
            .into_iter()
            .flatten()
        {
            reader.read(&directory.join("config"));
            reader.read(&directory.join("config.worktree"));
        }
    }
    match reader.named.is_empty() {
        true => Vec::new(),
        false => configuration(&reader.named),
    }
}

/// Where else the commands of a line run, or send git.
fn other_places(command: &str) -> impl Iterator<Item = PathBuf> {
    let parts = super::parts(command).map(|it| it.parts).unwrap_or_default();
    parts.into_iter().flat_map(|part| {
        let sent = part.words.windows(2).find_map(|pair| match pair {
            [option, place] if option.text == "-C" => Some(place.text.clone()),
            _ => None,
        });
        let sent = PathBuf::from(sent.unwrap_or_default());
        let places = part.directories.into_iter();
        places.map(move |place| Path::new(&place).join(&sent))
    })
}

/// The settings as variables, in the form git reads them.
fn configuration(named: &[(String, &'static str)]) -> Vec<(String, String)> {
    let fixed = SETTINGS.iter().map(|(key, value)| (*key, *value));
    let named = named.iter().map(|(key, value)| (key.as_str(), *value));
    let settings: Vec<(&str, &str)> = fixed.chain(named).collect();
    let mut variables = vec![("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string())];
    for (index, (key, value)) in settings.into_iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{index}"), key.to_owned()));
        variables.push((format!("GIT_CONFIG_VALUE_{index}"), value.to_owned()));
    }
    variables
}

/// The repository's own directory, if this one holds its files.
fn git_directory(directory: &Path) -> Option<PathBuf> {
    let path = directory.join(".git");
    let found = std::fs::metadata(&path).ok()?;
    if found.is_dir() {
        return Some(path);
    }
    let link = bounded(&path)?;
    let target = link.strip_prefix("gitdir:")?.trim();
    Some(directory.join(target))
}

fn bounded(path: &Path) -> Option<String> {
    let file = std::fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Looks for settings that name programs. It need not understand every value,
/// only which keys are there.
#[derive(Default)]
struct ConfigReader {
    seen: Vec<PathBuf>,
    named: Vec<(String, &'static str)>,
}

impl ConfigReader {
    fn read(&mut self, path: &Path) {
        if self.seen.len() >= MAX_CONFIG_FILES || self.seen.iter().any(|it| it == path) {
            return;
        }
        self.seen.push(path.to_path_buf());
        let regular = std::fs::metadata(path).is_ok_and(|it| it.is_file());
        let Some(text) = regular.then(|| bounded(path)).flatten() else {
            return;
        };
        let mut section = (String::new(), String::new());
        for line in text.lines().map(str::trim_start) {
            let rest = match line.strip_prefix('[') {
                Some(header) => {
                    let (name, rest) = header_of(header);
                    section = name;
                    rest
                }
                None => line,
            };
            self.setting(&section, rest.trim_start(), path);
        }
    }

    fn setting(&mut self, (section, name): &(String, String), line: &str, file: &Path) {
        let end = line.find(|next: char| !(next.is_ascii_alphanumeric() || next == '-'));
        let (key, value) = line.split_at(end.unwrap_or(line.len()));
        let key = key.to_ascii_lowercase();
        if section.starts_with("include") && key == "path" {
            let value = value.trim_start().trim_start_matches('=').trim();
            let included = value.trim_matches('"');
            let around = file.parent().unwrap_or(Path::new("/"));
            return self.read(&around.join(included));
        }
        let Some((_, _, off)) = NAMED.iter().find(|it| (it.0, it.1) == (section, &*key)) else {
            return;
        };
        let full = match name.as_str() {
            "" => format!("{section}.{key}"),
            name => format!("{section}.{name}.{key}"),
        };
        let known = self.named.iter().any(|(it, _)| *it == full);
        if !known && self.named.len() < MAX_NAMED_SETTINGS {
            self.named.push((full, off));
        }
    }
}

/// The section and the name in a header such as `filter "lfs"]`, and what
/// follows it on the line.
fn header_of(text: &str) -> ((String, String), &str) {
    let end = text.find(|next: char| !(next.is_ascii_alphanumeric() || "-.".contains(next)));
    let (section, rest) = text.split_at(end.unwrap_or(text.len()));
    let section = section.to_ascii_lowercase();
    let Some(quoted) = rest.trim_start().strip_prefix('"') else {
        // The old form: `[filter.lfs]`.
        let (section, name) = section.split_once('.').unwrap_or((&section, ""));
        let after = rest.trim_start().strip_prefix(']').unwrap_or_default();
        return ((section.to_owned(), name.to_owned()), after);
    };
    let mut name = String::new();
    let mut characters = quoted.chars();
    while let Some(next) = characters.next() {
        match next {
            '"' => break,
            '\\' => name.extend(characters.next()),
            next => name.push(next),
        }
    }
    let after = characters.as_str().trim_start();
    let after = after.strip_prefix(']').unwrap_or_default();
    ((section, name), after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(configuration: &str) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let git = directory.path().join(".git");
        std::fs::create_dir(&git).unwrap();
        std::fs::write(git.join("config"), configuration).unwrap();
        std::fs::write(git.join("more"), "[merge \"m\"]\n\tdriver = x\n").unwrap();
        std::fs::create_dir_all(directory.path().join("a/b")).unwrap();
        let around = directory.path().parent().unwrap();
        let deeper = format!("cd {}/a && git -C b diff", directory.path().display());
        let variables = repository_environment("git diff", &directory.path().join("a"));
        assert_eq!(variables, repository_environment(&deeper, around));
        let fixed = SETTINGS.iter().map(|(key, _)| *key);
        let keys = variables
            .iter()
            .filter(|it| it.0.starts_with("GIT_CONFIG_KEY"));
        keys.map(|(_, key)| key.clone())
            .filter(|key| !fixed.clone().any(|it| it == key))
            .collect()
    }

    #[test]
    fn drivers_of_a_repository_are_found_however_they_are_written() {
        for (configuration, expected) in [
            ("[core]\n\tbare = false\n[diff]\n\talgorithm = x\n", vec![]),
            ("[diff]\n\texternal = evil\n", vec!["diff.external"]),
            ("[Diff] External=evil", vec!["diff.external"]),
            ("[filter \"a b\"]\nclean = x", vec!["filter.a b.clean"]),
            (
                "[gpg \"ssh\"]\ndefaultKeyCommand = x",
                vec!["gpg.ssh.defaultkeycommand"],
            ),
            ("[tar \"x\"]\ncommand = x", vec!["tar.x.command"]),
            (
                "[filter \"q\\\"q\"]\n  smudge=x",
                vec!["filter.q\"q.smudge"],
            ),
            ("[filter.old]\nprocess = x", vec!["filter.old.process"]),
            ("[diff \"X\"] textconv = x", vec!["diff.X.textconv"]),
            ("[include]\n path = more", vec!["merge.m.driver"]),
            (
                "[includeIf \"gitdir:/\"]\n path = \"more\"",
                vec!["merge.m.driver"],
            ),
        ] {
            assert_eq!(named(configuration), expected, "{configuration:?}");
        }
    }
}
