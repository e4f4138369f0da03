//! Variables that keep git from running programs a repository names.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::door::FileDoor;

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
    ("hook", "command", "true"),
    // What the filters of git-lfs would run in turn.
    ("lfs", "path", "false"),
    ("lfs", "clean", "cat"),
    ("lfs", "smudge", "cat"),
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
    with_fixed(configuration(&[]))
}

fn with_fixed(mut variables: Vec<(String, String)>) -> Vec<(String, String)> {
    let fixed = [
        ("GIT_PAGER", "cat"),
        ("GIT_EDITOR", "false"),
        ("GIT_SEQUENCE_EDITOR", "false"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", ""),
        ("GIT_PROXY_COMMAND", ""),
    ];
    variables.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    variables
}

/// Variables for one command line that starts in this directory: they turn off
/// the filters, diff and merge programs that the repositories it works in name
/// in their own configuration. Empty if they name none, as nearly all.
/// Blocking: reads the configuration.
#[must_use]
pub fn repository_environment(command: &str, directory: &Path) -> Vec<(String, String)> {
    environment_from(&ConfigFiles::Here, command, directory)
}

/// The same for a session whose files are not this machine's: its door reads
/// the configuration, as far as that lies in its roots.
#[must_use]
pub fn repository_environment_elsewhere(
    door: &FileDoor,
    command: &str,
    directory: &Path,
) -> Vec<(String, String)> {
    environment_from(&ConfigFiles::Door(door), command, directory)
}

/// As [`git_environment`], with those of a repository's settings turned off
/// that name programs. For a git that runs outside every sandbox: git itself
/// lists their names, as `git config --list --name-only` does, so that nothing
/// in its configuration is read otherwise than by git.
///
/// ```
/// let variables = halter_policy::shell::git_environment_without(["filter.evil.smudge"]);
/// assert!(variables.iter().any(|(_, value)| value == "filter.evil.smudge"));
/// ```
#[must_use]
pub fn git_environment_without<'names>(
    names: impl IntoIterator<Item = &'names str>,
) -> Vec<(String, String)> {
    let named: BTreeMap<&str, &'static str> = names
        .into_iter()
        .filter_map(|name| {
            let (section, _) = name.split_once('.')?;
            let (_, key) = name.rsplit_once('.')?;
            Some((name, turned_off(section, key)?))
        })
        .collect();
    let named = named.into_iter().map(|(it, off)| (it.to_owned(), off));
    with_fixed(configuration(&named.collect::<Vec<_>>()))
}

/// Whose files are read.
enum ConfigFiles<'door> {
    Here,
    Door(&'door FileDoor),
}

impl ConfigFiles<'_> {
    fn is_directory(&self, path: &Path) -> bool {
        match self {
            Self::Here => path.is_dir(),
            Self::Door(door) => door.open_dir(path).is_ok(),
        }
    }

    /// The start of a regular file.
    fn text(&self, path: &Path) -> Option<String> {
        let bytes = match self {
            Self::Here => {
                // Opening a pipe would wait for whoever writes to it.
                std::fs::metadata(path).ok().filter(|it| it.is_file())?;
                let file = std::fs::File::open(path).ok()?;
                let mut bytes = Vec::new();
                file.take(MAX_CONFIG_BYTES).read_to_end(&mut bytes).ok()?;
                bytes
            }
            Self::Door(door) => {
                let mut file = door.open_read(path).ok()?;
                file.read_bounded(MAX_CONFIG_BYTES).ok()?
            }
        };
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn environment_from(
    files: &ConfigFiles<'_>,
    command: &str,
    directory: &Path,
) -> Vec<(String, String)> {
    let mut places = vec![directory.to_path_buf()];
    if ["cd", "-C", "pushd"].iter().any(|it| command.contains(it)) {
        places.extend(other_places(command).map(|place| directory.join(place)));
    }
    let repositories: BTreeSet<PathBuf> = places
        .iter()
        .filter_map(|place| place.ancestors().find_map(|it| git_directory(files, it)))
        .collect();
    let mut reader = ConfigReader {
        files,
        seen: Vec::new(),
        named: Vec::new(),
    };
    for repository in &repositories {
        let common = files.text(&repository.join("commondir"));
        let common = common.map(|path| repository.join(path.trim_end()));
        for directory in [Some(repository.clone()), common].into_iter().flatten() {
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

/// What turns off a setting of this section and key, if it names a program.
fn turned_off(section: &str, key: &str) -> Option<&'static str> {
    let found = NAMED.iter().find(|it| (it.0, it.1) == (section, key));
    found.map(|(_, _, off)| *off)
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
fn git_directory(files: &ConfigFiles<'_>, directory: &Path) -> Option<PathBuf> {
    let path = directory.join(".git");
    if files.is_directory(&path) {
        return Some(path);
    }
    let link = files.text(&path)?;
    let target = link.strip_prefix("gitdir:")?.trim();
    Some(directory.join(target))
}

/// Looks for settings that name programs. It need not understand every value,
/// only which keys are there.
struct ConfigReader<'files> {
    files: &'files ConfigFiles<'files>,
    seen: Vec<PathBuf>,
    named: Vec<(String, &'static str)>,
}

impl ConfigReader<'_> {
    fn read(&mut self, path: &Path) {
        if self.seen.len() >= MAX_CONFIG_FILES || self.seen.iter().any(|it| it == path) {
            return;
        }
        self.seen.push(path.to_path_buf());
        let Some(text) = self.files.text(path) else {
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
        let Some(off) = turned_off(section, &key) else {
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
