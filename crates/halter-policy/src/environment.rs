//! Which variables of the user's environment commands see.
//!
//! All of them, except what one of these rules withholds:
//!
//! | rule | withholds |
//! |---|---|
//! | shell start | what a shell runs or sets when it starts: `BASH_ENV`, `ENV`, `SHELLOPTS`, `BASHOPTS`, `BASH_FUNC_*`, `PWD`, `OLDPWD`, `SHLVL`, `_` |
//! | loader | code put into every program: `LD_*`, `DYLD_*` |
//! | harness | settings of the harness and its daemon: `HALTER_*`, `TRL_*` |
//! | secret name | names with a word such as `KEY`, `TOKEN`, `SECRET`, `PASSWORD`, `CREDENTIALS`, `AUTH`, except `SSH_AUTH_SOCK` |
//! | secret URL | values that hold a URL with a password (for `http` and `https`: with any user), also in a proxy's address |
//! | secret value | values that begin like a key of a well-known service, or with a PEM header |
//!
//! The user's `policy.shell.env` adds names that pass in spite of the rules,
//! and removes names that would pass.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// What a shell runs or sets when it starts, what a loader puts into every
/// program, and the harness's own. A `*` at the end stands for any rest.
const NEVER: [&str; 13] = [
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "BASH_FUNC_*",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "LD_*",
    "DYLD_*",
    "HALTER_*",
    "TRL_*",
];

/// Words of a name, between underscores, that mean a credential.
const SECRET_WORDS: [&str; 14] = [
    "KEY",
    "KEYS",
    "PASS",
    "PWD",
    "PAT",
    "AUTH",
    "JWT",
    "BEARER",
    "COOKIE",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "SSHPASS",
    "SECRETS",
];

/// Ends of such words, as in `PGPASSWORD` or `npm_config__authToken`.
const SECRET_ENDINGS: [&str; 7] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "APIKEY",
    "ACCESSKEY",
];

/// Names with a secret word that hold no secret: the socket of an agent that
/// signs without giving its keys away.
const NOT_SECRET: [&str; 1] = ["SSH_AUTH_SOCK"];

/// How keys of well-known services begin.
const SECRET_BEGINNINGS: [&str; 14] = [
    "sk-",
    "pk_live_",
    "sk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "npm_",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
];

/// A value shorter than this is no key of a service.
const SERVICE_KEY_CHARS: usize = 20;

/// The variables of `environment` that commands of a session see: all that no
/// [rule](self) withholds or that `add` names, less those that `remove` names.
/// A name may end in `*`.
///
/// Libraries read no environment of their own: the embedder passes what it
/// captured.
///
/// ```
/// use std::ffi::OsString;
///
/// let captured = [("JAVA_HOME", "/opt/java"), ("OPENAI_API_KEY", "sk-…"), ("GH_TOKEN", "t")]
///     .map(|(name, value)| (OsString::from(name), OsString::from(value)));
/// let seen = halter_policy::environment::command_environment(captured, &["GH_TOKEN".to_owned()], &[]);
/// assert!(seen.keys().eq(["GH_TOKEN", "JAVA_HOME"]));
/// ```
pub fn command_environment(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    add: &[String],
    remove: &[String],
) -> BTreeMap<OsString, OsString> {
    let listed = |list: &[String], name: &str| list.iter().any(|pattern| name_fits(name, pattern));
    environment
        .into_iter()
        .filter(|(name, value)| {
            let name = name.to_string_lossy();
            let value = value.to_string_lossy();
            !listed(remove, &name) && (listed(add, &name) || !is_withheld(&name, &value))
        })
        .collect()
}

fn is_withheld(name: &str, value: &str) -> bool {
    NEVER.iter().any(|pattern| name_fits(name, pattern))
        || has_secret_name(name)
        || holds_secret_url(value)
        || is_secret_value(value)
}

/// Whether a name is the pattern, or begins like one that ends in `*`.
#[must_use]
pub fn name_fits(name: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

fn has_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_secret = |word: &str| {
        SECRET_WORDS.contains(&word) || SECRET_ENDINGS.iter().any(|end| word.ends_with(end))
    };
    !NOT_SECRET.contains(&name)
        && upper
            .split(|character: char| !character.is_ascii_alphanumeric())
            .any(is_secret)
}

/// True if any URL in the value names a user that is a credential.
fn holds_secret_url(value: &str) -> bool {
    value.match_indices("://").any(|(at, mark)| {
        let (scheme, rest) = value.split_at(at);
        let rest = rest.get(mark.len()..).unwrap_or_default();
        let ends = |character: char| "/?#\"'".contains(character) || character.is_whitespace();
        let authority = rest.split(ends).next().unwrap_or_default();
        let is_http = scheme.ends_with("http") || scheme.ends_with("https");
        authority.rsplit_once('@').is_some_and(|(user, _)| {
            is_http
                || user
                    .split_once(':')
                    .is_some_and(|(_, word)| !word.is_empty())
        })
    })
}

