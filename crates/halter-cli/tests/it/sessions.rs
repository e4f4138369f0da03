use crate::limits::LISTED_SESSIONS;
use crate::place::Place;
use crate::scenarios::stage::{Stage, WIRES};
use halter_protocol::SessionEvent;

#[test]
fn a_session_goes_on_in_another_process() {
    let place = Place::new();
    place.write("notes.txt", "the meeting is at noon\n");
    let id = place.session("read notes.txt");

    let ran = place.halter(["run", "--streaming-json", "--session", &id, "hello"]);
    ran.expect(0);
    let lines = ran.lines();
    assert_eq!(lines[0]["payload"]["kind"], "session_resumed");
    assert_eq!(lines[0]["schema_version"], 1);
    assert!(lines.iter().all(|line| line["session_id"] == id.as_str()));

    let resumed = place.halter(["sessions", "resume", &id, "--text", "read notes.txt"]);
    resumed.expect(0);
    assert!(resumed.stdout.contains("the meeting is at noon"));

    let shown = place.halter(["sessions", "show", &id, "--json"]);
    let events: Vec<SessionEvent> = shown
        .expect(0)
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let sequences: Vec<u64> = events.iter().map(SessionEvent::sequence).collect();
    assert_eq!(sequences, (1..=events.len() as u64).collect::<Vec<_>>());
    let turns = events
        .iter()
        .filter(|event| event.payload.kind() == "turn_completed");
    assert_eq!(turns.count(), 3);
}

#[test]
fn sessions_are_listed_page_by_page() {
    let place = Place::new();
    let mut ids: Vec<String> = ["hello", "help", "hi"]
        .map(|task| place.session(task))
        .into();
    ids.reverse();
    let first = place.halter(["sessions", "list", "--json", "--limit", "2"]);
    let page = first.expect(0).json();
    let cursor = page["next"].as_str().unwrap();
    let second = place.halter(["sessions", "list", "--json", "--cursor", cursor]);
    let rest = second.expect(0).json();
    let listed = [&page["sessions"], &rest["sessions"]]
        .into_iter()
        .flat_map(|sessions| sessions.as_array().unwrap())
        .map(|session| session["session_id"].as_str().unwrap().to_owned());
    assert_eq!(listed.collect::<Vec<_>>(), ids);
    assert!(rest["next"].is_null());

    let text = place.halter(["sessions", "list", "--limit", "2"]);
    assert_eq!(text.expect(0).stdout.lines().count(), 2);
    assert!(text.stderr.contains("--cursor"), "{}", text.stderr);
    place
        .halter(["sessions", "list", "--cursor", "x"])
        .expect(2);
    place.halter(["sessions", "list", "--limit", "0"]).expect(2);
}

#[test]
fn a_page_has_so_many_sessions_unless_another_number_is_asked_for() {
    let place = Place::new();
    place.session("hello");
    let database = rusqlite::Connection::open(place.database()).unwrap();
    let add = |id: usize| {
        let columns = "created_at, updated_at, head, epoch, schema_version, working_dir, title";
        let sql = format!(
            "INSERT INTO sessions (session_id, {columns})
             SELECT 'ses_{id}', {columns} FROM sessions LIMIT 1"
        );
        database.execute_batch(&sql).unwrap();
    };
    let page = || {
        place
            .halter(["sessions", "list", "--json"])
            .expect(0)
            .json()
    };
    (1..LISTED_SESSIONS).for_each(add);
    let listed = page();
    assert_eq!(
        listed["sessions"].as_array().unwrap().len(),
        LISTED_SESSIONS
    );
    assert!(listed["next"].is_null());
    add(LISTED_SESSIONS);
    let listed = page();
    assert_eq!(
        listed["sessions"].as_array().unwrap().len(),
        LISTED_SESSIONS
    );
    assert!(listed["next"].is_string());
}

