//! What is wrong is named, with the remedy, and nothing is lost.

use crate::place::{Place, finish};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

#[test]
fn a_missing_working_directory_is_named() {
    let place = Place::new();
    let ran = place.halter(["-C", "not/there", "run", "hello"]);
    ran.expect(2);
    assert!(ran.stderr.contains("not/there"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--cwd"), "{}", ran.stderr);
}

#[test]
fn a_schema_that_is_none_is_refused_before_a_session_starts() {
    let place = Place::new();
    place.write("wrong.json", "{\"type\": \"sometimes\"}");
    place.write("broken.json", "{");
    for (file, code) in [
        ("wrong.json", "invalid_response_schema"),
        ("broken.json", "usage"),
        ("missing.json", "usage"),
    ] {
        let ran = place.halter(["run", "--output-schema", file, "hello"]);
        ran.expect(2);
        assert_eq!(ran.json()["error"]["code"], code, "{file}");
    }
    let listed = place.halter(["sessions", "list", "--json"]);
    assert!(!listed.expect(0).stdout.contains("ses_"));
}

#[test]
fn a_session_whose_directory_is_gone_says_so() {
    let place = Place::new();
    place.write("gone/notes.txt", "x\n");
    let ran = place.halter(["-C", "gone", "run", "--streaming-json", "hello"]);
    let id = ran.expect(0).lines()[0]["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    std::fs::remove_dir_all(place.work().join("gone")).unwrap();
    let ran = place.halter(["run", "--session", &id, "hello"]);
    ran.expect(2);
    assert_eq!(ran.json()["error"]["code"], "working_dir_missing");
    place.halter(["sessions", "show", &id]).expect(0);
}

#[test]
fn a_damaged_database_is_named_and_left_alone() {
    let place = Place::new();
    let database = place.database();
    std::fs::create_dir_all(database.parent().unwrap()).unwrap();
    let garbage = "this is not a database, but it is long enough to look like one ".repeat(40);
    std::fs::write(&database, &garbage).unwrap();
    for command in [&["run", "hello"][..], &["sessions", "list", "--json"]] {
        let ran = place.halter(command);
        ran.expect(1);
        assert!(ran.stderr.contains("sessions.db"), "{}", ran.stderr);
        let code = ran.json()["error"]["code"].as_str().unwrap().to_owned();
        assert!(code.starts_with("store_"), "{code}");
    }
    assert_eq!(std::fs::read_to_string(&database).unwrap(), garbage);
}

#[test]
fn a_database_of_a_newer_version_is_refused() {
    let place = Place::new();
    place.session("hello");
    let connection = rusqlite::Connection::open(place.database()).unwrap();
    connection
        .pragma_update(None, "user_version", 9_999)
        .unwrap();
    connection.close().unwrap();
    let ran = place.halter(["sessions", "list", "--json"]);
    ran.expect(1);
    assert_eq!(ran.json()["error"]["code"], "store_too_new");
    assert!(ran.stderr.contains("9999"), "{}", ran.stderr);
}

#[test]
fn names_that_are_not_utf8_work() {
    let place = Place::new();
    let odd = place.work().join(OsStr::from_bytes(b"caf\xe9 noir"));
    std::fs::create_dir(&odd).unwrap();
    std::fs::write(odd.join("notes.txt"), "inside\n").unwrap();
    std::fs::write(odd.join(OsStr::from_bytes(b"\xff.txt")), "odd\n").unwrap();
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        finish(command.current_dir(&odd).spawn().unwrap())
    };
    let ran = run(&["run", "--streaming-json", "read notes.txt"]);
    ran.expect(0);
    assert!(ran.stdout.contains("inside"));
    let directory = ran.lines()[0]["payload"]["working_dir"].clone();
    assert!(
        directory.as_str().unwrap().contains("caf\\xe9 noir"),
        "{directory}"
    );
    run(&["run", "--text", "Summarize this repository"]).expect(0);
    run(&["sessions", "list"]).expect(0);
    let named = place.halter([OsStr::new("-C"), odd.as_os_str(), "validate".as_ref()]);
    named.expect(0);
}

#[test]
fn a_home_that_is_not_there_costs_only_the_session() {
    let place = Place::new();
    let mut command = place.command(["run", "--text", "hello"]);
    let ran = finish(command.env_remove("HOME").spawn().unwrap());
    ran.expect(0);
    assert!(ran.stderr.contains("not kept"), "{}", ran.stderr);
}

#[test]
fn a_prompt_that_is_not_text_is_refused() {
    let place = Place::new();
    std::fs::write(place.work().join("task.bin"), b"\xff\xfe\x00").unwrap();
    let ran = place.halter(["run", "--prompt-file", "task.bin"]);
    ran.expect(2);
    assert!(ran.stderr.contains("not UTF-8"), "{}", ran.stderr);
}

#[test]
fn a_bad_log_filter_is_refused() {
    let place = Place::new();
    let mut command = place.command(["run", "hello"]);
    let ran = finish(command.env("HALTER_LOG", "=,=,loud==").spawn().unwrap());
    ran.expect(2);
    assert!(ran.stderr.contains("HALTER_LOG"), "{}", ran.stderr);
}

#[test]
fn a_chat_needs_a_terminal() {
    let place = Place::new();
    let ran = place.halter(["chat"]);
    ran.expect(2);
    assert!(ran.stderr.contains("halter run"), "{}", ran.stderr);
}

#[test]
fn a_directory_that_was_deleted_under_the_program_is_said() {
    let place = Place::new();
    let gone = place.work().join("gone");
    std::fs::create_dir(&gone).unwrap();
    // The shell is there when the directory goes, and starts the program in it.
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "rmdir ../gone; exec \"$0\" sandbox status"])
        .arg(env!("CARGO_BIN_EXE_halter"))
        .current_dir(&gone)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", place.home());
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{told}");
    assert!(told.contains("error[working_dir_missing]"), "{told}");
}
