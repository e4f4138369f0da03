//! The task: from the command line, a file or standard input.

use crate::context::Context;
use crate::failure::{Failure, file_problem, usage};
use crate::limits::MAX_PROMPT_BYTES;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Where a task comes from.
#[derive(Debug, Clone, Copy)]
pub struct PromptSource<'a> {
    /// The argument.
    pub task: Option<&'a str>,
    /// The file.
    pub file: Option<&'a Path>,
}

/// Reads the task.
pub fn read(context: &Context, source: PromptSource<'_>) -> Result<String, Failure> {
    let text = match (source.task, source.file) {
        (Some("-"), _) => from_stdin()?,
        (Some(task), _) => task.to_owned(),
        (None, Some(path)) if path == Path::new("-") => from_stdin()?,
        (None, Some(path)) => from_file(path)?,
        (None, None) if !context.terminal.stdin => from_stdin()?,
        (None, None) => {
            return Err(usage(
                "there is no task",
                "give one as an argument, with --prompt-file, or on standard input",
            ));
        }
    };
    if text.trim().is_empty() {
        return Err(usage("the task is empty", "say what to do"));
    }
    Ok(text)
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

    #[test]
    fn a_prompt_is_bounded() {
        let most = vec![b'x'; MAX_PROMPT_BYTES as usize];
        assert!(read_bounded(most.as_slice(), "it").is_ok());
        let more = vec![b'x'; MAX_PROMPT_BYTES as usize + 1];
        assert!(read_bounded(more.as_slice(), "it").is_err());
    }
}
