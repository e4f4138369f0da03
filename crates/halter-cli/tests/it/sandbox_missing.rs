//! Machines that grant less: what `halter sandbox` says there, and that nothing
//! runs in less than was asked for without a word. Each is made of name spaces.

use crate::place::{Place, Ran, finish};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// How the binary is started there.
#[derive(Clone, Copy, Debug)]
enum Machine {
    /// Its kernel lets nobody make name spaces of users.
    WithoutUserNamespaces,
    /// There is nothing in `/proc`.
    WithoutProc,
    /// It is a sandbox of our own.
    InASandbox,
    /// The workspace is on a file system that nobody can write to.
    WithReadOnlyWorkspace,
}

impl Machine {
    fn wrapper(self) -> &'static [&'static str] {
        match self {
            // The limit holds below the name space in which it was set. Who has
            // no capability makes one of users first.
            Self::WithoutUserNamespaces => &[
                "unshare",
                "-Ur",
                "sh",
                "-c",
                "echo 0 > /proc/sys/user/max_user_namespaces && \
                 exec setpriv --bounding-set=-all --inh-caps=-all \"$0\" \"$@\"",
            ],
            Self::WithoutProc => &[
                "unshare",
                "-Urm",
                "sh",
                "-c",
                "mount -t tmpfs none /proc && exec \"$0\" \"$@\"",
            ],
            Self::InASandbox => &[env!("CARGO_BIN_EXE_halter"), "sandbox", "--"],
            Self::WithReadOnlyWorkspace => &[
                "unshare",
                "-Urm",
                "sh",
                "-c",
                "mount --bind . . && mount -o remount,ro,bind . && cd \"$PWD\" && exec \"$0\" \"$@\"",
            ],
        }
    }

    fn run(self, place: &Place, words: &[&str]) -> Ran {
        let [program, arguments @ ..] = self.wrapper() else {
            unreachable!("a wrapper is a program");
        };
        let mut command = Command::new(program);
        let spawned = command
            .args(arguments)
            .args(words)
            .current_dir(place.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", place.home())
            .env("TMPDIR", place.root())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        finish(spawned.unwrap())
    }

    fn halter(self, place: &Place, words: &[&str]) -> Ran {
        self.run(place, &[&[env!("CARGO_BIN_EXE_halter")], words].concat())
    }

    /// Whether it can be made here.
    fn is_there(self, place: &Place) -> bool {
        let made = self.run(place, &["true"]);
        if made.code != Some(0) {
            crate::place::skipped(&format!("{self:?}: {}", made.stderr));
        }
        made.code == Some(0)
    }
}

/// Outside of what any rung opens.
const ESCAPED: &str = "/etc/halter-escaped-from-less";

/// The status says what is missing; a command runs in what is said to be
/// active, or with a warning; and where more is required it does not run.
fn assert_honest(machine: Machine) {
    let place = Place::new();
    if !machine.is_there(&place) {
        return;
    }
    let status = machine.halter(&place, &["sandbox", "status", "--json"]);
    let status = status.expect(0).json();
    for rung in status["rungs"].as_array().unwrap() {
        let is_missing = rung["supported"] == false;
        assert_eq!(is_missing, rung["reason"].is_string(), "{rung}");
    }
    let active = status["active"].as_str();
    assert_ne!(active, Some("namespaces"), "{status}");
    let script = format!("touch made; touch {ESCAPED}");
    let ran = machine.halter(&place, &["sandbox", "--", "sh", "-c", &script]);
    assert!(place.work().join("made").exists(), "{}", ran.stderr);
    let named = format!("sandbox      {}", active.unwrap_or("none"));
    assert!(ran.stderr.contains(&named), "{}", ran.stderr);
    assert!(ran.stderr.contains("missing: "), "{}", ran.stderr);
    if active.is_some() {
        assert!(!Path::new(ESCAPED).exists(), "{}", ran.stderr);
    }

    // In the workspace, since a sandbox around it hides the user's settings.
    let setting = "version = 1\n[policy]\nsandbox = \"require\"\n";
    place.write("required.toml", setting);
    let halter = |words: &[&str]| {
        machine.halter(
            &place,
            &[&["--config", "required.toml", "sandbox"], words].concat(),
        )
    };
    let refused = halter(&["--", "touch", "required"]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("require"), "{}", refused.stderr);
    assert!(!place.work().join("required").exists());
    let status = halter(&["status", "--json"]).expect(0).json();
    assert_eq!(status["requested"], "require");
    assert_eq!(status["active"], Value::Null);
}

/// What would help, as the status says it.
#[track_caller]
fn assert_fix(machine: Machine, fix: &str) {
    let place = Place::new();
    if machine.is_there(&place) {
        let said = machine.halter(&place, &["sandbox", "status"]);
        let said = said.expect(0).stdout.clone();
        assert!(said.contains(fix), "{said}");
    }
}

#[test]
fn a_machine_without_user_name_spaces_says_so_and_what_would_help() {
    assert_honest(Machine::WithoutUserNamespaces);
    let fix = "fix: sysctl user.max_user_namespaces=";
    assert_fix(Machine::WithoutUserNamespaces, fix);
}

#[test]
fn a_machine_without_proc_says_so() {
    assert_honest(Machine::WithoutProc);
    assert_fix(Machine::WithoutProc, "fix: mount -t proc proc /proc");
}

#[test]
fn a_workspace_that_cannot_be_written_to_stays_so_and_commands_run() {
    let (place, machine) = (Place::new(), Machine::WithReadOnlyWorkspace);
    if !machine.is_there(&place) {
        return;
    }
    place.write("file", "text\n");
    let script = "cat file; touch new || echo kept";
    for mode in ["prefer", "require"] {
        let setting = format!("version = 1\n[policy]\nsandbox = \"{mode}\"\n");
        let name = format!("{mode}.toml");
        place.write(&name, &setting);
        let words = ["--config", &name, "sandbox", "--", "sh", "-c", script];
        let ran = machine.halter(&place, &words);
        assert_eq!(ran.stdout, "text\nkept\n", "{}", ran.stderr);
    }
    assert!(!place.work().join("new").exists());
    assert!(!place.work().join(".vscode").exists());
}

#[test]
fn a_sandbox_within_a_sandbox_says_what_it_is() {
    assert_honest(Machine::InASandbox);
}
