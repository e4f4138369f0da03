//! Promises that only the whole harness can keep.

use crate::support::{
    bare, directory, in_child, is_child, offline_harness, outcomes, run_turn, session_in, shown,
};
use halter::prelude::*;
use halter::providers::{FakeProvider, Reply};
use halter::session::InMemorySessionStore;
use halter_config::{Environment, ProviderConfig};
use halter_protocol::ToolResult;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const KEY: &str = "sk-0123456789-must-not-appear";

/// A key from the environment and one from the configuration appear in no
/// event, trace, request or command of a session.
#[tokio::test]
async fn invariant_11_keys_stay_where_they_are() {
    let project = directory(&[]);
    let traces = directory(&[]);
    let model = Arc::new(FakeProvider::scripted([
        Reply::new().tool_call("shell", json!({"command": "printenv"})),
        Reply::new().text("That is all I can see."),
    ]));
    let mut config = HarnessConfig::default();
    config.providers.openai = Some(ProviderConfig {
        api_key: Some(KEY.to_owned()),
        ..ProviderConfig::default()
    });
    config.policy.shell.allow = vec!["printenv".to_owned()];
    config.runtime.traces_dir = Some(traces.path().to_owned());
    let environment = Environment::from_iter([
        ("PATH", "/usr/bin:/bin"),
        ("LANG", "C.UTF-8"),
        ("ANTHROPIC_API_KEY", KEY),
        ("HALTER_SOMETHING", KEY),
    ]);
    let harness = Halter::builder()
        .with_config(config)
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_environment(environment)
        .with_provider(model.clone())
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, project.path()).await;
    let events = run_turn(&session, "Show me the environment").await;
    let printed = outcomes(&events)[0]
        .result
        .as_ref()
        .unwrap()
        .to_model_text();
    assert!(
        printed.contains("LANG=C.UTF-8"),
        "the command ran: {printed}"
    );
    let exported = session.export_trace().await.unwrap();
    session.shutdown("done").await.unwrap();
    drop(session);
    harness.shutdown(std::time::Duration::from_secs(5)).await;

    let mut places = BTreeMap::from([
        ("events", serde_json::to_string(&events).unwrap()),
        ("export", exported),
        ("requests", format!("{:?}", model.requests())),
        ("harness", format!("{harness:?}")),
    ]);
    let mut live = String::new();
    for file in std::fs::read_dir(traces.path()).unwrap() {
        live.push_str(&std::fs::read_to_string(file.unwrap().path()).unwrap());
    }
    assert!(live.contains("trace_header"));
    places.insert("live trace", live);
    for (place, text) in places {
        assert!(!text.contains(KEY), "in {place}");
    }
}

/// A whole session, tools and all, prints nothing.
#[tokio::test]
async fn invariant_13_libraries_do_not_print() {
    if is_child() {
        let project = directory(&[("README.md", "# Umbrella\n")]);
        let harness = offline_harness().await;
        let session = session_in(&harness, project.path()).await;
        for request in ["Summarize this repository", "Run `ls`", "Read nowhere.txt"] {
            run_turn(&session, request).await;
        }
        session.shutdown("done").await.unwrap();
        harness.shutdown(std::time::Duration::from_secs(5)).await;
        return;
    }
    let elsewhere = directory(&[]);
    let test = "promises::invariant_13_libraries_do_not_print";
    let output = in_child(test, elsewhere.path(), &[("RUST_LOG", "trace")], "");
    assert!(output.status.success(), "{}", shown(&output));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let printed = String::from_utf8(output.stdout).unwrap();
    let own: Vec<&str> = printed
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("running 1 test"))
        .filter(|line| !line.starts_with("test ") && !line.starts_with("test result:"))
        .collect();
    assert_eq!(own, Vec::<&str>::new());
    let left: Vec<_> = std::fs::read_dir(elsewhere.path()).unwrap().collect();
    assert!(
        left.is_empty(),
        "nothing is written to the directory of the process"
    );
}

