//! Help, completions and manual pages, as they are printed.

use crate::place::Place;

#[test]
fn help_is_as_recorded() {
    let place = Place::new();
    for (name, arguments) in [
        ("help", &["--help"][..]),
        ("help_short", &["-h"]),
        ("help_run", &["run", "-h"]),
        ("help_sessions_delete", &["sessions", "delete", "-h"]),
        ("help_tools_call", &["tools", "call", "--help"]),
        ("help_mock_serve", &["mock", "serve", "-h"]),
        ("help_exit_codes", &["help", "exit-codes"]),
        ("help_environment", &["help", "environment"]),
    ] {
        let ran = place.halter(arguments);
        insta::assert_snapshot!(name, ran.expect(0).stdout);
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn errors_are_as_recorded() {
    let place = Place::new();
    place.write("bad.toml", "version = 1\n[polcy]\nmax_read_bytes = 5\n");
    place.write(
        "openai.toml",
        "version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"gpt-5\"\n",
    );
    for (name, arguments) in [
        ("error_unknown_command", &["rnu"][..]),
        ("error_unknown_flag", &["run", "--streaming-jsn", "x"]),
        ("error_unknown_key", &["--config", "bad.toml", "validate"]),
        (
            "error_missing_key",
            &["--config", "openai.toml", "run", "--text", "x"],
        ),
        (
            "error_missing_config",
            &["--config", "none.toml", "run", "--text", "x"],
        ),
        ("error_no_session", &["sessions", "show", "ses_1"]),
        ("error_unknown_topic", &["help", "everything"]),
    ] {
        let ran = place.halter(arguments);
        assert_ne!(ran.code, Some(0), "{name}");
        let root = place.root().to_str().unwrap();
        insta::assert_snapshot!(name, ran.stderr.replace(root, "[root]"));
    }
}

#[test]
fn help_of_a_command_is_found_by_name() {
    let place = Place::new();
    let by_flag = place.halter(["sessions", "list", "--help"]);
    let by_name = place.halter(["help", "sessions", "list"]);
    assert_eq!(by_name.expect(0).stdout, by_flag.expect(0).stdout);
    let nothing = place.halter(Vec::<&str>::new());
    nothing.expect(2);
}

#[test]
fn completions_exist_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = place.halter(["completions", shell]);
        assert!(ran.expect(0).stdout.contains("streaming-json"), "{shell}");
    }
    place.halter(["completions", "cmd"]).expect(2);
}

#[test]
fn manual_pages_are_printed_or_written() {
    let place = Place::new();
    let page = place.halter(["man"]);
    assert!(page.expect(0).stdout.contains(".TH halter 1"));
    place.halter(["man", "pages"]).expect(0);
    for name in ["halter.1", "halter-run.1", "halter-sessions-list.1"] {
        assert!(place.work().join("pages").join(name).exists(), "{name}");
    }
}
