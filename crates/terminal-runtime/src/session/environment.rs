//! What a command finds in its environment: the runtime's variables, over
//! them the session's, over them its own; never one of `TRL_*`.

use halter_exec::Environment;

/// How the runtime's own variables start.
pub(crate) const OWN: &str = "TRL_";

/// Whether a shell could call a variable this.
pub(crate) fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The variables without the runtime's own.
#[must_use]
pub fn without_own(environment: &Environment) -> Environment {
    let foreign = |name: &std::ffi::OsStr| !name.as_encoded_bytes().starts_with(OWN.as_bytes());
    environment
        .iter()
        .filter(|(name, _)| foreign(name))
        .collect()
}

/// The environment of a command: each layer over the one before it.
#[must_use]
pub fn merge(runtime: &Environment, session: &Environment, command: &Environment) -> Environment {
    let mut merged = runtime.clone();
    merged.extend(session.iter());
    merged.extend(command.iter());
    without_own(&merged)
}

/// Variables from a client, if they can be handed to a process.
///
/// # Errors
/// With the name of the first that cannot; never with a value.
pub fn check_variables<'pairs>(
    pairs: impl IntoIterator<Item = (&'pairs String, &'pairs String)>,
) -> Result<Environment, String> {
    let mut environment = Environment::new();
    for (name, value) in pairs {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err("env: a variable's name is empty or contains `=` or NUL".to_owned());
        }
        if value.contains('\0') {
            return Err(format!("env: the value of `{name}` contains a NUL byte"));
        }
        environment.set(name.as_str(), value.as_str());
    }
    Ok(without_own(&environment))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().copied().collect()
    }

    #[test]
    fn the_command_wins_over_the_session_and_that_over_the_runtime() {
        let merged = merge(
            &environment(&[("A", "runtime"), ("B", "runtime"), ("C", "runtime")]),
            &environment(&[("B", "session"), ("C", "session"), ("D", "session")]),
            &environment(&[("C", "command"), ("E", "")]),
        );
        let expected = environment(&[
            ("A", "runtime"),
            ("B", "session"),
            ("C", "command"),
            ("D", "session"),
            ("E", ""),
        ]);
        assert_eq!(merged, expected);
    }

    #[test]
    fn the_runtimes_own_variables_come_through_no_layer() {
        let own = environment(&[("TRL_AUTH_TOKEN", "t"), ("TRLX", "x")]);
        let merged = merge(&own, &own, &own);
        assert_eq!(merged, environment(&[("TRLX", "x")]));
    }

    #[test]
    fn variables_that_no_process_can_have_are_named_without_their_value() {
        let check =
            |name: &str, value: &str| check_variables([(&name.to_owned(), &value.to_owned())]);
        assert!(check("A=B", "s3cret").unwrap_err().contains('='));
        assert!(check("", "s3cret").is_err());
        let error = check("A", "s3cret\0").unwrap_err();
        assert!(
            error.contains("`A`") && !error.contains("s3cret"),
            "{error}"
        );
        assert_eq!(check("A", "").unwrap(), environment(&[("A", "")]));
    }
}
