//! Properties: what is written is what is loaded, and an untrusted file never widens.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use halter_config::{HarnessConfig, LoopbackAllow};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::support::{OFFLINE, World, load_text};

type Document = BTreeMap<&'static str, Value>;

fn now<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(work)
}

/// A document as TOML, one dotted key per line.
fn render(document: &Document) -> String {
    let mut text = String::from("version = 1\n");
    for (key, value) in document {
        let value: toml::Value = serde_json::from_value(value.clone()).unwrap();
        text.push_str(&format!("{key} = {value}\n"));
    }
    text
}

fn words(pool: &'static [&'static str]) -> BoxedStrategy<Value> {
    subsequence(pool, 0..=pool.len())
        .prop_shuffle()
        .prop_map(|names| json!(names))
        .boxed()
}

fn word(pool: &'static [&'static str]) -> BoxedStrategy<Value> {
    select(pool).prop_map(|name| json!(name)).boxed()
}

fn number(limit: u64) -> BoxedStrategy<Value> {
    prop_oneof![Just(1), Just(limit), 1..=limit]
        .prop_map(|number| json!(number))
        .boxed()
}

fn flag() -> BoxedStrategy<Value> {
    any::<bool>().prop_map(|flag| json!(flag)).boxed()
}

fn text() -> BoxedStrategy<Value> {
    any::<String>().prop_map(|text| json!(text)).boxed()
}

fn name() -> BoxedStrategy<Value> {
    "[^\\x00\\s][^\\x00]{0,20}"
        .prop_map(|text| json!(text))
        .boxed()
}

fn absolute_path() -> BoxedStrategy<Value> {
    "/[a-zé ]{1,8}(/[a-z$~]{1,8}){0,2}"
        .prop_map(|text| json!(text))
        .boxed()
}

fn loopback() -> BoxedStrategy<Value> {
    let service = (
        select(&["localhost", "127.0.0.1"]),
        proptest::option::of(1u16..4),
    )
        .prop_map(|(host, port)| match port {
            Some(port) => json!({"host": host, "port": port}),
            None => json!({"host": host}),
        });
    proptest::collection::vec(service, 0..4)
        .prop_map(|list| json!(list))
        .boxed()
}

const ROOTS: &[&str] = &[
    ".", "./", "src", "./src/", "..", "/", "/data", "~/notes", "src/..",
];
const PROGRAMS: &[&str] = &["git", "cargo", "ls", "cd", "npm", "curl", "*", "/bin/sh"];
const TOOLS: &[&str] = &["read", "glob", "grep", "write", "shell"];
const HOSTS: &[&str] = &["a.example", "b.example", "*"];
const PATTERNS: &[&str] = &["**/.env", "**/*.pem", "secrets/**"];
const WEEK: u64 = 604_800;

/// Keys where less can be told from more.
fn policy_keys() -> Vec<(&'static str, BoxedStrategy<Value>)> {
    vec![
        ("tools.enabled", words(TOOLS)),
        ("policy.allowed_write_roots", words(ROOTS)),
        ("policy.allowed_read_roots", words(ROOTS)),
        ("policy.sensitive_path_patterns", words(PATTERNS)),
        ("policy.max_read_bytes", number(i64::MAX as u64)),
        ("policy.max_subagent_depth", number(u32::MAX.into())),
        ("policy.max_concurrent_subagents", number(u32::MAX.into())),
        ("policy.shell.enabled", flag()),
        ("policy.shell.allow", words(PROGRAMS)),
        ("policy.shell.timeout_secs", number(WEEK)),
        ("policy.network.enabled", flag()),
        ("policy.network.allowed_hosts", words(HOSTS)),
        ("policy.network.allowed_loopback", loopback()),
    ]
}

