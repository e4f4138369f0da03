//! Which environment variables decide what runs.

use crate::error::PolicyError;

/// Variables that choose programs, code or configuration, by exact name.
const DECISIVE: &[&str] = &[
    "PATH",
    "ENV",
    "IFS",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PAGER",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "SHELL",
    "SHELLOPTS",
    "BASHOPTS",
    "HOME",
    "CDPATH",
    "GLOBIGNORE",
    "CC",
    "CXX",
    "LD",
    "AR",
    "AS",
    "NM",
    "OBJCOPY",
    "MAKEFLAGS",
    "MFLAGS",
    "GNUMAKEFLAGS",
    "CLASSPATH",
    "INPUTRC",
    "EXINIT",
    "VIMINIT",
    "FCEDIT",
    "HISTFILE",
    "HOSTALIASES",
    "LOCPATH",
    "NLSPATH",
    "TERMINFO",
    "TERMCAP",
    "GOROOT",
    "GOTOOLDIR",
    "GOTOOLCHAIN",
    "GOENV",
    "GOBIN",
    "GOPROXY",
    "MANOPT",
    "MANROFFOPT",
    "POSIXLY_CORRECT",
    "TMPDIR",
    "HALTER_EXEC_TREE",
    "PWD",
    "OLDPWD",
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "LINENO",
    "UID",
    "EUID",
    "PPID",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "DIRSTACK",
    "FUNCNAME",
    "FUNCNEST",
    "GROUPS",
    "HISTCMD",
    "OPTIND",
    "TMOUT",
    "EXECIGNORE",
    "MAIL",
    "_",
];

/// Families of such variables, by how their names start.
const DECISIVE_PREFIXES: &[&str] = &[
    "LD_",
    "DYLD_",
    "BASH",
    "GIT_",
    "SSH_",
    "PYTHON",
    "PERL",
    "RUBY",
    "GEM_",
    "BUNDLE_",
    "NODE_",
    "NPM_",
    "YARN_",
    "PNPM_",
    "DENO_",
    "BUN_",
    "PIP_",
    "UV_",
    "CARGO",
    "RUST",
    "CGO_",
    "JAVA_",
    "_JAVA",
    "JDK_",
    "MAVEN_",
    "GRADLE_",
    "LESS",
    "RIPGREP_",
    "RSYNC_",
    "TAR_",
    "FZF_",
    "BAT_",
    "DOCKER_",
    "KUBE",
    "XDG_",
    "GCONV_",
    "GCC_",
    "COMPILER_",
    "CMAKE_",
    "HALTER_",
    "TRL_",
    "PROMPT_",
    "READLINE_",
    "MALLOC_",
    "GLIBC_",
];

/// And by how they end.
const DECISIVE_SUFFIXES: &[&str] = &[
    "PATH", "PAGER", "EDITOR", "BROWSER", "_SHELL", "_COMMAND", "_CMD", "_WRAPPER", "_LINKER",
    "_RUNNER", "_PRELOAD", "_OPTIONS", "_OPTS", "FLAGS", "_PROXY", "_RC", "_CONFIG",
];

/// Members of those families that only change how much is said, or how fast.
const HARMLESS: &[&str] = &[
    "CARGO_INCREMENTAL",
    "CARGO_TERM_COLOR",
    "CARGO_TERM_VERBOSE",
    "NODE_ENV",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUST_TEST_THREADS",
];

/// Fails if setting the variable could decide which program or code runs.
pub(crate) fn check_variable(name: &str) -> Result<(), PolicyError> {
    refuse(name).map_or(Ok(()), |reason| {
        Err(PolicyError::ShellCommandRejected {
            rule: "shell.variable",
            reason: reason.to_owned(),
            fragment: super::shorten(name),
        })
    })
}

/// Whether a variable can be called so.
pub(super) fn is_name(name: &str) -> bool {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let fits = |character: char| character.is_ascii_alphanumeric() || character == '_';
    starts_well && name.chars().all(fits)
}

/// Whether this variable chooses programs, code or configuration, so that
/// whoever sets it decides what runs. True of what is no name at all.
#[must_use]
pub fn decides_what_runs(name: &str) -> bool {
    refuse(name).is_some()
}

/// Why the variable must not be set, if so.
pub(super) fn refuse(name: &str) -> Option<&'static str> {
    if !is_name(name) {
        return Some("it is not the name of a variable");
    }
    // Some readers take `http_proxy` and `npm_config_*` in lower case.
    let upper = name.to_ascii_uppercase();
    if HARMLESS.contains(&name) {
        return None;
    }
    let decisive = DECISIVE.contains(&upper.as_str())
        || DECISIVE_PREFIXES
            .iter()
            .any(|prefix| upper.starts_with(prefix))
        || DECISIVE_SUFFIXES
            .iter()
            .any(|suffix| upper.ends_with(suffix));
    decisive.then_some(
        "this variable decides which program or code runs, so it cannot be set from a command; \
         leave it out",
    )
}

#[cfg(test)]
mod tests {
    use super::refuse;

    #[test]
    fn variables_that_choose_code_are_refused() {
        for name in [
            "PATH",
            "LD_PRELOAD",
            "BASH_ENV",
            "ENV",
            "IFS",
            "GIT_SSH_COMMAND",
            "PAGER",
            "EDITOR",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "http_proxy",
            "npm_config_script_shell",
            "RUSTC_WRAPPER",
            "MY_CMD",
            "a[$(id)]",
            "",
            "1A",
            "A B",
        ] {
            assert!(refuse(name).is_some(), "{name} should be refused");
        }
    }

    #[test]
    fn other_variables_are_fine() {
        for name in [
            "FOO",
            "DATABASE_URL",
            "_x",
            "TZ",
            "LANG",
            "CI",
            "Debug1",
            "RUST_LOG",
        ] {
            assert_eq!(refuse(name), None, "{name}");
        }
    }
}
