use crate::place::{Place, finish};

fn call(place: &Place, name: &str, input: &str) -> crate::place::Ran {
    place.halter(["tools", "call", name, input])
}

#[test]
fn a_tool_is_called_under_policy_without_a_model() {
    let place = Place::new();
    place.write("notes.txt", "the meeting is at noon\n");
    let fine = call(&place, "read", r#"{"path":"notes.txt"}"#);
    assert_eq!(fine.expect(0).json()["content"], "the meeting is at noon\n");
    assert_eq!(fine.stderr, "");

    let failed = call(&place, "read", r#"{"path":"missing.txt"}"#);
    assert_eq!(failed.expect(1).json()["error"]["code"], "tool_failed");
    let invalid = call(&place, "read", r#"{"pth":"missing.txt"}"#);
    assert_eq!(
        invalid.expect(1).json()["error"]["code"],
        "invalid_arguments"
    );
    let unknown = call(&place, "reed", "{}");
    assert_eq!(unknown.expect(1).json()["error"]["code"], "unknown_tool");

    for (name, input) in [
        ("read", r#"{"path":"/etc/hostname"}"#),
        ("write", r#"{"path":"../outside.txt","content":"x"}"#),
        ("shell", r#"{"command":"rm notes.txt"}"#),
    ] {
        let refused = call(&place, name, input);
        assert_eq!(refused.expect(3).json()["error"]["code"], "policy_denied");
    }
    assert!(place.work().join("notes.txt").exists());
    assert!(!place.database().exists());
}

#[test]
fn a_background_job_answers_at_once_and_ends_with_its_session() {
    let place = Place::new();
    let call = r#"{"command":"tail -f notes.txt","background":true}"#;
    place.write("notes.txt", "x\n");
    let started = self::call(&place, "shell", call);
    let started = started.expect(0).json();
    assert_eq!(started["job_id"], "job_1");
    assert_eq!(started["state"], "running");
    let pid = started["pid"].as_i64().unwrap();
    // It was collected before the command ended.
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());

    let none = self::call(&place, "process", r#"{"action":"poll","job_id":"job_1"}"#);
    let message = none.expect(1).json()["error"]["message"].to_string();
    assert!(message.contains("there is no job 'job_1'"), "{message}");
}

#[test]
fn a_call_works_in_the_directory_that_is_named() {
    let place = Place::new();
    place.write("deep/er/notes.txt", "here\n");
    let ran = place.halter([
        "tools",
        "call",
        "read",
        r#"{"path":"notes.txt"}"#,
        "--cwd",
        "deep/er",
    ]);
    assert_eq!(ran.expect(0).json()["content"], "here\n");
}

#[test]
fn a_call_needs_a_json_object_and_no_key() {
    let place = Place::new();
    place.write("notes.txt", "x\n");
    let broken = call(&place, "read", "{path");
    broken.expect(2);
    assert!(broken.stderr.contains("not JSON"), "{}", broken.stderr);
    call(&place, "read", "[]").expect(2);
    let piped = place.halter_with_stdin(["tools", "call", "read", "-"], r#"{"path":"notes.txt"}"#);
    piped.expect(0);

    place.write(
        "openai.toml",
        "version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"gpt-5\"\n",
    );
    let mut command = place.command(["tools", "call", "read", r#"{"path":"notes.txt"}"#]);
    command.env("HALTER_CONFIG", "openai.toml");
    finish(command.spawn().unwrap()).expect(0);
}

#[test]
fn the_tools_the_model_is_offered_are_listed() {
    let place = Place::new();
    let all = place.halter(["tools", "list"]);
    let names: Vec<&str> = all
        .expect(0)
        .stdout
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        names,
        [
            "read",
            "glob",
            "grep",
            "write",
            "edit",
            "shell",
            "process",
            "task",
            "apply_patch",
            "multi_edit",
            "delete",
            "rename",
            "list",
            "notebook_edit",
            "current_time",
            "ast_grep",
            "pty",
            "profile",
            "image",
            "spawn_agent",
            "send_input",
            "wait_agent",
            "close_agent",
            "tool_search",
            "ask_user",
            "skill",
            "web_fetch",
            "web_search",
            "browser"
        ]
    );
    let line = |name: &str| {
        let mut lines = all.stdout.lines();
        let found = lines.find(|line| line.split_whitespace().next() == Some(name));
        found.unwrap().split_once("  ").unwrap().1.trim().to_owned()
    };
    assert!(line("pty").starts_with("[deferred] "), "{}", line("pty"));
    assert!(!line("read").contains("deferred"));
    assert!(line("web_fetch").starts_with("[unavailable: "));
    let mut command = place.command(["tools", "list", "--json"]);
    command.env("HALTER_TOOLS_ENABLED", "glob,read");
    let some = finish(command.spawn().unwrap()).expect(0).json();
    let names: Vec<&str> = some
        .as_array()
        .unwrap()
        .iter()
        .map(|spec| spec["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["read", "glob"]);
    // What is listed may be named.
    let mut command = place.command(["tools", "list", "--json"]);
    command.env("HALTER_TOOLS_ENABLED", "read,tool_search");
    let named = finish(command.spawn().unwrap()).expect(0).json();
    assert_eq!(named[0]["name"], "read", "{named}");
}

#[test]
fn a_tool_that_a_rule_denies_is_listed_with_the_rule() {
    let place = Place::new();
    place.write(
        "halter.toml",
        "version = 1\n[permissions]\ndeny = [\"Bash\", \"delete\"]\n",
    );
    let listed = place.halter(["--config", "halter.toml", "tools", "list"]);
    let listed = listed.expect(0).stdout.clone();
    for (tool, rule) in [("shell", "Bash"), ("pty", "Bash"), ("delete", "delete")] {
        let mut lines = listed.lines();
        let line = lines.find(|line| line.split_whitespace().next() == Some(tool));
        let line = line.unwrap_or_else(|| panic!("{tool} is not listed: {listed}"));
        let reason = format!("[unavailable: the deny rule `{rule}` (");
        assert!(line.contains(&reason), "{line}");
    }
    let call = ["--config", "halter.toml", "tools", "call", "shell"];
    let called = place.halter([&call[..], &[r#"{"command":"ls"}"#]].concat());
    let error = called.expect(1).json()["error"].clone();
    assert_eq!(error["code"], "unknown_tool");
    let message = error["message"].to_string();
    assert!(message.contains("the deny rule `Bash` ("), "{message}");
}

#[test]
fn a_directory_that_is_a_root_stays() {
    let place = Place::new();
    let refused = call(&place, "delete", r#"{"path":".","recursive":true}"#);
    let message = refused.expect(1).json()["error"]["message"].to_string();
    assert!(message.contains("name what is in it"), "{message}");
    assert!(place.work().exists());
}

#[test]
fn the_tool_that_loads_others_is_called_by_its_name() {
    let place = Place::new();
    let named = "select:task,list,rename,delete,pty,image,glop";
    let input = format!(r#"{{"query":"{named}"}}"#);
    let ran = place.halter(["tools", "call", "tool_search", &input]);
    let told = ran.expect(0).json();
    assert_eq!(
        told,
        "Loaded, and can be called now: task, list, rename, delete, pty, image. \
         Not found: glop."
    );
}

#[test]
fn which_tools_are_deferred_is_configured() {
    let place = Place::new();
    let listed = |setting: &str| {
        place.write("halter.toml", &format!("version = 1\n[tools]\n{setting}\n"));
        let ran = place.halter(["--config", "halter.toml", "tools", "list", "--json"]);
        let listed = ran.expect(0).json();
        let deferred = listed.as_array().unwrap().iter();
        let deferred = deferred.filter(|tool| tool["deferred"] == true);
        let names = deferred.map(|tool| tool["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert!(listed("").contains(&"apply_patch".to_owned()));
    assert_eq!(listed("deferred = \"off\""), Vec::<String>::new());
    assert_eq!(
        listed("deferred = [\"grep\", \"shell\"]"),
        ["grep", "shell"]
    );
    for (setting, problem) in [
        (
            "deferred = [\"grepp\"]",
            "tools.deferred: unknown tool 'grepp'",
        ),
        (
            "deferred = [\"grep\", \"tool_search\"]",
            "tools.deferred: 'tool_search' cannot be deferred, as models load deferred tools \
             with it",
        ),
        (
            "deferred = [\"tool_search\"]",
            "take it out of the list: models are sent it wherever a tool is deferred",
        ),
        (
            "deferred = \"some\"",
            "write one of auto, off, or a list of names",
        ),
        ("deferred = 3", "`tools.deferred`"),
    ] {
        place.write("halter.toml", &format!("version = 1\n[tools]\n{setting}\n"));
        let refused = place.halter(["--config", "halter.toml", "tools", "list"]);
        refused.expect(2);
        assert!(refused.stderr.contains(problem), "{}", refused.stderr);
    }
}
