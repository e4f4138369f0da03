use crate::place::{Place, finish};

const OPENAI: &str = "version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"gpt-5\"\n";
const WIDE: &str = "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
                    [policy.shell]\nallow = [\"*\"]\n";

#[test]
fn a_missing_key_names_the_variable_and_the_table() {
    let place = Place::new();
    let config = place.write("openai.toml", OPENAI);
    let config = config.to_str().unwrap();
    for command in [&["run", "hello"][..], &["validate", "--json"]] {
        let ran = place.halter([&["--config", config], command].concat());
        ran.expect(4);
        assert!(ran.stderr.contains("OPENAI_API_KEY"), "{}", ran.stderr);
        assert!(ran.stderr.contains("[providers.openai]"), "{}", ran.stderr);
        assert_eq!(ran.json()["error"]["code"], "config_missing_api_key");
    }
}

#[test]
fn a_service_that_is_not_there_is_unavailable_and_no_key_is_shown() {
    let place = Place::new();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let unreachable = format!(
        "{OPENAI}\n[providers.openai]\nbase_url = \"http://{address}\"\n[resilience.request_retry]\nmax_attempts = 1\n"
    );
    place.write("openai.toml", &unreachable);
    let with_key = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("OPENAI_API_KEY", "sk-very-secret");
        command.env("HALTER_LOG", "trace");
        finish(command.spawn().unwrap())
    };
    let ran = with_key(&["--config", "openai.toml", "run", "hello"]);
    ran.expect(6);
    assert!(ran.stderr.contains("127.0.0.1"), "{}", ran.stderr);
    let shown = with_key(&["--config", "openai.toml", "config", "show", "--origin"]);
    shown.expect(0);
    assert!(
        shown
            .stdout
            .contains("providers.openai.api_key = \"[redacted]\"")
    );
    for ran in [ran, shown] {
        assert!(!ran.stdout.contains("very-secret"), "{}", ran.stdout);
        assert!(!ran.stderr.contains("very-secret"), "{}", ran.stderr);
    }
}

#[test]
fn a_variable_sends_every_role_to_the_offline_model() {
    let place = Place::new();
    place.write("openai.toml", OPENAI);
    let mut command = place.command(["--config", "openai.toml", "run", "--text", "hello"]);
    let ran = finish(command.env("HALTER_MODEL", "offline").spawn().unwrap());
    ran.expect(0);
    assert!(ran.stdout.contains("offline model"));
}

#[test]
fn an_unknown_key_is_refused_with_its_place_and_a_suggestion() {
    let place = Place::new();
    let config = place.write("bad.toml", "version = 1\n[policy]\nmax_read_byts = 5\n");
    let ran = place.halter(["--config", "bad.toml", "validate"]);
    ran.expect(2);
    let at = format!("{}:3:1", config.display());
    assert!(ran.stderr.contains(&at), "{}", ran.stderr);
    assert!(ran.stderr.contains("max_read_bytes"), "{}", ran.stderr);
    assert!(ran.stderr.contains("error[config_unknown_key]"));
}

