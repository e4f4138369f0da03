//! Which programs are listed, and what is known about each of them.

use super::reader::Word;
use super::{
    CODE_RUNNERS, CommandRefusal, arguments, builtins, cargo, find, git, interpreters, sed,
    wrappers,
};
use crate::limits::MAX_WRAPPED_PROGRAMS;

/// The listed programs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Programs<'a> {
    listed: &'a [String],
    /// How many wrappers stand around the command being checked.
    depth: usize,
}

/// What is known of a program that can run others, or change what runs.
pub(super) enum KnownProgram {
    /// It runs whatever it is told in a way that cannot be read here.
    Opaque(&'static str),
    /// It is harmless without certain options.
    Options(&'static arguments::Options),
    /// Its arguments are read by a function of its own.
    Checked(fn(Programs<'_>, &[Word]) -> Result<(), CommandRefusal>),
}

impl<'a> Programs<'a> {
    pub(super) fn new(listed: &'a [String]) -> Self {
        Self { listed, depth: 0 }
    }

    /// Fails unless the command runs listed programs only.
    pub(super) fn check(self, words: &[Word]) -> Result<(), CommandRefusal> {
        let Some((program, rest)) = words.split_first() else {
            return Ok(());
        };
        self.allow(program)?;
        let Some(known) = known(&program.text) else {
            return Ok(());
        };
        arguments::check_globs(rest)?;
        match known {
            KnownProgram::Opaque(reason) => Err(CommandRefusal::new(&program.text, reason)),
            KnownProgram::Options(options) => options.check(rest),
            KnownProgram::Checked(check) => check(self, rest),
        }
    }

    /// Checks the command inside a wrapper.
    pub(super) fn check_inner(self, words: &[Word]) -> Result<(), CommandRefusal> {
        if self.depth >= MAX_WRAPPED_PROGRAMS {
            let outermost = words.first().map_or("", |word| word.text.as_str());
            return Err(CommandRefusal::new(
                outermost,
                "too many programs run one another",
            ));
        }
        Programs {
            listed: self.listed,
            depth: self.depth + 1,
        }
        .check(words)
    }

    /// Whether the list has exactly this name.
    pub(super) fn lists(self, name: &str) -> bool {
        self.listed.iter().any(|entry| entry == name)
    }

    fn allow(self, program: &Word) -> Result<(), CommandRefusal> {
        let name = program.text.as_str();
        if !program.is_literal() {
            return Err(CommandRefusal::new(
                name,
                "the name of a program must be literal",
            ));
        }
        if CODE_RUNNERS.contains(&name) {
            return Err(CommandRefusal::new(
                name,
                "`eval`, `exec`, `source` and `.` are never accepted; run the command itself",
            ));
        }
        let is_path = name.contains('/');
        if self.lists(name) && (!is_path || name.starts_with('/')) {
            return Ok(());
        }
        Err(CommandRefusal::new(name, self.unlisted(is_path)))
    }

    fn unlisted(self, is_path: bool) -> String {
        let allowed = if self.listed.is_empty() {
            "no program is allowed".to_owned()
        } else {
            format!("allowed are {}", self.listed.join(", "))
        };
        let remedy = if is_path {
            "a program named by a path must be listed by that absolute path in policy.shell.allow"
        } else {
            "add it to policy.shell.allow to allow it"
        };
        format!("this program is not allowed ({allowed}); {remedy}")
    }
}

/// What is known of a program; `None`: nothing, so that listing it is enough.
pub(super) fn known(program: &str) -> Option<KnownProgram> {
    let name = family(program);
    if OPAQUE_PROGRAMS.contains(&name) {
        return Some(KnownProgram::Opaque(
            "it runs other programs in a way that cannot be checked; run the inner program itself",
        ));
    }
    if OPAQUE_BUILTINS.contains(&name) {
        return Some(KnownProgram::Opaque(
            "this builtin can change what later commands run, so it is not accepted",
        ));
    }
    if let Some(options) = arguments::options_of(name) {
        return Some(KnownProgram::Options(options));
    }
    Some(KnownProgram::Checked(match name {
        "find" => find::check,
        "git" => git::check,
        "cargo" => cargo::check,
        "sed" => sed::check,
        "make" => arguments::check_make,
        "tar" | "bsdtar" => arguments::check_tar,
        "rsync" => arguments::check_rsync,
        "python" | "pypy" => interpreters::check_python,
        "perl" | "ruby" | "node" | "nodejs" | "php" | "lua" | "luajit" | "Rscript" | "tclsh"
        | "osascript" => interpreters::check_other,
        "bun" | "deno" => interpreters::check_toolkit,
        "awk" | "mawk" | "nawk" => interpreters::check_awk,
        "npm" | "npx" | "pnpm" | "yarn" => arguments::check_npm,
        "command" => wrappers::check_command,
        "rustup" => |programs, words| wrappers::check_runner(programs, words, &["run"]),
        "bundle" | "mise" | "asdf" | "direnv" => {
            |programs, words| wrappers::check_runner(programs, words, &["exec", "x"])
        }
        "poetry" | "uv" | "pdm" | "pipx" | "pipenv" | "hatch" => {
            |programs, words| wrappers::check_runner(programs, words, &["run", "shell"])
        }
        "builtin" | "nohup" | "setsid" => wrappers::check_plain,
        "env" => wrappers::check_env,
        "nice" => wrappers::check_nice,
        "timeout" => wrappers::check_timeout,
        "stdbuf" => wrappers::check_stdbuf,
        "xargs" => wrappers::check_xargs,
        "export" => builtins::check_export,
        "unset" => builtins::check_unset,
        "set" => builtins::check_set,
        "printf" => builtins::check_printf,
        "test" | "[" => builtins::check_test,
        _ => return None,
    }))
}

/// Whether words nobody has seen can follow as operands without changing what
/// the program runs.
pub(super) fn takes_any_operand(program: &Word, arguments: &[Word]) -> bool {
    match known(&program.text) {
        None | Some(KnownProgram::Options(_)) => true,
        Some(KnownProgram::Opaque(_)) => false,
        Some(KnownProgram::Checked(_)) => {
            family(&program.text) == "git" && git::takes_any_operand(arguments)
        }
    }
}

/// The name a program is known by: without its directory, its version and the
/// `g` that marks a GNU tool among others.
fn family(program: &str) -> &str {
    let name = program.rsplit('/').next().unwrap_or(program);
    let unversioned = name.trim_end_matches(|last: char| last.is_ascii_digit() || last == '.');
    let name = match unversioned.strip_suffix('-') {
        _ if unversioned.is_empty() => name,
        Some(shorter) => shorter,
        None => unversioned,
    };
    match name.strip_prefix('g') {
        Some(plain) if GNU_TOOLS.contains(&plain) => plain,
        Some(_) | None => name,
    }
}

const GNU_TOOLS: &[&str] = &[
    "find", "xargs", "env", "timeout", "nice", "nohup", "stdbuf", "sort", "split", "install",
    "sed", "awk", "tar", "make", "printf", "test",
];

/// Shells, debuggers, editors, pagers, terminals, remote shells, and programs
/// whose whole purpose is to start another.
const OPAQUE_PROGRAMS: &[&str] = &[
    "sh",
    "bash",
    "rbash",
    "dash",
    "ash",
    "zsh",
    "ksh",
    "mksh",
    "fish",
    "csh",
    "tcsh",
    "busybox",
    "toybox",
    "pwsh",
    "nu",
    "xonsh",
    "sudo",
    "doas",
    "su",
    "runuser",
    "pkexec",
    "chroot",
    "unshare",
    "nsenter",
    "setpriv",
    "capsh",
    "bwrap",
    "firejail",
    "proot",
    "fakeroot",
    "script",
    "expect",
    "screen",
    "tmux",
    "watch",
    "parallel",
    "entr",
    "flock",
    "strace",
    "ltrace",
    "gdb",
    "lldb",
    "rr",
    "perf",
    "valgrind",
    "at",
    "batch",
    "crontab",
    "systemd-run",
    "ssh",
    "scp",
    "sftp",
    "mosh",
    "socat",
    "nc",
    "ncat",
    "netcat",
    "telnet",
    "vi",
    "vim",
    "nvim",
    "view",
    "ex",
    "ed",
    "emacs",
    "nano",
    "less",
    "more",
    "most",
    "man",
    "fzf",
    "ionice",
    "chrt",
    "taskset",
    "numactl",
    "prlimit",
    "setarch",
    "linux64",
    "run-parts",
    "start-stop-daemon",
    "dbus-run-session",
    "ld.so",
    "ld-linux",
    "ld-linux-x86-64.so",
    "ld-linux-aarch64.so",
    "ld-musl-x86_64.so",
    "sqlite",
    "m4",
    "dc",
    "wish",
    "ghci",
    "irb",
    "ipython",
    "jshell",
    "time",
    "xterm",
    "catchsegv",
    "eatmydata",
    "faketime",
    "choom",
    "unbuffer",
    "rlwrap",
];

/// Builtins that define code, or evaluate their arguments.
const OPAQUE_BUILTINS: &[&str] = &[
    "trap",
    "alias",
    "bind",
    "complete",
    "compgen",
    "compopt",
    "enable",
    "fc",
    "let",
    "declare",
    "typeset",
    "local",
    "readonly",
    "shopt",
    "hash",
    "getopts",
    "mapfile",
    "readarray",
    "read",
    "coproc",
    "jobs",
    "wait",
    "history",
];

#[cfg(test)]
mod tests {
    use super::family;

    #[test]
    fn programs_are_known_without_directory_and_version() {
        assert_eq!(family("/usr/bin/python3.11"), "python");
        assert_eq!(family("perl5.36.0"), "perl");
        assert_eq!(family("gcc-12"), "gcc");
        assert_eq!(family("git"), "git");
        assert_eq!(family("gxargs"), "xargs");
        assert_eq!(family("7"), "7");
    }
}