#[test]
fn a_session_is_shown_for_people() {
    let place = Place::new();
    place.write("notes.txt", "the meeting is at noon\n");
    let id = place.session("read notes.txt");
    let shown = place.halter(["sessions", "show", &id]);
    shown.expect(0);
    for part in [
        id.as_str(),
        "> read notes.txt",
        "✓ read notes.txt",
        "at noon",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
}

/// Prices of the first model are configured, those of the second unknown.
#[test]
fn a_session_shows_what_each_of_its_models_used() {
    let stage = Stage::new(&WIRES[0]);
    stage.configure(
        "[providers.anthropic.models.\"claude-sonnet-4-5\"]\n\
         prices = { input = 2.0, output = 4.0, cache_read = 0.5 }\n",
    );
    let played = stage.play("token_cost_reporting");
    let id = played.session();
    let config = stage.place.root().join("service.toml");
    let halter = |arguments: &[&str]| {
        let named = ["--config", config.to_str().unwrap()];
        let ran = stage.place.halter(named.iter().chain(arguments));
        ran.expect(0);
        ran.stdout
    };
    let shown = halter(&["sessions", "show", &id]);
    let used = "used       1.2k tokens in, 500 out, $0.0042\n\
        cached     16 % of the input, $0.0003 saved\n";
    assert!(shown.ends_with(used), "{shown}");

    halter(&[
        "sessions",
        "resume",
        &id,
        "--model",
        "anthropic/nobody-knows",
        "please mock:token_cost_reporting",
    ]);
    let shown = halter(&["sessions", "show", &id]);
    let used = "used       2.4k tokens in, 1.0k out, more than $0.0042\n  \
        anthropic/claude-sonnet-4-5: 1.2k tokens in, 500 out, $0.0042\n  \
        anthropic/nobody-knows: 1.2k tokens in, 500 out\n\
        cached     16 % of the input, more than $0.0003 saved\n";
    assert!(shown.ends_with(used), "{shown}");
    stage.close();
}

#[test]
fn deleting_needs_a_yes_and_can_be_tried_dry() {
    let place = Place::new();
    let (id, other) = (place.session("hello"), place.session("hi"));
    let refused = place.halter(["sessions", "delete", &id]);
    refused.expect(2);
    assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);

    let dry = place.halter(["sessions", "delete", &id, "--dry-run", "--json"]);
    assert_eq!(dry.expect(0).json()["would_delete"][0], id.as_str());
    place.halter(["sessions", "show", &id]).expect(0);

    let gone = place.halter(["sessions", "delete", &id, "--yes"]);
    assert_eq!(gone.expect(0).stdout, format!("deleted {id}\n"));
    place.halter(["sessions", "show", &other]).expect(0);
    for command in [&["show"][..], &["resume"], &["delete", "--yes"]] {
        let ran = place.halter([&["sessions"], command, &[id.as_str()]].concat());
        let task_missing = command == ["resume"];
        ran.expect(if task_missing { 2 } else { 1 });
    }
    let ran = place.halter(["run", "--session", &id, "hello"]);
    ran.expect(1);
    assert_eq!(ran.json()["error"]["code"], "session_not_found");
    assert!(
        ran.stderr.contains("halter sessions list"),
        "{}",
        ran.stderr
    );
}

#[test]
fn stored_sessions_need_no_key() {
    let place = Place::new();
    let id = place.session("hello");
    place.write(
        "openai.toml",
        "version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"gpt-5\"\n",
    );
    let listed = place.halter(["--config", "openai.toml", "sessions", "list"]);
    assert!(listed.expect(0).stdout.contains(&id));
}

#[test]
fn tools_cannot_reach_what_halter_keeps() {
    let place = Place::new();
    place.session("hello");
    let home = place.home();
    let mut command = place.command(["tools", "call", "read"]);
    command
        .arg(r#"{"path":".local/share/halter/sessions.db"}"#)
        .current_dir(&home);
    let ran = crate::place::finish(command.spawn().unwrap());
    ran.expect(3);
}