#[test]
fn an_untrusted_project_file_narrows_and_warns() {
    let place = Place::new();
    place.write("halter.toml", WIDE);
    let ran = place.halter(["run", "--text", "run uname"]);
    ran.expect(0);
    assert!(ran.stderr.contains("is not trusted"), "{}", ran.stderr);
    assert!(ran.stderr.contains("halter trust"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--config"), "{}", ran.stderr);
    assert!(ran.stderr.contains("policy.shell.allow"), "{}", ran.stderr);
    assert!(ran.stderr.contains("✗ shell uname"), "{}", ran.stderr);
}

#[test]
fn trust_lets_a_project_file_count_until_it_changes() {
    let place = Place::new();
    place.write("halter.toml", WIDE);
    let unattended = place.halter(["trust"]);
    unattended.expect(2);
    assert!(unattended.stderr.contains("--yes"), "{}", unattended.stderr);

    let trusted = place.halter(["trust", "--yes"]);
    trusted.expect(0);
    assert!(
        trusted.stderr.contains("policy.shell.allow"),
        "{}",
        trusted.stderr
    );
    let ran = place.halter(["run", "--text", "run uname"]);
    assert!(ran.stderr.contains("✓ shell uname"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("not trusted"), "{}", ran.stderr);

    place.write("halter.toml", &format!("{WIDE}timeout_secs = 5\n"));
    let changed = place.halter(["run", "--text", "run uname"]);
    assert!(
        changed.stderr.contains("is not trusted"),
        "{}",
        changed.stderr
    );

    place.halter(["trust", "--yes"]).expect(0);
    let revoked = place.halter(["trust", "--revoke", "--json"]);
    assert_eq!(revoked.expect(0).json()["revoked"], true);
    let ran = place.halter(["config", "show"]);
    assert!(ran.stderr.contains("is not trusted"), "{}", ran.stderr);
}

#[test]
fn init_writes_once_and_trusts_what_it_wrote() {
    let place = Place::new();
    place.halter(["init"]).expect(0);
    let written = std::fs::read_to_string(place.work().join("halter.toml")).unwrap();
    assert!(written.contains("[models.default]"));
    let valid = place.halter(["validate"]);
    valid.expect(0);
    assert!(
        valid.stdout.starts_with("config valid\n"),
        "{}",
        valid.stdout
    );
    let shown = place.halter(["config", "show", "--origin", "--json"]);
    let origin = &shown.json()["models.default.provider"]["origin"];
    assert!(origin.as_str().unwrap().starts_with("project "), "{origin}");

    let again = place.halter(["init"]);
    again.expect(2);
    assert!(again.stderr.contains("exists already"), "{}", again.stderr);
    let now = std::fs::read_to_string(place.work().join("halter.toml")).unwrap();
    assert_eq!(now, written);
}

#[test]
fn init_takes_the_model_whose_key_is_set_and_leaves_out_no_tool() {
    let place = Place::new();
    let with_key = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("OPENAI_API_KEY", "sk-x");
        finish(command.spawn().unwrap())
    };
    let all = place.halter(["tools", "list"]);
    let ran = with_key(&["init"]);
    ran.expect(0);
    assert!(ran.stderr.contains("openai/"), "{}", ran.stderr);
    let shown = with_key(&["config", "show", "--json"]);
    assert_eq!(shown.json()["models.default.provider"], "openai");
    let tools = with_key(&["tools", "list"]);
    assert_eq!(tools.stdout, all.stdout);
}

#[test]
fn a_user_file_need_not_name_a_model_where_a_key_is_set() {
    let place = Place::new();
    let file = place.home().join(".config/halter/halter.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "version = 1\n[prompts]\npreset = \"coding\"\n").unwrap();
    let mut command = place.command(["config", "show", "--json"]);
    let shown = finish(command.env("GEMINI_API_KEY", "k").spawn().unwrap());
    shown.expect(0);
    assert_eq!(shown.json()["models.default.provider"], "gemini");
    assert_eq!(shown.json()["prompts.preset"], "coding");
    place.halter(["run", "--text", "hello"]).expect(0);
}

#[test]
fn validate_tells_of_unknown_variables() {
    let place = Place::new();
    place.write("wide.toml", WIDE);
    let mut command = place.command(["--config", "wide.toml", "validate"]);
    command.env("HALTER_TOOLZ", "x").env("HALTER_TIMEOUT", "9");
    let ran = finish(command.spawn().unwrap());
    ran.expect(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "config valid");
    assert!(ran.stdout.contains("HALTER_TOOLZ"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("HALTER_TIMEOUT"), "{}", ran.stdout);
}

#[test]
fn the_schema_is_a_json_schema() {
    let place = Place::new();
    let ran = place.halter(["config", "schema"]);
    assert!(ran.expect(0).json()["properties"]["policy"].is_object());
}

#[test]
fn resources_lists_skills_and_reports_plugins() {
    let place = Place::new();
    place.write(
        "skills/greet/SKILL.md",
        "---\nname: greet\ndescription: How to greet.\n---\nSay hello.\n",
    );
    let mut command = place.command(["resources", "--json"]);
    command.env("HALTER_SKILL_ROOTS", place.work().join("skills"));
    let ran = finish(command.spawn().unwrap());
    assert_eq!(ran.expect(0).json()["skills"][0]["name"], "greet");
}

#[test]
fn sessions_stay_in_memory_when_the_configuration_says_so() {
    let place = Place::new();
    place.write(
        "memory.toml",
        &format!("{WIDE}[sessions]\nbackend = \"memory\"\n"),
    );
    place
        .halter(["--config", "memory.toml", "run", "hello"])
        .expect(0);
    assert!(!place.database().exists());
    let ran = place.halter([
        "--config",
        "memory.toml",
        "run",
        "--session",
        "ses_x",
        "hello",
    ]);
    ran.expect(1);
    let hint = ran.json()["error"]["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("memory.toml"), "{hint}");
}

#[test]
fn a_name_with_a_dot_is_quoted_and_has_its_origin() {
    let place = Place::new();
    place.write(
        "dots.toml",
        &format!(
            "{WIDE}[providers.openai.models.\"gpt-5.1\"]\nmax_input_tokens = 100000\n\
             [providers.openai.headers]\n\"X.Team\" = \"a\"\n"
        ),
    );
    let shown = place.halter(["--config", "dots.toml", "config", "show", "--origin"]);
    let lines: Vec<&str> = shown.expect(0).stdout.lines().collect();
    for key in [
        r#"providers.openai.models."gpt-5.1".max_input_tokens = 100000"#,
        r#"providers.openai.headers."X.Team" = "[redacted]""#,
    ] {
        let written = |line: &&str| line.starts_with(&format!("{key}  # explicit "));
        assert!(lines.iter().any(written), "{key}: {lines:#?}");
    }
}
