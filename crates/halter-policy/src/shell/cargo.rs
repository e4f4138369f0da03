//! `cargo`, which builds and runs the project's code: that is what listing it
//! accepts. What it must not do is run something else.

use super::CommandRefusal;
use super::argument::Argument;
use super::arguments::may_abbreviate;
use super::programs::Programs;

pub(super) fn check(programs: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    // Behind `--` are the options of the program that cargo has built.
    let mut own = words.iter().take_while(|word| word.text != "--");
    if let Some(word) = own.find(|word| may_abbreviate(&word.text, "--config")) {
        return Err(CommandRefusal::new(
            &word.text,
            "cargo's configuration can name programs to run; put it into the project's own file",
        ));
    }
    let runs = |text: &str| text.contains("linker=") || text == "--open";
    if let Some(word) = words.iter().find(|word| runs(&word.text)) {
        return Err(CommandRefusal::new(
            &word.text,
            "this makes cargo run a program of its own choice; leave it out",
        ));
    }
    let toolchain = words.first().filter(|word| word.text.starts_with('+'));
    if let Some(word) = toolchain
        && word.text.contains('/')
    {
        return Err(CommandRefusal::new(
            &word.text,
            "name an installed toolchain",
        ));
    }
    let subcommand = words
        .iter()
        .skip(usize::from(toolchain.is_some()))
        .find(|word| !QUIET_OPTIONS.contains(&word.text.as_str()));
    let Some(subcommand) = subcommand else {
        return Ok(());
    };
    let name = subcommand.text.as_str();
    if !subcommand.is_literal() {
        return Err(CommandRefusal::new(
            &subcommand.raw,
            "write the subcommand of cargo out",
        ));
    }
    if name.starts_with('-') {
        return Err(CommandRefusal::new(
            name,
            "this option is not known before the subcommand; put it after the subcommand",
        ));
    }
    if SUBCOMMANDS.contains(&name) || programs.lists(&format!("cargo-{name}")) {
        return Ok(());
    }
    Err(CommandRefusal::new(
        name,
        format!(
            "`cargo {name}` runs the program cargo-{name}, which is not allowed; \
             add cargo-{name} to policy.shell.allow"
        ),
    ))
}

const QUIET_OPTIONS: &[&str] = &[
    "-v",
    "-vv",
    "-q",
    "-V",
    "-h",
    "--verbose",
    "--quiet",
    "--version",
    "--help",
    "--list",
    "--locked",
    "--offline",
    "--frozen",
];

const SUBCOMMANDS: &[&str] = &[
    "add",
    "b",
    "bench",
    "build",
    "c",
    "check",
    "clean",
    "clippy",
    "d",
    "doc",
    "fetch",
    "fix",
    "fmt",
    "generate-lockfile",
    "help",
    "info",
    "init",
    "install",
    "locate-project",
    "login",
    "logout",
    "metadata",
    "new",
    "owner",
    "package",
    "pkgid",
    "publish",
    "r",
    "remove",
    "report",
    "rm",
    "run",
    "rustc",
    "rustdoc",
    "search",
    "t",
    "test",
    "tree",
    "uninstall",
    "update",
    "vendor",
    "version",
    "yank",
];
