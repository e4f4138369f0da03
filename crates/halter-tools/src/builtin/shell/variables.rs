//! Which variables a call may set.

use halter_exec::Environment;
use halter_policy::PolicyError;
use std::collections::BTreeMap;

/// Variables that decide which program or which code runs, by name.
const DECIDING: &[&str] = &[
    "AR",
    "AS",
    "BASHOPTS",
    "BROWSER",
    "CC",
    "CDPATH",
    "CLASSPATH",
    "COMSPEC",
    "CPATH",
    "CXX",
    "DEBUGGER",
    "EDITOR",
    "ENV",
    "EXECIGNORE",
    "FCEDIT",
    "FIGNORE",
    "GCONV_PATH",
    "GLOBIGNORE",
    "GOFLAGS",
    "GRADLE_OPTS",
    "HISTFILE",
    "HOME",
    "HOSTALIASES",
    "IFS",
    "INPUTRC",
    "LD",
    "LESS",
    "LIBRARY_PATH",
    "LOCALDOMAIN",
    "LOCPATH",
    "MAKEFILES",
    "MAKEFLAGS",
    "MAVEN_OPTS",
    "MFLAGS",
    "MORE",
    "NLSPATH",
    "PAGER",
    "PATH",
    "POSIXLY_CORRECT",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "RES_OPTIONS",
    "RUSTC",
    "RUSTDOC",
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "SHELL",
    "SHELLOPTS",
    "TERMCAP",
    "TERMINFO",
    "TERMINFO_DIRS",
    "VIMINIT",
    "VISUAL",
    "ZDOTDIR",
    "HALTER_EXEC_TREE",
];

/// Families of such variables, by how their names start.
const DECIDING_PREFIXES: &[&str] = &[
    "BASH_",
    "CARGO_",
    "DYLD_",
    "GIT_",
    "GCC_",
    "GLIBC_",
    "JAVA_",
    "_JAVA_",
    "JDK_JAVA_",
    "LD_",
    "LESS",
    "LUA_",
    "MALLOC_",
    "NODE_",
    "NPM_CONFIG_",
    "PERL",
    "PIP_",
    "PYTHON",
    "RIPGREP_",
    "RUBY",
    "RUSTC_",
    "RUSTUP_",
    "SSH_",
    "SUDO_",
    "TAR_",
    "XDG_",
];

/// And by how they end.
const DECIDING_SUFFIXES: &[&str] = &["ASKPASS", "EDITOR", "PAGER", "_PRELOAD", "PATH"];

/// The variables, if none of them may change what runs.
pub(super) fn checked(variables: BTreeMap<String, String>) -> Result<Environment, PolicyError> {
    for (name, value) in &variables {
        let reason = if !is_name(name) {
            "`env` holds a name that is not a variable name"
        } else if value.contains('\0') {
            "`env` holds a value with a NUL byte"
        } else if decides_what_runs(name) {
            "`env` may not set a variable that decides which program or code runs"
        } else {
            continue;
        };
        return Err(PolicyError::ShellCommandRejected {
            reason: reason.to_owned(),
            fragment: crate::suggest::shortened(name),
        });
    }
    Ok(variables.into_iter().collect())
}

fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
        && characters.all(|other| other == '_' || other.is_ascii_alphanumeric())
}

fn decides_what_runs(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    DECIDING.contains(&name.as_str())
        || DECIDING_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
        || DECIDING_SUFFIXES
            .iter()
            .any(|suffix| name.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(name: &str) -> bool {
        checked(BTreeMap::from([(name.to_owned(), "x".to_owned())])).is_ok()
    }

    #[test]
    fn what_chooses_code_is_refused_and_the_rest_is_not() {
        for name in [
            "PATH",
            "path",
            "LD_PRELOAD",
            "BASH_ENV",
            "ENV",
            "IFS",
            "GIT_SSH_COMMAND",
            "PAGER",
            "MANPAGER",
            "GIT_PAGER",
            "EDITOR",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "PERL5OPT",
            "RUBYOPT",
            "PS4",
            "RUSTC_WRAPPER",
            "CARGO_BUILD_RUSTC",
            "HOME",
            "XDG_CONFIG_HOME",
            "LESSOPEN",
        ] {
            assert!(!allows(name), "{name}");
        }
        for name in [
            "RUST_LOG",
            "RUST_BACKTRACE",
            "CI",
            "NO_COLOR",
            "LANG",
            "FOO_1",
            "_X",
        ] {
            assert!(allows(name), "{name}");
        }
    }

    #[test]
    fn what_is_no_variable_is_refused() {
        for name in ["", "1A", "A B", "A=B", "BASH_FUNC_x%%", "A\nB", "é"] {
            assert!(!allows(name), "{name:?}");
        }
        let with_nul = BTreeMap::from([("A".to_owned(), "\0".to_owned())]);
        assert!(checked(with_nul).is_err());
    }
}
