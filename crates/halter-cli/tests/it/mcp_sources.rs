//! Where servers come from: `.mcp.json` of a project, plugins, settings.

use crate::mcp::fixture;
use crate::place::{Place, Ran, finish};
use crate::scenarios::stage::{ANTHROPIC, Stage};
use halter_config::limits::MAX_MCP_FILE_SERVERS;
use serde_json::{Value, json};

/// The fixture as an entry of the public format.
pub fn entry(behaviour: &str) -> Value {
    let (program, arguments) = fixture();
    json!({"command": program, "args": arguments, "env": {"MCP_FIXTURE": behaviour}})
}

/// Writes the project's file.
fn project(place: &Place, servers: &Value) {
    let file = json!({"mcpServers": servers});
    place.write(".mcp.json", &file.to_string());
}

fn trust(place: &Place) {
    place.halter(["trust", ".mcp.json", "--yes"]).expect(0);
}

fn listed(place: &Place) -> Value {
    place.halter(["mcp", "list", "--json"]).expect(0).json()
}

#[test]
fn a_trusted_project_brings_its_servers_and_a_changed_one_is_asked_about_again() {
    let stage = Stage::new(&ANTHROPIC[0]);
    stage.configure("[permissions]\nallow = [\"mcp__fixture__echo\"]\n");
    let place = &stage.place;
    project(place, &json!({"fixture": entry("plain")}));
    let refused = stage.play("mcp_stdio");
    assert!(
        !refused
            .tools()
            .contains(&("mcp__fixture__echo".to_owned(), "ok".to_owned()))
    );
    let tested = place.halter(["mcp", "test"]);
    let said = &tested.expect(1).stdout;
    assert!(said.starts_with("unused  fixture: "), "{said}");
    assert!(said.contains("run `halter trust "), "{said}");
    trust(place);
    let played = stage.play("mcp_stdio");
    assert_eq!(played.completed(), "The server said: hello over stdio");
    // One that asks for more than it did is new.
    let mut more = entry("plain");
    more["args"].as_array_mut().unwrap().push(json!("--quiet"));
    project(place, &json!({"fixture": more}));
    let shown = listed(place);
    assert_eq!(shown[0]["state"], "not trusted", "{shown}");
    let ran = place.halter(["run", "--text", "hello"]);
    assert!(
        ran.expect(0).stderr.contains("is new or has changed"),
        "{}",
        ran.stderr
    );
    let revoked = stage.play("mcp_stdio");
    assert!(
        !revoked
            .tools()
            .contains(&("mcp__fixture__echo".to_owned(), "ok".to_owned()))
    );
    stage.close();
}

#[test]
fn what_trusting_starts_is_shown_first() {
    let place = Place::new();
    let entry = json!({"command": "sneaky", "args": ["a\u{1b}[2J", "b"]});
    project(&place, &json!({"x": entry}));
    let asked = place.halter(["trust", ".mcp.json"]);
    let said = &asked.expect(2).stderr;
    assert!(said.contains("starts these servers as you:"), "{said}");
    assert!(said.contains("  x: sneaky a [2J b"), "{said}");
}

#[test]
fn variables_come_from_the_environment_and_a_missing_one_costs_its_server() {
    let place = Place::new();
    let (program, arguments) = fixture();
    let with = |variable: &str| {
        json!({
            "command": "${FIXTURE}", "args": arguments,
            "env": {"MCP_FIXTURE": "${BEHAVIOUR:-plain}", "MORE": variable},
        })
    };
    project(
        &place,
        &json!({"good": with("${HOME}"), "bad": with("${NOT_SET}")}),
    );
    trust(&place);
    let mut command = place.command(["mcp", "test"]);
    let tested = finish(command.env("FIXTURE", program).spawn().unwrap());
    let said = &tested.expect(1).stdout;
    assert!(said.contains("ok      good: "), "{said}");
    assert!(
        said.contains("failed  bad: MCP server `bad`: the variable NOT_SET is not set"),
        "{said}"
    );
}

/// What `mcp list`, `doctor` and a run say of a project's file.
fn told(place: &Place) -> [Ran; 3] {
    [
        vec!["mcp", "list"],
        vec!["doctor"],
        vec!["run", "--text", "hello"],
    ]
    .map(|line| place.halter(line))
}

#[test]
fn a_broken_file_is_told_of_and_blocks_nothing() {
    let many: Value = (0..1000)
        .map(|n| (format!("s{n}"), json!({"command": "x", "type": "odd"})))
        .collect();
    for (text, said) in [
        (
            "{\"mcpServers\": ".to_owned(),
            "it is not JSON: line 1".to_owned(),
        ),
        ("7".to_owned(), "it is not a JSON object".to_owned()),
        ("{}".to_owned(), "it has no `mcpServers`".to_owned()),
        (
            "{\"mcpServers\": [1]}".to_owned(),
            "is not an object of servers".to_owned(),
        ),
        (
            json!({"mcpServers": many}).to_string(),
            format!("{} servers are left out", 1000 - MAX_MCP_FILE_SERVERS),
        ),
        ("\0\u{feff}".to_owned(), "it is not JSON".to_owned()),
    ] {
        let place = Place::new();
        place.write(".mcp.json", &text);
        for ran in told(&place) {
            let all = format!("{}{}", ran.expect(0).stdout, ran.stderr);
            assert!(all.contains(&said), "{text:.40}: {all}");
        }
    }
}

