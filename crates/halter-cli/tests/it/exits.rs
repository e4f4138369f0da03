//! The exit codes that `halter help exit-codes` promises. Those of signals are
//! tested where the signals are, that of an overloaded service among the
//! scenarios.

use crate::place::{Place, finish};

#[test]
fn each_kind_of_end_has_its_code() {
    let place = Place::new();
    place.write(
        "sleepy.toml",
        "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
         [policy.shell]\nallow = [\"sleep\"]\ntimeout_secs = 600\n",
    );
    for (arguments, code) in [
        (&["run", "--text", "hello"][..], 0),
        (&["tools", "call", "task", r#"{"action":"list"}"#], 0),
        (&["sessions", "show", "ses_nowhere"], 1),
        (&["tools", "call", "read", r#"{"path":"nowhere"}"#], 1),
        (&["run", "--no-such-flag"], 2),
        (&["--config", "nowhere.toml", "run", "hello"], 2),
        (&["run", "--model", "gpt-5", "hello"], 2),
        (&["tools", "call", "shell", r#"{"command":"curl x"}"#], 3),
        (&["tools", "call", "read", r#"{"path":"/etc/shadow"}"#], 3),
        (
            &[
                "--config",
                "sleepy.toml",
                "run",
                "--timeout",
                "1",
                "run sleep 77",
            ],
            124,
        ),
    ] {
        let ran = place.halter(arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {}", ran.stderr);
    }
    let mut keyless = place.command(["run", "hello"]);
    let ran = finish(keyless.env("HALTER_MODEL", "openai/gpt-5").spawn().unwrap());
    ran.expect(4);
}
