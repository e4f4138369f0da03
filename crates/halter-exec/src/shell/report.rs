//! What a shell says of itself, as data: for a shell elsewhere that is to go
//! on from there without believing it.
//!
//! Whoever shares the shell's place can write what is read here, so it is
//! parsed strictly, never evaluated, and still only the word of that place.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use tokio::time::timeout;

use super::config::ShellConfig;
use super::driver::ShellDriver;
use super::host::{ShellHost, ShellProcess};
use super::traps::TrapMentions;
use super::words::{check_name, quote};
use crate::error::ExecError;
use crate::limits::{MAX_REPORT_BYTES, SHELL_START_DEADLINE};
use crate::nonce;
use crate::sys::Signal;

/// An option of a shell that changes how it goes on, and runs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ShellOption {
    /// A command that fails ends the rest.
    ErrExit,
    /// A variable that is not set is an error.
    NoUnset,
    /// Patterns are not expanded.
    NoGlob,
    /// `>` replaces no file.
    NoClobber,
    /// A pipeline fails with any of its parts.
    PipeFail,
}

impl ShellOption {
    const ALL: [Self; 5] = [
        Self::ErrExit,
        Self::NoUnset,
        Self::NoGlob,
        Self::NoClobber,
        Self::PipeFail,
    ];

    /// Its name for `set -o`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ErrExit => "errexit",
            Self::NoUnset => "nounset",
            Self::NoGlob => "noglob",
            Self::NoClobber => "noclobber",
            Self::PipeFail => "pipefail",
        }
    }

    /// Its letter in `$-`.
    fn letter(self) -> Option<u8> {
        match self {
            Self::ErrExit => Some(b'e'),
            Self::NoUnset => Some(b'u'),
            Self::NoGlob => Some(b'f'),
            Self::NoClobber => Some(b'C'),
            Self::PipeFail => None,
        }
    }
}

/// What a shell says of itself.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShellReport {
    /// The options that are on.
    pub options: BTreeSet<ShellOption>,
    /// The exported variables. Every name is one to a shell.
    pub exported: BTreeMap<OsString, OsString>,
    /// How many functions it has.
    pub functions: usize,
    /// How many aliases it has.
    pub aliases: usize,
}

impl ShellReport {
    /// Fields that each end in NUL: options as `$-`, options by name,
    /// functions, aliases, then the variables. A field that is not what it
    /// should be counts for nothing, and so does a rest without an end.
    fn parse(content: &[u8]) -> Self {
        let end = content.iter().rposition(|byte| *byte == 0).unwrap_or(0);
        let mut fields = content
            .get(..end)
            .unwrap_or_default()
            .split(|byte| *byte == 0);
        let letters = fields.next().unwrap_or_default();
        let names = fields.next().unwrap_or_default();
        let mut count = || -> usize {
            let digits = fields.next().and_then(|field| str::from_utf8(field).ok());
            digits.and_then(|it| it.parse().ok()).unwrap_or_default()
        };
        let (functions, aliases) = (count(), count());
        let is_on = |option: &ShellOption| {
            option.letter().is_some_and(|it| letters.contains(&it))
                || names
                    .split(|byte| *byte == b':')
                    .any(|name| name == option.name().as_bytes())
        };
        let variable = |field: &[u8]| {
            let sign = field.iter().position(|byte| *byte == b'=')?;
            let (name, value) = field.split_at_checked(sign)?;
            let name = OsStr::from_bytes(name);
            check_name(name).ok()?;
            let value = OsStr::from_bytes(value.get(1..)?);
            Some((name.to_owned(), value.to_owned()))
        };
        Self {
            options: ShellOption::ALL.into_iter().filter(is_on).collect(),
            exported: fields.filter_map(variable).collect(),
            functions,
            aliases,
        }
    }
}

/// Shows no value of a variable.
impl fmt::Debug for ShellReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ShellReport")
            .field("options", &self.options)
            .field("exported", &self.exported.keys())
            .field("functions", &self.functions)
            .field("aliases", &self.aliases)
            .finish()
    }
}

/// What a shell is to take over from another.
#[derive(Clone, Default)]
pub struct ShellChange {
    /// Where to go; `None` to stay.
    pub cwd: Option<PathBuf>,
    /// Variables to export.
    pub export: BTreeMap<OsString, OsString>,
    /// Variables to take away.
    pub unset: BTreeSet<OsString>,
}

impl ShellChange {
    /// What a shell of any language does to make it so. Every value is quoted,
    /// what fails does not keep the rest from being done, and what is not text
    /// is left out.
    pub(super) fn script(&self) -> Result<String, ExecError> {
        let mut lines = Vec::new();
        if let Some(cwd) = &self.cwd {
            lines.push(("cd -- ", quote(cwd.as_os_str())));
        }
        for (name, value) in &self.export {
            check_name(name)?;
            let mut assignment = name.clone();
            assignment.push("=");
            assignment.push(quote(value));
            lines.push(("export ", assignment));
        }
        for name in &self.unset {
            check_name(name)?;
            lines.push(("unset -v ", name.clone()));
        }
        let text = lines.iter().filter_map(|(command, words)| {
            let words = words.to_str()?;
            Some(format!("\\command {command}{words} || :\n"))
        });
        Ok(text.collect())
    }
}

