//! The `terminal-runtime` program.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use terminal_runtime::holder;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    match arguments.as_slice() {
        [_, mode, path] if mode == OsStr::new(holder::HOLDER_MODE) => {
            match holder::run(Path::new(path)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        _ => ExitCode::SUCCESS,
    }
}
