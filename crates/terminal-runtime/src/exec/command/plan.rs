//! The process of a command: its program, and what it finds around it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use halter_exec::Environment;
use halter_exec::host::{LaunchFailure, LaunchPlan, find_program_in};

use crate::exec::command::Exec;
use crate::exec::core::CoreInner;
use crate::exec::error::CoreError;
use crate::exec::lock;
use crate::exec::session::Session;
use crate::exec::session::container;
use crate::exec::types::{ExecOrder, ExecStdin, ExecWhat};

impl CoreInner {
    /// The process of a command that is not given to the persistent shell. A
    /// terminal is led by a process of its own, so a line for the shell runs
    /// in a new one there.
    pub(in crate::exec) fn plan(
        &self,
        session: &Session,
        order: &ExecOrder,
    ) -> Result<LaunchPlan, CoreError> {
        let spec = &session.spec;
        let environment = match session.container {
            Some(_) => container::environment(spec, order),
            None => {
                let mut environment = session.environment(&self.settings);
                environment.extend(order.environment.iter());
                environment
            }
        };
        let directory = order.cwd.as_ref().unwrap_or(&spec.working_dir);
        let words = words(session, &order.what);
        let program = match session.container {
            // Looked for inside, by the one who runs it there.
            Some(_) => PathBuf::new(),
            None => {
                let program = words.first().copied().unwrap_or_default();
                let root = spec.chroot.as_deref();
                find_program_in(root, program, &environment, directory)?
            }
        };
        let mut plan = LaunchPlan::new(program, directory).standard_streams();
        plan.arguments = words.iter().map(OsString::from).collect();
        plan.environment = environment;
        plan.terminal = order.pty.map(|_| 0);
        Ok(plan)
    }
}

/// A command as the words of its process.
fn words<'a>(session: &'a Session, what: &'a ExecWhat) -> Vec<&'a OsStr> {
    match what {
        ExecWhat::Command(text) | ExecWhat::Fresh(text) => {
            vec![
                session.spec.shell.as_os_str(),
                "-c".as_ref(),
                (**text).as_ref(),
            ]
        }
        ExecWhat::Argv(words) => words.iter().map(AsRef::as_ref).collect(),
    }
}

impl Exec {
    /// Why it could not be started, in words.
    pub(in crate::exec) fn explain(&self, failure: LaunchFailure) -> CoreError {
        let Some(core) = self.inner.core.upgrade() else {
            return crate::exec::command::run::holder_lost();
        };
        let (what, cwd) = {
            let record = lock(&self.inner.record);
            (record.what.clone(), record.cwd.clone())
        };
        let order = ExecOrder {
            id: self.inner.id.clone(),
            what,
            environment: Environment::new(),
            stdin: ExecStdin::Null,
            timeout: None,
            pty: None,
            cwd,
            protect: Vec::new(),
            note: bytes::Bytes::new(),
        };
        match core.plan(&self.inner.session, &order) {
            Ok(mut plan) => {
                plan.root.clone_from(&self.inner.session.spec.chroot);
                let program = plan.arguments.first().cloned().unwrap_or_default();
                failure.explain(&plan, &program.to_string_lossy()).into()
            }
            Err(error) => error,
        }
    }
}
