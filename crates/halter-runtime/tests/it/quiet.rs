//! Invariant 13: libraries are quiet.

use std::fs;
use std::path::{Path, PathBuf};

/// What a library must not do, as it would be spelled.
const LOUD: [&str; 14] = [
    "println!",
    "print!(",
    "eprintln!",
    "eprint!(",
    "dbg!(",
    "env::var",
    "env::set_var",
    "env::remove_var",
    "home_dir(",
    "set_current_dir(",
    "set_global_default",
    "panic::set_hook",
    "CHILD_SUBREAPER",
    "install_default",
];

/// Crates that face a user, or only tests.
const NOT_LIBRARIES: [&str; 3] = ["halter-cli", "halter-testkit", "terminal-runtime"];

/// The one place that looks at the environment: configuration is loaded there,
/// once, by whoever asks for it.
const LOOKS_AT_THE_ENVIRONMENT: &str = "halter-config/src/environment.rs";

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn invariant_13_libraries_do_not_print_read_the_environment_or_install_anything() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).unwrap().flatten() {
        let name = entry.file_name();
        let source = entry.path().join("src");
        if source.is_dir() && NOT_LIBRARIES.iter().all(|other| name != *other) {
            sources(&source, &mut files);
        }
    }
    assert!(files.len() > 50, "the crates are where they are expected");
    let mut loud = Vec::new();
    for file in files {
        if file.ends_with(LOOKS_AT_THE_ENVIRONMENT) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            if LOUD.iter().any(|word| line.contains(word)) {
                loud.push(format!("{}:{}: {line}", file.display(), number + 1));
            }
        }
    }
    assert!(loud.is_empty(), "{}", loud.join("\n"));
}
