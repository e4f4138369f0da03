//! The task: from the command line, a file or standard input.

use crate::args::ApprovalSource;
use crate::context::Context;
use crate::failure::{Failure, file_problem, usage};
use crate::limits::{MAX_PROMPT_BYTES, STDIN_WAIT};
use halter_protocol::{ContentPart, Turn, UserMessage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// Where a task comes from.
#[derive(Debug, Clone, Copy)]
pub struct PromptSource<'a> {
    /// The argument.
    pub task: Option<&'a str>,
    /// The file.
    pub file: Option<&'a Path>,
    /// What standard input is for.
    pub stdin: StdinUse,
}

/// What standard input is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinUse {
    /// The task, or what belongs to it.
    Task,
    /// Answers about calls that need approval.
    Answers,
}

impl StdinUse {
    /// What it is for with these approvals.
    pub fn of(approvals: ApprovalSource) -> Self {
        match approvals {
            ApprovalSource::Stdin => Self::Answers,
            ApprovalSource::Auto | ApprovalSource::Deny => Self::Task,
        }
    }
}

/// A task, and what was piped to it.
#[derive(Debug, PartialEq, Eq)]
pub struct Task {
    pub text: String,
    pub piped: Option<String>,
}

/// Reads the task. Standard input that is not the task itself and no terminal
/// joins it.
pub fn read(context: &Context, source: PromptSource<'_>) -> Result<Task, Failure> {
    let taken = source.stdin == StdinUse::Answers;
    let reads_task = match (source.task, source.file) {
        (Some(task), _) => task == "-",
        (None, Some(path)) => path == Path::new("-"),
        (None, None) => true,
    };
    if taken && reads_task {
        return Err(usage(
            "standard input cannot give the task: --approvals stdin reads it",
            "give the task as an argument, or with --prompt-file",
        ));
    }
    let text = match (source.task, source.file) {
        (Some("-"), _) => return checked(from_stdin()?),
        (Some(task), _) => task.to_owned(),
        (None, Some(path)) if path == Path::new("-") => return checked(from_stdin()?),
        (None, Some(path)) => from_file(path)?,
        (None, None) if !context.terminal.stdin => return checked(from_stdin()?),
        (None, None) => {
            return Err(usage(
                "there is no task",
                "give one as an argument, with --prompt-file, or on standard input",
            ));
        }
    };
    let mut task = checked(text)?;
    if context.terminal.stdin || taken {
        return Ok(task);
    }
    match piped(&io::stdin(), STDIN_WAIT)? {
        Piped::Data(data) => task.piped = Some(data),
        Piped::Nothing => {}
        Piped::Silent => {
            let seconds = STDIN_WAIT.as_secs();
            context.messages.note(&format!(
                "standard input gave nothing for {seconds} s and is not read; \
                 redirect it from /dev/null to start at once"
            ));
        }
    }
    Ok(task)
}

fn checked(text: String) -> Result<Task, Failure> {
    match text.trim().is_empty() {
        true => Err(usage("the task is empty", "say what to do")),
        false => Ok(Task { text, piped: None }),
    }
}

impl Task {
    /// A turn that the task's text stands for, with what was piped.
    pub fn joining(&self, mut turn: Turn) -> Turn {
        let piped = self.message().parts.into_iter().skip(1);
        turn.user_message.parts.extend(piped);
        turn
    }

    /// The message: the task, and after it, told apart, what was piped.
    pub fn message(&self) -> UserMessage {
        let message = UserMessage::text(self.text.as_str());
        let Some(data) = &self.piped else {
            return message;
        };
        let end = if data.ends_with('\n') { "" } else { "\n" };
        let data = format!("<standard_input>\n{data}{end}</standard_input>");
        message.with_part(ContentPart::text(data))
    }
}

/// What a pipe gave.
#[derive(Debug, PartialEq, Eq)]
enum Piped {
    Data(String),
    /// It was closed without a word.
    Nothing,
    /// It stayed open without a byte.
    Silent,
}

/// All that comes through a pipe, if its first byte comes in time: whoever
/// started us may have left theirs open by accident.
fn piped(source: &impl AsFd, wait: Duration) -> Result<Piped, Failure> {
    let unreadable = |error: io::Error| {
        let message = format!("could not read standard input: {error}");
        usage(message, "redirect it from /dev/null")
    };
    let mut watched = [PollFd::new(source, PollFlags::IN)];
    let wait = Timespec::try_from(wait).map_err(|error| unreadable(io::Error::other(error)))?;
    let ready = retry_on_intr(|| poll(&mut watched, Some(&wait)));
    if ready.map_err(|error| unreadable(error.into()))? == 0 {
        return Ok(Piped::Silent);
    }
    let file = source.as_fd().try_clone_to_owned().map(File::from);
    let data = read_bounded(file.map_err(unreadable)?, "standard input")?;
    Ok(match data.trim().is_empty() {
        true => Piped::Nothing,
        false => Piped::Data(data),
    })
}

/// All of standard input, as text.
pub fn from_stdin() -> Result<String, Failure> {
    read_bounded(io::stdin().lock(), "standard input")
}

fn from_file(path: &Path) -> Result<String, Failure> {
    let file = File::open(path).map_err(|error| file_problem("read", path, &error))?;
    read_bounded(file, &path.display().to_string())
}

fn read_bounded(source: impl Read, name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    source
        .take(MAX_PROMPT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| usage(format!("could not read {name}: {error}"), "check the path"))?;
    if bytes.len() as u64 > MAX_PROMPT_BYTES {
        return Err(usage(
            format!("the task in {name} is longer than {MAX_PROMPT_BYTES} bytes"),
            "name the file in the task and let the model read it",
        ));
    }
    String::from_utf8(bytes)
        .map_err(|_| usage(format!("{name} is not UTF-8 text"), "convert it to UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_prompt_is_bounded() {
        let most = vec![b'x'; MAX_PROMPT_BYTES as usize];
        assert!(read_bounded(most.as_slice(), "it").is_ok());
        let more = vec![b'x'; MAX_PROMPT_BYTES as usize + 1];
        assert!(read_bounded(more.as_slice(), "it").is_err());
    }

    #[test]
    fn a_pipe_is_read_to_its_end_and_a_silent_one_is_left() {
        let (reader, mut writer) = io::pipe().unwrap();
        assert_eq!(piped(&reader, Duration::ZERO).unwrap(), Piped::Silent);
        writer.write_all(b"one\n").unwrap();
        writer.write_all(b"two").unwrap();
        drop(writer);
        let data = Piped::Data("one\ntwo".to_owned());
        assert_eq!(piped(&reader, STDIN_WAIT).unwrap(), data);
        assert_eq!(piped(&reader, STDIN_WAIT).unwrap(), Piped::Nothing);
    }

    #[test]
    fn what_was_piped_stands_after_the_task() {
        for data in ["a\nb", "a\nb\n"] {
            let task = Task {
                text: "Count the lines".to_owned(),
                piped: Some(data.to_owned()),
            };
            assert_eq!(
                task.message().plain_text(),
                "Count the lines\n<standard_input>\na\nb\n</standard_input>"
            );
        }
    }
}