/// The libraries ask nobody but their caller: what they know of the process
/// comes in at the places listed here, which are faces.
#[test]
fn invariant_13_libraries_read_no_environment_and_set_no_global() {
    const WORDS: &[&str] = &[
        "env::var(",
        "env::var_os(",
        "env::vars",
        "env::set_var",
        "env::remove_var",
        "env::home_dir",
        "env::args",
        "set_global_default",
        "panic::set_hook",
        "PR_SET_CHILD_SUBREAPER",
        "ctrlc",
        "signal(SignalKind",
    ];
    /// `load_path` and `Environment::capture`.
    const FACES: &[&str] = &["halter-config/src/environment.rs: env::vars"];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&crates).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // The command and the daemon are faces; the test kit and the mock service are programs
        // of tests.
        const FREE: [&str; 4] = [
            "halter-cli",
            "terminal-runtime",
            "halter-testkit",
            "halter-mock",
        ];
        if FREE.contains(&name.as_str()) {
            continue;
        }
        scan(&crates.join(&name).join("src"), &mut |path, text| {
            let code: String = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .collect();
            let path = path.strip_prefix(&crates).unwrap().display().to_string();
            // The entry of a binary is a face.
            if path.ends_with("/src/main.rs") {
                return;
            }
            let uses = WORDS.iter().filter(|word| code.contains(**word));
            found.extend(uses.map(|word| format!("{path}: {word}")));
        });
    }
    assert_eq!(found, FACES);
}

fn scan(directory: &Path, visit: &mut dyn FnMut(&Path, String)) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            scan(&path, visit);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            visit(&path, text);
        }
    }
}

/// Every named limit is named in a test too: at least somebody has thought of
/// its edge.
#[test]
fn invariant_08_no_limit_is_without_a_test() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut limits = Vec::new();
    let mut tested = BTreeSet::new();
    scan(&crates, &mut |path, text| {
        let path = path.strip_prefix(&crates).unwrap().display().to_string();
        let is_test = ["/tests/", "/tests.rs", "/conformance/"]
            .iter()
            .any(|part| path.contains(part));
        if path.ends_with("src/limits.rs") {
            let names = text.lines().filter_map(|line| {
                let (name, _) = line.strip_prefix("pub const ")?.split_once(':')?;
                Some((path.clone(), name.to_owned()))
            });
            limits.extend(names);
        }
        // Some tests are for one system only.
        let within = || {
            let starts = ["#[cfg(test)]", "#[cfg(all(test,"];
            let first = starts.iter().filter_map(|start| text.find(start)).min();
            first.and_then(|first| text.get(first..)).unwrap_or("")
        };
        let tests = if is_test { text.as_str() } else { within() };
        let words = tests.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        tested.extend(words.map(str::to_owned));
    });
    assert!(limits.len() > 100, "{limits:?}");
    limits.retain(|(_, name)| !tested.contains(name));
    assert!(limits.is_empty(), "{limits:#?}");
}

/// The tests that ARCHITECTURE.md names behind its invariants exist.
#[test]
fn every_test_the_architecture_names_exists() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(crates.join("../ARCHITECTURE.md")).unwrap();
    let mut sources = String::new();
    scan(&crates, &mut |_, text| sources.push_str(&text));
    let is_name = |word: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        word.chars().all(plain) && word.matches('_').count() >= 3
    };
    let names: Vec<&str> = page.split('`').filter(|word| is_name(word)).collect();
    assert!(names.len() > 30, "{names:?}");
    let gone: Vec<&&str> = names
        .iter()
        .filter(|name| !sources.contains(&format!("fn {name}(")))
        .collect();
    assert!(gone.is_empty(), "{gone:?}");
}

/// The time of a session runs from its creation, whatever process asks.
#[tokio::test]
async fn a_resumed_session_is_as_old_as_it_is() {
    let directory = directory(&[]);
    let store = Arc::new(InMemorySessionStore::new());
    let build = async |replies: Vec<Reply>| {
        let builder = bare().with_session_store(store.clone());
        let model = FakeProvider::scripted(replies);
        builder
            .with_provider(Arc::new(model))
            .build()
            .await
            .unwrap()
    };
    let call = || Reply::new().tool_call("current_time", json!({}));
    let first = build(vec![Reply::new().text("Hello.")]).await;
    let session = session_in(&first, directory.path()).await;
    let created = Instant::now();
    run_turn(&session, "hello").await;
    session.shutdown("done").await.unwrap();
    let id = session.session_id().clone();
    drop((session, first));
    // The first call loads the tool.
    let second = build(vec![call(), call(), Reply::new().text("Done.")]).await;
    let session = second.runtime().resume(&id).await.unwrap().unwrap();
    let least = created.elapsed();
    let outcomes = outcomes(&run_turn(&session, "what time is it?").await);
    let mut told = outcomes.iter().filter_map(|it| it.result.as_ref().ok());
    let told = told.next().unwrap();
    let ToolResult::Json { value } = told.as_ref() else {
        panic!("{told:?}");
    };
    let age = value["session_seconds"].as_f64().unwrap();
    // Times of the log are in milliseconds.
    assert!(age + 0.002 >= least.as_secs_f64(), "{age} {least:?}");
    session.shutdown("done").await.unwrap();
}
