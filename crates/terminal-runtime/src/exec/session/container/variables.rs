//! Variables on their way into a container.
//!
//! They travel in the environment of the engine's client, under other names:
//! the client is a program like any other, and would take `PATH`,
//! `DOCKER_HOST` or `LD_PRELOAD` of a session for its own. A shell inside
//! gives them their names back.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use halter_exec::Environment;

use crate::session::{OWN, is_name};

/// The client's environment with a session's variables in it.
#[derive(Debug)]
pub(super) struct ClientVariables {
    environment: Environment,
    names: Vec<OsString>,
    script: String,
    labels: Vec<String>,
}

impl ClientVariables {
    /// Nothing but what the client needs itself.
    pub(super) fn new(environment: Environment) -> Self {
        Self {
            environment,
            names: Vec::new(),
            script: String::new(),
            labels: Vec::new(),
        }
    }

    /// A variable that means nothing to the client.
    pub(super) fn pass(&mut self, name: &OsStr, value: &OsStr) {
        self.environment.set(name, value);
        self.names.push(name.to_owned());
    }

    /// Any variable.
    pub(super) fn pass_renamed(&mut self, name: &OsStr, value: &OsStr) {
        let Some(word) = name.to_str().filter(|name| is_name(name)) else {
            // No shell could name it, and no program has a use for it that
            // was not told.
            self.pass(name, value);
            return;
        };
        // No variable of a session is called like this.
        let label = format!("{OWN}{}", self.labels.len());
        self.pass(label.as_ref(), value);
        // What a shell keeps to itself stays as it is.
        let _ = writeln!(
            self.script,
            "command export {word}=\"${label}\" 2>/dev/null"
        );
        self.labels.push(label);
    }

    /// The client's environment, the names it is to hand on, and what a shell
    /// inside has to do first.
    pub(super) fn finish(mut self) -> (Environment, Vec<OsString>, String) {
        if !self.labels.is_empty() {
            let _ = writeln!(self.script, "unset {}", self.labels.join(" "));
        }
        (self.environment, self.names, self.script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_keeps_its_own_variables_and_hands_on_the_others() {
        let client = Environment::new().with("PATH", "/of/the/client");
        let mut variables = ClientVariables::new(client);
        variables.pass("MARK".as_ref(), "m".as_ref());
        for (name, value) in [
            ("PATH", "/inside"),
            ("LD_PRELOAD", "/evil.so"),
            ("a.b", "c"),
        ] {
            variables.pass_renamed(name.as_ref(), value.as_ref());
        }
        let (environment, names, script) = variables.finish();
        let expected = Environment::new()
            .with("PATH", "/of/the/client")
            .with("MARK", "m")
            .with("TRL_0", "/inside")
            .with("TRL_1", "/evil.so")
            .with("a.b", "c");
        assert_eq!(environment, expected);
        assert_eq!(names, ["MARK", "TRL_0", "TRL_1", "a.b"]);
        assert_eq!(
            script,
            "command export PATH=\"$TRL_0\" 2>/dev/null\n\
             command export LD_PRELOAD=\"$TRL_1\" 2>/dev/null\n\
             unset TRL_0 TRL_1\n"
        );
    }

    #[test]
    fn without_variables_there_is_nothing_to_do() {
        let (environment, names, script) = ClientVariables::new(Environment::new()).finish();
        assert_eq!((environment, names.len()), (Environment::new(), 0));
        assert_eq!(script, "");
    }

    /// What the script does, with the shells that are here.
    #[test]
    fn a_shell_gives_variables_their_names_back() {
        for shell in ["/bin/sh", "/bin/bash"] {
            let mut variables = ClientVariables::new(Environment::new());
            for (name, value) in [
                ("A", "two\n'$lines \\"),
                ("UID", "7"),
                ("IFS", "x"),
                ("Z", ""),
            ] {
                variables.pass_renamed(name.as_ref(), value.as_ref());
            }
            let (environment, _, script) = variables.finish();
            let found = std::process::Command::new(shell)
                .args([
                    "-c",
                    &format!("{script}exec \"$@\""),
                    "sh",
                    "/usr/bin/env",
                    "-0",
                ])
                .env_clear()
                .envs(environment.iter())
                .output()
                .unwrap();
            let text = String::from_utf8(found.stdout).unwrap();
            let pairs: Vec<&str> = text.split('\0').collect();
            for pair in ["A=two\n'$lines \\", "IFS=x", "Z="] {
                assert!(pairs.contains(&pair), "{shell}: {pairs:?}");
            }
            assert!(!text.contains("TRL_"), "{shell}: {pairs:?}");
        }
    }
}
