//! Trying containment out.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::contained::Contained;
use super::{Containment, ContainmentRung, MissingRung};
use crate::environment::Environment;
use crate::launch::{LaunchPlan, launch};
use crate::limits::KILL_WAIT;
use crate::spawn::find_program;
use crate::sys::Signal;

/// Whether this containment can be had here: it is put in place and a program
/// is run in it, as any other would be. Takes some milliseconds.
///
/// # Errors
/// Why not, and what would help.
pub fn probe_containment(containment: &Containment) -> Result<(), MissingRung> {
    run_in(&Contained::establish(containment)?)
}

/// Kinds of containment in which a program has run.
static TRIED: Mutex<Vec<(ContainmentRung, bool)>> = Mutex::new(Vec::new());

/// The same for containment that is in place, unless one of its kind was tried.
/// What fails may be of the moment, so that is not kept.
pub(super) fn try_out(contained: &Contained) -> Result<(), MissingRung> {
    let containment = contained.containment();
    let kind = (containment.rung, containment.executables.is_some());
    let tried = || TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    if !tried().contains(&kind) {
        run_in(contained)?;
        tried().push(kind);
    }
    Ok(())
}

fn run_in(contained: &Contained) -> Result<(), MissingRung> {
    let program = find_program(OsStr::new("cat"), &Environment::new(), Path::new("/"))
        .map_err(|error| MissingRung::new(error.to_string()))?;
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(|error| MissingRung::of("opening `/dev/null`", &error))?;
    let mut slots = vec![null.as_fd(); 3];
    let mut plan = LaunchPlan::new(&program, "/").standard_streams();
    contained.confine(&mut plan, 3);
    // It is not one of those that the containment lists.
    if let Some(executables) = &mut plan.containment.executables {
        executables.push("/".into());
    }
    slots.extend(contained.handle());
    let launched = launch(&plan, &slots).map_err(|failure| {
        let said = failure.explain(&plan, &program.to_string_lossy());
        MissingRung::new(said.to_string())
    })?;
    if !launched.pidfd.has_ended(KILL_WAIT) {
        let _ = launched.pidfd.send(Signal::KILL);
        let _ = launched.pidfd.has_ended(KILL_WAIT);
    }
    match launched.pidfd.reap() {
        Ok(Some(exit)) if exit.status.success() => Ok(()),
        other => Err(MissingRung::new(format!(
            "a program that was run in it did not end well: {other:?}"
        ))),
    }
}