fn other_keys() -> Vec<(&'static str, BoxedStrategy<Value>)> {
    let temperature = (0u32..=200)
        .prop_map(|n| json!(f64::from(n) / 100.0))
        .boxed();
    vec![
        (
            "providers.openai.base_url",
            word(&["https://a.example", "http://127.0.0.1:1/v1"]),
        ),
        ("providers.openai.temperature", temperature),
        (
            "providers.anthropic.resilience.timeouts.connect_secs",
            number(WEEK),
        ),
        (
            "providers.anthropic.resilience.request_retry.jitter_pct",
            number(100),
        ),
        ("providers.openrouter.routing.order", words(&["x", "y"])),
        ("providers.openrouter.routing.allow_fallbacks", flag()),
        ("models.default.max_input_tokens", number(u32::MAX.into())),
        (
            "models.default.reasoning",
            word(&["none", "low", "xhigh", "max"]),
        ),
        ("models.default.tokens_per_minute", number(u32::MAX.into())),
        (
            "resources.skills.roots",
            absolute_path().prop_map(|path| json!([path])).boxed(),
        ),
        (
            "resources.plugins.roots",
            absolute_path().prop_map(|path| json!([path])).boxed(),
        ),
        ("prompts.preset", word(&["general", "coding"])),
        ("prompts.system_prompt", text()),
        ("prompts.append_system_prompt", text()),
        (
            "context.compaction_threshold",
            (60_001u64..1 << 40).prop_map(|n| json!(n)).boxed(),
        ),
        (
            "context.pre_compaction_target",
            (1u64..60_000).prop_map(|n| json!(n)).boxed(),
        ),
        ("sessions.durability", word(&["process", "power"])),
        ("runtime.working_dir", absolute_path()),
        ("runtime.traces_dir", absolute_path()),
        ("runtime.subagent_event_forwarding", word(&["off", "all"])),
        (
            "runtime.subagent_event_forwarding_cap",
            number(i64::MAX as u64),
        ),
        ("resilience.timeouts.stream_idle_secs", number(WEEK)),
        ("resilience.request_retry.max_attempts", number(100)),
        (
            "resilience.request_retry.base_backoff_ms",
            number(WEEK * 1000),
        ),
    ]
}

/// Documents with any of the keys.
fn documents(keys: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Document> {
    keys.into_iter()
        .map(|(key, value)| proptest::option::of(value).prop_map(move |value| (key, value)))
        .collect::<Vec<_>>()
        .prop_map(|entries| {
            entries
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?)))
                .collect()
        })
        .boxed()
}

