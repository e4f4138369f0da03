//! A call taken apart, as far as the rules and the mode need that.

use std::path::{Path, PathBuf};

use halter_protocol::{Action, CallToJudge, PermissionMode};

use super::{PermissionTree, PlacedCall};
use crate::door::FileDoor;
use crate::error::Access;
use crate::permission::paths::resolved;
use crate::shell::{CommandPart, PathAccess, Spelling, parts, with_home};

/// Places that writing to changes nothing.
const NOWHERE: [&str; 3] = ["/dev/null", "/dev/stdout", "/dev/stderr"];

/// A call with its commands taken apart and its paths resolved.
pub(super) struct ResolvedCall<'a> {
    pub(super) subject: &'a CallToJudge,
    /// The door to the files that it names, if they are not this machine's.
    pub(super) elsewhere: Option<&'a FileDoor>,
    pub(super) commands: Vec<Commands>,
    pub(super) paths: Vec<TouchedPath>,
}

/// A command line, taken apart.
pub(super) struct Commands {
    pub(super) line: String,
    pub(super) parts: Vec<CommandPart>,
    /// Its parts are unknown, so no rule about commands can be held against
    /// them. Only a list of all programs lets such a line come this far.
    pub(super) unreadable: bool,
}

/// A file that a call names.
pub(super) struct TouchedPath {
    pub(super) changes: bool,
    /// If it is a directory, all below it changes too.
    pub(super) with_all_below: bool,
    pub(super) spelled: PathBuf,
    /// Where its links lead.
    pub(super) real: PathBuf,
}

/// What a call does with a path it names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touch {
    Reads,
    Changes,
    /// With everything below it.
    ChangesTree,
}

impl<'a> ResolvedCall<'a> {
    /// Takes a call apart. Where neither a rule nor the mode would look at
    /// commands, they stay whole.
    pub(super) fn take(tree: &PermissionTree, placed: PlacedCall<'a>, asks: bool) -> Self {
        let subject = placed.call;
        let by_mode = matches!(tree.mode, PermissionMode::ReadOnly | PermissionMode::Prompt);
        let looks_inside = asks || by_mode || !tree.rules.is_empty();
        let mut request = Self {
            subject,
            elsewhere: placed.elsewhere,
            commands: Vec::new(),
            paths: Vec::new(),
        };
        for action in &subject.actions {
            match action {
                Action::Run { command, directory } if looks_inside => {
                    let start = directory.as_deref().unwrap_or(Path::new(""));
                    request.take_command(tree, command, start);
                }
                Action::Run { .. } => request.commands.push(Commands {
                    line: String::new(),
                    parts: Vec::new(),
                    unreadable: false,
                }),
                Action::Read { path } => request.touch(tree, path, Touch::Reads),
                Action::Write { path } => request.touch(tree, path, Touch::ChangesTree),
                _ => {}
            }
        }
        request
    }

    fn take_command(&mut self, tree: &PermissionTree, command: &str, start: &Path) {
        let read = parts(command);
        let unreadable = read.is_err();
        let parts = read.map(|it| it.parts).unwrap_or_default();
        let home = tree.anchors.home();
        for (path, access) in parts.iter().flat_map(|part| named_paths(part, start, home)) {
            let touch = match access {
                PathAccess::Delete => Touch::ChangesTree,
                // `cp a directory` changes one name in the directory.
                PathAccess::Write => Touch::Changes,
                _ => Touch::Reads,
            };
            self.touch(tree, &path, touch);
        }
        self.commands.push(Commands {
            line: command.split_whitespace().collect::<Vec<_>>().join(" "),
            parts,
            unreadable,
        });
    }

    fn touch(&mut self, tree: &PermissionTree, path: &Path, touch: Touch) {
        let spelled = tree.anchors.spelled(path);
        // Following links costs system calls; only patterns want to know.
        let real = match (tree.has_patterns(), self.elsewhere) {
            (false, _) => spelled.clone(),
            (true, None) => resolved(&spelled),
            (true, Some(door)) => {
                let access = match touch {
                    Touch::Reads => Access::Read,
                    Touch::Changes | Touch::ChangesTree => Access::Write,
                };
                door.real_path(&spelled, access)
            }
        };
        self.paths.push(TouchedPath {
            changes: touch != Touch::Reads,
            with_all_below: touch == Touch::ChangesTree,
            spelled,
            real,
        });
    }

    /// The files the call changes.
    pub(super) fn changed(&self) -> impl Iterator<Item = &TouchedPath> {
        self.paths.iter().filter(|it| it.changes)
    }

    /// Whether the call changes something that is neither a file it names nor
    /// done by a command. A tool that changes things in other calls may say of
    /// this one that it does not.
    pub(super) fn changes_otherwise(&self) -> bool {
        let actions = &self.subject.actions;
        let other = |it: &Action| matches!(it, Action::Other { mutating: true });
        let told = |it: &Action| {
            matches!(
                it,
                Action::Run { .. } | Action::Write { .. } | Action::Other { mutating: false }
            )
        };
        actions.iter().any(other)
            || (self.subject.capabilities.mutating && !actions.iter().any(told))
    }
}

/// The files a part names, in its arguments and redirections, wherever it may
/// run. Where nobody knows, they are looked for at the start.
fn named_paths(
    part: &CommandPart,
    start: &Path,
    home: Option<&Path>,
) -> Vec<(PathBuf, PathAccess)> {
    let named = part.paths.iter().map(|it| (&it.path, it.access));
    let redirected = part.redirections.iter().map(|it| (&it.target, it.access));
    let words = named
        .chain(redirected)
        .filter(|(word, _)| !NOWHERE.contains(&word.text.as_str()));
    let directories = match part.directories.as_slice() {
        [] => vec![start.to_path_buf()],
        known => known
            .iter()
            .filter_map(|it| with_home(it, home))
            .map(|it| start.join(it))
            .collect(),
    };
    let mut paths = Vec::new();
    for (word, access) in words {
        let text = match word.path.spelling(home) {
            Spelling::Exact(text) => text,
            // A rule is held against a pattern as it is written.
            _ => word.text.clone(),
        };
        paths.extend(directories.iter().map(|it| (it.join(&text), access)));
    }
    paths
}
