//! The `terminal-runtime` program: a daemon, and a client of one for people.

mod cli;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use terminal_runtime::holder;

fn main() -> ExitCode {
    leave_no_core_dumps();
    let arguments: Vec<_> = std::env::args_os().collect();
    if let [_, mode, path, procs @ ..] = arguments.as_slice()
        && mode == OsStr::new(holder::HOLDER_MODE)
    {
        halter_exec::host::system::raise_descriptor_limit();
        return match holder::run(Path::new(path), procs) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    cli::run(arguments)
}

/// A dump of this program, or of a command, has tokens and variables in it and
/// would lie in a working directory. Who wants one can say `ulimit -c`.
fn leave_no_core_dumps() {
    let limit = Rlimit {
        current: Some(0),
        maximum: getrlimit(Resource::Core).maximum,
    };
    // Less is always allowed.
    let _ = setrlimit(Resource::Core, limit);
}