fn whole_documents() -> BoxedStrategy<Document> {
    let mut keys = policy_keys();
    keys.extend(other_keys());
    (documents(keys), name())
        .prop_map(|(mut document, model)| {
            document.insert("models.default.provider", json!("offline"));
            document.insert("models.default.model", model);
            document
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_written_is_what_is_loaded(document in whole_documents()) {
        let text = render(&document);
        let loaded = now(load_text(&text)).unwrap();
        let tree = serde_json::to_value(&loaded.config).unwrap();
        for (key, written) in &document {
            let found = tree.pointer(&format!("/{}", key.replace('.', "/"))).unwrap();
            if key.ends_with("_roots") && key.starts_with("policy") {
                // `~/` is the only thing that changes.
                prop_assert_eq!(found.as_array().unwrap().len(), written.as_array().unwrap().len());
            } else {
                prop_assert_eq!(found, written, "{}", key);
            }
            prop_assert!(loaded.origin(key).location().is_some());
        }
        // Written out and read back it is the same.
        let mut again = now(load_text(toml::to_string(&loaded.config).unwrap())).unwrap();
        again.config.sources = loaded.config.sources.clone();
        // What was a default is now set.
        let (again_policy, policy) = (&mut again.config.policy, &loaded.config.policy);
        again_policy.shell.allow_is_set = policy.shell.allow_is_set;
        again_policy.write_roots_are_set = policy.write_roots_are_set;
        again_policy.read_roots_are_set = policy.read_roots_are_set;
        again_policy.network.is_set = policy.network.is_set;
        again.config.models.default_rates = loaded.config.models.default_rates.clone();
        prop_assert_eq!(again.config, loaded.config);
    }

    #[test]
    fn no_text_makes_loading_panic(text in "\\PC{0,200}") {
        let _ = now(load_text(&text));
        let _ = now(load_text(format!("{OFFLINE}{text}")));
    }

    #[test]
    fn no_bytes_make_loading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = now(load_text(&bytes));
    }

    #[test]
    fn an_untrusted_file_never_widens(user in documents(policy_keys()), project in whole_documents()) {
        let user = format!("{}models.default.provider = \"offline\"\nmodels.default.model = \"offline\"\n", render(&user));
        let world = World::new().user(&user);
        let base = now(world.load()).unwrap().config;
        let world = world.project(&render(&project));
        let loaded = now(world.load()).unwrap();
        assert_part_of(&loaded.config, &base);
        prop_assert!(loaded.warnings.iter().all(|warning| warning.code() == "config_untrusted"));

        // Trusted, the same file counts in full.
        now(world.trust_project());
        prop_assert!(now(world.load()).unwrap().warnings.is_empty());
    }
}

/// Holds one configuration against another, value by value, without the code under test.
fn assert_part_of(part: &HarnessConfig, whole: &HarnessConfig) {
    let (p, w) = (&part.policy, &whole.policy);
    for tool in TOOLS.iter().chain(&["unlisted"]) {
        let sees = |config: &HarnessConfig| {
            config.tools.enabled.is_empty() || config.tools.enabled.iter().any(|name| name == tool)
        };
        assert!(!sees(part) || sees(whole), "tool {tool}");
    }
    for program in PROGRAMS.iter().chain(&["unlisted"]) {
        let runs = |list: &[String]| list.iter().any(|name| name == program || name == "*");
        assert!(
            !runs(&p.shell.allow) || runs(&w.shell.allow),
            "program {program}"
        );
    }
    for host in HOSTS.iter().chain(&["unlisted"]) {
        let reaches = |list: &[String]| list.iter().any(|name| name == host || name == "*");
        assert!(!reaches(&p.network.allowed_hosts) || reaches(&w.network.allowed_hosts));
    }
    for host in ["localhost", "127.0.0.1"] {
        for port in 0..6 {
            let reaches = |list: &[LoopbackAllow]| {
                list.iter()
                    .any(|allow| allow.host == host && allow.port.is_none_or(|own| own == port))
            };
            assert!(!reaches(&p.network.allowed_loopback) || reaches(&w.network.allowed_loopback));
        }
    }
    assert!(!p.shell.enabled || w.shell.enabled);
    assert!(!p.network.enabled || w.network.enabled);
    assert!(p.shell.timeout_secs <= w.shell.timeout_secs);
    assert!(p.max_read_bytes <= w.max_read_bytes);
    assert!(p.max_subagent_depth <= w.max_subagent_depth);
    assert!(p.max_concurrent_subagents <= w.max_concurrent_subagents);
    assert_roots(&p.allowed_write_roots, &w.allowed_write_roots);
    if p.allowed_read_roots.is_empty() {
        assert!(
            w.allowed_read_roots.is_empty(),
            "the built-in roots came back"
        );
    } else if w.allowed_read_roots.is_empty() {
        assert_roots(&p.allowed_read_roots, &[PathBuf::from(".")]);
    } else {
        assert_roots(&p.allowed_read_roots, &w.allowed_read_roots);
    }
    match (&p.sensitive_path_patterns, &w.sensitive_path_patterns) {
        (Some(part), Some(whole)) => assert!(whole.iter().all(|pattern| part.contains(pattern))),
        (part, whole) => assert_eq!(part, whole),
    }
    // All else is untouched.
    let mut rest = part.clone();
    rest.policy = whole.policy.clone();
    rest.tools = whole.tools.clone();
    rest.sources = whole.sources.clone();
    assert_eq!(rest, *whole);
}

fn assert_roots(part: &[PathBuf], whole: &[PathBuf]) {
    let parts = |path: &Path| {
        path.components()
            .filter(|component| *component != Component::CurDir)
            .map(|component| component.as_os_str().to_owned())
            .collect::<Vec<_>>()
    };
    for root in part {
        assert!(
            whole.iter().any(|allowed| parts(allowed) == parts(root)),
            "{root:?} is not in {whole:?}"
        );
    }
}
