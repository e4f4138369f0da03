//! What is known of programs that can run others, or change what runs.

use super::argument::Argument;
use super::programs::Programs;
use super::{
    CommandRefusal, arguments, awk, builtin_options, cargo, find, git, interpreters,
    package_managers, sed, shells, wrappers,
};

/// What is known of a program that can run others, or change what runs.
pub(super) enum KnownProgram {
    /// It runs whatever it is told in a way that cannot be read here.
    Opaque(&'static str),
    /// It is harmless without certain options.
    Options(&'static arguments::Options),
    /// Its arguments are read by a function of its own.
    Checked(fn(Programs<'_>, &[Argument]) -> Result<(), CommandRefusal>),
}

/// Whether something is known of the program.
pub(super) fn is_known(name: &str) -> bool {
    known(name).is_some()
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
        "bash" => shells::check_bash,
        "sh" | "dash" | "ash" => shells::check_posix,
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
        "awk" | "mawk" | "nawk" => awk::check,
        "npm" | "npx" => package_managers::check_npm,
        "pnpm" | "yarn" => package_managers::check_other,
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
        "set" => builtin_options::check_set,
        "shopt" => builtin_options::check_shopt,
        "jobs" => |_, words| builtin_options::check_without(words, &['x']),
        "wait" => |_, words| builtin_options::check_without(words, &['p']),
        "hash" => |_, words| builtin_options::check_without(words, &['p']),
        "printf" => builtin_options::check_printf,
        "test" | "[" => builtin_options::check_test,
        _ => return None,
    }))
}

/// Whether words nobody has seen can follow as operands without changing what
/// the program runs.
pub(super) fn takes_any_operand(program: &Argument, arguments: &[Argument]) -> bool {
    match known(&program.text) {
        None | Some(KnownProgram::Options(_)) => true,
        Some(KnownProgram::Opaque(_)) => false,
        Some(KnownProgram::Checked(_)) => {
            match family(&program.text) {
                "git" => git::takes_any_operand(arguments),
                // The first operand is the script, which has been read.
                "sed" => arguments.iter().any(|word| !word.text.starts_with('-')),
                _ => false,
            }
        }
    }
}

/// The name a program is known by: without its directory, its version and the
/// `g` that marks a GNU tool among others.
pub(super) fn family(program: &str) -> &str {
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
    "rbash",
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
    "getopts",
    "mapfile",
    "readarray",
    "read",
    "export",
    "unset",
    "unalias",
    "coproc",
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
