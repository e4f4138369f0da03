//! The steps of a change of several files, and how they are taken back.

use crate::context::ToolContext;
use anyhow::anyhow;
use halter_policy::{FileDoor, PolicyError, Precondition, SetAside, WriteTicket};
use halter_protocol::ContentHash;
use std::path::PathBuf;

/// A file as it was named, and where that led.
#[derive(Debug, Clone)]
pub(super) struct FilePlace {
    pub(super) target: PathBuf,
    pub(super) resolved: PathBuf,
}

#[derive(Debug)]
pub(super) enum Step {
    /// Takes a file from its name, to be deleted when all is done.
    SetAside(FilePlace),
    Rename {
        from: FilePlace,
        to: FilePlace,
    },
    Write {
        place: FilePlace,
        /// What is there; none for a new file.
        before: Option<String>,
        after: String,
    },
}

/// How a step is taken back.
enum Undo {
    Restore(SetAside),
    Rename {
        from: PathBuf,
        to: PathBuf,
        new_directories: Vec<PathBuf>,
    },
    Write {
        path: PathBuf,
        before: String,
        written: String,
    },
    Delete {
        path: PathBuf,
        new_directories: Vec<PathBuf>,
    },
}

/// Takes all steps, or none.
pub(super) fn run(context: &ToolContext, steps: Vec<Step>) -> anyhow::Result<()> {
    let door = context.policy.door();
    let mut taken = Vec::new();
    for step in steps {
        match take(door, step) {
            Ok(undo) => taken.push(undo),
            Err(error) => return Err(take_back(door, taken, error)),
        }
    }
    // A name that could be changed once lets its file go as well: what fails
    // here is out of the ordinary, and the file keeps its name.
    for undo in taken {
        if let Undo::Restore(aside) = undo {
            aside.discard()?;
        }
    }
    Ok(())
}

fn take(door: &FileDoor, step: Step) -> Result<Undo, PolicyError> {
    match step {
        Step::SetAside(place) => {
            let ticket = door.prepare_delete(&place.target)?;
            match ticket.resolved() == place.resolved {
                true => ticket.set_aside().map(Undo::Restore),
                false => Err(changed(&place)),
            }
        }
        Step::Rename { from, to } => {
            let new_directories = ticket_for(door, &to)?.new_directories();
            let ticket = door.prepare_rename(&from.target, &to.target)?;
            if ticket.from() != from.resolved || ticket.to() != to.resolved {
                return Err(changed(&from));
            }
            ticket.commit_new()?;
            Ok(Undo::Rename {
                from: to.target,
                to: from.target,
                new_directories,
            })
        }
        Step::Write {
            place,
            before,
            after,
        } => {
            let ticket = ticket_for(door, &place)?;
            let new_directories = ticket.new_directories();
            let precondition = match &before {
                Some(before) => Precondition::Unchanged(ContentHash::hex_of(before.as_bytes())),
                None => Precondition::MustNotExist,
            };
            ticket.commit(after.as_bytes(), precondition)?;
            let path = place.target;
            Ok(match before {
                Some(before) => Undo::Write {
                    path,
                    before,
                    written: ContentHash::hex_of(after.as_bytes()),
                },
                None => Undo::Delete {
                    path,
                    new_directories,
                },
            })
        }
    }
}

/// The right to write a file, if its path still leads where it did.
fn ticket_for(door: &FileDoor, place: &FilePlace) -> Result<WriteTicket, PolicyError> {
    let ticket = door.prepare_write(&place.target)?;
    match ticket.resolved() == place.resolved {
        true => Ok(ticket),
        false => Err(changed(place)),
    }
}

fn changed(place: &FilePlace) -> PolicyError {
    PolicyError::Changed {
        path: place.target.clone(),
    }
}

/// Takes back what was done, last first, and says what went wrong.
fn take_back(door: &FileDoor, taken: Vec<Undo>, error: PolicyError) -> anyhow::Error {
    let mut left = Vec::new();
    for undo in taken.into_iter().rev() {
        if let Err(error) = undo_step(door, undo) {
            left.push(error.to_string());
        }
    }
    match left.is_empty() {
        true => anyhow!(error).context("nothing was changed, because one of the files failed"),
        false => anyhow!(error).context(format!(
            "one of the files failed, and what was done before could not all be taken back ({})",
            left.join("; ")
        )),
    }
}

fn undo_step(door: &FileDoor, undo: Undo) -> Result<(), PolicyError> {
    match undo {
        Undo::Restore(aside) => aside.restore(),
        Undo::Rename {
            from,
            to,
            new_directories,
        } => {
            door.prepare_rename(&from, &to)?.commit_new()?;
            remove_directories(door, &new_directories);
            Ok(())
        }
        Undo::Write {
            path,
            before,
            written,
        } => {
            let ticket = door.prepare_write(&path)?;
            ticket
                .commit(before.as_bytes(), Precondition::Unchanged(written))
                .map(drop)
        }
        Undo::Delete {
            path,
            new_directories,
        } => {
            door.prepare_delete(&path)?.commit()?;
            remove_directories(door, &new_directories);
            Ok(())
        }
    }
}

/// Best effort: what somebody has put a file in by now stays.
fn remove_directories(door: &FileDoor, directories: &[PathBuf]) {
    for directory in directories.iter().rev() {
        let _ = door.prepare_delete(directory).and_then(|it| it.commit());
    }
}
