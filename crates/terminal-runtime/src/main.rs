//! The `terminal-runtime` program: a daemon, and a client of one for people.

mod cli;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use terminal_runtime::holder;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let [_, mode, path] = arguments.as_slice()
        && mode == OsStr::new(holder::HOLDER_MODE)
    {
        return match holder::run(Path::new(path)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    cli::run(arguments)
}
