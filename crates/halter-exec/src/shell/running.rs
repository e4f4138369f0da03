//! One command inside a shell: its streams, its name, its neighbours.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use super::dialect::CommandPaths;
use super::live::LiveShell;
use super::{ShellCommand, running_before};
use crate::error::ExecError;
use crate::nonce;
use crate::output::{CapturedOutput, OutputPipe, OutputSink, Pump};
use crate::process::Stdin;
use crate::sys;
use crate::tree::Spared;

/// A command that has been given to the shell.
pub(super) struct RunningCommand<'sink> {
    /// What the record of its end must say.
    pub nonce: String,
    pub pump: Pump<'sink>,
    /// What an interrupt of this command leaves alone.
    pub spared: Spared,
    /// What the shell opens by path; must stay open until it has.
    _handed_over: Vec<OwnedFd>,
}

impl<'sink> RunningCommand<'sink> {
    pub(super) fn start(
        live: &LiveShell,
        command: &ShellCommand,
        go_to: Option<&Path>,
        sink: &'sink dyn OutputSink,
    ) -> Result<Self, ExecError> {
        let script = live
            .dialect
            .command_script(&command.text, go_to, &command.environment)?;
        let failed = |source: io::Error| ExecError::io("giving the command to the shell", source);
        let script = sys::data_file("halter-command", &script).map_err(failed)?;
        let stdin = match &command.stdin {
            Stdin::Null => File::open("/dev/null"),
            Stdin::Bytes(bytes) => sys::data_file("halter-stdin", bytes),
        }
        .map_err(failed)?;
        let (our_stdout, stdout) = sys::pipe().map_err(failed)?;
        let (our_stderr, stderr) = sys::pipe().map_err(failed)?;
        let pump = Pump::new(
            OutputPipe::new(our_stdout).map_err(failed)?,
            OutputPipe::new(our_stderr).map_err(failed)?,
            None,
            &command.output,
            sink,
        );
        let nonce = nonce::random()?;
        let spared = running_before(live);
        let lines = live.dialect.command_lines(
            &nonce,
            &CommandPaths {
                script: &sys::handover_path(&script),
                stdin: &sys::handover_path(&stdin),
                stdout: &sys::handover_path(&stdout),
                stderr: &sys::handover_path(&stderr),
            },
        );
        live.send(&lines).map_err(failed)?;
        Ok(Self {
            nonce,
            pump,
            spared,
            _handed_over: vec![script.into(), stdin.into(), stdout, stderr],
        })
    }

    /// What came out, and the pipes that somebody still holds.
    pub(super) async fn finish(
        self,
    ) -> Result<(CapturedOutput, CapturedOutput, Vec<OutputPipe>), ExecError> {
        let Self {
            mut pump,
            _handed_over,
            ..
        } = self;
        // Without our own write ends the streams can come to their end.
        drop(_handed_over);
        pump.drain()
            .await
            .map_err(|source| ExecError::io("reading the command's output", source))?;
        Ok(pump.finish().await)
    }
}