fn is_secret_value(value: &str) -> bool {
    let value = value.trim_start();
    value.starts_with("-----BEGIN ")
        || (value.len() >= SERVICE_KEY_CHARS
            && SECRET_BEGINNINGS
                .iter()
                .any(|beginning| value.starts_with(beginning)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(variables: &[(&str, &str)], add: &[&str], remove: &[&str]) -> Vec<String> {
        let owned = |list: &[&str]| -> Vec<String> { list.iter().map(|&n| n.into()).collect() };
        let variables = variables
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        command_environment(variables, &owned(add), &owned(remove))
            .into_keys()
            .map(|name| name.into_string().unwrap_or_default())
            .collect()
    }

    fn passes(name: &str, value: &str) -> bool {
        !seen(&[(name, value)], &[], &[]).is_empty()
    }

    #[test]
    fn what_a_build_needs_passes() {
        for (name, value) in [
            ("PATH", "/usr/bin"),
            ("VIRTUAL_ENV", "/w/.venv"),
            ("JAVA_HOME", "/opt/java"),
            ("RUSTUP_HOME", "/opt/rustup"),
            ("CARGO_TARGET_DIR", "/t"),
            ("HTTPS_PROXY", "http://proxy.example:3128"),
            ("no_proxy", "localhost,127.0.0.1"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("GIT_SSH_COMMAND", "ssh -4"),
            ("GIT_ASKPASS", "/usr/bin/askpass"),
            ("TOKENIZERS_PARALLELISM", "false"),
            ("KEYBOARD", "de"),
            ("COMPASS_HOME", "/c"),
            ("KUBECONFIG", "/k"),
            ("AWS_PROFILE", "dev"),
            ("DATABASE_URL", "postgres://reader@db/app"),
            ("REMOTE", "ssh://git@example.org/x"),
            ("LANGUAGE", "sk-SK"),
            ("EMAIL", "me@example.org"),
        ] {
            assert!(passes(name, value), "{name}={value}");
        }
    }

    #[test]
    fn credentials_and_loader_variables_are_withheld() {
        for (name, value) in [
            ("BASH_ENV", "/x"),
            ("ENV", "/x"),
            ("SHELLOPTS", "errexit"),
            ("BASH_FUNC_ls%%", "() { :; }"),
            ("LD_PRELOAD", "/x.so"),
            ("LD_LIBRARY_PATH", "/x"),
            ("HALTER_MODEL", "offline"),
            ("TRL_AUTH_TOKEN", "x"),
            ("OPENAI_API_KEY", "x"),
            ("AWS_ACCESS_KEY_ID", "x"),
            ("AWS_SESSION_TOKEN", "x"),
            ("PGPASSWORD", "x"),
            ("MYSQL_PWD", "x"),
            ("GITHUB_PAT", "x"),
            ("npm_config__authToken", "x"),
            ("COMPOSER_AUTH", "{}"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/k.json"),
            ("DATABASE_URL", "postgres://app:hunter2@db/app"),
            ("HTTPS_PROXY", "http://me:hunter2@proxy.example:3128"),
            (
                "PIP_EXTRA_INDEX_URL",
                "https://a.example https://tok@b.example/simple",
            ),
            ("WEATHER", "sk-0123456789abcdefghij"),
            ("DEPLOY", "-----BEGIN OPENSSH PRIVATE KEY-----"),
        ] {
            assert!(!passes(name, value), "{name}={value}");
        }
    }

    #[test]
    fn the_user_adds_and_removes_names() {
        let variables = [
            ("GITHUB_TOKEN", "x"),
            ("LD_LIBRARY_PATH", "/x"),
            ("AWS_PROFILE", "dev"),
            ("AWS_REGION", "eu"),
            ("PATH", "/usr/bin"),
        ];
        assert_eq!(
            seen(&variables, &["GITHUB_TOKEN", "LD_*"], &["AWS_*"]),
            ["GITHUB_TOKEN", "LD_LIBRARY_PATH", "PATH"]
        );
        // Removing wins: a list that adds widely can still except a name.
        assert_eq!(
            seen(&variables, &["*"], &["GITHUB_TOKEN", "LD_*", "AWS_*"]),
            ["PATH"]
        );
    }

    #[test]
    fn a_short_value_is_no_key_of_a_service() {
        let key = |chars: usize| format!("{:x<chars$}", "sk-");
        assert!(passes("WEATHER", &key(SERVICE_KEY_CHARS - 1)));
        assert!(!passes("WEATHER", &key(SERVICE_KEY_CHARS)));
    }
}
