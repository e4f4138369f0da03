//! The schema that clients are given, against what goes over the wire.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::plain::Plain;
use crate::runtime::{PROGRAM, Runtime};

/// What `terminal-runtime schema` prints.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let output = std::process::Command::new(PROGRAM).arg("schema").output();
    serde_json::from_slice(&output.unwrap().stdout).unwrap()
});

/// Checks a value against the part of the schema at a pointer.
fn check(pointer: &str, value: &Value) {
    static KNOWN: LazyLock<Mutex<HashMap<String, &'static Validator>>> =
        LazyLock::new(Mutex::default);
    let validator = *KNOWN
        .lock()
        .unwrap()
        .entry(pointer.to_owned())
        .or_insert_with(|| {
            let mut part = SCHEMA.pointer(pointer).unwrap().clone();
            // What it refers to stands beside it.
            part["$defs"] = SCHEMA["$defs"].clone();
            Box::leak(Box::new(jsonschema::validator_for(&part).unwrap()))
        });
    if let Err(error) = validator.validate(value) {
        panic!("{value} is not as the schema says at `{pointer}`: {error}");
    }
}

pub fn check_params(method: &str, params: &Value) {
    check(&format!("/methods/{method}/params"), params);
}

pub fn check_data(method: &str, data: &Value) {
    check(&format!("/methods/{method}/data"), data);
}

/// Checks a whole line, of either side.
pub fn check_line(line: &Value) {
    check("", line);
}

#[test]
fn lines_of_both_sides_and_no_others_are_in_the_schema() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let command = "echo text; printf '\\377' >&2; exit 3";
    let params = json!({"session_id": session, "command": command, "exec_id": "seen"});
    let request = json!({"id": "1", "method": "exec.stream", "params": params});
    check_line(&request);
    client.send(&request.to_string());
    loop {
        let line = client.receive().unwrap();
        check_line(&line);
        if line["type"] == "exit" {
            break;
        }
    }
    for method in ["system.stats", "runtime.describe", "exec.list", "hello"] {
        client.ok(method, json!({}));
    }
    let validator = jsonschema::validator_for(&SCHEMA).unwrap();
    for wrong in [
        json!({"id": "1", "method": "exec.fly"}),
        json!({"id": "1", "method": "exec.run", "params": {"command": "true"}}),
        json!({"id": "1", "ok": true}),
        json!({"id": "1", "ok": false, "error": {"code": "NO_SUCH_CODE", "message": ""}}),
        json!({"stream_id": "t-1", "type": "stdout", "data": "no offset"}),
    ] {
        assert!(!validator.is_valid(&wrong), "{wrong}");
    }
}
