//! What every command is given.

use crate::args::Globals;
use crate::failure::Failure;
use crate::output::{Data, Messages, Verbosity};
use crate::terminal::Terminal;
use halter_config::Environment;

/// The surroundings of a command.
pub struct Context {
    /// Options every command takes.
    pub globals: Globals,
    /// The environment, as it was when the program started.
    pub environment: Environment,
    /// What is at the other end of our streams.
    pub terminal: Terminal,
    /// Where data goes.
    pub data: Data,
    /// Standard error.
    pub messages: Messages,
    /// True if programs read the data, so that errors belong there too.
    pub errors_in_data: bool,
}

impl Context {
    /// Opens the output.
    pub fn new(
        globals: Globals,
        environment: Environment,
        messages: Messages,
    ) -> Result<Self, Failure> {
        let terminal = terminal_of(&globals, &environment);
        let data = match &globals.output_file {
            Some(path) => Data::file(path, messages.clone())?,
            None => Data::stdout(terminal, messages.clone()),
        };
        Ok(Self {
            globals,
            environment,
            terminal,
            data,
            messages,
            errors_in_data: false,
        })
    }

    /// True if a person can be asked.
    pub fn can_ask(&self) -> bool {
        self.terminal.stdin && self.terminal.stderr
    }

    /// Asks a question that is answered with yes or no; anything else is no.
    pub fn confirm(&self, question: &str) -> Result<bool, Failure> {
        self.messages.ask(&format!("{question} [y/N]"));
        let mut answer = String::new();
        std::io::stdin()
            .read_line(&mut answer)
            .map_err(|error| halter::HalterError::new("input_failed", error.to_string()))?;
        let answer = answer.trim().to_ascii_lowercase();
        Ok(answer == "y" || answer == "yes")
    }
}

/// Standard error as the options want it.
pub fn messages_of(globals: &Globals, environment: &Environment) -> Messages {
    let verbosity = match (globals.quiet, globals.verbose) {
        (true, _) => Verbosity::Quiet,
        (false, 0) => Verbosity::Normal,
        (false, _) => Verbosity::Verbose,
    };
    let terminal = terminal_of(globals, environment);
    Messages::new(terminal, verbosity, !globals.no_progress)
}

fn terminal_of(globals: &Globals, environment: &Environment) -> Terminal {
    Terminal::detect(globals.color, |name| {
        environment.text(name).map(str::to_owned)
    })
}
