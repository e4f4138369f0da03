//! The files a command line names, judged by the file door.
//!
//! What is not literal cannot be judged here, and neither can a program that
//! opens files on its own: the sandbox is the wall behind this.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;

use crate::door::FileDoor;
use crate::error::PolicyError;
use crate::shell::{CommandPart, PartWord, PathAccess, ShellDecision, ShellRefusal};

/// Streams and devices that hold nothing.
const STREAMS: [&str; 7] = [
    "/dev/null",
    "/dev/zero",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
    "/dev/urandom",
];

/// Names a pattern must not match: what reading them as literals would refuse.
const SECRETS: [&str; 12] = [
    ".env",
    ".env.local",
    ".env.production",
    ".netrc",
    ".git-credentials",
    ".pypirc",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".ssh",
    ".aws",
];

/// The first objection to a file, if there is one.
pub(crate) fn check(door: &FileDoor, parts: &[CommandPart]) -> Option<ShellDecision> {
    let mut ask = None;
    for part in parts {
        for used in &part.paths {
            if let Some(refusal) = refuse(door, part, &used.path, used.access) {
                return Some(ShellDecision::Deny(refusal));
            }
        }
        for redirection in &part.redirections {
            let target = &redirection.target;
            if let Some(refusal) = refuse(door, part, target, redirection.access) {
                return Some(ShellDecision::Deny(refusal));
            }
            if !target.literal && redirection.access == PathAccess::Write {
                ask = ask.or_else(|| Some(unknown_target(target)));
            }
        }
    }
    ask.map(ShellDecision::Ask)
}

fn unknown_target(target: &PartWord) -> ShellRefusal {
    ShellRefusal {
        rule: "shell.redirection_target",
        fragment: target.text.clone(),
        message: "which file this writes is not known before it runs; write the path out"
            .to_owned(),
    }
}

fn refuse(
    door: &FileDoor,
    part: &CommandPart,
    word: &PartWord,
    access: PathAccess,
) -> Option<ShellRefusal> {
    let start = [String::new()];
    let directories = match part.directories.as_slice() {
        [] => start.as_slice(),
        directories => directories,
    };
    let text = word.text.as_str();
    if STREAMS.contains(&text) || text.starts_with("/dev/fd/") {
        return None;
    }
    if !word.literal {
        return refuse_pattern(door, directories, text);
    }
    directories.iter().find_map(|directory| {
        let path = Path::new(directory).join(text);
        let error = judge(door, &path, access).err()?;
        error.is_denial().then(|| refusal(&error, text))
    })
}

fn refusal(error: &PolicyError, text: &str) -> ShellRefusal {
    ShellRefusal {
        rule: error.rule(),
        fragment: text.to_owned(),
        message: error.to_string(),
    }
}

/// The path as spelled, and where its links lead.
fn judge(door: &FileDoor, path: &Path, access: PathAccess) -> Result<(), PolicyError> {
    match access {
        PathAccess::Read => {
            door.may_read(path)?;
            door.open_read(path).map(drop)
        }
        PathAccess::List => {
            door.may_read(path)?;
            door.open_dir(path).map(drop)
        }
        PathAccess::Write => {
            door.may_write(path)?;
            door.prepare_write(path).map(drop)
        }
        PathAccess::Delete => {
            door.may_write(path)?;
            door.prepare_delete(path).map(drop)
        }
    }
}

/// A pattern of file names: its directory must be readable, and it must not
/// match what is secret. Anything else that is not literal is not known.
fn refuse_pattern(door: &FileDoor, directories: &[String], text: &str) -> Option<ShellRefusal> {
    let plain = !text.contains(['$', '`', '\'', '"', '\\', '{', '~', '(']);
    if !plain || !text.contains(['*', '?', '[']) {
        return None;
    }
    let (directory, name) = text.rsplit_once('/').unwrap_or(("", text));
    let fixed: PathBuf = Path::new(directory)
        .components()
        .take_while(|part| !part.as_os_str().to_string_lossy().contains(['*', '?', '[']))
        .collect();
    let fixed = if text.starts_with('/') && fixed.as_os_str().is_empty() {
        PathBuf::from("/")
    } else {
        fixed
    };
    let pattern = GlobBuilder::new(name).build().ok()?.compile_matcher();
    // A leading `*` does not match a leading dot.
    let matches = |secret: &&&str| {
        pattern.is_match(**secret) && (!secret.starts_with('.') || name.starts_with(['.', '[']))
    };
    let secret = SECRETS.iter().find(matches).filter(|_| name != "*");
    directories.iter().find_map(|base| {
        let base = Path::new(base).join(&fixed);
        let listed = if base.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &base
        };
        let outside = door.may_read(listed).err();
        let hidden = secret.and_then(|secret| door.may_read(&base.join(secret)).err());
        let error = outside.or(hidden)?;
        error.is_denial().then(|| refusal(&error, text))
    })
}
