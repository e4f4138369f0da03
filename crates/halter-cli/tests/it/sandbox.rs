//! `halter sandbox`, and what other commands say about it.

use crate::place::Place;
use std::fs;

fn works(place: &Place) -> bool {
    let status = place
        .halter(["sandbox", "status", "--json"])
        .expect(0)
        .json();
    let rungs = status["rungs"].as_array().unwrap();
    assert_eq!(rungs.len(), 2);
    for rung in rungs {
        // One that is missing says why.
        assert_eq!(
            rung["supported"] == true,
            rung["reason"].is_null(),
            "{rung}"
        );
    }
    let works = rungs[0]["supported"] == true;
    if !works {
        println!("skipped: needs name spaces: {}", rungs[0]["reason"]);
    }
    works
}

#[test]
fn a_command_runs_in_the_sandbox_and_ends_as_it_does() {
    let place = Place::new();
    if !works(&place) {
        return;
    }
    let script = "echo x > here; echo x > /etc/halter-escaped || echo kept; cat; exit 7";
    let run = place.halter(["sandbox", "--", "sh", "-c", script]);
    assert_eq!(run.expect(7).stdout, "kept\n");
    assert_eq!(
        fs::read_to_string(place.work().join("here")).unwrap(),
        "x\n"
    );
    place.halter(["sandbox", "--", "no-such-program"]).expect(1);
    place.halter(["sandbox"]).expect(2);
}

#[test]
fn status_and_doctor_say_what_is_asked_and_what_is_active() {
    let place = Place::new();
    if !works(&place) {
        return;
    }
    let status = place
        .halter(["sandbox", "status", "--json"])
        .expect(0)
        .json();
    assert_eq!(status["requested"], "off");
    assert!(status["active"].is_null());
    let config = place.home().join(".config/halter");
    fs::create_dir_all(&config).unwrap();
    let setting = "version = 1\n[policy]\nsandbox = \"require\"\n";
    fs::write(config.join("halter.toml"), setting).unwrap();
    let status = place
        .halter(["sandbox", "status", "--json"])
        .expect(0)
        .json();
    assert_eq!(status["requested"], "require");
    assert_eq!(status["active"], "namespaces");
    let doctor = place.halter(["doctor", "--json"]).expect(0).json();
    assert_eq!(doctor["sandbox"], status);
    let text = place.halter(["doctor"]).expect(0).stdout.clone();
    assert!(
        text.contains("sandbox      namespaces (policy.sandbox"),
        "{text}"
    );
    let call = r#"{"command":"ls"}"#;
    let explained = place.halter(["policy", "explain", "shell", call]);
    assert!(explained.expect(0).stdout.contains("sandbox   namespaces"));
}