#[test]
fn a_wrong_entry_costs_itself_only() {
    let place = Place::new();
    let hostile = "a\u{1b}]0;owned\u{7}";
    project(
        &place,
        &json!({
            "good": entry("plain"),
            "kind": {"type": "pigeon"},
            "untyped": {"url": "https://x.example"},
            "words": {"command": ["secret-value"]},
            "a__b": entry("plain"),
            hostile: entry("plain"),
            "n".repeat(10_000): entry("plain"),
        }),
    );
    trust(&place);
    let shown = listed(&place);
    let code = |at: usize| shown[at]["problem"]["code"].as_str().unwrap_or("none");
    let codes: Vec<&str> = (0..7).map(code).collect();
    let [entry, name] = ["mcp_entry", "mcp_invalid_name"];
    assert_eq!(codes, ["none", entry, entry, entry, name, name, name]);
    for ran in told(&place) {
        let all = format!("{}{}", ran.expect(0).stdout, ran.stderr);
        for said in [
            "`type` is \"pigeon\"",
            "a `url` without a `type`",
            "`command` is not a text",
            "`a__b` is no name",
        ] {
            assert!(all.contains(said), "{said}: {all}");
        }
        assert!(
            !all.contains("secret-value") && !all.contains('\u{7}'),
            "{all}"
        );
        assert!(!all.contains(&"n".repeat(100)), "{all}");
    }
    let tools = place.halter(["mcp", "tools", "good"]);
    assert!(tools.expect(0).stdout.contains("mcp__good__echo"));
}

#[test]
fn names_with_other_characters_are_made_fit_and_no_two_servers_share_one() {
    let place = Place::new();
    let (first, second) = (entry("plain"), entry("plain"));
    project(&place, &json!({"acme.docs": first, "acme_docs": second}));
    trust(&place);
    let shown = listed(&place);
    let told = |at: usize| (shown[at]["name"].as_str(), shown[at]["state"].as_str());
    assert_eq!(told(0), (Some("acme_docs"), Some("enabled")), "{shown}");
    assert_eq!(told(1), (Some("acme_docs"), Some("not used")), "{shown}");
    assert_eq!(shown[1]["problem"]["code"], "mcp_name_clash");
    let tools = place.halter(["mcp", "tools", "acme.docs"]);
    assert!(tools.stdout.contains("mcp__acme_docs__echo"), "{tools:?}");
    let ran = place.halter(["run", "--text", "hello"]);
    assert!(ran.expect(0).stderr.contains("does not count"), "{ran:?}");
}

#[test]
fn tools_are_listed_whichever_other_server_is_broken() {
    let place = Place::new();
    let servers = json!({
        "dead": entry("dies_at_start"),
        "good": entry("plain"),
        "missing": {"command": "no-such-program-anywhere"},
    });
    project(&place, &servers);
    trust(&place);
    let all = place.halter(["mcp", "tools"]);
    assert!(all.expect(1).stdout.contains("mcp__good__echo"), "{all:?}");
    let offered = place.halter(["tools", "list"]);
    let listed = &offered.expect(0).stdout;
    assert!(listed.contains("mcp__good__echo"), "{offered:?}");
    for ran in [&all, &offered] {
        for said in [
            "no such database",
            "MCP server `missing` could not be started",
        ] {
            assert!(ran.stderr.contains(said), "{said}: {ran:?}");
        }
    }
}

#[test]
fn settings_count_before_the_project_and_can_switch_its_servers_off() {
    let place = Place::new();
    project(&place, &json!({"x": entry("plain"), "y": entry("plain")}));
    trust(&place);
    let settings =
        "version = 1\n[mcp.servers.x]\ncommand = \"mine\"\n[mcp.servers.y]\nenabled = false\n";
    let file = place.root().join("own.toml");
    std::fs::write(&file, settings).unwrap();
    let list = ["--config", file.to_str().unwrap(), "mcp", "list", "--json"];
    let shown = place.halter(list).expect(0).json();
    let told: Vec<_> = shown
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            (
                it["name"].as_str().unwrap(),
                it["state"].as_str().unwrap(),
                it["problem"]["code"].as_str(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("x", "enabled", None),
            ("y", "disabled", None),
            ("x", "not used", Some("mcp_name_clash")),
            ("y", "disabled", None),
        ]
    );
}

#[test]
fn what_a_file_says_beside_the_program_counts_and_what_nothing_reads_is_named() {
    let place = Place::new();
    let mut boxed = entry("plain");
    boxed["sandbox"] = json!(true);
    boxed["tools"] = json!(["echo"]);
    let mut odd = entry("plain");
    odd["sandboxed"] = json!(true);
    let mut off = entry("plain");
    off["disabled"] = json!(true);
    project(&place, &json!({"boxed": boxed, "odd": odd, "off": off}));
    trust(&place);
    let tested = place.halter(["mcp", "test"]);
    let said = format!("{}{}", tested.stdout, tested.stderr);
    let line = |name: &str| {
        let mut lines = tested.stdout.lines();
        lines.find(|line| line.contains(name)).map(str::to_owned)
    };
    // In a sandbox, or where there is none not at all.
    let boxed = line(" boxed: ").unwrap();
    let contained = boxed.contains("1 tool, ") && boxed.contains("in a sandbox");
    assert!(
        contained || boxed.contains("has no sandbox to run in"),
        "{said}"
    );
    assert_eq!(line(" off: "), None, "{said}");
    let ran = place.halter(["run", "--text", "hello"]);
    let told = "MCP server `odd` (";
    assert!(ran.expect(0).stderr.contains(told), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("nothing reads `sandboxed`"),
        "{}",
        ran.stderr
    );
}
