//! Every example runs as it stands, without a key.

use crate::support::{directory, run, shown};
use halter_mock::{ServeOptions, serve};
use std::path::{Path, PathBuf};
use std::process::Command;

const OFFLINE: (&str, &str) = ("HALTER_MODEL", "offline");

/// The program that cargo built from `examples/{name}.rs` beside this one.
fn example(name: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let path = this.parent().unwrap().with_file_name("examples").join(name);
    assert!(
        path.exists(),
        "{} is not built: `cargo test -p halter` builds it with the tests",
        path.display()
    );
    path
}

/// What an example prints in `directory`.
fn printed_by(name: &str, directory: &Path, stdin: &str) -> String {
    let mut command = Command::new(example(name));
    command.env_clear();
    let output = run(command, directory, &[OFFLINE], stdin);
    assert!(output.status.success(), "{}", shown(&output));
    shown(&output)
}

#[test]
fn config_file() {
    let config = include_str!("../seed/halter.toml");
    let directory = directory(&[("halter.toml", config), ("README.md", "# Umbrella\n")]);
    let printed = printed_by("config_file", directory.path(), "");
    assert!(printed.contains("Umbrella"), "{printed}");
}

/// The loop of the documentation against a service that refuses the key.
#[test]
fn a_refused_key_fails_the_program() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = ServeOptions {
        default_scenario: Some("unauthorized".to_owned()),
        ..ServeOptions::default()
    };
    let service = runtime.block_on(serve(options)).unwrap();
    let config = format!(
        "version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"gpt-5\"\n\
         [providers.openai]\nbase_url = \"{}/openai\"\napi_key = \"refused\"\n",
        service.base_url()
    );
    let directory = directory(&[("halter.toml", &config)]);
    let mut command = Command::new(example("config_file"));
    command.env_clear();
    let output = run(command, directory.path(), &[], "");
    assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("key"), "{told}");
    runtime.block_on(service.stop());
}

#[test]
fn custom_tool_and_hook() {
    let directory = directory(&[]);
    let printed = printed_by("custom_tool_and_hook", directory.path(), "");
    assert!(printed.contains("6 words"), "{printed}");
    assert!(printed.contains("hook_blocked"), "{printed}");
}

#[test]
fn programmatic_config() {
    let directory = directory(&[("README.md", "# Umbrella\n")]);
    let printed = printed_by("programmatic_config", directory.path(), "");
    assert!(printed.contains("Umbrella"), "{printed}");
}

#[test]
fn replaced_services() {
    let directory = directory(&[]);
    let printed = printed_by("replaced_services", directory.path(), "");
    assert!(printed.contains("You are a pirate."), "{printed}");
    assert!(printed.contains("1 session"), "{printed}");
}

#[test]
fn event_consumer() {
    let directory = directory(&[]);
    let lines = include_str!("../../../halter-protocol/fixtures/v1/unknown.jsonl");
    let printed = printed_by("event_consumer", directory.path(), lines);
    assert!(printed.contains("unknown event"), "{printed}");
}

/// A newcomer copies them: they stay short, and each is tested above.
#[test]
fn examples_are_short_and_all_are_run() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines < 60, "{} has {lines} lines", path.display());
            names.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    names.sort();
    assert_eq!(
        names,
        [
            "config_file",
            "custom_tool_and_hook",
            "event_consumer",
            "programmatic_config",
            "replaced_services"
        ]
    );
}