impl<H: ShellHost> ShellDriver<H> {
    /// What the shell says of itself; `None` if none is running.
    ///
    /// # Errors
    /// If a command is running in it, or it does not answer.
    pub async fn report(&mut self) -> Result<Option<ShellReport>, ExecError> {
        self.check_idle()?;
        if self.process().is_none() {
            return Ok(None);
        }
        self.settle_after_interrupt().await?;
        let (Some(live), Some(snapshots)) = (&mut self.live, &self.snapshots) else {
            return Ok(None);
        };
        let failed = |source| ExecError::io("asking the shell for its state", source);
        let file = snapshots.mailbox();
        file.clear().map_err(failed)?;
        let nonce = nonce::short()?;
        let lines = live.dialect.report_lines(&nonce, file.path());
        live.send(&lines).map_err(failed)?;
        match timeout(SHELL_START_DEADLINE, live.ended(&nonce)).await {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(None),
            Err(_) => return Err(failed(std::io::ErrorKind::TimedOut.into())),
        }
        let content = file.read(MAX_REPORT_BYTES).map_err(failed)?;
        Ok(content.map(|content| ShellReport::parse(&content)))
    }

    /// Has the next command meet a new shell, started by this configuration
    /// and with nothing of the present one, which ends. What that has in the
    /// background goes on, but is no job of the next.
    ///
    /// # Errors
    /// If a command is running in it, or its state cannot be removed.
    pub async fn begin_anew(&mut self, config: ShellConfig) -> Result<(), ExecError> {
        self.check_idle()?;
        self.check_held()?;
        if let Some(live) = &self.live {
            // Killed, so that no EXIT trap runs.
            live.process.signal(Signal::KILL);
            live.process.exited().await;
            self.retire_dead();
        }
        if let Some(snapshots) = &self.snapshots {
            snapshots
                .forget()
                .map_err(|source| ExecError::io("removing the shell's state", source))?;
        }
        self.unsettled = false;
        self.state_lost = false;
        let state = &mut self.state;
        state.leaving = false;
        state.cwd = config.cwd.clone();
        state.return_to = None;
        state.last_status = 0;
        state.traps = TrapMentions::None;
        self.config = config;
        self.host.remember(&self.state);
        Ok(())
    }

    /// Starts the shell if none is running, ahead of its next command.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn make_ready(&mut self) -> Result<(), ExecError> {
        self.check_idle()?;
        self.make_live().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(report: &ShellReport) -> Vec<(&str, &[u8])> {
        report
            .exported
            .iter()
            .map(|(name, value)| (name.to_str().unwrap(), value.as_bytes()))
            .collect()
    }

    #[test]
    fn a_report_is_read_field_by_field() {
        let report =
            ShellReport::parse(b"ehuBC\0braceexpand:pipefail\x003\x001\x00A=1\x00B=x=\xff\n\0");
        assert_eq!(
            report.options.into_iter().collect::<Vec<_>>(),
            [
                ShellOption::ErrExit,
                ShellOption::NoUnset,
                ShellOption::NoClobber,
                ShellOption::PipeFail
            ]
        );
        assert_eq!((report.functions, report.aliases), (3, 1));
        let exported: Vec<_> = report.exported.into_iter().collect();
        let pair = |name: &str, value: &[u8]| (name.into(), OsStr::from_bytes(value).to_owned());
        assert_eq!(exported, [pair("A", b"1"), pair("B", b"x=\xff\n")]);
    }

    #[test]
    fn what_is_no_field_counts_for_nothing() {
        let kept = |rest: &[u8]| {
            let content = [b"\0\0\0\0", rest].concat();
            let report = ShellReport::parse(&content);
            assert_eq!(report.options.len() + report.functions + report.aliases, 0);
            variables(&report).len()
        };
        for bad in [
            &b"A"[..],
            b"A\0",
            b"=1\0",
            b"1A=1\0",
            b"A B=1\0",
            b"A;reboot=1\0",
            b"A[$(id)]=1\0",
            b"\xff=1\0",
            b"BASH_FUNC_f%%=() { id; }\0",
            b"A=torn",
        ] {
            assert_eq!(kept(bad), 0, "{bad:?}");
        }
        assert_eq!(kept(b"A=$(id)\0export B=1\0C=\0"), 2);
        assert_eq!(ShellReport::parse(b""), ShellReport::default());
        assert_eq!(ShellReport::parse(b"e"), ShellReport::default());
    }

    #[test]
    fn debug_shows_no_value() {
        let report = ShellReport::parse(b"\0\0\0\0A=s3cret\0");
        let shown = format!("{report:?}");
        assert!(shown.contains('A') && !shown.contains("s3cret"), "{shown}");
    }
}
