//! Variables that keep git from running programs a repository names.

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
];

/// Variables for every command of a session, so that a `git` started by
/// another program is held as well: what a repository's configuration could
/// make git run is turned off. Filters and aliases have names of their own and
/// cannot be turned off here; the judge refuses aliases, and `.git` is closed
/// to writing.
///
/// ```
/// let variables = halter_policy::shell::git_environment();
/// assert!(variables.iter().any(|(name, _)| name == "GIT_CONFIG_COUNT"));
/// ```
#[must_use]
pub fn git_environment() -> Vec<(String, String)> {
    let mut variables = vec![
        ("GIT_CONFIG_COUNT".to_owned(), SETTINGS.len().to_string()),
        ("GIT_PAGER".to_owned(), "cat".to_owned()),
        ("GIT_EDITOR".to_owned(), "false".to_owned()),
        ("GIT_SEQUENCE_EDITOR".to_owned(), "false".to_owned()),
        ("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()),
    ];
    for (index, (key, value)) in SETTINGS.iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{index}"), (*key).to_owned()));
        variables.push((format!("GIT_CONFIG_VALUE_{index}"), (*value).to_owned()));
    }
    variables
}
